"""The framework's warnings: where they belong, and what a compiled function does when their filters change."""

import ast
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import minitensor as mt
from minitensor import nn
from minitensor.nn import functional as F

ROOT = Path(__file__).resolve().parents[2]

EXPANDED = mt.zeros(1)
DROPOUT = nn.Dropout2d(p=0.0)


def fills_expanded(x):
    y = mt.zeros(1).expand(3)
    return x + y.masked_fill_(y > 1, 2.0)


def resizes_an_output(x):
    out = mt.zeros(1)
    mt.mul(x, 2.0, out=out)
    return out


# What warns, in Python and in C++, with a tensor of [3, 3, 3].
WARNS = {
    "in a function": lambda x: F.softmax(x),
    "in a function that others call": lambda x: F.kl_div(x, x.abs()),
    "in what decides between names": lambda x: F.mse_loss(x, x * 2, size_average=True),
    "in a module": lambda x: DROPOUT(x[0]),
    "in a method": lambda x: x.std(dim=(0, 1, 2), correction=27),
    "in an index": lambda x: x[[slice(None), 1]],
    "in a conversion": lambda x: (x * 1j).to(mt.float32),
    "in an attribute, in C++": lambda x: x.T,
    "in a write, in C++": fills_expanded,
    "in an output, in C++": resizes_an_output,
}
EXAMPLE = mt.arange(27.0).reshape(3, 3, 3) / 9 - 1


@pytest.mark.parametrize(
    ("name", "jit_compile"),
    [(name, whole) for name in WARNS for whole in (True, False) if not (whole and WARNS[name] is resizes_an_output)],
)
def test_a_filter_between_calls_makes_a_warning_an_error(name, jit_compile):
    fn = WARNS[name]
    f = mt.function(fn, jit_compile=jit_compile)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = fn(EXAMPLE).numpy()
        for _ in range(3):
            np.testing.assert_array_equal(f(EXAMPLE).numpy(), expected)
        assert f.hits == 2 or not jit_compile
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(UserWarning):
                f(EXAMPLE)
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(f(EXAMPLE).numpy(), expected)


def test_an_error_by_a_filter_may_be_caught_inside():
    def f(x):
        try:
            return F.softmax(x)
        except UserWarning:
            return x * 5

    compiled = mt.function(f, jit_compile=True)
    with warnings.catch_warnings():
        for action in ("ignore", "error", "ignore", "error"):
            warnings.simplefilter(action)
            for _ in range(2):
                np.testing.assert_array_equal(compiled(EXAMPLE).numpy(), f(EXAMPLE).numpy())
    assert compiled.hits >= 4


def test_who_records_warnings_gets_them():
    f = mt.function(lambda x: F.softmax(x), jit_compile=True)
    for _ in range(3):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            f(EXAMPLE)
        assert [one.category for one in seen] == [UserWarning]


@pytest.mark.parametrize("name", WARNS)
def test_a_warning_is_at_the_users_line(name):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        WARNS[name](EXAMPLE)
    lines = {(one.filename, one.lineno) for one in seen}
    code = WARNS[name].__code__
    assert lines
    for file, line in lines:
        assert file == __file__
        assert code.co_firstlineno <= line <= max(line for *_, line in code.co_lines() if line)


def test_everything_that_warns_does_it_in_one_place():
    """So that nothing warns behind a recording's back."""
    apart = {"_warning.py", "stale_extension.py"}  # the place, and what warns of an extension module that lacks it
    for file in sorted((ROOT / "minitensor").rglob("*.py")):
        if file.name in apart:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "warnings":
                raise AssertionError(f"{file}:{node.lineno} uses warnings.{node.attr}")
    for file in sorted((ROOT / "csrc").rglob("*.cpp")):
        assert not re.search(r"PyErr_Warn\w*\(", file.read_text()), file
