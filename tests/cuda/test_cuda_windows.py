"""Averages and adaptive maxima of windows on GPUs, with their gradients: in kernels, and with the bits of the CPU."""

import numpy as np
import pytest
from gpu_agrees import gpu_agrees

import minitensor as mt
from minitensor.ops import ROWS
from minitensor_jit.runtime.cuda.start import host_ops

pytestmark = pytest.mark.sampled(6)


def both(name, arrays, *params):
    return gpu_agrees(lambda *tensors: ROWS[name].call(*tensors, *params), *arrays, clustered=False).numpy()


def image(*dims):
    values = np.random.default_rng(1).standard_normal(dims).astype(np.float32)
    values.flat[values.size // 3], values.flat[-1] = np.inf, -np.inf
    return values


AVERAGES = {
    # sizes, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override
    "apart": ((2, 3, 8, 10), (2, 2), (2, 2), (0, 0), False, True, None),
    "overlapping": ((2, 3, 9, 11), (3, 3), (1, 2), (1, 1), False, True, None),
    "padding not counted": ((1, 2, 9, 11), (3, 5), (2, 2), (1, 2), False, False, None),
    "rounded up": ((2, 2, 10, 9), (3, 4), (3, 2), (1, 0), True, True, None),
    "rounded up, padding not counted": ((2, 2, 10, 9), (3, 2), (2, 3), (1, 1), True, False, None),
    "a divisor": ((1, 2, 6, 6), (2, 3), (2, 1), (0, 1), False, True, 7),
    "the whole plane": ((2, 3, 20, 17), (20, 17), (1, 1), (0, 0), False, True, None),
    "one plane": ((1, 1, 5, 6), (5, 6), (5, 6), (0, 0), False, True, None),
    "gaps": ((1, 3, 11, 11), (2, 2), (4, 3), (0, 0), False, True, None),
    "one dimension": ((2, 3, 40), (5,), (3,), (2,), False, False, None),
    "three dimensions": ((1, 2, 5, 6, 7), (2, 3, 2), (2, 1, 2), (1, 1, 0), False, True, None),
}


@pytest.mark.parametrize("form", AVERAGES)
def test_averages(form):
    sizes, *window = AVERAGES[form]
    made = both("avg_pool", [image(*sizes)], *window)
    both("avg_pool_backward", [image(*made.shape)], sizes, *window)


ADAPTIVE = {
    "equal windows": ((2, 3, 12, 8), (4, 2)),
    "unequal windows": ((2, 3, 11, 7), (4, 3)),
    "the whole plane": ((3, 4, 17, 18), (1, 1)),
    "more windows than elements": ((1, 2, 3, 5), (7, 8)),
    "as many": ((2, 2, 4, 4), (4, 4)),
    "one dimension": ((2, 3, 13), (5,)),
    "three dimensions": ((1, 2, 5, 6, 7), (2, 4, 3)),
}


@pytest.mark.parametrize("form", ADAPTIVE)
def test_adaptive_windows(form):
    sizes, windows = ADAPTIVE[form]
    made = both("adaptive_avg_pool", [image(*sizes)], windows)
    both("adaptive_avg_pool_backward", [image(*made.shape)], sizes)
    values = image(*sizes)
    values.flat[::7] = np.round(values.flat[::7])
    values.flat[5::11] = np.nan
    values[0, 0] = -np.inf
    both("adaptive_max_pool_indices", [values], windows)


def test_networks_average_on_the_gpu(cuda):
    x = mt.randn(2, 3, 9, 9, device="cuda").requires_grad_()
    f = mt.nn.functional
    host_ops.clear()
    (f.avg_pool2d(x, 3, 2, 1).sum() + f.adaptive_avg_pool2d(x, 1).sum() + f.adaptive_max_pool2d(x, 2).sum()).backward()
    assert x.grad.device.type == "cuda"
    assert not host_ops, list(host_ops)


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize(
    ("sizes", "counts"), [((2, 3, 7), (3, 2)), ((2, 5, 6), (4, 0, 1, 3)), ((2, 4, 5, 6), (1, 2, 3, 3, 0, 2))], ids=str
)
def test_padding_with_what_is_there(sizes, counts, mode):
    made = both("_pad_around", [image(*sizes)], counts, mode)
    both("_pad_around_backward", [image(*made.shape)], counts, mode)
    both("_pad_around", [np.arange(np.prod(sizes)).reshape(sizes)], counts, mode)


@pytest.mark.parametrize(
    ("sizes", "kernel", "dilation", "padding", "stride"),
    [((2, 3, 7, 8), (3, 2), (1, 1), (1, 0), (1, 1)), ((1, 2, 11, 9), (3, 3), (2, 1), (2, 1), (2, 3)),
     ((2, 1, 4, 4), (4, 4), (1, 1), (0, 0), (1, 1))],
    ids=str,
)  # fmt: skip
def test_patches(sizes, kernel, dilation, padding, stride):
    made = both("im2col", [image(*sizes)], kernel, dilation, padding, stride)
    both("col2im", [image(*made.shape)], sizes[2:], kernel, dilation, padding, stride)
