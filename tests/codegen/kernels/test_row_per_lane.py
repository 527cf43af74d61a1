"""Short rows side by side: the same bits as row after row, whatever the types, the shapes and the instruction set."""

import ctypes
import functools
import itertools
import math

import numpy as np
import pytest
from bounds_check import Fence
from runtime_table import agree, compile_and_run, values

import minitensor as mt
from minitensor import _C
from minitensor_jit.codegen.cpu.compiler import Options, compile_module
from minitensor_jit.codegen.cpu.kernels import row_per_lane
from minitensor_jit.codegen.cpu.target_machine import host_target
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.narrow import array_of
from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.passes.pipeline import run_pipeline

pytestmark = pytest.mark.sampled(8)

ISAS = ("", "avx2", "baseline")


@pytest.fixture
def choose(monkeypatch):
    """Has all rows that can be computed side by side be so, or none."""

    def set_(per_lane):
        monkeypatch.setattr(row_per_lane, "LEAST_LANES", 2)
        monkeypatch.setattr(row_per_lane, "_gain", lambda *_: math.inf if per_lane else -math.inf)

    return set_


def code(module):
    """The LLVM text of a module."""
    texts = {}
    compile_module(module, name="test", options=Options(), dump=lambda kind, text: texts.update({kind: text})).close()
    return next(text for kind, text in texts.items() if kind.endswith("no-opt.ll"))


def is_row_per_lane(module):
    return "@mt.elementwise.transpose_plane." in code(module)


def built(build, *shapes):
    b = Builder("test")
    return run_pipeline(b.build(build(b, *(b.parameter(s) for s in shapes))))


def cross_entropy(b, x, bias, label):
    """Rows of logits: the loss and its parts, what the label picks, and the label's place as a mask."""
    dims = x.dims
    x = b.add(x, b.broadcast(bias, dims, (1,)))
    shifted = b.subtract(x, b.broadcast(b.reduce_max(x, (1,)), dims, (0,)))
    e = b.exponential(shifted)
    total = b.reduce_sum(e, (1,))
    logs = b.subtract(shifted, b.broadcast(b.log(total), dims, (0,)))
    here = b.compare(b.iota(Shape("s64", dims), 1), b.broadcast(label, dims, (0,)), "EQ")
    low = b.full(Shape(x.dtype, dims), -math.inf)
    picked = b.reduce_max(b.select(here, logs, low), (1,))
    return [b.negate(picked), here, b.divide(e, b.broadcast(total, dims, (0,))), b.exponential(logs), b.log(total)]


def first_largest(b, x, y):
    """Where the extremes are, counts, and any and all: several types at once."""
    dims = x.dims
    top = b.reduce_max(x, (1,))
    equal = b.compare(x, b.broadcast(top, dims, (0,)), "EQ")
    place = b.iota(Shape("s64", dims), 1)
    none = b.full(Shape("s64", dims), dims[1])
    first = b.reduce(b.select(equal, place, none), b.constant(dims[1], "s64"), (1,), "minimum")
    less = b.compare(x, y, "LT")
    some = b.reduce(less, b.constant(False), (1,), "or")
    every = b.reduce(b.compare(y, y, "EQ"), b.constant(True), (1,), "and")
    count = b.reduce_sum(b.convert(equal, "s32"), (1,))
    product = b.reduce(y, b.constant(1, y.dtype), (1,), "multiply")
    rest = b.subtract(y, b.broadcast(product, dims, (0,)))
    return [first, some, every, count, product, rest, equal, b.compare(b.iota(Shape("s64", dims), 1), b.broadcast(
        first, dims, (0,)), "LE")]  # fmt: skip


def both_ways(module, args, choose):
    results = []
    for per_lane in (True, False):
        choose(per_lane)
        results.append(compile_and_run(module, args))
    return results


