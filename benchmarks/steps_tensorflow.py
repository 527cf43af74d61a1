"""The training steps of ``benchmarks/steps.py`` for ``tf.function(jit_compile=True)``: variables, updated in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.steps import BETA1, BETA2, DECAY, EPSILON, HEADS, LAYERS, RATE, RATE_SOFTMAX, WIDTH, data, initial


def _loss(tf: Any, name: str) -> Callable[[Any, Any, Any], Any]:
    def cross_entropy(logits: Any, y: Any) -> Any:
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))

    def linear(x: Any, w: Any, b: Any = None) -> Any:
        y = tf.matmul(tf.reshape(x, (-1, x.shape[-1])), w, transpose_b=True)
        y = tf.reshape(y, (*x.shape[:-1], w.shape[0]))
        return y if b is None else y + b

    def softmax(p: Any, x: Any, y: Any) -> Any:
        return cross_entropy(linear(x, p["w"], p["b"]), y)

    def mlp(p: Any, x: Any, y: Any) -> Any:
        h = tf.nn.relu(linear(x, p["w0"], p["b0"]))
        h = tf.nn.relu(linear(h, p["w1"], p["b1"]))
        return cross_entropy(linear(h, p["w2"], p["b2"]), y)

    def block(x: Any, w: Any, b: Any) -> Any:
        # Channels last, as TensorFlow's own kernels have them; the weights are kept in torch's order.
        x = tf.nn.conv2d(x, tf.transpose(w, (2, 3, 1, 0)), 1, "VALID")
        return tf.nn.max_pool2d(tf.nn.relu(x + b), 2, 2, "VALID")

    def cnn(p: Any, x: Any, y: Any) -> Any:
        h = block(block(tf.transpose(x, (0, 2, 3, 1)), p["c0"], p["cb0"]), p["c1"], p["cb1"])
        h = tf.reshape(tf.transpose(h, (0, 3, 1, 2)), (h.shape[0], -1))
        h = tf.nn.relu(linear(h, p["w0"], p["b0"]))
        h = tf.nn.relu(linear(h, p["w1"], p["b1"]))
        return cross_entropy(linear(h, p["w2"], p["b2"]), y)

    def norm(x: Any, w: Any, b: Any) -> Any:
        mean = tf.reduce_mean(x, -1, keepdims=True)
        var = tf.reduce_mean(tf.square(x - mean), -1, keepdims=True)
        return (x - mean) * tf.math.rsqrt(var + 1e-5) * w + b

    def gpt(p: Any, x: Any, y: Any) -> Any:
        batch, length = x.shape
        size = WIDTH // HEADS
        mask = tf.linalg.band_part(tf.ones((length, length), tf.bool), -1, 0)
        h = tf.gather(p["wte"], x) + p["wpe"]
        for n in range(LAYERS):
            a = norm(h, p[f"{n}.ln1.w"], p[f"{n}.ln1.b"])
            a = linear(a, p[f"{n}.qkv.w"], p[f"{n}.qkv.b"])
            q, k, v = (
                tf.transpose(tf.reshape(part, (batch, length, HEADS, size)), (0, 2, 1, 3))
                for part in tf.split(a, 3, -1)
            )
            scores = tf.where(mask, tf.matmul(q, k, transpose_b=True) * size**-0.5, -float("inf"))
            a = tf.reshape(tf.transpose(tf.nn.softmax(scores) @ v, (0, 2, 1, 3)), (batch, length, WIDTH))
            h = h + linear(a, p[f"{n}.proj.w"], p[f"{n}.proj.b"])
            a = norm(h, p[f"{n}.ln2.w"], p[f"{n}.ln2.b"])
            a = tf.nn.gelu(linear(a, p[f"{n}.up.w"], p[f"{n}.up.b"]), approximate=True)
            h = h + linear(a, p[f"{n}.down.w"], p[f"{n}.down.b"])
        h = norm(h, p["ln.w"], p["ln.b"])
        return cross_entropy(linear(h, p["head.w"]), y)

    return {"softmax": softmax, "mlp": mlp, "cnn": cnn, "gpt": gpt}[name]


def step(name: str) -> Callable[[], Any]:
    """A step that updates its variables; it returns when the loss is there.

    The update is Adam's, AdamW's for the GPT, and plain for softmax regression.
    """
    import tensorflow as tf

    loss = _loss(tf, name)
    decay = DECAY if name == "gpt" else 0.0
    p = {key: tf.Variable(value) for key, value in initial(name).items()}
    first = {key: tf.Variable(tf.zeros_like(value)) for key, value in p.items()}
    second = {key: tf.Variable(tf.zeros_like(value)) for key, value in p.items()}
    count = tf.Variable(0.0)
    x, y = map(tf.constant, data(name))

    @tf.function(jit_compile=True)
    def run(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            found = loss(p, x, y)
        # Of a gather they are sparse; what follows is not.
        grads = dict(zip(p, map(tf.convert_to_tensor, tape.gradient(found, list(p.values()))), strict=True))
        if name == "softmax":
            for key, value in p.items():
                value.assign_sub(RATE_SOFTMAX * grads[key])
            return found
        count.assign_add(1.0)
        size = RATE / (1 - BETA1**count)
        root = tf.sqrt(1 - BETA2**count)
        for key, value in p.items():
            grad, m, v = grads[key], first[key], second[key]
            m.assign_add((1 - BETA1) * (grad - m))
            v.assign(v * BETA2 + (1 - BETA2) * grad * grad)
            value.assign(value * (1 - RATE * decay) - size * (m / (tf.sqrt(v) / root + EPSILON)))
        return found

    return lambda: run(x, y).numpy()
