"""Products of narrow arrays for targets that multiply these, and what is done with their elements."""

import re
from dataclasses import replace

import numpy as np
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


PADDED = """{constants}
  e = f32[5,4] slice(f), slice={{[0:5], [0:4]}}
  p = f32[6,4] pad(e, {padding}), padding=1_0x0_0"""


def padded(constants, padding="zero"):
    return {"moved": PADDED.format(constants=constants, padding=padding), "left": "p"}


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
        padded("zero = f32[] constant(0.1)"),  # rounded by either type
        padded("zero = f32[] constant(7.8886e-31)"),  # 2^-100, which float16 doesn't have
        padded("zero = f32[] constant(nan)"),  # its bits
        padded("zero = f32[] constant(257)"),  # which bfloat16 doesn't have
        padded("one = f32[] constant(1)\n  zero = f32[] negate(one)"),  # not known yet
    ],
)
def test_others_stay(case):
    assert not NarrowProducts().run(module_of(**case))


@pytest.mark.parametrize("constant", ["0", "-0", "1.5", "-inf"])
def test_padding_has_the_same_value_in_the_narrow_type(constant):
    module = module_of(**padded(f"zero = f32[] constant({constant})"))
    values = [np.ones(p.dims, np.uint16).view(p.array_shape.numpy_dtype) for p in module.entry.parameters]
    before = evaluate(module, values)
    assert NarrowProducts().run(module)
    check(module, "after the pass")
    left = dot_of(module).operands[0]
    assert (left.opcode, left.dtype, left.operands[1].dtype) == ("pad", "bf16", "bf16")
    assert not NarrowProducts().run(module)
    np.testing.assert_array_equal(before[0], evaluate(module, values)[0])


@pytest.mark.parametrize("sizes", [("4,5]", "4,1]", "6,5]", "6,1]"), ("6,4]", "1,4]", "6,5]", "1,5]")])
def test_products_of_vectors_stay(sizes):
    text = PRODUCT.format(other="bf16", moved="", left="f", rest=ROUNDED)
    for old, new in zip(sizes[::2], sizes[1::2], strict=True):
        text = text.replace(old, new)
    assert not NarrowProducts().run(parse_module(text))


def test_products_of_what_is_narrow_already_stay():
    # float16 rounded to bfloat16 is not the float16 that it was.
    text = PRODUCT.format(other="f16", moved="", left="f", rest=ROUNDED).replace("x = bf16", "x = f16")
    assert not NarrowProducts().run(parse_module(re.sub(r"([fg]) = f32", r"\1 = bf16", text)))


@pytest.mark.parametrize(("count", "changed"), [(32, True), (33, False)])
def test_so_many_moves_are_looked_through(count, changed):
    moved = [f"m{k} = f32[6,4] copy({f'm{k - 1}' if k else 'f'})" for k in range(count)]
    assert NarrowProducts().run(module_of(moved="\n  ".join(moved), left=f"m{count - 1}")) is changed


@pytest.mark.parametrize(("count", "changed"), [(63, True), (64, False)])
def test_so_much_is_looked_at_behind_a_product(count, changed):
    behind = [f"n{k} = f32[6,5] negate({f'n{k - 1}' if k else 'd'})" for k in range(count)]
    rest = "\n  ".join([*behind, f"ROOT r = bf16[6,5] convert(n{count - 1})"])
    assert NarrowProducts().run(module_of(rest=rest)) is changed


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
