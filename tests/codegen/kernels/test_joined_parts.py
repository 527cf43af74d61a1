"""Arrays put together of several: each part has a loop of its own, so that time grows with their number only."""

import random

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


def products(b, x, y, count):
    """Products of squares, each with another right side."""
    sides = [y]
    while len(sides) < count:
        sides.append(b.add(sides[-1], x))
    return [b.matmul(x, side) for side in sides]


def test_parts_are_computed_where_they_go():
    """Nothing is copied: the only memory between parameters and result is what products are made of."""
    module, executable = compiled(lambda b, x, y: b.concatenate(products(b, x, y, 3), 0), *[(40, 40)] * 2, dtype="s32")
    assert executable.scratch_bytes == 2 * 40 * 40 * 4
    check(module, executable)


def test_what_is_read_later_has_memory_of_its_own():
    def build(b, x, y):
        parts = products(b, x, y, 3)
        return b.tuple(b.concatenate(parts, 0), b.matmul(parts[1], x))

    module, executable = compiled(build, (40, 40), (40, 40), dtype="s32")
    assert executable.scratch_bytes == 3 * 40 * 40 * 4
    check(module, executable)


def test_a_whole_of_parts_does_not_lie_over_what_is_read_while_they_come():
    """The parameter is read behind the first part and before the last one."""

    def build(b, x, z):
        first = b.matmul(x, x)
        second = b.matmul(first, b.slice(z, (0, 0), (16, 16)))
        return b.concatenate([first, b.matmul(second, x), b.matmul(x, second)], 0)

    b = Builder("test")
    module = b.build(build(b, b.parameter(Shape("s32", (16, 16))), b.parameter(Shape("s32", (48, 16)))))
    executable = compile_module(module, name="test", options=Options())
    assert executable.aliases == frozenset()
    check(module, executable)


def drawn(b, rng, squares, tall):
    """Random values of (8, 8) and of three of these on top of each other, among them many of three parts."""
    squares, tall = list(squares), list(tall)
    for _ in range(rng.randint(4, 14)):
        x, y = rng.choice(squares), rng.choice(squares)
        kind = rng.choice("ddrtsncccp")
        if kind == "d":
            squares.append(b.matmul(x, y))
        elif kind == "r":
            squares.append(b.broadcast(b.reduce_sum(x, (rng.randint(0, 1),)), (8, 8), (rng.randint(0, 1),)))
        elif kind == "t":
            squares.append(b.transpose(x, (1, 0)))
        elif kind == "s":
            at = rng.choice((0, 8, 16, 5))
            squares.append(b.slice(rng.choice(tall), (at, 0), (at + 8, 8)))
        elif kind == "n":
            squares.append(b.negate(b.add(x, y)))
        elif kind == "p":
            tall.append(b.add(rng.choice(tall), rng.choice(tall)))
        else:
            parts = [rng.choice(squares[-4:]) for _ in range(3)]
            tall.append(b.concatenate(parts, 0))
    results = rng.sample(squares[-3:] + tall[-3:], rng.randint(1, 3))
    # Parts of parts.
    tallest = b.concatenate([rng.choice(tall[-3:]) for _ in range(3)], 0)
    return b.tuple(*results, tallest, b.reduce_max(tallest, (0,)))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("first", range(0, 150, 25))
@pytest.mark.parametrize("fused", [False, True])
def test_random_wholes_of_parts(first, fused):
    """Alone, and with each result over a parameter that it may lie over."""
    over = 0
    for seed in range(first, first + 25):
        rng, b = random.Random(seed), Builder("test")
        given = [b.parameter(Shape("s32", dims)) for dims in ((8, 8), (8, 8), (24, 8), (24, 8), (72, 8))]
        module = b.build(drawn(b, rng, given[:2], given[2:4]))
        want = evaluate(module, args := [values(p.shape, k) for k, p in enumerate(given)])
        module = run_pipeline(module) if fused else module
        executable = compile_module(module, name="test", options=Options(parallel_threshold=64))
        over += len(executable.aliases)
        for alias in [(), *([pair] for pair in sorted(executable.aliases))]:
            for got, expected in zip(run(executable, args, Runtime(), alias), want, strict=True):
                assert agree(got, expected), (seed, alias)
    assert over > 5
