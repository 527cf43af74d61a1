"""Loops and conditionals, compiled: the bits of the evaluator, with and without passes."""

import numpy as np
import pytest
from runtime_table import agree, compile_and_run

from minitensor_jit.codegen.cpu.compiler import compile_module
from minitensor_jit.ir.evaluate.custom_calls import register_custom_call
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.testing import random_arguments
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.passes.pipeline import PipelineOptions, run_pipeline
from minitensor_jit.runtime.run_arrays import run_on_arrays


def check_text(text: str, *args: np.ndarray) -> list[np.ndarray]:
    """Compiles a module as it is and after the passes; both give the evaluator's bits."""
    module = parse_module("HloModule m\n" + text)
    given = [np.asarray(a) for a in args] or random_arguments(module, 0)
    want = evaluate(module, given)
    for version in (module.clone(), run_pipeline(module.clone(), PipelineOptions(verify=True))):
        got = compile_and_run(version, given)
        for a, b in zip(got, want, strict=True):
            assert agree(a, b), version
    return want


def loop(state: str, body: str, entry: str, condition: str = "lt") -> str:
    """A loop whose state's first element counts up to 12: too many turns to be unrolled."""
    return f"""
lt {{
  s = ({state}) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  twelve = s32[] constant(12)
  ROOT r = pred[] compare(n, twelve), direction=LT
}}
body {{
  s = ({state}) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(n, one)
{body}
}}
ENTRY main {{
  zero = s32[] constant(0)
{entry.replace("LOOP", f"({state}) while(state), condition={condition}, body=body")}
}}
"""


def test_values_that_change_places():
    text = loop(
        "s32[], f32[9], f32[9]",
        """  a = f32[9] get-tuple-element(s), index=1
  b = f32[9] get-tuple-element(s), index=2
  c = f32[9] add(a, b)
  ROOT r = (s32[], f32[9], f32[9]) tuple(next, b, c)""",
        """  x = f32[9] parameter(0)
  y = f32[9] parameter(1)
  state = (s32[], f32[9], f32[9]) tuple(zero, x, y)
  ROOT r = LOOP""",
    )
    _, a, b = check_text(text, np.ones(9, np.float32), np.ones(9, np.float32))
    assert (a[0], b[0]) == (233, 377)


def test_a_swap_without_arithmetic():
    text = loop(
        "s32[], f32[3], f32[3], f32[3]",
        """  a = f32[3] get-tuple-element(s), index=1
  b = f32[3] get-tuple-element(s), index=2
  c = f32[3] get-tuple-element(s), index=3
  ROOT r = (s32[], f32[3], f32[3], f32[3]) tuple(next, b, c, a)""",
        """  x = f32[3] parameter(0)
  y = f32[3] parameter(1)
  z = f32[3] negate(y)
  state = (s32[], f32[3], f32[3], f32[3]) tuple(zero, x, y, z)
  ROOT r = LOOP""",
    )
    check_text(text)


def test_what_a_loop_leaves_alone_is_not_copied():
    text = loop(
        "s32[], f32[4096], f32[4096]",
        """  a = f32[4096] get-tuple-element(s), index=1
  w = f32[4096] get-tuple-element(s), index=2
  b = f32[4096] multiply(a, w)
  ROOT r = (s32[], f32[4096], f32[4096]) tuple(next, b, w)""",
        """  x = f32[4096] parameter(0)
  w = f32[4096] parameter(1)
  state = (s32[], f32[4096], f32[4096]) tuple(zero, x, w)
  loop = LOOP
  a = f32[4096] get-tuple-element(loop), index=1
  b = f32[4096] get-tuple-element(loop), index=2
  ROOT r = f32[4096] add(a, b)""",
    )
    check_text(text)
    executable = compile_module(parse_module("HloModule m\n" + text), name="m")
    assert executable.scratch_bytes < 2 * 4096 * 4  # the product, in place, and the counter
    executable.close()


def test_rows_are_written_in_turn():
    text = loop(
        "s32[], f32[12,7], f32[7]",
        """  rows = f32[12,7] get-tuple-element(s), index=1
  v = f32[7] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  w = f32[7] add(v, v)
  row = f32[1,7] reshape(w)
  more = f32[12,7] dynamic-update-slice(rows, row, n, zero)
  ROOT r = (s32[], f32[12,7], f32[7]) tuple(next, more, w)""",
        """  x = f32[12,7] parameter(0)
  y = f32[7] parameter(1)
  state = (s32[], f32[12,7], f32[7]) tuple(zero, x, y)
  ROOT r = LOOP""",
    )
    _, rows, _ = check_text(text, np.zeros((12, 7), np.float32), np.ones(7, np.float32))
    assert rows[:, 0].tolist() == [2**n for n in range(1, 13)]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("narrow", ["f32", "bf16", "c64"])
