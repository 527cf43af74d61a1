"""Every operation of `jax.lax`, on the values that are easily got wrong, gives JAX's results, compiled too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
from jax_corners import CORNERS
from jax_programs import hlo_text

from minitensor_jit.ir.analysis.equal import difference
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.ir.text.printer import print_module
from minitensor_jit.ir.verifier import check
from minitensor_jit.passes.pipeline import PipelineOptions, run_pipeline
from minitensor_jit.tools.module_files import compile_and_run

PROGRAMS = [(family, name) for family, programs in CORNERS.items() for name in programs]
# Each takes seconds, in JAX's own compiler too.
SLOW = {"igamma", "igammac", "unique", "beta", "shuffle", "sqrtm", "rng_range", "truncated_normal"}
SAMPLE = [p for n, p in enumerate(PROGRAMS) if p[1] not in SLOW and (p[0] == "convert" or n % 7 == 0)]


def ids(programs: list[tuple[str, str]]) -> list[str]:
    return [f"{family}-{name}" for family, name in programs]


def close(got: list[Any], want: list[Any]) -> None:
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape
        if a.dtype.names is not None:  # types that NumPy lacks have other stand-ins in JAX: their bits
            assert a.dtype.names[0] == str(b.dtype)
            a, b = a.view(np.uint8), b.view(np.uint8)
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        if a.dtype.kind == "f":
            assert np.array_equal(np.signbit(a[a == 0]), np.signbit(b[b == 0])) or np.any((a == 0) != (b == 0))


# Where JAX would take 32 bits for 64.
LONG = {"float_to_int64", "float_to_uint64", "half_to_integers", "bfloat16_to_integers", "integers_wrap"}


def run(family: str, name: str) -> None:
    with jax.enable_x64(name in LONG):
        compare(family, name)


def compare(family: str, name: str) -> None:
    function, arguments = CORNERS[family][name]
    text = hlo_text(function, arguments)
    module = parse_module(text, any_layout=True)
    check(module)
    printed = print_module(module)
    assert difference(parse_module(printed), module) is None
    with np.errstate(all="ignore"):
        want = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(function)(*arguments))]
        inputs = [np.asarray(jax.numpy.asarray(a)) for a in arguments]
        close(evaluate(module, inputs), want)
        run_pipeline(module, PipelineOptions(verify=True))
        close(evaluate(module, inputs), want)
        close(compile_and_run(module, inputs), want)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("family", "name"), SAMPLE, ids=ids(SAMPLE))
def test_corner(family: str, name: str) -> None:
    run(family, name)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("family", "name"), [p for p in PROGRAMS if p not in SAMPLE])
def test_every_corner(family: str, name: str) -> None:
    run(family, name)


def test_there_are_many() -> None:
    assert len(PROGRAMS) >= 300
