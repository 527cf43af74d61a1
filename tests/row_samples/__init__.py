"""Sample arguments for every row of the op table.

A form is a tuple of arguments, in the row's order; `Operand`s in it become tensors of the dtype that is being tested,
and of the layout they ask for. Rows of the elementwise kind share their forms; every other row has forms of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import minitensor as mt
from row_samples import linalg, nn, pointwise, reduction
from row_samples.shape import DISTINCT, shape_forms

DTYPES = ("bool", "uint8", "int32", "int64", "float32", "float64")
OTHER_DTYPES = ("int8", "int16", "uint16", "uint32", "uint64", "float16", "bfloat16", "complex64", "complex128")
"""Those that kernels convert from and to, and complex numbers."""
FLOATS = ("float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")


@dataclass(frozen=True)
class Operand:
    """A tensor operand. Layouts: transposed, strided, expanded, and contiguous, which is the usual one. Contiguous too:
    finite (never a special number), and definite (matrices that are symmetric and positive-definite)."""

    shape: tuple[int, ...]
    layout: str = "contiguous"
    dtype: str | None = None
    below: int | None = None
    """Of an index: what its values are below."""

    def make(self, rng: np.random.Generator, dtype: str, domain: str) -> Any:
        """The tensor."""
        dtype, shape = self.dtype or dtype, self.shape
        if dtype == "bfloat16":  # which NumPy lacks
            return replace(self, dtype="float32").make(rng, "float32", domain).to(mt.bfloat16)
        if self.layout in ("finite", "definite"):
            domain = "normal"
        if self.layout == "definite":
            array = rng.normal(size=shape)
            return mt.tensor((array @ array.swapaxes(-1, -2) + np.eye(shape[-1])).astype(dtype))
        if self.layout == "transposed":
            array = self.values(rng, shape[::-1], dtype, domain)
            return mt.tensor(array).permute(*reversed(range(len(shape))))
        if self.layout == "strided":
            array = self.values(rng, tuple(2 * n + 1 for n in shape), dtype, domain)
            return mt.tensor(array)[tuple(slice(1, None, 2) for _ in shape)]
        if self.layout == "expanded":
            return mt.tensor(self.values(rng, (1, *shape[1:]), dtype, domain)).expand(shape)
        return mt.tensor(self.values(rng, shape, dtype, domain))

    def values(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: str, domain: str) -> np.ndarray:
        """Numbers of the domain: "special" ones with NaN, infinities and zeros, or those where the op is smooth."""
        if self.below is not None:
            return rng.integers(0, self.below, shape).astype(dtype)
        if dtype == "bool":
            return rng.random(shape) < 0.5
        if dtype in COMPLEX:
            parts = [self.values(rng, shape, "float32" if dtype == "complex64" else "float64", domain) for _ in "ri"]
            joined = np.empty(shape, dtype)
            joined.real, joined.imag = parts
            return joined
        if dtype not in FLOATS:
            info = np.iinfo(dtype)
            x = rng.integers(max(int(info.min), -20), 20, shape).astype(dtype)
            if domain == "special" and x.size:
                flat = x.reshape(-1)
                flat[rng.integers(0, x.size, 1 + x.size // 8)] = rng.choice(
                    np.array([info.min, info.max, 0], dtype), 1 + x.size // 8
                )
            return x
        if domain in INTERVALS:
            return rng.uniform(*INTERVALS[domain], shape).astype(dtype)
        x = rng.normal(size=shape).astype(dtype) * 2
        if domain == "distinct":  # at a distance from each other and from zero, and from halves and whole numbers
            x = (rng.permutation(x.size).reshape(shape) - x.size // 2 + 0.3 + 0.1 * rng.random(shape)).astype(dtype)
        if domain == "special" and x.size:
            flat = x.reshape(-1)
            odd = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -3e38, 0.5, -0.5, 2.5, 1.0, -1.0, 100.0]
            with np.errstate(over="ignore"):
                flat[rng.integers(0, x.size, 1 + x.size // 4)] = rng.choice(
                    np.array(odd).astype(dtype), 1 + x.size // 4
                )
        return x


def op(*shape: int, **more: Any) -> Operand:
    """An operand of that shape."""
    return Operand(shape, **more)


def index(*shape: int, below: int, dtype: str = "int64") -> Operand:
    """An index tensor with values below a bound."""
    return Operand(shape, dtype=dtype, below=below)


Form = tuple[Any, ...]
# Domains by their interval.
INTERVALS = {"positive": (0.3, 2.0), "unit": (-0.9, 0.9), "fraction": (0.1, 0.9), "above": (1.2, 3.0)}

ONE = [
    op(),
    op(7),
    op(33),
    op(4, 5),
    op(2, 3, 4),
    op(0),
    op(3, 0),
    op(1, 1),
    op(4, 5, layout="transposed"),
    op(6, 4, layout="strided"),
    op(5, 3, layout="expanded"),
    op(2, 70, layout="strided"),
]
UNARY: list[Form] = [(x,) for x in ONE]
TWO_TENSORS: list[Form] = [
    (op(4, 5), op(4, 5)),
    (op(4, 5), op(5)),
    (op(4, 1), op(1, 5)),
    (op(), op(3)),
    (op(2), op()),
    (op(0, 3), op(1, 3)),
    (op(), op()),
    (op(4, 5, layout="transposed"), op(4, 5)),
    (op(6, 4), op(6, 4, layout="strided")),
    (op(5, 3, layout="expanded"), op(3)),
    (op(2, 3, 4), op(3, 1)),
    (op(35), op(35)),
]
BINARY: list[Form] = [*TWO_TENSORS, (op(4, 5), 2), (3, op(5)), (op(0), 2), (op(), 7)]
NUMBERS: list[Form] = [(op(4, 5), 2), (3, op(5)), (op(7), 0.5), (1.5, op(2, 3)), (op(3), -1), (op(), 1.25)]
REDUCED: list[Form] = [
    (op(4, 5),),
    (op(4, 5), 0),
    (op(4, 5), [1], True),
    (op(2, 3, 4), [0, 2]),
    (op(2, 3, 4), (1,), True),
    (op(),),
    (op(7), 0),
    (op(3, 70), -1),
    (op(70, 3), 0),
    (op(4, 5, layout="transposed"), 1),
    (op(6, 4, layout="strided"), 0),
    (op(5, 3, layout="expanded"), 0),
    (op(1, 1, 3), 1),
]
EMPTY_REDUCED: list[Form] = [(op(0),), (op(0, 3), 0), (op(3, 0), 1, True), (op(3, 0), 0)]
ONE_DIM: list[Form] = [
    (op(4, 5), 0),
    (op(4, 5), 1, True),
    (op(2, 3, 4), -2),
    (op(9), 0),
    (op(4, 5, layout="transposed"), 1),
    (op(0, 3), 1),
    (op(3, 40), 1),
]
POWERS: list[Form] = [(op(4, 5), e) for e in (0, 1, 2, 3, 0.5, -1, 2.5)] + [
    (op(3), op(3)),
    (2.0, op(3)),
    (op(2, 1), op(3)),
]

FORMS: dict[str, list[Form]] = {
    "_addmm": [
        (op(3, 5), op(3, 4), op(4, 5), 1.0, 1.0),
        (op(5), op(3, 4), op(4, 5), 0.5, 1.0),
        (op(1), op(3, 40), op(40, 1), 1.0, -2.0),
        (op(), op(1, 40), op(40, 70), 1.0, 1.0),
        (op(130, 1), op(130, 40), op(40, 140), 1.0, 3.0),
        (op(140), op(2, 65, 40), op(40, 140, layout="transposed"), 1.0, 1.0),
        (op(3, 5, layout="transposed"), op(3, 0), op(0, 5), 2.0, 1.0),
        (op(5), op(0, 4), op(4, 5), 1.0, 1.0),
    ],
    "matmul": [
        (op(3, 4), op(4, 5)),
        (op(4), op(4)),
        (op(3, 4), op(4)),
        (op(4), op(4, 5)),
        (op(2, 3, 4), op(4, 5)),
        (op(2, 3, 4), op(2, 4, 5)),
        (op(2, 1, 3, 4), op(3, 4, 2)),
        (op(3, 4, layout="transposed"), op(4, 5, layout="transposed")),
        (op(0, 4), op(4, 3)),
        (op(3, 0), op(0, 2)),
        (op(17, 40), op(40, 33)),
        (op(2, 3, 4), op(4)),
        (op(5, 3, layout="expanded"), op(3, 2)),
    ],
    "full": [((2, 3), 1.5), ((), 2), ((0,), 1), ((4,), True), ((2,), float("nan"))],
    "arange": [(0, 5), (0, 7, 2), (-3, 3, 1), (0, 10, 3)],
    "eye": [(4,), (2, 5), (0,), (3, 1)],
    "linspace": [(0.0, 1.0, 5), (1.0, -1.0, 4), (0.0, 1.0, 1)],
    "where": [
        (op(4, 5, dtype="bool"), op(4, 5), op(4, 5)),
        (op(5, dtype="bool"), op(4, 5), op(4, 1)),
        (op(3, dtype="bool"), op(3), 2.0),
        (op(2, 3, dtype="bool"), 1, op(3)),
        (op(0, dtype="bool"), op(0), op(0)),
        (op(dtype="bool"), op(3), op(3)),
        (op(4, 5, dtype="bool", layout="transposed"), op(4, 5, layout="strided"), op(5)),
    ],
    "clamp": [
        (op(4, 5), -0.5, 1.0),
        (op(7), 0, None),
        (op(7), None, 1),
        (op(), -1, 1),
        (op(0), 0, 1),
        (op(4, 5, layout="transposed"), 0, 2),
    ],
    "cast": [(x, to) for x in (op(4, 5), op(3, 2, layout="transposed"), op(), op(0)) for to in DTYPES],
    "fill": [],  # in place only: tests of recording have it
    "copy": [],
    "gather": [
        (op(5, 4), index(0, below=5), 0),
        (op(2, 3, 4), index(2, 3, 2, below=4), -1),
        (op(4, 5), index(4, 3, below=5), 1),
        (op(4, 5), index(2, 5, below=4), 0),
        (op(7), index(3, below=7), 0),
        (op(2, 3, 4), index(2, 2, 4, below=3), 1),
        (op(4, 5, layout="transposed"), index(4, 1, below=5, dtype="int32"), 1),
        (op(4, 5), index(0, 5, below=4), 0),
        *((op(*x), index(*at, below=1), 0) for x, at in (((), ()), ((), (1,)), ((1,), ()))),
    ],
    "scatter_add": [
        (op(2, 3, 4), index(2, 3, 2, below=4), op(2, 3, 2), -1),
        (op(4, 5), index(4, 3, below=5), op(4, 3), 1),
        (op(4, 5), index(6, 5, below=4), op(6, 5), 0),
        (op(7), index(30, below=7), op(30), 0),
        (op(4, 5, layout="transposed"), index(4, 2, below=5), op(4, 3), 1),
        (op(3), index(0, below=3), op(0), 0),
        *((op(*x), index(*at, below=1), op(*at), 0) for x, at in (((), ()), ((), (1,)), ((1,), ()))),
    ],
    "index_select": [
        (op(2, 3, 4), index(2, 2, below=3), -2),
        (op(4, 5), index(3, below=5), 1),
        (op(4, 5), index(6, below=4, dtype="int32"), 0),
        (op(7), index(2, 3, below=7), 0),
        (op(4, 5, layout="transposed"), index(3, below=4), 0),
        (op(4, 5), index(0, below=4), 0),
    ],
    "index_add": [
        (op(2, 3, 4), index(5, below=3), op(2, 5, 4), -2),
        (op(4, 5), index(3, below=5), op(4, 3), 1),
        (op(4, 5), index(6, below=4), op(6, 5), 0),
        (op(4, 5, layout="transposed"), index(2, below=4), op(2, 5), 0),
        (op(4, 5), index(0, below=4), op(0, 5), 0),
    ],
    "index_copy": [
        (op(2, 3, 4), index(1, below=3), op(2, 1, 4), -2),
        (op(6, 5), index(1, below=6), op(1, 5), 0),
        (op(4, 5), index(1, below=5), op(4, 1), 1),
        (op(4, 5), index(0, below=4), op(0, 5), 0),
    ],
    "nll_loss": [
        (op(4, 5), index(4, below=5)),
        (op(1, 3), index(1, below=3)),
        (op(6, 3, layout="transposed"), index(6, below=3)),
        (op(9, 3), index(9, below=4), 3),
        (op(9, 3), index(9, below=3), 1),
    ],
    "nll_loss_mean": [
        (op(4, 5), index(4, below=5)),
        (op(9, 3), index(9, below=4), 3),
        (op(9, 3, layout="transposed"), index(9, below=3), 1),
        (op(70, 3), index(70, below=3)),
    ],
    "nll_loss_mean_backward": [(op(), index(4, below=5), 5), (op(), index(9, below=4), 3, 3)],
    "nll_loss_backward": [
        (op(4), index(4, below=5), 5),
        (op(1), index(1, below=3), 3),
        (op(9), index(9, below=4), 3, 3),
        (op(9), index(9, below=3), 3, 1),
    ],
    "nonzero": [(op(4, 5),), (op(0),), (op(7),)],
    "masked_select": [
        (op(4, 5), op(4, 5, dtype="bool")),
        (op(4, 5), op(5, dtype="bool")),
        (op(0), op(0, dtype="bool")),
    ],
    "view": [(op(4, 5), (2, 10)), (op(12), (3, -1)), (op(0, 3), (3, 0)), (op(), (1, 1))],
    "expand": [(op(4, 1), (4, 5)), (op(3), (2, 3)), (op(), (2, 2)), (op(1, 3), (0, 3))],
    "permute": [(op(2, 3, 4), (2, 0, 1)), (op(4, 5), (1, 0)), (op(0, 3), (-1, 0))],
    "transpose": [(op(2, 3, 4), 0, 2), (op(4, 5), -1, 0)],
    "squeeze": [(op(1, 3, 1),), (op(1, 3, 1), 0), (op(1, 3, 1), [0, 2]), (op(3),)],
    "unsqueeze": [(op(3), 0), (op(4, 5), -1), (op(), 0)],
    "select": [(op(2, 3, 4), -2, 1), (op(4, 5), 0, 2), (op(4, 5), 1, -1), (op(3), 0, 0)],
    "slice": [
        (op(2, 3, 4), -1, 1, 3, 1),
        (op(9, 2), 0, 1, 8, 3),
        (op(4, 5), 1, None, -1, 1),
        (op(4), 0, 3, 1, 1),
        (op(4, 5, layout="transposed"), 0, 1, 3, 1),
    ],
    "as_strided": [
        (op(12), (3, 2), (4, 1), 1),
        (op(4, 3), (2, 2), (1, 3), 0),
        (op(9), (4, 3), (2, 1), 0),
        (op(6, 4, layout="strided"), (2, 2), (2, 9), None),
    ],
    "alias": [(op(4, 5),), (op(),)],
    "diagonal": [(op(2, 3, 4), 0, -1, -2), (op(4, 5),), (op(4, 5), 1), (op(2, 3, 4), -1, 1, 2), (op(3, 3), 5)],
    "unfold": [(op(4, 6), -1, 2, 1), (op(9), 0, 3, 2), (op(4, 6), 1, 2, 1), (op(5, 2), 0, 5, 1)],
    "cat": [
        ([op(2, 3), op(4, 3)], 0),
        ([op(2, 3), op(2, 1), op(2, 2)], 1),
        ([op(3)],),
        ([op(0, 3), op(2, 3)], 0),
        ([op(2, 3, layout="transposed"), op(2, 3)], -1),
        ([op(2, 2), op(2, 2, dtype="float64")], 0),
    ],
    "tril": [(op(4, 5),), (op(4, 5), 1), (op(2, 3, 3), -1), (op(4, 5, layout="transposed"),)],
    "triu": [(op(4, 5),), (op(4, 5), 1), (op(2, 3, 3), -1), (op(0, 3),)],
    "_view_read": [
        (op(4, 5), (2, 3), (5, 1), 6),
        (op(12), (3, 2), (1, 6), 0),
        (op(9), (4, 3), (2, 1), 0),
        (op(6), (2, 6), (0, 1), 0),
    ],
    "_view_write": [
        (op(4, 5), op(2, 3), (2, 3), (5, 1), 6),
        (op(12), op(3, 2), (3, 2), (1, 6), 0),
        (op(12), op(3), (3,), (4,), 1),
        (op(12), op(2, 2), (2, 2), (5, 3), 1),
    ],
    "view_as_real": [
        (op(4, 5, dtype="complex128"),),
        (op(4, 5, dtype="complex64", layout="transposed"),),
        (op(dtype="complex128"),),
        (op(0, dtype="complex64"),),
    ],
    "view_as_complex": [
        (op(4, 2, dtype="float64"),),
        (op(2, dtype="float32"),),
        (op(3, 0, 2, dtype="float64"),),
    ],
    "_view_dtype": [
        (op(4, 6, dtype="float32"), "int32"),
        (op(4, 6, dtype="float32"), "float64"),
        (op(4, 6, dtype="complex64"), "float32"),
        (op(3, dtype="int16"), "uint8"),
        (op(dtype="int64"), "float64"),
    ],
    "complex": [(op(4, 5), op(5)), (op(3, layout="strided"), op(3)), (op(), op()), (op(0), op(0))],
    "polar": [(op(4, 5), op(5)), (op(3, layout="strided"), op(3)), (op(), op()), (op(0), op(0))],
    "_assign": [
        (op(4, 5), (4, 5), "float32"),
        (op(5), (4, 5), "float64"),
        (op(), (3,), "int32"),
        (op(0), (0,), "float32"),
    ],
    "uniform": [((2, 3),), ((5,), -1.0, 1.0), ((0,),)],
    "normal": [((2, 3),), ((5,), 1.0, 2.0)],
    "randint": [(0, 10, (2, 3)), (-5, 5, (4,))],
    "randperm": [(5,), (0,)],
    "_mt19937_uniform": [((2, 3),), ((5,), -1.0, 1.0), ((0,),)],
    "_mt19937_normal": [((2, 3),), ((20,), 1.0, 2.0), ((20,), 1.0, 2.0, True)],
    "_mt19937_log_normal": [((2, 3),), ((5,), 0.5, 0.25)],
    "_mt19937_integers": [((2, 3), 0, 9), ((4,), -5, 2**40), ((4,), 0, 9, 64)],
    "_mt19937_permutation": [(5,), (0,)],
    "_mt19937_bernoulli": [((2, 3), 0.5), ((0,), 0.5)],
    "_mt19937_exponential": [((2, 3),), ((5,), 2.0)],
    "_mt19937_cauchy": [((2, 3),), ((5,), 1.0, 2.0)],
    "_mt19937_geometric": [((2, 3), 0.5)],
    "_mt19937_multinomial": [(op(4, 5), 3), (op(5), 7)],
    "_mt19937_poisson": [(op(4, 5),), (op(0),)],
    "_mt19937_binomial": [(op(4, 5), op(4, 5)), (op(0), op(0))],
    "sum": REDUCED + EMPTY_REDUCED,
    "mean": REDUCED + EMPTY_REDUCED[1:],
    "amax": REDUCED + EMPTY_REDUCED[3:],
    "amin": REDUCED + EMPTY_REDUCED[3:],
    "any": REDUCED + EMPTY_REDUCED,
    "all": REDUCED + EMPTY_REDUCED,
    "argmax": [*ONE_DIM, (op(4, 5),), (op(),)],
    "argmin": [*ONE_DIM, (op(4, 5),), (op(),)],
    "softmax": [
        (op(4, 5), 1),
        (op(4, 5), 0),
        (op(7), 0),
        (op(2, 3, 4), 1),
        (op(4, 5, layout="transposed"), -1),
        (op(0, 3), 1),
        (op(3, 70), 1),
    ],
    "log_softmax": [
        (op(4, 5), 1),
        (op(4, 5), 0),
        (op(7), 0),
        (op(2, 3, 4), 1),
        (op(4, 5, layout="transposed"), -1),
        (op(0, 3), 1),
        (op(3, 70), 1),
    ],
    "pow": POWERS,
}

# Where a formula is smooth; elsewhere normal numbers will do.
FORMS |= shape_forms(op, index)
FORMS |= nn.nn_forms(op, index)
DOMAINS = dict.fromkeys(
    ("log", "sqrt", "rsqrt", "reciprocal", "pow", "div", "remainder", "prod"), "positive"
) | dict.fromkeys(
    (
        "abs",
        "relu",
        "floor",
        "ceil",
        "trunc",
        "round",
        "sign",
        "maximum",
        "minimum",
        "clamp",
        "amax",
        "amin",
        "max_dim",
        "min_dim",
        "sort",
        *DISTINCT,
        *nn.DISTINCT,
    ),
    "distinct",
)

DOMAINS |= dict.fromkeys(("_mt19937_multinomial", "_mt19937_poisson", "_mt19937_binomial"), "fraction")
for _samples in (linalg, pointwise, reduction):
    FORMS |= _samples.forms(op)
    DOMAINS |= _samples.DOMAINS


def forms(row: Any) -> list[Form] | None:
    """The row's forms; None if it has none."""
    if row.name in FORMS:
        return FORMS[row.name]
    if row.kind != "elementwise":
        return None
    operands = len(row.operands)
    if operands != 2:
        return UNARY if operands == 1 else None
    if "Scalar" not in row.operands[1]:
        return TWO_TENSORS
    if "Scalar" not in row.operands[0]:
        return [form for form in BINARY + NUMBERS if isinstance(form[0], Operand)]
    return BINARY if row.name.startswith("bitwise") else BINARY + NUMBERS


def build(form: Form, dtype: str, domain: str, seed: int = 0) -> tuple[Any, ...]:
    """The arguments of a form. Dtype names become dtypes."""
    rng = np.random.default_rng(seed)

    def made(argument: Any) -> Any:
        if isinstance(argument, Operand):
            return argument.make(rng, dtype, domain)
        if isinstance(argument, list) and argument and isinstance(argument[0], Operand):
            return [made(a) for a in argument]
        return getattr(mt, argument) if isinstance(argument, str) else argument

    return tuple(map(made, form))


def calls(
    row: Any, domain: str = "special", dtypes: tuple[str, ...] = DTYPES, part: int = 0, parts: int = 1
) -> Iterator[tuple[str, Form, tuple[Any, ...]]]:
    """(dtype, form, arguments) for every form and dtype, also those that the op refuses.

    Part `part` of `parts` has one of so many pairs of a form and a dtype.
    """
    for k, dtype in enumerate(dtypes):
        for seed, form in enumerate(forms(row) or ()):
            if (k + seed) % parts == part:
                yield dtype, form, build(form, dtype, domain, seed)
