"""No kernel writes outside its results: with MT_GUARD_BYTES the allocator sees it when a block is freed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
EVERY_ROW = """
import sys, warnings
import numpy as np
from bits_of_rows import LEFT_OUT, REFUSALS, outcome, samples
from minitensor.ops import ROWS
warnings.simplefilter("ignore")
with np.errstate(all="ignore"):
    for name in sorted(ROWS):
        if name in LEFT_OUT:
            continue
        print(name, flush=True)
        for sample in samples(ROWS[name], int(sys.argv[1])):
            try:
                outcome(ROWS[name], *sample)
            except REFUSALS:
                pass
"""


def guarded(program, *arguments):
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": f"{TESTS.parent}:{TESTS}", "MT_GUARD_BYTES": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("at", [-1, -64, 12, 75])
def test_what_is_written_outside_is_seen(at):
    done = guarded(f"""
import ctypes
import minitensor as mt
t = mt.zeros(3)
ctypes.memset(t.data_ptr() + {at}, 0, 1)
del t
""")
    assert done.returncode == -signal.SIGABRT
    assert f"the byte at {at} of a block of 12 bytes was written" in done.stderr


@pytest.mark.parametrize("one_in", [3, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_rows_write_their_results_only(one_in):
    done = guarded(EVERY_ROW, one_in)
    assert done.returncode == 0, done.stdout.splitlines()[-1] + done.stderr
    assert len(done.stdout.splitlines()) > 300