def same(module, args, choose):
    for k, (a, b) in enumerate(zip(*both_ways(module, args, choose), strict=True)):
        assert agree(a.view(np.uint16) if a.itemsize == 2 else a, b.view(np.uint16) if b.itemsize == 2 else b), (
            f"result {k} of\n{module}\nis\n{a}\nrow after row\n{b}"
        )


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
def test_cross_entropy_of_every_length(isa, dtype, choose, monkeypatch):
    monkeypatch.setenv("MT_ISA", isa)
    lengths = range(1, 67) if dtype == "f32" and isa == "" else (1, 2, 4, 9, 10, 33, 64)
    for length in lengths:
        rows = 16 + length * 7 % 90
        shapes = Shape(dtype, (rows, length)), Shape(dtype, (length,)), Shape("s64", (rows,))
        module = built(cross_entropy, *shapes)
        args = [
            array_of(values(Shape("f32", s.dims), k), dtype) if s.dtype in ("f16", "bf16") else values(s, k)
            for k, s in enumerate(shapes)
        ]
        args[2] = np.random.default_rng(length).integers(-2, length + 2, rows)
        same(module, args, choose)
        choose(True)
        lanes = {"": 16, "avx2": 8, "baseline": 4}[isa] // (2 if dtype == "f64" else 1)
        assert is_row_per_lane(module) == (2 <= length <= 64 and lanes > 1), (length, module)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", ["f32", "f64", "s32", "s64", "u8", "s16"])
def test_other_reductions_and_types(isa, dtype, choose, monkeypatch):
    monkeypatch.setenv("MT_ISA", isa)
    for rows, length in ((16, 2), (17, 3), (33, 10), (21, 16), (100, 33), (19, 64)):
        shape = Shape(dtype, (rows, length))
        module = built(first_largest, shape, shape)
        args = [values(shape, 0), values(shape, 1)]
        same(module, args, choose)
        for got, want in zip(compile_and_run(module, args), evaluate(module, args), strict=True):
            assert agree(got, np.asarray(want))


def test_every_number_of_rows(choose):
    for rows in range(16, 36):
        shapes = Shape("f32", (rows, 10)), Shape("f32", (10,)), Shape("s64", (rows,))
        args = [values(s, rows) for s in shapes]
        same(built(cross_entropy, *shapes), args, choose)


def test_operands_that_lie_otherwise(choose):
    """Parts of wider rows, columns of a transposed array, one element of each row, and rows that take turns."""

    def build(b, wide, across, turns):
        n, m = 40, 11
        x = b.slice(wide, (0, 3), (n, 3 + m))
        y = b.transpose(across, (1, 0))
        one = b.reshape(b.slice(wide, (0, 1), (n, 2)), (n,))
        t = b.multiply(b.add(x, y), b.broadcast(one, (n, m), (0,)))
        top = b.reduce_max(t, (1,))
        e = b.exponential(b.subtract(t, b.broadcast(top, (n, m), (0,))))
        return [b.reduce_sum(e, (1,)), b.log(b.reduce_sum(b.multiply(e, e), (1,))), b.add(e, b.add(x, turns))]

    shapes = Shape("f32", (40, 17)), Shape("f32", (11, 40)), Shape("f32", (40, 11))
    module = built(build, *shapes)
    args = [values(s, k) for k, s in enumerate(shapes)]
    same(module, args, choose)
    choose(True)
    assert is_row_per_lane(module)


BACKWARDS = """HloModule backwards

max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT m = f32[] maximum(a, b) }
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }

fused {
  p = f32[40,11]{1,0} parameter(0)
  x = f32[40,11]{1,0} reverse(p), dimensions={1}
  low = f32[] constant(-inf)
  top = f32[40]{0} reduce(x, low), dimensions={1}, to_apply=max
  tops = f32[40,11]{1,0} broadcast(top), dimensions={0}
  shifted = f32[40,11]{1,0} subtract(x, tops)
  e = f32[40,11]{1,0} exponential(shifted)
  zero = f32[] constant(0)
  total = f32[40]{0} reduce(e, zero), dimensions={1}, to_apply=add
  ROOT log = f32[40]{0} log(total)
}

ENTRY main {
  p = f32[40,11]{1,0} parameter(0)
  ROOT f = f32[40]{0} fusion(p), kind=kInput, calls=fused
}
"""


def test_rows_that_are_read_backwards_stay_row_by_row(choose):
    """Elements of a row that aren't next to each other would have to be gathered."""
    module = parse_module(BACKWARDS)
    choose(True)
    assert not is_row_per_lane(module)
    module = parse_module(BACKWARDS.replace("reverse(p), dimensions={1}", "negate(p)"))
    assert is_row_per_lane(module)
    same(module, [values(Shape("f32", (40, 11)))], choose)


