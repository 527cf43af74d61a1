"""What each op is lowered to is HLO that XLA reads, before and after our passes, and computes with our numbers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jaxlib._hlo")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from row_samples import calls
from xla_run import run_in_xla, xla_text

import minitensor as mt
from minitensor.ops import ROWS
from minitensor_jit.ir.analysis.equal import difference
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.module import Module
from minitensor_jit.ir.testing import random_arguments
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.ir.text.printer import print_module
from minitensor_jit.ir.verifier import check
from minitensor_jit.passes.pipeline import PipelineOptions, run_pipeline

pytestmark = pytest.mark.sampled(3)

# Numbers that no integer has become the smallest one, as in PyTorch (docs/numerics.md); XLA takes the nearest.
OTHER_NUMBERS = {"cast", "_assign"}
# XLA reads these, but does not run them on the CPU: our custom-calls are not its own, and its runtime there has none
# for a collective-broadcast ("not supported by XLA:CPU ThunkEmitter", JAX 0.10.2).
ONLY_READ = ("custom-call(", "collective-broadcast(")
# What is left of 1 + tanh(x) near -1 is, in float32, the error of the tanh, and XLA has another one. So in float64.
CANCELS = {"_gelu_tanh_backward"}


def modules(name: str) -> list[Module]:
    """The HLO of some calls of an op."""
    row, found = ROWS[name], []
    for _, _, arguments in calls(row, dtypes=("float64" if name in CANCELS else "float32", "int32")):
        try:
            row.call(*arguments)
        except (RuntimeError, TypeError, NotImplementedError, ZeroDivisionError, IndexError):
            continue  # not for this dtype
        function = mt.function(lambda *given: row.call(*given), jit_compile=True)
        try:
            text = function.lower(*arguments).as_text("hlo")
        except mt.jit.InvalidArgumentError:
            continue  # it is not compiled in this form, and says why
        found.append(parse_module(text))
        if len(found) == 2:
            break
    return found


def same(text: str, module: Module) -> None:
    back = parse_module(xla_text(text))
    check(back)
    assert difference(back, module) is None


def close(got: list[Any], want: list[Any]) -> None:
    for a, b in zip(got, want, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("name", [n for n, row in ROWS.items() if row.compilable])
def test_xla_reads_and_runs_what_an_op_becomes(name: str) -> None:
    for module in modules(name):
        text = print_module(module)
        same(text, module)
        if not any(opcode in text for opcode in ONLY_READ) and name not in OTHER_NUMBERS:
            arguments = random_arguments(module, 1)
            close(run_in_xla(text, arguments), evaluate(module, arguments))
        optimised = run_pipeline(module, PipelineOptions(verify=True))
        same(print_module(optimised), optimised)
