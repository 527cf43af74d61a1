"""What is known of the types of elements: their limits, and how they combine."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor._warning import as_shown

__all__ = ["can_cast", "finfo", "iinfo", "is_complex", "is_floating_point", "promote_types", "result_type"]

# (bits of the significand after the point, largest exponent) and the decimal digits that survive.
_FLOATS = {
    _C.float16: (10, 15, 3),
    _C.bfloat16: (7, 127, 2),
    _C.float32: (23, 127, 6),
    _C.float64: (52, 1023, 15),
}
# Of the floats of eight bits, which don't all follow the formulas: eps, max, min, the smallest normal.
_NAMED_FLOATS = {
    _C.float8_e4m3fn: (0.125, 448.0, -448.0, 2.0**-6),
    _C.float8_e4m3fnuz: (0.125, 240.0, -240.0, 2.0**-7),
    _C.float8_e5m2: (0.25, 57344.0, -57344.0, 2.0**-14),
    _C.float8_e5m2fnuz: (0.125, 57344.0, -57344.0, 2.0**-15),
    _C.float8_e8m0fnu: (1.0, 2.0**127, 2.0**-127, 2.0**-127),
}
_INTEGERS = {_C.uint8, _C.int8, _C.uint16, _C.int16, _C.uint32, _C.int32, _C.uint64, _C.int64}
_DTYPE = _C.dtype


def _checked(caller: str, type: Any) -> Any:
    if not isinstance(type, _DTYPE):
        raise TypeError(
            as_shown(
                f"{caller}(): argument 'type' (position 1) must be minitensor.dtype, not {type.__class__.__name__}"
            )
        )
    return type


def result_type(tensor1: Any, tensor2: Any) -> Any:
    """The dtype that arithmetic on two tensors or numbers gives.

    Tensors with dimensions decide; those without, and after them numbers, only bring a higher category: bool, integer,
    floating point, complex. RuntimeError for uint16, uint32 and uint64 with other integers, as in PyTorch.
    """
    return _C.common_dtype(tensor1, tensor2)


def promote_types(type1: Any, type2: Any) -> Any:
    """The smallest dtype that both convert to. RuntimeError for uint16, uint32 and uint64 with other integers."""
    return _C.promote_types(type1, type2)


def can_cast(from_: Any, to: Any) -> bool:
    """Whether elements may be stored as `to`: where its category is not lower than that of `from_`."""
    return bool(_C.can_cast(from_, to))


class finfo:  # noqa: N801  (PyTorch's name)
    """The limits of a floating-point type; of a complex one, those of its parts. Without a type, of the default one.

    Attributes: `bits`, `dtype` (its name), `eps` (the distance from 1 to the next larger number), `max`, `min`,
    `smallest_normal` (alias `tiny`) and `resolution` (10 to the power of minus the digits that always survive).
    TypeError for other types.
    """

    __slots__ = ("_type",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, type: Any = None) -> None:
        type = _C.get_default_dtype() if type is None else _checked("finfo", type)
        if type.is_complex:
            type = type.to_real()
        if type not in _FLOATS and type not in _NAMED_FLOATS:
            raise TypeError(
                as_shown(
                    "minitensor.finfo() requires a floating point input type. Use minitensor.iinfo to handle "
                    "'minitensor.finfo'"
                )
            )
        self._type = type

    @property
    def dtype(self) -> str:
        """The type's name."""
        return str(self._type.name)

    @property
    def bits(self) -> int:
        """The bits of a number."""
        return int(self._type.itemsize) * 8

    @property
    def eps(self) -> float:
        """The distance from 1 to the next larger number."""
        if self._type in _NAMED_FLOATS:
            return _NAMED_FLOATS[self._type][0]
        return 2.0 ** -_FLOATS[self._type][0]

    @property
    def max(self) -> float:
        """The largest finite number."""
        if self._type in _NAMED_FLOATS:
            return _NAMED_FLOATS[self._type][1]
        return (2.0 - self.eps) * 2.0 ** _FLOATS[self._type][1]

    @property
    def min(self) -> float:
        """The smallest finite number."""
        if self._type in _NAMED_FLOATS:
            return _NAMED_FLOATS[self._type][2]
        return -self.max

    @property
    def smallest_normal(self) -> float:
        """The smallest positive number of full precision."""
        if self._type in _NAMED_FLOATS:
            return _NAMED_FLOATS[self._type][3]
        return 2.0 ** (1 - _FLOATS[self._type][1])

    @property
    def tiny(self) -> float:
        """The same as `smallest_normal`."""
        return self.smallest_normal

    @property
    def resolution(self) -> float:
        """10 to the power of minus the decimal digits that survive a conversion to the type and back."""
        if self._type in _NAMED_FLOATS:
            return 1.0
        return float(f"1e-{_FLOATS[self._type][2]}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and other._type is self._type

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        return f"finfo({', '.join(f'{name}={getattr(self, name):g}' for name in names)}, dtype={self.dtype})"


class iinfo:  # noqa: N801  (PyTorch's name)
    """The limits of an integer type: `bits`, `dtype` (its name), `max` and `min`. TypeError for other types."""

    __slots__ = ("_type",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, type: Any) -> None:
        type = _checked("iinfo", type)
        if type is _C.bool:
            raise TypeError(as_shown("minitensor.bool is not supported by minitensor.iinfo"))
        if type not in _INTEGERS:
            raise TypeError(
                as_shown(
                    "minitensor.iinfo() requires an integer input type. Use minitensor.finfo to handle "
                    "'minitensor.iinfo'"
                )
            )
        self._type = type

    @property
    def dtype(self) -> str:
        """The type's name."""
        return str(self._type.name)

    @property
    def bits(self) -> int:
        """The bits of a number."""
        return int(self._type.itemsize) * 8

    @property
    def max(self) -> int:
        """The largest number."""
        return int(2 ** (self.bits - self._type.is_signed) - 1)

    @property
    def min(self) -> int:
        """The smallest number."""
        return int(-(2 ** (self.bits - 1))) if self._type.is_signed else 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and other._type is self._type

    def __repr__(self) -> str:
        return f"iinfo(min={float(self.min):g}, max={float(self.max):g}, dtype={self.dtype})"


def _require_tensor(input: Any, name: str) -> None:
    if not isinstance(input, _C.Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")


def is_floating_point(input: Any) -> bool:
    """Whether input's dtype is a floating-point type."""
    _require_tensor(input, "is_floating_point")
    return bool(input.dtype.is_floating_point)


def is_complex(input: Any) -> bool:
    """Whether input's dtype is complex."""
    _require_tensor(input, "is_complex")
    return bool(input.dtype.is_complex)
