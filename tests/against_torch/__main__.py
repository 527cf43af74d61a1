"""Runs the comparison: `python -m tests.against_torch --ops 'linalg.*' --dtypes float32 float64`."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import re
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tests.against_torch.worker import work

ALL_CHECKS = [
    "values", "strided", "layout", "method", "inplace", "out", "expanded", "errors", "grad", "gradgrad", "compiled",
]  # fmt: skip
ALL_DTYPES = [
    "float32", "float64", "int64", "bool", "uint8", "int8", "int16", "int32", "uint16", "uint32", "uint64", "float16",
    "bfloat16", "complex64", "complex128",
]  # fmt: skip
# What PyTorch tests but does not offer under a public name, or what is not part of a dense CPU and GPU framework.
OUTSIDE = re.compile(
    r"^(_|torch\.ops|ops\.|sparse\.|nested|masked\.|.*jiterator|to_sparse|signal\.|chalf$|native_dropout_backward$|"
    r"max_pool2d_with_indices_backward$|torch\._)"
)


def main() -> int:
    """Run, print and maybe store; 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", default="", help="a regular expression that an op's whole name matches")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "float64", "int64", "bool"], choices=ALL_DTYPES)
    parser.add_argument("--all-dtypes", action="store_true")
    parser.add_argument("--checks", nargs="+", default=ALL_CHECKS, choices=ALL_CHECKS)
    parser.add_argument("--most", type=int, default=40, help="samples of an op for each dtype")
    parser.add_argument("--json", type=Path, help="where to store the results")
    parser.add_argument("--sample", type=int, metavar="N", help="only so many ops, drawn by chance")
    parser.add_argument("--seed", type=int, help="draws those of an earlier run again")
    parser.add_argument("--quiet", action="store_true", help="only the sums")
    given = parser.parse_args()

    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

    pattern = re.compile(given.ops or ".*")
    places = [i for i, op in enumerate(op_db) if pattern.fullmatch(op.name) and not OUTSIDE.match(op.name)]
    if given.sample is not None:
        seed = random.randrange(1 << 32) if given.seed is None else given.seed
        print(f"{given.sample} of {len(places)} ops: --sample {given.sample} --seed {seed}", flush=True)
        places = sorted(random.Random(seed).sample(places, min(given.sample, len(places))))
    arguments = {
        "dtypes": set(ALL_DTYPES if given.all_dtypes else given.dtypes),
        "checks": set(given.checks),
        "most": given.most,
    }
    outcomes = _run(places, op_db, arguments)
    outcomes.sort(key=lambda o: o["op"])
    _report(outcomes, given.quiet)
    if given.json:
        what = "--all-dtypes" if given.all_dtypes else "--dtypes " + " ".join(given.dtypes)
        if given.checks != ALL_CHECKS:
            what += " --checks " + " ".join(given.checks)
        stored = {"run": f"{what} --most {given.most}", "commit": _commit(), "outcomes": outcomes}
        given.json.write_text(json.dumps(stored, indent=1) + "\n")
    return int(any(o["failed"] for o in outcomes))


def _commit() -> str:
    """The commit that the results are of."""
    here = Path(__file__).resolve().parent
    return subprocess.check_output(["git", "-C", here, "rev-parse", "--short=8", "HEAD"], text=True).strip()


def _run(places: list[int], op_db: Any, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """In a process of its own: an op that crashes it is reported, and the rest goes on in the next one."""
    context = multiprocessing.get_context("spawn")
    outcomes = []
    left = list(places)
    with tqdm(total=len(places), unit="op", disable=not sys.stderr.isatty()) as progress:
        while left:
            names, results = context.Queue(), context.Queue()
            for place in [*left, None]:
                names.put(place)
            worker = context.Process(target=work, args=(names, results, arguments))
            worker.start()
            running = None
            while left:
                try:
                    message = results.get(timeout=1)
                except Exception:
                    if worker.is_alive():
                        continue
                    place = left[0] if running is None else running
                    outcomes.append(
                        {"op": op_db[place].name, "passed": {}, "failed": {"crash": 1},
                         "examples": {"crash": f"the process ended with {worker.exitcode}"}}
                    )  # fmt: skip
                    left.remove(place)
                    progress.update()
                    break
                if message[0] == "began":
                    running = message[1]
                else:
                    outcomes.append(message[2])
                    left.remove(message[1])
                    running = None
                    progress.update()
            worker.terminate() if left == [] else None
            worker.join()
    return outcomes


def _report(outcomes: list[dict[str, Any]], quiet: bool) -> None:
    passed: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for o in outcomes:
        passed.update(o["passed"])
        failed.update(o["failed"])
        if not quiet:
            for check, text in o["examples"].items():
                print(f"{o['op']} {check} ({o['failed'][check]} failed, {o['passed'].get(check, 0)} passed): {text}")
    good = sum(not o["failed"] for o in outcomes)
    print(f"{good} of {len(outcomes)} ops agree in everything")
    for check in sorted({*passed, *failed}):
        print(f"  {check}: {passed[check]} passed, {failed[check]} failed")


if __name__ == "__main__":
    sys.exit(main())
