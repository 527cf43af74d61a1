"""Options of functions of `nn.functional`, of writes by index and of `nn.utils`, with stored results of PyTorch.

`functional_values.jsonl` has a call a line, with its result by PyTorch 2.13. `t` is the package, `a(2, 3)` are numbers
from -1 to 1 in that shape, `i` is `tensor`.
"""

import json
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from stored_results import agrees, described

import minitensor as mt

KEPT = [json.loads(line) for line in Path(__file__).with_name("functional_values.jsonl").read_text().splitlines()]


def evaluated(call: str, t: ModuleType) -> Any:
    def a(*sizes: int) -> Any:
        return t.linspace(-1, 1, math.prod(sizes)).reshape(sizes)

    return described(eval(call, {"t": t, "F": t.nn.functional, "a": a, "i": t.tensor}), t)


def agreeing(got: Any, want: Any) -> bool:
    """Sums of float32 may be taken in another order; nothing else differs."""
    return agrees(got, want, rel=2e-6, absolute=2e-6)


@pytest.mark.parametrize(("call", "result"), KEPT, ids=[call for call, _ in KEPT])
def test_results_are_pytorchs(call, result):
    got = evaluated(call, mt)
    assert agreeing(got, result), got


@pytest.mark.filterwarnings("ignore")
def test_pytorch_gives_what_is_stored():
    torch = pytest.importorskip("torch")
    assert [call for call, result in KEPT if not agreeing(evaluated(call, torch), result)] == []
