"""Times ordinary expressions, and their gradients, compiled and eagerly: ``python -m benchmarks.compiled``.

A compiled program should never be slower than its ops one by one. So each is timed both ways in turns, in one process,
and those above a ratio are listed. Sizes are compiled one by one, as they are once a program has met them often.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
from collections.abc import Callable
from typing import Any

from tqdm import tqdm

from benchmarks.compiled.expressions import EXPRESSIONS


def best(call: Callable[[], object], seconds: float) -> float:
    """Return the shortest of some calls, in seconds of this thread."""
    shortest, ends, count = math.inf, time.perf_counter() + seconds, 0
    while count < 3 or time.perf_counter() < ends:
        began = time.thread_time()
        call()
        shortest = min(shortest, time.thread_time() - began)
        count += 1
    return shortest


def programs(mt: Any, expression: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the function of ``x``, and its gradient: a function of ``x`` and weights of the results."""
    names = {"t": mt, "F": mt.nn.functional}
    forward: Callable[..., Any] = eval(f"lambda x: {expression}", names)

    def gradient(x: Any, weights: Any) -> Any:
        return mt.autograd.grad((forward(x) * weights).sum(), x)[0]

    return forward, gradient


def measured(mt: Any, name: str, rounds: int, seconds: float) -> list[tuple[str, float, float]]:
    """Return what was timed of an expression: name, seconds eagerly, seconds compiled."""
    expression, shape = EXPRESSIONS[name]
    mt.manual_seed(0)
    x = mt.randn(*shape)
    forward, gradient = programs(mt, expression)
    calls = [(name, forward, (x,))]
    out = forward(x)
    if out.is_floating_point() and forward(x.clone().requires_grad_()).requires_grad:
        calls.append((f"{name}, gradient", gradient, (x.clone().requires_grad_(), mt.randn_like(out))))
    found = []
    for label, function, arguments in calls:
        compiled = mt.function(function, jit_compile=True)
        if not mt.allclose(compiled(*arguments), function(*arguments), rtol=0, atol=0, equal_nan=True):
            raise AssertionError(f"{label}: the compiled result differs")
        eager_s = compiled_s = math.inf
        for _ in range(rounds):
            eager_s = min(eager_s, best(lambda f=function, a=arguments: f(*a), seconds))
            compiled_s = min(compiled_s, best(lambda f=compiled, a=arguments: f(*a), seconds))
        found.append((label, eager_s, compiled_s))
    return found


def main(argv: list[str] | None = None) -> int:
    """Print what was slower than eager code, and the geometric mean of all ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compiled", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--filter", default="", metavar="RE", help="only names that match")
    parser.add_argument("--above", type=float, default=1.0, metavar="RATIO", help="list those above (1.0)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each is timed (3)")
    parser.add_argument("--seconds", type=float, default=0.02, metavar="S", help="of each turn (0.02)")
    given = parser.parse_args(argv)
    import minitensor as mt

    names = [name for name in EXPRESSIONS if re.search(given.filter, name)]
    if not names:
        parser.error(f"--filter: no expression matches {given.filter!r}")
    found: list[tuple[str, float, float]] = []
    threads = mt.get_num_threads()
    mt.set_num_threads(1)
    try:
        with mt.jit.options(dynamic_shapes=False):
            for name in tqdm(names, unit="expression", disable=None):
                found += measured(mt, name, given.rounds, given.seconds)
    finally:
        mt.set_num_threads(threads)
    for label, eager_s, compiled_s in sorted(found, key=lambda one: one[1] / one[2]):
        if compiled_s > given.above * eager_s:
            print(f"{compiled_s / eager_s:6.2f}  {label:34}{eager_s * 1e6:9.0f} us, compiled {compiled_s * 1e6:.0f}")
    ratios = [compiled_s / eager_s for _, eager_s, compiled_s in found]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"{len(ratios)} programs, compiled in {mean:.2f} of the eager time in the geometric mean")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
