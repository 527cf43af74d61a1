"""The device jit_cpu: what is placed there is compiled or refused, and copied in and out."""

import numpy as np
import pytest

import minitensor as mt
from minitensor._jit.entry_points import collect_step_stats

NAMES = ["jit_cpu", "jit_cpu:0", "JIT_CPU:0", "/device:JIT_CPU:0", "/job:localhost/replica:0/task:0/device:JIT_CPU:0"]


def same(a, b):
    np.testing.assert_array_equal(a.detach().cpu().numpy(), b.detach().cpu().numpy())


@pytest.mark.parametrize("name", NAMES)
def test_names(name):
    assert mt.device(name).type == "jit_cpu"
    with mt.device(name):
        assert mt.zeros(2).device.type == "jit_cpu"
    assert mt.zeros(2).device.type == "cpu"


def test_tensorflows_names_of_other_devices():
    assert mt.device("/job:localhost/replica:0/task:0/device:CPU:0") == mt.device("cpu:0")
    assert mt.device("/device:GPU:1") == mt.device("cuda:1")
    for wrong in ["/job:worker/replica:0/task:0/device:CPU:0", "/device:TPU:0", "/cpu", "Jit_cpu"]:
        with pytest.raises(RuntimeError, match="device"):
            mt.device(wrong)


def test_ops_are_compiled_with_the_bits_of_eager_ones():
    x, w = mt.randn(5, 7), mt.randn(7, 3)
    with mt.device("jit_cpu"), collect_step_stats() as stats:
        y = mt.softmax(mt.tanh(x @ w), dim=1)
        assert y.device.type == "jit_cpu"
        values = y.cpu()
    same(values, mt.softmax(mt.tanh(x @ w), dim=1))
    ops = [node.op for node in stats.dev_stats[0].node_stats]
    assert ops.count("_JitLaunch") == 1
    assert set(ops) == {"_Copy", "_JitLaunch"}


def test_copies_are_in_the_profile():
    x = mt.rand(4, 5)
    with collect_step_stats() as stats:
        result = (x.to("jit_cpu") * 2.0).sum().item()
    assert result == (x * 2.0).sum().item()
    copies = [(node.node_name, node.bytes) for node in stats.dev_stats[0].node_stats if node.op == "_Copy"]
    assert copies == [("copy cpu:0 to jit_cpu:0", 80), ("copy jit_cpu:0 to cpu:0", 4)]
    assert all(__file__ in node.source for node in stats.dev_stats[0].node_stats)


def test_what_cannot_be_compiled_is_refused():
    x = mt.rand(6)
    with mt.device("jit_cpu"), pytest.raises(mt.InvalidArgumentError, match="unique"):
        mt.unique(x)
    with pytest.raises(mt.InvalidArgumentError, match="depends on the data"):
        mt.nonzero(x.to("jit_cpu"))
    assert (x.to("jit_cpu") + 1.0).tolist() == (x + 1.0).tolist()


def test_gradients_cross_devices():
    grads = []
    for device in ("cpu", "jit_cpu"):
        mt.manual_seed(2)
        x, w = mt.randn(5, 4), mt.randn(4, 3, requires_grad=True)
        scale = mt.rand(3, requires_grad=True)
        loss = ((x.to(device) @ w).tanh() * scale.to(device)).sum()
        assert loss.device.type == device
        loss.backward()
        assert w.grad.device.type == scale.grad.device.type == "cpu"
        grads.append((w.grad, scale.grad))
    for a, b in zip(*grads, strict=True):
        same(a, b)


def test_modules_live_there():
    model = mt.nn.Linear(4, 2)
    twin = mt.nn.Linear(4, 2)
    twin.load_state_dict(model.state_dict())
    model.to("jit_cpu")
    x = mt.rand(3, 4)
    for one in (model, twin):
        optimizer = mt.optim.SGD(one.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (one(x.to(one.weight.device)) ** 2).sum().backward()
            optimizer.step()
    assert model.weight.device.type == "jit_cpu"
    same(model.weight, twin.weight)
    same(model.bias, twin.bias)


def test_writes_in_place():
    x = mt.arange(6, dtype=mt.float32)
    with mt.device("jit_cpu"):
        y = mt.zeros(2, 3)
        y[1] = 5.0
        y += x[:3]
        y[:, 0].mul_(-1.0)
        x.add_(1.0)
    assert y.tolist() == [[-0.0, 1.0, 2.0], [-5.0, 6.0, 7.0]]
    assert x.device.type == "cpu"
    assert x.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    back = mt.zeros(2, 3)
    back.copy_(y)
    same(back, y)


def test_creation_and_conversion():
    t = mt.tensor([1.5, -2.0], device="jit_cpu")
    assert repr(t) == "tensor([ 1.5000, -2.0000], device='jit_cpu')"
    assert t.to("cpu").device.type == "cpu"
    assert t.double().device.type == "jit_cpu"
    assert (t.numpy() == np.array([1.5, -2.0], np.float32)).all()
    assert mt.arange(3, device="jit_cpu").tolist() == [0, 1, 2]
    mt.manual_seed(1)
    a = mt.rand(4, device="jit_cpu")
    mt.manual_seed(1)
    same(a, mt.rand(4))
    with pytest.raises(TypeError, match="jit_cpu"):
        memoryview(t)
    with pytest.raises(RuntimeError, match="device cuda can't be used"):
        mt.zeros(2, device="jit_gpu")


def test_inside_a_recording():
    x = mt.rand(4)
    with mt.jit_scope():
        a = x * 2.0
        b = a.to("jit_cpu") + 1.0
        c = b.cpu() * a
    same(c, (x * 2.0 + 1.0) * (x * 2.0))


def test_no_copies_between_compiled_and_eager_ops_on_ordinary_devices():
    x = mt.rand(64, 64)
    with mt.jit_scope():
        y = mt.tanh(x) * 2.0
    addresses = []
    from minitensor_jit.inspect.numerics import launch_observer

    original = launch_observer.ClusterObserver.__call__

    def watch(self, ran, pointers):
        addresses.append(list(pointers))
        original(self, ran, pointers)

    launch_observer.ClusterObserver.__call__ = watch
    try:
        with mt.jit.options(check_cluster_output_numerics=True), mt.jit_scope():
            z = mt.exp(y) + x
    finally:
        launch_observer.ClusterObserver.__call__ = original
    # The kernel read the eager op's memory and wrote the tensor that the next eager op reads.
    # An address is asked for late: memory whose address is known may be written by others, and is copied.
    assert {x.data_ptr(), y.data_ptr(), z.data_ptr()} <= set(addresses[0])
    assert y.view(-1).data_ptr() == y.data_ptr()


def test_an_op_of_many_operands():
    parts = [mt.full((2, 3), float(k)) for k in range(40)]
    placed = [p.to("jit_cpu") for p in parts[1:]]
    assert mt.equal(mt.cat([parts[0], *placed]).cpu(), mt.cat(parts))
