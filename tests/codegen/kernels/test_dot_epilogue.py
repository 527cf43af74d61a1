"""Products whose elements are worked on tile by tile: the bits of the product and the loop one after the other."""

import re

import numpy as np
import pytest
from runtime_table import Runtime, agree, run

from minitensor_jit.codegen.cpu.compiler import Options, compile_module
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.shape import Shape
from minitensor_jit.passes.fusion.fusion import Fusion
from minitensor_jit.passes.fusion.output_fusion import OutputFusion
from minitensor_jit.passes.pass_manager import PassManager
from minitensor_jit.runtime.run_arrays import run_on_arrays


def f32(*dims):
    return Shape("f32", dims)


def both_ways(build, *shapes):
    """The results with and without the fusion, and the module with it."""
    b = Builder("test")
    module = b.build(build(b, *(b.parameter(s) for s in shapes)))
    rng = np.random.default_rng(0)
    # Whole numbers: products are exact, in any order, so that the evaluator has the same bits too.
    args = [rng.integers(-4, 5, s.dims).astype(s.numpy_dtype) for s in shapes]
    plain, fused = module.clone(), module.clone()
    PassManager([Fusion()]).run(plain)
    PassManager([OutputFusion(), Fusion()]).run(fused)
    executables = [compile_module(m, name="test", options=Options(parallel_threshold=512)) for m in (plain, fused)]
    # With the core's own products, and with those of a table that has other tiles.
    results = [*(run_on_arrays(e, args) for e in executables), run(executables[1], args, Runtime())]
    for one, other, tiled, want in zip(*results, evaluate(module, args), strict=True):
        assert one.tobytes() == other.tobytes()
        assert agree(one, want)
        assert agree(tiled, want)
    return fused


def outputs(module):
    return [i for i in module.entry if i.opcode == "fusion" and i.attrs["kind"] == "kOutput"]


def bias_relu(b, x, w, c):
    d = b.matmul(x, w)
    s = b.add(d, b.broadcast(c, d.dims, (1,)))
    return b.maximum(s, b.full(d.array_shape, 0.0))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(("m", "k", "n"), [(160, 5, 128), (130, 700, 129), (2, 3, 9000), (9000, 3, 2), (257, 1, 67)])
def test_bias_and_relu(dtype, m, k, n):
    shapes = (Shape(dtype, (m, k)), Shape(dtype, (k, n)), Shape(dtype, (n,)))
    assert len(outputs(both_ways(bias_relu, *shapes))) == 1


def test_tiles_are_written_by_plain_stores():
    """Not by masked ones, which LLVM makes of a choice between what is there and something else."""
    b, text = Builder("test"), {}
    module = b.build(bias_relu(b, b.parameter(f32(160, 5)), b.parameter(f32(5, 128)), b.parameter(f32(128))))
    PassManager([OutputFusion(), Fusion()]).run(module)
    compile_module(module, name="test", dump=text.__setitem__)
    epilogue = text["ir-no-opt.ll"].partition('.epilogue"(ptr %ctx')[2].partition("\n}")[0]
    stores = re.findall(r"store <\d+ x float> (%\w+),", epilogue)
    assert stores
    assert all(f"{value} = freeze <" in epilogue for value in stores)


def test_batches_and_several_free_dimensions():
    def build(b, x, y, z, c):
        d = b.dot(x, y, lhs_contracting_dims=(3,), rhs_contracting_dims=(1,), lhs_batch_dims=(0,), rhs_batch_dims=(0,))
        return b.subtract(b.multiply(d, z), b.broadcast(c, d.dims, (1,)))

    shapes = (f32(3, 4, 50, 7), f32(3, 7, 40), f32(3, 4, 50, 40), f32(4))
    assert len(outputs(both_ways(build, *shapes))) == 1


def test_an_operand_of_the_epilogue_that_is_also_one_of_the_product():
    assert len(outputs(both_ways(lambda b, x: b.add(b.matmul(x, x), x), f32(150, 150)))) == 1


def test_a_product_over_nothing_still_has_its_epilogue():
    assert len(outputs(both_ways(bias_relu, f32(160, 0), f32(0, 128), f32(128)))) == 1


