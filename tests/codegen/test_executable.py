import gc

import numpy as np
import pytest
from runtime_table import Runtime, agree, check, compile_and_run, run, values

from minitensor import _C
from minitensor_jit.codegen.cpu.compiler import Options, compile_module
from minitensor_jit.codegen.errors import CompileError
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.shape import Shape, TupleShape
from minitensor_jit.passes.pipeline import run_pipeline
from minitensor_jit.runtime.loaded_code import LoadedCode


def f32(*dims):
    return Shape("f32", dims)


def compiled(build, *shapes, **kwargs):
    builder = Builder("test")
    module = run_pipeline(builder.build(build(builder, *(builder.parameter(s) for s in shapes))))
    return module, compile_module(module, name="test", **kwargs)


def update(b, w, g):
    return b.subtract(w, b.multiply(g, b.full(w.array_shape, 0.5)))


def test_results_may_be_written_over_parameters_read_at_the_same_place():
    module, executable = compiled(update, f32(30, 7), f32(30, 7), options=Options(parallel_threshold=8))
    assert executable.aliases == {(0, 0), (0, 1)}
    args = [values(s, k) for k, s in enumerate(executable.parameter_shapes)]
    (want,) = evaluate(module, args)
    for alias in executable.aliases:
        (got,) = run(executable, args, Runtime(), [alias])
        assert agree(got, want)


def test_results_may_not_be_written_over_parameters_read_elsewhere():
    assert not compiled(lambda b, x: b.add(x, b.reverse(x, (0,))), f32(30))[1].aliases
    assert not compiled(lambda b, x: b.add(x, b.transpose(x, (1, 0))), f32(7, 7))[1].aliases
    assert not compiled(lambda b, x: [b.negate(x), x], f32(7))[1].aliases

    # Read again by a later step.
    def later(b, x):
        y = b.negate(x)
        return [y, b.matmul(y, x)]

    assert not compiled(later, f32(7, 7))[1].aliases


@pytest.mark.parametrize("length", [10, 100, 3000])
def test_a_row_fusion_in_place(length):
    def build(b, x):
        return b.divide(x, b.broadcast(b.reduce_sum(x, (1,)), x.dims, (0,)))

    module, executable = compiled(build, f32(20, length), options=Options(parallel_threshold=8))
    assert executable.aliases == {(0, 0)}
    args = [np.random.default_rng(0).normal(size=(20, length)).astype(np.float32)]
    (got,) = run(executable, args, Runtime(), [(0, 0)])
    assert agree(got, evaluate(module, args)[0])


def test_scatter_in_place():
    def build(b, x, i, u):
        return b.scatter(
            x,
            i,
            u,
            update_window_dims=(1,),
            inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0,),
            index_vector_dim=1,
        )

    module, executable = compiled(build, f32(5, 9), Shape("s64", (4,)), f32(4, 9))
    assert (0, 0) in executable.aliases
    args = [values(f32(5, 9)), np.array([3, 3, 0, 9]), values(f32(4, 9), 1)]
    (got,) = run(executable, args, Runtime(), [(0, 0)])
    assert agree(got, evaluate(module, args)[0])


def test_scratch_slots_are_used_again():
    def chain(b, x):
        for _ in range(20):
            x = b.matmul(x, x)
        return x

    _, executable = compiled(chain, f32(64, 64))
    assert executable.scratch_bytes == 2 * 64 * 64 * 4


def test_a_single_elementwise_cluster_needs_no_scratch():
    assert compiled(lambda b, x, y: b.reduce_sum(b.multiply(x, y), (0,)), f32(1000), f32(1000))[1].scratch_bytes == 0


def test_object_code_can_be_loaded_again():
    module, executable = compiled(
        lambda b, x, y: b.add(b.matmul(x, y), b.constant(np.eye(5, dtype=np.float32))), f32(5, 5), f32(5, 5)
    )
    args = [np.random.default_rng(k).integers(0, 5, (5, 5)).astype(np.float32) for k in range(2)]
    want = evaluate(module, args)
    code = executable.object_code
    executable.close()
    assert executable.entry_address == 0
    executable.code = LoadedCode(code, "entry")
    assert agree(run(executable, args, Runtime())[0], want[0])
    del executable
    gc.collect()


def test_dump():
    seen = {}
    compiled(lambda b, x: b.tanh(x), f32(100), dump=seen.__setitem__)
    assert set(seen) == {"buffer-assignment.txt", "ir-no-opt.ll", "ir-with-opt.ll", "s"}
    assert "entry:" in seen["s"]
    for text in (seen["ir-no-opt.ll"], seen["ir-with-opt.ll"]):
        assert "define i32 @entry(" in text
        assert "fast" not in text
        assert "contract" not in text


