"""Scratch memory that is touched before the first launch needs it, and what a program keeps to know how much."""

import gc
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import forks
import numpy as np
import pytest
from sanitizers import SANITIZED

import minitensor as mt
from minitensor import _C

ROOT = str(Path(mt.__file__).parent.parent)
MIB = 1 << 20
X = mt.rand(512, 1024)
W = mt.rand(1024, 1024)


def model(x, w):
    """Its temporaries take some megabytes."""
    h = (x @ w).softmax(-1)
    return (h @ w).sin().sum(0)


NEEDED = mt.function(model, jit_compile=True).lower(X, W).compile().memory_analysis().temp_size_in_bytes


@pytest.fixture(autouse=True)
def _nothing_ahead():
    gc.collect()  # what is counted is not to change by what other tests left
    threads = mt.get_num_threads()
    mt.set_num_threads(max(2, threads))
    mt.empty_cache()
    yield
    mt.set_num_threads(threads)
    mt.empty_cache()


def resident():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmRSS"))


def wait_until(holds):
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


def wait_for_allocated(nbytes):
    """Until a thread that has returned is gone, with its scratch memory, and nothing else is left of its call."""

    def gone():
        gc.collect()
        return mt.allocator_stats()["allocated_bytes"] <= nbytes

    wait_until(gone)


def in_a_thread(call):
    """Threads have scratch memory of their own, none at first."""
    found = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]


def run():
    return mt.function(model, jit_compile=True)(X, W).numpy()


def test_the_model_needs_scratch_memory():
    assert 2 * MIB < NEEDED < 64 * MIB


def test_a_launch_takes_what_was_touched_ahead():
    expected = model(X, W).numpy()
    for size in (NEEDED, NEEDED + 5 * MIB):
        allocated = mt.allocator_stats()["allocated_bytes"]
        _C.touch_ahead(size)
        assert _C.bytes_ahead() == size
        assert mt.allocator_stats()["allocated_bytes"] - allocated == _C.rounded_size(size)
        assert np.array_equal(in_a_thread(run), expected)
        assert _C.bytes_ahead() == 0
        wait_for_allocated(allocated)


def test_what_is_too_small_goes_back_to_the_system():
    _C.touch_ahead(2 * MIB)
    stats = mt.allocator_stats()
    assert np.array_equal(in_a_thread(run), model(X, W).numpy())
    assert _C.bytes_ahead() == 0
    wait_for_allocated(stats["allocated_bytes"] - 2 * MIB)


def test_a_thread_touches_it():
    size = 64 * MIB
    before = resident()
    _C.touch_ahead(size)
    wait_until(lambda: resident() - before >= size * 0.9)
    mt.empty_cache()
    assert _C.bytes_ahead() == 0
    # A sanitizer's account of memory takes an eighth of it.
    assert resident() - before < size * (0.25 if SANITIZED else 0.1)


def test_what_it_holds_is_not_changed_while_it_is_still_touched():
    expected = model(X, W).numpy()
    for _ in range(8):
        _C.touch_ahead(100 * MIB)  # takes longer than the launch to begin
        assert np.array_equal(in_a_thread(run), expected)
        assert _C.bytes_ahead() == 0
        mt.empty_cache()


def test_the_larger_request_counts():
    _C.touch_ahead(8 * MIB)
    _C.touch_ahead(4 * MIB)
    assert _C.bytes_ahead() == 8 * MIB
    _C.touch_ahead(12 * MIB)
    assert _C.bytes_ahead() == 12 * MIB


def test_where_it_does_not_help_nothing_is_done():
    _C.touch_ahead(MIB)
    assert _C.bytes_ahead() == 0
    mt.set_num_threads(1)
    _C.touch_ahead(8 * MIB)
    assert _C.bytes_ahead() == 0


def test_it_is_bounded():
    _C.touch_ahead(1 << 60)
    assert _C.bytes_ahead() == 256 * MIB


@pytest.mark.parametrize("size", [-1, 1 << 70, "many", None, 2.5])
def test_sizes_are_numbers_of_bytes(size):
    with pytest.raises((OverflowError, TypeError)):
        _C.touch_ahead(size)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_takes_its_own():
    expected = model(X, W).numpy()
    _C.touch_ahead(100 * MIB)

    def work():
        np.testing.assert_array_equal(in_a_thread(run), expected)
        assert _C.bytes_ahead() == 0

    forks.ends_well(work)
    assert np.array_equal(in_a_thread(run), expected)


