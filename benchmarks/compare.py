"""Compares this checkout with another one, case by case: python -m benchmarks.compare ../before.

Both are built in place. The cases are this checkout's; each side runs them in a process of its own, in turns. A ratio
above 1 says that this checkout is slower.

Each side is copied several times, and the median of the copies counts: in which pages of memory the system keeps an
extension's file changed the time of a one-element add by 15 % between copies of one build (84 and 97 ns, AMD EPYC,
2026-11-24).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.case import CPU_TIME, OURS, load_cases
from benchmarks.run import THREADS, prepare
from benchmarks.worker import Worker

ROOT = Path(__file__).resolve().parent.parent


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("before", type=Path, help="the other checkout")
    parser.add_argument("--filter", type=re.compile, default=re.compile(""), metavar="RE", help="only cases that match")
    parser.add_argument("--min-time", type=float, default=0.2, metavar="S", help="seconds a copy (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="rounds a copy (%(default)s)")
    parser.add_argument("--copies", type=int, default=5, metavar="N", help="copies of each side (%(default)s)")
    parser.add_argument("--threads", type=int, default=THREADS, metavar="N", help="threads (%(default)s)")
    parser.add_argument("--cpu-time", action="store_true", help="count a thread's time on its processor only")
    parser.add_argument("--slower", type=float, default=1.02, metavar="R", help="the most that passes (%(default)s)")
    parser.add_argument("--patience", type=float, default=300.0, metavar="S", help="end a side silent for S")
    args = parser.parse_args(argv)
    for root in (args.before, ROOT):
        if not list(root.glob("minitensor/_C.*.so")):
            parser.error(f"{root}: minitensor is not built there (python setup.py build_ext --inplace)")
    return args


def _packages(root: Path, folder: Path) -> str:
    """A copy of the packages of a checkout, but for its benchmarks."""
    left_out = shutil.ignore_patterns("__pycache__")
    for name in ("minitensor", "minitensor_jit"):
        shutil.copytree(root / name, folder / name, ignore=left_out)
    return str(folder)


def _started(packages: str, patience: float) -> Worker:
    """A process that finds minitensor there: it has this one's path."""
    sys.path.insert(0, packages)
    try:
        return Worker(OURS, patience)
    finally:
        sys.path.remove(packages)


def _rounds(pair: tuple[str, str], case: str, args: argparse.Namespace) -> tuple[float, float] | str:
    """The medians of a copy of each side, in seconds, or what stands against it."""
    workers = [_started(packages, args.patience) for packages in pair]
    try:
        for worker in workers:
            if problem := worker.prepare(case, args.min_time / args.rounds):
                return problem.strip().splitlines()[-1]
        samples: tuple[list[float], list[float]] = ([], [])
        for n in range(args.rounds):
            for side in (0, 1) if n % 2 else (1, 0):
                answer = workers[side].round()
                if not isinstance(answer, float):
                    return str(answer).strip().splitlines()[-1]
                samples[side].append(answer)
        return statistics.median(samples[0]), statistics.median(samples[1])
    finally:
        for worker in workers:
            worker.close()


def compare(pairs: list[tuple[str, str]], case: str, args: argparse.Namespace) -> tuple[float, float] | str:
    """The medians of all copies of both sides, in seconds, or what stands against it."""
    medians = []
    for pair in pairs:
        found = _rounds(pair, case, args)
        if isinstance(found, str):
            return found
        medians.append(found)
    before, here = zip(*medians, strict=True)
    return statistics.median(before), statistics.median(here)


def main(argv: list[str] | None = None) -> int:
    """Run the cases; return 1 if one is slower than it may be."""
    args = parse_args(argv)
    prepare(args.threads)
    if args.cpu_time:
        os.environ[CPU_TIME] = "1"
    ratios: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        pairs = [
            (_packages(args.before, Path(folder, f"before{n}")), _packages(ROOT, Path(folder, f"here{n}")))
            for n in range(args.copies)
        ]
        for case in load_cases().values():
            if not args.filter.search(case.name) or case.device != "cpu" or OURS not in case.contenders:
                continue
            found = compare(pairs, case.name, args)
            if isinstance(found, str):
                print(f"{case.name:<40} {found}", flush=True)
                continue
            ratios.append(found[1] / found[0])
            mark = "  slower" if ratios[-1] > args.slower else ""
            print(
                f"{case.name:<40} {found[0] * 1e6:>12.2f} us {found[1] * 1e6:>12.2f} us {ratios[-1]:>7.3f}{mark}",
                flush=True,
            )
    if not ratios:
        print("no case could be compared", file=sys.stderr)
        return 2
    print(f"{len(ratios)} cases, geometric mean {statistics.geometric_mean(ratios):.3f}")
    return int(max(ratios) > args.slower)


if __name__ == "__main__":
    sys.exit(main())
