"""Plain calls that go straight to an op give what the functions do that they pass by."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.nn import functional as F


def same(a, b):
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.numpy().tobytes() == b.numpy().tobytes()


def test_creation():
    for dtype in (mt.float32, mt.float64):
        mt.set_default_dtype(dtype)
        try:
            for sizes in ((), (3,), (2, 0, 4)):
                same(mt.zeros(*sizes), mt.zeros(sizes))
                same(mt.ones(*sizes), mt.ones(size=sizes))
            assert mt.zeros(2).dtype is dtype
        finally:
            mt.set_default_dtype(mt.float32)
    same(mt.arange(5), mt.arange(0, 5, 1))
    same(mt.arange(-2, 3), mt.arange(start=-2, end=3))
    assert mt.zeros(True).shape == (1,)
    with pytest.raises(RuntimeError, match="negative dimension"):
        mt.zeros(2, -1)


def test_elementwise_functions():
    x = mt.from_numpy(np.linspace(-9, 9, 24, dtype=np.float32).reshape(4, 6))
    same(F.gelu(x), F.gelu(x, approximate="none"))
    same(F.silu(x), F.silu(x, inplace=False))
    same(F.softmax(x, 1), F.softmax(x, dim=1))
    same(F.log_softmax(x, -2), F.log_softmax(x, dim=-2))
    same(mt.clamp(x, -1, 2.5), mt.clamp(x, min=-1, max=2.5))
    c = x > 0
    same(mt.where(c, x, -x), mt.where(c, x, other=-x))
    with pytest.raises(RuntimeError, match="boolean"):
        mt.where(x, x, x)
    with pytest.raises(TypeError, match="Tensor"):
        F.gelu(3.0)


def test_stack():
    a, b = mt.arange(6.0).view(2, 3), -mt.arange(6.0).view(2, 3)
    expected = np.stack([a.numpy(), b.numpy(), b.numpy()])
    for tensors in ((a, b, b), [a, b, b]):
        assert mt.stack(tensors).numpy().tolist() == mt.stack(tensors, dim=0).numpy().tolist() == expected.tolist()
    assert mt.stack((a, b.to(mt.float64))).dtype is mt.float64
    assert mt.stack((mt.tensor(1.0), mt.tensor(2.0))).tolist() == [1.0, 2.0]
    assert mt.stack((mt.zeros(0, 2), mt.zeros(0, 2))).shape == (2, 0, 2)
    for wrong, message in (((), "non-empty"), ((a, b[0]), "equal size"), ((a, mt.tensor(1.0)), "equal size")):
        with pytest.raises(RuntimeError, match=message):
            mt.stack(wrong)
    with pytest.raises(TypeError):
        mt.stack((a, 1.0))


def test_stack_is_differentiated_mapped_and_compiled():
    x = mt.arange(3.0).requires_grad_()
    (g,) = mt.autograd.grad((mt.stack((x, x * x)) * mt.tensor([[1.0], [10.0]])).sum(), x)
    assert g.tolist() == [1.0, 21.0, 41.0]
    rows = mt.arange(6.0).view(2, 3)
    assert mt.vmap(lambda r: mt.stack((r, -r)))(rows).tolist() == mt.stack((rows, -rows), dim=1).tolist()

    def program(x):
        return mt.stack((x.exp(), x + 1)).sum(0) + mt.where(x > 1, x, -x) + F.gelu(x)

    x = x.detach()
    same(mt.function(program, jit_compile=True)(x), program(x))
