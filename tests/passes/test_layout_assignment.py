"""Why arrays are moved for products, and that code generation then copies none."""

import numpy as np

from minitensor_jit.codegen.cpu.compiler import compile_module
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.shape import Shape
from minitensor_jit.passes.layout_assignment import LayoutAssignment
from minitensor_jit.passes.pipeline import run_pipeline
from minitensor_jit.runtime.run_arrays import run_on_arrays


def heads(rows=32, count=4, width=16):
    """Products of two arrays whose batch dimensions lie around the rows."""
    b = Builder("heads")
    x, y, z = (b.parameter(Shape("f32", (2, rows, count, width))) for _ in range(3))
    batch = {"lhs_batch_dims": (0, 2), "rhs_batch_dims": (0, 2)}
    products = [
        b.dot(b.tanh(x), other, lhs_contracting_dims=(3,), rhs_contracting_dims=(3,), **batch) for other in (y, z)
    ]
    return b.build(products)


def test_what_is_moved_is_accounted_for():
    layout = LayoutAssignment()
    assert layout.run(heads())
    refusals = [decision.reason for _, _, decision in layout.decisions if not decision]
    assert refusals == ["32,768 bytes are moved, since no order of dimensions fits without"] * 4
    assert not LayoutAssignment().run(run_pipeline(heads(), None))


def test_what_is_read_as_it_lies_is_no_refusal():
    b = Builder("turned")
    x, y = b.parameter(Shape("f32", (5, 4))), b.parameter(Shape("f32", (5, 6)))
    turned = b.transpose(x, (1, 0))
    module = b.build([b.dot(turned, y, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))])
    layout = LayoutAssignment()
    assert layout.run(module)
    assert layout.decisions == []
    assert [i.opcode for i in module.entry.instructions if i.opcode != "parameter"] == ["dot", "tuple"]


def test_an_operand_of_two_products_is_moved_once_by_what_makes_it():
    texts = {}
    module = run_pipeline(heads())
    executable = compile_module(module, name="heads", dump=texts.__setitem__)
    assert "dot_operand" not in texts["ir-no-opt.ll"]
    rng = np.random.default_rng(0)
    args = [rng.normal(size=(2, 32, 4, 16)).astype(np.float32) for _ in range(3)]
    for got, other in zip(run_on_arrays(executable, args), args[1:], strict=True):
        want = np.einsum("bihd,bjhd->bhij", np.tanh(args[0].astype(np.float64)), other.astype(np.float64))
        np.testing.assert_allclose(got, want, atol=1e-4)
