"""Equal steps are emitted once, and each still reads and writes memory of its own."""

import numpy as np
from runtime_table import Runtime, agree, run, values

from minitensor_jit.codegen.cpu.compiler import Options, compile_module
from minitensor_jit.codegen.llvm.ir_text import Builder as LlvmBuilder
from minitensor_jit.codegen.llvm.ir_text import Function, Module
from minitensor_jit.codegen.llvm.ir_types import I1, PTR, VOID, constant
from minitensor_jit.ir.analysis.fingerprint import fingerprint
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.shape import Shape
from minitensor_jit.passes.pipeline import run_pipeline


def f32(*dims):
    return Shape("f32", dims)


def compiled(build, *shapes, **options):
    b = Builder("test")
    module = run_pipeline(b.build(build(b, *(b.parameter(s) for s in shapes))))
    return module, compile_module(module, name="test", options=Options(**options))


def agrees(module, executable, args):
    got = run(executable, args, Runtime())
    for one, want in zip(got, evaluate(module, args), strict=True):
        assert agree(one, want)


def layer(b, x, w):
    return b.abs(b.add(b.matmul(x, w), b.broadcast(b.reduce_sum(x, (0,)), (8, 8), (1,))))


def test_layers_share_their_kernels():
    def network(count):
        def build(b, x, *weights):
            for w in weights:
                x = layer(b, x, w)
            return x

        return compiled(build, *[f32(8, 8)] * (count + 1))

    (_, one), (module, many) = network(3), network(12)
    assert many.kernels == one.kernels
    args = [values(s, k) for k, s in enumerate(many.parameter_shapes)]
    agrees(module, many, args)


def test_steps_with_other_constants_have_kernels_of_their_own():
    def build(b, x, y, z):
        return b.tuple(*(b.sqrt(b.add(v, b.full(f32(4, 5), c))) for v, c in ((x, 0.5), (y, 0.5), (z, 0.25))))

    module, executable = compiled(build, *[f32(4, 5)] * 3)
    agrees(module, executable, [values(f32(4, 5), k) for k in range(3)])


def test_shared_steps_have_temporary_memory_of_their_own():
    # Long columns are summed in blocks, whose sums are kept in temporary memory.
    shape = f32(2000, 3)

    def build(b, x, y):
        first = b.reduce_sum(x, (0,))
        second = b.reduce_sum(b.multiply(y, b.broadcast(first, shape.dims, (1,))), (0,))
        return b.tuple(first, second, b.reduce_sum(b.add(x, b.broadcast(second, shape.dims, (1,))), (0,)))

    module, executable = compiled(build, shape, shape, parallel_threshold=64)
    rng = np.random.default_rng(0)
    agrees(module, executable, [rng.random(shape.dims, np.float32) for _ in range(2)])


def test_fingerprints_tell_computations_apart():
    def entry(build):
        b = Builder("m")
        return fingerprint(b.build(build(b, b.parameter(f32(3)), b.parameter(f32(3)))).entry)

    base = entry(lambda b, x, y: b.subtract(x, y))
    assert base == entry(lambda b, x, y: b.subtract(x, y))
    different = [
        lambda b, x, y: b.subtract(y, x),
        lambda b, x, y: b.add(x, y),
        lambda b, x, y: b.compare(x, y, "LT"),
        lambda b, x, y: b.compare(x, y, "GT"),
        lambda b, x, y: b.subtract(x, b.full(f32(3), 1.0)),
        lambda b, x, y: b.subtract(x, b.full(f32(3), 2.0)),
        lambda b, x, y: b.reduce_sum(b.subtract(x, y), (0,)),
        lambda b, x, y: b.reduce_max(b.subtract(x, y), (0,)),
    ]
    found = [base, *map(entry, different)]
    assert len(set(found)) == len(found)


def test_updates_of_any_size_share_one_loop():
    sizes = [(300, 700), (3,), (2, 5), (70000,), (17, 4, 2)]

    def build(b, rate, *arrays):
        def update(w, g, m):
            m = b.add(b.multiply(m, b.full(m.array_shape, 0.75)), g)
            return [b.subtract(w, b.multiply(b.broadcast(rate, w.dims, ()), m)), m]

        groups = [arrays[k : k + 3] for k in range(0, len(arrays), 3)]
        return b.tuple(*(result for group in groups for result in update(*group)))

    shapes = [f32(), *(f32(*dims) for dims in sizes for _ in range(3))]
    module, executable = compiled(build, *shapes, parallel_threshold=1000)
    assert executable.kernels == 1
    # Results may still lie over what is updated.
    assert {(2 * k, 3 * k + 1) for k in range(len(sizes))} <= executable.aliases
    agrees(module, executable, [values(s, k) for k, s in enumerate(shapes)])


def test_a_loop_with_another_order_of_elements_is_no_update_of_any_size():
    def build(b, *arrays):
        return b.tuple(*(b.add(x, b.reverse(x, (0,))) for x in arrays))

    module, executable = compiled(build, f32(5), f32(7))
    assert executable.kernels == 2
    agrees(module, executable, [values(f32(n), n) for n in (5, 7)])


def test_what_only_launches_is_generated_quickly():
    def chain(turns):
        def build(b, x, *weights):
            for w in weights[:turns]:
                x = layer(b, x, w)
            return x

        return build

    texts = {}
    for turns in (1, 16):
        found = {}
        b = Builder("test")
        parameters = [b.parameter(f32(8, 8)) for _ in range(17)]
        module = run_pipeline(b.build(chain(turns)(b, *parameters)))
        compile_module(module, name="test", dump=found.__setitem__)
        texts[turns] = found["ir-no-opt.ll"].splitlines()
    quick = [[line for line in text if "optnone" in line] for text in texts.values()]
    assert not quick[0]  # the nanoseconds count in a short entry
    assert any("@entry(" in line for line in quick[1])
    assert all("@entry(" in line or '@"step.' in line for line in quick[1])


def test_an_entry_with_a_loop_is_optimised():
    module = Module("m", "x86_64")
    function = Function(module, "f", VOID, [(PTR, "buffers")])
    first, loop, after = (function.block(name) for name in ("first", "loop", "after"))
    LlvmBuilder(function, first).branch(loop)
    b = LlvmBuilder(function, loop)
    b.cbranch(constant(I1, True), after, after)
    assert function.runs_once
    loop.lines[-1] = f"  br i1 true, label %{loop.label}, label %{after.label}"
    assert not function.runs_once
