"""The comparison with PyTorch itself, where it is installed: it finds what differs, and its account adds up."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest")

from tests.against_torch.coverage import document, gather


def outcome(op, failed=0):
    return {"op": op, "passed": {"values": 3}, "failed": {"values": failed} if failed else {}, "examples": {}}


def test_parts_of_runs_add_up_and_later_ones_replace():
    files = [
        {"run": "--dtypes float32 --most 3", "outcomes": [outcome("exp"), outcome("cat", 2)]},
        {"run": "--dtypes uint8 --most 1", "outcomes": [outcome("exp", 1)]},
        {"run": "--dtypes float32 --most 3", "outcomes": [outcome("cat")]},
    ]
    outcomes, runs = gather(files)
    assert runs == ["--dtypes float32 --most 3", "--dtypes uint8 --most 1"]
    assert {o["op"]: (o["passed"]["values"], o["failed"]["values"]) for o in outcomes} == {"cat": (3, 0), "exp": (6, 1)}
    text = document(outcomes, runs, ["0123abcd"])
    assert "The runs are of `0123abcd`, " in text
    assert "- `exp`: values 1 of 7" in text
    assert "| values | 9 | 1 |" in text
    assert "`python -m tests.against_torch --dtypes uint8 --most 1`" in text


@pytest.mark.parametrize("name", ["exp", "flip", "sum", "addbmm"])
@pytest.mark.filterwarnings("ignore")
def test_ops_agree(name):
    from torch.testing._internal.common_methods_invocations import op_db

    from tests.against_torch.__main__ import ALL_CHECKS
    from tests.against_torch.checks import run

    (op,) = [op for op in op_db if op.name == name]
    found = run(op, {"float32", "float64", "uint8", "complex64"}, set(ALL_CHECKS) - {"compiled"}, 2)
    assert found.passed["layout"]
    assert not found.failed, found.examples


@pytest.mark.filterwarnings("ignore")
def test_differences_are_found():
    from torch.testing._internal.common_methods_invocations import op_db

    import minitensor as mt
    from tests.against_torch.checks import _layout, _values
    from tests.against_torch.forms import DifferenceError

    (op,) = [op for op in op_db if op.name == "exp"]
    import torch

    sample = next(iter(op.sample_inputs("cpu", torch.float32)))
    sample.input = torch.randn(3, 4).t()
    with pytest.raises(DifferenceError, match="not close"):
        _values(op, lambda x: mt.exp(x) + 1, sample)
    with pytest.raises(DifferenceError, match="strides"):
        _layout(op, lambda x: mt.exp(x).contiguous(), sample)
    with pytest.raises(DifferenceError, match="shares memory"):
        _layout(op, lambda x: x, sample)
    with pytest.raises(DifferenceError, match="float64 here"):
        _values(op, lambda x: mt.exp(x).double(), sample)
