"""Compares this checkout with another one by instructions, case by case: python -m benchmarks.instructions ../before.

Both are built in place, and valgrind with its headers and a C compiler are there. The cases are this checkout's, on one
thread. Instructions don't change with the load of the machine, so that a per cent can be told where times differ by
ten. They say nothing of memory, and valgrind has no AVX-512 (`MT_ISA` is avx2 at most). A ratio above 1 says that this
checkout runs more.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What valgrind is told from within the process: to begin at zero, and to write down what was counted.
MARKS = """
#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_ZERO_STATS; }
void end(void) { CALLGRIND_DUMP_STATS; }
"""
# Of small calls, so that what runs now and then is shared out among them.
MANY, FEW = 60, 2
SMALL = re.compile("^(one_|eager_|record_)")


class Counter:
    """Counts what is run in this process, which valgrind runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._marks = ctypes.CDLL(str(folder / "marks.so"))
        self._parts = 0

    def count(self, timed: object, number: int) -> int:
        """The instructions of `number` runs."""
        self._marks.begin()
        timed.seconds(number)  # type: ignore[attr-defined]
        self._marks.end()
        self._parts += 1
        part = self._folder / f"counts.{self._parts}"
        found = re.search(r"^(?:summary|totals): (\d+)", part.read_text(), re.MULTILINE)
        part.unlink()
        assert found is not None, "valgrind counted nothing"
        return int(found[1])


def counted(folder: Path, packages: str, pattern: str) -> None:
    """Print the instructions of a run of each case, in a process of valgrind's."""
    sys.path.insert(0, packages)
    import minitensor as mt

    assert Path(mt.__file__).is_relative_to(packages), f"minitensor is {mt.__file__}, not in {packages}"
    from benchmarks.case import OURS, load_cases

    mt.set_num_threads(1)
    counter = Counter(folder)
    for name, case in load_cases().items():
        if not re.search(pattern, name) or OURS not in case.contenders or case.device != "cpu" or case.alone:
            continue
        number = MANY if SMALL.match(name) else FEW
        timed = case.contenders[OURS]()
        timed.seconds(FEW + 1)
        gc.collect()
        gc.disable()
        # The difference leaves out what a loop costs by itself.
        once, twice = counter.count(timed, number), counter.count(timed, 2 * number)
        gc.enable()
        print(name, (twice - once) // number, flush=True)


def instructions_of(root: Path, pattern: str) -> dict[str, int]:
    """The instructions of each case with the packages of a checkout."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "marks.c").write_text(MARKS)
        library = str(folder / "marks.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, str(folder / "marks.c")], check=True)
        command = ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={folder}/counts", sys.executable]
        command += ["-W", "ignore", "-m", "benchmarks.instructions", str(root), "--filter", pattern]
        environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT), "MINITENSOR_COUNTS": name}
        run = subprocess.run(command, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True)
    if run.returncode:
        raise SystemExit(f"valgrind ended with status {run.returncode}")
    return {case: int(count) for case, count in map(str.split, run.stdout.splitlines())}


def main() -> int:
    """Print the instructions of a run of each case before and after, and their ratio; 1 if one is above the limit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions", description=__doc__)
    parser.add_argument("before", type=Path, help="the other checkout")
    parser.add_argument(
        "--filter", default="^(one|nn|index)_", metavar="RE", help="only cases that match (%(default)s)"
    )
    parser.add_argument("--more", type=float, default=1.03, metavar="R", help="the most that passes (%(default)s)")
    args = parser.parse_args()
    if inside := os.environ.get("MINITENSOR_COUNTS"):
        counted(Path(inside), str(args.before), args.filter)
        return 0
    before, after = (instructions_of(root.resolve(), args.filter) for root in (args.before, ROOT))
    ratios = {}
    for name in before.keys() & after.keys():
        if min(before[name], after[name]) > 0:
            ratios[name] = after[name] / before[name]
    for name, ratio in sorted(ratios.items(), key=lambda pair: pair[1]):
        more = "  more" if ratio > args.more else ""
        print(f"{name:<44}{before[name]:>14,}{after[name]:>14,}{ratio:8.3f}{more}")
    if not ratios:
        raise SystemExit("no case matches")
    mean = math.exp(statistics.mean(map(math.log, ratios.values())))
    print(f"{len(ratios)} cases, median {statistics.median(ratios.values()):.4f}, geometric mean {mean:.4f}")
    return int(max(ratios.values()) > args.more)


if __name__ == "__main__":
    sys.exit(main())
