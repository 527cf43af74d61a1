"""Random modules, compiled as they are and after the passes, against the evaluator: every bit must agree."""

import random

import numpy as np
import pytest
from runtime_table import agree, compile_and_run, values

from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.shape import Shape
from minitensor_jit.passes.pipeline import run_pipeline

DTYPES = ["f32", "f32", "f32", "f64", "s32", "s64", "u8", "pred"]
UNARY = {"f": ["negate", "abs", "sign", "floor", "ceil", "sqrt", "round-nearest-even"], "i": ["negate", "abs", "not"],
         "u": ["not", "negate"], "b": ["not"]}  # fmt: skip
BINARY = {"f": ["add", "subtract", "multiply", "divide", "maximum", "minimum"], "b": ["and", "or", "xor"],
          "i": ["add", "subtract", "multiply", "divide", "remainder", "maximum", "xor", "shift-left"],
          "u": ["add", "multiply", "divide", "minimum", "and", "shift-right-logical"]}  # fmt: skip


class Generator:
    """Grows a module one instruction at a time from those that are there."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.b = Builder(f"random_{seed}")
        self.known = []

    def dims(self):
        rank = self.rng.choice([0, 1, 1, 2, 2, 2, 3, 4])
        return tuple(self.rng.choice([1, 2, 3, 5, 8, 16, 17, 33, 100 if rank < 3 else 4]) for _ in range(rank))

    def pick(self, want=lambda i: True):
        found = [i for i in self.known if want(i)]
        return self.rng.choice(found) if found else None

    def module(self):
        for _ in range(self.rng.randint(1, 4)):
            self.known.append(self.b.parameter(Shape(self.rng.choice(DTYPES), self.dims())))
        for _ in range(self.rng.randint(3, 25)):
            made = self.rng.choice(STEPS)(self)
            if made is not None and made.array_shape.size <= 40000:
                self.known.append(made)
        count = self.rng.randint(1, 4)
        return self.b.build([self.pick() for _ in range(count - 1)] + [self.known[-1]])

    # ---- one instruction

    def unary(self):
        x = self.pick()
        return self.b.emit(self.rng.choice(UNARY[x.array_shape.kind]), (x,))

    def binary(self):
        x = self.pick()
        y = self.pick(lambda i: i.shape == x.shape)
        return self.b.emit(self.rng.choice(BINARY[x.array_shape.kind]), (x, y))

    def compare(self):
        x = self.pick()
        return self.b.compare(x, self.pick(lambda i: i.shape == x.shape), self.rng.choice(["EQ", "NE", "LT", "GE"]))

    def select(self):
        p = self.pick(lambda i: i.dtype == "pred")
        x = self.pick(lambda i: p is not None and i.dims == p.dims)
        return self.b.select(p, x, self.pick(lambda i: i.shape == x.shape)) if p and x else None

    def convert(self):
        x = self.pick()
        return self.b.convert(x, self.rng.choice(DTYPES))

    def broadcast(self):
        x = self.pick(lambda i: len(i.dims) < 4)
        if x is None:
            return None
        dims, at = list(x.dims), list(range(len(x.dims)))
        for _ in range(self.rng.randint(1, 2)):
            k = self.rng.randint(0, len(dims))
            dims.insert(k, self.rng.choice([1, 2, 7, 20]))
            at = [d + (d >= k) for d in at]
        return self.b.broadcast(x, dims, at)

    def reshape(self):
        x = self.pick()
        rest, dims = x.array_shape.size, []
        for p in self.rng.sample([2, 2, 2, 2, 3, 3, 5, 7, 11, 17], 3):
            if rest % p == 0:
                rest //= p
                dims.append(p)
        dims.insert(self.rng.randint(0, len(dims)), rest)
        return self.b.reshape(x, dims)

    def transpose(self):
        x = self.pick(lambda i: len(i.dims) > 1)
        return self.b.transpose(x, self.rng.sample(range(len(x.dims)), len(x.dims))) if x else None

    def slice(self):
        x = self.pick()
        start = [self.rng.randint(0, n - 1) for n in x.dims]
        limit = [self.rng.randint(s + 1, n) for s, n in zip(start, x.dims, strict=True)]
        return self.b.slice(x, start, limit, [self.rng.choice([1, 1, 2, 3]) for _ in x.dims])

    def reverse(self):
        x = self.pick()
        return self.b.reverse(x, [d for d in range(len(x.dims)) if self.rng.random() < 0.5])

    def pad(self):
        x = self.pick(lambda i: len(i.dims) > 0)
        if x is None:
            return None
        value = self.b.constant(1, x.dtype)
        padding = [
            (self.rng.randint(-1 if n > 2 else 0, 2), self.rng.randint(0, 2), self.rng.choice([0, 0, 1]))
            for n in x.dims
        ]
        return self.b.pad(x, value, padding)

    def concatenate(self):
        x = self.pick(lambda i: len(i.dims) > 0)
        if x is None:
            return None
        axis = self.rng.randrange(len(x.dims))

        def fits(i):
            return (
                i.dtype == x.dtype
                and len(i.dims) == len(x.dims)
                and all(a == b for d, (a, b) in enumerate(zip(i.dims, x.dims, strict=True)) if d != axis)
            )

        return self.b.concatenate([x, self.pick(fits), self.pick(fits)], axis)

    def iota(self):
        dims = self.pick().dims
        dtype = self.rng.choice([d for d in DTYPES if d != "pred"])
        return self.b.iota(Shape(dtype, dims), self.rng.randrange(len(dims))) if dims else None

    def constant(self):
        shape = Shape(self.rng.choice(DTYPES), self.dims())
        return self.b.constant(values(shape, self.rng.randint(0, 99)), shape.dtype) if shape.size < 500 else None

    def reduce(self):
        x = self.pick(lambda i: len(i.dims) > 0)
        if x is None:
            return None
        dims = [d for d in range(len(x.dims)) if self.rng.random() < 0.5] or [0]
        kind = self.rng.choice(["and", "or"] if x.dtype == "pred" else ["add", "add", "maximum", "minimum"])
        if kind == "maximum":
            return self.b.reduce_max(x, dims)
        if kind == "minimum":
            return self.b.reduce_min(x, dims)
        return self.b.reduce(x, self.b.constant(kind == "and", x.dtype), dims, kind)

    def normalise(self):
        x = self.pick(lambda i: len(i.dims) > 1 and i.array_shape.is_floating)
        if x is None:
            return None
        kept = tuple(range(len(x.dims) - 1))
        return self.b.subtract(x, self.b.broadcast(self.b.reduce_sum(x, (len(kept),)), x.dims, kept))

    def index(self):
        return self.pick(lambda i: i.array_shape.is_integral and i.dtype != "u8")

    def dynamic_slice(self):
        x = self.pick(lambda i: len(i.dims) > 0)
        starts = [self.pick(lambda i: i.dims == () and i.array_shape.is_integral) for _ in x.dims] if x else []
        if not starts or None in starts or len({s.dtype for s in starts}) > 1:
            return None
        return self.b.dynamic_slice(x, starts, [self.rng.randint(1, n) for n in x.dims])

    def dynamic_update_slice(self):
        x = self.pick(lambda i: len(i.dims) > 0)
        if x is None:
            return None
        window = self.b.broadcast(self.b.constant(1, x.dtype), [self.rng.randint(1, n) for n in x.dims], ())
        starts = [self.b.constant(self.rng.randint(-1, n), "s64") for n in x.dims]
        return self.b.dynamic_update_slice(x, window, starts)

    def call(self):
        """A function that is a loop of the core."""
        x = self.pick(lambda i: i.dtype in ("f32", "f64"))
        if x is None:
            return None
        name = self.rng.choice(["sin", "erf", "atan", "frac", "hypot", "remainder", "softplus"])
        count = {"hypot": 2, "remainder": 2, "softplus": 3}.get(name, 1)
        return self.b.elementwise_call(name, x, *(self.pick(lambda i: i.shape == x.shape) for _ in range(count - 1)))

    def gather(self):
        x, i = self.pick(lambda i: len(i.dims) > 0), self.index()
        if x is None or i is None:
            return None
        axis = self.rng.randrange(len(x.dims))
        sizes = [1 if d == axis else n for d, n in enumerate(x.dims)]
        batch = len(i.dims)
        return self.b.gather(
            x, i, offset_dims=range(batch, batch + len(x.dims) - 1), collapsed_slice_dims=(axis,),
            start_index_map=(axis,), index_vector_dim=batch, slice_sizes=sizes,
        )  # fmt: skip

    def scatter(self):
        x, i = self.pick(lambda i: len(i.dims) > 0), self.index()
        if x is None or i is None:
            return None
        axis, batch = self.rng.randrange(len(x.dims)), len(i.dims)
        dims = [*i.dims, *(n for d, n in enumerate(x.dims) if d != axis)]
        if int(np.prod(dims)) > 3000:
            return None
        updates = self.b.broadcast(self.b.constant(3, x.dtype), dims, ())
        return self.b.scatter(
            x, i, updates, update_window_dims=range(batch, len(dims)), inserted_window_dims=(axis,),
            scatter_dims_to_operand_dims=(axis,), index_vector_dim=batch, kind="or" if x.dtype == "pred" else "add",
        )  # fmt: skip


STEPS = [
    Generator.unary, Generator.binary, Generator.binary, Generator.compare, Generator.select, Generator.convert,
    Generator.broadcast, Generator.broadcast, Generator.reshape, Generator.reshape, Generator.transpose,
    Generator.slice, Generator.reverse, Generator.pad, Generator.concatenate, Generator.iota,
    Generator.constant, Generator.reduce, Generator.reduce, Generator.normalise, Generator.dynamic_slice,
    Generator.gather, Generator.scatter, Generator.dynamic_update_slice, Generator.call, Generator.call,
]  # fmt: skip


@pytest.mark.parametrize("seed", range(80))
def test_random_module(seed):
    module = Generator(seed).module()
    args = [values(p.array_shape, k) for k, p in enumerate(module.entry.parameters)]
    wanted = evaluate(module, args)
    for version in (module, run_pipeline(module.clone())):
        for k, (got, want) in enumerate(zip(compile_and_run(version, args), wanted, strict=True)):
            assert agree(got, np.asarray(want)), f"result {k} of seed {seed}:\n{version}"
