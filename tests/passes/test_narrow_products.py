"""Products of narrow arrays for targets that multiply these, and what is done with their elements."""

from dataclasses import replace

import pytest

from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.ir.verifier import check
from minitensor_jit.passes.expander import Expander
from minitensor_jit.passes.fusion.output_fusion import OutputFusion
from minitensor_jit.passes.pipeline import PipelineOptions, pipeline, run_pipeline
from minitensor_jit.passes.precision.narrow_products import NarrowProducts
from minitensor_jit.passes.precision.narrow_types import NarrowTypes
from minitensor_jit.passes.target import GPU

PRODUCT = """
HloModule product

ENTRY main {{
  x = bf16[6,4] parameter(0)
  y = {other}[4,5] parameter(1)
  f = f32[6,4] convert(x)
  g = f32[4,5] convert(y)
  {moved}
  d = f32[6,5] dot({left}, g), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  {rest}
}}
"""
ROUNDED = "ROOT r = bf16[6,5] convert(d)"
BEHIND = """n = f32[6,5] negate(d)
  a = f32[6,5] multiply(n, d)
  ROOT r = bf16[6,5] convert(a)"""
MOVED = "t = f32[4,6] transpose(f), dimensions={1,0}\n  u = f32[6,4] transpose(t), dimensions={1,0}"


def module_of(other="bf16", moved="", left="f", rest=ROUNDED):
    return parse_module(PRODUCT.format(other=other, moved=moved, left=left, rest=rest))


def dot_of(module):
    (dot,) = (i for c in module.computations for i in c.instructions if i.opcode == "dot")
    return dot


@pytest.mark.parametrize(("moved", "left"), [("", "f"), (MOVED, "u")])
@pytest.mark.parametrize("rest", [ROUNDED, BEHIND])
def test_products_that_are_rounded_take_narrow_arrays(moved, left, rest):
    module = module_of(moved=moved, left=left, rest=rest)
    args = [module.entry.parameters[0].array_shape, module.entry.parameters[1].array_shape]
    import numpy as np

    values = [np.random.default_rng(0).integers(0, 1 << 15, s.dims).astype(np.uint16).view(s.numpy_dtype) for s in args]
    before = evaluate(module, values)
    assert NarrowProducts().run(module)
    check(module, "after the pass")
    assert [o.dtype for o in dot_of(module).operands] == ["bf16", "bf16"]
    assert dot_of(module).dtype == "f32"
    np.testing.assert_array_equal(before[0], evaluate(module, values)[0])
    assert not NarrowProducts().run(module)
    # Later passes of targets that have such products leave them.
    assert not NarrowTypes(keep_products=True).run(module)
    assert not Expander(GPU).run(module)
    assert NarrowTypes().run(module)


@pytest.mark.parametrize(
    "case",
    [
        {"rest": "ROOT r = f32[6,5] negate(d)"},  # a product in float32 was asked for
        {"rest": "c = bf16[6,5] convert(d)\n  ROOT r = (bf16[6,5], f32[6,5]) tuple(c, d)"},
        {"rest": "ROOT r = f32[6,5] copy(d)"},
        {"other": "f16"},
        {"left": "n", "moved": "n = f32[6,4] negate(f)"},
    ],
)
def test_others_stay(case):
    assert not NarrowProducts().run(module_of(**case))


def test_products_of_vectors_stay():
    text = (
        PRODUCT.format(other="bf16", moved="", left="f", rest=ROUNDED).replace("4,5]", "4,1]").replace("6,5]", "6,1]")
    )
    assert not NarrowProducts().run(parse_module(text))


def test_tiles_in_registers_may_change_their_type_and_be_read_twice():
    module = module_of(rest=BEHIND)
    NarrowProducts().run(module)
    assert OutputFusion(in_registers=True).run(module)
    check(module, "after the fusion")
    assert module.entry.root.opcode == "fusion"
    assert module.entry.root.dtype == "bf16"
    assert [i.opcode for i in module.entry.root.called()[0].instructions if i.opcode != "parameter"] == [
        "dot", "negate", "multiply", "convert",
    ]  # fmt: skip


def test_what_is_read_elsewhere_ends_the_fusion():
    rest = """n = f32[6,5] negate(d)
  c = bf16[6,5] convert(n)
  m = f32[6,5] multiply(n, n)
  s = bf16[6,5] convert(m)
  ROOT r = (bf16[6,5], bf16[6,5]) tuple(c, s)"""
    module = module_of(rest=rest)
    NarrowProducts().run(module)
    assert OutputFusion(in_registers=True).run(module)
    (fusion,) = (i for i in module.entry.instructions if i.opcode == "fusion")
    assert fusion.called()[0].root.opcode == "negate"


def test_it_is_no_part_of_the_pipeline_unless_asked_for():
    assert "narrow-products" not in [one.name for one in pipeline()]
    module = run_pipeline(module_of(), PipelineOptions(target=replace(GPU, narrow_products=True), verify=True))
    assert dot_of(module).operands[0].dtype == "bf16"
    assert dot_of(run_pipeline(module_of(), PipelineOptions(verify=True))).operands[0].dtype == "f32"
