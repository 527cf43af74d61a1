"""Costly values of a row that a later pass asks for at other places than the row's own elements."""

import math

import numpy as np
import pytest
from runtime_table import agree, compile_and_run, values

from minitensor_jit.codegen.cpu.kernels import row_per_lane
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.text.parser import parse_module

MODULE = """HloModule kept

add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }

fused {
  p = f32[N,L] parameter(0)
  three = f32[] constant(3)
  threes = f32[N,L] broadcast(three), dimensions={}
  first = f32[N,L] remainder(p, threes)
  zero = f32[] constant(0)
  sum = f32[N] reduce(first, zero), dimensions={1}, to_apply=add
  sums = f32[N,L] broadcast(sum), dimensions={0}
  OTHERWISE
  ROOT difference = f32[N,L] subtract(other, sums)
}

ENTRY main {
  p = f32[N,L] parameter(0)
  ROOT f = f32[N,L] fusion(p), kind=kInput, calls=fused
}
"""
OTHERWISE = {
    "itself": "other = f32[N,L] negate(first)",
    "backwards": "other = f32[N,L] reverse(first), dimensions={1}",
    "another row": "other = f32[N,L] reverse(first), dimensions={0}",
    "one column": """column = f32[N,1] slice(first), slice={[0:N], [1:2]}
  flat = f32[N] reshape(column)
  spread = f32[N,L] broadcast(flat), dimensions={0}
  other = f32[N,L] multiply(spread, first)""",
    "one row": """row = f32[1,L] slice(first), slice={[2:3], [0:L]}
  flat = f32[L] reshape(row)
  spread = f32[N,L] broadcast(flat), dimensions={1}
  other = f32[N,L] multiply(spread, first)""",
    "of another one": """second = f32[N,L] remainder(first, sums)
  total = f32[N] reduce(second, zero), dimensions={1}, to_apply=add
  totals = f32[N,L] broadcast(total), dimensions={0}
  turned = f32[N,L] reverse(second), dimensions={1}
  third = f32[N,L] subtract(turned, totals)
  back = f32[N,L] reverse(first), dimensions={1}
  other = f32[N,L] add(third, back)""",
}


@pytest.mark.parametrize("length", [7, 16, 33, 64, 300, 1000])
@pytest.mark.parametrize("otherwise", OTHERWISE)
@pytest.mark.parametrize("per_lane", [True, False])
def test_values_that_are_read_elsewhere_are_computed_there(otherwise, length, per_lane, monkeypatch):
    monkeypatch.setattr(row_per_lane, "LEAST_LANES", 2)
    monkeypatch.setattr(row_per_lane, "_gain", lambda *_: math.inf if per_lane else -math.inf)
    text = MODULE.replace("OTHERWISE", OTHERWISE[otherwise])
    module = parse_module(text.replace("[N", "[40").replace(":N", ":40").replace("L]", f"{length}]"))
    args = [values(Shape("f32", (40, length)))]
    for got, want in zip(compile_and_run(module, args), evaluate(module, args), strict=True):
        assert agree(got, np.asarray(want))
