"""The command line tools that run a module, and that find what is compiled wrongly."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minitensor_jit.ir.evaluate.custom_calls import register_custom_call
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.module import Module
from minitensor_jit.ir.opcode import OPCODES
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.ir.verifier import VerificationError, check
from minitensor_jit.passes.loop_calls import LOOPS
from minitensor_jit.passes.pipeline import pipeline, run_pipeline
from minitensor_jit.tools import isolate as isolate_tool
from minitensor_jit.tools import run_hlo_module
from minitensor_jit.tools.isolate import isolate
from minitensor_jit.tools.module_files import compile_and_run, mismatch

TEXT = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[4,8] parameter(0)
  y = f32[8,3] parameter(1)
  d = f32[4,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[] constant(0)
  e = f32[4,3] negate(d)
  s = f32[4] reduce(e, z), dimensions={1}, to_apply=add
  ROOT t = (f32[4], f32[4,3]) tuple(s, e)
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "m.hlo"
    path.write_text(TEXT)
    return path


def arguments() -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(d).astype(np.float32) for d in ((4, 8), (8, 3))]


@pytest.mark.parametrize("options", [[], ["--reference"], ["--iterations", "3"]])
def test_it_runs_on_given_inputs(file: Path, tmp_path: Path, options: list[str]) -> None:
    x, y = arguments()
    np.savez(tmp_path / "in.npz", arg0=x, arg1=y)
    out = tmp_path / "out.npz"
    argv = [str(file), "--inputs", str(tmp_path / "in.npz"), "--outputs", str(out), *options]
    assert run_hlo_module.main(argv) == 0
    with np.load(out) as results:
        assert sorted(results) == ["out0", "out1"]
        np.testing.assert_allclose(results["out1"], -(x @ y), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(results["out0"], -(x @ y).sum(1), rtol=1e-5, atol=1e-5)


def test_it_runs_on_random_inputs(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_hlo_module.main([str(file), "--random_inputs", "--seed", "7", "--iterations", "2"]) == 0
    assert "agree" in capsys.readouterr().out


@pytest.mark.parametrize("opcode", sorted(LOOPS))
def test_opcodes_with_loops_are_compiled(opcode: str, tmp_path: Path) -> None:
    path = tmp_path / "s.hlo"
    operands = "x, y" if OPCODES[opcode].arity == 2 else "x"
    path.write_text(
        "HloModule m\nENTRY main { x = f32[70] parameter(0) y = f32[70] parameter(1)"
        f" ROOT r = f32[70] {opcode}({operands}) }}\n"
    )
    inputs = np.random.default_rng(0).random((2, 70)).astype(np.float32)
    np.savez(tmp_path / "in.npz", arg0=inputs[0], arg1=inputs[1])
    assert run_hlo_module.main([str(path), "--inputs", str(tmp_path / "in.npz")]) == 0


def test_it_names_an_opcode_without_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.hlo"
    call = 'custom-call(x), custom_call_target="nobody"'
    path.write_text(f"HloModule m\nENTRY main {{ x = f32[3] parameter(0) ROOT r = f32[3] {call} }}\n")
    assert run_hlo_module.main([str(path)]) == 2
    assert "nobody" in capsys.readouterr().err


def test_it_refuses_inputs_that_do_not_fit(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "in.npz", arg0=np.zeros((4, 8), np.float32))
    assert run_hlo_module.main([str(file), "--inputs", str(tmp_path / "in.npz")]) == 2
    assert "has no arg1" in capsys.readouterr().err


def test_nothing_is_found_where_nothing_differs(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert isolate_tool.main([str(file)]) == 0
    assert "agrees" in capsys.readouterr().out


class Absolute:
    """A wrong pass: takes absolute values where it should negate."""

    name = "absolute"

    def run(self, module: Module) -> bool:
        for computation in module.computations:
            for i in computation.instructions:
                if i.opcode == "negate":
                    i.opcode = "abs"
        return True


def test_a_pass_that_changes_the_meaning_is_named() -> None:
    passes = lambda: [*pipeline()[:3], Absolute(), *pipeline()[3:]]  # noqa: E731
    finding = isolate(parse_module(TEXT), arguments(), passes=passes)
    assert finding is not None
    assert (finding.pass_name, finding.meaning) == ("absolute", True)


def test_a_fusion_that_is_compiled_wrongly_is_named() -> None:
    def run(module: Module, args: Sequence[Any]) -> list[Any]:
        broken = module.entry
        wrong = any(i.opcode == "fusion" for i in broken.instructions)
        results = compile_and_run(module, args)
        return [r + 1 for r in results] if wrong else results

    finding = isolate(parse_module(TEXT), arguments(), run=run)
    assert finding is not None
    assert "fusion" in finding.pass_name
    assert finding.module is not None
    assert finding.module.entry.root.opcode == "fusion"
    assert finding.instruction == finding.module.entry.root.name


LOOP = """HloModule loop
lt { s = (s32[], f32[4]) parameter(0) n = s32[] get-tuple-element(s), index=0 m = s32[] constant(3)
  ROOT r = pred[] compare(n, m), direction=LT }
