"""Both sides of what ops accept: the last call that works, with PyTorch's result, and the first that doesn't, refused.

`boundaries.jsonl` has a pair a line: a call, its result by PyTorch 2.13 (nothing of random numbers but their form), the
call beyond, and the class and message of its error. `t` is the package; `x(2, 3)` are ones, `i` integers, `b` booleans.
"""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from stored_results import agrees, described

import minitensor as mt

KEPT = [json.loads(line) for line in Path(__file__).with_name("boundaries.jsonl").read_text().splitlines()]
pytestmark = pytest.mark.at_once(reason="calls are refused when they are made")
pairs = pytest.mark.parametrize(("works", "result", "fails", "kind", "message"), KEPT, ids=[kept[2] for kept in KEPT])


def evaluated(call: str, t: ModuleType) -> Any:
    return eval(
        call,
        {
            "t": t,
            "F": t.nn.functional,
            "x": lambda *sizes: t.ones(sizes),
            "i": t.tensor,
            "b": lambda items: t.tensor(items, dtype=t.bool),
        },
    )


def refusal(call: str, t: ModuleType) -> tuple[str, str]:
    """The class and the message of a call's error."""
    try:
        evaluated(call, t)
    except Exception as error:
        return type(error).__name__, str(error)
    return "no error", ""


def compared(got: Any, want: Any) -> bool:
    """Of random numbers there are no values."""
    form = isinstance(want, list) and len(want) == 2 and isinstance(want[0], str)
    return agrees(got[:2] if form else got, want, rel=1e-6)


@pairs
def test_both_sides(works, result, fails, kind, message):
    assert compared(described(evaluated(works, mt), mt), result)
    assert refusal(fails, mt) == (kind, message)


@pytest.mark.filterwarnings("ignore")
def test_pytorch_has_the_same_boundaries(monkeypatch):
    torch = pytest.importorskip("torch")
    # Parts of PyTorch that other tests import turn it off for good.
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)
    others = [
        (works, fails)
        for works, result, fails, kind, _ in KEPT
        if not compared(described(evaluated(works, torch), torch), result) or refusal(fails, torch)[0] != kind
    ]
    assert others == []