@pytest.mark.parametrize(("isa", "lanes"), [("avx512", 16), ("avx2", 8), ("baseline", 4)])
def test_what_is_worth_it(isa, lanes, monkeypatch):
    """Measured: log_softmax of short rows is, the sum of rows or long rows are not, nor fewer rows than lanes.

    Nothing is run, so that each machine sees what is chosen on all.
    """
    monkeypatch.setenv("MT_ISA", isa)

    def build(b, x):
        shifted = b.subtract(x, b.broadcast(b.reduce_max(x, (1,)), x.dims, (0,)))
        total = b.reduce_sum(b.exponential(shifted), (1,))
        return b.subtract(shifted, b.broadcast(b.log(total), x.dims, (0,)))

    def gradient(b, x, y):
        total = b.broadcast(b.reduce_sum(x, (1,)), x.dims, (0,))
        return b.subtract(x, b.multiply(b.exponential(y), total))

    def many(b, *inputs):
        parts = [build(b, x) for x in inputs]
        return functools.reduce(b.add, [b.reduce_sum(b.multiply(y, y), (1,)) for y in parts])

    def chosen(build, *dims, inputs=1):
        return is_row_per_lane(built(build, *[Shape("f32", dims)] * inputs))

    assert host_target().vector_bytes == 4 * lanes
    enough = lanes >= row_per_lane.LEAST_LANES
    assert chosen(build, 100, 10) == enough
    assert chosen(build, 100, 3) == enough
    # The stack has at least an array for each input: 60 columns of as many floats as there are lanes.
    most = row_per_lane.MOST_STACK // (60 * lanes * 4)
    assert chosen(many, 100, 60, inputs=most // 8) == enough
    assert not chosen(many, 100, 60, inputs=most)
    assert not chosen(gradient, 100, 10, inputs=2)  # two arrays to copy
    assert not chosen(build, 100, 1000)
    assert not chosen(build, 4, 10)
    assert not chosen(lambda b, x: b.reduce_sum(x, (1,)), 100, 10)


def test_nothing_is_touched_beyond_the_arrays(choose, monkeypatch):
    choose(True)
    for rows, length in ((16, 3), (17, 10), (100, 10), (35, 16), (20, 33)):
        shapes = Shape("f32", (rows, length)), Shape("f32", (length,)), Shape("s64", (rows,))
        module = built(cross_entropy, *shapes)
        args = [values(s, k) for k, s in enumerate(shapes)]
        wanted = compile_and_run(module, args)
        for at_end in (True, False):
            fence = Fence(at_end)
            with monkeypatch.context() as m:
                m.setattr("runtime_table.aligned", fence.array)
                m.setattr("runtime_table.guard_is_intact", lambda array: True)
                for got, want in zip(compile_and_run(module, args), wanted, strict=True):
                    assert agree(got.copy(), want)


@pytest.mark.parametrize("dtype", ["u8", "u16", "f32", "f64"])
def test_transposed_copies_of_every_size(dtype):
    address, inputs, _ = _C.elementwise_loop("transpose_plane", dtype)
    assert inputs == 0
    i64, pointer = ctypes.c_int64, ctypes.c_void_p
    copy = ctypes.CFUNCTYPE(None, pointer, i64, pointer, i64, i64, i64)(address)
    for m, n in itertools.product((1, 2, 3, 4, 5, 7, 8, 9, 31, 33, 66), repeat=2):
        x = np.random.default_rng(m).integers(0, 255, (n, m + 2)).astype(Shape(dtype).numpy_dtype)
        got = np.full((m, n + 3), 1, x.dtype)
        copy(x.ctypes.data, m + 2, got.ctypes.data, n + 3, m, n)
        assert np.array_equal(got[:, :n], x[:, :m].T)
        assert (got[:, n:] == 1).all()


def loss(x, label):
    x = x.detach()
    x.requires_grad = True
    value = mt.nn.functional.cross_entropy(x, label)
    value.backward()
    return value, x.grad


def normalised(x, label):
    centred = x - x.mean(-1, keepdim=True)
    return centred / ((centred * centred).mean(-1, keepdim=True) + 1e-5).sqrt(), x.amax(-1), x.argmax(-1)


@pytest.mark.parametrize("dtype", [mt.float32, mt.float64, mt.float16, mt.bfloat16])
@pytest.mark.parametrize("program", [loss, normalised])
def test_the_bits_of_eager_code(program, dtype):
    compiled = mt.function(program, jit_compile=True)
    for length in (*range(1, 18), 31, 33, 64, 70) if dtype is mt.float32 else (2, 10, 33):
        rng = np.random.default_rng(length)
        x = mt.from_numpy(rng.normal(size=(99, length)) * 3).to(dtype)
        label = mt.from_numpy(rng.integers(0, length, 99))
        for got, want in zip(compiled(x, label), program(x, label), strict=True):
            assert got.dtype == want.dtype
            assert agree(got.detach().double().numpy(), want.detach().double().numpy()), length
