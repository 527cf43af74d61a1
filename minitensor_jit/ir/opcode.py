"""The opcodes of the IR, one row each: kind, arity and attributes.

Everything that asks "is this elementwise", "does it only move data" or "which attributes may it have" reads this table.
Shape rules are in `infer/`, meanings in `evaluate/evaluator.py`; a completeness test holds them against each other.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = [
    "COLLECTIVES",
    "CUSTOM_CALLS",
    "NATIVE_RANGE",
    "OPCODES",
    "Opcode",
    "Trait",
    "has_native_range",
    "is_elementwise",
    "opcode_of",
    "opcodes_with",
]


class Trait(enum.Flag):
    """What passes and code generation ask of an opcode beside its kind."""

    NONE = 0

    # The result is the operand under another shape, type or name. Where memory is assigned it needs none of its own.
    FORWARDS = enum.auto()
    # No code of its own, and no bytes move.
    FREE = enum.auto()
    # The elements of an array in the same order, as one row.
    SAME_ORDER = enum.auto()
    # An element of the result is an element of the first operand, at another index.
    REINDEXES = enum.auto()
    # It moves elements by a rule that is known when it is compiled, and computes nothing.
    MOVES = enum.auto()
    # An element of the result is one of one operand or of another; a vector of elements may need both.
    CHOOSES = enum.auto()
    # An element of the result can be computed by itself, in a loop with others. So can those of elementwise opcodes.
    PER_ELEMENT = enum.auto()
    # It may be computed although nobody may need it: it has no effect, can't fail, and is worth moving.
    HOISTABLE = enum.auto()
    # The evaluator doesn't promise the bits of compiled code, or doesn't know it.
    INEXACT = enum.auto()
    # Python computes it for compiled code.
    HOST = enum.auto()
    # Compiled code may fail in it, for want of memory if not for its operands. Products never do.
    FALLIBLE = enum.auto()
    # Passes write it in other opcodes before there is code.
    EXPANDED = enum.auto()


FORWARDS, FREE, SAME_ORDER = Trait.FORWARDS, Trait.FREE, Trait.SAME_ORDER
REINDEXES, MOVES, CHOOSES, PER_ELEMENT = Trait.REINDEXES, Trait.MOVES, Trait.CHOOSES, Trait.PER_ELEMENT
HOISTABLE, INEXACT, HOST, FALLIBLE, EXPANDED = (
    Trait.HOISTABLE,
    Trait.INEXACT,
    Trait.HOST,
    Trait.FALLIBLE,
    Trait.EXPANDED,
)


@dataclass(frozen=True, slots=True)
class Opcode:
    """One row: `arity` is None where the number of operands varies."""

    name: str
    # Elementwise are unary, binary, ternary and elementwise; the others: source, movement, reduction, contraction,
    # index, linalg, kernel, collective, tuple, call.
    kind: str
    arity: int | None
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    dtypes: str = "biufc"  # element kinds of the operands, for elementwise opcodes
    uncompiled: str = ""  # element kinds that it also has, and that passes write in other opcodes for code
    transcendental: bool = False  # an approximation: its bits differ between NumPy and compiled code, and it is costly
    commutative: bool = False
    traits: Trait = Trait.NONE


_ROWS: Final = (
    # sources
    Opcode("parameter", "source", 0, traits=FREE),
    Opcode("constant", "source", 0, traits=FREE | PER_ELEMENT),
    Opcode("iota", "source", 0, ("iota_dimension",), traits=PER_ELEMENT),
    # elementwise, one operand
    Opcode("abs", "unary", 1, dtypes="iufc"),
    Opcode("real", "unary", 1, dtypes="c"),
    Opcode("imag", "unary", 1, dtypes="c"),
    Opcode("negate", "unary", 1, dtypes="iufc"),
    Opcode("sign", "unary", 1, dtypes="iuf", uncompiled="c"),
    Opcode("not", "unary", 1, dtypes="biu"),
    Opcode("floor", "unary", 1, dtypes="f"),
    Opcode("ceil", "unary", 1, dtypes="f"),
    Opcode("round-nearest-even", "unary", 1, dtypes="f"),
    Opcode("round-nearest-afz", "unary", 1, dtypes="f"),
    Opcode("is-finite", "unary", 1, dtypes="f"),
    Opcode("sqrt", "unary", 1, dtypes="f", uncompiled="c"),
    Opcode("rsqrt", "unary", 1, dtypes="f", uncompiled="c", traits=INEXACT),
    Opcode("exponential", "unary", 1, dtypes="f", uncompiled="c", transcendental=True),
    Opcode("exponential-minus-one", "unary", 1, dtypes="f", uncompiled="c", transcendental=True),
    Opcode("log", "unary", 1, dtypes="f", uncompiled="c", transcendental=True),
    Opcode("log-plus-one", "unary", 1, dtypes="f", uncompiled="c", transcendental=True),
    Opcode("tanh", "unary", 1, dtypes="f", uncompiled="c", transcendental=True),
    Opcode("logistic", "unary", 1, dtypes="f", uncompiled="c", transcendental=True),
    Opcode("sine", "unary", 1, dtypes="f", uncompiled="c", transcendental=True),
    Opcode("cosine", "unary", 1, dtypes="f", uncompiled="c", transcendental=True),
    *(
        Opcode(name, "unary", 1, dtypes="", uncompiled=kinds, transcendental=True)
        for name, kinds in (
            ("tan", "fc"),
            ("erf", "f"),
            ("cbrt", "f"),
            ("acos", "fc"),
            ("acosh", "fc"),
            ("asin", "fc"),
            ("asinh", "fc"),
            ("atanh", "fc"),
            ("sinh", "fc"),
            ("cosh", "fc"),
        )
    ),
    Opcode("reduce-precision", "unary", 1, ("exponent_bits", "mantissa_bits"), dtypes="f"),
    Opcode("popcnt", "unary", 1, dtypes="iu"),
    Opcode("count-leading-zeros", "unary", 1, dtypes="iu"),
    Opcode("copy", "unary", 1, traits=FORWARDS),
    Opcode("convert", "unary", 1),
    Opcode("bitcast-convert", "unary", 1),
    # elementwise, two operands
    Opcode("add", "binary", 2, dtypes="biufc", commutative=True),
    Opcode("subtract", "binary", 2, dtypes="iufc"),
    Opcode("multiply", "binary", 2, dtypes="biufc", commutative=True),
    Opcode("divide", "binary", 2, dtypes="iufc"),
    Opcode("remainder", "binary", 2, dtypes="iuf"),
    Opcode("power", "binary", 2, dtypes="iuf", uncompiled="c", transcendental=True),
    Opcode("atan2", "binary", 2, dtypes="f", transcendental=True),
    Opcode("complex", "binary", 2, dtypes="f"),
    Opcode("maximum", "binary", 2, dtypes="biuf", commutative=True),
    Opcode("minimum", "binary", 2, dtypes="biuf", commutative=True),
    Opcode("and", "binary", 2, dtypes="biu", commutative=True),
    Opcode("or", "binary", 2, dtypes="biu", commutative=True),
    Opcode("xor", "binary", 2, dtypes="biu", commutative=True),
    Opcode("shift-left", "binary", 2, dtypes="iu"),
    Opcode("shift-right-logical", "binary", 2, dtypes="iu"),
    Opcode("shift-right-arithmetic", "binary", 2, dtypes="iu"),
    Opcode("compare", "binary", 2, ("direction",), ("type",)),
    # elementwise, three operands
    Opcode("select", "ternary", 3),
    Opcode("clamp", "ternary", 3, dtypes="iuf"),
    # elementwise, by a function outside of the module; in the text it is a custom-call
    Opcode("elementwise-call", "elementwise", None, ("custom_call_target",), transcendental=True),
    # data movement
    Opcode("broadcast", "movement", 1, ("dimensions",), traits=REINDEXES | MOVES | PER_ELEMENT),
    Opcode("reshape", "movement", 1, traits=FORWARDS | FREE | SAME_ORDER | REINDEXES | MOVES | PER_ELEMENT),
    Opcode("bitcast", "movement", 1, traits=FORWARDS | FREE | SAME_ORDER | REINDEXES | MOVES),
    # a bitcast-convert to elements of another size, which changes the last dimension; the text has one name for both
    Opcode("bitcast-reinterpret", "movement", 1, traits=FORWARDS | FREE),
    Opcode("transpose", "movement", 1, ("dimensions",), traits=REINDEXES | MOVES | PER_ELEMENT | HOISTABLE),
    Opcode("slice", "movement", 1, ("slice",), traits=REINDEXES | MOVES | PER_ELEMENT | HOISTABLE),
    Opcode("concatenate", "movement", None, ("dimensions",), traits=CHOOSES | PER_ELEMENT | HOISTABLE),
    Opcode("pad", "movement", 2, ("padding",), traits=MOVES | CHOOSES | PER_ELEMENT | HOISTABLE),
    Opcode("reverse", "movement", 1, ("dimensions",), traits=REINDEXES | MOVES | PER_ELEMENT | HOISTABLE),
    Opcode("dynamic-slice", "index", None, ("dynamic_slice_sizes",), traits=REINDEXES | PER_ELEMENT | HOISTABLE),
    Opcode("dynamic-update-slice", "index", None, traits=CHOOSES | PER_ELEMENT | HOISTABLE),
    Opcode(
        "gather",
        "index",
        2,
        ("offset_dims", "collapsed_slice_dims", "start_index_map", "index_vector_dim", "slice_sizes"),
        ("indices_are_sorted", "operand_batching_dims", "start_indices_batching_dims"),
        traits=REINDEXES | PER_ELEMENT | HOISTABLE,
    ),
    Opcode(
        "scatter",
        "index",
        None,
        ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims", "index_vector_dim", "to_apply"),
        ("indices_are_sorted", "unique_indices", "input_batching_dims", "scatter_indices_batching_dims"),
        traits=HOISTABLE,
    ),
    # reductions and contractions
    Opcode("reduce", "reduction", None, ("dimensions", "to_apply"), traits=HOISTABLE),
    Opcode(
        "sort", "reduction", None, ("dimensions", "to_apply"), ("is_stable",), traits=HOISTABLE | INEXACT | FALLIBLE
    ),
    Opcode(
        "dot",
        "contraction",
        2,
        (),
        (
            "lhs_batch_dims",
            "lhs_contracting_dims",
            "rhs_batch_dims",
            "rhs_contracting_dims",
            "operand_precision",
            "algorithm",
        ),
        traits=HOISTABLE | INEXACT,
    ),
    Opcode("reduce-window", "reduction", None, ("window", "to_apply"), traits=HOISTABLE | INEXACT | EXPANDED),
    Opcode("select-and-scatter", "reduction", 3, ("window", "select", "scatter"), traits=INEXACT | EXPANDED),
    Opcode("topk", "reduction", 1, ("k", "largest"), ("to_apply",), traits=FALLIBLE),
    Opcode("map", "reduction", None, ("dimensions", "to_apply"), traits=INEXACT | EXPANDED),
    Opcode(
        "convolution",
        "contraction",
        2,
        ("dim_labels",),
        ("window", "feature_group_count", "batch_group_count", "operand_precision", "algorithm"),
        traits=HOISTABLE | INEXACT | EXPANDED,
    ),
    Opcode("fft", "linalg", 1, ("fft_type", "fft_length"), traits=HOISTABLE | INEXACT | HOST | FALLIBLE),
    Opcode("cholesky", "linalg", 1, (), ("lower",), traits=INEXACT | HOST | FALLIBLE),
    Opcode(
        "triangular-solve",
        "linalg",
        2,
        (),
        ("left_side", "lower", "unit_diagonal", "transpose_a"),
        traits=INEXACT | HOST | FALLIBLE,
    ),
    Opcode("rng", "linalg", 2, ("distribution",), traits=EXPANDED),
    Opcode("rng-bit-generator", "linalg", 1, ("algorithm",), traits=HOST | FALLIBLE),
    # a function outside of the module on whole arrays; in the text it is a custom-call
    Opcode(
        "kernel-call",
        "kernel",
        None,
        ("custom_call_target", "backend_config"),
        ("custom_call_has_side_effect",),
        traits=INEXACT | FALLIBLE,
    ),
    # collectives: what several devices compute together
    *(
        Opcode(
            name,
            "collective",
            None,
            required,
            ("channel_id", *optional, "constrain_layout"),
            traits=INEXACT | HOST | FALLIBLE,
        )
        for name, required, optional in (
            ("all-reduce", ("to_apply",), ("replica_groups", "use_global_device_ids")),
            # The two halves of one: it is on its way between them, and only the second one's result has its values.
            ("all-reduce-start", ("to_apply",), ("replica_groups", "use_global_device_ids")),
            ("all-reduce-done", (), ()),
            ("all-gather", ("dimensions",), ("replica_groups", "use_global_device_ids")),
            ("reduce-scatter", ("dimensions", "to_apply"), ("replica_groups", "use_global_device_ids")),
            ("all-to-all", (), ("replica_groups", "dimensions")),
            ("collective-permute", ("source_target_pairs",), ()),
            ("collective-broadcast", (), ("replica_groups",)),
        )
    ),
    Opcode("partition-id", "source", 0, traits=HOST | FALLIBLE),
    Opcode("replica-id", "source", 0, traits=HOST | FALLIBLE),
    # tuples and calls
    # any other function outside of the module: custom_calls.py has a registry of them
    Opcode(
        "custom-call",
        "kernel",
        None,
        ("custom_call_target",),
        (
            "backend_config",
            "operand_layout_constraints",
            "output_to_operand_aliasing",
            "api_version",
            "custom_call_has_side_effect",
            "called_computations",
            "schedule",
        ),
        traits=INEXACT | HOST | FALLIBLE,
    ),
    Opcode("tuple", "tuple", None, traits=FREE | INEXACT),
    Opcode("opt-barrier", "tuple", 1, traits=FORWARDS),
    Opcode("get-tuple-element", "tuple", 1, ("index",), traits=FREE | INEXACT),
    Opcode("call", "call", None, ("to_apply",), traits=INEXACT),
    Opcode("fusion", "call", None, ("kind", "calls"), (), traits=INEXACT),
    Opcode("while", "call", 1, ("condition", "body"), traits=INEXACT),
    Opcode(
        "conditional",
        "call",
        None,
        (),
        ("branch_computations", "true_computation", "false_computation"),
        traits=INEXACT,
    ),
)

OPCODES: Final[dict[str, Opcode]] = {row.name: row for row in _ROWS}

# Those in which other devices wait for this one: each has them all, in one order.
COLLECTIVES: Final = frozenset(row.name for row in _ROWS if row.kind == "collective")

# Opcodes that are a custom-call in the text, by what the name of its target begins with.
CUSTOM_CALLS: Final = {"mt.elementwise.": "elementwise-call", "mt.kernel.": "kernel-call", "": "custom-call"}

# Attributes that any instruction may carry.
ANYWHERE: Final = (
    "backend_config",
    "frontend_attributes",
    "sharding",
    "control-predecessors",
    "origin",
    "statistics",
    "parameter_replication",
    "result_accuracy",
)


# A convert says with this that floats which no integer of its type has become what the core makes of them
# (docs/numerics.md). Without it they become the nearest integer, and NaN zero, as in XLA.
NATIVE_RANGE: Final = {"frontend_attributes": '{out_of_range="native"}'}


def has_native_range(attrs: Mapping[str, Any]) -> bool:
    """Whether a convert with these attributes has it."""
    return attrs.get("frontend_attributes") == NATIVE_RANGE["frontend_attributes"]


def opcode_of(name: str) -> Opcode:
    """The row of an opcode; raises `ValueError` with the nearest known names for an unknown one."""
    try:
        return OPCODES[name]
    except KeyError:
        from difflib import get_close_matches

        near = get_close_matches(name, OPCODES, n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(f"unknown opcode {name!r}{hint}") from None


def is_elementwise(opcode: str) -> bool:
    """Whether each element of the result depends on the same element of each operand only."""
    return OPCODES[opcode].kind in ("unary", "binary", "ternary", "elementwise")


def opcodes_with(traits: Trait) -> frozenset[str]:
    """The opcodes that have one of the traits."""
    return frozenset(row.name for row in _ROWS if row.traits & traits)
