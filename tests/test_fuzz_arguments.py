"""A seeded run of `fuzz_arguments`, in a process of its own: a crash is a failure here, not the end of the tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def run(arguments, **environment):
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(HERE.parent), **environment},
    )


@pytest.mark.parametrize("threads", ["1", "2"])
def test_cases(tmp_path, threads):
    note = tmp_path / "note"
    first = {"1": 0, "2": 100_000}[threads]
    done = run(
        [str(HERE / "fuzz_arguments.py"), "--first", str(first), "--cases", "1500", "--note", str(note)],
        MT_NUM_THREADS=threads,
    )
    assert done.returncode == 0, f"{note.read_text()}\n{done.stdout}\n{done.stderr}"
