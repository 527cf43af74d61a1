"""Sizes of PyTorch's compiler that are not known yet, by name: sizes are always ints here.

The functions for both kinds of numbers get numbers that are known, and tensors where PyTorch takes them.
"""

from __future__ import annotations

import math
from typing import Any

__all__ = [
    "SymBool", "SymFloat", "SymInt", "sym_constrain_range", "sym_constrain_range_for_size", "sym_float",
    "sym_fresh_size", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum",
]  # fmt: skip


class SymInt:
    """An int that is not known yet; programs ask `isinstance(size, SymInt)`. To make one is a NotImplementedError."""

    def __init__(self, *arguments: Any) -> None:
        raise NotImplementedError(f"torch.{type(self).__name__}: sizes and numbers are always known in minitensor")


class SymFloat:
    """A float that is not known yet."""

    __init__ = SymInt.__init__


class SymBool:
    """A bool that is not known yet."""

    __init__ = SymInt.__init__


for _cls in (SymInt, SymFloat, SymBool):
    _cls.__module__ = "torch"


def sym_int(a: Any) -> int:
    """Return `int(a)`."""
    return int(a)


def sym_float(a: Any) -> float:
    """Return `float(a)`."""
    return float(a)


def sym_not(a: Any) -> bool:
    """Return `not a`."""
    return not a


def _numbers(a: Any, b: Any) -> bool:
    """Whether one is a float. AssertionError for what is no number."""
    import numpy as np

    for x in (a, b):
        if not isinstance(x, (int, float, np.integer, np.floating)):
            raise AssertionError(f"expected ints or floats, got {type(x)}")
    return any(isinstance(x, (float, np.floating)) for x in (a, b))


def sym_max(a: Any, b: Any) -> Any:
    """Return the larger number: a float if either is one."""
    return float(max(a, b)) if _numbers(a, b) else max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    """Return the smaller number: a float if either is one."""
    return float(min(a, b)) if _numbers(a, b) else min(a, b)


def sym_sum(*args: Any) -> Any:
    """Return the sum of numbers, or of a list of them."""
    return sum(args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args)


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """Return `t` if `b`, else `f`: a bool, and two values of one type."""
    if not isinstance(b, (bool, SymBool)) or type(t) is not type(f):
        raise AssertionError(f"expected a bool and two values of one type, got {type(b)}, {type(t)} and {type(f)}")
    return t if b else f


def sym_sqrt(a: Any) -> float:
    """Return the square root of a number."""
    return math.sqrt(a)


def sym_fresh_size(expr: Any) -> Any:
    """Return the number that `expr` is, or that a tensor of one element has."""
    import minitensor

    return minitensor.tensor(expr).item()


_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


def _check_range(function: str, size: Any, min: Any, max: Any) -> None:
    import minitensor

    if isinstance(size, minitensor.Tensor) and not size.dim():
        size = size.item()
    if not isinstance(size, (int, float)):
        raise TypeError(f"{function}(): argument 'size' (position 1) must be Number, not {type(size).__name__}")
    for name, bound in (("min", min), ("max", max)):
        if bound is not None and not isinstance(bound, int):
            raise TypeError(f"{function}(): argument '{name}' must be int, not {type(bound).__name__}")
    least, most = _LEAST if min is None else min, _MOST if max is None else max
    if least > most:
        raise RuntimeError(f"Max must be greater than or equal to min. Got min={least} max={most}")
    if not least <= int(size) <= most:
        raise RuntimeError(f"Invalid value range for {int(size)} between [{least}, {most}].")


def sym_constrain_range(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """RuntimeError for a number that isn't between `min` and `max`, which may be one of both."""
    _check_range("sym_constrain_range", size, min, max)


def sym_constrain_range_for_size(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """The same for a size, which isn't negative. `max` has to be more than 2, as in PyTorch."""
    if isinstance(max, int) and max <= 2:
        raise RuntimeError(f"Max value to constrain_range_for_size must be greater than 2. got: {max}")
    _check_range("sym_constrain_range_for_size", size, 0 if min is None else min, max)


for _function in (
    sym_constrain_range, sym_constrain_range_for_size, sym_float, sym_fresh_size, sym_int, sym_ite, sym_max, sym_min,
    sym_not, sym_sqrt, sym_sum,
):  # fmt: skip
    _function.__module__ = "torch"
