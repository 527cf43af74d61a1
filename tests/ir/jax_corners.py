# ruff: noqa: E501
"""Small JAX programs, one for each operation of `lax` or corner of it, on the values that are easily got wrong.

Name -> (function, arguments). `jax_programs.py` has what users write; here are infinities, NaN, zeros of both signs, numbers out
of range, empty arrays, indices out of bounds, every element type, and every mode of what has modes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import jax.scipy.linalg as sl
import numpy as np
from jax import lax

Program = tuple[Callable[..., Any], tuple[Any, ...]]

_RANDOM = np.random.default_rng(5)

INF, NAN = np.inf, np.nan
# No denormals: XLA flushes them.
SPECIAL = np.float32(
    [0.0, -0.0, 0.5, -0.5, 1, -1, 1.5, -1.5, 2.5, -2.5, 3, -7, 1e-3, -1e-3, 20, -20, 90, -90, 1e10, -1e10, 3e38, -3e38,
     1e-37, -1e-37, INF, -INF, NAN]
)  # fmt: skip
UNIT = np.float32([0.0, -0.0, 0.3, -0.3, 0.999, -0.999, 1, -1, 1.5, -1.5, INF, -INF, NAN, 1e-20])
POSITIVE = np.float32([0.25, 0.5, 1, 1.5, 2, 3, 7, 20, 100, 1e-3, INF, NAN])
MODERATE = np.float32([0.0, -0.0, 0.5, -0.5, 1, -1, 3, -3, 10, -10, 1e-4, -1e-4, NAN])
COMPLEX = np.array([x + 1j * y for x in (0.5, -2.0, 3.0) for y in (1.5, -0.25, 0.0)], np.complex64)
S32 = np.int32([0, 1, -1, 2, -7, 100, 2**31 - 1, -(2**31)])
U32 = np.uint32([0, 1, 2, 7, 100, 2**31, 2**32 - 1, 31])
S8 = np.int8([0, 1, -1, 2, -7, 100, 127, -128])
U8 = np.uint8([0, 1, 2, 7, 100, 127, 128, 255])
COUNTS = np.int32([0, 1, 31, 32, 33, -1, 100, 5])


def pairs(values: Any) -> tuple[Any, Any]:
    """All pairs of the values."""
    left, right = np.meshgrid(values, values)
    return left.reshape(-1).copy(), right.reshape(-1).copy()


def normal(*dims: int, dtype: str = "float32") -> Any:
    return _RANDOM.standard_normal(dims).astype(dtype)


def integers(low: int, high: int, *dims: int, dtype: str = "int32") -> Any:
    return _RANDOM.integers(low, high, dims).astype(dtype)


def positive(n: int) -> Any:
    a = normal(n, n)
    return a @ a.T + n * np.eye(n, dtype=np.float32)


UNARY: dict[str, Program] = {
    **{
        name: (getattr(lax, name), (SPECIAL,))
        for name in (
            "abs", "atan", "asinh", "bessel_i0e", "bessel_i1e", "cbrt", "ceil", "cosh", "erf", "erfc", "exp", "exp2",
            "expm1", "floor", "is_finite", "log", "log1p", "logistic", "neg", "round", "rsqrt", "sign", "sinh", "sqrt",
            "square", "tanh",
        )
    },
    **{name: (getattr(lax, name), (MODERATE,)) for name in ("cos", "sin", "tan")},
    **{name: (getattr(lax, name), (UNIT,)) for name in ("acos", "asin", "atanh", "erf_inv")},
    **{name: (getattr(lax, name), (POSITIVE,)) for name in ("acosh", "digamma", "lgamma")},
    "round_to_even": (lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), (SPECIAL,)),
    "reciprocal": (lax.reciprocal, (SPECIAL,)),
    "integer_pow": (lambda x: (lax.integer_pow(x, 3), lax.integer_pow(x, -2), lax.integer_pow(x, 0)), (SPECIAL,)),
    "reduce_precision": (lambda x: (lax.reduce_precision(x, 5, 2), lax.reduce_precision(x, 4, 3)), (SPECIAL,)),
    "not": (lambda x, y: (lax.bitwise_not(x), lax.bitwise_not(y)), (S32, U8)),
    "population_count": (lambda *x: tuple(map(lax.population_count, x)), (S32, U32, S8, U8)),
    "clz": (lambda *x: tuple(map(lax.clz, x)), (S32, U32, S8, U8)),
    "integer_sign": (lambda *x: tuple(map(lax.sign, x)), (S32, U32, S8, U8)),
    "integer_abs": (lambda *x: tuple(map(lax.abs, x)), (S32, S8)),
    "double": (lambda x: (jnp.sin(x), jnp.exp(x), jnp.log1p(x), lax.tanh(x)), (np.float64([0.5, -0.25, 3.0]),)),
    **{
        f"complex_{name}": (getattr(lax, name), (COMPLEX,))
        for name in ("exp", "log", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "sinh", "cosh", "log1p", "expm1",
                     "sign", "abs", "asinh", "atanh", "acosh", "logistic", "conj", "neg")
    },
    "complex_infinite": (
        lambda x: (x + 1, -x, jnp.conj(x), x.real, x.imag, jnp.isinf(x), jnp.isnan(x)),
        (np.array([complex(INF, NAN), complex(-INF, 0), complex(NAN, 1), complex(0, INF), complex(INF, -INF)], np.complex64),),
    ),
}  # fmt: skip

BINARY: dict[str, Program] = {
    **{
        name: (getattr(lax, name), pairs(SPECIAL))
        for name in ("add", "sub", "mul", "div", "max", "min", "atan2", "eq", "ne", "lt", "le", "gt", "ge", "nextafter")
    },
    "rem": (lax.rem, pairs(np.float32([0.0, -0.0, 1, -1, 2.5, -2.5, 7, -7, INF, -INF, NAN]))),
    "mod": (jnp.mod, pairs(np.float32([0.0, 1, -1, 2.5, -2.5, 7, -7, INF, -INF, NAN]))),
    "floor_divide": (jnp.floor_divide, pairs(np.float32([1, -1, 2.5, -2.5, 7, -7]))),
    "pow": (lax.pow, pairs(np.float32([0.0, -0.0, 0.5, 1, -1, 2, -2, 3, -3, 2.5, INF, -INF, NAN]))),
    "pow_integer": (lambda x, n: jnp.power(x, n), pairs(np.int32([0, 1, -1, 2, 3, 5]))),
    "pow_mixed": (lambda x, n: lax.pow(x, n), (np.float32([0, -0.0, 2, -2, INF, NAN, 1.5]), np.int32([-1, -3, 5, 3, 0, 0, -2]))),
    "integer_div": (lax.div, pairs(S32)),
    "integer_rem": (lax.rem, pairs(S32)),
    "integer_floor": (lambda x, y: (x // y, x % y), pairs(S32[1:6])),
    "unsigned_div": (lambda x, y: (lax.div(x, y), lax.rem(x, y)), pairs(U32)),
    "small_div": (lambda x, y: (lax.div(x, y), lax.rem(x, y)), pairs(S8)),
    "small_wraps": (lambda x, y: (x + y, x - y, x * y), pairs(S8)),
    "unsigned_wraps": (lambda x, y: (x + y, x - y, x * y), pairs(U8)),
    "integer_extremes": (lambda x, y: (lax.max(x, y), lax.min(x, y)), pairs(S32)),
    "unsigned_extremes": (lambda x, y: (lax.max(x, y), lax.min(x, y)), pairs(U32)),
    "shift_left": (lax.shift_left, (np.repeat(S32, 8), np.tile(COUNTS, 8))),
    "shift_right_logical": (lax.shift_right_logical, (np.repeat(S32, 8), np.tile(COUNTS, 8))),
    "shift_right_arithmetic": (lax.shift_right_arithmetic, (np.repeat(S32, 8), np.tile(COUNTS, 8))),
    "shift_small": (
        lambda x, y: (lax.shift_left(x, y), lax.shift_right_logical(x, y), lax.shift_right_arithmetic(x, y)),
        pairs(S8),
    ),
    "bits": (lambda x, y: (x & y, x | y, x ^ y), pairs(S32)),
    "logical": (lambda x, y: (x & y, x | y, x ^ y, x == y, x < y), pairs(np.bool_([True, False]))),
    "complex_arithmetic": (lambda x, y: (x + y, x - y, x * y, x / y), pairs(COMPLEX)),
    "complex_equal": (lambda x, y: (x == y, x != y), pairs(np.array([0, 1j, complex(NAN, 0), complex(INF, 1)], np.complex64))),
    "complex_pow": (lax.pow, pairs(COMPLEX)),
    "clamp": (lax.clamp, (np.float32([0, 0, NAN, 0, -INF, 1]), np.float32([1, NAN, 1, -5, 3, 0]), np.float32([2, 2, 2, NAN, INF, 0]))),
    "clamp_integer": (lambda x: (lax.clamp(-3, x, 50), lax.clamp(-3, x, -5)), (S32,)),
    "select": (lambda p, x, y: lax.select(p, x, y), (np.bool_([1, 0, 1]), np.float32([NAN, 1, -0.0]), np.float32([1, INF, 2]))),
    "select_n": (lambda k, x, y, z: lax.select_n(k, x, y, z), (np.int32([0, 2, 1]), *(normal(3) for _ in range(3)))),
    "heaviside": (jnp.heaviside, pairs(np.float32([0, 1, -1, NAN]))),
    "hypot": (jnp.hypot, pairs(np.float32([0, 1, -3, 1e20, INF, NAN]))),
    "copysign": (jnp.copysign, pairs(np.float32([0.0, -0.0, 1, -2, INF, -INF]))),
    "logaddexp": (jnp.logaddexp, pairs(np.float32([0, 1, -100, 80, INF, -INF, NAN]))),
    "ldexp_frexp": (lambda x, n: (jnp.ldexp(x, n), *jnp.frexp(x)), (np.float32([1, -3, 0.1, 0]), np.int32([3, -2, 10, 5]))),
    "igamma": (lax.igamma, pairs(np.float32([0.5, 1, 3, 10]))),
    "igammac": (lax.igammac, pairs(np.float32([0.5, 1, 3, 10]))),
    "polygamma": (lax.polygamma, (np.float32([1, 2, 3]), np.float32([0.5, 2, 7]))),
    "zeta": (lax.zeta, (np.float32([1.5, 2, 3]), np.float32([0.5, 2, 7]))),
    "complex_isclose": (jnp.isclose, pairs(np.array([1, complex(INF, 1), complex(INF, -INF), complex(NAN, INF), 1j], np.complex64))),
    "isclose": (jnp.isclose, pairs(np.float32([0, 1, 1.000001, INF, -INF, NAN]))),
    "gcd": (jnp.gcd, pairs(np.int32([0, 6, 4, -9, 35]))),
}  # fmt: skip

# Halves, what does not fit, and the limits of every integer type.
WIDE = np.float32(
    [0, -0.0, 0.5, -0.5, 1.5, 2.5, -1.5, 7, -8, 8, 100, 127, 128, -128, -129, 255, 256, 32767, 40000, -40000, 65535, 65536, 2**31,
     -(2**31), 3e9, 2**32, 1e15, 2**63, -(2**63), 1e30, -1e30, INF, -INF, NAN]
)  # fmt: skip
FEW = np.float32([0, -0.0, 0.4, 0.5, 1, -1, 1.5, 2.5, 3, -3, 5, 6, -6, 7, 0.0625, 0.01, 0.001])
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOAT8 = (
    "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e4m3", "float8_e3m4",
)  # fmt: skip


def every_byte(dtype: str) -> Program:
    """Every number of a type of eight bits or less, as float32."""
    return lambda x: lax.bitcast_convert_type(x, dtype).astype(jnp.float32), (np.arange(256, dtype=np.uint8),)


def to_small(dtype: str, values: Any = WIDE) -> Program:
    return lambda x: x.astype(dtype).astype(jnp.float32), (values,)


def to_integer(dtype: str) -> Program:
    return lambda x: lax.convert_element_type(x, dtype), (np.concatenate([WIDE, -WIDE]),)


CONVERT: dict[str, Program] = {
    **{f"float_to_{d}": to_integer(d) for d in INTEGERS},
    "half_to_integers": (lambda x: tuple(x.astype(jnp.float16).astype(d) for d in INTEGERS), (WIDE,)),
    "bfloat16_to_integers": (lambda x: tuple(x.astype(jnp.bfloat16).astype(d) for d in INTEGERS), (WIDE,)),
    "integers_wrap": (lambda x: tuple(x.astype(d) for d in INTEGERS), (S32,)),
    "unsigned_to_float": (lambda x: (x.astype(jnp.float32), x.astype(jnp.bfloat16), x.astype(jnp.float16)), (U32,)),
    "float_to_bool": (lambda x: x.astype(bool), (SPECIAL,)),
    "float_to_complex": (lambda x: x.astype(jnp.complex64), (SPECIAL,)),
    "bool_to_float": (lambda x: (x.astype(jnp.float32), x.astype(jnp.int8)), (np.bool_([True, False]),)),
    **{f"{d}_values": every_byte(d) for d in FLOAT8},
    **{f"to_{d}": to_small(d, np.concatenate([WIDE, FEW, np.float32(_RANDOM.standard_normal(300) * 4)])) for d in FLOAT8},
    "to_float8_e8m0fnu": to_small("float8_e8m0fnu", np.float32([1, 2, 3, 0.5, 1e10, 1e-10, 1.5, 6, NAN])),
    "to_float4_e2m1fn": to_small("float4_e2m1fn", np.concatenate([FEW, -FEW, np.float32([1e9, INF, -INF])])),
    "float8_arithmetic": (
        lambda x, y: tuple(r.astype(jnp.float32) for r in (x.astype("float8_e5m2") + y.astype("float8_e5m2"), x.astype("float8_e4m3fn") * y.astype("float8_e4m3fn"))),
        (normal(40), normal(40)),
    ),
    "float8_moves": (
        lambda x: jnp.concatenate([x.astype("float8_e4m3fn")[::-1].reshape(4, 5).T, x.astype("float8_e4m3fn").reshape(5, 4)], 1).astype(jnp.float32),
        (normal(20),),
    ),
    "float8_product": (
        lambda x, y: lax.dot(x.astype("float8_e4m3fn"), y.astype("float8_e4m3fn"), preferred_element_type=jnp.float32),
        (normal(4, 6), normal(6, 3)),
    ),
    **{f"to_{d}": (lambda x, d=d: x.astype(d).astype(jnp.int32), (S32,)) for d in ("int4", "uint4", "int2", "uint2")},
    **{f"float_to_{d}": (lambda x, d=d: x.astype(d).astype(jnp.int32), (WIDE,)) for d in ("int4", "uint4")},
    "int4_moves": (lambda x: jnp.sort(x.astype("int4").reshape(2, 4).T.astype(jnp.int8), 0), (S32,)),
    "int4_arithmetic": (lambda x, y: (x.astype("int4") + y.astype("int4")).astype(jnp.int32), (S32, S32[::-1].copy())),
    "int4_output": (lambda x: x.astype(jnp.int8).astype("int4"), (S32 % 7,)),
    "float8_output": (lambda x: x.astype("float8_e4m3fn"), (normal(9),)),
    "bitcast_float": (lambda x: lax.bitcast_convert_type(x, jnp.int32), (SPECIAL,)),
    "bitcast_narrow": (lambda x: lax.bitcast_convert_type(x, jnp.uint16), (SPECIAL,)),
}  # fmt: skip


def where_smaller(a: Any, b: Any) -> Any:
    """A reducer of pairs that is written with `jnp.where`, which JAX keeps as a call."""
    take = a[0] < b[0]
    return jnp.where(take, a[0], b[0]), jnp.where(take, a[1], b[1])


NANS = np.float32([[1, NAN, 3, -INF], [NAN, 2, NAN, INF], [-0.0, 0.0, 5, 5]])

REDUCTIONS: dict[str, Program] = {
    "sum_prod": (lambda x: (jnp.sum(x, 0), jnp.prod(x, 1), jnp.mean(x)), (normal(5, 7),)),
    "empty": (lambda x: (jnp.sum(x), jnp.prod(x, 0), jnp.any(x > 0), jnp.all(x > 0)), (np.zeros((0, 3), np.float32),)),
    "max_nan": (lambda x: (x.max(0), x.min(1), jnp.nanmax(x, 1), jnp.nansum(x)), (NANS,)),
    "arg_nan": (lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0), jnp.nanargmax(x, 1)), (NANS,)),
    "arg_ties": (lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 1)), (integers(0, 2, 4, 9),)),
    "bits": (lambda x: (lax.reduce_and(x, (0,)), lax.reduce_or(x, (0,)), lax.reduce_xor(x, (0,))), (S32,)),
    "integer": (lambda x: (x.sum(), x.prod(), x.max(), x.min()), (S32,)),
    "small_integer": (lambda x: (jnp.sum(x, dtype=jnp.int8), x.max()), (S8,)),
    "variadic": (
        lambda x, k: lax.reduce((x, k), (np.float32(INF), np.int32(-1)), where_smaller, (1,)),
        (normal(4, 6), integers(0, 9, 4, 6)),
    ),
    "variadic_all": (
        lambda x, k: lax.reduce((x, k), (np.float32(INF), np.int32(-1)), where_smaller, (0, 1)),
        (normal(4, 6), integers(0, 9, 4, 6)),
    ),
    "custom": (lambda x: lax.reduce(x, np.float32(0), lambda a, b: a * 0.5 + b * b, (0,)), (normal(6, 2),)),
    "custom_call": (lambda x: lax.reduce(x, np.float32(0), lambda a, b: jnp.where(a > b, a, jnp.abs(b)), (1,)), (normal(3, 9),)),
    "reduce_precision": (lambda x: jnp.sum(x.astype(jnp.bfloat16), 1, dtype=jnp.float32), (normal(3, 9),)),
    "half_sum": (lambda x: jnp.sum(x.astype(jnp.float16)), (normal(30),)),
    "complex_sum": (lambda x: (x.sum(0), x.prod()), (COMPLEX.reshape(3, 3),)),
    "bool_any": (lambda x: (jnp.any(x, 0), jnp.all(x, 1), jnp.sum(x)), (NANS > 1,)),
    "cumsum_reverse": (lambda x: (lax.cumsum(x, 1, reverse=True), lax.cumprod(x, 0)), (normal(4, 6),)),
    "cum_extreme": (lambda x: (lax.cummax(x, 1), lax.cummin(x, 0), lax.cumlogsumexp(x, 1)), (normal(4, 6),)),
    "window_sum": (lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 3), (1, 2), [(1, 0), (2, 1)]), (normal(5, 7),)),
    "window_max_dilated": (
        lambda x: lax.reduce_window(x, -INF, lax.max, (2, 2), (2, 1), "VALID", (1, 1), (2, 3)), (normal(7, 8),)),
    "window_min_base": (
        lambda x: lax.reduce_window(x, INF, lax.min, (3, 2), (1, 1), [(1, 1), (0, 0)], (2, 1), (1, 1)), (normal(4, 5),)),
    "window_custom": (
        lambda x: lax.reduce_window(x, 1.0, lambda a, b: jnp.where(b > 0, a * b, a), (2, 2), (1, 1), "SAME"), (normal(4, 5),)),
    "window_integer": (lambda x: lax.reduce_window(x, np.int32(0), lax.add, (3,), (2,), "SAME"), (integers(-9, 9, 10),)),
    "window_variadic": (
        lambda x, k: lax.reduce_window((x, k), (np.float32(INF), np.int32(-1)), where_smaller, (3,), (1,), "SAME"),
        (normal(9), integers(0, 9, 9))),
    "select_and_scatter": (
        jax.grad(lambda x: jnp.sum(lax.reduce_window(x, -INF, lax.max, (2, 3), (2, 2), "SAME") ** 2)), (normal(5, 7),)),
    "logsumexp_infinite": (lambda x: jax.nn.logsumexp(x, 1), (np.float32([[-INF, -INF], [INF, 1], [0, NAN]]),)),
    "softmax_infinite": (lambda x: (jax.nn.softmax(x, 1), jax.nn.log_softmax(x, 1)), (np.float32([[-INF, 0, 1], [100, 0, -100]]),)),
}  # fmt: skip

ORDER: dict[str, Program] = {
    "sort_nan": (lambda x: (jnp.sort(x, 1), jnp.argsort(x, 0)), (NANS,)),
    "sort_zeros": (lambda x: (jnp.sort(x), jnp.argsort(x, stable=True)), (np.float32([0.0, -0.0, 0.0, -0.0, -1]),)),
    "sort_ties": (lambda k, v: lax.sort((k, v), num_keys=1, is_stable=True), (integers(0, 3, 20), normal(20))),
    "sort_two_keys": (lambda k, j, v: lax.sort((k, j, v), num_keys=2), (integers(0, 3, 20), normal(20), normal(20))),
    "sort_dimension": (lambda x: lax.sort(x, dimension=0), (normal(5, 3, 2),)),
    "sort_complex": (lambda x: jnp.sort(x), (COMPLEX,)),
    "sort_bool": (lambda x: jnp.sort(x), (np.bool_([1, 0, 1, 0, 0]),)),
    "sort_small": (lambda x, y: (jnp.sort(x), jnp.sort(y)), (S8, U8)),
    "sort_half": (lambda x: jnp.sort(x.astype(jnp.bfloat16)).astype(jnp.float32), (SPECIAL,)),
    "top_k": (lambda x: lax.top_k(x, 3), (NANS,)),
    "top_k_ties": (lambda x: lax.top_k(x, 4), (integers(0, 3, 2, 9),)),
    "approximate_top_k": (lambda x: lax.approx_max_k(x, 3), (normal(2, 9),)),
    "searchsorted": (lambda x, v: (jnp.searchsorted(x, v), jnp.searchsorted(x, v, side="right")), (np.float32([1, 2, 2, 3]), np.float32([0, 2, 2.5, 9]))),
    "unique": (lambda x: jnp.unique(x, size=5, fill_value=-1, return_index=True, return_counts=True), (integers(0, 4, 12),)),
    "median_nan": (lambda x: (jnp.median(x, 1), jnp.nanmedian(x, 1)), (NANS,)),
}  # fmt: skip

INDICES = np.int32([[0, -1], [7, 2], [3, 100], [-100, 1]])

INDEXING: dict[str, Program] = {
    **{
        f"gather_{mode}": (lambda x, i, mode=mode: x.at[i[:, 0], i[:, 1]].get(mode=mode), (normal(6, 4), INDICES if mode != "promise_in_bounds" else abs(INDICES) % 4))
        for mode in ("clip", "fill", "promise_in_bounds")
    },
    **{
        f"scatter_{mode}": (
            lambda x, i, u, mode=mode: x.at[i[:, 0], i[:, 1]].add(u, mode=mode), (normal(6, 4), INDICES, normal(4)))
        for mode in ("clip", "drop")
    },
    "gather_rows_windows": (
        lambda x, i: lax.gather(
            x, i, lax.GatherDimensionNumbers(offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(1, 0)), (2, 3), mode="clip"),
        (normal(6, 5), INDICES)),
    "gather_batching": (
        lambda x, i: lax.gather(
            x, i, lax.GatherDimensionNumbers(offset_dims=(2,), collapsed_slice_dims=(), start_index_map=(1,),
                                             operand_batching_dims=(0,), start_indices_batching_dims=(1,)), (1, 2), mode="clip"),
        (normal(3, 5), integers(-2, 7, 4, 3, 1))),
    "scatter_batching": (
        lambda x, i, u: lax.scatter_add(
            x, i, u, lax.ScatterDimensionNumbers(update_window_dims=(2,), inserted_window_dims=(), scatter_dims_to_operand_dims=(1,),
                                                 operand_batching_dims=(0,), scatter_indices_batching_dims=(1,)), mode="drop"),
        (normal(3, 5), integers(-2, 7, 4, 3, 1), normal(4, 3, 2))),
    "scatter_windows": (
        lambda x, i, u: lax.scatter(
            x, i, u, lax.ScatterDimensionNumbers((1, 2), (), (0, 1)), mode=lax.GatherScatterMode.FILL_OR_DROP, unique_indices=True),
        (normal(6, 6), np.int32([[0, 0], [5, 1], [3, 4], [2, 2]]), normal(4, 2, 2))),
    "scatter_apply": (lambda x, i: x.at[i].apply(jnp.sin), (normal(6), np.int32([1, 3, 1]))),
    "scatter_min_max": (lambda x, i, u: (x.at[i].min(u), x.at[i].max(u)), (normal(5), np.int32([1, 1, 4, 9]), np.float32([NAN, 5, -5, 1]))),
    "scatter_multiply": (lambda x, i, u: x.at[i].multiply(u), (normal(5), np.int32([1, 1, 4]), normal(3))),
    "scatter_integer": (lambda x, i, u: x.at[i].add(u), (integers(0, 9, 5, dtype="int8"), np.int32([1, 1, 4]), np.int8([100, 100, 3]))),
    "scatter_complex": (lambda x, i, u: x.at[i].add(u), (COMPLEX, np.int32([1, 1, 4]), COMPLEX[:3])),
    "dynamic_slice": (lambda x, i: (lax.dynamic_slice(x, (i, -i), (2, 3)), lax.dynamic_index_in_dim(x, i, 1)), (normal(5, 6), np.int32(4))),
    "dynamic_update": (lambda x, u, i: lax.dynamic_update_slice(x, u, (i, -i)), (normal(5, 6), normal(2, 3), np.int32(9))),
    "dynamic_unsigned": (lambda x, i: lax.dynamic_slice(x, (i,), (2,)), (normal(5), np.uint32(2**31 + 5))),
    "boolean_mask": (lambda x: jnp.where(x > 0, x, 0).at[jnp.nonzero(x > 0, size=4, fill_value=9)].set(-1), (normal(8),)),
    "take_modes": (lambda x, i: (jnp.take(x, i, mode="clip"), jnp.take(x, i, mode="wrap"), jnp.take(x, i)), (normal(5), np.int32([0, 7, -2]))),
    "empty_gather": (lambda x, i: x[i], (normal(5, 3), np.zeros((0,), np.int32))),
    "empty_scatter": (lambda x, i: x.at[i].add(1.0), (normal(5, 3), np.zeros((0,), np.int32))),
}  # fmt: skip

MOVEMENT: dict[str, Program] = {
    "pad_interior": (lambda x: lax.pad(x, jnp.float32(NAN), ((2, -1, 1), (-1, 3, 2))), (normal(4, 5),)),
    "pad_negative": (lambda x: lax.pad(x, jnp.float32(7), ((-1, -1, 0), (-3, 1, 1))), (normal(4, 5),)),
    "concatenate_three": (lambda x, y, z: jnp.stack([x, y * 2, z + x], -1), (normal(40), normal(40), normal(40))),
    "concatenate_empty": (lambda x, y: jnp.concatenate([x, y[:0], y]), (normal(3, 2), normal(4, 2))),
    "concatenate_many": (lambda x: jnp.concatenate([x * k for k in range(12)], 1), (normal(3, 2),)),
    "slice_strided": (lambda x: (x[1:6:2, ::-3], x[::-1][::2], lax.slice(x, (0, 1), (7, 6), (3, 2))), (normal(7, 6),)),
    "reverse": (lambda x: (lax.rev(x, (0, 2)), lax.rev(x, (1,))), (normal(2, 3, 4),)),
    "transpose": (lambda x: (x.transpose(2, 0, 1), x.T, jnp.moveaxis(x, 0, -1)), (normal(2, 3, 4),)),
    "broadcast": (lambda x: (lax.broadcast_in_dim(x, (3, 2, 4), (1,)), jnp.broadcast_to(x, (5, 2))), (normal(2),)),
    "iota": (lambda: (lax.iota(jnp.int8, 9), lax.broadcasted_iota(jnp.float32, (2, 3), 1), lax.iota(jnp.uint32, 3)), ()),
    "iota_types": (lambda: (lax.iota(jnp.bfloat16, 9).astype(jnp.float32), lax.iota(jnp.complex64, 3), jnp.eye(3, k=1)), ()),
    "reshape_scalar": (lambda x: (x.reshape(()), x.reshape(1, 1, 1), jnp.squeeze(x)), (normal(1, 1),)),
    "zero_sized": (lambda x: (x.T @ x, x.sum(1), x[:, :0]), (np.zeros((0, 3), np.float32),)),
}  # fmt: skip

CONTROL: dict[str, Program] = {
    "while_never": (lambda x: lax.while_loop(lambda s: False, lambda s: s + 1, x), (normal(3),)),
    "while_tuple": (lambda x: lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, (s[1][1], s[1][0])), (0, (x, x + 1))), (normal(3),)),
    "scan_reverse": (lambda x: lax.scan(lambda c, v: (c * 0.5 + v, c), x[0], x, reverse=True), (normal(6, 2),)),
    "scan_empty": (lambda x: lax.scan(lambda c, v: (c + v, c), jnp.zeros(2), x), (np.zeros((0, 2), np.float32),)),
    "scan_long": (lambda x: lax.scan(lambda h, v: (jnp.tanh(h * 0.9 + v), h), jnp.zeros(4), x), (normal(300, 4),)),
    "scan_unrolled": (lambda x: lax.scan(lambda c, v: (c + v, c * v), jnp.zeros(2), x, unroll=3), (normal(7, 2),)),
    "scan_integer": (lambda x: lax.scan(lambda c, v: (c * 31 + v, c), jnp.int32(7), x), (integers(0, 99, 12),)),
    "nested_scan": (lambda x: lax.scan(lambda c, r: lax.scan(lambda d, v: (d + v, d * v), c, r), jnp.float32(0), x), (normal(4, 5),)),
    "switch_low": (lambda x, k: lax.switch(k, [jnp.sin, jnp.cos, jnp.exp], x), (normal(4), -3)),
    "cond_tuple": (lambda p, x: lax.cond(p, lambda t: (t, t + 1), lambda t: (t * 2, t), x), (False, normal(3))),
    "cond_in_loop": (lambda x: lax.fori_loop(0, 9, lambda i, s: lax.cond(i % 2 == 0, jnp.sin, jnp.cos, s), x), (normal(3),)),
    "vmapped_while": (jax.vmap(lambda x: lax.while_loop(lambda s: s < 10, lambda s: s * 1.5 + 1, x)), (np.float32([0, 5, 100]),)),
    "collatz": (lambda n: lax.while_loop(lambda s: s[0] != 1, lambda s: (jnp.where(s[0] % 2, 3 * s[0] + 1, s[0] // 2), s[1] + 1), (n, 0)), (np.int32(27),)),
    "barrier": (lambda x: lax.optimization_barrier((x + 1, x * 2)), (normal(3),)),
    "rk4": (lambda y: lax.fori_loop(0, 5, lambda i, s: s + 0.01 * jnp.stack([10 * (s[1] - s[0]), s[0] * (28 - s[2]) - s[1], s[0] * s[1] - s[2]]), y), (normal(3),)),
}  # fmt: skip


def conv(*dims: int, kernel: tuple[int, ...], **options: Any) -> Program:
    return lambda x, k: lax.conv_general_dilated(x, k, **options), (normal(*dims), normal(*kernel))


PRODUCTS: dict[str, Program] = {
    "dot_general": (
        lambda x, y: lax.dot_general(x, y, (((2, 0), (1, 3)), ((1,), (2,)))), (normal(2, 3, 4), normal(5, 4, 3, 2))),
    "dot_infinite": (lambda x, y: x @ y, (np.float32([[0, INF], [1, 2]]), np.float32([[1, 2], [0, 3]]))),
    "dot_half": (lambda x, y: (x.astype(jnp.float16) @ y.astype(jnp.float16)).astype(jnp.float32), (normal(3, 4), normal(4, 2))),
    "dot_bfloat16": (lambda x, y: lax.dot(x.astype(jnp.bfloat16), y.astype(jnp.bfloat16), preferred_element_type=jnp.float32), (normal(3, 4), normal(4, 2))),
    "dot_unsigned": (lambda x, y: x @ y, (integers(0, 2**31, 3, 4, dtype="uint32"), integers(0, 2**31, 4, 2, dtype="uint32"))),
    "dot_complex": (lambda x, y: jnp.einsum("ij,kj->ik", x, y.conj()), (COMPLEX.reshape(3, 3), COMPLEX.reshape(3, 3))),
    "dot_float8_result": (
        lambda x, y: (x.astype("float8_e5m2") @ y.astype("float8_e5m2")).astype(jnp.float32), (np.eye(3, dtype=np.float32), normal(3, 3))),
    "dot_bool": (lambda x, y: jnp.dot(x, y), (NANS > 1, NANS.T > 0)),
    "dot_empty": (lambda x, y: x @ y, (np.zeros((3, 0), np.float32), np.zeros((0, 2), np.float32))),
    "ragged_dot": (lax.ragged_dot, (normal(6, 3), normal(3, 3, 4), np.int32([2, 0, 3]))),
    "conv_negative_padding": conv(1, 2, 7, 6, kernel=(3, 2, 2, 3), window_strides=(1, 2), padding=[(-1, 1), (2, -1)]),
    "conv_integer": (
        lambda x, k: lax.conv_general_dilated(x, k, (1,), "SAME"), (integers(-9, 9, 1, 2, 8), integers(-9, 9, 3, 2, 3))),
    "conv_depthwise": conv(1, 4, 6, 5, kernel=(8, 1, 3, 3), window_strides=(1, 1), padding="SAME", feature_group_count=4),
    "conv_complex": (
        lambda x, k: lax.conv_general_dilated(x, k, (1,), "VALID"), (COMPLEX.reshape(1, 1, 9), COMPLEX[:3].reshape(1, 1, 3))),
    "conv_transposed": (lambda x, k: lax.conv_transpose(x, k, (2,), "VALID", transpose_kernel=True), (normal(1, 5, 2), normal(3, 3, 2))),
}  # fmt: skip

LINEAR: dict[str, Program] = {
    **{
        f"triangular_{'left' if left else 'right'}_{'lower' if lower else 'upper'}_{'t' if transposed else 'n'}{'_unit' if unit else ''}": (
            lambda a, b, o=(left, lower, transposed, unit): lax.linalg.triangular_solve(
                a, b, left_side=o[0], lower=o[1], transpose_a=o[2], unit_diagonal=o[3]),
            (positive(4), normal(4, 4)),
        )
        for left, lower, transposed, unit in (
            (True, True, False, False), (True, False, True, False), (False, True, True, False), (False, False, False, True))
    },
    "triangular_batched": (lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True), (np.stack([positive(3)] * 2), normal(2, 3, 5))),
    "triangular_complex": (
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True, transpose_a=True, conjugate_a=True),
        (COMPLEX.reshape(3, 3) + 3 * np.eye(3, dtype=np.complex64), COMPLEX.reshape(3, 3))),
    "cholesky_batched": (jnp.linalg.cholesky, (np.stack([positive(3), -positive(3)]),)),
    "schur": (lambda a: (lambda t, z: z @ t @ z.T)(*sl.schur(a)), (normal(4, 4),)),
    "schur_symmetric": (lambda a: jnp.sort(jnp.diag(lax.linalg.schur(a)[0])), (positive(4),)),
    "schur_complex": (lambda a: (lambda t, z: (z @ t @ z.conj().T, jnp.tril(t, -1)))(*sl.schur(a, output="complex")), (COMPLEX.reshape(3, 3),)),
    "sqrtm": (sl.sqrtm, (positive(3),)),
    "eigh": (lambda a: (lambda w, v: (w, v @ jnp.diag(w) @ v.T))(*jnp.linalg.eigh(a)), (positive(4),)),
    "eigvals": (lambda a: jnp.sort(jnp.linalg.eigvals(a).real), (positive(4),)),
    "svd": (lambda a: jnp.linalg.svd(a, compute_uv=False), (normal(4, 3),)),
    "lu": (lambda a: lax.linalg.lu(a), (normal(4, 3),)),
    "qr_complete": (lambda a: (lambda q, r: q @ r)(*jnp.linalg.qr(a, mode="complete")), (normal(5, 3),)),
    "householder": (lambda a: lax.linalg.householder_product(a, a[0]), (normal(4, 3),)),
    "tridiagonal_solve": (lax.linalg.tridiagonal_solve, (normal(5), normal(5) + 5, normal(5), normal(5, 2))),
    "tridiagonal": (lambda a: lax.linalg.tridiagonal(a, lower=True)[1:3], (positive(4),)),
    "matrix_power": (lambda a: (jnp.linalg.matrix_power(a, 3), jnp.linalg.matrix_rank(a)), (normal(3, 3),)),
    "fft": (lambda x: (jnp.fft.fft(x, 5), jnp.fft.ifft(x), jnp.fft.hfft(x)), (COMPLEX,)),
    "rfft": (lambda x: (jnp.fft.rfft(x), jnp.fft.irfft(jnp.fft.rfft(x), 7), jnp.fft.rfft2(x)), (normal(3, 7),)),
}  # fmt: skip

RANDOM: dict[str, Program] = {
    "rng_constant": (lambda a: lax.rng_uniform(a, a, (4,)), (np.float32(2),)),
    "rng_range": (lambda a, b: (lambda x: (jnp.all((x >= a) & (x < b)), jnp.unique(x, size=50).shape[0]))(lax.rng_uniform(a, b, (50,))), (np.float32(-1), np.float32(3))),
    "rng_integer": (lambda a, b: (lambda x: jnp.all((x >= a) & (x < b)))(lax.rng_uniform(a, b, (50,))), (np.int32(-5), np.int32(7))),
    "rng_bit_generator": (lambda s: lax.rng_bit_generator(s, (5,), dtype=jnp.uint8, algorithm=lax.RandomAlgorithm.RNG_THREE_FRY), (U32[:4],)),
    "philox_wide": (lambda s: lax.rng_bit_generator(s, (3,), algorithm=lax.RandomAlgorithm.RNG_PHILOX), (U32[:4],)),
    "random_bits": (lambda: (jax.random.bits(jax.random.key(0), (5,), "uint8"), jax.random.bits(jax.random.key(1), (3,), "uint16")), ()),
    "truncated_normal": (lambda: jax.random.truncated_normal(jax.random.key(0), -1, 1, (9,)), ()),
    "beta": (lambda: jax.random.beta(jax.random.key(0), 2.0, 3.0, (5,)), ()),
    "fold_in": (lambda: jax.random.uniform(jax.random.fold_in(jax.random.key(0), 7), (3,)), ()),
    "shuffle": (lambda: jax.random.permutation(jax.random.key(3), jnp.arange(12).reshape(4, 3), independent=True), ()),
}  # fmt: skip

CORNERS: dict[str, dict[str, Program]] = {
    "unary": UNARY,
    "binary": BINARY,
    "convert": CONVERT,
    "reductions": REDUCTIONS,
    "order": ORDER,
    "indexing": INDEXING,
    "movement": MOVEMENT,
    "control": CONTROL,
    "products": PRODUCTS,
    "linear": LINEAR,
    "random": RANDOM,
}
