"""Layers' functions and costs under TensorFlow's names: images are NHWC, filters HWIO."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitensor import _C, nn
from minitensor._C import int32, int64
from minitensor._functions import offered
from minitensor._functions.offered import exp, log1p, ones, rand, topk
from minitensor.compat.v1.framework.constants import convert_to_tensor, node, same_types
from minitensor.compat.v1.framework.graph import Tensor, get_default_graph
from minitensor.compat.v1.framework.instead import missing as _missing
from minitensor.compat.v1.ops import math_ops as m
from minitensor.compat.v1.ops.array_ops import gather
from minitensor.compat.v1.ops.math_ops import named, sigmoid, tanh
from minitensor.compat.v1.ops.random_ops import drawn

__all__ = [
    "avg_pool", "batch_normalization", "bias_add", "conv2d", "dropout", "elu", "embedding_lookup", "in_top_k",
    "l2_loss", "l2_normalize", "leaky_relu", "log_softmax", "max_pool", "moments", "relu", "relu6", "sigmoid",
    "sigmoid_cross_entropy_with_logits", "softmax", "softmax_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits_v2", "softplus", "sparse_softmax_cross_entropy_with_logits", "tanh", "top_k",
    "xw_plus_b",
]  # fmt: skip


def _function(type: str, call: Callable[..., Any], says: str) -> Any:
    def made(features: Any, name: str | None = None) -> Tensor:
        return node(type, call, [features], name)

    made.__doc__ = says
    return made


relu = _function("Relu", lambda x: offered.relu(x), "max(x, 0).")
relu6 = _function("Relu6", lambda x: nn.functional.relu6(x), "min(max(x, 0), 6).")
elu = _function("Elu", lambda x: nn.functional.elu(x), "x if it is positive, else exp(x) - 1.")
softplus = _function("Softplus", lambda x: nn.functional.softplus(x), "log(exp(x) + 1).")
l2_loss = _function("L2Loss", lambda x: (x * x).sum() / 2, "Half the sum of the squares.")


def leaky_relu(features: Any, alpha: float = 0.2, name: str | None = None) -> Tensor:
    """x if it is positive, else alpha * x."""
    return node("LeakyRelu", lambda x: nn.functional.leaky_relu(x, alpha), [features], name)


def softmax(logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along an axis, the last one if none is given."""
    along = (-1 if dim is None else dim) if axis is None else axis
    return node("Softmax", lambda x: offered.softmax(x, along), [logits], name)


def log_softmax(logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None) -> Tensor:
    """x - log(sum(exp(x))) along an axis, the last one if none is given."""
    along = (-1 if dim is None else dim) if axis is None else axis
    return node("LogSoftmax", lambda x: offered.log_softmax(x, along), [logits], name)


def _named(what: str, sentinel: Any, **values: Any) -> None:
    if sentinel is not None or any(value is None for value in values.values()):
        raise ValueError(f"Only call `{what}` with named arguments ({', '.join(f'{v}=...' for v in values)})")


def softmax_cross_entropy_with_logits_v2(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, axis: int = -1, name: str | None = None
) -> Tensor:
    """-sum(labels * log_softmax(logits)) along the axis; `labels` are probabilities of the logits' shape and dtype.

    Gradients go to both.
    """
    _named("softmax_cross_entropy_with_logits", _sentinel, labels=labels, logits=logits)
    x = convert_to_tensor(logits)
    p = convert_to_tensor(labels, x.dtype)
    if not p.shape.is_compatible_with(x.shape):
        raise ValueError(f"logits and labels must be broadcastable: logits_size={x.shape} labels_size={p.shape}")
    return node(
        "SoftmaxCrossEntropyWithLogits", lambda a, b: -(b * offered.log_softmax(a, axis)).sum(axis), [x, p], name
    )


