"""Random programs about the edges of autograd, step by step in PyTorch and here.

Functions, views, writes in place, hooks, modes, checkpoints, copies: after each step everything that can be seen of
each tensor is compared, and so is the class of an exception. What differs is printed as the smallest script that does.

    python tests/fuzz/autograd/programs.py 5000 --seed 1
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # the modules of the tests are found from their folder
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from fuzz.autograd.maker import Maker
from fuzz.autograd.runs import Program, compare, compare_recorded


def shrink(program: Program, fails: Any) -> Program:
    """The smallest program that still fails, dropping one line after the other."""
    lines = list(program.lines)
    size = max(1, len(lines) // 2)
    while size:
        at = 0
        changed = False
        while at < len(lines):
            fewer = lines[:at] + lines[at + size :]
            if fails(Program(fewer)):
                lines, changed = fewer, True
            else:
                at += size
        size = size if changed and size == 1 else size // 2
    return Program(lines)


def check(seed: int, torch: Any, length: int) -> tuple[Program, str] | None:
    """What one drawn program shows, with the smallest that shows something."""
    program = Maker(seed, torch, length).program()
    found = compare(program, torch)
    if found is not None:
        small = shrink(Program(program.lines[: found[0] + 1]), lambda p: compare(p, torch) is not None)
        again = compare(small, torch)
        return small, again[1] if again else found[1]
    return None


def check_recorded(seed: int, torch: Any, length: int) -> tuple[Program, str] | None:
    """The same for the program recorded, against eager."""
    program = Maker(seed, torch, length).program()
    found = compare_recorded(program)
    if found is None:
        return None
    small = shrink(program, lambda p: compare_recorded(p) is not None)
    return small, compare_recorded(small) or found


def in_a_child(seeds: list[int], work: Any) -> None:
    """Runs it for the seeds in a process of its own, so that a crash is one program's."""
    todo = list(seeds)
    while todo:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            for seed in todo:
                os.write(write, b".")
                work(seed)
            os._exit(0)
        os.close(write)
        begun = 0
        while got := os.read(read, 4096):
            begun += len(got)
        os.close(read)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) == 0:
            return
        print(f"seed {todo[begun - 1]}: the process ended with {os.waitstatus_to_exitcode(status)}", flush=True)
        todo = todo[begun:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("programs", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--length", type=int, default=14)
    parser.add_argument("--recorded", action="store_true", help="compare recorded runs with eager ones")
    args = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    one = check_recorded if args.recorded else check

    def work(seed: int) -> None:
        found = one(seed, torch, args.length)
        if found is not None:
            print(f"#### seed {seed}\n{found[0].text()}\n# {found[1]}\n", flush=True)

    step = 50
    for first in range(args.seed, args.seed + args.programs, step):
        in_a_child(list(range(first, min(first + step, args.seed + args.programs))), work)
    print(f"{args.programs} programs", flush=True)


if __name__ == "__main__":
    main()
