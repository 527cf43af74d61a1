"""What launches that run while Python goes on could gain at most: python -m benchmarks.overlap eager|function.

A step costs its kernels, K on all cores, and the Python and the launching beside them, P. P is the time of the same
step on sizes where kernels cost nothing; both are a thread's time on its processor. On two cores a worker that computes
while Python goes on takes a core from the kernels: (P + 2 K) / 2 is the least, so the gain is at most P / 2 / (P + K).
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

Step = Callable[[], Any]


def _small_mlp(mt: Any) -> Step:
    n = mt.nn
    return _step(mt, n.Sequential(n.Linear(2, 2), n.ReLU(), n.Linear(2, 2), n.ReLU(), n.Linear(2, 2)), mt.ones(1, 2))


def _small_cnn(mt: Any) -> Step:
    n = mt.nn
    body = [n.Conv2d(1, 1, 2), n.ReLU(), n.MaxPool2d(2), n.Conv2d(1, 1, 2), n.ReLU(), n.MaxPool2d(2), n.Flatten()]
    head = [n.Linear(1, 2), n.ReLU(), n.Linear(2, 2), n.ReLU(), n.Linear(2, 2)]
    return _step(mt, n.Sequential(*body, *head), mt.ones(1, 1, 8, 8))


def _step(mt: Any, net: Any, x: Any) -> Step:
    y, optimizer = mt.zeros(1, dtype=mt.int64), mt.optim.Adam(net.parameters(), lr=1e-3)

    def step() -> Any:
        optimizer.zero_grad()
        loss = mt.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def _seconds(step: Step, turns: int) -> float:
    for _ in range(60):
        step()
    found = []
    for _ in range(15):
        began = time.thread_time()
        for _ in range(turns):
            loss = step()
        loss.item()
        found.append((time.thread_time() - began) / turns)
    return statistics.median(found)


def main() -> int:
    """Print P, P + 2 K and the bound for the MLP's and the CNN's step."""
    os.environ["MT_NUM_THREADS"] = "1"
    import minitensor as mt
    from benchmarks import models

    how = sys.argv[1] if len(sys.argv) == 2 else ""
    if how not in ("eager", "function"):
        print(__doc__, file=sys.stderr)
        return 2
    for name, small, full in (("mlp", _small_mlp, models.mlp), ("cnn", _small_cnn, models.cnn)):
        steps = [small(mt), full(mt)]
        beside, whole = (
            _seconds(mt.function(s) if how == "function" else s, n) for s, n in zip(steps, (100, 20), strict=True)
        )
        bound = beside / (beside + whole)
        beside, whole = beside * 1e6, whole * 1e6
        print(f"{name}: {beside:.0f} us beside the kernels, {whole:.0f} us on one thread; gain at most {bound:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
