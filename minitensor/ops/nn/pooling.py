"""Pooling over windows of images [N, C, ...] with one to three spatial dimensions."""

from __future__ import annotations

from minitensor import _C
from minitensor.ops.row import index, reduction

__all__: list[str] = []

_MAXIMUM = "int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode"
_AVERAGE = (
    "int[] kernel_size, int[] stride, int[] padding, bool ceil_mode, bool count_include_pad, int? divisor_override"
)

max_pool_indices: _C.Op = reduction(
    f"max_pool_indices(Tensor input, {_MAXIMUM})",
    "Where the largest element of each window lies, counted within its plane. NaN counts as the largest.",
    function=False, method=False,
)  # fmt: skip
max_pool = reduction(
    f"max_pool(Tensor input, {_MAXIMUM})",
    "The largest element of each window.",
    vjp=lambda g, _out, x, *window: plane_scatter_add(g, max_pool_indices(x, *window), tuple(x.shape[2:])),
    function=False, method=False,
)  # fmt: skip
adaptive_max_pool_indices = reduction(
    "adaptive_max_pool_indices(Tensor input, int[] output_size)",
    "Where the largest element of each of so many windows lies, counted within its plane.",
    function=False, method=False,
)  # fmt: skip
plane_gather: _C.Op = index(
    "plane_gather(Tensor input, Tensor indices)",
    "The elements at the places that indices name within each plane.",
    vjp=lambda g, _out, _x, i: (plane_scatter_add(g, i, tuple(_x.shape[2:])), None), function=False, method=False,
)  # fmt: skip
plane_scatter = index(
    "plane_scatter(Tensor input, Tensor indices, int[] size)",
    "Planes of zeros with the elements at the places that indices name; of several for one place the last stays.",
    vjp=lambda g, _out, _x, i, size: (plane_gather(g, i), None), function=False, method=False,
)  # fmt: skip
plane_scatter_add: _C.Op = index(
    "plane_scatter_add(Tensor input, Tensor indices, int[] size)",
    "Planes in which the elements are added up at the places that indices name.",
    vjp=lambda g, _out, _x, i, size: (plane_gather(g, i), None), function=False, method=False,
)  # fmt: skip

avg_pool: _C.Op = reduction(
    f"avg_pool(Tensor input, {_AVERAGE})",
    "The average of each window.",
    vjp=lambda g, _out, _x, *window: avg_pool_backward(g, tuple(_x.shape), *window), function=False, method=False,
)  # fmt: skip
avg_pool_backward: _C.Op = reduction(
    f"avg_pool_backward(Tensor grad, int[] input_size, {_AVERAGE})",
    "Each element spread evenly over its window.",
    vjp=lambda g, _out, _grad, size, *window: avg_pool(g, *window), function=False, method=False,
)  # fmt: skip
resample: _C.Op = reduction(
    "_resample(Tensor input, Tensor places, Tensor weights, int[] counts, int[] sizes)",
    "Planes in other sizes, from the last dimension to the first: along d, result i is the sum over k < counts[d] of "
    "element places[k, i] times weights[k, i]. `places` and `weights` have those of every dimension, one after the "
    "other; a dimension with the count 0 stays.",
    autocast=("", "float32"), vjp=lambda g, _out, _x, places, weights, counts, _sizes: (
        lambda: resample_backward(g, places, weights, counts, tuple(_x.shape[2:])), None, None
    ), function=False, method=False,
)  # fmt: skip
resample_backward: _C.Op = reduction(
    "_resample_backward(Tensor grad, Tensor places, Tensor weights, int[] counts, int[] sizes)",
    "The transpose of `_resample`, from results to planes of the sizes.",
    vjp=lambda g, _out, _grad, places, weights, counts, _sizes: (
        lambda: resample(g, places, weights, counts, tuple(_grad.shape[2:])), None, None
    ), function=False, method=False,
)  # fmt: skip
adaptive_avg_pool: _C.Op = reduction(
    "adaptive_avg_pool(Tensor input, int[] output_size)",
    "The averages of so many windows that cover the input.",
    vjp=lambda g, _out, _x, size: adaptive_avg_pool_backward(g, tuple(_x.shape)), function=False, method=False,
)  # fmt: skip
adaptive_avg_pool_backward: _C.Op = reduction(
    "adaptive_avg_pool_backward(Tensor grad, int[] input_size)",
    "Each element spread evenly over its window.",
    vjp=lambda g, _out, _grad, size: adaptive_avg_pool(g, tuple(_grad.shape[2:])), function=False, method=False,
)  # fmt: skip
