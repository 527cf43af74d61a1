"""Ops on complex numbers and their parts.

Gradients are PyTorch's: for a real loss L, the gradient of z is the conjugate of the one that the Wirtinger calculus
calls dL/dz, times two, so that subtracting it descends. A holomorphic f gives `g * conj(f'(z))`.
"""

from __future__ import annotations

from typing import Any

from minitensor._C import Op
from minitensor.ops.elementwise import abs as abs_
from minitensor.ops.elementwise import conj_of, where
from minitensor.ops.row import elementwise, view

__all__ = ["imag_part", "real_part"]

_NO_CODE = "there is no code generator for complex numbers"


def real_part(z: Any) -> Any:
    """The real parts of a complex tensor, as a view."""
    return view_as_real(z).select(-1, 0)


def imag_part(z: Any) -> Any:
    """The imaginary parts of a complex tensor, as a view."""
    return view_as_real(z).select(-1, 1)


conj_physical: Op = elementwise(
    "conj_physical(Tensor input)",
    "Each element with its imaginary part negated.",
    out="exact",
    lower=lambda b, x: b.complex(b.real(x), b.negate(b.imag(x))) if b.recorded.complex else x,
    vjp=lambda g, _out, _x: conj_of(g),
    function=False,
    method=False,
    complex_lower=True,
    grad_fn="ConjBackward0",
)


def _sgn_vjp(g: Any, out: Any, x: Any) -> Any:
    if not x.is_complex():
        return g * 0
    # Of z / |z|: the part of g along z itself has no effect.
    size = abs_(x)
    inward = real_part(g * conj_of(out)) * out
    return where(size == 0, 0.0, (g - inward) / size)


sgn: Op = elementwise(
    "sgn(Tensor input)",
    "Each element divided by its absolute value, and 0 for 0: the sign of a real number.",
    out="exact",
    vjp=_sgn_vjp,
    why=_NO_CODE,
)


def _angle_vjp(g: Any, _out: Any, x: Any) -> Any:
    if not x.is_complex():
        return g * 0
    # The angle grows in the direction i z.
    size = abs_(x)
    return where(size == 0, 0.0, g * (x * 1j) / (size * size))


angle = elementwise(
    "angle(Tensor input)",
    "The angle of each element in the complex plane, in radians from -pi to pi.",
    vjp=_angle_vjp,
    inplace=False,
    why=_NO_CODE,
)
complex: Op = elementwise(
    "complex(Tensor real, Tensor imag)",
    "Complex numbers from their real and imaginary parts.",
    lower=lambda b, re, im: b.complex(re, im),
    vjp=lambda g, _out, _re, _im: (lambda: real_part(g), lambda: imag_part(g)),
    method=False,
    inplace=False,
    complex_lower=True,
)
polar: Op = elementwise(
    "polar(Tensor abs, Tensor angle)",
    "Complex numbers from their absolute values and angles: `abs * cos(angle) + abs * sin(angle) * i`.",
    autocast=("float32", ""),
    vjp=lambda g, out, _abs, angle: (
        lambda: real_part(conj_of(g) * polar(angle * 0 + 1, angle)),
        lambda: real_part(conj_of(g) * (out * 1j)),
    ),
    reads=("angle", "out"),
    method=False,
    inplace=False,
    why=_NO_CODE,
)

view_as_real: Op = view(
    "view_as_real(Tensor input)",
    "The real and imaginary parts along a new last dimension, over the same memory.",
    vjp=lambda g, _out, _x: view_as_complex(g.contiguous()),
    method=False,
)
view_as_complex: Op = view(
    "view_as_complex(Tensor input)",
    "The pairs along the last dimension as complex numbers, over the same memory.",
    autocast=("float32", ""),
    vjp=lambda g, _out, _x: view_as_real(g),
    method=False,
)
view_dtype = view(
    "_view_dtype(Tensor input, dtype dtype)",
    "The bytes as elements of another dtype. Without a gradient.",
)
