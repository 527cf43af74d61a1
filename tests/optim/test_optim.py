"""Optimizers."""

import itertools

import numpy as np
import pytest

import minitensor as mt
from minitensor import nn, optim


def reference(param, grads, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False):
    """Run SGD by its definition, in float64."""
    param, buffer = param.astype(np.float64), None
    for grad in grads:
        g = (-grad if maximize else grad) + weight_decay * param
        if momentum:
            buffer = g if buffer is None else momentum * buffer + (1 - dampening) * g
            g = g + momentum * buffer if nesterov else buffer
        param = param - lr * g
    return param


OPTIONS = [
    {"lr": 0.1},
    {"lr": 0.1, "weight_decay": 0.01},
    {"lr": 0.1, "momentum": 0.9},
    {"lr": 0.1, "momentum": 0.9, "dampening": 0.5},
    {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    {"lr": 0.1, "momentum": 0.9, "maximize": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_sgd_follows_its_definition(options):
    rng = np.random.default_rng(0)
    start, grads = rng.normal(size=(3, 2)), rng.normal(size=(5, 3, 2))
    param = nn.Parameter(mt.tensor(start))
    optimizer = optim.SGD([param], **options)
    for grad in grads:
        param.grad = mt.tensor(grad)
        optimizer.step()
    np.testing.assert_allclose(param.detach().numpy(), reference(start, grads, **options), rtol=1e-12)
    np.testing.assert_array_equal(param.grad.numpy(), grads[-1])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_sgd_against_torch(options):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    start = rng.normal(size=(4, 3)).astype(np.float32)
    grads = rng.normal(size=(5, 4, 3)).astype(np.float32)
    ours, theirs = nn.Parameter(mt.tensor(start)), torch.nn.Parameter(torch.tensor(start))
    mine, peer = optim.SGD([ours], **options), torch.optim.SGD([theirs], **options)
    for grad in grads:
        ours.grad, theirs.grad = mt.tensor(grad), torch.tensor(grad)
        mine.step()
        peer.step()
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-5, atol=1e-6)


ADAM = [
    {},
    {"weight_decay": 0.1},
    {"lr": 0.1, "betas": (0.5, 0.75), "eps": 1e-3, "maximize": True},
    {"amsgrad": True, "lr": 0.01},
]


@pytest.mark.parametrize("options", ADAM, ids=str)
@pytest.mark.parametrize("kind", ["Adam", "AdamW"])
def test_adam_follows_its_definition(kind, options):
    rng = np.random.default_rng(2)
    start, grads = rng.normal(size=(3, 2)), rng.normal(size=(6, 3, 2))
    param = nn.Parameter(mt.tensor(start))
    optimizer = getattr(optim, kind)([param], **options)
    lr, (beta1, beta2) = options.get("lr", 1e-3), options.get("betas", (0.9, 0.999))
    decay = options.get("weight_decay", 0 if kind == "Adam" else 1e-2)
    expected, mean, square, largest = start.copy(), 0.0, 0.0, 0.0
    for step, grad in enumerate(grads, 1):
        param.grad = mt.tensor(grad)
        optimizer.step()
        g = -grad if options.get("maximize") else grad
        if kind == "AdamW":
            expected = expected - lr * decay * expected
        else:
            g = g + decay * expected
        mean = beta1 * mean + (1 - beta1) * g
        square = beta2 * square + (1 - beta2) * g**2
        largest = np.maximum(largest, square)
        scale = np.sqrt((largest if options.get("amsgrad") else square) / (1 - beta2**step))
        expected = expected - lr * mean / (1 - beta1**step) / (scale + options.get("eps", 1e-8))
    np.testing.assert_allclose(param.detach().numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("options", ADAM, ids=str)
@pytest.mark.parametrize("kind", ["Adam", "AdamW"])
def test_adam_against_torch(kind, options):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    start = rng.normal(size=(4, 3)).astype(np.float32)
    grads = rng.normal(size=(5, 4, 3)).astype(np.float32)
    ours, theirs = nn.Parameter(mt.tensor(start)), torch.nn.Parameter(torch.tensor(start))
    mine, peer = getattr(optim, kind)([ours], **options), getattr(torch.optim, kind)([theirs], **options)
    for grad in grads:
        ours.grad, theirs.grad = mt.tensor(grad), torch.tensor(grad)
        mine.step()
        peer.step()
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-6, atol=1e-7)
    assert mine.state[ours].keys() == peer.state[theirs].keys()
    assert mine.param_groups[0].keys() == peer.param_groups[0].keys()
    for key, value in mine.state[ours].items():
        np.testing.assert_allclose(value.numpy(), peer.state[theirs][key].numpy(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"lr": -1.0}, ValueError, "Invalid learning rate: -1.0"),
        ({"eps": float("nan")}, ValueError, "Invalid epsilon value: nan"),
        ({"weight_decay": -1}, ValueError, "Invalid weight_decay value: -1"),
        ({"betas": (0.9, 1.0)}, ValueError, "Invalid beta parameter at index 1: 1.0"),
    ],
)
def test_adam_refuses_what_it_cannot_do(options, error, text):
    with pytest.raises(error, match=text):
        optim.Adam([nn.Parameter(mt.ones(2))], **options)


