"""Random modules and arguments for property tests of the IR, the passes and the code generators."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .builder import Builder
from .infer.infer_shape import ShapeError
from .module import Instruction, Metadata, Module
from .narrow import WIDER, array_of, wide_array
from .opcode import OPCODES
from .shape import Shape

__all__ = ["random_arguments", "random_array", "random_module", "same_bits"]

Array = NDArray[Any]
_SIZES = (1, 2, 3, 4, 5, 8)


class _Generator:
    """Grows a computation by random instructions whose operands are values it already has."""

    def __init__(self, rng: np.random.Generator, exact: bool, dtypes: tuple[str, ...], sizes: tuple[int, ...]) -> None:
        self.sizes = sizes
        self.rng = rng
        self.b = Builder("random")
        self.values: list[Instruction] = []
        self.dtypes = dtypes
        self.exact = exact
        self.elementwise = [
            row
            for row in OPCODES.values()
            if row.kind in ("unary", "binary") and not (exact and (row.transcendental or row.name == "rsqrt"))
        ]
        self.moves = [
            self.broadcast, self.reshape, self.transpose, self.slice, self.concatenate, self.pad, self.reverse,
            self.convert, self.select, self.clamp, self.reduce, self.reduce, self.iota, self.constant, self.gather,
            self.scatter, self.dynamic_slice, self.dynamic_update_slice, self.row_normalise,
        ]  # fmt: skip
        if not exact:
            self.moves.append(self.dot)

    def pick(self, dtype: str | None = None, rank: int | None = None, least_rank: int = 0) -> Instruction:
        """A value, with preference for recent ones; of the dtype and rank, if there is one."""
        fitting = [
            v
            for v in self.values
            if (dtype is None or v.dtype == dtype)
            and (rank is None or len(v.dims) == rank)
            and len(v.dims) >= least_rank
        ]
        if not fitting:
            raise ShapeError("no such value yet")
        weights = np.arange(1, len(fitting) + 1, dtype=float)
        return fitting[int(self.rng.choice(len(fitting), p=weights / weights.sum()))]

    def like(self, x: Instruction, dtype: str | None = None) -> Instruction:
        """A value with the dimensions of x: one that exists, or a broadcast constant."""
        dtype = dtype or x.dtype
        fitting = [v for v in self.values if v.dtype == dtype and v.dims == x.dims]
        if fitting and self.rng.random() < 0.8:
            return fitting[int(self.rng.integers(len(fitting)))]
        return self.b.full(Shape(dtype, x.dims), random_array(self.rng, Shape(dtype)))

    def dims(self, least_rank: int = 0) -> tuple[int, ...]:
        rank = int(self.rng.integers(least_rank, 4))
        return tuple(int(n) for n in self.rng.choice(self.sizes, rank))

    def step(self) -> None:
        """Add one operation, or raise `ShapeError` where the random choice does not fit."""
        if self.rng.random() < 0.5:
            row = self.elementwise[int(self.rng.integers(len(self.elementwise)))]
            x = self.pick()
            if row.required and row.name != "compare":
                raise ShapeError(f"{row.name} needs attributes")
            if self.exact and x.array_shape.kind in row.uncompiled:
                raise ShapeError(f"no code for {row.name} of {x.dtype}")
            if row.name in ("convert", "bitcast-convert", "compare"):
                value = self.compare(x) if row.name == "compare" else self.convert()
            elif row.arity == 1:
                value = self.b.emit(row.name, (x,))
            else:
                value = self.b.emit(row.name, (x, self.like(x)) if self.rng.random() < 0.5 else (self.like(x), x))
        else:
            value = self.moves[int(self.rng.integers(len(self.moves)))]()
        self.values.append(value)

    # ---- one method an operation

    def compare(self, x: Instruction) -> Instruction:
        return self.b.compare(x, self.like(x), str(self.rng.choice(["EQ", "NE", "LT", "LE", "GT", "GE"])))

    def convert(self) -> Instruction:
        return self.b.convert(self.pick(), str(self.rng.choice(self.dtypes)))

    def select(self) -> Instruction:
        x = self.pick()
        return self.b.select(self.like(x, "pred"), x, self.like(x))

    def clamp(self) -> Instruction:
        x = self.pick()
        return self.b.clamp(self.like(x), x, self.like(x))

    def iota(self) -> Instruction:
        dims = self.dims(1)
        return self.b.iota(Shape(self.number_dtype(), dims), int(self.rng.integers(len(dims))))

    def number_dtype(self) -> str:
        return str(self.rng.choice([d for d in self.dtypes if d != "pred"] or ["s32"]))

    def constant(self) -> Instruction:
        return self.b.constant(random_array(self.rng, Shape(str(self.rng.choice(self.dtypes)), self.dims())))

    def broadcast(self) -> Instruction:
        x = self.pick()
        extra = int(self.rng.integers(0, max(1, 4 - len(x.dims))))
        rank = len(x.dims) + extra
        mapping = sorted(int(d) for d in self.rng.choice(rank, len(x.dims), replace=False))
        dims = [int(n) for n in self.rng.choice(self.sizes, rank)]
        for k, d in enumerate(mapping):
            dims[d] = x.dims[k]
        return self.b.broadcast(x, dims, mapping)

    def reshape(self) -> Instruction:
        x = self.pick()
        dims = [n for n in x.dims if n != 1 or self.rng.random() < 0.5]
        if len(dims) > 1 and self.rng.random() < 0.5:
            k = int(self.rng.integers(len(dims) - 1))
            dims[k : k + 2] = [dims[k] * dims[k + 1]]
        for k, n in enumerate(dims):
            if n > 1 and n % 2 == 0 and self.rng.random() < 0.3:
                dims[k : k + 1] = [2, n // 2]
                break
        if self.rng.random() < 0.5 and len(dims) < 4:
            dims.insert(int(self.rng.integers(len(dims) + 1)), 1)
        return self.b.reshape(x, dims)

    def transpose(self) -> Instruction:
        x = self.pick(least_rank=1)
        return self.b.transpose(x, [int(d) for d in self.rng.permutation(len(x.dims))])

    def slice(self) -> Instruction:
        x = self.pick(least_rank=1)
        starts = [int(self.rng.integers(0, n + 1)) if self.rng.random() < 0.5 else 0 for n in x.dims]
        limits = [
            int(self.rng.integers(a, n + 1)) if self.rng.random() < 0.5 else n
            for a, n in zip(starts, x.dims, strict=True)
        ]
        return self.b.slice(x, starts, limits, [int(s) for s in self.rng.integers(1, 3, len(x.dims))])

    def concatenate(self) -> Instruction:
        x = self.pick(least_rank=1)
        parts = [x, *(self.like(x) for _ in range(int(self.rng.integers(0, 3))))]
        return self.b.concatenate(parts, int(self.rng.integers(len(x.dims))))

    def pad(self) -> Instruction:
        x = self.pick()
        value = self.b.constant(random_array(self.rng, Shape(x.dtype)))
        return self.b.pad(
            x,
            value,
            [(*(int(n) for n in self.rng.integers(-1, 3, 2)), int(self.rng.integers(2))) for _ in x.dims],
        )

    def reverse(self) -> Instruction:
        x = self.pick(least_rank=1)
        return self.b.reverse(x, [d for d in range(len(x.dims)) if self.rng.random() < 0.5])

    def reduce(self) -> Instruction:
        x = self.pick(least_rank=1)
        if self.rng.random() < 0.5:
            dimensions = [len(x.dims) - 1]
        else:
            dimensions = [d for d in range(len(x.dims)) if self.rng.random() < 0.6]
        kind = int(self.rng.integers(3))
        if kind == 0:
            return self.b.reduce_max(x, dimensions)
        if kind == 1:
            return self.b.reduce_min(x, dimensions)
        return self.b.reduce_sum(x, dimensions)

    def row_normalise(self) -> Instruction:
        """x combined with a reduction of each of its rows: what row fusion looks for."""
        x = self.pick(least_rank=1)
        last = len(x.dims) - 1
        reduced = self.b.reduce_max(x, (last,)) if self.rng.random() < 0.5 else self.b.reduce_sum(x, (last,))
        self.values.append(reduced)
        back = self.b.broadcast(reduced, x.dims, range(last))
        self.values.append(back)
        return self.b.emit(str(self.rng.choice(["maximum", "add", "minimum"])), (x, back))

    def index(self, high: int) -> Instruction:
        return self.b.constant(self.rng.integers(-1, high + 1), "s32")

    def gather(self) -> Instruction:
        x = self.pick(least_rank=1)
        indices = self.b.constant(self.rng.integers(-1, x.dims[0] + 2, self.rng.integers(1, 5)), "s32")
        rank = len(x.dims)
        return self.b.gather(
            x, indices, offset_dims=range(1, rank), collapsed_slice_dims=(0,), start_index_map=(0,),
            index_vector_dim=1, slice_sizes=(min(1, x.dims[0]), *x.dims[1:]),
        )  # fmt: skip

    def scatter(self) -> Instruction:
        x = self.pick(least_rank=1)
        count = int(self.rng.integers(1, 5))
        indices = self.b.constant(self.rng.integers(-1, x.dims[0] + 2, count), "s32")
        updates = self.b.full(Shape(x.dtype, (count, *x.dims[1:])), random_array(self.rng, Shape(x.dtype)))
        return self.b.scatter(
            x, indices, updates, update_window_dims=range(1, len(x.dims)), inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0,), index_vector_dim=1,
            kind=str(self.rng.choice(["add", "maximum", "assign"])),
        )  # fmt: skip

    def dynamic_slice(self) -> Instruction:
        x = self.pick(least_rank=1)
        sizes = [int(self.rng.integers(0, n + 1)) for n in x.dims]
        return self.b.dynamic_slice(x, [self.index(n) for n in x.dims], sizes)

    def dynamic_update_slice(self) -> Instruction:
        x = self.pick(least_rank=1)
        update = self.slice_of(x)
        return self.b.dynamic_update_slice(x, update, [self.index(n) for n in x.dims])

    def slice_of(self, x: Instruction) -> Instruction:
        return self.b.slice(x, [0] * len(x.dims), [int(self.rng.integers(0, n + 1)) for n in x.dims])

    def dot(self) -> Instruction:
        x = self.pick(rank=2)
        y = self.b.transpose(x, (1, 0)) if self.rng.random() < 0.5 else x
        return self.b.matmul(y, self.b.transpose(y, (1, 0)))


def random_module(
    seed: int,
    size: int = 30,
    *,
    exact: bool = True,
    dtypes: tuple[str, ...] = ("f32", "f32", "f64", "s32", "s64", "u8", "pred"),
    sizes: tuple[int, ...] = _SIZES,
    max_elements: int = 4096,
) -> Module:
    """A module of about `size` operations on arrays with dimensions from `sizes`.

    `exact` leaves out transcendental functions and dot, so that compiled code must give the evaluator's bits.
    """
    rng = np.random.default_rng(seed)
    g = _Generator(rng, exact, dtypes, sizes)
    for _ in range(int(rng.integers(1, 5))):
        g.values.append(g.b.parameter(Shape(str(rng.choice(dtypes)), g.dims())))
    for k in range(size):
        with g.b.source(Metadata("Random", f"step{k}", "random.py", k + 1) if k % 3 else None):
            try:
                g.step()
            except ShapeError:
                continue
        if g.values[-1].array_shape.size > max_elements:
            g.values.pop()
    count = int(rng.integers(1, 8))
    roots = [g.pick() for _ in range(count)]
    return g.b.build(roots if count > 1 or rng.random() < 0.5 else roots[0])


def random_array(rng: np.random.Generator, shape: Shape) -> Array:
    """Random elements, with special values (NaN, infinities, zeros of both signs, extreme integers) among them."""
    dtype = shape.numpy_dtype
    if shape.dtype in WIDER:
        return array_of(random_array(rng, shape.with_dtype(WIDER[shape.dtype])), shape.dtype)
    if shape.kind == "c":
        part = shape.with_dtype("f32" if shape.dtype == "c64" else "f64")
        both = np.empty(shape.dims, dtype)
        both.real, both.imag = random_array(rng, part), random_array(rng, part)
        return both
    if shape.kind == "b":
        return np.asarray(rng.integers(0, 2, shape.dims).astype(dtype))
    if shape.kind in "iu":
        info = np.iinfo(np.dtype(dtype.str))
        values = np.asarray(rng.integers(max(-9, int(info.min)), 10, shape.dims)).astype(dtype)
        special = np.array([0, 1, info.min, info.max], dtype)
    else:
        values = np.asarray(rng.normal(0, 3, shape.dims)).astype(dtype)
        special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e30], dtype)
    chosen = rng.choice(special, shape.dims)
    return np.asarray(np.where(rng.random(shape.dims) < 0.15, chosen, values))


def random_arguments(module: Module, seed: int) -> list[Array]:
    """An array for every parameter of the entry."""
    rng = np.random.default_rng(seed)
    return [random_array(rng, p.array_shape) for p in module.entry.parameters]


def same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays are equal bit for bit, where any NaN equals any other."""
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.names is not None:
        a, b = wide_array(a), wide_array(b)
    if a.dtype.kind == "c":
        a, b = (np.atleast_1d(x).view(f"f{x.itemsize // 2}") for x in (a, b))
    if a.dtype.kind == "f":
        nan = np.isnan(a)
        if not np.array_equal(nan, np.isnan(b)):
            return False
        a, b = np.where(nan, 0, a), np.where(nan, 0, b)
    return a.tobytes() == b.tobytes()
