"""Times minitensor and its peers: ``python -m benchmarks.run``.

Every contender has a process of its own; they are timed in turns, round after round, so that a change of the machine's
speed touches all of them. The figure of a contender is the median of its rounds, or with ``--best`` the shortest of
many short loops in them, which other programs on the machine disturb least; a ratio is ours divided by the peer's.
``--cpu-time``, for one thread, leaves out the time in which other programs had its processor.
Cases in groups have goals together, which are summed up at the end. ``--memory`` measures those cases' memory instead.
``--device cuda`` runs the cases for GPUs, and writes ``docs/gpu-results.md`` when all of them have run; another page,
which ``--page`` names, after each. So are the figures of ``--json`` there: ``--resume`` goes on behind them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shlex
import statistics
import sys
import time
from pathlib import Path

from benchmarks import gpu_report, groups, memory, report
from benchmarks.case import CPU_TIME, OURS, Case, load_cases
from benchmarks.core_distance import CoreDistance
from benchmarks.worker import Worker

THREADS = 2
# Seconds of a loop with ``--best``: less than the system's scheduler gives a program at a time.
PIECE = 0.002
# Every library reads its own.
THREAD_VARIABLES = (
    "MT_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
)
# Without bytecode on disk every process compiles all sources before it does anything.
UNWANTED_VARIABLE = "PYTHONDONTWRITEBYTECODE"
# torch.compile would leave a pool of compilers behind.
OTHER_VARIABLES = {
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    # JAX would take three quarters of a GPU's memory from the others.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}
TIME_UP = 3
"""The exit status where cases are left because of ``--seconds``."""


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__.partition("\n")[0])
    parser.add_argument("--filter", type=re.compile, default=re.compile(""), metavar="RE", help="only cases that match")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="whose cases (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    parser.add_argument("--min-time", type=float, default=1.0, metavar="S", help="seconds a contender (%(default)s)")
    parser.add_argument("--rounds", type=int, default=9, metavar="N", help="rounds a case (%(default)s)")
    parser.add_argument("--threads", type=int, default=THREADS, metavar="N", help="threads a contender (%(default)s)")
    parser.add_argument("--best", action="store_true", help="compare the shortest loops, not the medians")
    parser.add_argument("--cpu-time", action="store_true", help="count a thread's time on its processor only")
    parser.add_argument("--memory", action="store_true", help="measure the peak of memory of the cases in groups")
    parser.add_argument("--page", type=Path, metavar="FILE", help="for cuda: the page, written after every case")
    parser.add_argument("--resume", action="store_true", help="leave out the cases that FILE of --json has")
    parser.add_argument("--seconds", type=float, default=math.inf, metavar="S", help="begin no case after S seconds")
    parser.add_argument("--patience", type=float, default=900.0, metavar="S", help="end a contender silent for S")
    parser.add_argument("--list", action="store_true", help="name the cases and end")
    args = parser.parse_args(argv)
    if args.cpu_time and args.threads != 1:
        parser.error("--cpu-time counts one thread: it needs --threads 1")
    if args.resume and not args.json:
        parser.error("--resume goes on behind the figures of --json FILE")
    return args


def measure(
    case: Case, workers: dict[str, Worker], rounds: int, min_time: float, piece: float, patience: float
) -> tuple[dict, dict]:
    """Return the samples of each contender, and the problems of those that have none."""
    samples: dict[str, list[float]] = {}
    problems: dict[str, str] = {}
    for name in case.contenders:
        if case.alone and name in workers:
            workers.pop(name).close()
        if name not in workers:
            workers[name] = Worker(name, patience)
        if (problem := workers[name].prepare(case.name, min_time / rounds, piece)) is None:
            samples[name] = []
        else:
            problems[name] = problem
    for _ in range(rounds):
        for name in list(samples):
            answer = workers[name].round()
            if isinstance(answer, float):
                samples[name].append(answer)
            else:
                problems[name] = answer
                del samples[name]
    for name in case.contenders:
        workers[name].drop()
        # A process that a crash ended is replaced for the next case.
        if case.alone or problems.get(name, "").startswith("the process ended"):
            workers.pop(name).close()
    return samples, problems


def prepare(threads: int) -> list[int]:
    """Bind this process and those that it starts to so many CPUs and threads; return the CPUs."""
    cpus = sorted(os.sched_getaffinity(0))[:threads]
    os.sched_setaffinity(0, cpus)
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)) | OTHER_VARIABLES)
    os.environ.pop(UNWANTED_VARIABLE, None)
    return cpus


def main(argv: list[str] | None = None) -> int:
    """Run the cases; return 1 if a goal is missed or ours could not run."""
    args = parse_args(argv)
    cases = load_cases()
    chosen = [case for case in cases.values() if args.filter.search(case.name) and case.device == args.device]
    if args.list or not chosen:
        for case in cases.values():
            print(f"{case.name:<35} {case.title}")
        return 0 if args.list else 2

    if args.device == "cuda" and (problem := gpu_report.why_not()):
        print(f"no CUDA device to measure on: {problem}", file=sys.stderr)
        return 2
    cpus = prepare(args.threads)
    if args.cpu_time:
        os.environ[CPU_TIME] = "1"
    command = f"python -m benchmarks.run {shlex.join(sys.argv[1:] if argv is None else argv)}".strip()
    about = report.header(command, cpus) | (gpu_report.gpu() if args.device == "cuda" else {})
    distance = CoreDistance(*cpus[:2]) if len(cpus) > 1 else None
    if distance:
        about["cores"] = f"16 kB from one to another and back in {report.duration(distance())}"
    for key, value in about.items():
        print(f"{key + ':':<10} {value}")

    if args.memory:
        return memory.compare([case for case in chosen if case.group], args.json)

    results: list[dict] = []
    if args.resume and args.json.exists():
        results = [r for r in json.loads(args.json.read_text())["results"] if r["case"] in cases]
    known = {r["case"] for r in results}
    failed = any(OURS not in r["medians"] or False in r["goals"] for r in results)
    until, cut = time.monotonic() + args.seconds, False
    ratios: dict[str, float] = {}
    figure = min if args.best else statistics.median
    workers: dict[str, Worker] = {}
    try:
        for case in chosen:
            if case.name in known:
                continue
            if time.monotonic() >= until:
                cut = True
                break
            if not case.group:
                print(f"\n{case.name}: {case.title}", flush=True)
            samples, problems = measure(
                case, workers, args.rounds, args.min_time, PIECE if args.best else math.inf, args.patience
            )
            medians = {name: figure(times) for name, times in samples.items()}
            if case.group:
                if len(medians) == 2:
                    ratios[case.name] = medians[OURS] / medians["torch"]
                print(groups.line(case, medians, problems), flush=True)
            else:
                print(report.table(report.rows(case, medians, problems)), flush=True)
            if OURS in problems:
                print(problems[OURS], file=sys.stderr)
            met = [goal.met(medians) for goal in case.goals]
            failed |= OURS not in medians or False in met
            results.append(
                {"case": case.name, "title": case.title, "seconds": samples, "medians": medians, "goals": met}
                | {"problems": problems, "group": case.group}
            )
            if args.json:
                _write(args.json, json.dumps({"about": about, "results": results}, indent=1) + "\n")
            if args.device == "cuda" and args.page:
                gpu_report.write(about, _measured(cases, results), args.page)
    finally:
        for worker in workers.values():
            worker.close()
    if distance:
        about["cores"] += f", {report.duration(distance())} at the end"
        print(f"\n{'cores:':<10} {about['cores']}")
    if ratios:
        print("\n" + groups.summary({name: cases[name] for name in ratios}, ratios))
        failed |= not groups.all_met({name: cases[name] for name in ratios}, ratios)
    if args.device == "cuda" and len(results) == sum(case.device == "cuda" for case in cases.values()):
        gpu_report.write(about, _measured(cases, results))
        print(f"\nwritten to {gpu_report.PAGE}")
    return TIME_UP if cut else int(failed)


def _measured(cases: dict[str, Case], results: list[dict]) -> list[gpu_report.Result]:
    return [(cases[r["case"]], r["medians"], r["problems"]) for r in results]


def _write(path: Path, text: str) -> None:
    """All of it or nothing: whoever ends the program in between keeps the figures of before."""
    draft = path.with_name(path.name + ".draft")
    draft.write_text(text)
    draft.replace(path)


if __name__ == "__main__":
    sys.exit(main())
