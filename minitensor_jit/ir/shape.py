"""Array and tuple shapes of HLO values.

Every array has XLA's default, row-major layout (`f32[2,3]{1,0}`); no other layout exists in this IR.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "BFLOAT16",
    "DTYPES",
    "AnyShape",
    "DType",
    "Shape",
    "TupleShape",
    "dtype_of",
    "leaves",
    "scalar",
    "strides_of",
]


@dataclass(frozen=True, slots=True)
class DType:
    """What the IR knows of one element type, under its XLA name."""

    name: str
    kind: str  # 'b' pred, 'i' signed, 'u' unsigned, 'f' float, 'c' complex
    itemsize: int
    numpy_name: str

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype of an element; `BFLOAT16` for bf16."""
        return _numpy_dtypes()[self.name]


DTYPES: Final[dict[str, DType]] = {
    d.name: d
    for d in (
        DType("pred", "b", 1, "bool"),
        DType("s8", "i", 1, "int8"),
        DType("s16", "i", 2, "int16"),
        DType("s32", "i", 4, "int32"),
        DType("s64", "i", 8, "int64"),
        DType("u8", "u", 1, "uint8"),
        DType("u16", "u", 2, "uint16"),
        DType("u32", "u", 4, "uint32"),
        DType("u64", "u", 8, "uint64"),
        DType("f16", "f", 2, "float16"),
        DType("bf16", "f", 2, "bfloat16"),
        DType("f32", "f", 4, "float32"),
        DType("f64", "f", 8, "float64"),
        DType("c64", "c", 8, "complex64"),
        DType("c128", "c", 16, "complex128"),
        # One byte an element; small_types.py has what they are.
        DType("s2", "i", 1, "int2"),
        DType("s4", "i", 1, "int4"),
        DType("u2", "u", 1, "uint2"),
        DType("u4", "u", 1, "uint4"),
        DType("f4e2m1fn", "f", 1, "float4_e2m1fn"),
        DType("f8e3m4", "f", 1, "float8_e3m4"),
        DType("f8e4m3", "f", 1, "float8_e4m3"),
        DType("f8e4m3fn", "f", 1, "float8_e4m3fn"),
        DType("f8e4m3fnuz", "f", 1, "float8_e4m3fnuz"),
        DType("f8e4m3b11fnuz", "f", 1, "float8_e4m3b11fnuz"),
        DType("f8e5m2", "f", 1, "float8_e5m2"),
        DType("f8e5m2fnuz", "f", 1, "float8_e5m2fnuz"),
        DType("f8e8m0fnu", "f", 1, "float8_e8m0fnu"),
    )
}

if TYPE_CHECKING:
    BFLOAT16: np.dtype[np.generic]
    """What stands for bfloat16 in NumPy arrays: its bits, in a type of its own."""


# NumPy is imported when somebody asks for it: code that was compiled before is loaded without.
@cache
def _numpy_dtypes() -> dict[str, np.dtype[np.generic]]:
    import numpy as np

    def numpy(d: DType) -> np.dtype[np.generic]:
        # What NumPy lacks has its bits in a field of that name.
        if d.name == "bf16" or (d.itemsize == 1 and not d.name.endswith("8") and d.kind != "b"):
            return np.dtype([(d.numpy_name, f"<u{d.itemsize}")])
        return np.dtype(d.numpy_name)

    return {d.name: numpy(d) for d in DTYPES.values()}


@cache
def _names_by_numpy() -> dict[np.dtype[np.generic], str]:
    return {numpy: name for name, numpy in _numpy_dtypes().items()}


def __getattr__(name: str) -> Any:
    if name == "BFLOAT16":
        return _numpy_dtypes()["bf16"]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def dtype_of(value: np.dtype[np.generic] | type) -> str:
    """The XLA name of a NumPy dtype."""
    import numpy as np

    try:
        return _names_by_numpy()[np.dtype(value)]
    except KeyError:
        raise ValueError(f"NumPy dtype {np.dtype(value)} has no HLO element type") from None


