"""Tensors of inference mode: who may write them, what is recorded of them and saved.

Each test runs here and, where it is installed, in PyTorch.
"""

import pytest
from leaves import leaf, of_inference

import minitensor

pytestmark = pytest.mark.filterwarnings("ignore")


WRITES = {
    "op": lambda lib, x: x.mul_(2),
    "copy": lambda lib, x: x.copy_(lib.ones(2, 2)),
    "item": lambda lib, x: x.__setitem__(0, 3.0),
    "mask": lambda lib, x: x.__setitem__(x > 0, 3.0),
    "view": lambda lib, x: x.view(-1).mul_(2),
    "shape": lambda lib, x: x.t_(),
    "out": lambda lib, x: lib.add(lib.ones(2, 2), 1, out=x),
    "out of several": lambda lib, x: lib.cat([lib.ones(1, 2), lib.ones(1, 2)], out=x),
    "resize": lambda lib, x: x.resize_(3, 3),
    "random": lambda lib, x: x.uniform_(),
    "foreach": lambda lib, x: lib._foreach_add_([x], 1),
}


@pytest.mark.parametrize("mode", ["no_grad", "enable_grad"])
@pytest.mark.parametrize("write", WRITES)
def test_tensors_of_inference_mode_are_written_in_it(lib, write, mode):
    x = of_inference(lib)
    with getattr(lib, mode)(), pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        WRITES[write](lib, x)
    with lib.inference_mode():
        WRITES[write](lib, of_inference(lib))


def test_a_refused_write_changes_nothing():
    x = of_inference(minitensor)
    for write in WRITES.values():
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            write(minitensor, x)
    assert x.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_data_of_an_inference_tensor_is_written_anywhere(lib):
    x = of_inference(lib)
    x.data.mul_(2)
    x.detach().mul_(2)
    assert x.tolist() == [[4.0, 4.0], [4.0, 4.0]]
    assert x.data.is_inference()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        x.data.t().squeeze_()


def test_set_data_brings_what_the_data_is(lib):
    x = leaf(lib, 1.0, 2.0)
    with lib.inference_mode():
        x.data = x.data * 2
    assert x.is_inference()
    x.data = x.detach().clone()
    assert not x.is_inference()
    assert (x * 2).requires_grad


def test_a_gradient_of_inference_mode_is_not_added_to(lib):
    x = leaf(lib, 1.0, 2.0)
    with lib.inference_mode():
        x.backward(lib.ones_like(x))
    assert x.grad.is_inference()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        x.sum().backward()
    before = x.grad.tolist()
    with lib.inference_mode():
        x.backward(lib.ones_like(x))
    assert x.grad.tolist() == [before[0] + 1, before[1] + 1]


def test_nothing_is_recorded_of_inference_tensors(lib):
    x = leaf(lib, 1.0, 2.0)
    with lib.inference_mode():
        y = lib.ones(2, dtype=lib.float64, requires_grad=True)
        with lib.enable_grad():
            assert not (x * 2).requires_grad
    assert not y.exp().requires_grad
    assert (y * 2).requires_grad  # the 2 is a tensor too, and not of inference mode
    assert y.detach_().requires_grad


def test_create_graph_in_inference_mode(lib):
    x = leaf(lib, 1.0, 2.0)
    (x * x).sum().backward(create_graph=True)
    with lib.inference_mode():
        x.backward(lib.ones_like(x), create_graph=True)
    assert not x.grad.requires_grad
    assert x.grad.tolist() == [3.0, 5.0]


def test_inference_tensors_are_not_saved(lib):
    class Keeps(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(y)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2, None

    x, y = leaf(lib, 1.0, 2.0), of_inference(lib)[0].double()
    with lib.inference_mode():
        y = lib.ones(2, dtype=lib.float64)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        Keeps.apply(x, y)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        lib.utils.checkpoint.checkpoint(lambda a, b: a + b, x, y, use_reentrant=False)
    with lib.no_grad():
        assert Keeps.apply(x, y).tolist() == [2.0, 4.0]


def test_writes_among_inference_tensors_are_not_recorded(lib):
    x = leaf(lib, 1.0, 2.0)
    with lib.inference_mode():
        x.data = x.detach().clone()
    x += x
    assert x.tolist() == [2.0, 4.0]
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        x += 1


# What the gradient that is wanted doesn't read isn't saved, and so may be of inference mode.
UNREAD = {
    "addcmul": lambda lib, y, a: lib.addcmul(y, a, a),
    "addcmul_": lambda lib, y, a: y.addcmul_(a, a, value=2),
    "addcmul tensor1": lambda lib, y, a: lib.addcmul(a, y, lib.ones(2, 2)),
    "lerp": lambda lib, y, a: lib.lerp(y, a, 0.25),
    "lerp_": lambda lib, y, a: y.lerp_(a, 0.25),
    "lerp to": lambda lib, y, a: lib.lerp(a, y, 0.25),
    "copysign": lambda lib, y, a: lib.copysign(y, a),
    "hypot": lambda lib, y, a: lib.hypot(y, a),
}
READ = {
    "addcmul": lambda lib, y, a: lib.addcmul(lib.ones(2, 2), y, a),
    "addcdiv": lambda lib, y, a: lib.addcdiv(lib.ones(2, 2), y, a),
    "lerp": lambda lib, y, a: lib.lerp(lib.ones(2, 2), lib.ones(2, 2), y) + lib.lerp(a, lib.ones(2, 2), y),
    "weight": lambda lib, y, a: lib.lerp(y, lib.ones(2, 2), a),
}


@pytest.mark.parametrize("name", UNREAD)
def test_what_no_wanted_gradient_reads_may_be_of_inference_mode(lib, name):
    x = lib.full((2, 2), 3.0, requires_grad=True)
    UNREAD[name](lib, x * 1, of_inference(lib)).sum().backward()
    expected = {"lerp": 0.75, "lerp_": 0.75, "lerp to": 0.25}.get(name, 1.0)
    if name == "hypot":
        a = of_inference(lib)
        expected = (3 / (9 + a.clone() ** 2) ** 0.5).tolist()
        assert lib.allclose(x.grad, lib.tensor(expected))
        return
    assert x.grad.tolist() == [[expected] * 2] * 2


@pytest.mark.parametrize("name", READ)
def test_what_a_wanted_gradient_reads_may_not_be_of_inference_mode(lib, name):
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        READ[name](lib, lib.full((2, 2), 3.0, requires_grad=True) * 1, of_inference(lib))


def test_what_no_wanted_gradient_reads_may_be_written(lib):
    x, a, b = leaf(lib, 1.0, 2.0), lib.ones(2, dtype=lib.float64), lib.ones(2, dtype=lib.float64)
    y = lib.addcmul(x, a, b) + lib.lerp(x, a, 0.5) + lib.hypot(x, a)
    a.add_(1)
    b.add_(1)
    y.sum().backward()
    assert x.grad is not None
