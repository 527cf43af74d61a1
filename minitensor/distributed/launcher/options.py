"""The launcher's command line: torchrun's."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

__all__ = ["parsed"]


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options. Each may be written with - or _, and may come from ``PET_...`` in the environment."""
    parser = argparse.ArgumentParser(
        prog="python -m minitensor.distributed.run",
        description="Starts several processes of a program, and tells each its rank.",
        allow_abbrev=False,
    )

    def add(name: str, default: str | None = None, **more: object) -> None:
        names = [f"--{name}"] + ([f"--{name.replace('-', '_')}"] if "-" in name else [])
        short = more.pop("short", None)
        if more.get("action") == "store_true":
            more["default"] = os.environ.get(f"PET_{name.replace('-', '_').upper()}", "0") == "1"
        else:
            more["default"] = os.environ.get(f"PET_{name.replace('-', '_').upper()}", default)
        parser.add_argument(*([str(short)] if short else []), *names, **more)  # type: ignore[arg-type]

    add("nnodes", "1", help="the number of machines, or 'least:most' with both the same")
    add("nproc-per-node", "1", help="processes on this machine: a number, or auto, cpu or gpu")
    add("rdzv-backend", "static", help="c10d or static; both meet in a store that one machine serves")
    add("rdzv-endpoint", "", help="host[:port] of the machine that serves the store")
    add("rdzv-id", "none", help="a name of the job")
    add("rdzv-conf", "", help="further settings, 'key=value,...': timeout, join_timeout, is_host")
    add("standalone", action="store_true", help="one machine, and any free port")
    add("max-restarts", "0", type=int, help="how often all processes are started again when one has failed")
    add("monitor-interval", "0.1", type=float, help="seconds between looks at the processes")
    add("start-method", "spawn", choices=["spawn", "fork", "forkserver"], help="for torchrun's sake: all are new")
    add("role", "default", help="a name of what the processes do")
    add("module", short="-m", action="store_true", help="the program is a module, as in python -m")
    add("no-python", action="store_true", help="the program is started as it is, without Python")
    add("run-path", action="store_true", help="for torchrun's sake: the program runs as __main__ in any case")
    add("log-dir", None, help="where outputs that are redirected or copied are written")
    add("redirects", "0", short="-r", help="outputs that go to files: 1 stdout, 2 stderr, 3 both; or rank:which,...")
    add("tee", "0", short="-t", help="outputs that go to files and here, written likewise")
    add("local-ranks-filter", "", help="ranks of this machine whose outputs are shown here, with commas")
    add("node-rank", "0", type=int, help="this machine's number, with a static rendezvous")
    add("master-addr", "127.0.0.1", help="the host of machine 0, with a static rendezvous")
    add("master-port", "29500", type=int, help="the port there")
    add("local-addr", None, help="this machine's address, if it is not the one by which others are reached")
    add("as-torch", action="store_true", help="the program imports torch, and is to run on minitensor")
    parser.add_argument("training_script", help="the program, or a module with -m")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER, help="its arguments")
    options = parser.parse_args(arguments)
    least, _, most = options.nnodes.partition(":")
    try:
        options.nodes = int(least)
        if options.nodes < 1 or (most and int(most) != options.nodes):
            raise ValueError
    except ValueError:
        parser.error(f"--nnodes: expected a number of machines, which doesn't change later, not {options.nnodes}")
    options.processes = _processes(parser, options.nproc_per_node)
    options.conf = dict(pair.split("=", 1) for pair in options.rdzv_conf.split(",") if "=" in pair)
    if options.rdzv_backend not in ("c10d", "static"):
        parser.error(f"--rdzv-backend: there are c10d and static, not {options.rdzv_backend}")
    if options.standalone and options.nodes > 1:
        parser.error("--standalone is for one machine")
    if options.max_restarts < 0:
        parser.error("--max-restarts: expected a number from 0 on")
    for name in ("redirects", "tee"):
        setattr(options, name, _streams(parser, name, getattr(options, name), options.processes))
    try:
        options.shown = {int(one) for one in options.local_ranks_filter.split(",") if one}
    except ValueError:
        parser.error(f"--local-ranks-filter: expected numbers, not {options.local_ranks_filter}")
    alias = sys.modules.get("minitensor.as_torch.finder")
    options.as_torch |= alias is not None and alias.is_installed()
    return options


def _processes(parser: argparse.ArgumentParser, text: str) -> int:
    if text in ("auto", "cpu", "gpu", "xpu"):
        if text in ("gpu", "xpu"):
            parser.error(f"--nproc-per-node={text}: several processes don't share a GPU here; name a number")
        return len(os.sched_getaffinity(0))
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        parser.error(f"--nproc-per-node: expected a number of processes, auto or cpu, not {text}")
    return count


def _streams(parser: argparse.ArgumentParser, name: str, text: str, processes: int) -> list[int]:
    """Which outputs, a number from 0 to 3, of each process."""
    try:
        if ":" not in text:
            return [{0: 0, 1: 1, 2: 2, 3: 3}[int(text)]] * processes
        found = [0] * processes
        for pair in text.split(","):
            rank, _, which = pair.partition(":")
            found[int(rank)] = {0: 0, 1: 1, 2: 2, 3: 3}[int(which)]
        return found
    except (ValueError, KeyError, IndexError):
        parser.error(f"--{name}: expected 0, 1, 2 or 3, or rank:number pairs with commas, not {text}")
