"""The one pass that changes values on purpose."""

import numpy as np
import pytest

from minitensor_jit.ir.analysis.equal import difference
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.ir.verifier import check
from minitensor_jit.passes.pipeline import PipelineOptions, pipeline, run_pipeline
from minitensor_jit.passes.precision.reduce_precision import ReducePrecision

BEFORE = """
HloModule dots

ENTRY main {
  x = f32[4,4] parameter(0)
  n = s32[4,4] parameter(1)
  r = f32[4,4] reduce-precision(x), exponent_bits=8, mantissa_bits=7
  a = f32[4,4] dot(r, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = s32[4,4] dot(n, n), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[4,4] add(a, x)
  d = f32[4,4] dot(c, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[4,4], s32[4,4]) tuple(d, b)
}
"""
# Each value is rounded once; whole numbers, and what is rounded already, stay.
AFTER = """
HloModule dots

ENTRY main {
  x = f32[4,4] parameter(0)
  n = s32[4,4] parameter(1)
  r = f32[4,4] reduce-precision(x), exponent_bits=8, mantissa_bits=7
  y = f32[4,4] reduce-precision(x), exponent_bits=8, mantissa_bits=7
  a = f32[4,4] dot(r, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = s32[4,4] dot(n, n), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[4,4] add(a, x)
  s = f32[4,4] reduce-precision(c), exponent_bits=8, mantissa_bits=7
  d = f32[4,4] dot(s, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[4,4], s32[4,4]) tuple(d, b)
}
"""


def test_float_operands_of_products_are_rounded_once():
    module = parse_module(BEFORE)
    assert ReducePrecision("bf16").run(module)
    check(module, "rounding")
    assert difference(module, parse_module(AFTER)) is None
    assert not ReducePrecision("bf16").run(module)


@pytest.mark.parametrize(("to", "error"), [("bf16", 2.0**-8), ("f16", 2.0**-11)])
def test_products_are_those_of_rounded_operands(to, error):
    rng = np.random.default_rng(0)
    x, n = rng.uniform(0.5, 1, (4, 4)).astype(np.float32), rng.integers(0, 9, (4, 4)).astype(np.int32)
    plain = evaluate(parse_module(BEFORE.replace("reduce-precision(x)", "copy(x)").replace(
        ", exponent_bits=8, mantissa_bits=7", "")), [x, n])  # fmt: skip
    rounded = evaluate(run_pipeline(parse_module(BEFORE), PipelineOptions(reduce_precision=to)), [x, n])
    assert not np.array_equal(plain[0], rounded[0])
    assert np.allclose(plain[0], rounded[0], rtol=8 * max(error, 2.0**-8))
    assert np.array_equal(plain[1], rounded[1])


def test_nobody_gets_it_without_asking():
    names = [one.name for one in pipeline()]
    assert "reduce-precision" not in names
    assert "reduce-precision" in [one.name for one in pipeline(reduce_precision="f16")]
