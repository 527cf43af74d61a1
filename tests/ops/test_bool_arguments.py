"""Arguments that are bools take nothing else, as in PyTorch: neither numbers nor NumPy's bools nor words."""

import re

import numpy as np
import pytest

import minitensor as mt
from minitensor.ops import ROWS

# What stands for the arguments before the bool: these are checked first.
_BEFORE = {
    "Tensor": lambda: mt.ones(2, 2),
    "Tensor[]": lambda: [mt.ones(2, 2)],
    "int": lambda: 0,
    "int[]": lambda: (0,),
    "float": lambda: 1.0,
    "Scalar": lambda: 1,
    "bool": lambda: False,
}
_WRONG = [1, 0, 1.0, "a", [], np.bool_(True)]


def _arguments(schema):
    """The type and the name of each argument."""
    inside = schema[schema.index("(") + 1 : schema.rindex(")")]
    parts = [part.split("=")[0].split() for part in inside.split(", ") if part != "*"]
    return [(kind.split("(")[0].rstrip("?!"), name) for kind, name in parts]


_CASES = [
    (row.name, name)
    for row in ROWS.values()
    for kind, name in _arguments(row.schema.partition("->")[0])
    if kind == "bool"
]


def test_there_are_cases():
    assert len(_CASES) > 50


@pytest.mark.parametrize(("op", "argument"), _CASES)
def test_bools_of_ops(op, argument):
    row = ROWS[op]
    others = {
        name: _BEFORE[kind]()
        for kind, name in _arguments(row.schema.partition("->")[0])
        if name != argument and kind in _BEFORE
    }
    for wrong in _WRONG:
        with pytest.raises(TypeError, match=re.escape(f"argument '{argument}'") + ".* must be bool"):
            row.call(**others, **{argument: wrong})


_X = mt.ones(2, 2)
_CREATED = {
    "tensor": lambda flag: mt.tensor([1.0], requires_grad=flag),
    "asarray": lambda flag: mt.asarray([1.0], requires_grad=flag),
    "asarray of a tensor": lambda flag: mt.asarray(_X, copy=True, requires_grad=flag),
    "zeros": lambda flag: mt.zeros(2, requires_grad=flag),
    "ones": lambda flag: mt.ones(2, requires_grad=flag),
    "full": lambda flag: mt.full((2,), 1.0, requires_grad=flag),
    "empty": lambda flag: mt.empty(2, requires_grad=flag),
    "arange": lambda flag: mt.arange(2.0, requires_grad=flag),
    "linspace": lambda flag: mt.linspace(0, 1, 2, requires_grad=flag),
    "eye": lambda flag: mt.eye(2, requires_grad=flag),
    "ones_like": lambda flag: mt.ones_like(_X, requires_grad=flag),
    "new_zeros": lambda flag: _X.new_zeros(2, requires_grad=flag),
    "rand": lambda flag: mt.rand(2, requires_grad=flag),
    "randn_like": lambda flag: mt.randn_like(_X, requires_grad=flag),
    "fftfreq": lambda flag: mt.fft.fftfreq(3, requires_grad=flag),
    "make_tensor": lambda flag: mt.testing.make_tensor(2, dtype=mt.float32, device="cpu", requires_grad=flag),
    "sparse_coo_tensor": lambda flag: mt.sparse_coo_tensor([[0]], [1.0], (2,), requires_grad=flag),
    "an empty sparse_coo_tensor": lambda flag: mt.sparse_coo_tensor((2, 2), requires_grad=flag),
    "sparse_csr_tensor": lambda flag: mt.sparse_csr_tensor([0, 1], [0], [1.0], (1, 2), requires_grad=flag),
    "zeros_like of a sparse one": lambda flag: mt.zeros_like(_X.to_sparse(), requires_grad=flag),
    "hann_window": lambda flag: mt.hann_window(3, requires_grad=flag),
}


@pytest.mark.parametrize("call", _CREATED.values(), ids=_CREATED)
def test_requires_grad_of_new_tensors(call):
    assert call(True).requires_grad
    assert not call(False).requires_grad
    for wrong in _WRONG:
        with pytest.raises(TypeError, match=r"'requires_grad'.* must be bool"):
            call(wrong)
