"""`scripts/gpu_check` without a GPU: what is left of its results when tests trap, hang or time is up."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import gpu_worker
import pytest

ROOT = Path(__file__).resolve().parents[2]

TESTS = """
import os, time, pytest

def test_passes():
    pass

def test_fails():
    assert 1 == 2, "one is not two"

def test_ends_its_process():
    print("the last words", flush=True)
    os._exit(3)

def test_hangs():
    time.sleep(60)

@pytest.mark.parametrize("k", range(4))
def test_goes_on(k):
    pass

def test_is_not_chosen():
    assert False

def test_is_skipped():
    pytest.skip("a reason")
"""


@pytest.mark.exhaustive
def test_a_test_that_dies_or_hangs_costs_no_other_result(tmp_path):
    (tmp_path / "test_x.py").write_text(TESTS)
    (tmp_path / "test_broken.py").write_text("import nowhere\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    records = {}

    def tell(record):
        assert record["test"] not in records
        records[record["test"]] = record

    arguments = ["--rootdir", str(tmp_path), "-c", str(tmp_path / "pytest.ini"), str(tmp_path)]
    left = gpu_worker.run(
        arguments, chosen=lambda name: "not_chosen" not in name, tell=tell, processes=2,
        until=time.monotonic() + 100, patience=8.0,
    )  # fmt: skip
    assert left == 0
    outcomes = {name.partition("::test_")[2]: record["outcome"] for name, record in records.items()}
    assert outcomes == {
        "": "failed", "passes": "passed", "fails": "failed", "ends_its_process": "died", "hangs": "hung",
        "is_skipped": "skipped", **{f"goes_on[{k}]": "passed" for k in range(4)},
    }  # fmt: skip
    assert "one is not two" in records["test_x.py::test_fails"]["text"]
    died = records["test_x.py::test_ends_its_process"]["text"]
    assert "status 3" in died
    assert "the last words" in died
    assert "nowhere" in records["test_broken.py"]["text"]


def test_when_time_is_up_it_says_how_many_are_left(tmp_path):
    (tmp_path / "test_x.py").write_text("import time\ndef test_a():\n    time.sleep(9)\ndef test_b():\n    pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    arguments = ["--rootdir", str(tmp_path), "-c", str(tmp_path / "pytest.ini"), str(tmp_path)]
    left = gpu_worker.run(
        arguments, chosen=lambda name: True, tell=lambda record: None, processes=1, until=time.monotonic() + 0.1
    )
    assert left >= 1


@pytest.mark.exhaustive
def test_on_the_stand_in_it_works_is_taken_up_again_and_does_not_lose_what_there_is(tmp_path):
    # PyCUDA's stand-in in every process, as if it were installed.
    (tmp_path / "sitecustomize.py").write_text(
        f"import sys\nsys.path.append({str(ROOT / 'tests')!r})\nimport fake_cuda\n"
        "_kept = fake_cuda.installed(devices=1, memory=64 << 20)\n_kept.__enter__()\n"
    )
    out = tmp_path / "out"
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHON": sys.executable}
    environment.pop("MT_JIT_FLAGS", None)

    def check(*arguments):
        command = [sys.executable, ROOT / "scripts/gpu_check", "--built", "--out", out, *arguments]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
        assert "Traceback" not in ran.stderr, ran.stderr
        return ran

    # What other sources have found counts no more.
    out.mkdir()
    (out / "state.json").write_text(json.dumps({"gpu": {"sources": "others"}, "parts": {}}))
    (out / "tests.jsonl").write_text(json.dumps({"test": "::test_x", "outcome": "failed", "seconds": 1, "text": ""}))
    ran = check("--part", "tests", "--filter", "test_gpus$")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "everything runs anew" in ran.stdout
    assert "== tests: ok: 1 passed or skipped, 0 not; ran now: 1" in ran.stdout
    assert "GPU: Emulated GPU" in (out / "report.md").read_text()

    # As if two more had run, one of which took its process along: that one runs again, and what passed does not.
    with (out / "tests.jsonl").open("a") as file:
        for name, outcome in (("test_other", "passed"), ("test_gpus", "died")):
            test = f"tests/cuda/test_cuda_surface.py::{name}"
            file.write(json.dumps({"test": test, "outcome": outcome, "seconds": 1.0, "text": ""}) + "\n")
    ran = check("--part", "tests", "--part", "profile", "--filter", "test_gpus$|test_other$|cuda_launch$")
    assert "== tests: ok: 2 passed or skipped, 0 not; ran now: 1" in ran.stdout, ran.stdout
    assert "== profile: ok" in ran.stdout
    assert "The roof of cuda:0: " in (out / "profile.txt").read_text()
