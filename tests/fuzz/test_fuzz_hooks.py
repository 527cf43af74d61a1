"""A short form of `hooks.py`."""

import subprocess
import sys
import warnings
from pathlib import Path

import minitensor as mt
from fuzz.hooks import compare_graphs, outcome

# Of the first 40 programs.
EXPECTED = {"RuntimeError": 14, "TypeError": 2, "ZeroDivisionError": 1}


def test_graphs_with_odd_hooks_end_as_in_pytorch() -> None:
    assert compare_graphs(0, 300) == []


def test_outcomes_of_some_graphs() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [outcome(mt, seed) for seed in range(40)]
    errors = {error: found.count(error) for error in ("RuntimeError", "TypeError", "ZeroDivisionError")}
    assert errors == EXPECTED
    assert sum(isinstance(one, list) for one in found) == 40 - sum(EXPECTED.values())


def test_broken_objects_crash_nothing() -> None:
    program = "from fuzz import hooks as f\nfor seed in range(60): f.run_broken(seed)\nprint('end')"
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-X", "faulthandler", "-c", program],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.stdout.split()[-1:] == ["end"], ran.stderr[-3000:]
    assert ran.returncode == 0
