"""Random programs at several sizes of a dimension, recorded and eager, compared bit for bit.

python tests/fuzz/sizes.py 0 1000   # the programs 0 to 999
"""

import random
import sys

import numpy as np

import minitensor as mt
from minitensor.nn import functional as F

# Each takes two of the values so far; what a program can't do with them is left out.
OPS = {
    "tanh": lambda a, b: mt.tanh(a.float()),
    "scale": lambda a, b: a * 2.5,
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b * 0.5,
    "relu": lambda a, b: mt.relu(a),
    "sum of columns": lambda a, b: a.sum(dim=0, keepdim=True),
    "sum of rows": lambda a, b: a.sum(dim=-1, keepdim=True),
    "sum": lambda a, b: (a * a).sum(),
    "norm": lambda a, b: a.float().norm(),
    "mean of columns": lambda a, b: a.float().mean(dim=0),
    "mean of rows": lambda a, b: a.float().mean(dim=-1, keepdim=True),
    "var": lambda a, b: a.float().var(dim=0),
    "softmax of columns": lambda a, b: mt.softmax(a.float(), dim=0),
    "softmax of rows": lambda a, b: mt.softmax(a.float(), dim=-1),
    "log_softmax": lambda a, b: mt.log_softmax(a.float(), dim=-1),
    "layer_norm": lambda a, b: F.layer_norm(a.float(), (a.shape[-1],)),
    "transpose": lambda a, b: a.t(),
    "flip rows": lambda a, b: a.flip(0),
    "flip columns": lambda a, b: a.flip(-1),
    "slice": lambda a, b: a[1:],
    "chunk": lambda a, b: a.chunk(2, -1)[0],
    "concatenate rows": lambda a, b: mt.cat([a, b], 0),
    "concatenate columns": lambda a, b: mt.cat([a, b], -1),
    "stack": lambda a, b: mt.stack([a, b]),
    "matmul": lambda a, b: a @ b,
    "matmul with a transpose": lambda a, b: a @ b.t(),
    "matmul over rows": lambda a, b: a.t() @ b,
    "matmul and more": lambda a, b: mt.relu(a @ b + 0.5),
    "max": lambda a, b: a.max(dim=0).values,
    "amax": lambda a, b: a.amax(dim=-1),
    "where": lambda a, b: mt.where(a > 0, a, b),
    "clamp": lambda a, b: a.clamp(-1, 1),
    "cumsum": lambda a, b: mt.cumsum(a, 0),
    "sort": lambda a, b: a.sort(dim=0).values,
    "argsort": lambda a, b: mt.argsort(a, dim=0),
    "expand": lambda a, b: a[:, :1].expand(-1, 5),
    "reshape": lambda a, b: a.reshape(-1),
    "roll": lambda a, b: mt.roll(a, 1, 0),
    "pad": lambda a, b: F.pad(a, (1, 2)),
    "tril": lambda a, b: mt.tril(a),
    "double": lambda a, b: a.double(),
    "half": lambda a, b: a.half(),
    "long": lambda a, b: (a * 3).long(),
    "positions": lambda a, b: a * mt.arange(a.shape[0]).float().unsqueeze(1),
    "gather": lambda a, b: a[a.argmax(dim=-1) % a.shape[0]],
    "index_add": lambda a, b: mt.zeros_like(a).index_add(0, mt.tensor([0, 1]), a[:2]),
    "write in place": lambda a, b: a.clone().mul_(2.0).add_(b),
}
LARGEST = 200_000


def run(program, tensors):
    """The values of all steps that could be done."""
    values = list(tensors)
    for name, first, second in program:
        a, b = values[int(first * len(values))], values[int(second * len(values))]
        try:
            value = OPS[name](a, b)
        except (RuntimeError, IndexError, ValueError, TypeError):
            continue
        if value.numel() <= LARGEST:
            values.append(value)
    return values[len(tensors) :]


def same(a, b):
    """Whether dtype, shape and all bits but those of NaN are equal."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    x, y = a.contiguous().numpy(), b.contiguous().numpy()
    if x.tobytes() == y.tobytes():
        return True
    return x.dtype.kind == "f" and bool(np.isnan(x).any()) and np.array_equal(x, y, equal_nan=True)


def check(seed):
    """What differs in the program of a number; None for nothing."""
    rng = random.Random(seed)
    program = [(rng.choice(list(OPS)), rng.random(), rng.random()) for _ in range(rng.randint(3, 14))]
    last = rng.random() < 0.3  # whether it is the last dimension that varies
    fixed = rng.choice([1, 3, 5, 8, 16, 33])
    sizes = [rng.randint(2, 90) for _ in range(5)] + [rng.choice([1, 2, 64, 128, 256, 300])]
    both = seed % 3 == 2  # whether two dimensions vary
    mt.jit.cache_clear()
    for n in sizes:
        generator = np.random.RandomState(seed * 7 + n)
        if both:
            shapes = [(n, int(generator.randint(1, 90)))] * 2
        else:
            shapes = [(fixed, n), (fixed, n)] if last else [(n, fixed), (n, fixed)]
        tensors = [mt.tensor(generator.randn(*shape).astype(np.float32)) for shape in (*shapes, (fixed, fixed))]
        expected = run(program, tensors)
        with mt.jit.options(enable_lazy_compilation=False), mt.jit_scope():
            results = run(program, tensors)
        for step, (a, b) in enumerate(zip(expected, results, strict=True)):
            if not same(a, b):
                return f"program {seed}, sizes {sizes}, at {n}: value {step} of {[name for name, _, _ in program]}"
    return None


if __name__ == "__main__":
    np.seterr(all="ignore")
    found = [text for seed in range(*map(int, sys.argv[1:3])) if (text := check(seed)) is not None]
    print("\n".join(found) or "no differences")
    sys.exit(bool(found))