def test_training_reduces_the_loss():
    mt.manual_seed(0)
    model = nn.Linear(3, 1)
    x = mt.randn(64, 3)
    y = x @ mt.tensor([[1.0], [-2.0], [0.5]]) + 3.0
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(100)]
    assert losses[-1] < 1e-4 < losses[0]
    np.testing.assert_allclose(model.weight.detach().numpy(), [[1.0, -2.0, 0.5]], atol=0.01)
    np.testing.assert_allclose(model.bias.item(), 3.0, atol=0.01)


def test_parameters_without_gradient_stay():
    a, b = nn.Parameter(mt.ones(1)), nn.Parameter(mt.ones(1))
    a.grad = mt.ones(1)
    optim.SGD([a, b], lr=1.0).step()
    assert (a.item(), b.item()) == (0.0, 1.0)


def test_groups():
    a, b = nn.Parameter(mt.ones(1)), nn.Parameter(mt.ones(1))
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.25)
    a.grad = b.grad = mt.ones(1)
    optimizer.step()
    assert (a.item(), b.item()) == (0.75, 0.5)
    optimizer.param_groups[0]["lr"] = 0.5
    optimizer.step()
    assert a.item() == 0.25
    assert "Parameter Group 1" in repr(optimizer)
    assert "    lr: 0.5" in repr(optimizer)


def test_zero_grad():
    param = nn.Parameter(mt.ones(2))
    optimizer = optim.SGD([param], lr=1.0)
    optimizer.zero_grad()
    param.grad = mt.ones(2)
    optimizer.zero_grad(set_to_none=False)
    assert param.grad.numpy().tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert param.grad is None


def test_state_round_trip():
    def make():
        param = nn.Parameter(mt.tensor([1.0, 2.0]))
        return param, optim.SGD([param], lr=0.1, momentum=0.9)

    def step(param, optimizer):
        param.grad = mt.tensor([0.5, -1.0])
        optimizer.step()

    (a, one), (b, two) = make(), make()
    for _ in range(3):
        step(a, one)
    saved = one.state_dict()
    assert saved["param_groups"][0]["params"] == [0]
    two.load_state_dict(saved)
    with mt.no_grad():
        b.copy_(a)
    for _ in range(2):
        step(a, one)
        step(b, two)
    np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
    # The copies are independent.
    assert one.state[a]["momentum_buffer"] is not two.state[b]["momentum_buffer"]
    with pytest.raises(ValueError, match="number of parameter groups"):
        two.load_state_dict({"state": {}, "param_groups": []})
    with pytest.raises(ValueError, match="size of optimizer's group"):
        two.load_state_dict({"state": {}, "param_groups": [{"params": [0, 1]}]})


