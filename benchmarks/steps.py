"""Training steps written once for minitensor and for torch, which have the same functions.

Softmax regression, an MLP, a small CNN and a GPT: each is parameters, a loss, and an update written out on tensors, so
that all contenders do the same arithmetic.
``benchmarks/steps_jax.py`` has the same steps as pure functions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

BATCH = {"softmax": 100, "mlp": 128, "cnn": 64, "gpt": 16}
CLASSES = 10
# The GPT.
LAYERS, HEADS, WIDTH, BLOCK, VOCABULARY = 4, 4, 128, 64, 65
RATE_SOFTMAX = 0.5
# So small a rate keeps the loss where it is. With 1e-3 a model knows its one batch by heart after some hundred steps;
# then gradients and moments are denormal, steps take twice as long, and whoever has run more of them seems slow.
RATE, BETA1, BETA2, EPSILON, DECAY = 1e-7, 0.9, 0.999, 1e-8, 0.1


def shapes(name: str) -> dict[str, tuple[int, ...]]:
    """The parameters of a model: names and shapes."""
    if name == "softmax":
        return {"w": (CLASSES, 784), "b": (CLASSES,)}
    if name == "mlp":
        sizes = (784, 512, 512, CLASSES)
        found: dict[str, tuple[int, ...]] = {}
        for n, (i, o) in enumerate(itertools.pairwise(sizes)):
            found |= {f"w{n}": (o, i), f"b{n}": (o,)}
        return found
    if name == "cnn":
        return {
            "c0": (6, 1, 5, 5), "cb0": (6,), "c1": (16, 6, 5, 5), "cb1": (16,),
            "w0": (120, 256), "b0": (120,), "w1": (84, 120), "b1": (84,), "w2": (CLASSES, 84), "b2": (CLASSES,),
        }  # fmt: skip
    found = {"wte": (VOCABULARY, WIDTH), "wpe": (BLOCK, WIDTH)}
    for n in range(LAYERS):
        found |= {
            f"{n}.ln1.w": (WIDTH,), f"{n}.ln1.b": (WIDTH,),
            f"{n}.qkv.w": (3 * WIDTH, WIDTH), f"{n}.qkv.b": (3 * WIDTH,),
            f"{n}.proj.w": (WIDTH, WIDTH), f"{n}.proj.b": (WIDTH,), f"{n}.ln2.w": (WIDTH,), f"{n}.ln2.b": (WIDTH,),
            f"{n}.up.w": (4 * WIDTH, WIDTH), f"{n}.up.b": (4 * WIDTH,),
            f"{n}.down.w": (WIDTH, 4 * WIDTH), f"{n}.down.b": (WIDTH,),
        }  # fmt: skip
    return found | {"ln.w": (WIDTH,), "ln.b": (WIDTH,), "head.w": (VOCABULARY, WIDTH)}


def initial(name: str) -> dict[str, Any]:
    """The parameters' first values, as NumPy arrays: the same for every contender."""
    import numpy as np

    rng = np.random.default_rng(0)
    found = {}
    for key, shape in shapes(name).items():
        if len(shape) > 1:
            bound = 1 / math.sqrt(math.prod(shape[1:]))
            found[key] = rng.uniform(-bound, bound, shape).astype(np.float32)
        else:
            gain = key.split(".")[-2:-1] in (["ln"], ["ln1"], ["ln2"]) and key.endswith("w")
            found[key] = np.full(shape, 1.0 if gain else 0.0, np.float32)
    return found


def data(name: str) -> tuple[Any, Any]:
    """A batch, as NumPy arrays."""
    import numpy as np

    rng = np.random.default_rng(1)
    if name == "gpt":
        text = rng.integers(0, VOCABULARY, (BATCH[name], BLOCK + 1))
        return np.ascontiguousarray(text[:, :-1]), np.ascontiguousarray(text[:, 1:])
    batch = BATCH[name]
    inputs = (batch, 1, 28, 28) if name == "cnn" else (batch, 784)
    return rng.random(inputs, np.float32), rng.integers(0, CLASSES, batch)


