"""JAX programs from the outer layers of its library: what its users call, rather than what each opcode does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as sl
import jax.scipy.special as sp
import numpy as np
from jax import lax

Program = tuple[Callable[..., Any], tuple[Any, ...]]

_RANDOM = np.random.default_rng(11)


def normal(*dims: int) -> Any:
    return _RANDOM.normal(size=dims).astype(np.float32)


def positive(*dims: int) -> Any:
    return (_RANDOM.random(dims) + 0.1).astype(np.float32)


def integers(low: int, high: int, *dims: int) -> Any:
    return _RANDOM.integers(low, high, dims).astype(np.int32)


SPECIAL: dict[str, Program] = {
    "erf_inv": (lax.erf_inv, (normal(5) * 0.3,)),
    "erfc": (lax.erfc, (normal(5),)),
    "lgamma": (lax.lgamma, (positive(5),)),
    "digamma": (lax.digamma, (positive(5),)),
    "igamma": (lax.igamma, (positive(5), positive(5))),
    "betainc": (sp.betainc, (positive(3), positive(3), positive(3) / 2)),
    "i0e": (sp.i0e, (positive(5),)),
    "zeta": (sp.zeta, (positive(3) + 1.5, positive(3))),
    "nextafter": (jnp.nextafter, (normal(5), normal(5))),
    "log_cdf_gradient": (jax.grad(lambda x: jnp.sum(jax.scipy.stats.norm.logcdf(x))), (normal(4),)),
}


def factored(x: Any) -> Any:
    u, s, v = jnp.linalg.svd(x, full_matrices=False)
    return (u * s) @ v, s


def by_roots(x: Any) -> Any:
    return lax.custom_root(
        lambda v: v * v - x, x,
        lambda f, start: lax.fori_loop(0, 10, lambda i, v: v - (v * v - x) / (2 * v), start),
        lambda g, y: y / g(jnp.ones_like(y)),
    )  # fmt: skip


MATRICES: dict[str, Program] = {
    "svd": (factored, (normal(4, 5),)),
    "pinv": (jnp.linalg.pinv, (normal(4, 3),)),
    "lstsq": (lambda a, b: jnp.linalg.lstsq(a, b)[0], (normal(6, 3), normal(6))),
    "eig": (lambda x: jnp.sort(jnp.abs(jnp.linalg.eig(x)[0])), (normal(4, 4),)),
    "hessenberg": (sl.hessenberg, (normal(5, 5),)),
    "lu": (sl.lu, (normal(4, 4),)),
    "expm": (sl.expm, (normal(3, 3),)),
    "slogdet": (jnp.linalg.slogdet, (normal(4, 4),)),
    "tridiagonal": (lax.linalg.tridiagonal_solve, (normal(5), normal(5) + 5, normal(5), normal(5, 2))),
    "kron": (jnp.kron, (normal(2, 3), normal(3, 2))),
    "tensordot": (lambda a, b: jnp.tensordot(a, b, axes=([0, 2], [1, 0])), (normal(2, 3, 4), normal(4, 2, 5))),
    "ragged_dot": (lax.ragged_dot, (normal(6, 3), normal(2, 3, 4), np.array([2, 4], np.int32))),
    "root_gradient": (jax.grad(by_roots), (np.float32(3),)),
}

ARRAYS: dict[str, Program] = {
    "histogram": (lambda x: jnp.histogram(x, bins=5)[0], (normal(30),)),
    "bincount": (lambda x: jnp.bincount(x, length=6), (integers(0, 6, 20),)),
    "interp": (lambda x: jnp.interp(x, jnp.arange(5.0), jnp.arange(5.0) ** 2), (positive(6),)),
    "percentile": (lambda x: jnp.percentile(x, 30), (normal(20),)),
    "convolve": (jnp.convolve, (normal(9), normal(3))),
    "fft2": (jnp.fft.fft2, (normal(4, 6),)),
    "cummax": (lambda x: lax.cummax(x, axis=1), (normal(4, 5),)),
    "argsort": (lambda x: jnp.argsort(x, axis=0), (normal(4, 5),)),
    "lexsort": (lambda a, b: jnp.lexsort((a, b)), (integers(0, 3, 9), integers(0, 3, 9))),
    "nonzero": (lambda x: jnp.nonzero(x > 0, size=5)[0], (normal(9),)),
    "segment_sum": (lambda x, k: jax.ops.segment_sum(x, k, num_segments=4), (normal(8), integers(0, 4, 8))),
    "scatter_apply": (lambda x: x.at[jnp.array([1, 1, 2])].multiply(2.0), (normal(5),)),
    "resize": (lambda x: jax.image.resize(x, (7, 9), "bilinear"), (normal(4, 5),)),
    "patches": (lambda x: lax.conv_general_dilated_patches(x, (2, 2), (1, 1), "VALID"), (normal(1, 2, 4, 4),)),
    "packbits": (lambda x: jnp.packbits(x > 0), (normal(16),)),
    "dynamic_slices": (jax.vmap(lambda x, k: lax.dynamic_slice(x, (k,), (3,))), (normal(4, 8), integers(0, 5, 4))),
    "while_arrays": (lambda x: lax.while_loop(lambda s: jnp.all(s < 100), lambda s: s * 2 + 1, x), (positive(5),)),
    "vmapped_cond": (jax.vmap(lambda x: lax.cond(x > 0, lambda t: t * 2, lambda t: t - 1, x)), (normal(6),)),
    "attention": (lambda q: jax.nn.dot_product_attention(q, q, q, is_causal=True), (normal(1, 6, 2, 4),)),
}


def drawn(draw: Callable[[Any], Any], implementation: str = "threefry2x32") -> Program:
    return lambda seed: draw(jax.random.key(seed, impl=implementation)), (np.int32(3),)


SAMPLES: dict[str, Program] = {
    "gamma": drawn(lambda key: jax.random.gamma(key, 2.0, (5,))),
    "poisson": drawn(lambda key: jax.random.poisson(key, 2.0, (5,))),
    "choice": drawn(lambda key: jax.random.choice(key, 7, (3,), replace=False)),
    "gumbel": drawn(lambda key: jax.random.gumbel(key, (5,))),
    "rbg": drawn(lambda key: jax.random.uniform(key, (5,)), "rbg"),
}