def test_bad_arguments():
    param = nn.Parameter(mt.ones(1))
    for name, value in itertools.product(("lr", "momentum", "weight_decay"), (-1.0, float("nan"))):
        with pytest.raises(ValueError, match="Invalid"):
            optim.SGD([param], **{name: value})
    with pytest.raises(ValueError, match="Nesterov"):
        optim.SGD([param], lr=0.1, nesterov=True)
    with pytest.raises(ValueError, match="empty parameter list"):
        optim.SGD([], lr=0.1)
    with pytest.raises(TypeError, match=r"iterable of Tensors or dicts, but got minitensor\.FloatTensor"):
        optim.SGD(param, lr=0.1)
    with pytest.raises(TypeError, match="one of the params is int"):
        optim.SGD([3], lr=0.1)
    with pytest.raises(TypeError, match="organized in ordered collections"):
        optim.SGD([{"params": {param}}], lr=0.1)
    with pytest.raises(ValueError, match="more than one parameter group"):
        optim.SGD([{"params": [param]}, {"params": [param]}], lr=0.1)
    with pytest.raises(ValueError, match="non-leaf"):
        optim.SGD([param * 2], lr=0.1)
    with pytest.raises(NotImplementedError):
        optim.Optimizer([param], {}).step()


@pytest.fixture(params=["minitensor", "torch"])
def lib(request):
    return pytest.importorskip(request.param)


def test_what_load_state_dict_casts(lib):
    p = lib.nn.Parameter(lib.ones(2, dtype=lib.bfloat16))
    optimizer = lib.optim.SGD([p], lr=0.5)
    state = {
        "step": lib.tensor(1000.0), "average": lib.tensor([1.5, 2.0], dtype=lib.float64), "count": lib.tensor([3]),
        "nested": {"step": lib.tensor(513), "of": [lib.ones(1), 4]}, "number": 7,
    }  # fmt: skip
    saved = {"state": {0: state, "shared": {"norm": 2.5}}, "param_groups": optimizer.state_dict()["param_groups"]}
    optimizer.load_state_dict(saved)
    got = optimizer.state_dict()["state"]
    assert set(got) == {0, "shared"}
    assert got["shared"] == optimizer.state["shared"] == {"norm": 2.5}
    mine = got[0]
    tensors = [mine["step"], mine["average"], mine["count"], mine["nested"]["step"], mine["nested"]["of"][0]]
    assert [str(t.dtype).split(".")[1] for t in tensors] == ["float32", "bfloat16", "bfloat16", "int64", "bfloat16"]
    assert (mine["step"].item(), mine["nested"]["step"].item()) == (1000.0, 513)
    assert (mine["nested"]["of"][1], mine["number"]) == (4, 7)


def test_a_state_of_an_integer_parameter_keeps_its_dtypes(lib):
    p = lib.tensor([1, 2])
    optimizer = lib.optim.SGD([p], lr=0.5)
    saved = {"state": {0: {"average": lib.ones(2)}}, "param_groups": optimizer.state_dict()["param_groups"]}
    optimizer.load_state_dict(saved)
    assert str(optimizer.state[p]["average"].dtype).endswith("float32")


@pytest.mark.parametrize(
    ("momentum", "dampening", "allowed"),
    [(0.9, 0, True), (1e-30, 0, True), (0, 0, False), (0.9, 0.5, False), (0.9, -0.5, False), (0, 0.5, False)],
)
def test_what_nesterov_needs(lib, momentum, dampening, allowed):
    def made():
        return lib.optim.SGD([lib.ones(1)], lr=0.1, momentum=momentum, dampening=dampening, nesterov=True)

    if allowed:
        made()
    else:
        with pytest.raises(ValueError, match="Nesterov momentum requires a momentum and zero dampening"):
            made()
    lib.optim.SGD([lib.ones(1)], lr=0.1, momentum=momentum, dampening=dampening)


def test_descent_without_momentum_has_no_state():
    w = mt.ones(2, requires_grad=True)
    optimizer = mt.optim.SGD([w], lr=0.1)
    w.grad = mt.ones(2)
    optimizer.step()
    assert not optimizer.state
    assert optimizer.state_dict()["state"] == {}
    optimizer.param_groups[0]["momentum"] = 0.5
    optimizer.step()
    assert list(optimizer.state_dict()["state"][0]) == ["momentum_buffer"]