def test_layers_share_the_epilogue():
    def build(b, x, *more):
        for w, c in zip(more[::2], more[1::2], strict=True):
            x = bias_relu(b, x, w, c)
        return x

    b = Builder("test")
    shapes = [f32(128, 128), *[f32(128, 128), f32(128)] * 4]
    module = b.build(build(b, *(b.parameter(s) for s in shapes)))
    PassManager([OutputFusion()]).run(module)
    executable = compile_module(module, name="test")
    assert executable.kernels == 1
    args = [np.full(s.dims, 2.0**-7 if len(s.dims) == 2 else k, np.float32) for k, s in enumerate(shapes)]
    assert agree(run(executable, args, Runtime())[0], evaluate(module, args)[0])


def added_up(b, *arrays):
    """x0' y0 + x1' y1 + ..., one after the other."""
    products = [
        b.dot(x, y, lhs_contracting_dims=(0,), rhs_contracting_dims=(0,))
        for x, y in zip(arrays[::2], arrays[1::2], strict=True)
    ]
    total = products[0]
    for p in products[1:]:
        total = b.add(p, total)
    return total


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(("m", "k", "n"), [(64, 16, 256), (200, 512, 5), (3, 2, 300), (7, 20, 9), (61, 513, 300)])
def test_products_are_added_up_without_a_loop(dtype, m, k, n):
    shapes = [Shape(dtype, (k, d)) for d in (m, n)] * 4
    fused = both_ways(added_up, *shapes)
    assert [i.opcode for i in fused.entry if i.opcode != "parameter"] == ["dot", *["fusion"] * 3]
    blocks = 1 if k <= 512 else 3  # of what a product of several blocks is added to an epilogue knows
    assert compile_module(fused, name="test").kernels == (0 if blocks == 1 else 1)


def rows(module):
    """The numbers of products in a row that the entry calls as one."""
    text = {}
    compile_module(module, name="test", dump=text.__setitem__)
    call = r"call void %\w+\(ptr @[^,]*, ptr %\w+, i64 (\d+), i64 [34]\)"
    return [int(n) for n in re.findall(call, text["ir-no-opt.ll"])]


def test_products_in_a_row_are_one_call():
    shapes = [f32(16, d) for d in (64, 256)] * 5
    assert rows(both_ways(added_up, *shapes)) == [4]
    assert rows(both_ways(lambda b, x, *ys: b.tuple(*(b.matmul(x, y) for y in ys)), *[f32(40, 40)] * 4)) == [3]


def test_a_product_of_products_waits_for_them():
    def build(b, x, y, z):
        first = b.matmul(x, y)
        return b.tuple(first, b.matmul(first, z), b.matmul(z, first))

    assert rows(both_ways(build, *[f32(48, 48)] * 3)) == [2]


def test_what_a_product_reads_is_not_written_over_by_the_next():
    def build(b, x, y, z):
        half = b.multiply(x, b.full(x.array_shape, 2.0))
        first = b.dot(half, y, lhs_contracting_dims=(0,), rhs_contracting_dims=(0,))
        return b.tuple(first, b.add(b.add(half, b.matmul(y, z)), b.matmul(z, y)))

    both_ways(build, *[f32(130, 130)] * 3)


def test_a_row_of_products_writes_over_no_parameter_that_it_reads():
    b = Builder("test")
    x, y, z = (b.parameter(f32(64, 64)) for _ in range(3))
    module = b.build(b.tuple(b.matmul(x, y), b.matmul(z, y)))
    PassManager([OutputFusion(), Fusion()]).run(module)
    assert rows(module) == [2]
    assert compile_module(module, name="test").aliases == frozenset()


def test_a_product_is_added_to_a_parameter_in_its_place():
    b = Builder("test")
    x, y, z = (b.parameter(f32(130, 130)) for _ in range(3))
    module = b.build(b.add(b.matmul(x, y), z))
    PassManager([OutputFusion(), Fusion()]).run(module)
    assert compile_module(module, name="test").aliases == {(0, 2)}


def test_refusals_say_why():
    b = Builder("test")
    x, v = b.parameter(f32(200, 200)), b.parameter(f32(200))
    d = b.matmul(x, x)
    small = b.matmul(b.parameter(f32(3, 3)), b.parameter(f32(3, 3)))
    module = b.build(
        b.tuple(
            b.negate(d),
            b.abs(d),
            b.negate(b.dot(x, v, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))),
            b.negate(small),
        )
    )
    fusion = OutputFusion()
    assert not fusion.run(module)
    reasons = " | ".join(decision.reason for _, _, decision in fusion.decisions)
    assert "needed in memory" in reasons
    assert "vector has no tiles" in reasons
    assert "9 elements stay in the cache" in reasons
