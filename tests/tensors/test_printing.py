import os
import re
import subprocess
import sys

import numpy as np
import pytest

import minitensor as mt


@pytest.fixture(autouse=True)
def default_options():
    mt.set_printoptions(profile="default")
    yield
    mt.set_printoptions(profile="default")


# What PyTorch 2.13 prints, with `torch.` read as `minitensor.`.
CASES = {
    "whole numbers": (lambda: mt.tensor([[1.0, 2.0], [30.0, -4.0]]), "tensor([[ 1.,  2.],\n        [30., -4.]])"),
    "fractions": (lambda: mt.tensor([1.5, 0.0, -0.25]), "tensor([ 1.5000,  0.0000, -0.2500])"),
    "integers": (lambda: mt.tensor([[1, 20], [-300, 4]]), "tensor([[   1,   20],\n        [-300,    4]])"),
    "bools": (lambda: mt.tensor([True, False]), "tensor([ True, False])"),
    "int32": (lambda: mt.tensor([1, 2], dtype=mt.int32), "tensor([1, 2], dtype=minitensor.int32)"),
    "uint8": (lambda: mt.tensor([1, 255], dtype=mt.uint8), "tensor([  1, 255], dtype=minitensor.uint8)"),
    "float64": (lambda: mt.tensor([0.5], dtype=mt.float64), "tensor([0.5000], dtype=minitensor.float64)"),
    "a float": (lambda: mt.tensor(1.5), "tensor(1.5000)"),
    "a whole float": (lambda: mt.tensor(-2.0), "tensor(-2.)"),
    "an int": (lambda: mt.tensor(7), "tensor(7)"),
    "a bool": (lambda: mt.tensor(True), "tensor(True)"),
    "empty": (lambda: mt.tensor([]), "tensor([])"),
    "empty matrix": (lambda: mt.empty(0, 3), "tensor([], size=(0, 3))"),
    "empty ints": (lambda: mt.empty(2, 0, dtype=mt.int64), "tensor([], size=(2, 0), dtype=minitensor.int64)"),
    "empty bools": (lambda: mt.tensor([], dtype=mt.bool), "tensor([], dtype=minitensor.bool)"),
    "not finite": (
        lambda: mt.tensor([float("nan"), float("inf"), -float("inf"), 1.0]),
        "tensor([nan, inf, -inf, 1.])",
    ),
    "not finite among fractions": (lambda: mt.tensor([float("nan"), 0.5]), "tensor([   nan, 0.5000])"),
    "negative zero": (lambda: mt.tensor([-0.0, 0.0]), "tensor([-0., 0.])"),
    "small": (lambda: mt.tensor([1e-5, 1.0]), "tensor([1.0000e-05, 1.0000e+00])"),
    "large": (lambda: mt.tensor([1.0, 2e8]), "tensor([1.0000e+00, 2.0000e+08])"),
    "just not large": (lambda: mt.tensor([1e8]), "tensor([100000000.])"),
    "far apart": (lambda: mt.tensor([1001.0, 0.5]), "tensor([1.0010e+03, 5.0000e-01])"),
    "not too far apart": (lambda: mt.tensor([500.0, 0.5]), "tensor([500.0000,   0.5000])"),
    "meta": (lambda: mt.empty(2, 3, device="meta"), "tensor(..., device='meta', size=(2, 3))"),
    "meta ints": (
        lambda: mt.empty(2, device="meta", dtype=mt.int64),
        "tensor(..., device='meta', size=(2,), dtype=minitensor.int64)",
    ),
    "leaf": (lambda: mt.ones(2, requires_grad=True), "tensor([1., 1.], requires_grad=True)"),
    "result": (lambda: mt.ones(2, requires_grad=True) + 1, "tensor([2., 2.], grad_fn=<AddBackward0>)"),
    "log_softmax": (
        lambda: mt.nn.functional.log_softmax(mt.zeros(1, 2, requires_grad=True), 1),
        "tensor([[-0.6931, -0.6931]], grad_fn=<LogSoftmaxBackward0>)",
    ),
    "detached": (lambda: mt.ones(2, requires_grad=True).detach(), "tensor([1., 1.])"),
    "parameter": (
        lambda: mt.nn.Parameter(mt.ones(2)),
        "Parameter containing:\ntensor([1., 1.], requires_grad=True)",
    ),
    "three dimensions": (
        lambda: mt.arange(8).reshape(2, 2, 2),
        "tensor([[[0, 1],\n         [2, 3]],\n\n        [[4, 5],\n         [6, 7]]])",
    ),
    "view": (lambda: mt.arange(6).reshape(2, 3).t()[1:], "tensor([[1, 4],\n        [2, 5]])"),
    "expanded": (lambda: mt.tensor([1, 2]).expand(2, 2), "tensor([[1, 2],\n        [1, 2]])"),
    "long line": (
        lambda: mt.arange(30),
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
        "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])",
    ),
    "summary": (lambda: mt.arange(1001), "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    "not a summary": (lambda: mt.zeros(1000), None),
    "summary of a matrix": (
        lambda: mt.arange(2000.0).reshape(4, 500),
        "tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 4.9700e+02, 4.9800e+02,\n"
        "         4.9900e+02],\n"
        "        [5.0000e+02, 5.0100e+02, 5.0200e+02,  ..., 9.9700e+02, 9.9800e+02,\n"
        "         9.9900e+02],\n"
        "        [1.0000e+03, 1.0010e+03, 1.0020e+03,  ..., 1.4970e+03, 1.4980e+03,\n"
        "         1.4990e+03],\n"
        "        [1.5000e+03, 1.5010e+03, 1.5020e+03,  ..., 1.9970e+03, 1.9980e+03,\n"
        "         1.9990e+03]])",
    ),
    "summary of rows": (
        lambda: mt.ones(1000, 2),
        "tensor([[1., 1.],\n        [1., 1.],\n        [1., 1.],\n        ...,\n"
        "        [1., 1.],\n        [1., 1.],\n        [1., 1.]])",
    ),
    "suffix on a line of its own": (
        lambda: mt.arange(100, 118, dtype=mt.int32),
        "tensor([100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113,\n"
        "        114, 115, 116, 117], dtype=minitensor.int32)",
    ),
    "suffix that does not fit": (
        lambda: mt.arange(100, 112, dtype=mt.int32),
        "tensor([100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111],\n       dtype=minitensor.int32)",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_text(name):
    make, expected = CASES[name]
    text = repr(make())
    if expected is None:
        assert "..." not in text
    else:
        assert text == expected


OPTIONS = [
    ({"precision": 2}, lambda: mt.tensor([1.12345]), "tensor([1.12])"),
    ({"sci_mode": True}, lambda: mt.tensor([1.5, 0.0]), "tensor([1.5000e+00, 0.0000e+00])"),
    ({"sci_mode": False}, lambda: mt.tensor([1e-5, 1.0]), "tensor([0.0000, 1.0000])"),
    ({"threshold": 5}, lambda: mt.arange(10), "tensor([0, 1, 2,  ..., 7, 8, 9])"),
    ({"threshold": 5, "edgeitems": 1}, lambda: mt.arange(10), "tensor([0,  ..., 9])"),
    ({"edgeitems": 0, "threshold": 5}, lambda: mt.arange(10), "tensor([...], size=(10,))"),
    ({"linewidth": 20}, lambda: mt.arange(6), "tensor([0, 1, 2, 3,\n        4, 5])"),
    ({"profile": "short"}, lambda: mt.tensor([0.123456]), "tensor([0.12])"),
    ({"profile": "short", "precision": 3}, lambda: mt.tensor([0.123456]), "tensor([0.123])"),
    ({"profile": "full"}, lambda: mt.zeros(1001).sum() + mt.zeros(1), "tensor([0.])"),
]


@pytest.mark.parametrize(("options", "make", "expected"), OPTIONS)
def test_options(options, make, expected):
    mt.set_printoptions(**options)
    assert repr(make()) == expected


def test_full_profile_shows_everything():
    mt.set_printoptions(profile="full")
    assert repr(mt.arange(1200)).count(",") == 1199


def test_sci_mode_is_not_kept():
    mt.set_printoptions(sci_mode=True)
    mt.set_printoptions(precision=2)
    assert repr(mt.tensor([1.5])) == "tensor([1.50])"


@pytest.mark.parametrize(
    "options", [{"precision": -1}, {"edgeitems": 1.5}, {"linewidth": "80"}, {"threshold": -1.0}, {"profile": "brief"}]
)
def test_bad_options(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        mt.set_printoptions(**options)


def test_str_and_format():
    x = mt.tensor(0.5)
    assert (f"{x}", str(x)) == ("0.5", "tensor(0.5000)")
    assert f"{x:.1f}" == "0.5"
    assert f"{mt.ones(1):}" == "tensor([1.])"


def test_subclass():
    class Named(mt.Tensor):
        pass

    assert repr(Named(mt.ones(2))) == "Named([1., 1.])"


def test_a_recorded_tensor_is_computed_first():
    def shown(x):
        return repr(x * 2 + 1)

    explanation = mt.jit.explain(shown)(mt.ones(2, 2))
    assert explanation.result == "tensor([[3., 3.],\n        [3., 3.]])"
    assert "repr()" in str(explanation)


def test_printing_records_nothing():
    with mt.jit_scope():
        x = mt.ones(2000, 3) * 2
        text = repr(x)
        assert repr(x) == text
    assert text.startswith("tensor([[2., 2., 2.],\n        [2., 2., 2.],")


def test_a_large_tensor_is_not_copied():
    x = mt.empty(3000, 1000).fill_(1.0)
    mt.reset_peak_memory_stats()
    before = mt.allocator_stats()
    assert "..." in repr(x.t())
    assert mt.allocator_stats()["peak_allocated_bytes"] == before["allocated_bytes"]


def test_numpy_is_not_loaded():
    code = "import minitensor as mt, sys; print(mt.ones(2) * 0.5); assert 'numpy' not in sys.modules"
    eager = {name: value for name, value in os.environ.items() if name != "MT_JIT_FLAGS"}  # the compiler needs it
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=eager)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "tensor([0.5000, 0.5000])\n"


# ---- against PyTorch, where it is installed


def _values(rng, dtype, shape):
    count = int(np.prod(shape))
    if dtype == "bool":
        return rng.integers(0, 2, count).astype(bool).reshape(shape)
    if dtype in ("int32", "int64", "uint8"):
        high = min(int(np.iinfo(dtype).max), 10 ** int(rng.integers(1, 19)))
        low = 0 if dtype == "uint8" or rng.random() < 0.5 else -high
        return rng.integers(low, high, count).astype(dtype).reshape(shape)
    special = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-4, 9.9e-5, 1e8, 1.00000001e8, 1e-38, 0.5, -1.5, 1000.0, 1.0]
    makers = [
        lambda: rng.normal(size=count) * 10.0 ** rng.integers(-6, 10),
        lambda: rng.integers(-(10 ** int(rng.integers(1, 10))), 10 ** int(rng.integers(1, 10)), count),
        lambda: rng.choice(special, count),
        lambda: 10.0 ** rng.uniform(-5, 5, count),
        lambda: np.where(rng.random(count) < 0.3, np.nan, rng.normal(size=count)),
    ]
    return np.asarray(makers[rng.integers(len(makers))](), dtype).reshape(shape)


def _same_breaks(text):
    # `minitensor.` is longer than `torch.`: a line with a dtype may break where PyTorch's does not.
    text = text.replace("torch.", "minitensor.")
    return re.sub(r",\s+(dtype|device|size|grad_fn|requires_grad)=", r", \1=", text) if "dtype=" in text else text


def test_like_pytorch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    settings = [
        {}, {"precision": 2}, {"profile": "short"}, {"sci_mode": True}, {"sci_mode": False}, {"linewidth": 40},
        {"edgeitems": 1}, {"edgeitems": 0}, {"threshold": 5}, {"threshold": 5, "edgeitems": 2, "linewidth": 30},
        {"precision": 0},
    ]  # fmt: skip
    shapes = [(), (0,), (2, 0), (1,), (7,), (50,), (1001,), (3, 4), (40, 50), (2, 3, 4), (11, 12, 13), (2, 1, 3, 2)]
    try:
        for i in range(600):
            shape = shapes[rng.integers(len(shapes))]
            dtype = ["float32", "float64", "int32", "int64", "uint8", "bool"][rng.integers(6)]
            values = _values(rng, dtype, shape)
            ours, theirs = mt.from_numpy(values.copy()), torch.from_numpy(values.copy())
            if dtype.startswith("float") and rng.random() < 0.3:
                ours, theirs = ours.requires_grad_(), theirs.requires_grad_()
                if rng.random() < 0.5:
                    ours, theirs = ours * 2, theirs * 2
            options = settings[i % len(settings)]
            for module in (mt, torch):
                module.set_printoptions(profile="default")
                module.set_printoptions(**options)
            assert _same_breaks(repr(ours)) == _same_breaks(repr(theirs)), (options, shape, dtype)
    finally:
        torch.set_printoptions(profile="default")
