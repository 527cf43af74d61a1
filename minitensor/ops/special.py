"""Special functions: error functions, gamma functions, Bessel functions, orthogonal polynomials.

They are computed in float64, one number after the other; compiled code calls the same loops.
"""

from __future__ import annotations

import math
from typing import Any

from minitensor._C import Op
from minitensor.ops.elementwise import log, where
from minitensor.ops.pointwise import called, unary
from minitensor.ops.row import elementwise

__all__: list[str] = []

_ONLY_SPECIAL: dict[str, Any] = {
    "function": False,
    "method": False,
    "inplace": False,
    "namespaces": ("special",),
}
_TOO = ("special",)


def _sign(x: Any) -> Any:
    return x.sign()


# ---- the error function and the normal distribution

erfc = unary(
    "erfc",
    "1 minus the error function of each element, also where that is small.",
    lambda g, _out, x: g * ((x * x).neg().exp() * (-2 / math.sqrt(math.pi))),
    namespaces=_TOO,
)
erfcx = unary(
    "erfcx",
    "exp(x^2) erfc(x) of each element.",
    lambda g, out, x: g * (2 * x * out - 2 / math.sqrt(math.pi)),
    grad_fn="SpecialErfcxBackward0",
    **_ONLY_SPECIAL,
)
erfinv = unary(
    "erfinv",
    "The number whose error function is each element.",
    lambda g, out, _x: g * ((out * out).exp() * (math.sqrt(math.pi) / 2)),
    namespaces=_TOO,
    autocast=("", "float32"),
)
ndtr = unary(
    "ndtr",
    "The standard normal distribution's integral up to each element.",
    lambda g, _out, x: g * ((x * x * -0.5).exp() * (1 / math.sqrt(2 * math.pi))),
    **_ONLY_SPECIAL,
)
ndtri = unary(
    "ndtri",
    "The number up to which the standard normal distribution's integral is each element.",
    lambda g, out, _x: g * ((out * out * 0.5).exp() * math.sqrt(2 * math.pi)),
    grad_fn="SpecialNdtriBackward0",
    **_ONLY_SPECIAL,
)
log_ndtr = unary(
    "log_ndtr",
    "The logarithm of ndtr of each element, also where that is small.",
    lambda g, _out, x: g / erfcx(x * -math.sqrt(0.5)) * math.sqrt(2 / math.pi),
    grad_fn="SpecialLogNdtrBackward0",
    **_ONLY_SPECIAL,
)
entr = unary(
    "entr",
    "-x log(x) of each element; 0 at zero, -inf below.",
    lambda g, _out, x: g * (-log(x) - 1),
    grad_fn="SpecialEntrBackward0",
    **_ONLY_SPECIAL,
)

# ---- gamma functions

lgamma: Op = unary(
    "lgamma",
    "The logarithm of the absolute value of the gamma function of each element.",
    lambda g, _out, x: g * digamma(x),
)
digamma: Op = unary(
    "digamma", "The derivative of lgamma at each element.", lambda g, _out, x: g * polygamma(x, 1), namespaces=_TOO
)
polygamma: Op = elementwise(
    "_polygamma(Tensor input, int n)",
    "The derivative of order n of digamma at each element.",
    lower=called("_polygamma"),
    vjp=lambda g, _out, x, n: g * polygamma(x, n + 1),
)
zeta: Op = elementwise(
    "zeta(Tensor|Scalar input, Tensor|Scalar other)",
    "Hurwitz's zeta function: the sum of (other + k)^-input over k from 0.",
    lower=called("zeta"),
    vjp=lambda g, _out, x, q: (lambda: _not_derived("zeta: self"), lambda: g * (-x * zeta(x + 1, q))),
    reads=("", "x q"),
    **_ONLY_SPECIAL,
)


def _not_derived(what: str) -> Any:
    raise NotImplementedError(f"the derivative for '{what}' is not implemented.")


def _density(a: Any, x: Any) -> Any:
    """The derivative of igamma(a, x) by x."""
    return ((a - 1) * log(x) - x - lgamma(a)).exp()


