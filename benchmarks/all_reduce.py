"""all_reduce between processes of this machine, beside torch.distributed's gloo and mpi4py, in turns.

`python -m benchmarks.all_reduce --ranks 2 [--transport tcp] [--torch]` prints, for each size, the least and the median
time, and the processor's time of rank 0, which others' load on the machine doesn't change much.

`python -m benchmarks.all_reduce --ranks 2 --mpi [--torch]` does so under `mpiexec`, for backends "mpi" and "gloo" and
mpi4py, each a job of its own, since two libraries of MPI's don't go together in a process: a job of each in a round.
The least of all and the median of the rounds' medians are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

SIZES = ((1, 300), (1_000, 300), (10_000, 100), (100_000, 40), (1_000_000, 15), (10_000_000, 7))
MORE = 10  # so many times the repeats, where a job has one contender


def shown(count: int, name: str, least: float, middle: float, cpu: float) -> None:
    """Print a line; times are in seconds."""
    print(
        f"{4 * count:>9} B  {name:<10} least {least * 1e6:9.1f} us  median {middle * 1e6:9.1f} us  "
        f"processor {cpu * 1e6:9.1f} us",
        flush=True,
    )


def contender(name: str, rank: int, size: int, meet: str) -> tuple[Callable[[Any], Any], Callable[[int], Any], Any]:
    """What reduces in place, what makes zeros, and what ends it."""
    if name == "mpi4py":
        import numpy as np
        from mpi4py import MPI  # type: ignore[import-not-found]

        return lambda x: MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, x), lambda n: np.zeros(n, np.float32), lambda: None
    if name == "torch":
        import torch
        import torch.distributed as theirs

        torch.set_num_threads(1)
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "False"
        theirs.init_process_group("gloo", init_method=f"file://{meet}.torch", rank=rank, world_size=size)
        return theirs.all_reduce, torch.zeros, theirs.destroy_process_group
    import minitensor as mt
    import minitensor.distributed as dist

    mt.set_num_threads(1)
    if name == "mpi":
        dist.init_process_group("mpi")
    else:
        dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=size)
    return dist.all_reduce, mt.zeros, dist.destroy_process_group


def rank_main(options: argparse.Namespace) -> None:
    """Measure; rank 0 prints."""
    rank = int(os.environ.get("PMI_RANK", os.environ.get("RANK", 0)))
    size = int(os.environ.get("PMI_SIZE", os.environ.get("WORLD_SIZE", 1)))
    names = options.contenders.split(",")
    contenders = [contender(name, rank, size, options.meet) for name in names]
    for count, repeats in SIZES:
        if len(names) == 1:
            repeats *= MORE if count <= 10_000 else 1
        data = [make(count) for _, make, _ in contenders]
        walls: list[list[float]] = [[] for _ in contenders]
        cpu = [0.0 for _ in contenders]
        for _ in range(repeats):
            for i, (call, _, _) in enumerate(contenders):
                call(data[i])
                before, begun = time.process_time(), time.perf_counter()
                call(data[i])
                walls[i].append(time.perf_counter() - begun)
                cpu[i] += time.process_time() - before
        if rank == 0:
            for i, name in enumerate(names):
                found = min(walls[i]), statistics.median(walls[i]), cpu[i] / repeats
                if options.json:
                    print(json.dumps([count, name, *found]), flush=True)
                else:
                    shown(count, name, *found)
    for _, _, end in contenders:
        end()


def main() -> None:
    """Start the ranks, or be one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--transport", choices=["shared_memory", "tcp"], default="shared_memory")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--mpi", action="store_true")
    parser.add_argument("--rounds", type=int, default=5, help="with --mpi")
    parser.add_argument("--contenders", help=argparse.SUPPRESS)
    parser.add_argument("--meet", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contenders:
        rank_main(options)
    elif options.mpi:
        compared_under_mpiexec(options)
    else:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "minitensor.distributed.run", "--nproc-per-node", str(options.ranks)]
            names = "minitensor,torch" if options.torch else "minitensor"
            command += ["-m", "benchmarks.all_reduce", "--meet", f"{folder}/store", "--contenders", names]
            environment = {**os.environ, "MT_DISTRIBUTED_TRANSPORT": options.transport, "PYTHONPATH": os.getcwd()}
            raise SystemExit(subprocess.run(command, env=environment).returncode)


def compared_under_mpiexec(options: argparse.Namespace) -> None:
    """A job of each contender in turns."""
    names = ["mpi4py", "mpi", "gloo", *(["torch"] if options.torch else [])]
    found: dict[tuple[int, str], list[tuple[float, float, float]]] = {}
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "OMP_NUM_THREADS": "1"}
    for _ in range(options.rounds):
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                command = ["mpiexec", "-n", str(options.ranks), sys.executable, "-m", "benchmarks.all_reduce", "--json"]
                command += ["--meet", f"{folder}/store", "--contenders", name]
                done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
            for line in done.stdout.splitlines():
                count, _, *times = json.loads(line)
                found.setdefault((count, name), []).append(tuple(times))
    for count, _ in SIZES:
        for name in names:
            least, middle, cpu = zip(*found[count, name], strict=True)
            shown(count, name, min(least), statistics.median(middle), statistics.median(cpu))


if __name__ == "__main__":
    main()
