"""Where the time of the cases for GPUs goes, kernel by kernel: ``python -m benchmarks.gpu_profile FILE``.

Each case of ours runs some twenty times with ``hlo_profile``; FILE has its table, with the share of the GPU's
roofline that every kernel reaches, as soon as the case has run.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import traceback
from pathlib import Path

from benchmarks.case import OURS, Case, load_cases

RUNS = 20


def profile(case: Case) -> str:
    """The table of a case, or what stands against it."""
    import minitensor as mt

    mt.jit.hlo_profile(clear=True)
    try:
        with mt.jit.options(hlo_profile=True):
            timed = case.contenders[OURS]()
            timed.seconds(2)  # compiles
            mt.jit.hlo_profile(clear=True)
            timed.seconds(RUNS)
            text = mt.jit.hlo_profile().text()
    except Exception:
        text = traceback.format_exc(limit=-4)
    return f"== {case.name}: {case.title}\n{text}\n"


def main(argv: list[str] | None = None) -> int:
    """The exit status: 3 if time was up."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_profile", description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, help="where the tables go")
    parser.add_argument("--filter", type=re.compile, default=re.compile(""), metavar="RE", help="only cases that match")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), metavar="S", help="begin no case after S seconds"
    )
    args = parser.parse_args(argv)
    until = time.monotonic() + args.seconds
    with args.file.open("w") as file:
        for case in load_cases().values():
            if case.device != "cuda" or not args.filter.search(case.name):
                continue
            if time.monotonic() >= until:
                return 3
            file.write(profile(case))
            file.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
