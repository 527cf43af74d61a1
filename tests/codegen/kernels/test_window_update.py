"""A window of a parameter that is replaced: written over the parameter, and nothing else is touched."""

import pytest
from runtime_table import Runtime, agree, run, values

from minitensor_jit.codegen.cpu.compiler import compile_module
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.shape import Shape
from minitensor_jit.passes.pipeline import run_pipeline


def f32(*dims):
    return Shape("f32", dims)


def at(b, x, update, *starts):
    return b.dynamic_update_slice(x, update, [b.constant(start, "s64") for start in starts])


def compiled(build, *shapes):
    b = Builder("test")
    module = run_pipeline(b.build(build(b, *(b.parameter(s) for s in shapes))))
    return module, compile_module(module, name="test")


def one(b, w, g):
    return at(b, w, g, 3, 0)


def as_rows(b, w, g):
    """As a write to a view is lowered: the storage is flat."""
    return b.reshape(at(b, b.reshape(w, (16, 8)), g, 3, 0), (128,))


def computed(b, w, g):
    return at(b, w, b.multiply(b.add(g, g), g), 3, 0)


def chain(b, w, g):
    return at(b, at(b, at(b, w, g, 3, 0), b.negate(g), 9, 0), g, 4, 0)


@pytest.mark.parametrize("build", [one, as_rows, computed, chain])
def test_it_lies_over_the_parameter_and_all_else_is_read_before(build):
    whole = f32(128) if build is as_rows else f32(16, 8)
    module, executable = compiled(build, whole, f32(2, 8))
    assert executable.aliases == {(0, 0)}
    # The window is read while it is written, where nothing is computed of it.
    assert executable.read_before == ({(0, 1)} if build is computed else frozenset())
    # A chain needs no memory for what lies between.
    assert executable.scratch_bytes <= 2 * 8 * 4
    args = [values(s, k) for k, s in enumerate(executable.parameter_shapes)]
    (want,) = evaluate(module, args)
    for alias in ([], [(0, 0)]):
        (got,) = run(executable, args, Runtime(), alias)
        assert agree(got, want)


def test_what_is_read_of_the_parameter_comes_before():
    def build(b, w, g):
        return b.tuple(at(b, w, b.negate(g), 3, 0), b.reduce_max(w, (0, 1)))

    module, executable = compiled(build, f32(16, 8), f32(2, 8))
    assert executable.aliases == {(0, 0)}
    assert executable.read_before == {(0, 1)}
    args = [values(s, k) for k, s in enumerate(executable.parameter_shapes)]
    for got, want in zip(run(executable, args, Runtime(), [(0, 0)]), evaluate(module, args), strict=True):
        assert agree(got, want)


def test_what_is_returned_too_is_not_written_over():
    assert compiled(lambda b, w, g: b.tuple(one(b, w, g), w), f32(16, 8), f32(2, 8))[1].aliases == frozenset()

    def both(b, w, g):
        first = one(b, w, g)
        return b.tuple(at(b, first, b.negate(g), 9, 0), first)

    module, executable = compiled(both, f32(16, 8), f32(2, 8))
    args = [values(s, k) for k, s in enumerate(executable.parameter_shapes)]
    for alias in [[], *([pair] for pair in executable.aliases)]:
        for got, want in zip(run(executable, args, Runtime(), alias), evaluate(module, args), strict=True):
            assert agree(got, want)


def test_two_updates_beside_each_other_are_two_kernels():
    """As one loop over all elements they would be written everywhere."""

    def build(b, w, v, g):
        return b.tuple(at(b, w, g, 3, 0), at(b, v, g, 5, 0))

    _, executable = compiled(build, f32(16, 8), f32(16, 8), f32(2, 8))
    assert {(0, 0), (1, 1)} <= executable.aliases
    assert executable.scratch_bytes == 0


def test_memory_is_kept_with_code_on_disk():
    from minitensor_jit.cache.disk_entry import decode, encode

    _, executable = compiled(computed, f32(16, 8), f32(2, 8))
    kept = decode(encode("key", executable), "key", "again")
    assert (kept.aliases, kept.read_before) == (executable.aliases, executable.read_before)
