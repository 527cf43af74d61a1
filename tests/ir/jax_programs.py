"""Programs of JAX that run here: name -> (function, arguments). One dictionary a family."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax_programs_more import ARRAYS, MATRICES, SAMPLES, SPECIAL

Program = tuple[Callable[..., Any], tuple[Any, ...]]

RNG = np.random.default_rng(0)


def normal(*dims: int, dtype: str = "float32") -> Any:
    return RNG.standard_normal(dims).astype(dtype)


def imaginary(*dims: int) -> Any:
    return (RNG.standard_normal(dims) + 1j * RNG.standard_normal(dims)).astype(np.complex64)


def integers(low: int, high: int, *dims: int, dtype: str = "int32") -> Any:
    return RNG.integers(low, high, dims).astype(dtype)


def positive(n: int) -> Any:
    a = normal(n, n)
    return a @ a.T + n * np.eye(n, dtype=np.float32)


ELEMENTWISE: dict[str, Program] = {
    "exp_log": (lambda x: (jnp.exp(x), jnp.log(jnp.abs(x)), jnp.expm1(x), jnp.log1p(jnp.abs(x))), (normal(20),)),
    "trigonometry": (lambda x: (jnp.sin(x), jnp.cos(x), jnp.tan(x), jnp.arctan2(x, x + 1)), (normal(20),)),
    "inverse_trigonometry": (lambda x: (jnp.arcsin(x), jnp.arccos(x), jnp.arctan(x)), (np.tanh(normal(20)),)),
    "hyperbolic": (lambda x: (jnp.sinh(x), jnp.cosh(x), jnp.tanh(x)), (normal(20),)),
    "inverse_hyperbolic": (
        lambda x: (jnp.arcsinh(x), jnp.arccosh(1 + jnp.abs(x)), jnp.arctanh(jnp.tanh(x) / 2)),
        (normal(20),),
    ),
    "error_functions": (lambda x: (lax.erf(x), lax.erfc(x), lax.erf_inv(jnp.tanh(x))), (normal(20),)),
    "roots": (lambda x: (jnp.sqrt(x * x), lax.rsqrt(x * x), jnp.cbrt(x)), (normal(20),)),
    "rounding": (
        lambda x: (jnp.floor(x), jnp.ceil(x), jnp.round(x), lax.round(x), jnp.trunc(x)),
        (normal(20) * 10,),
    ),
    "complex_arithmetic": (lambda x, y: (x + y, x - y, x * y, x / y, -x, jnp.conj(x)), (imaginary(9), imaginary(9))),
    "complex_functions": (
        lambda x: (jnp.exp(x), jnp.log(x), jnp.sqrt(x), jnp.sin(x), jnp.cos(x), jnp.tanh(x), jnp.sign(x)),
        (imaginary(9),),
    ),
    "complex_parts": (
        lambda x: (x.real, x.imag, jnp.abs(x), jnp.angle(x), lax.complex(x.real, x.real)),
        (imaginary(9),),
    ),
    "complex_power": (lambda x, y: x**y, (imaginary(9), imaginary(9))),
    "half": (lambda x: (x * x + 1, jnp.exp(x), jnp.sum(x)), (normal(20, dtype="float16"),)),
    "bfloat16": (
        lambda x: (
            (x.astype(jnp.bfloat16) * 3).astype(jnp.float32) + jnp.tanh(x.astype(jnp.bfloat16)).astype(jnp.float32)
        ),
        (normal(20),),
    ),
    "int8": (lambda x, y: (x + y, x * y, x // y, x % y), (integers(-128, 127, 30, dtype="int8"), np.int8([3] * 30))),
    "int16": (lambda x: (x >> 2, x << 3, ~x, jnp.abs(x)), (integers(-30000, 30000, 30, dtype="int16"),)),
    "uint8": (lambda x: (x + 200, x >> 1, x & 15, x ^ 255, lax.clz(x)), (integers(0, 255, 30, dtype="uint8"),)),
    "uint32": (lambda x: (x * x, lax.population_count(x), lax.clz(x)), (integers(0, 2**31, 30, dtype="uint32"),)),
    "integer_power": (lambda x: (x**3, lax.integer_pow(x, 5)), (integers(-9, 9, 20),)),
    "logical": (
        lambda x, y: (x & y, x | y, x ^ y, ~x),
        (integers(0, 2, 9, dtype="bool"), integers(0, 2, 9, dtype="bool")),
    ),
    "bitcast": (
        lambda x: (lax.bitcast_convert_type(x, jnp.uint32), lax.bitcast_convert_type(x, jnp.uint8)),
        (normal(4, 3),),
    ),
    "bitcast_wider": (lambda x: lax.bitcast_convert_type(x, jnp.float32), (integers(0, 255, 5, 4, dtype="uint8"),)),
    "clamp_scalar": (lambda x: lax.clamp(-0.5, x, 0.5), (normal(20),)),
    "reduce_precision": (
        lambda x: (lax.reduce_precision(x, 5, 3), lax.reduce_precision(x, 8, 7)),
        (normal(40) * 1000,),
    ),
    "nextafter": (lambda x: jnp.nextafter(x, x + 1), (normal(20),)),
    "gamma": (lambda x: (lax.lgamma(x), lax.digamma(x)), (np.abs(normal(20)) + 0.5,)),
    "bessel": (lambda x: (lax.bessel_i0e(x), lax.bessel_i1e(x)), (normal(20),)),
    "polynomial": (lambda x: jnp.polyval(jnp.array([1.0, -2.0, 0.5]), x), (normal(20),)),
    "constants": (lambda x: x + np.arange(60, dtype=np.float32).reshape(3, 20) / 7, (normal(3, 20),)),
}

REDUCTIONS: dict[str, Program] = {
    "sum_axes": (lambda x: (x.sum(), x.sum(0), x.sum((0, 2))), (normal(3, 5, 7),)),
    "product": (lambda x: jnp.prod(x, -1), (normal(4, 6),)),
    "extremes": (lambda x: (x.max(0), x.min(1)), (normal(4, 6),)),
    "argmax_argmin": (lambda x: (jnp.argmax(x, 1), jnp.argmin(x)), (normal(4, 6),)),
    "any_all": (lambda x: (jnp.any(x > 1, 0), jnp.all(x > -2, 1)), (normal(4, 6),)),
    "logsumexp": (lambda x: jax.nn.logsumexp(x, -1), (normal(4, 6),)),
    "variance": (lambda x: (jnp.var(x, 0), jnp.std(x)), (normal(4, 6),)),
    "reduce_pairs": (
        lambda x, y: lax.reduce((x, y), (np.float32(0), np.float32(1)), lambda a, b: (a[0] + b[0], a[1] * b[1]), (1,)),
        (normal(3, 4), normal(3, 4)),
    ),
    "cumulative": (
        lambda x: (jnp.cumsum(x, 0), jnp.cumprod(x, 1), lax.cummax(x), lax.cummin(x, 1, reverse=True)),
        (normal(4, 6),),
    ),
    "cumulative_logsumexp": (lambda x: lax.cumlogsumexp(x), (normal(7),)),
    "norm": (lambda x: (jnp.linalg.norm(x), jnp.linalg.norm(x, axis=1)), (normal(4, 6),)),
    "histogram": (lambda x: jnp.bincount(x, length=6), (integers(0, 6, 40),)),
}

PRODUCTS: dict[str, Program] = {
    "matmul": (lambda x, y: x @ y, (normal(4, 5), normal(5, 3))),
    "batched": (lambda x, y: jnp.einsum("bij,bkj->bik", x, y), (normal(3, 4, 5), normal(3, 6, 5))),
    "tensordot": (lambda x, y: jnp.tensordot(x, y, ((0, 2), (1, 0))), (normal(3, 4, 5), normal(5, 3, 2))),
    "integer_matmul": (lambda x, y: x @ y, (integers(-9, 9, 4, 5), integers(-9, 9, 5, 3))),
    "wider_result": (
        lambda x, y: lax.dot(x, y, preferred_element_type=jnp.int32),
        (integers(-100, 100, 4, 5, dtype="int8"), integers(-100, 100, 5, 3, dtype="int8")),
    ),
    "complex_matmul": (lambda x, y: x @ y, (imaginary(3, 4), imaginary(4, 2))),
    "outer_inner": (lambda x, y: (jnp.outer(x, y), jnp.dot(x, y)), (normal(5), normal(5))),
    "attention": (
        lambda q, k, v: jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(jnp.einsum("hqd,hkd->hqk", q, k) / 2.0), v),
        (normal(2, 5, 4), normal(2, 6, 4), normal(2, 6, 4)),
    ),
}


def conv(**options: Any) -> Callable[[Any, Any], Any]:
    return lambda x, k: lax.conv_general_dilated(x, k, **options)


def conv_gradient(x: Any, k: Any) -> Any:
    def loss(x: Any, k: Any) -> Any:
        return jnp.sum(jnp.sin(lax.conv_general_dilated(x, k, (2, 1), [(1, 1), (0, 2)], rhs_dilation=(1, 2))))

    return jax.grad(loss, (0, 1))(x, k)


def max_pool(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")


WINDOWS: dict[str, Program] = {
    "conv": (conv(window_strides=(1, 1), padding="SAME"), (normal(2, 3, 6, 5), normal(4, 3, 3, 3))),
    "conv_strided": (conv(window_strides=(2, 1), padding=[(1, 1), (0, 2)]), (normal(2, 3, 6, 5), normal(4, 3, 3, 2))),
    "conv_dilated": (
        conv(window_strides=(2, 1), padding=[(1, 1), (-1, 2)], lhs_dilation=(1, 2), rhs_dilation=(2, 1)),
        (normal(2, 3, 6, 5), normal(4, 3, 3, 2)),
    ),
    "conv_nhwc": (
        conv(window_strides=(1, 2), padding="VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        (normal(2, 6, 5, 3), normal(3, 2, 3, 4)),
    ),
    "conv_grouped": (
        conv(window_strides=(1, 1), padding="VALID", feature_group_count=2),
        (normal(2, 4, 6, 5), normal(6, 2, 3, 3)),
    ),
    "conv_batch_grouped": (
        conv(window_strides=(1, 1), padding="VALID", batch_group_count=2),
        (normal(4, 3, 6, 5), normal(6, 3, 3, 3)),
    ),
    "conv_1d": (conv(window_strides=(1,), padding=[(2, 2)]), (normal(2, 3, 9), normal(4, 3, 3))),
    "conv_3d": (conv(window_strides=(1, 1, 1), padding="VALID"), (normal(1, 2, 4, 4, 4), normal(3, 2, 2, 2, 2))),
    "conv_transpose": (
        lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME"),
        (normal(1, 4, 4, 2), normal(3, 3, 2, 3)),
    ),
    "conv_gradient": (conv_gradient, (normal(2, 3, 6, 7), normal(4, 3, 3, 2))),
    "max_pool": (max_pool, (normal(2, 5, 6, 3),)),
    "max_pool_gradient": (jax.grad(lambda x: jnp.sum(jnp.sin(max_pool(x)))), (normal(2, 5, 6, 3),)),
    "average_pool": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 2, 1), "VALID") / 9,
        (normal(2, 5, 6, 3),),
    ),
    "average_pool_gradient": (
        jax.grad(lambda x: jnp.sum(jnp.sin(lax.reduce_window(x, 0.0, lax.add, (1, 3), (1, 2), "SAME")))),
        (normal(5, 6),),
    ),
    "pool_dilated": (
        lambda x: lax.reduce_window(
            x, -jnp.inf, lax.max, (2, 2), (1, 2), [(1, 0), (0, 1)], base_dilation=(2, 1), window_dilation=(1, 2)
        ),
        (normal(5, 6),),
    ),
}

ORDER: dict[str, Program] = {
    "sort": (lambda x: (jnp.sort(x), jnp.sort(x, 0), jnp.argsort(x)), (normal(4, 9),)),
    "sort_descending": (lambda x: jnp.sort(x, descending=True), (integers(-5, 5, 20),)),
    "sort_pairs": (lambda x, y: lax.sort((x, y), num_keys=2), (integers(0, 4, 20), normal(20))),
    "sort_special": (lambda x: jnp.sort(x), (np.float32([np.nan, 1, -0.0, 0.0, np.inf, -np.inf, -1]),)),
    "top_k": (lambda x: lax.top_k(x, 3), (normal(4, 9),)),
    "median": (lambda x: (jnp.median(x), jnp.quantile(x, 0.3)), (normal(15),)),
    "search_sorted": (lambda x, y: jnp.searchsorted(jnp.sort(x), y), (normal(15), normal(4))),
    "unique": (lambda x: jnp.unique(x, size=6, fill_value=0), (integers(0, 6, 20),)),
}


def newton(x: Any) -> Any:
    return lax.while_loop(lambda s: s[0] < 8, lambda s: (s[0] + 1, (s[1] + x / s[1]) / 2), (0, x))[1]


def recurrent(w: Any, xs: Any) -> Any:
    def loss(w: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = jnp.tanh(h @ w + x)
            return h, h.sum()

        h, sums = lax.scan(step, jnp.zeros(4), xs)
        return h.sum() + (sums**2).sum()

    return jax.value_and_grad(loss)(w)


CONTROL: dict[str, Program] = {
    "scan": (lambda x: lax.scan(lambda c, v: (c + v, c * v), x[0], x), (normal(5, 4),)),
    "scan_gradient": (recurrent, (normal(4, 4), normal(6, 4))),
    "fori": (lambda x: lax.fori_loop(0, 5, lambda i, s: s * 0.5 + i, x), (normal(4),)),
    "while": (newton, (np.abs(normal(5)) + 1,)),
    "nested_loops": (
        lambda x: lax.fori_loop(0, 3, lambda i, s: lax.fori_loop(0, i, lambda j, t: t + j, s), x),
        (normal(3),),
    ),
    "cond": (lambda x, p: lax.cond(p, jnp.sin, jnp.cos, x), (normal(4), True)),
    "switch": (lambda x, k: lax.switch(k, [jnp.sin, jnp.cos, jnp.exp], x), (normal(4), 7)),
    "cond_gradient": (
        lambda x, p: jax.grad(lambda x: jnp.sum(lax.cond(p > 0, jnp.sin, jnp.square, x)))(x),
        (normal(4), np.float32(-1)),
    ),
    "vmapped_while": (
        jax.vmap(lambda n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 2), (0, 1))),
        (integers(0, 6, 5),),
    ),
    "map": (lambda x: lax.map(lambda r: jnp.sort(r) * 2, x), (normal(3, 4),)),
    "associative_scan": (lambda x: lax.associative_scan(jnp.maximum, x), (normal(9),)),
    "checkpoint": (jax.grad(jax.checkpoint(lambda x: jnp.sum(jnp.sin(jnp.sin(x))))), (normal(4),)),
    "custom_gradient": (jax.grad(lambda x: jnp.sum(jax.nn.relu(x) + jax.nn.softplus(x))), (normal(9),)),
}

INDEXING: dict[str, Program] = {
    "gather": (lambda x, i: (x[i], x[:, i % 3], x[i, i % 3]), (normal(10, 3), integers(0, 10, 5))),
    "take_along": (lambda x, i: jnp.take_along_axis(x, i, 1), (normal(4, 6), integers(0, 6, 4, 2))),
    "gather_batched": (jax.vmap(lambda x, i: x[i]), (normal(3, 5), integers(0, 5, 3, 2))),
    "gather_windows": (
        jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (3,)), (None, 0)),
        (normal(9), integers(0, 9, 4)),
    ),
    "scatter_set": (lambda x, i, u: x.at[i].set(u), (normal(10, 3), np.int32([1, 5, 7]), normal(3, 3))),
    "scatter_add": (lambda x, i, u: x.at[i].add(u), (normal(10, 3), np.int32([1, 5, 1]), normal(3, 3))),
    "scatter_extreme": (
        lambda x, i, u: (x.at[i].max(u), x.at[i].min(u), x.at[i].multiply(u)),
        (normal(10), np.int32([1, 5, 1, 30]), normal(4)),
    ),
    "scatter_batched": (
        jax.vmap(lambda x, i, u: x.at[i].add(u)),
        (normal(3, 5), integers(0, 5, 3, 2), normal(3, 2)),
    ),
    "gather_gradient": (
        lambda x, i: jax.grad(lambda x: jnp.sum(jnp.sin(x[i]) * 2))(x),
        (normal(6, 3), np.int32([1, 2, 1, 5])),
    ),
    "segment_sum": (lambda x, i: jax.ops.segment_sum(x, i, 4), (normal(9, 2), integers(0, 4, 9))),
    "dynamic_slices": (
        lambda x, i: lax.dynamic_update_slice(x, lax.dynamic_slice(x, (i, 0), (2, 3)) * 2, (0, i)),
        (normal(5, 5), np.int32(4)),
    ),
    "pad": (
        lambda x: (lax.pad(x, jnp.float32(1.5), ((1, -1, 0), (-1, 2, 1))), jnp.pad(x, 1, mode="reflect")),
        (normal(4, 5),),
    ),
    "roll_flip": (lambda x: (jnp.roll(x, 2, 1), jnp.flip(x, 0), jnp.rot90(x)), (normal(4, 5),)),
    "tile_repeat": (lambda x: (jnp.tile(x, (2, 3)), jnp.repeat(x, 2, 1), jnp.stack([x, x], 1)), (normal(2, 3),)),
    "triangle": (lambda x: (jnp.tril(x), jnp.triu(x, 1), jnp.diag(x), jnp.trace(x)), (normal(4, 4),)),
    "one_hot": (lambda i: jax.nn.one_hot(i, 5), (integers(0, 5, 6),)),
    "meshgrid": (lambda x, y: jnp.meshgrid(x, y), (normal(3), normal(4))),
}

LINEAR: dict[str, Program] = {
    "fft": (lambda x: (jnp.fft.fft(x), jnp.fft.ifft(x), jnp.fft.fft2(x)), (imaginary(3, 8),)),
    "rfft": (lambda x: (jnp.fft.rfft(x), jnp.fft.irfft(jnp.fft.rfft(x), 7)), (normal(3, 7),)),
    "fft3": (lambda x: (jnp.fft.fftn(x), jnp.fft.rfftn(x), jnp.fft.fftshift(x)), (normal(2, 3, 4),)),
    "fft_gradient": (jax.grad(lambda x: jnp.sum(jnp.abs(jnp.fft.rfft(x)) ** 2)), (normal(6),)),
    "cholesky": (lambda x: (lax.linalg.cholesky(x), jnp.linalg.cholesky(x)), (positive(4),)),
    "cholesky_fails": (jnp.linalg.cholesky, (-positive(3),)),
    "cholesky_gradient": (jax.grad(lambda x: jnp.sum(jnp.linalg.cholesky(x))), (positive(4),)),
    "solve_triangular": (
        lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True, trans=1),
        (positive(4), normal(4, 2)),
    ),
    "solve_positive": (lambda a, b: jax.scipy.linalg.cho_solve((a, True), b), (positive(4), normal(4, 2))),
    "solve": (jnp.linalg.solve, (positive(4), normal(4, 2))),
    "inverse_determinant": (
        lambda a: (jnp.linalg.inv(a), jnp.linalg.det(a), jnp.linalg.slogdet(a)[1]),
        (normal(3, 3),),
    ),
    "qr": (jnp.linalg.qr, (normal(5, 3),)),
    "eigenvalues": (lambda a: jnp.linalg.eigh(a)[0], (positive(4),)),
    "kronecker": (jnp.kron, (normal(2, 2), normal(3, 2))),
}

RANDOM: dict[str, Program] = {
    "uniform": (lambda: jax.random.uniform(jax.random.key(1), (7,)), ()),
    "normal": (lambda: jax.random.normal(jax.random.key(2), (3, 3)), ()),
    "split": (lambda: jax.random.uniform(jax.random.split(jax.random.key(3))[1], (2, 3)), ()),
    "bernoulli": (lambda x: jax.random.bernoulli(jax.random.key(4), x), (np.float32([0.1, 0.5, 0.9]),)),
    "categorical": (lambda x: jax.random.categorical(jax.random.key(5), x), (normal(4, 3),)),
    "permutation": (lambda: jax.random.permutation(jax.random.key(6), 9), ()),
    "integers": (lambda: jax.random.randint(jax.random.key(7), (8,), 0, 100), ()),
    "philox": (
        lambda s: lax.rng_bit_generator(s, (5, 3), algorithm=lax.RandomAlgorithm.RNG_PHILOX),
        (np.uint32([1, 2, 3, 4]),),
    ),
    "three_fry": (
        lambda s: lax.rng_bit_generator(s, (4, 3), algorithm=lax.RandomAlgorithm.RNG_THREE_FRY),
        (np.uint32([1, 2, 3, 4]),),
    ),
    "dropout": (
        lambda x: jnp.where(jax.random.bernoulli(jax.random.key(8), 0.8, x.shape), x / 0.8, 0),
        (normal(3, 4),),
    ),
}


def transformer_block(x: Any, wq: Any, wo: Any, w1: Any, w2: Any) -> Any:
    def norm(x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

    def loss(wq: Any, wo: Any, w1: Any, w2: Any) -> Any:
        q, k, v = jnp.split(norm(x) @ wq, 3, -1)
        mask = jnp.tril(jnp.ones((x.shape[0], x.shape[0]), bool))
        weights = jax.nn.softmax(jnp.where(mask, q @ k.T / 2.0, -jnp.inf), -1)
        y = x + weights @ v @ wo
        return jnp.mean((y + jax.nn.gelu(norm(y) @ w1) @ w2) ** 2)

    return jax.value_and_grad(loss, (0, 1, 2, 3))(wq, wo, w1, w2)


def adam(w: Any, m: Any, v: Any, x: Any) -> Any:
    g = jax.grad(lambda w: jnp.mean(jax.nn.relu(x @ w) ** 2))(w)
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return w - 0.01 * m / (jnp.sqrt(v) + 1e-8), m, v


def batch_norm(x: Any) -> Any:
    return jax.grad(lambda x: jnp.sum(jnp.sin((x - x.mean((0, 1, 2))) / jnp.sqrt(x.var((0, 1, 2)) + 1e-5))))(x)


MODELS: dict[str, Program] = {
    "transformer_block": (transformer_block, (normal(5, 4), normal(4, 12), normal(4, 4), normal(4, 8), normal(8, 4))),
    "adam": (adam, (normal(4, 3), normal(4, 3), normal(4, 3) ** 2, normal(6, 4))),
    "batch_norm": (batch_norm, (normal(2, 4, 4, 3),)),
    "hessian": (jax.hessian(lambda x: jnp.sum(jnp.sin(x) ** 3)), (normal(4),)),
    "jacobian": (jax.jacfwd(lambda x: jnp.tanh(x * x[::-1])), (normal(4),)),
}

FAMILIES: dict[str, dict[str, Program]] = {
    "elementwise": ELEMENTWISE,
    "reductions": REDUCTIONS,
    "products": PRODUCTS,
    "windows": WINDOWS,
    "order": ORDER,
    "control": CONTROL,
    "indexing": INDEXING,
    "linear": LINEAR,
    "random": RANDOM,
    "models": MODELS,
    "special": SPECIAL,
    "matrices": MATRICES,
    "arrays": ARRAYS,
    "samples": SAMPLES,
}


def hlo_text(function: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    """What JAX lowers a program to, with all constants in full. Arguments that are not used stay parameters."""
    lowered = jax.jit(function, keep_unused=True).lower(*arguments)
    return str(lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True))