def softmax_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, dim: int = -1, name: str | None = None
) -> Tensor:
    """-sum(labels * log_softmax(logits)) along an axis. Gradients go to the logits only."""
    from minitensor.compat.v1.ops.array_ops import stop_gradient

    _named("softmax_cross_entropy_with_logits", _sentinel, labels=labels, logits=logits)
    return softmax_cross_entropy_with_logits_v2(labels=stop_gradient(labels), logits=logits, axis=dim, name=name)


def sparse_softmax_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Tensor:
    """-log_softmax(logits)[label] of each row: `labels` are integers [...], `logits` floats [..., classes]."""
    _named("sparse_softmax_cross_entropy_with_logits", _sentinel, labels=labels, logits=logits)
    x, y = convert_to_tensor(logits), convert_to_tensor(labels)
    if y.dtype.is_floating_point or y.dtype == _C.bool:
        raise TypeError(f"labels must be int32 or int64, not {y.dtype}")
    if x.shape.ndims is not None and y.shape.ndims is not None and y.shape.ndims != x.shape.ndims - 1:
        raise ValueError(f"Rank mismatch: Rank of labels (received {y.shape.ndims}) should equal rank of logits minus "
                         f"1 (received {x.shape.ndims}).")  # fmt: skip

    def cost(a: _C.Tensor, b: _C.Tensor) -> _C.Tensor:
        if a.shape[:-1] != b.shape:
            raise ValueError(f"logits and labels must have the same first dimension, got logits shape "
                             f"{list(a.shape)} and labels shape {list(b.shape)}")  # fmt: skip
        rows = nn.functional.cross_entropy(a.reshape(-1, a.shape[-1]), b.reshape(-1).to(int64), reduction="none")
        return rows.reshape(b.shape)

    return node("SparseSoftmaxCrossEntropyWithLogits", cost, [x, y], name)


def sigmoid_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Tensor:
    """max(x, 0) - x * label + log(1 + exp(-|x|)) of each element."""
    _named("sigmoid_cross_entropy_with_logits", _sentinel, labels=labels, logits=logits)
    x, z = same_types("logistic_loss", logits, labels)
    if not x.shape.is_compatible_with(z.shape):
        raise ValueError(f"logits and labels must have the same shape ({x.shape} vs {z.shape})")
    return node("logistic_loss", lambda a, b: offered.relu(a) - a * b + log1p(exp(-offered.abs(a))), [x, z], name)


def bias_add(value: Any, bias: Any, data_format: str | None = None, name: str | None = None) -> Tensor:
    """The sum with a vector along the last axis, or along axis 1 with `data_format="NCHW"`."""
    x, b = same_types("BiasAdd", value, bias)
    if b.shape.ndims not in (None, 1):
        raise ValueError(f"Shape must be rank 1 but is rank {b.shape.ndims} for 'BiasAdd': the bias has {b.shape}")

    def added(a: _C.Tensor, v: _C.Tensor) -> _C.Tensor:
        axis = 1 if data_format == "NCHW" else a.ndim - 1
        if a.shape[axis] != v.shape[0]:
            raise ValueError(f"Dimensions must be equal, but are {a.shape[axis]} and {v.shape[0]}")
        return a + v.reshape([-1] + [1] * (a.ndim - 1 - axis))

    return node("BiasAdd", added, [x, b], name)


def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """matmul(x, weights) + biases."""
    return bias_add(m.matmul(x, weights), biases, name=name)


def dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
    rate: Any = None,
) -> Tensor:
    """Each element with the probability `keep_prob`, or 1 - `rate`, divided by it; 0 otherwise.

    `noise_shape` broadcasts: elements that share a number of it stay or go together.
    """
    if (keep_prob is None) == (rate is None):
        raise ValueError("dropout takes either keep_prob or rate")
    tensor = convert_to_tensor(x)
    keep = convert_to_tensor(1 - rate if keep_prob is None else keep_prob, tensor.dtype)
    held = keep.op.held
    if held is not None and keep.op.type == "Const" and not 0 < float(held) <= 1:
        raise ValueError(f"keep_prob must be a scalar tensor or a float in the range (0, 1], got {float(held)}")

    def dropped(a: _C.Tensor, p: _C.Tensor, generator: Any = None) -> _C.Tensor:
        sizes = a.shape if noise_shape is None else [
            whole if size in (None, -1) else int(size) for size, whole in zip(noise_shape, a.shape, strict=True)
        ]  # fmt: skip
        kept = rand(list(sizes), dtype=a.dtype, generator=generator) < p
        return a / p * kept.to(a.dtype)

    found = [(tensor.dtype, tensor.shape, tensor.probes)]
    return drawn("dropout", dropped, [tensor, keep], seed, name, found=found)


def moments(
    x: Any, axes: Any, shift: Any = None, name: str | None = None, keep_dims: bool = False, keepdims: bool | None = None
) -> tuple[Tensor, Tensor]:
    """The means and the variances (of the population) along these axes."""
    places = [int(axis) for axis in np.ravel(axes)]
    kept = keep_dims if keepdims is None else keepdims

    def both(a: _C.Tensor) -> list[_C.Tensor]:
        mean = a.mean(places, keepdim=True)
        variance = ((a - mean.detach()) * (a - mean.detach())).mean(places, keepdim=True)
        # The derivative by the mean is a sum of deviations, which is zero.
        if kept:
            return [mean, variance]
        left = [size for axis, size in enumerate(a.shape) if axis not in {p % a.ndim for p in places}]
        return [mean.reshape(left), variance.reshape(left)]

    mean, variance = get_default_graph().add("moments", both, [convert_to_tensor(x)], name=name).outputs
    return mean, variance