def loss(xp: Any, name: str) -> Callable[[dict[str, Any], Any, Any], Any]:
    """The loss of a model as a function of its parameters and a batch, in the functions of ``xp``."""
    f = xp.nn.functional

    def softmax(p: dict[str, Any], x: Any, y: Any) -> Any:
        return f.cross_entropy(f.linear(x, p["w"], p["b"]), y)

    def mlp(p: dict[str, Any], x: Any, y: Any) -> Any:
        h = f.relu(f.linear(x, p["w0"], p["b0"]))
        h = f.relu(f.linear(h, p["w1"], p["b1"]))
        return f.cross_entropy(f.linear(h, p["w2"], p["b2"]), y)

    def cnn(p: dict[str, Any], x: Any, y: Any) -> Any:
        h = f.max_pool2d(f.relu(f.conv2d(x, p["c0"], p["cb0"])), 2)
        h = f.max_pool2d(f.relu(f.conv2d(h, p["c1"], p["cb1"])), 2)
        h = h.flatten(1)
        h = f.relu(f.linear(h, p["w0"], p["b0"]))
        h = f.relu(f.linear(h, p["w1"], p["b1"]))
        return f.cross_entropy(f.linear(h, p["w2"], p["b2"]), y)

    def gpt(p: dict[str, Any], x: Any, y: Any) -> Any:
        batch, length = x.shape
        size = WIDTH // HEADS
        h = f.embedding(x, p["wte"]) + p["wpe"]
        for n in range(LAYERS):
            a = f.layer_norm(h, (WIDTH,), p[f"{n}.ln1.w"], p[f"{n}.ln1.b"])
            q, k, v = (
                part.view(batch, length, HEADS, size).transpose(1, 2)
                for part in f.linear(a, p[f"{n}.qkv.w"], p[f"{n}.qkv.b"]).split(WIDTH, 2)
            )
            a = f.scaled_dot_product_attention(q, k, v, is_causal=True)
            a = a.transpose(1, 2).reshape(batch, length, WIDTH)
            h = h + f.linear(a, p[f"{n}.proj.w"], p[f"{n}.proj.b"])
            a = f.layer_norm(h, (WIDTH,), p[f"{n}.ln2.w"], p[f"{n}.ln2.b"])
            a = f.gelu(f.linear(a, p[f"{n}.up.w"], p[f"{n}.up.b"]), approximate="tanh")
            h = h + f.linear(a, p[f"{n}.down.w"], p[f"{n}.down.b"])
        h = f.layer_norm(h, (WIDTH,), p["ln.w"], p["ln.b"])
        return f.cross_entropy(f.linear(h, p["head.w"]).view(-1, VOCABULARY), y.view(-1))

    return {"softmax": softmax, "mlp": mlp, "cnn": cnn, "gpt": gpt}[name]


def step(
    xp: Any, name: str, compiled: Callable[[Any], Any] = lambda part: part, device: str = "cpu"
) -> tuple[Callable[..., Any], tuple[Any, Any]]:
    """A step that updates its parameters in place, and its batch. `compiled` wraps the loss and the update.

    The update is Adam's, AdamW's for the GPT, and plain for softmax regression.
    """
    params = {key: xp.from_numpy(value).to(device).requires_grad_() for key, value in initial(name).items()}
    values = list(params.values())
    first = [xp.zeros_like(value) for value in values]
    second = [xp.zeros_like(value) for value in values]
    count = xp.zeros((), device=device)
    of = compiled(loss(xp, name))
    decay = DECAY if name == "gpt" else 0.0

    def plain(grads: Any) -> None:
        for value, grad in zip(values, grads, strict=True):
            value.sub_(RATE_SOFTMAX * grad)

    def adam(grads: Any) -> None:
        count.add_(1.0)
        size = RATE / (1 - BETA1**count)
        root = (1 - BETA2**count).sqrt()
        for value, grad, m, v in zip(values, grads, first, second, strict=True):
            if decay:
                value.mul_(1 - RATE * decay)
            m.lerp_(grad, 1 - BETA1)
            v.mul_(BETA2).addcmul_(grad, grad, value=1 - BETA2)
            value.sub_(size * (m / (v.sqrt() / root + EPSILON)))

    update = compiled(plain if name == "softmax" else adam)

    def run(x: Any, y: Any) -> Any:
        found = of(params, x, y)
        grads = xp.autograd.grad(found, values)
        with xp.no_grad():
            update(grads)
        return found.detach()

    return run, tuple(xp.from_numpy(part).to(device) for part in data(name))
