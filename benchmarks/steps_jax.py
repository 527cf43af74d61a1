"""The training steps of ``benchmarks/steps.py`` as pure functions for ``jax.jit``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.steps import (
    BETA1,
    BETA2,
    CLASSES,
    DECAY,
    EPSILON,
    HEADS,
    LAYERS,
    RATE,
    RATE_SOFTMAX,
    WIDTH,
    data,
    initial,
)


def _cross_entropy(logits: Any, y: Any) -> Any:
    import jax
    import jax.numpy as jnp

    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[..., None], axis=-1))


def _linear(x: Any, w: Any, b: Any = None) -> Any:
    x = x @ w.T
    return x if b is None else x + b


def _loss(name: str) -> Callable[[Any, Any, Any], Any]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def softmax(p: Any, x: Any, y: Any) -> Any:
        return _cross_entropy(_linear(x, p["w"], p["b"]), y)

    def mlp(p: Any, x: Any, y: Any) -> Any:
        h = jax.nn.relu(_linear(x, p["w0"], p["b0"]))
        h = jax.nn.relu(_linear(h, p["w1"], p["b1"]))
        return _cross_entropy(_linear(h, p["w2"], p["b2"]), y)

    def block(x: Any, w: Any, b: Any) -> Any:
        x = lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW"))
        x = jax.nn.relu(x + b[:, None, None])
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def cnn(p: Any, x: Any, y: Any) -> Any:
        h = block(block(x, p["c0"], p["cb0"]), p["c1"], p["cb1"])
        h = h.reshape(h.shape[0], -1)
        h = jax.nn.relu(_linear(h, p["w0"], p["b0"]))
        h = jax.nn.relu(_linear(h, p["w1"], p["b1"]))
        return _cross_entropy(_linear(h, p["w2"], p["b2"]), y)

    def norm(x: Any, w: Any, b: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        var = jnp.square(x - mean).mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(var + 1e-5) * w + b

    def gpt(p: Any, x: Any, y: Any) -> Any:
        batch, length = x.shape
        size = WIDTH // HEADS
        mask = jnp.tril(jnp.ones((length, length), bool))
        h = p["wte"][x] + p["wpe"]
        for n in range(LAYERS):
            a = norm(h, p[f"{n}.ln1.w"], p[f"{n}.ln1.b"])
            a = _linear(a, p[f"{n}.qkv.w"], p[f"{n}.qkv.b"])
            q, k, v = (part.reshape(batch, length, HEADS, size).swapaxes(1, 2) for part in jnp.split(a, 3, -1))
            scores = jnp.where(mask, q @ k.swapaxes(-1, -2) * size**-0.5, -jnp.inf)
            a = (jax.nn.softmax(scores) @ v).swapaxes(1, 2).reshape(batch, length, WIDTH)
            h = h + _linear(a, p[f"{n}.proj.w"], p[f"{n}.proj.b"])
            a = norm(h, p[f"{n}.ln2.w"], p[f"{n}.ln2.b"])
            a = jax.nn.gelu(_linear(a, p[f"{n}.up.w"], p[f"{n}.up.b"]))
            h = h + _linear(a, p[f"{n}.down.w"], p[f"{n}.down.b"])
        h = norm(h, p["ln.w"], p["ln.b"])
        return _cross_entropy(_linear(h, p["head.w"]), y)

    return {"softmax": softmax, "mlp": mlp, "cnn": cnn, "gpt": gpt}[name]


def sgd_step(features: int, classes: int, rate: float, batch: tuple[Any, Any]) -> Callable[[], Any]:
    """A step of softmax regression that keeps its state; it returns when the loss is there."""
    import jax
    import jax.numpy as jnp

    loss = _loss("softmax")

    @jax.jit
    def run(p: Any, x: Any, y: Any) -> Any:
        found, grads = jax.value_and_grad(loss)(p, x, y)
        return {key: p[key] - rate * grads[key] for key in p}, found

    state = {"w": jnp.zeros((classes, features)), "b": jnp.zeros(classes)}
    x, y = map(jnp.asarray, batch)

    def step() -> Any:
        nonlocal state
        state, found = run(state, x, y)
        return found.block_until_ready()

    return step


def step(name: str) -> Callable[[], Any]:
    """A step of Adam (AdamW for the GPT) that keeps its state; it returns when the loss is there."""
    if name == "softmax":
        return sgd_step(784, CLASSES, RATE_SOFTMAX, data(name))
    import jax
    import jax.numpy as jnp

    loss = _loss(name)
    decay = DECAY if name == "gpt" else 0.0

    def run(state: Any, x: Any, y: Any) -> Any:
        p, first, second, count = state
        found, grads = jax.value_and_grad(loss)(p, x, y)
        count = count + 1.0
        size = RATE / (1 - BETA1**count)
        root = jnp.sqrt(1 - BETA2**count)
        first = {key: m + (1 - BETA1) * (grads[key] - m) for key, m in first.items()}
        second = {key: v * BETA2 + (1 - BETA2) * grads[key] * grads[key] for key, v in second.items()}
        p = {
            key: value * (1 - RATE * decay) - size * (first[key] / (jnp.sqrt(second[key]) / root + EPSILON))
            for key, value in p.items()
        }
        return (p, first, second, count), found

    compiled = jax.jit(run, donate_argnums=0)
    params = {key: jnp.asarray(value) for key, value in initial(name).items()}
    zeros = {key: jnp.zeros_like(value) for key, value in params.items()}
    state = (params, zeros, jax.tree.map(jnp.copy, zeros), jnp.zeros(()))
    x, y = map(jnp.asarray, data(name))

    def step() -> Any:
        nonlocal state
        state, found = compiled(state, x, y)
        return jax.block_until_ready((state, found))[1]

    return step
