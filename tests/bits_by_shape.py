"""Prints digests of what has several kernels, of which shapes choose: python bits_by_shape.py."""

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


def convolutions(found):
    """Convolutions, their gradients and maxima of windows."""
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


# batch, queries, keys, width of keys and of values: one block of queries and several, of whole tiles and not
ATTENTION = [
    (3, 64, 64, 32, 32),
    (2, 24, 50, 16, 8),
    (1, 301, 301, 8, 8),
    (2, 70, 20, 24, 40),
    (2, 5, 30, 8, 8),
    (1, 49, 600, 40, 8),
]


def attention(found):
    for (batch, queries, keys, width, depth), how, dtype in itertools.product(
        ATTENTION, ("plain", "causal", "mask"), (mt.float32, mt.float64)
    ):
        mt.manual_seed(0)
        sizes = (queries, width), (keys, width), (keys, depth)
        q, k, v = (mt.randn(batch, 2, *size).to(dtype).requires_grad_() for size in sizes)
        mask = mt.rand(queries, keys) > 0.3 if how == "mask" else None
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=how == "causal")
        grads = mt.autograd.grad(y, (q, k, v), mt.randn(*y.shape).to(dtype))
        found[f"attention {batch, queries, keys, width, depth} {how} {dtype}"] = digest(y, *grads)


def products(found):
    """Operands that lie across, few and many rows, columns and values of k."""
    for m, n, k in itertools.product((7, 49, 130), (20, 48, 129), (100, 256, 600)):
        mt.manual_seed(0)
        left, right = (mt.randn(m, k), mt.randn(k, m).t()), (mt.randn(k, n), mt.randn(n, k).t())
        found[f"product {m, n, k}"] = digest(*(a @ b for a in left for b in right))


def main():
    found = {}
    for part in (convolutions, attention, products):
        part(found)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
