"""Sample arguments of the pointwise functions that the defaults of `row_samples` are not enough for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def forms(op: Callable[..., Any]) -> dict[str, list[tuple[Any, ...]]]:
    """Forms by the row's name; `op` makes an operand."""
    logarithms = [
        (op(4, 5), op(4, 5)),
        (op(4, 1), op(5)),
        (op(4, 5, layout="transposed"), op()),
        (op(4, 5), 2),
        (1.5, op(2, 3)),
        (op(0), 0.5),
    ]
    shapes = [(op(4, 5),), (op(7),), (op(4, 5, layout="transposed"),), (op(0),)]
    three = [
        (op(4, 5), op(4, 5), op(4, 5)),
        (op(4, 1), op(1, 5), op()),
        (op(4, 5, layout="transposed"), op(4, 5, layout="strided"), op(5)),
        (op(0, 3), op(3), op(3)),
    ]
    pairs = [(op(4, 5), op(4, 5)), (op(4, 1), op(5)), (op(0), op(0))]
    four = [(*operands, beta) for operands, beta in zip(three, (1.0, 0.5, 2, 1.0), strict=True)]
    with_value = [(*operands, value) for operands, value in zip(three, (1, -0.3, 0.1, 2), strict=True)]
    with_bound = [(op(4, 5), op(4, 5), 1.0), (op(4, 1), op(1, 5, layout="strided"), 0.5), (op(0), op(0), 2.0)]
    # A polynomial takes as many steps as its degree says: small ones.
    degrees = [
        (op(4, 5), op(4, 5, below=9)), (op(4, 1), 3), (2.5, op(5, below=9)), (op(0), 1),
        (op(4, 5, layout="transposed"), 7),
    ]  # fmt: skip
    return {
        **dict.fromkeys(_POLYNOMIALS, degrees),
        "zeta": [(op(4, 5), op(4, 5)), (op(3), 2.0), (3.0, op(4, 5, layout="transposed")), (op(0), 1.5)],
        **dict.fromkeys(("_standard_gamma", "_sample_dirichlet"), shapes),
        "_dirichlet_grad": three,
        "_polygamma": [(*form, n) for form in shapes for n in (1, 2)],
        "leaky_relu": [*shapes, (op(7), 0.5)],
        "hardshrink": [*shapes, (op(7), 1)],
        "_softshrink": [*shapes, (op(7), 1)],
        "threshold": [(*form, 0.5, 2) for form in shapes],
        "_clamp_tensor": three,
        **dict.fromkeys(("addcmul", "addcdiv"), with_value),
        "_nan_to_num": [(*form, 0.5, 100.0, -100.0) for form in shapes],
        "xlogy": logarithms,
        "xlog1py": logarithms,
        "lerp": [
            (op(4, 5), op(4, 5), op(4, 5)),
            (op(4, 5), op(5), 0.25),
            (op(4, 1), op(1, 5), op()),
            (op(4, 5, layout="transposed"), op(4, 5, layout="strided"), 0.75),
            (op(0, 3), op(3), 0.5),
        ],
        **dict.fromkeys(_GRADIENTS, pairs),
        **dict.fromkeys(("_squared_difference_backward", "_logits_loss_backward"), three),
        "_smooth_l1": with_bound,
        "_smooth_l1_backward": four,
        "_larger_share": three,
        "_root_of_positive": [(op(4, 5),), (op(4, 5, layout="transposed"),), (op(0),)],
        "_root_of_positive_backward": pairs,
        "elu": [(op(4, 5),), (op(7), 0.5), (op(4, 5, layout="transposed"), 2), (op(0),)],
        "celu": [(op(4, 5),), (op(7), 0.5), (op(4, 5, layout="transposed"), 2), (op(0),)],
        "softplus": [(op(4, 5),), (op(7), 2), (op(4, 5, layout="transposed"), 0.5, 1.0), (op(0),)],
    }


_GRADIENTS = (
    *("_tanh_backward", "_sigmoid_backward", "_silu_backward", "_gelu_backward", "_gelu_tanh_backward"),
    "_relu_backward",
    *("_squared_difference", "_logits_loss"),
)
_POLYNOMIALS = (
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
)

# Without gradients in PyTorch too.
WITHOUT_GRADIENT = {
    *_POLYNOMIALS,
    *(f"{scaled}modified_bessel_{kind}" for scaled in ("", "scaled_") for kind in ("k0", "k1")),
    *("modified_bessel_i0", "modified_bessel_i1", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"),
    *("airy_ai", "spherical_bessel_j0", "heaviside", "gcd", "lcm", "_exponent"),
    *("_standard_gamma_grad", "_dirichlet_grad"),
    *("signbit", "isposinf", "isneginf", "bitwise_left_shift", "bitwise_right_shift"),
}

# Where a formula is smooth, in the intervals of `row_samples`.
DOMAINS = {
    **dict.fromkeys(("asin", "acos", "atanh"), "unit"),
    **dict.fromkeys(
        ("_root_of_positive", "_root_of_positive_backward", "log2", "log10", "log1p", "atan2", "xlogy", "xlog1py"),
        "positive",
    ),
    **dict.fromkeys(("elu", "celu", "selu", "hardswish", "hardsigmoid", "softplus"), "positive"),
    "acosh": "above",
    **dict.fromkeys(("_logit", "erfinv", "ndtri"), "fraction"),
    **dict.fromkeys(("lgamma", "digamma", "_polygamma", "entr", "addcdiv", "igamma", "igammac", "hypot"), "positive"),
    **dict.fromkeys(("copysign", "fmod", "fmax", "fmin", "_clamp_tensor", "_mantissa", "hardshrink"), "positive"),
    **dict.fromkeys(("leaky_relu", "_softshrink", "threshold"), "distinct"),
    "zeta": "above",
}
