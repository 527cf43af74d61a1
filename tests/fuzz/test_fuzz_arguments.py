"""A seeded run of `scripts/fuzz_arguments`: a crash is a failure here, not the end of the tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sanitizers import SANITIZED

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("threads", ["1", "2"])
def test_cases(threads):
    command = [sys.executable, str(ROOT / "scripts" / "fuzz_arguments"), "800", "--workers", "1"]
    command += ["--seed", {"1": "0", "2": "100000"}[threads]]
    if SANITIZED:
        command.append("--unlimited")
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MT_NUM_THREADS": threads},
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