body { s = (s32[], f32[4]) parameter(0) n = s32[] get-tuple-element(s), index=0 o = s32[] constant(1)
  k = s32[] add(n, o) x = f32[4] get-tuple-element(s), index=1 y = f32[4] sine(x)
  ROOT r = (s32[], f32[4]) tuple(k, y) }
up { x = f32[4] parameter(0) ROOT r = f32[4] negate(x) }
same { ROOT x = f32[4] parameter(0) }
ENTRY main { z = s32[] constant(0) x = f32[4] parameter(0) p = pred[] parameter(1) t = (s32[], f32[4]) tuple(z, x)
  w = (s32[], f32[4]) while(t), condition=lt, body=body y = f32[4] get-tuple-element(w), index=1
  ROOT c = f32[4] conditional(p, y, x), true_computation=up, false_computation=same }
"""


@pytest.mark.parametrize(("broken", "p"), [("elementwise-call", False), ("negate", True)])
def test_what_a_loop_or_branch_runs_is_named(broken: str, p: bool) -> None:
    def run(module: Module, args: Sequence[Any]) -> list[Any]:
        wrong = any(i.opcode == broken for c in module.computations for i in c.instructions)
        results = compile_and_run(module, args)
        return [r + 1 if wrong and r.dtype == np.float32 else r for r in results]

    given = [np.ones(4, np.float32), np.bool_(p)]
    finding = isolate(parse_module(LOOP), given, run=run, passes=lambda: pipeline(fuse=False))
    assert finding is not None
    assert finding.module is not None
    assert finding.module.entry.root.opcode == broken
    assert isolate(parse_module(LOOP), given) is None


def test_tuples_among_the_parameters(tmp_path: Path) -> None:
    path = tmp_path / "t.hlo"
    path.write_text(
        """HloModule m
ENTRY main { x = f32[3] parameter(0) t = (f32[3], (s32[2], f32[])) parameter(1) a = f32[3] get-tuple-element(t), index=0
  u = (s32[2], f32[]) get-tuple-element(t), index=1 n = s32[2] get-tuple-element(u), index=0 y = f32[3] subtract(a, x)
  z = f32[] get-tuple-element(u), index=1 b = f32[3] broadcast(z), dimensions={} w = f32[3] multiply(y, b)
  p = (f32[3], s32[2]) tuple(w, n) ROOT r = ((f32[3], s32[2]), f32[]) tuple(p, z) }
"""
    )
    assert run_hlo_module.main([str(path), "--random_inputs"]) == 0
    inputs = {"arg0": np.ones(3, np.float32), "arg1": np.full(3, 4, np.float32), "arg2": np.arange(2, dtype=np.int32)}
    np.savez(tmp_path / "in.npz", **inputs, arg3=np.float32(2))
    out = tmp_path / "out.npz"
    assert run_hlo_module.main([str(path), "--inputs", str(tmp_path / "in.npz"), "--outputs", str(out)]) == 0
    with np.load(out) as results:
        assert results["out0"].tolist() == [6, 6, 6]
        assert results["out1"].tolist() == [0, 1]


def test_bfloat16_is_written_as_it_is_read(tmp_path: Path) -> None:
    path, out = tmp_path / "b.hlo", tmp_path / "out.npz"
    path.write_text("HloModule m\nENTRY main { arg = bf16[2] parameter(0) ROOT r = bf16[2] negate(arg) }\n")
    np.savez(tmp_path / "in.npz", arg0=np.array([0x3F80, 0xC000], np.uint16))
    assert run_hlo_module.main([str(path), "--inputs", str(tmp_path / "in.npz"), "--outputs", str(out)]) == 0
    with np.load(out) as results:
        assert results["out0"].tolist() == [0xBF80, 0x4000]


def test_what_a_custom_call_raises_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls = []

    def second_time(i: Any, x: Sequence[Any]) -> Any:
        calls.append(x)
        if len(calls) > 1:
            raise ArithmeticError("no more")
        return x[0]

    register_custom_call("test.second_time", second_time)
    call = 'custom-call(x), custom_call_target="test.second_time"'
    path = tmp_path / "c.hlo"
    path.write_text(f"HloModule m\nENTRY main {{ x = f32[3] parameter(0) ROOT r = f32[3] {call} }}\n")
    assert run_hlo_module.main([str(path)]) == 2
    assert "ArithmeticError: no more" in capsys.readouterr().err


@pytest.mark.parametrize("tool", ["run_hlo_module", "opt", "isolate"])
def test_tools_start_where_tensors_record_from_the_start(tool: str) -> None:
    flags = {**os.environ, "MT_JIT_FLAGS": "--auto_jit=2 --cpu_global_jit"}
    command = [sys.executable, "-m", f"minitensor_jit.tools.{tool}", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, env=flags, check=False)
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout


RECURRENT = """
body {
  s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f32[64] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  t = f32[64] tanh(h)
  e = f32[64] exponential(t)
  l = f32[64] log(e)
  k = f32[] constant(1.5)
  b = f32[64] broadcast(k), dimensions={}
  m = f32[64] multiply(l, b)
  ROOT r = (s32[], f32[64]) tuple(next, m)
}
condition {
  s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(TURNS)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  zero = s32[] constant(0)
  x = f32[64] parameter(0)
  s = (s32[], f32[64]) tuple(zero, x)
  w = (s32[], f32[64]) while(s), condition=condition, body=body
  ROOT r = f32[64] get-tuple-element(w), index=1
}
"""


def test_tolerances_grow_with_the_iterations_of_loops(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A zero that is off by five times the tolerance is wrong after one iteration, and may be rounding after 100."""
    real = run_hlo_module.run_on_arrays
    monkeypatch.setattr(run_hlo_module, "run_on_arrays", lambda e, args: [r + 5e-5 for r in real(e, args)])
    path = tmp_path / "recurrent.hlo"
    for turns, status in ((1, 1), (100, 0)):
        path.write_text(RECURRENT.replace("TURNS", str(turns)))
        assert run_hlo_module.main([str(path)]) == status


