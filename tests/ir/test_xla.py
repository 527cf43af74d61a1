"""XLA reads what we print, and we read what XLA prints for JAX programs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
jax = pytest.importorskip("jax")

pytest.importorskip("jaxlib._hlo")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from xla_run import xla_text  # noqa: E402

from minitensor_jit.ir.analysis.equal import difference  # noqa: E402
from minitensor_jit.ir.builder import Builder  # noqa: E402
from minitensor_jit.ir.evaluate.evaluator import evaluate  # noqa: E402
from minitensor_jit.ir.semantics.kernel_call import DTypeParam  # noqa: E402
from minitensor_jit.ir.shape import DTYPES, Shape  # noqa: E402
from minitensor_jit.ir.testing import random_module  # noqa: E402
from minitensor_jit.ir.text.parser import parse_module  # noqa: E402
from minitensor_jit.ir.text.printer import print_module  # noqa: E402
from minitensor_jit.ir.verifier import check  # noqa: E402
from minitensor_jit.passes.pipeline import PipelineOptions, run_pipeline  # noqa: E402

RNG = np.random.default_rng(0)


def normal(*dims: int) -> Any:
    return RNG.standard_normal(dims).astype(np.float32)


def mlp(w1: Any, b1: Any, w2: Any, x: Any, y: Any) -> Any:
    def loss(w1: Any, b1: Any, w2: Any) -> Any:
        hidden = jnp.tanh(x @ w1 + b1)
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(hidden @ w2) * y, -1))

    return jax.value_and_grad(loss, (0, 1, 2))(w1, b1, w2)


def integers(a: Any, b: Any) -> Any:
    logical = lax.shift_right_logical(a, jnp.int32(3))
    return a // b, a % b, a << 2, a >> 1, logical, a & b, a | b, ~a, lax.population_count(a)


def maths(x: Any) -> Any:
    y = jnp.abs(x)
    return (
        jnp.exp(x), jnp.log1p(y), jnp.expm1(x), jax.nn.sigmoid(x), lax.rsqrt(y), jnp.sign(x), jnp.floor(x), jnp.ceil(x),
        jnp.round(x), jnp.sin(x), jnp.cos(x), x**3, jnp.isfinite(x),
    )  # fmt: skip


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "softmax": (lambda x, w: jax.nn.softmax(x @ w, axis=-1), (normal(4, 8), normal(8, 3))),
    "mlp_gradient": (mlp, (normal(8, 16), normal(16), normal(16, 4), normal(5, 8), normal(5, 4))),
    "argmax": (lambda x: jnp.argmax(x, 1), (normal(5, 70),)),
    "sum": (lambda x: x.sum(0), (normal(300, 7),)),
    "std": (lambda x: jnp.std(x, axis=(0, 2)), (normal(3, 7, 70),)),
    "gather": (lambda x, i: x[i], (normal(10, 3), np.int32([1, 5, 12, -1]))),
    "scatter_add": (lambda x, i, u: x.at[i].add(u), (normal(10, 3), np.int32([1, 5, 1]), normal(3, 3))),
    "dynamic": (
        lambda x, i: lax.dynamic_update_slice(x, lax.dynamic_slice(x, (i, 0), (2, 3)) * 2, (0, i)),
        (normal(5, 5), np.int32(2)),
    ),
    "pad_reverse": (
        lambda x: lax.pad(x[::-1, 1:], jnp.float32(1.5), ((1, -1, 0), (0, 2, 1))),
        (normal(4, 5),),
    ),
    "integers": (integers, (RNG.integers(-100, 100, 20).astype(np.int32), RNG.integers(1, 9, 20).astype(np.int32))),
    "where": (lambda x, y: jnp.where(x > y, x, jnp.clip(y, -0.5, 0.5)), (normal(10), normal(10))),
    "convert": (
        lambda x: (x.astype(jnp.int32), (x > 0).astype(jnp.float32), lax.bitcast_convert_type(x, jnp.int32)),
        (normal(10) * 100,),
    ),
    "sort": (lambda x: (jnp.sort(x), jnp.argsort(x)), (normal(3, 9),)),
    "batched_product": (lambda x, y: jnp.einsum("bij,bkj->bik", x, y), (normal(3, 4, 5), normal(3, 6, 5))),
    "maths": (maths, (normal(20),)),
    "iota": (lambda x: x + lax.broadcasted_iota(jnp.float32, (3, 4), 1), (normal(3, 4),)),
    "gelu": (jax.nn.gelu, (normal(3, 4),)),
}


@pytest.mark.parametrize("name", CASES)
def test_programs_of_jax(name: str) -> None:
    function, arguments = CASES[name]
    text = jax.jit(function).lower(*arguments).compiler_ir("hlo").as_hlo_text()
    module = parse_module(text, any_layout=True)
    check(module)
    want = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(function)(*arguments))]
    for optimised in (False, True):
        if optimised:
            run_pipeline(module, PipelineOptions(verify=True))
        got = evaluate(module, [np.asarray(a) for a in arguments])
        for a, b in zip(got, want, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("seed", range(25))
def test_xla_reads_random_modules(seed: int) -> None:
    module = random_module(seed, 30, exact=False)
    if seed % 2:
        run_pipeline(module)
    back = parse_module(xla_text(print_module(module)))
    check(back)
    assert difference(back, module) is None


def test_xla_reads_custom_calls() -> None:
    b = Builder("calls")
    x = b.parameter(Shape("f32", (3, 4)))
    y = b.elementwise_call("pow", x, b.add(x, x))
    module = b.build((y, b.elementwise_call("isnan", y)))
    back = parse_module(xla_text(print_module(module)))
    check(back)
    assert difference(back, module) is None


def test_xla_reads_kernel_calls() -> None:
    b = Builder("calls")
    x = b.parameter(Shape("f32", (3, 4)))
    params = (1, None, True, 1.5, (0, 1), DTypeParam("bf16"))
    several = b.kernel_call("op", [x], [x.array_shape, Shape("s64", (3, 4))], kinds="tn", params=params)
    module = b.build((*several, *b.kernel_call("cumsum", [x], [x.array_shape], kinds="t", params=(1, None))))
    back = parse_module(xla_text(print_module(module)))
    check(back)
    assert difference(back, module) is None


@pytest.mark.parametrize("seed", range(25))
def test_xla_reads_all_types(seed: int) -> None:
    # XLA reads the smallest number of f8e8m0fnu, 2 ** -127, as twice that: it is denormal in float32.
    dtypes = tuple(d for d in DTYPES if d != "f8e8m0fnu")
    module = random_module(seed, 30, dtypes=dtypes)
    back = parse_module(xla_text(print_module(module)))
    check(back)
    assert difference(back, module) is None
