"""The rules of the algebraic simplifier, by subject: each a small function in a table with its name."""

from __future__ import annotations

from .arithmetic import RULES as ARITHMETIC
from .columns import RULES as COLUMNS
from .dot import RULES as DOT
from .fast_math import RULES as FAST_MATH_RULES
from .indexing import RULES as INDEXING
from .logical import RULES as LOGICAL
from .motion import RULES as MOTION
from .movement import RULES as MOVEMENT
from .reduction import RULES as REDUCTION
from .rewriter import Rewriter, Rule
from .squeeze import RULES as SQUEEZE
from .updates import RULES as UPDATES

__all__ = ["ALL_RULES", "FAST_MATH_RULES", "Rewriter", "Rule"]

ALL_RULES: tuple[Rule, ...] = (
    *ARITHMETIC,
    *LOGICAL,
    *INDEXING,
    *MOVEMENT,
    *COLUMNS,
    *UPDATES,
    *MOTION,
    *REDUCTION,
    *DOT,
    *SQUEEZE,
)