def test_infinite_and_complex_results_are_compared_by_their_parts() -> None:
    inf, nan = np.inf, np.nan
    same = np.array([complex(inf, nan), complex(nan, 1), complex(-inf, 2), complex(inf, inf)], np.complex64)
    assert mismatch([same], [same.copy()], 1e-4, 1e-5) is None
    for other in (complex(inf, 1), complex(nan, nan), complex(inf, 2), complex(inf, -inf)):
        for k, value in enumerate(same):
            if repr(complex(value)) == repr(other):
                continue
            changed = same.copy()
            changed[k] = other
            assert mismatch([changed], [same], 1e-4, 1e-5) is not None, (k, other)
    assert mismatch([np.float32([1.0])], [np.float32([inf])], 1e-4, 1e-5) is not None
    assert mismatch([np.float32([inf])], [np.float32([-inf])], 1e-4, 1e-5) is not None


MALFORMED = {
    "trsm": ('"blas_strsm_ffi"', "a, b", "{trans_x = 88 : ui8}", r"trans_x = 88.*none of 78 \(N\)"),
    "far": ('"blas_strsm_ffi"', "a, b", "{uplo = 1114112 : ui8}", "uplo = 1114112"),
    "few": ('"blas_strsm_ffi"', "a", "{}", "blas_strsm_ffi"),
    "kernel": ('"mt.kernel.cumsum"', "a", '{"operands":"ts","params":[]}', "has 1 operands, .* says 2"),
    "large": ('"mt.kernel.cumsum"', "a", '"{\\"operands\\":\\"t\\",\\"params\\":[99999999999999999999]}"', "64 bits"),
    "deep": ('"mt.kernel.cumsum"', "a", '"' + "[" * 20000 + '"', "backend_config"),
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("more", [[], ["--reference"]])
def test_a_malformed_call_is_refused_with_words(
    name: str, more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, operands, config, message = MALFORMED[name]
    path = tmp_path / "m.hlo"
    path.write_text(f"""ENTRY e {{
  a = f32[3,3] parameter(0)
  b = f32[3,3] parameter(1)
  ROOT c = f32[3,3] custom-call({operands}), custom_call_target={target}, backend_config={config}
}}""")
    assert run_hlo_module.main([str(path), *more]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_random_numbers_are_drawn_once_in_a_run() -> None:
    text = """
twice { x = f32[] parameter(0)
  ROOT r = f32[8] rng(x, x), distribution=rng_uniform }
ENTRY e {
  a = f32[] parameter(0)
  b = f32[8] call(a), to_apply=twice
  c = f32[8] call(a), to_apply=twice
  ROOT r = f32[8] add(b, c)
}
"""
    with pytest.raises(VerificationError, match="rng may run several times"):
        check(parse_module(text))
    text = """
ENTRY e {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  x = f32[5000] rng(a, b), distribution=rng_uniform
  y = f32[5000] rng(a, b), distribution=rng_uniform
  z = f32[5000] rng(a, b), distribution=rng_normal
  ROOT r = (f32[5000], f32[5000], f32[5000]) tuple(x, y, z)
}
"""
    module = parse_module(text)
    given = [np.float32(2), np.float32(3)]
    x, y, z = evaluate(module, given)
    assert not np.array_equal(x, y)
    assert x.min() >= 2
    assert x.max() < 3
    assert abs(float(x.mean()) - 2.5) < 0.02
    assert abs(float(z.mean()) - 2) < 0.2
    assert abs(float(z.std()) - 3) < 0.15
    for got, want in zip(compile_and_run(run_pipeline(module), given), (x, y, z), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_without_loops_the_tolerance_is_the_one_given() -> None:
    def run(module: Module, args: Sequence[Any]) -> list[Any]:
        return [r * (1 + 1.2e-4) for r in compile_and_run(module, args)]

    finding = isolate(parse_module(TEXT), arguments(), run=run, rtol=1e-4, atol=0)
    assert finding is not None
    assert finding.instruction
    assert isolate(parse_module(TEXT), arguments(), run=run, rtol=1.3e-4, atol=0) is None
