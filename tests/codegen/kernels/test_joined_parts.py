"""Arrays put together of several: each part has a loop of its own, so that time grows with their number only."""

import pytest
from runtime_table import Runtime, agree, run, values

import minitensor as mt
from minitensor_jit.codegen.cpu.compiler import Options, compile_module
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.shape import Shape
from minitensor_jit.passes.pipeline import run_pipeline


def compiled(build, *dims, dtype="f32"):
    b = Builder("test")
    module = run_pipeline(b.build(build(b, *(b.parameter(Shape(dtype, d)) for d in dims))))
    return module, compile_module(module, name="test", options=Options(parallel_threshold=64))


def check(module, executable):
    args = [values(s, k) for k, s in enumerate(executable.parameter_shapes)]
    for got, want in zip(run(executable, args, Runtime()), evaluate(module, args), strict=True):
        assert agree(got, want)


@pytest.mark.parametrize("dtype", ["f32", "f64", "s8", "pred"])
@pytest.mark.parametrize(
    ("axis", "dims"),
    [
        (0, [(3, 40), (1, 40), (7, 40), (2, 40), (0, 40), (5, 40)]),
        (1, [(4, 50), (4, 33), (4, 32), (4, 70)]),
        (1, [(2, 3, 16), (2, 2, 16), (2, 5, 16)]),
        (0, [(1, 30, 30)] * 12),
    ],
)
def test_parts(axis, dims, dtype):
    module, executable = compiled(lambda b, *x: b.concatenate(x, axis), *dims, dtype=dtype)
    assert executable.kernels == sum(0 not in d for d in dims)
    check(module, executable)


def test_what_parts_are_made_of_is_computed_in_their_loops():
    def build(b, x, y, z):
        return b.concatenate([b.negate(x), b.add(y, y), b.transpose(z, (1, 0)), b.multiply(x, y)], 0)

    module, executable = compiled(build, (40, 40), (40, 40), (40, 40))
    assert (executable.kernels, executable.scratch_bytes) == (4, 0)
    check(module, executable)


def test_a_large_part_is_shared_among_threads():
    module, executable = compiled(lambda b, *x: b.concatenate(x, 0), (50_000,), (3,), (70_001,))
    check(module, executable)


def test_short_pieces_are_put_together_in_one_loop():
    module, executable = compiled(lambda b, *x: b.concatenate(x, 1), *[(30, 2)] * 4)
    assert executable.kernels == 1
    check(module, executable)


@pytest.mark.parametrize("count", [4, 5])
def test_what_reads_many_parts_reads_the_whole(count):
    module, executable = compiled(lambda b, *x: b.negate(b.concatenate(x, 0)), *[(40, 8)] * count)
    # Up to four are looked through.
    assert executable.kernels == (1 if count == 4 else 1 + count)
    check(module, executable)


def test_other_sizes():
    """Also where the sizes are known when it runs."""
    f = mt.function(lambda *x: mt.stack(x).tanh(), jit_compile=True)
    g = mt.function(lambda *x: mt.cat([one * 2 for one in x], 1), jit_compile=True)
    for n in (16, 40, 41, 100):
        x = [mt.randn(3, n) for _ in range(6)]
        assert mt.equal(f(*x), mt.stack(x).tanh())
        assert mt.equal(g(*x), mt.cat([one * 2 for one in x], 1))


@pytest.mark.parametrize("count", [32, 33, 64, 65])
def test_many_arguments(count):
    f = mt.function(lambda *x: mt.stack(x), jit_compile=True)
    for _ in range(3):
        x = [mt.randn(4) for _ in range(count)]
        assert mt.equal(f(*x), mt.stack(x))
