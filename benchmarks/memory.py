"""How much memory an op needs beyond its operands, beside PyTorch: ``python -m benchmarks.run --memory``.

Each contender runs the statement once in a process of its own, frees what it gave, and runs it again. What counts is
how far the process's resident memory rises during the second run, as the operating system sees it: results, temporaries
and whatever else the library takes, but not what it sets up once.
"""

from __future__ import annotations

import ctypes
import gc
import json
import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.case import OURS, Case, Snippet, load_cases

# Ours hands out whole huge pages where a tensor is large: up to 2 MB more for each, 6 % at 40 MB.
SLACK, SHARE = 2 << 20, 0.06


def _status(field: str) -> int:
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"the operating system does not tell {field}")


def _settle(library: str) -> None:
    """Give back to the operating system what is not in use."""
    gc.collect()
    if library == OURS:
        import minitensor as mt

        mt.empty_cache()
    ctypes.CDLL(None).malloc_trim(0)


def _serve(pipe: Connection, library: str) -> None:
    cases = load_cases()
    while (name := pipe.recv()) is not None:
        try:
            timed = cases[name].contenders[library]()
            assert isinstance(timed, Snippet)
            timed.seconds(1)
            _settle(library)
            Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is resident
            before = _status("VmRSS")
            timed.seconds(1)
            pipe.send(max(0, _status("VmHWM") - before))
            del timed
            _settle(library)
        except Exception as error:
            pipe.send(f"{type(error).__name__}: {error}")


def measure(library: str, names: list[str]) -> dict[str, int | str]:
    """Return the peak in bytes of each case, or what stands against it."""
    context = multiprocessing.get_context("spawn")
    pipe, other = context.Pipe()
    process = context.Process(target=_serve, args=(other, library), daemon=True)
    process.start()
    other.close()
    peaks: dict[str, int | str] = {}
    try:
        for name in names:
            pipe.send(name)
            peaks[name] = pipe.recv()
        pipe.send(None)
        process.join(10)
    except EOFError:
        peaks[name] = "the process ended"
    return peaks


def compare(cases: list[Case], file: Path | None) -> int:
    """Print each case's peaks; return 1 if one is above torch's."""
    names = [case.name for case in cases]
    ours, theirs = measure(OURS, names), measure("torch", names)
    above = 0
    for name in names:
        mine, peer = ours.get(name, "-"), theirs.get(name, "-")
        if isinstance(mine, int) and isinstance(peer, int):
            more = mine > peer * (1 + SHARE) + SLACK
            above += more
            print(f"{name:<42} {mine / 1e6:9.2f} MB {peer / 1e6:9.2f} MB{' !' * more}")
        else:
            print(f"{name:<42} {mine} {peer}")
    print(f"\n{len(names)} cases, {above} above torch's by more than {SHARE:.0%} and {SLACK >> 20} MiB")
    if file:
        file.write_text(json.dumps({"minitensor": ours, "torch": theirs}, indent=1) + "\n")
    return int(above > 0)
