"""Opcodes that code generation has no kernel for, written with those that it has: one family of rules a file.

A rule takes an instruction and a builder, and gives the instruction that replaces it, or None where it does not apply.
"""

from __future__ import annotations

from typing import Final

from .complex_numbers import COMPLEX_RULES
from .indexing import INDEXING_RULES
from .linalg import LINALG_RULES
from .products import PRODUCT_RULES
from .random_bits import RANDOM_RULES
from .rule import Rule
from .scalars import SCALAR_RULES
from .windows import WINDOW_RULES, convolution_as_product

__all__ = ["RULES", "RULES_WITHOUT_KERNELS", "Rule"]

# By opcode; the first rule that applies is taken.
RULES: Final[dict[str, list[Rule]]] = {}
for _family in (SCALAR_RULES, COMPLEX_RULES, LINALG_RULES, INDEXING_RULES, PRODUCT_RULES, WINDOW_RULES, RANDOM_RULES):
    for _opcode, _rule in _family.items():
        RULES.setdefault(_opcode, []).append(_rule)

# Those of targets that have no kernels of whole arrays to call.
RULES_WITHOUT_KERNELS: Final[dict[str, list[Rule]]] = {
    **RULES,
    "convolution": [convolution_as_product],
    "triangular-solve": [],
}
