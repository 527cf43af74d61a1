"""Gamma functions of each element, of one variable and of several."""

from __future__ import annotations

import math
from typing import Any

from minitensor import _C
from minitensor.composite.dims import type_name
from minitensor.composite.numbers import whole
from minitensor.composite.pointwise import floating
from minitensor.composite.registry import composite, grad_fn
from minitensor.ops import ROWS, special

Tensor = _C.Tensor


@composite(inplace=True, out="castable", namespaces=("special",))
def polygamma(n: Any, input: Any) -> Tensor:
    """The derivative of order n of digamma; n = 0 is digamma. As a method: x.polygamma(n).

    TypeError if n is no whole number, RuntimeError if it is negative.
    """
    if isinstance(n, Tensor):
        n, input = input, n
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"polygamma(): argument 'n' (position 1) must be int, not {type(n).__name__}")
    n = whole(n, "polygamma", "n")
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if n and input.is_complex():
        kernel = "trigamma" if n == 1 else "polygamma"
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{type_name(input)}'")
    return special.digamma(input) if n == 0 else special.polygamma(floating(input), n)


@composite(inplace=True, out="castable")
@grad_fn("MvlgammaBackward0")
def mvlgamma(input: Any, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p."""
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    input = floating(input)
    shifts = ROWS["arange"].call(0, p, 1, dtype=input.dtype) * -0.5
    total = special.lgamma(input.unsqueeze(-1) + shifts).sum(-1)
    return total + p * (p - 1) * (math.log(math.pi) / 4)


@composite(method=False, function=False, out="castable", namespaces=("special",))
def multigammaln(input: Any, p: int) -> Tensor:
    """`mvlgamma` in scipy's name."""
    return mvlgamma(input, p)


@composite(method=False, function=False, out="castable", namespaces=("special",))
def gammaln(input: Any) -> Tensor:
    """`lgamma` in scipy's name."""
    return special.lgamma(input)


@composite(method=False, function=False, out="castable", namespaces=("special",))
def psi(input: Any) -> Tensor:
    """`digamma` in scipy's name."""
    return special.digamma(input)


@composite(method=False, function=False, out="castable", namespaces=("special",))
def gammainc(input: Any, other: Any) -> Tensor:
    """`igamma` in scipy's name."""
    return special.igamma(input, other)


@composite(method=False, function=False, out="castable", namespaces=("special",))
def gammaincc(input: Any, other: Any) -> Tensor:
    """`igammac` in scipy's name."""
    return special.igammac(input, other)
