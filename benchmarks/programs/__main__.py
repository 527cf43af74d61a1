"""Times ordinary programs with the flags and without: ``python -m benchmarks.programs``.

Every run is a process of its own, from the start of Python to its end: eagerly; with either level of ``--auto_jit``
from an empty cache; and once more with the cache that it left. Rounds alternate between all of these; the figures are
medians. What the runs print must be equal.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tqdm import tqdm

from benchmarks import report
from benchmarks.programs import limits
from benchmarks.programs.case import load_all
from benchmarks.run import THREADS, prepare

PATIENCE = 300.0


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.programs", description=__doc__.partition("\n")[0])
    parser.add_argument("--filter", type=re.compile, default=re.compile(""), metavar="RE", help="only names that match")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="processes of each sort (%(default)s)")
    parser.add_argument(
        "--iterations", type=float, default=1.0, metavar="X", help="X times as many iterations (%(default)s)"
    )
    parser.add_argument("--threads", type=int, default=THREADS, metavar="N", help="threads a process (%(default)s)")
    parser.add_argument("--level", type=int, choices=(1, 2), help="only this level")
    parser.add_argument("--flags", default="", help="more flags of the compiler")
    parser.add_argument("--cpu-time", action="store_true", help="the process's CPU time, without the helper's")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    parser.add_argument("--list", action="store_true", help="name the programs and end")
    return parser.parse_args(argv)


def cpu_seconds() -> float:
    """Return what processes that have been waited for took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(
    name: str, iterations: int, flags: str | None, clock: Callable[[], float] = time.perf_counter
) -> tuple[float, str]:
    """Run a program in a process; return its seconds and what it printed.

    What it has left running, such as the compiler, is waited for: the next run is not there yet.
    """
    environment = {key: value for key, value in os.environ.items() if key != "MT_JIT_FLAGS"}
    if flags is not None:
        environment["MT_JIT_FLAGS"] = flags
    command = [sys.executable, "-m", "benchmarks.programs.one", name, str(iterations)]
    ended, alive = os.pipe()
    with open(ended, "rb") as everybody:
        begin = clock()
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=PATIENCE, pass_fds=[alive]
            )
            seconds = clock() - begin
        finally:
            os.close(alive)
        everybody.read()  # until nobody has the other end
    if done.returncode:
        raise RuntimeError(f"{name} with the flags {flags!r} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return seconds, done.stdout


def one_round(
    name: str, iterations: int, levels: list[int], more: str, clock: Callable[[], float], tick
) -> tuple[dict[str, float], list[str]]:
    """Run a program in all ways; return the seconds of each, and the ways that printed something else."""
    seconds, differ = {}, []
    seconds[limits.EAGER], expected = timed(name, iterations, None, clock)
    tick()
    for level in levels:
        with tempfile.TemporaryDirectory() as folder:
            flags = f"--auto_jit={level} --cpu_global_jit --persistent_cache_directory={folder} {more}".strip()
            for way in (f"level {level}", f"level {level} again"):
                seconds[way], printed = timed(name, iterations, flags, clock)
                if printed != expected:
                    differ.append(way)
                tick()
    return seconds, differ


def line(name: str, medians: dict[str, float], differ: list[str], pays: bool) -> str:
    """Return the line of a program: the eager time, then ratios and what was taken more."""
    eager = medians[limits.EAGER]
    missed = limits.missed(medians)
    cells = [
        f"{medians[way] / eager:5.2f}{(medians[way] - eager) * 1e3:+6.0f}{'!' if way in missed else ' '}"
        for way in limits.LIMITS
        if way in medians
    ]
    wrong = f"  PRINTED SOMETHING ELSE: {', '.join(differ)}" if differ else ""
    return f"{name + (' *' if pays else ''):<36} {eager * 1e3:5.0f}  " + "  ".join(cells) + wrong


def main(argv: list[str] | None = None) -> int:
    """Run the programs; return 1 if a limit is missed or a result differs."""
    args = parse_args(argv)
    chosen = {name: p for name, p in load_all().items() if args.filter.search(name)}
    if args.list or not chosen:
        for name, p in load_all().items():
            print(f"{name + (' *' if p.pays else ''):<36} {p.run.__doc__.partition(chr(10))[0]}")
        return 0 if args.list else 2
    cpus = prepare(args.threads)
    command = f"python -m benchmarks.programs {shlex.join(sys.argv[1:] if argv is None else argv)}".strip()
    about = report.header(command, cpus)
    for key, value in about.items():
        print(f"{key + ':':<10} {value}")
    levels = [args.level] if args.level else [1, 2]
    clock = cpu_seconds if args.cpu_time else time.perf_counter
    ways = [way for way in limits.LIMITS if int(way.split()[1]) in levels]
    print(
        f"\n{'program (* has something to win)':<36} {'ms':>5}  " + "  ".join(f"{way:>12}" for way in ways), flush=True
    )

    medians: dict[str, dict[str, float]] = {}
    results = []
    with tqdm(total=len(chosen) * args.rounds * (1 + len(ways)), unit="run", disable=None) as bar:
        for name, p in chosen.items():
            iterations = max(p.few, round(p.iterations * args.iterations))
            samples: dict[str, list[float]] = {}
            wrong: set[str] = set()
            for _ in range(args.rounds):
                seconds, differ = one_round(name, iterations, levels, args.flags, clock, bar.update)
                wrong.update(differ)
                for way, value in seconds.items():
                    samples.setdefault(way, []).append(value)
            medians[name] = {way: statistics.median(values) for way, values in samples.items()}
            bar.write(line(name, medians[name], sorted(wrong), p.pays), file=sys.stdout)
            sys.stdout.flush()
            result = {
                "program": name,
                "pays": p.pays,
                "iterations": iterations,
                "seconds": samples,
                "medians": medians[name],
            }
            results.append(result | {"differ": sorted(wrong), "missed": limits.missed(medians[name])})
            if args.json:
                args.json.write_text(json.dumps({"about": about, "results": results}, indent=1) + "\n")
    winners = {name for name, p in chosen.items() if p.pays}
    print()
    print("\n".join(limits.summary(medians, winners)))
    bad = any(result["differ"] or result["missed"] for result in results)
    return int(bad or not limits.winners_met(medians, winners))


if __name__ == "__main__":
    sys.exit(main())
