"""Functions of complex tensors. Conjugates are computed at once: no tensor is marked as conjugated."""

from __future__ import annotations

from typing import Any

from minitensor._C import Tensor
from minitensor.composite.dims import type_name
from minitensor.composite.registry import autocast, composite
from minitensor.ops import ROWS
from minitensor.ops.complex import conj_physical, imag_part, real_part

__all__: list[str] = []


def _of_parts(name: str, first: Any, second: Any, out: Any) -> Any:
    """The op on two real tensors; the result is never converted to the dtype of `out`."""
    if out is not None:
        made = ROWS[name].call(first.detach(), second.detach())
        if out.dtype is not made.dtype:
            raise RuntimeError(
                f"Expected object of scalar type {type_name(made)} but got scalar type {type_name(out)} for argument "
                "'out'"
            )
    return ROWS[name].call(first, second, out=out)


@composite(name="complex", method=False)
def _complex(real: Any, imag: Any, *, out: Any = None) -> Tensor:
    """Complex numbers from their real and imaginary parts. RuntimeError if out has not the result's dtype."""
    return _of_parts("complex", real, imag, out)


@composite(method=False)
@autocast("float32", "")
def polar(abs: Any, angle: Any, *, out: Any = None) -> Any:
    """Complex numbers `abs * cos(angle) + abs * sin(angle) * i`. RuntimeError if out has not the result's dtype."""
    return _of_parts("polar", abs, angle, out)


@composite(name="conj_physical", out="exact")
def _conj_physical(input: Any) -> Tensor:
    """Each element with its imaginary part negated; a real tensor itself."""
    return conj_physical(input) if input.is_complex() else input


@composite()
def conj(input: Any) -> Tensor:
    """Each element with its imaginary part negated, a copy; a real tensor itself."""
    return conj_physical(input) if input.is_complex() else input


@composite(method=False)
def real(input: Any) -> Tensor:
    """The real parts, a view of input; a real tensor itself."""
    return real_part(input) if input.is_complex() else input


@composite(method=False)
def imag(input: Any) -> Tensor:
    """The imaginary parts, a view of input. RuntimeError for a real tensor."""
    if not input.is_complex():
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return imag_part(input)


@composite()
def resolve_conj(input: Any) -> Tensor:
    """input, whose conjugation is never left for later."""
    return input


@composite()
def resolve_neg(input: Any) -> Tensor:
    """input, whose negation is never left for later."""
    return input


@composite()
def is_conj(input: Any) -> bool:
    """Whether a conjugation is left for later: never."""
    return False


@composite()
def is_neg(input: Any) -> bool:
    """Whether a negation is left for later: never."""
    return False