# ---- from one process to the next

PROGRAM = """
import os, sys
import minitensor as mt
from minitensor import _C
mt.set_num_threads(2)
foretold = _C.bytes_ahead()
rows = int(os.environ["ROWS"])
if rows:
    f = mt.function(lambda x, w: ((x @ w).softmax(-1) @ w).sin().sum(0), jit_compile=True)
    print(f(mt.ones(rows, 1024), mt.eye(1024) * 0.5).sum().item(), end=" ")
print(foretold, _C.bytes_ahead(), _C.largest_launch_scratch())
"""


class Programs:
    """A folder for code, and the runs of a program that uses it."""

    def __init__(self, folder):
        self.cache = folder / "code"
        self.file = folder / "program.py"
        self.file.write_text(PROGRAM)

    def run(self, rows=512, command=None):
        """What was foretold, what is left of it at the end, and what was needed; and the program's output."""
        environment = os.environ | {
            "PYTHONPATH": ROOT, "ROWS": str(rows), "MT_NUM_THREADS": "2",
            "MT_JIT_FLAGS": f"--persistent_cache_directory={self.cache}",
        }  # fmt: skip
        command = command or [str(self.file)]
        done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert not done.stderr
        *result, foretold, left, needed = done.stdout.split()
        return int(foretold), int(left), int(needed), result

    def forecasts(self):
        return [path for path in self.cache.glob("*.mtp") if path.stat().st_size < 200]


@pytest.fixture
def programs(tmp_path):
    return Programs(tmp_path)


def test_the_next_process_knows_what_it_will_need(programs):
    foretold, left, needed, result = programs.run()
    assert foretold == left == 0 < 2 * MIB < needed
    assert programs.run() == (needed, 0, needed, result)
    assert len(programs.forecasts()) == 1


def test_a_forecast_may_be_wrong(programs):
    small, large = programs.run(rows=512), programs.run(rows=2048)
    assert large[0] == small[2] < large[2]
    assert large[1] == 0
    fewer = programs.run(rows=512)
    assert fewer == (large[2], 0, small[2], small[3])
    assert programs.run(rows=512)[0] == small[2]
    # Nothing is launched: it is not touched again.
    assert programs.run(rows=0)[:3] == (small[2], small[2], 0)
    assert programs.run(rows=0)[:3] == (0, 0, 0)


def test_programs_are_told_apart(programs):
    needed = programs.run()[2]
    command = ["-c", PROGRAM]
    assert programs.run(command=command)[0] == 0
    assert programs.run(command=command)[0] == needed
    other = programs.file.with_name("other.py")
    other.write_text(PROGRAM)
    assert programs.run(command=[str(other)])[0] == 0
    link = programs.file.with_name("link.py")
    link.symlink_to(programs.file)
    assert programs.run(command=[str(link)])[0] == needed


def test_a_damaged_forecast_is_no_forecast(programs):
    _, _, needed, result = programs.run()
    (path,) = programs.forecasts()
    sound = path.read_bytes()
    path.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    assert programs.run() == (0, 0, needed, result)
    assert programs.run()[0] == needed


def test_a_folder_that_is_gone_stays_away(programs):
    gone = PROGRAM + "import shutil; shutil.rmtree(os.environ['MT_JIT_FLAGS'].partition('=')[2])"
    programs.run(command=["-c", gone])
    assert not programs.cache.exists()


WATCHED = """
import sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in ("minitensor_jit.ir", "minitensor_jit.api"):
            print(sys.modules["minitensor._C"].bytes_ahead(), end=" ")
sys.meta_path.insert(0, Watch())
"""


def test_it_begins_before_the_compiler_is_imported(programs):
    command = ["-c", WATCHED + PROGRAM]
    needed, result = programs.run(command=command)[2:]
    assert result[:2] == ["0", "0"]
    assert programs.run(command=command)[3] == [str(needed)] * 2 + result[2:]


def test_a_folder_open_to_others_is_still_refused(programs):
    programs.run()
    programs.cache.chmod(0o777)
    with pytest.raises(AssertionError, match=r"CacheDirectoryError: .*others can write to it"):
        programs.run()
