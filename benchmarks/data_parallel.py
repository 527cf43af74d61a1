"""A GPT's step by two processes with DistributedDataParallel, one thread each: python -m benchmarks.data_parallel.

In turns: one process alone; both, each for itself, which share the memory and its bandwidth; and both together. Each
has a whole batch, so two together do the work of two steps of one. Who steps together waits for whoever is last, so the
model begins with the longer of the two processes' times of each step, for themselves. The cost model of
docs/distributed.md says what comes to it: the rounds' latency for each bucket, and the processor's time of the bytes,
which is taken from the only thread.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import time
from typing import Any

# Of the model in docs/distributed.md, over shared memory: seconds a round, and a byte to be moved and to be added.
ROUND, MOVED, ADDED = 41e-6, 0.056e-9, 0.107e-9
WAYS = ("alone", "each", "together")


def _together(dist: Any, step: Any, steps: int, everybody: bool) -> tuple[float, float]:
    """The mean seconds of a step of rank 0, and of the slower rank's; others run it, too, or wait."""
    dist.barrier()
    seconds: list[float] = []
    if everybody or dist.get_rank() == 0:
        for _ in range(steps):
            began = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - began)
    dist.barrier()
    of_ranks: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(of_ranks, seconds)
    slower = [max(times) for times in zip(*filter(None, of_ranks), strict=True)]
    return statistics.mean(of_ranks[0]), statistics.mean(slower)


def rank(steps: int, rounds: int, compiled: bool) -> None:
    """Measure, as one of two processes; rank 0 prints."""
    import minitensor as mt
    import minitensor.distributed as dist
    from benchmarks.models import gpt
    from minitensor.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    mt.manual_seed(0)
    sizes: list[int] = []

    def distributed(model: Any) -> Any:
        sizes.extend(p.numel() * p.element_size() for p in model.parameters())
        return DistributedDataParallel(model)

    plain, joined = gpt(mt), gpt(mt, distributed)
    if compiled:
        plain, joined = mt.function(plain), mt.function(joined)
    ways = {"alone": (plain, False), "each": (plain, True), "together": (joined, True)}
    found: dict[str, list[float]] = {name: [] for name in WAYS}
    slower: list[float] = []
    for turn in range(rounds + 1):  # the first one warms up
        for name, (step, everybody) in ways.items():
            seconds, longer = _together(dist, step, steps, everybody)
            if turn:
                found[name].append(seconds)
                if name == "each":
                    slower.append(longer)
    if dist.get_rank() == 0:
        alone, each, together = (statistics.median(found[name]) for name in WAYS)
        total = sum(sizes)
        buckets = 1 + math.ceil(max(0, total - (1 << 20)) / (25 << 20))  # the first one is of 1 MB
        model = statistics.median(slower) + buckets * ROUND + 2 * total * MOVED + total / 2 * ADDED
        print(f"{'compiled' if compiled else 'eager'}, {total / 1e6:.1f} MB of gradients in {buckets} buckets")
        for name in WAYS:
            times = ", ".join(f"{1000 * s:.1f}" for s in found[name])
            print(f"  {name:<9} {1000 * statistics.median(found[name]):6.1f} ms a step ({times})")
        print(f"  throughput of two: {2 * alone / together:.2f} of one's; each for itself {2 * alone / each:.2f}")
        print(f"  of each for itself, the slower one's steps: {1000 * statistics.median(slower):.1f} ms")
        print(f"  the model: {1000 * model:.1f} ms; measured {together / model:.3f} of it")
    dist.destroy_process_group()


def main() -> int:
    """Start the two processes, eagerly and compiled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20, help="of a round")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if "RANK" in os.environ:
        rank(args.steps, args.rounds, os.environ["DATA_PARALLEL"] == "compiled")
        return 0
    for way in ("eager", "compiled"):
        command = [sys.executable, "-m", "minitensor.distributed.run", "--nproc-per-node", "2", "-m"]
        command += ["benchmarks.data_parallel", "--steps", str(args.steps), "--rounds", str(args.rounds)]
        environment = os.environ | {"MT_NUM_THREADS": "1", "DATA_PARALLEL": way}
        subprocess.run(command, env=environment, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
