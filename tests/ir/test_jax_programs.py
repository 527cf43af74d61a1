"""What JAX lowers parses here, is valid, prints and parses to the same, and gives JAX's numbers, compiled too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
from jax_programs import FAMILIES, hlo_text

from minitensor_jit.ir.analysis.equal import difference
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.ir.text.printer import print_module
from minitensor_jit.ir.verifier import check
from minitensor_jit.passes.pipeline import PipelineOptions, run_pipeline
from minitensor_jit.tools.module_files import compile_and_run

pytestmark = pytest.mark.sampled(6)

PROGRAMS = [(family, name) for family, programs in FAMILIES.items() for name in programs]


# Where passes make the most of other instructions.
REWRITTEN = {"reductions", "products", "windows", "order", "control", "random"}

# XLA may keep more bits of bfloat16 than a rounding after each operation leaves.
LOOSE = {"bfloat16": 2e-2, "half": 2e-3}


def close(got: list[Any], want: list[Any], loose: float) -> None:
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=max(loose, 1e-4), atol=max(loose, 1e-5))


@pytest.mark.parametrize(("family", "name"), PROGRAMS, ids=[f"{f}-{n}" for f, n in PROGRAMS])
def test_jax_program(family: str, name: str) -> None:
    function, arguments = FAMILIES[family][name]
    module = parse_module(hlo_text(function, arguments), any_layout=True)
    check(module)
    text = print_module(module)
    again = parse_module(text)
    assert difference(again, module) is None
    assert print_module(again) == text
    want = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(function)(*arguments))]
    inputs = [np.asarray(jax.numpy.asarray(a)) for a in arguments]
    close(evaluate(module, inputs), want, LOOSE.get(name, 0))
    run_pipeline(module, PipelineOptions(verify=True))
    close(evaluate(module, inputs), want, LOOSE.get(name, 0))
    close(compile_and_run(module, inputs), want, LOOSE.get(name, 0))


@pytest.mark.parametrize("family", FAMILIES)
def test_xla_reads_what_we_print_and_runs_what_passes_leave(family: str) -> None:
    pytest.importorskip("jaxlib._hlo")
    from xla_run import run_in_xla, xla_text

    for name, (function, arguments) in FAMILIES[family].items():
        module = parse_module(hlo_text(function, arguments), any_layout=True)
        check(parse_module(xla_text(print_module(module)), any_layout=True))
        fused = run_pipeline(module.clone())
        back = parse_module(xla_text(print_module(fused)), any_layout=True)
        check(back)
        assert difference(back, fused) is None
        if family not in REWRITTEN:
            continue
        text = print_module(run_pipeline(module, PipelineOptions(fuse=False)))
        if "custom-call" in text:  # of the core's loops, or of LAPACK, which not everybody has
            continue
        inputs = [np.asarray(jax.numpy.asarray(a)) for a in arguments]
        want = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(function)(*arguments))]
        close(run_in_xla(text, inputs), want, LOOSE.get(name, 0))


def test_there_are_many() -> None:
    assert len(PROGRAMS) >= 170