@pytest.mark.parametrize(
    ("build", "shape", "opcode"),
    [
        (lambda b, x: b.custom_call("nobody", [x], x.shape), f32(3), "custom-call"),
        (lambda b, x: b.get_tuple_element(x, 0), TupleShape((f32(3),)), "parameter"),
        (lambda b, x: b.negate(x), f32(*[1] * 17), "parameter"),
    ],
)
def test_what_has_no_code_is_refused(build, shape, opcode):
    with pytest.raises(CompileError) as caught:
        compiled(build, shape)
    assert caught.value.opcode == opcode
    assert caught.value.reason


def test_parallel_loops_are_cut_anywhere():
    builder = Builder("cut")
    x = builder.parameter(f32(50, 3000))
    e = builder.exponential(x)
    module = builder.build([e, builder.reduce_sum(e, (1,)), builder.reduce_sum(e, (0,)), builder.reduce_sum(e, (0, 1))])
    run_pipeline(module)
    args = [np.random.default_rng(0).normal(size=(50, 3000)).astype(np.float32)]
    first, runtime = None, Runtime()
    for chunks in (1, 2, 7):
        got = compile_and_run(module, args, runtime := Runtime(chunks))
        assert runtime.calls
        first = first or got
        assert all(agree(g, f) for g, f in zip(got, first, strict=True))


def test_streaming_stores():
    shape = f32(70000)
    builder = Builder("stream")
    x = builder.parameter(shape)
    module = builder.build([builder.add(x, x), builder.negate(x)])
    text = {}
    executable = compile_module(
        module, name="stream", options=Options(streaming_store_bytes=1000), dump=text.__setitem__
    )
    assert "!nontemporal" in text["ir-no-opt.ll"]
    args = [values(shape)]
    for got, want in zip(run(executable, args, Runtime()), evaluate(module, args), strict=True):
        assert agree(got, want)


def test_every_instruction_set(monkeypatch):
    def build(b, x, y):
        e = b.exponential(b.subtract(x, b.broadcast(b.reduce_max(x, (1,)), x.dims, (0,))))
        t = b.add(b.transpose(e, (1, 0)), y)
        return [b.reduce_sum(e, (1,)), t, b.reduce_sum(t, (1,)), b.reduce_sum(x, (0,)), b.convert(x, "u8")]

    results = []
    for isa in ("", "avx2", "baseline"):
        monkeypatch.setenv("MT_ISA", isa)
        builder = Builder("isa")
        module = run_pipeline(
            builder.build(build(builder, builder.parameter(f32(70, 45)), builder.parameter(f32(45, 70))))
        )
        args = [np.random.default_rng(0).normal(size=s).astype(np.float32) for s in ((70, 45), (45, 70))]
        results.append(compile_and_run(module, args))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert agree(a, b)


def test_called_computations_and_tuples():
    inner = Builder("inner")
    p, q = inner.parameter(f32(9)), inner.parameter(f32(9))
    pair = inner.build_computation([inner.add(p, q), inner.negate(p)])

    def build(b, x, y):
        first = b.call(pair, x, y)
        second = b.call(pair, b.get_tuple_element(first, 0), b.get_tuple_element(first, 1))
        return [b.get_tuple_element(second, 0), b.get_tuple_element(second, 1)]

    check(build, f32(9), f32(9))


def test_a_fusion_without_a_kernel_of_its_own_is_taken_apart():
    def build(b, x):
        f = Builder("fused")
        p = f.parameter(f32(20, 30))
        down, across = f.reduce_sum(p, (0,)), f.reduce_sum(p, (1,))
        c = f.build_computation([f.negate(down), f.exponential(across), f.add(p, p)])
        r = b.fusion(c, x)
        return [b.get_tuple_element(r, k) for k in range(3)]

    check(build, f32(20, 30), args=[np.random.default_rng(0).normal(size=(20, 30)).astype(np.float32)], ulp=4)


def test_fast_math_may_contract():
    a = np.full(64, 1 + 2.0**-12, np.float32)
    builder = Builder("fast")
    x, y = builder.parameter(f32(64)), builder.parameter(f32(64))
    module = run_pipeline(builder.build(builder.add(builder.multiply(x, x), y)))
    executable = compile_module(module, name="fast", fast_math=True)
    (got,) = run(executable, [a, -(a * a)], Runtime())
    contracted = _C.build_config()["isa"] != "baseline"  # that has no instruction for it
    assert np.all(got == (2.0**-24 if contracted else 0))  # what the rounding of the product loses
    exact = compile_module(module, name="exact")
    assert np.all(run(exact, [a, -(a * a)], Runtime())[0] == 0)