igamma = elementwise(
    "igamma(Tensor input, Tensor other)",
    "The regularised lower incomplete gamma function of order input.",
    lower=called("igamma"),
    vjp=lambda g, _out, a, x: (lambda: _not_derived("igamma: input"), lambda: g * _density(a, x)),
    reads=("", "a x"),
)
igammac = elementwise(
    "igammac(Tensor input, Tensor other)",
    "The regularised upper incomplete gamma function of order input.",
    lower=called("igammac"),
    vjp=lambda g, _out, a, x: (lambda: _not_derived("igammac: input"), lambda: -g * _density(a, x)),
    reads=("", "a x"),
)

# ---- Bessel functions


def _i1_vjp(g: Any, out: Any, x: Any) -> Any:
    near = x.abs() < 1e-30
    return g * (i0(x) - where(near, 0.5, out / where(near, 1.0, x)))


def _i1e_vjp(g: Any, out: Any, x: Any) -> Any:
    near = x.abs() < 1e-30
    return g * where(near, 0.5, i0e(x) - out * (_sign(x) + 1 / where(near, 1.0, x)))


i0: Op = unary(
    "i0",
    "The modified Bessel function of the first kind and order 0.",
    lambda g, _out, x: g * i1(x),
    namespaces=_TOO,
)
i0e: Op = unary(
    "i0e",
    "exp(-|x|) i0(x) of each element.",
    lambda g, out, x: g * (i1e(x) - _sign(x) * out),
    grad_fn="SpecialI0EBackward0",
    **_ONLY_SPECIAL,
)
i1: Op = unary(
    "i1",
    "The modified Bessel function of the first kind and order 1.",
    _i1_vjp,
    grad_fn="SpecialI1Backward0",
    **_ONLY_SPECIAL,
)
i1e: Op = unary("i1e", "exp(-|x|) i1(x) of each element.", _i1e_vjp, grad_fn="SpecialI1EBackward0", **_ONLY_SPECIAL)

for _name, _doc in {
    "modified_bessel_i0": "The modified Bessel function of the first kind and order 0.",
    "modified_bessel_i1": "The modified Bessel function of the first kind and order 1.",
    "modified_bessel_k0": "The modified Bessel function of the second kind and order 0.",
    "modified_bessel_k1": "The modified Bessel function of the second kind and order 1.",
    "scaled_modified_bessel_k0": "exp(x) modified_bessel_k0(x) of each element.",
    "scaled_modified_bessel_k1": "exp(x) modified_bessel_k1(x) of each element.",
    "bessel_j0": "The Bessel function of the first kind and order 0.",
    "bessel_j1": "The Bessel function of the first kind and order 1.",
    "bessel_y0": "The Bessel function of the second kind and order 0.",
    "bessel_y1": "The Bessel function of the second kind and order 1.",
    "airy_ai": "Airy's function Ai of each element.",
    "spherical_bessel_j0": "sin(x) / x of each element, 1 at zero.",
}.items():
    # Without gradients, as in PyTorch.
    elementwise(f"{_name}(Tensor {'x' if 'scaled' in _name or 'airy' in _name or 'sph' in _name else 'input'})", _doc,
                lower=called(_name), **_ONLY_SPECIAL)  # fmt: skip

# ---- orthogonal polynomials

for _name, _doc in {
    "chebyshev_polynomial_t": "Chebyshev's polynomial of the first kind",
    "chebyshev_polynomial_u": "Chebyshev's polynomial of the second kind",
    "chebyshev_polynomial_v": "Chebyshev's polynomial of the third kind",
    "chebyshev_polynomial_w": "Chebyshev's polynomial of the fourth kind",
    "shifted_chebyshev_polynomial_t": "Chebyshev's polynomial of the first kind at 2x - 1",
    "shifted_chebyshev_polynomial_u": "Chebyshev's polynomial of the second kind at 2x - 1",
    "shifted_chebyshev_polynomial_v": "Chebyshev's polynomial of the third kind at 2x - 1",
    "shifted_chebyshev_polynomial_w": "Chebyshev's polynomial of the fourth kind at 2x - 1",
    "hermite_polynomial_h": "Hermite's polynomial of the physicists",
    "hermite_polynomial_he": "Hermite's polynomial of the probabilists",
    "laguerre_polynomial_l": "Laguerre's polynomial",
    "legendre_polynomial_p": "Legendre's polynomial",
}.items():
    elementwise(
        f"{_name}(Tensor|Scalar input, Tensor|Scalar n)",
        f"{_doc}, of degree n; 0 where n is negative. Without gradients, as in PyTorch.",
        lower=called(_name),
        **_ONLY_SPECIAL,
    )
