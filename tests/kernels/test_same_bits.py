"""Every row of the op table gives the same bits under every instruction set and with any number of threads."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from instruction_sets import USABLE

from minitensor.ops import ROWS

PROGRAM = Path(__file__).parents[1] / "bits_of_rows.py"
BY_SHAPE = Path(__file__).parents[1] / "bits_by_shape.py"
DOCUMENT = Path(__file__).parents[2] / "docs" / "numerics.md"
# What runs in LAPACK and BLAS, as NumPy and SciPy come with them.
LAPACK = {
    n for n in ROWS if n.startswith(("_linalg_", "_cholesky_")) or n in ("_geqrf", "_ormqr", "_householder_product")
}


@functools.cache
def run(*arguments, program=PROGRAM, **environment):
    """What the program says, or why this machine or build can't run it."""
    made = subprocess.run(
        [sys.executable, str(program), *arguments],
        env={**os.environ, "PYTHONPATH": str(PROGRAM.parent.parent), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        assert "MT_ISA" in made.stderr, made.stderr
        return made.stderr
    return json.loads(made.stdout)


def levels(*arguments, eagerly=(), **options):
    """What the instruction sets give that are here, some only eagerly; the baseline is everywhere."""
    found = {
        isa: run(*arguments, *(["--eager"] if isa in eagerly else []), MT_ISA=isa, **options)
        for isa in ("baseline", "avx2", "avx512")
    }
    assert isinstance(found["baseline"], dict), found["baseline"]
    return {isa: rows for isa, rows in found.items() if isinstance(rows, dict)}


def different(one, other):
    assert one.keys() == other.keys()
    return sorted(name for name in one if one[name] != other[name])


@pytest.mark.exhaustive
def test_eager():
    found = levels("--eager")
    assert len(found["baseline"]) > 300
    for isa, rows in found.items():
        assert different(found["baseline"], rows) == [], isa


@pytest.mark.exhaustive
def test_eager_with_one_thread_and_with_two():
    one, two = (run("--eager", "--every", "3", MT_NUM_THREADS=count, MT_WAKE_THREADS="always") for count in "12")
    assert different(one, two) == []


def test_by_shape():
    """Which of their kernels runs depends on the instruction set and the shape."""
    found = levels(program=BY_SHAPE, MT_NUM_THREADS="1")
    found["two threads"] = run(program=BY_SHAPE, MT_NUM_THREADS="2", MT_WAKE_THREADS="always")
    for isa, rows in found.items():
        assert different(found["baseline"], rows) == [], isa


@pytest.mark.parametrize(
    ("every", "first"), [(40, 7), *(pytest.param(10, k, marks=pytest.mark.exhaustive) for k in range(10))]
)
def test_compiled(every, first):
    """Of every row a fifth of the pairs of form and dtype; `python tests/bits_of_rows.py` compiles all.

    The compiled ones of the machine's own instruction set, which all other tests have too, are a sample here.
    """
    alone = every > 10 or len(USABLE) == 1
    part = ("--every", str(every), "--first", str(first), "--one-in", "5")
    found = levels(*part, eagerly=() if alone else USABLE[-1:])
    expected = {name: bits["eager"] for name, bits in found["baseline"].items()}
    for isa, rows in found.items():
        assert [name for name, bits in rows.items() if {*bits.values()} != {expected[name]}] == [], isa
    assert all("compiled" in bits for bits in found["baseline"].values())


@pytest.mark.exhaustive
def test_other_libraries_change_what_the_document_names():
    """The C library's functions have variants by processor, and so has LAPACK."""
    other = run(
        "--eager",
        MT_ISA="baseline",
        GLIBC_TUNABLES="glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX",
        OPENBLAS_CORETYPE="Prescott",
    )
    changed = different(run("--eager", MT_ISA="baseline"), other)
    assert set(changed) <= LAPACK, sorted(set(changed) - LAPACK)
    text = DOCUMENT.read_text()
    assert "## The same bits on every CPU" in text
    assert "LAPACK" in text