def test_windows_of_large_arrays_are_written_in_place(axis: int, narrow: str):
    sizes = ("8,1000", "1,1000") if axis == 0 else ("1000,8", "1000,1")
    whole, row = (f"{narrow}[{d}]" for d in sizes)
    text = loop(
        f"s32[], {whole}, {row}",
        f"""  rows = {whole} get-tuple-element(s), index=1
  v = {row} get-tuple-element(s), index=2
  zero = s32[] constant(0)
  w = {row} add(v, v)
  more = {whole} dynamic-update-slice(rows, w, {"n, zero" if axis == 0 else "zero, n"})
  ROOT r = (s32[], {whole}, {row}) tuple(next, more, w)""",
        f"""  x = {whole} parameter(0)
  y = {row} parameter(1)
  state = (s32[], {whole}, {row}) tuple(zero, x, y)
  ROOT r = LOOP""",
    )
    check_text(text)


def test_a_window_at_a_place_that_is_clamped():
    text = """
ENTRY main {
  x = f32[70,100] parameter(0)
  u = f32[5,33] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  v = f32[5,33] negate(u)
  ROOT r = f32[70,100] dynamic-update-slice(x, v, i, j)
}
"""
    x, u = np.zeros((70, 100), np.float32), np.ones((5, 33), np.float32)
    for i, j in ((0, 0), (69, -7), (-1, 99), (31, 40)):
        check_text(text, x, u, np.int32(i), np.int32(j))


def test_a_loop_that_never_turns():
    text = """
no {
  s = (f32[8], pred[]) parameter(0)
  ROOT r = pred[] get-tuple-element(s), index=1
}
body {
  s = (f32[8], pred[]) parameter(0)
  x = f32[8] get-tuple-element(s), index=0
  y = f32[8] negate(x)
  p = pred[] get-tuple-element(s), index=1
  ROOT r = (f32[8], pred[]) tuple(y, p)
}
ENTRY main {
  x = f32[8] parameter(0)
  p = pred[] constant(false)
  state = (f32[8], pred[]) tuple(x, p)
  ROOT r = (f32[8], pred[]) while(state), condition=no, body=body
}
"""
    check_text(text)


def test_loops_in_loops_with_constants_and_nested_tuples():
    text = """
inner_lt {
  s = (s32[], (f32[6], f32[])) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  ROOT r = pred[] compare(n, three), direction=LT
}
inner {
  s = (s32[], (f32[6], f32[])) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  m = s32[] add(n, one)
  pair = (f32[6], f32[]) get-tuple-element(s), index=1
  x = f32[6] get-tuple-element(pair), index=0
  y = f32[] get-tuple-element(pair), index=1
  z = f32[6] broadcast(y), dimensions={}
  w = f32[6] add(x, z)
  again = (f32[6], f32[]) tuple(w, y)
  ROOT r = (s32[], (f32[6], f32[])) tuple(m, again)
}
outer_lt {
  s = (s32[], f32[6], f32[]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  two = s32[] constant(2)
  ROOT r = pred[] compare(n, two), direction=LT
}
outer {
  s = (s32[], f32[6], f32[]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  m = s32[] add(n, one)
  x = f32[6] get-tuple-element(s), index=1
  y = f32[] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  pair = (f32[6], f32[]) tuple(x, y)
  state = (s32[], (f32[6], f32[])) tuple(zero, pair)
  done = (s32[], (f32[6], f32[])) while(state), condition=inner_lt, body=inner
  got = (f32[6], f32[]) get-tuple-element(done), index=1
  z = f32[6] get-tuple-element(got), index=0
  half = f32[] constant(0.5)
  ROOT r = (s32[], f32[6], f32[]) tuple(m, z, half)
}
ENTRY main {
  zero = s32[] constant(0)
  x = f32[6] parameter(0)
  y = f32[] parameter(1)
  state = (s32[], f32[6], f32[]) tuple(zero, x, y)
  ROOT r = (s32[], f32[6], f32[]) while(state), condition=outer_lt, body=outer
}
"""
    _, x, _ = check_text(text, np.zeros(6, np.float32), np.float32(2))
    assert x.tolist() == [7.5] * 6  # three times 2, then three times 0.5


CHOICE = """
up {
  x = f32[40] parameter(0)
  one = f32[] constant(1)
  ones = f32[40] broadcast(one), dimensions={}
  y = f32[40] add(x, ones)
  ROOT r = (f32[40], f32[40]) tuple(y, x)
}
same {
  x = f32[40] parameter(0)
  ROOT r = (f32[40], f32[40]) tuple(x, x)
}
none {
  x = f32[40] parameter(0)
  half = f32[] constant(0.5)
  y = f32[40] broadcast(half), dimensions={}
  ROOT r = (f32[40], f32[40]) tuple(y, y)
}
ENTRY main {
  k = s32[] parameter(0)
  x = f32[40] parameter(1)
  y = f32[40] negate(x)
  c = (f32[40], f32[40]) conditional(k, x, y, y), branch_computations={up, same, none}
  a = f32[40] get-tuple-element(c), index=0
  b = f32[40] get-tuple-element(c), index=1
  z = f32[40] multiply(b, y)
  ROOT r = (f32[40], f32[40], f32[40]) tuple(a, b, z)
}
"""


