"""Which tests `scripts/mutate` gives a defect: by their number and what they reach, not by how long they took."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import itertools
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEAR, FAR = Path("tests/test_near.py"), Path("tests/test_far.py")
REACHED = {"n::wide": {1, 2, 3}, "n::narrow": {1}, "n::other": {2}, "f::narrow": {1}, "f::middle": {1, 3}}


@pytest.fixture(scope="module")
def mutate() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("mutate_script", str(ROOT / "scripts" / "mutate"))
    spec = importlib.util.spec_from_loader("mutate_script", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutate_script"] = module  # dataclasses look there
    sys.dont_write_bytecode, kept = True, sys.dont_write_bytecode
    loader.exec_module(module)
    sys.dont_write_bytecode = kept
    return module


def _ran(seconds: tuple[float, ...]) -> dict[Path, tuple[set[int], dict[str, tuple[float, set[int]]]]]:
    took = dict(zip(REACHED, seconds, strict=True))
    return {
        path: (set(), {test: (took[test], places) for test, places in REACHED.items() if test.startswith(first)})
        for path, first in ((NEAR, "n::"), (FAR, "f::"))
    }


@pytest.mark.parametrize(
    ("at_most", "expected", "more"),
    [
        (1, {"n::narrow"}, True),
        (2, {"n::narrow", "f::narrow"}, True),
        (3, {"n::narrow", "f::narrow", "f::middle"}, True),
        (4, {"n::narrow", "f::narrow", "f::middle", "n::wide"}, False),
        (5, {"n::narrow", "f::narrow", "f::middle", "n::wide"}, False),
    ],
)
def test_the_load_chooses_no_tests(mutate: ModuleType, at_most: int, expected: set[str], more: bool) -> None:
    for seconds in itertools.permutations((0.001, 0.1, 1.0, 30.0, 900.0)):
        chosen, left_out = mutate.come_by(1, _ran(seconds), at_most)
        assert set(chosen.tests) == expected
        assert left_out is more
        took = dict(zip(REACHED, seconds, strict=True))
        assert [took[test] for test in chosen.tests] == sorted(took[test] for test in chosen.tests)


def test_the_processors_time_of_a_group(mutate: ModuleType) -> None:
    burns = "import time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", burns], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "done\n"
        ticks = mutate.spent(child.pid)
        child.communicate("\n")
    assert ticks >= 29  # a hundredth of a second each
    assert mutate.spent(child.pid) == 0