@dataclass(frozen=True, slots=True)
class Shape:
    """Element type and dimensions of an array, in the row-major layout."""

    dtype: str
    dims: tuple[int, ...] = ()
    # Equality and hashing are by (dtype, dims); the hash is kept because passes hash shapes constantly.
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"unknown element type {self.dtype!r}; known: {', '.join(DTYPES)}")
        dims = self.dims
        if type(dims) is not tuple:
            dims = tuple(int(d) for d in dims)
            object.__setattr__(self, "dims", dims)
        if any(d < 0 for d in dims):
            raise ValueError(f"negative dimension in {self.dtype}{list(dims)}")
        object.__setattr__(self, "_hash", hash((self.dtype, dims)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.dims)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @property
    def nbytes(self) -> int:
        """The number of bytes of the dense array."""
        return prod(self.dims) * DTYPES[self.dtype].itemsize

    @property
    def itemsize(self) -> int:
        """The number of bytes of one element."""
        return DTYPES[self.dtype].itemsize

    @property
    def kind(self) -> str:
        """'b', 'i', 'u', 'f' or 'c', as in NumPy's `dtype.kind`."""
        return DTYPES[self.dtype].kind

    @property
    def numpy_dtype(self) -> np.dtype[np.generic]:
        """The NumPy dtype of an element; `BFLOAT16` for bf16."""
        return DTYPES[self.dtype].numpy

    @property
    def is_floating(self) -> bool:
        """Whether the elements are (real) floating-point numbers."""
        return DTYPES[self.dtype].kind == "f"

    @property
    def is_integral(self) -> bool:
        """Whether the elements are signed or unsigned integers (pred is neither)."""
        return DTYPES[self.dtype].kind in "iu"

    @property
    def is_scalar(self) -> bool:
        """Whether this is an array without dimensions."""
        return not self.dims

    def with_dims(self, dims: tuple[int, ...]) -> Shape:
        """The same element type with other dimensions."""
        return Shape(self.dtype, dims)

    def with_dtype(self, dtype: str) -> Shape:
        """The same dimensions with another element type."""
        return Shape(dtype, self.dims)

    def __str__(self) -> str:
        text = f"{self.dtype}[{','.join(map(str, self.dims))}]"
        if self.dims:
            text += "{" + ",".join(map(str, range(len(self.dims) - 1, -1, -1))) + "}"
        return text


@dataclass(frozen=True, slots=True)
class TupleShape:
    """The shape of a tuple of values."""

    elements: tuple[AnyShape, ...]

    @property
    def nbytes(self) -> int:
        """The bytes of all leaves together."""
        return sum(e.nbytes for e in self.elements)

    def __str__(self) -> str:
        parts = []
        for i, element in enumerate(self.elements):
            # XLA marks every fifth element so that people can find their index.
            mark = f"/*index={i}*/" if i and i % 5 == 0 else ""
            parts.append(f"{mark}{element}")
        return "(" + ", ".join(parts) + ")"


AnyShape: TypeAlias = Shape | TupleShape


def leaves(shape: AnyShape) -> list[Shape]:
    """The arrays of a shape in order: the shape itself, or those of a tuple's elements, however deep."""
    if isinstance(shape, Shape):
        return [shape]
    if TupleShape not in map(type, shape.elements):  # nearly always, and there may be hundreds
        return list(shape.elements)  # type: ignore[arg-type]
    return [leaf for element in shape.elements for leaf in leaves(element)]


def scalar(dtype: str) -> Shape:
    """The shape of one element."""
    return Shape(dtype, ())


def strides_of(dims: Sequence[int]) -> list[int]:
    """Row-major strides, in elements."""
    strides = [1] * len(dims)
    for d in range(len(dims) - 2, -1, -1):
        strides[d] = strides[d + 1] * dims[d + 1]
    return strides
