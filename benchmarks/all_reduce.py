"""all_reduce between processes of this machine, beside torch.distributed's gloo, in turns.

`python -m benchmarks.all_reduce --ranks 2 [--transport tcp] [--torch]` prints, for each size, the least and the median
time, and the processor's time of rank 0, which others' load on the machine doesn't change much.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

SIZES = ((1, 300), (1_000, 300), (10_000, 100), (100_000, 40), (1_000_000, 15), (10_000_000, 7))


def rank_main(options: argparse.Namespace) -> None:
    """Measure; rank 0 prints."""
    import minitensor as mt
    import minitensor.distributed as dist

    mt.set_num_threads(1)
    contenders: list[tuple[str, Callable[[Any], Any], Callable[[int], Any]]] = []
    dist.init_process_group("gloo")
    contenders.append(("minitensor", dist.all_reduce, mt.zeros))
    if options.torch:
        import torch
        import torch.distributed as theirs

        torch.set_num_threads(1)
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "False"
        rank, size = dist.get_rank(), dist.get_world_size()
        theirs.init_process_group("gloo", init_method=f"file://{options.meet}", rank=rank, world_size=size)
        contenders.append(("torch", theirs.all_reduce, torch.zeros))
    for count, repeats in SIZES:
        data = [make(count) for _, _, make in contenders]
        walls: list[list[float]] = [[] for _ in contenders]
        cpu = [0.0 for _ in contenders]
        for _ in range(repeats):
            for i, (_, call, _) in enumerate(contenders):
                call(data[i])
                before, begun = time.process_time(), time.perf_counter()
                call(data[i])
                walls[i].append(time.perf_counter() - begun)
                cpu[i] += time.process_time() - before
        if dist.get_rank() == 0:
            for i, (name, _, _) in enumerate(contenders):
                least, middle = min(walls[i]) * 1e6, statistics.median(walls[i]) * 1e6
                print(
                    f"{4 * count:>9} B  {name:<10} least {least:9.1f} us  median {middle:9.1f} us  "
                    f"processor {cpu[i] / repeats * 1e6:9.1f} us",
                    flush=True,
                )
    if options.torch:
        theirs.destroy_process_group()
    dist.destroy_process_group()


def main() -> None:
    """Start the ranks, or be one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--transport", choices=["shared_memory", "tcp"], default="shared_memory")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--meet", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.meet:
        rank_main(options)
        return
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "minitensor.distributed.run", "--nproc-per-node", str(options.ranks)]
        command += ["-m", "benchmarks.all_reduce", "--meet", f"{folder}/store"]
        command += ["--torch"] if options.torch else []
        environment = {**os.environ, "MT_DISTRIBUTED_TRANSPORT": options.transport, "PYTHONPATH": os.getcwd()}
        raise SystemExit(subprocess.run(command, env=environment).returncode)


if __name__ == "__main__":
    main()