@pytest.mark.parametrize("k", [0, 1, 2, 3, -1])
def test_one_of_several_branches(k: int):
    check_text(CHOICE, np.int32(k), np.linspace(-2, 2, 40, dtype=np.float32))


@pytest.mark.parametrize("k", [False, True])
def test_branches_on_a_pred(k: bool):
    text = """
double {
  x = f32[] parameter(0)
  ROOT r = f32[] add(x, x)
}
less {
  x = f32[] parameter(0)
  ROOT r = f32[] negate(x)
}
ENTRY main {
  p = pred[] parameter(0)
  x = f32[] parameter(1)
  ROOT r = f32[] conditional(p, x, x), true_computation=double, false_computation=less
}
"""
    check_text(text, np.bool_(k), np.float32(3))


def test_a_conditional_in_a_loop_with_narrow_types():
    text = """
even {
  x = bf16[33] parameter(0)
  ROOT r = bf16[33] add(x, x)
}
odd {
  x = bf16[33] parameter(0)
  ROOT r = bf16[33] negate(x)
}
""" + loop(
        "s32[], bf16[33]",
        """  x = bf16[33] get-tuple-element(s), index=1
  p = s32[] and(n, one)
  y = bf16[33] conditional(p, x, x), branch_computations={even, odd}
  ROOT r = (s32[], bf16[33]) tuple(next, y)""",
        """  x = bf16[33] parameter(0)
  state = (s32[], bf16[33]) tuple(zero, x)
  ROOT r = LOOP""",
    )
    check_text(text)


@pytest.mark.parametrize("size", [5, 100, 4095])
def test_a_window_of_a_small_array_is_written_alone(size: int) -> None:
    """The array is copied, for the caller keeps it, and one kernel more writes the window."""
    text = f"""
ENTRY e {{
  x = f32[{size}] parameter(0)
  u = f32[2] parameter(1)
  at = s32[] parameter(2)
  ROOT r = f32[{size}] dynamic-update-slice(x, u, at)
}}
"""
    module = run_pipeline(parse_module(text))
    executable = compile_module(module, name="update")
    assert executable.kernels == 2
    x = np.arange(size, dtype=np.float32)
    (got,) = run_on_arrays(executable, [x, np.float32([-1, -2]), np.array(size, np.int32)])
    assert got.tolist() == [*x[:-2], -1, -2]


def test_three_columns_of_a_loops_state() -> None:
    """A step of a differential equation in three variables, which are stacked: every bit is the evaluator's."""
    text = """
body {
  s = (s32[], f32[100,3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  y = f32[100,3] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y0 = f32[100,1] slice(y), slice={[0:100], [0:1]}
  y1 = f32[100,1] slice(y), slice={[0:100], [1:2]}
  y2 = f32[100,1] slice(y), slice={[0:100], [2:3]}
  d0 = f32[100,1] subtract(y1, y0)
  d1 = f32[100,1] multiply(y0, y2)
  d2 = f32[100,1] multiply(y0, y1)
  d = f32[100,3] concatenate(d0, d1, d2), dimensions={1}
  h = f32[] constant(0.01)
  w = f32[100,3] broadcast(h), dimensions={}
  m = f32[100,3] multiply(d, w)
  z = f32[100,3] add(y, m)
  ROOT r = (s32[], f32[100,3]) tuple(next, z)
}
condition {
  s = (s32[], f32[100,3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(40)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  zero = s32[] constant(0)
  x = f32[100,3] parameter(0)
  s = (s32[], f32[100,3]) tuple(zero, x)
  w = (s32[], f32[100,3]) while(s), condition=condition, body=body
  ROOT r = f32[100,3] get-tuple-element(w), index=1
}
"""
    x = np.random.default_rng(0).standard_normal((100, 3)).astype(np.float32)
    (want,) = evaluate(parse_module(text), [x])
    (got,) = run_on_arrays(compile_module(run_pipeline(parse_module(text)), name="step"), [x])
    assert got.tobytes() == want.tobytes()


def test_effects_happen_as_often_as_they_stand_there():
    """Twice for two equal calls, in each turn of a loop, and although nobody reads what they give."""
    seen = []
    register_custom_call("test.seen", lambda i, x: seen.append(float(x[0][0])) or x[0])
    call = 'f32[3] custom-call({}), custom_call_target="test.seen", custom_call_has_side_effect=true'
    text = loop(
        "s32[], f32[3]",
        f"""
  x = f32[3] get-tuple-element(s), index=1
  unread = {call.format("x")}
  ROOT after = (s32[], f32[3]) tuple(next, x)""",
        f"""
  x = f32[3] parameter(0)
  first = {call.format("x")}
  second = {call.format("x")}
  state = (s32[], f32[3]) tuple(zero, x)
  turns = LOOP
  both = f32[3] add(first, second)
  ROOT r = (f32[3], f32[3]) tuple(both, x)""",
    )
    module = parse_module("HloModule m\n" + text)
    for version in (module.clone(), run_pipeline(module.clone(), PipelineOptions(verify=True))):
        seen.clear()
        compile_and_run(version, [np.full(3, 7, np.float32)])
        assert seen == [7.0] * 14, version
