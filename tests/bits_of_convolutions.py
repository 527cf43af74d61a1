"""Prints digests of convolutions, their gradients and maxima of windows: python bits_of_convolutions.py."""

import hashlib
import itertools
import json

import minitensor as mt
from minitensor.nn import functional as F

# channels and filters of a group, groups, height and width, kernel: few filters, some that fill vectors and some that
# don't, kernels of all widths, rows that are shorter and longer than vectors, images that are cut and put together
SHAPES = [
    (1, 6, 1, 28, 28, (5, 5)),
    (6, 16, 1, 12, 12, (5, 5)),
    (3, 12, 2, 9, 33, (3, 3)),
    (2, 7, 1, 10, 37, (3, 11)),
    (4, 24, 1, 20, 19, (4, 6)),
    (1, 8, 1, 40, 40, (7, 7)),
    (5, 32, 1, 7, 16, (2, 3)),
    (8, 3, 1, 17, 18, (3, 4)),
]
# stride, padding and dilation
STEPS = [(1, 0, 1), (1, (1, 2), 1), ((2, 1), 1, (2, 1)), ((1, 2), (0, 1), 1), (1, 1, (1, 2))]


def digest(*tensors):
    found = hashlib.sha256()
    for t in tensors:
        found.update(t.detach().numpy().tobytes())
    return found.hexdigest()


def main():
    found = {}
    for (shape, steps), dtype in itertools.product(itertools.product(SHAPES, STEPS), (mt.float32, mt.float64)):
        mt.manual_seed(0)
        channels, filters, groups, height, width, kernel = shape
        x = mt.randn(9, channels * groups, height, width).to(dtype).requires_grad_()
        w = mt.randn(filters * groups, channels, *kernel).to(dtype).requires_grad_()
        b = mt.randn(filters * groups).to(dtype).requires_grad_()
        y = F.conv2d(x, w, b, *steps, groups)
        found[f"{shape} {steps} {dtype}"] = digest(y, *mt.autograd.grad(y, (x, w, b), mt.randn(*y.shape).to(dtype)))
        if min(y.shape[2:]) > 1:
            found[f"pool {shape} {steps} {dtype}"] = digest(
                F.max_pool2d(y, 2), *F.max_pool2d(y, 2, return_indices=True)
            )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
