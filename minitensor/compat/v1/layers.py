"""`tf.layers`: layers' functions, which make their variables by `get_variable` in a scope of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from minitensor import _C
from minitensor.compat.v1 import nn
from minitensor.compat.v1.framework.constants import convert_to_tensor, identity, node
from minitensor.compat.v1.framework.graph import GraphKeys, Tensor, add_to_collection
from minitensor.compat.v1.framework.instead import missing as _missing
from minitensor.compat.v1.initializers import ones_initializer, zeros_initializer
from minitensor.compat.v1.ops import array_ops
from minitensor.compat.v1.ops import math_ops as m
from minitensor.compat.v1.ops.variables import assign_sub, get_variable, variable_scope

__all__ = [
    "average_pooling2d", "batch_normalization", "conv2d", "dense", "dropout", "flatten", "max_pooling2d",
]  # fmt: skip

Activation = Callable[[Tensor], Tensor]


def _known(what: str, x: Tensor, axis: int) -> int:
    size = None if x.shape.ndims is None else x.shape.as_list()[axis]
    if size is None:
        raise ValueError(f"The size of axis {axis} of the inputs to `{what}` should be defined. Found `None`.")
    return size


def _pair(what: str, value: Any) -> tuple[int, int]:
    pair = (value, value) if isinstance(value, int) else tuple(int(each) for each in value)
    if len(pair) != 2:
        raise ValueError(f"{what} must be a number or two, not {value!r}")
    return pair


def _finished(y: Tensor, kernel: Any, bias: dict[str, Any] | None, size: int, activation: Activation | None) -> Tensor:
    if bias is not None:
        y = nn.bias_add(y, get_variable("bias", [size], kernel.dtype, **bias))
    return y if activation is None else activation(y)


def dense(
    inputs: Any,
    units: int,
    activation: Activation | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = zeros_initializer,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Tensor:
    """activation(inputs @ kernel + bias): floats [..., n] become [..., units]; ValueError if n isn't known.

    The variables are `kernel` [n, units] and `bias` [units], in the scope `name`, or `dense`, `dense_1` and so on.
    """
    x = convert_to_tensor(inputs)
    size = _known("dense", x, -1)
    with variable_scope(name, "dense", reuse=reuse):
        kernel = get_variable("kernel", [size, units], x.dtype, kernel_initializer, kernel_regularizer, trainable)
        rank = x.shape.ndims or 2
        y = m.matmul(x, kernel) if rank == 2 else m.tensordot(x, kernel, [[rank - 1], [0]])
        bias = {"initializer": bias_initializer, "regularizer": bias_regularizer, "trainable": trainable}
        return _finished(y, kernel, bias if use_bias else None, units, activation)


def conv2d(
    inputs: Any,
    filters: int,
    kernel_size: int | Sequence[int],
    strides: int | Sequence[int] = (1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: int | Sequence[int] = (1, 1),
    activation: Activation | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = zeros_initializer,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Tensor:
    """Images [n, height, width, c] cross-correlated with `kernel` [*kernel_size, c, filters], plus `bias` [filters].

    `padding`: "valid" or "same". The variables are in the scope `name`, or `conv2d`, `conv2d_1` and so on. ValueError
    for `data_format="channels_first"`, and if c isn't known.
    """
    _last(data_format)
    x = convert_to_tensor(inputs)
    size = _known("conv2d", x, -1)
    steps, apart = _pair("strides", strides), _pair("dilation_rate", dilation_rate)
    with variable_scope(name, "conv2d", reuse=reuse):
        shape = [*_pair("kernel_size", kernel_size), size, filters]
        kernel = get_variable("kernel", shape, x.dtype, kernel_initializer, kernel_regularizer, trainable)
        y = nn.conv2d(x, kernel, [1, *steps, 1], padding.upper(), dilations=[1, *apart, 1])
        bias = {"initializer": bias_initializer, "regularizer": bias_regularizer, "trainable": trainable}
        return _finished(y, kernel, bias if use_bias else None, filters, activation)


def _last(data_format: str) -> None:
    if data_format != "channels_last":
        raise ValueError(f"data_format must be 'channels_last', not {data_format!r}: tf.transpose the images")


def _pooled(pool: Any, inputs: Any, size: Any, strides: Any, padding: str, data_format: str, name: Any) -> Tensor:
    _last(data_format)
    window, steps = [1, *_pair("pool_size", size), 1], [1, *_pair("strides", strides), 1]
    pooled: Tensor = pool(inputs, window, steps, padding.upper(), name=name)
    return pooled


def max_pooling2d(
    inputs: Any,
    pool_size: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """The largest element of each window of images [n, height, width, channels]."""
    return _pooled(nn.max_pool, inputs, pool_size, strides, padding, data_format, name or "max_pooling2d")


def average_pooling2d(
    inputs: Any,
    pool_size: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """The mean of each window of images [n, height, width, channels]."""
    return _pooled(nn.avg_pool, inputs, pool_size, strides, padding, data_format, name or "average_pooling2d")


def flatten(inputs: Any, name: str | None = None) -> Tensor:
    """A row of all elements for each of a batch: [n, ...] becomes [n, elements]."""
    x = convert_to_tensor(inputs)
    if x.shape.ndims is None:
        raise ValueError("flatten takes a tensor of a known number of dimensions")
    sizes = x.shape.as_list()[1:]
    if all(size is not None for size in sizes):
        return array_ops.reshape(x, [-1, math.prod(sizes)], name=name or "flatten")
    rows = array_ops.slice(array_ops.shape(x), [0], [1])
    return array_ops.reshape(x, array_ops.concat([rows, [-1]], 0), name=name or "flatten")


def dropout(
    inputs: Any,
    rate: Any = 0.5,
    noise_shape: Any = None,
    seed: int | None = None,
    training: Any = False,
    name: str | None = None,
) -> Tensor:
    """While `training`, each element is 0 with the probability `rate`, else divided by 1 - rate. Otherwise the inputs.

    `training`: a bool, or a tensor of one.
    """
    if training is False:
        return identity(inputs, name=name or "dropout")
    x = convert_to_tensor(inputs)
    drop = convert_to_tensor(rate, x.dtype)
    if training is not True:
        drop = m.multiply(drop, m.cast(training, x.dtype))
    return nn.dropout(x, m.subtract(1.0, drop), noise_shape, seed, name)


def batch_normalization(
    inputs: Any,
    axis: int = -1,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Any = zeros_initializer,
    gamma_initializer: Any = ones_initializer,
    moving_mean_initializer: Any = zeros_initializer,
    moving_variance_initializer: Any = ones_initializer,
    beta_regularizer: Any = None,
    gamma_regularizer: Any = None,
    training: Any = False,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, by the batch while `training`, else by moving averages.

    `training`: a bool, or a tensor of one. What moves the averages is in the collection `UPDATE_OPS`, to be run with
    each step. The moving variance of images is that of a sample: n / (n - 1) of the batch's. Ioffe and Szegedy, 2015.
    """
    x = convert_to_tensor(inputs)
    size = _known("batch_normalization", x, axis)
    rank = len(x.shape.as_list())
    along = axis % rank
    others = [each for each in range(rank) if each != along]
    sizes = [size if each == along else 1 for each in range(rank)]

    def broadcast(vector: Any) -> Any:
        return vector if along == rank - 1 else array_ops.reshape(vector, sizes)

    with variable_scope(name, "batch_normalization", reuse=reuse):
        gamma = (
            get_variable("gamma", [size], x.dtype, gamma_initializer, gamma_regularizer, trainable) if scale else None
        )
        beta = get_variable("beta", [size], x.dtype, beta_initializer, beta_regularizer, trainable) if center else None
        kept_mean = get_variable("moving_mean", [size], x.dtype, moving_mean_initializer, trainable=False)
        kept = get_variable("moving_variance", [size], x.dtype, moving_variance_initializer, trainable=False)
        mean: Any = kept_mean
        variance: Any = kept
        if training is not False:
            mean, variance = nn.moments(x, others)
            moved = node("sample", _of_a_sample(along), [x, variance], None) if rank == 4 else variance
            rate: Any = 1.0 - momentum
            if training is not True:
                rate = m.multiply(rate, m.cast(training, x.dtype))
            for moving, now in ((kept_mean, mean), (kept, moved)):
                add_to_collection(GraphKeys.UPDATE_OPS, assign_sub(moving, m.multiply(m.subtract(moving, now), rate)))
            if training is not True:
                flags = array_ops.fill([size], convert_to_tensor(training))
                mean = array_ops.where(flags, mean, kept_mean)
                variance = array_ops.where(flags, variance, kept)
        shift, factor = (None if each is None else broadcast(each) for each in (beta, gamma))
        return nn.batch_normalization(x, broadcast(mean), broadcast(variance), shift, factor, epsilon)


def _of_a_sample(axis: int) -> Callable[[_C.Tensor, _C.Tensor], _C.Tensor]:
    def scaled(x: _C.Tensor, variance: _C.Tensor) -> _C.Tensor:
        count = x.numel() // x.shape[axis]
        return variance * (count / max(count - 1, 1))

    return scaled


__getattr__ = _missing(__name__)