def batch_normalization(
    x: Any, mean: Any, variance: Any, offset: Any, scale: Any, variance_epsilon: float, name: str | None = None
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset; the last two may be None."""
    factor = m.rsqrt(m.add(variance, variance_epsilon))
    if scale is not None:
        factor = m.multiply(factor, scale)
    shift = m.negative(m.multiply(mean, factor))
    if offset is not None:
        shift = m.add(offset, shift)
    return m.add(m.multiply(x, factor), shift, name=name or "batchnorm")


def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None) -> Tensor:
    """x / sqrt(max(sum(x * x), epsilon)) along an axis."""
    total = m.reduce_sum(m.square(x), axis if dim is None else dim, keepdims=True)
    return m.multiply(x, m.rsqrt(m.maximum(total, epsilon)), name=name or "l2_normalize")


def embedding_lookup(params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None) -> Tensor:
    """The rows of a matrix, or parts of a tensor, at these integers."""
    if isinstance(params, list | tuple):
        if len(params) != 1:
            raise ValueError("embedding_lookup takes one tensor, not several parts of one")
        params = params[0]
    return gather(params, ids, name=name or "embedding_lookup")


def in_top_k(predictions: Any, targets: Any, k: int, name: str | None = None) -> Tensor:
    """Whether each target class [n] is among the k largest predictions [n, classes]; a tie at the border counts."""

    def among(p: _C.Tensor, t: _C.Tensor) -> _C.Tensor:
        own = offered.gather(p, 1, t.to(int64).unsqueeze(1))
        return (p > own).sum(1) < k

    return node("InTopK", among, [predictions, targets], name)


def top_k(input: Any, k: int = 1, sorted: bool = True, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The k largest elements along the last axis and where they are; int32."""

    def largest(x: _C.Tensor) -> list[_C.Tensor]:
        values, places = topk(x, k, sorted=sorted)
        return [values, places.to(int32)]

    values, indices = get_default_graph().add("TopKV2", largest, [convert_to_tensor(input)], name=name).outputs
    return values, indices


def _window(what: str, values: Any, data_format: str) -> tuple[int, int]:
    if data_format not in ("NHWC", None):
        raise ValueError(f"data_format must be 'NHWC', not {data_format!r}")
    found = [int(value) for value in values]
    if len(found) != 4 or found[0] != 1 or found[3] != 1:
        raise ValueError(f"{what} must be [1, height, width, 1], not {found}")
    return found[1], found[2]


def _padding(
    padding: str, sizes: Sequence[int], window: Sequence[int], strides: Sequence[int], dilations: Sequence[int] = (1, 1)
) -> list[int]:
    """What goes left, right, above and below: of an odd number the greater half right and below."""
    if padding == "VALID":
        return [0, 0, 0, 0]
    if padding != "SAME":
        raise ValueError(f"padding must be 'SAME' or 'VALID', not {padding!r}")
    found = []
    for size, wide, stride, dilation in zip(sizes, window, strides, dilations, strict=True):
        total = max((-(-size // stride) - 1) * stride + (wide - 1) * dilation + 1 - size, 0)
        found.append([total // 2, total - total // 2])
    return [*found[1], *found[0]]


def conv2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """The cross-correlation of images [n, height, width, in] with filters [height, width, in, out].

    `strides` are [1, vertical, horizontal, 1], `padding` SAME or VALID.
    """
    x, w = same_types("Conv2D", input, filters if filter is None else filter)
    steps, apart = _window("strides", strides, data_format), _window("dilations", dilations, data_format)
    _padding(padding, (1, 1), (1, 1), (1, 1))

    def convolved(a: _C.Tensor, f: _C.Tensor) -> _C.Tensor:
        if a.ndim != 4 or f.ndim != 4 or a.shape[3] != f.shape[2]:
            raise ValueError(f"images {tuple(a.shape)} and filters {tuple(f.shape)} must be [n, height, width, in] and "
                             "[height, width, in, out]")  # fmt: skip
        sides = _padding(padding, a.shape[1:3], f.shape[:2], steps, apart)
        images, kernels = a.permute(0, 3, 1, 2), f.permute(3, 2, 0, 1)
        around: Any = 0
        if any(sides):
            if sides[0] == sides[1] and sides[2] == sides[3]:
                around = (sides[2], sides[0])
            else:
                images = nn.functional.pad(images, sides)
        found = nn.functional.conv2d(images, kernels, None, steps, around, apart)
        return found.permute(0, 2, 3, 1)

    return node("Conv2D", convolved, [x, w], name)


def max_pool(
    value: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    """The largest element of each window of images [n, height, width, channels]."""
    window, steps = _window("ksize", ksize, data_format), _window("strides", strides, data_format)
    _padding(padding, (1, 1), (1, 1), (1, 1))

    def pooled(a: _C.Tensor) -> _C.Tensor:
        images = a.permute(0, 3, 1, 2)
        sides = _padding(padding, a.shape[1:3], window, steps)
        if any(sides):
            images = nn.functional.pad(images, sides, value=-float("inf"))
        return nn.functional.max_pool2d(images, window, steps).permute(0, 2, 3, 1)

    return node("MaxPool", pooled, [value], name)


def avg_pool(
    value: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    """The mean of each window of images [n, height, width, channels]; what is beyond the border doesn't count."""
    window, steps = _window("ksize", ksize, data_format), _window("strides", strides, data_format)
    _padding(padding, (1, 1), (1, 1), (1, 1))

    def pooled(a: _C.Tensor) -> _C.Tensor:
        images = a.permute(0, 3, 1, 2)
        sides = _padding(padding, a.shape[1:3], window, steps)
        pool = nn.functional.avg_pool2d
        if not any(sides):
            return pool(images, window, steps).permute(0, 2, 3, 1)
        pad = nn.functional.pad
        inside = pad(ones([1, 1, *a.shape[1:3]], dtype=a.dtype, device=a.device), sides)
        return (pool(pad(images, sides), window, steps) / pool(inside, window, steps)).permute(0, 2, 3, 1)

    return node("AvgPool", pooled, [value], name)


named(globals())

__getattr__ = _missing(__name__)
