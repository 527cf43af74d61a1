"""Modules, parameters, functions and first values."""

import copy
import math
import pickle

import numpy as np
import pytest

import minitensor as mt
from minitensor import nn
from minitensor.nn import functional as F


class TwoLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.second = nn.Linear(3, 2, bias=False)
        self.register_buffer("steps", mt.zeros(1))
        self.register_buffer("scratch", mt.zeros(2), persistent=False)

    def forward(self, x):
        return self.second(F.relu(self.first(x)))


def values(tensor):
    return tensor.detach().numpy()


def log_softmax(x, axis):
    x = x - x.max(axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


class TestParameter:
    def test_shares_storage_and_requires_grad(self):
        data = mt.zeros(3)
        param = nn.Parameter(data)
        data[1] = 5.0
        assert values(param).tolist() == [0.0, 5.0, 0.0]
        assert param.requires_grad
        assert param.is_leaf
        assert not data.requires_grad
        assert isinstance(param, mt.Tensor)
        assert not nn.Parameter(data, requires_grad=False).requires_grad

    def test_operations_give_plain_tensors(self):
        assert type(nn.Parameter(mt.ones(2)) + 1) is mt.Tensor

    def test_is_a_leaf_of_computed_data(self):
        x = mt.ones(2, requires_grad=True)
        param = nn.Parameter(x * 2)
        param.sum().backward()
        assert x.grad is None
        assert values(param.grad).tolist() == [1.0, 1.0]

    def test_repr_and_type_errors(self):
        assert repr(nn.Parameter(mt.ones(1))).startswith("Parameter containing:\ntensor([1.]")
        with pytest.raises(TypeError, match="must be a Tensor, not list"):
            nn.Parameter([1.0])
        assert nn.Parameter().shape == (0,)

    @pytest.mark.parametrize("clone", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
    def test_copies(self, clone):
        param = nn.Parameter(mt.tensor([1.0, 2.0]), requires_grad=False)
        other = clone(param)
        assert type(other) is nn.Parameter
        assert not other.requires_grad
        with mt.no_grad():
            other.add_(1)
        assert values(param).tolist() == [1.0, 2.0]
        assert values(other).tolist() == [2.0, 3.0]

    def test_deepcopy_keeps_sharing(self):
        param = nn.Parameter(mt.ones(1))
        a, b = copy.deepcopy([param, param])
        assert a is b
        assert a is not param


class TestRegistration:
    def test_names(self):
        net = TwoLayers()
        assert [n for n, _ in net.named_parameters()] == ["first.weight", "first.bias", "second.weight"]
        assert [n for n, _ in net.named_buffers()] == ["steps", "scratch"]
        assert [n for n, _ in net.named_modules()] == ["", "first", "second"]
        assert [n for n, _ in net.named_children()] == ["first", "second"]
        assert list(net.children()) == [net.first, net.second]
        assert len(list(net.parameters(recurse=False))) == 0
        assert next(net.named_parameters("net"))[0] == "net.first.weight"
        assert "first" in dir(net)

    def test_shared_members_are_listed_once(self):
        net = nn.Module()
        net.a = net.b = nn.Linear(2, 2)
        net.c = net.a.weight
        assert [n for n, _ in net.named_parameters()] == ["c", "a.bias"]
        assert len(list(net.named_parameters(remove_duplicate=False))) == 5
        assert len(list(net.modules())) == 2
        assert len(net.state_dict()) == 5

    def test_assignment_before_init(self):
        class Forgetful(nn.Module):
            def __init__(self):
                self.weight = nn.Parameter(mt.ones(1))

        class AlsoForgetful(nn.Module):
            def __init__(self):
                self.child = nn.Identity()

        for cls in (Forgetful, AlsoForgetful):
            with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
                cls()

    def test_assignment_keeps_the_kind(self):
        layer = nn.Linear(2, 2)
        with pytest.raises(TypeError, match=r"cannot assign 'minitensor\.FloatTensor' as parameter 'weight'"):
            layer.weight = mt.ones(2, 2)
        with pytest.raises(TypeError, match="cannot assign 'int' as child module 'first'"):
            TwoLayers().first = 3
        net = TwoLayers()
        with pytest.raises(TypeError, match="cannot assign 'float' as buffer 'steps'"):
            net.steps = 1.0
        net.steps = mt.ones(4)
        assert dict(net.named_buffers())["steps"].shape == (4,)
        layer.bias = None
        assert [n for n, _ in layer.named_parameters()] == ["weight"]
        assert layer.bias is None

    def test_replacing_and_deleting(self):
        net = TwoLayers()
        net.second = nn.Identity()
        assert [n for n, _ in net.named_parameters()] == ["first.weight", "first.bias"]
        net.plain = 3
        net.plain = nn.Parameter(mt.ones(1))
        assert net.plain is dict(net.named_parameters())["plain"]
        net.first.weight = nn.Parameter(mt.zeros(3, 4))
        assert [n for n, _ in net.first.named_parameters()] == ["weight", "bias"]  # the order stays
        del net.plain
        del net.scratch
        assert not hasattr(net, "scratch")
        assert not hasattr(net, "plain")
        with pytest.raises(AttributeError, match="'TwoLayers' object has no attribute 'plain'"):
            _ = net.plain
        with pytest.raises(AttributeError):
            del net.plain

    def test_bad_names(self):
        net = TwoLayers()
        for name, error in (("a.b", KeyError), ("", KeyError), ("forward", KeyError), (3, TypeError)):
            with pytest.raises(error):
                net.register_buffer(name, None)
            with pytest.raises(error):
                net.register_parameter(name, None)
            with pytest.raises(error):
                net.add_module(name, None)
        with pytest.raises(TypeError, match="is not a Module subclass"):
            net.add_module("x", 3)

    def test_lookup_by_path(self):
        net = nn.Sequential(TwoLayers())
        assert net.get_submodule("0.first") is net[0].first
        assert net.get_submodule("") is net
        assert net.get_parameter("0.first.bias") is net[0].first.bias
        assert net.get_buffer("0.steps") is net[0].steps
        for get in (net.get_submodule, net.get_parameter, net.get_buffer):
            with pytest.raises(AttributeError):
                get("0.nothing")


class TestState:
    def test_round_trip(self):
        a, b = TwoLayers(), TwoLayers()
        state = a.state_dict()
        assert list(state) == ["steps", "first.weight", "first.bias", "second.weight"]
        assert not any(t.requires_grad for t in state.values())
        result = b.load_state_dict(state)
        assert result.missing_keys == []
        assert result.unexpected_keys == []
        for name, tensor in b.state_dict().items():
            assert (values(tensor) == values(state[name])).all()
        assert all(p.requires_grad for p in b.parameters())

    def test_state_shares_storage(self):
        net = nn.Linear(1, 1)
        net.state_dict()["weight"].fill_(7.0)
        assert net.weight.item() == 7.0
        assert net.state_dict(prefix="x.", keep_vars=True)["x.weight"] is net.weight

    def test_strict_messages(self):
        net = TwoLayers()
        state = net.state_dict()
        state["extra"] = mt.ones(1)
        del state["first.bias"]
        state["second.weight"] = mt.ones(5)
        with pytest.raises(RuntimeError) as info:
            net.load_state_dict(state)
        text = str(info.value)
        assert text.startswith("Error(s) in loading state_dict for TwoLayers:")
        assert 'Missing key(s) in state_dict: "first.bias"' in text
        assert 'Unexpected key(s) in state_dict: "extra"' in text
        assert "size mismatch for second.weight" in text
        del state["second.weight"]
        result = net.load_state_dict(state, strict=False)
        assert result.missing_keys == ["first.bias", "second.weight"]
        assert result.unexpected_keys == ["extra"]

    def test_not_tensors(self):
        net = nn.Linear(1, 1)
        with pytest.raises(TypeError, match="dict-like"):
            net.load_state_dict([1])
        with pytest.raises(RuntimeError, match="but received <class 'list'>"):
            net.load_state_dict({"weight": [1.0], "bias": mt.ones(1)})

    def test_assign(self):
        net = nn.Linear(2, 1)
        weight = mt.ones(1, 2)
        net.load_state_dict({"weight": weight, "bias": mt.zeros(1)}, assign=True)
        assert isinstance(net.weight, nn.Parameter)
        weight[0, 0] = 9.0
        assert net.weight[0, 0].item() == 9.0

    @pytest.mark.parametrize("clone", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
    def test_copies(self, clone):
        net = TwoLayers()
        other = clone(net)
        x = mt.ones(2, 4)
        assert (values(net(x)) == values(other(x))).all()
        with mt.no_grad():
            other.first.weight.zero_()
        assert (values(net.first.weight) != 0).any()


class TestModes:
    def test_train_eval_apply(self):
        net = nn.Sequential(TwoLayers(), nn.ReLU())
        assert net.eval() is net
        assert not any(m.training for m in net.modules())
        net.train()
        assert all(m.training for m in net.modules())
        with pytest.raises(ValueError, match="boolean"):
            net.train("yes")
        order = []
        net.apply(lambda m: order.append(type(m).__name__))
        assert order == ["Linear", "Linear", "TwoLayers", "ReLU", "Sequential"]

    def test_gradients(self):
        net = TwoLayers()
        net(mt.ones(1, 4)).sum().backward()
        assert all(p.grad is not None for p in net.parameters())
        net.zero_grad(set_to_none=False)
        assert all((values(p.grad) == 0).all() for p in net.parameters())
        net.zero_grad()
        assert all(p.grad is None for p in net.parameters())
        net.requires_grad_(False)
        assert not net(mt.ones(1, 4)).requires_grad

    def test_to_dtype(self):
        net = TwoLayers()
        net.register_buffer("count", mt.tensor([1, 2]))
        params = list(net.parameters())
        before = [values(p).copy() for p in params]
        assert net.double() is net
        assert all(a is b for a, b in zip(params, net.parameters(), strict=True))
        assert all(p.dtype == mt.float64 and p.requires_grad for p in params)
        assert net.count.dtype == mt.int64
        assert net.steps.dtype == mt.float64
        net.to(mt.float32).cpu()
        assert all((values(p) == b).all() for p, b in zip(params, before, strict=True))
        assert net(mt.ones(1, 4)).dtype == mt.float32
        with pytest.raises(TypeError, match="floating point"):
            net.to(mt.int64)


class TestHooks:
    def test_order_and_replacement(self):
        net, log = nn.Identity(), []
        net.register_forward_pre_hook(lambda m, args: log.append("pre") or args[0] + 1)
        net.register_forward_pre_hook(lambda m, args: log.append("first"), prepend=True)
        net.register_forward_hook(lambda m, args, out: log.append("post") or out * 10)
        assert net(mt.ones(1)).item() == 20.0
        assert log == ["first", "pre", "post"]

    def test_removal(self):
        net = nn.Identity()
        with net.register_forward_hook(lambda m, args, out: out + 1) as handle:
            assert net(mt.zeros(1)).item() == 1.0
        assert net(mt.zeros(1)).item() == 0.0
        handle.remove()

    def test_keyword_arguments(self):
        class Scale(nn.Module):
            def forward(self, x, factor):
                return x * factor

        net = Scale()
        net.register_forward_pre_hook(
            lambda m, args, kwargs: (args, {"factor": kwargs["factor"] + 1}), with_kwargs=True
        )
        net.register_forward_hook(lambda m, args, kwargs, out: out + kwargs["factor"], with_kwargs=True)
        assert net(mt.ones(1), factor=2).item() == 6.0
        net.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True)
        with pytest.raises(RuntimeError, match="pre-hook"):
            net(mt.ones(1), factor=2)

    def test_missing_forward(self):
        with pytest.raises(NotImplementedError, match=r"\[Module\] is missing"):
            nn.Module()(1)


class TestContainers:
    def test_sequential(self):
        net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Flatten(0))
        assert net(mt.ones(2, 3)).shape == (6,)
        assert isinstance(net[-1], nn.Flatten)
        assert [type(m) for m in net[:2]] == [nn.Linear, nn.Tanh]
        net[1] = nn.Sigmoid()
        del net[0]
        assert [type(m) for m in net] == [nn.Sigmoid, nn.Flatten]
        assert list(dict(net.named_children())) == ["0", "1"]
        net.append(nn.ReLU())
        assert len(net) == 3
        with pytest.raises(IndexError):
            net[3]

    def test_named(self):
        net = nn.Sequential({"a": nn.Linear(1, 1), "b": nn.ReLU()})
        assert net.a is net[0]
        assert [n for n, _ in net.named_parameters()] == ["a.weight", "a.bias"]

    def test_module_list(self):
        layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
        assert len(list(layers.parameters())) == 6
        assert [type(m) for m in layers[1:]] == [nn.Linear, nn.Linear]

    def test_repr(self):
        net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Softmax(1)))
        assert repr(net) == (
            "Sequential(\n"
            "  (0): Linear(in_features=2, out_features=3, bias=True)\n"
            "  (1): Sequential(\n"
            "    (0): ReLU()\n"
            "    (1): Softmax(dim=1)\n"
            "  )\n"
            ")"
        )


class TestLinear:
    def test_values(self):
        layer = nn.Linear(3, 2)
        x = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
        expected = x @ values(layer.weight).T + values(layer.bias)
        np.testing.assert_allclose(values(layer(mt.from_numpy(x))), expected, rtol=1e-5, atol=1e-6)
        vector = F.linear(mt.ones(4, 3), mt.tensor([1.0, 2.0, 3.0]))
        assert values(vector).tolist() == [6.0] * 4

    def test_first_values(self):
        mt.manual_seed(1)
        layer = nn.Linear(100, 50)
        for tensor in (layer.weight, layer.bias):
            assert 0.08 < np.abs(values(tensor)).max() < 0.1
        mt.manual_seed(1)
        assert (values(nn.Linear(100, 50).weight) == values(layer.weight)).all()

    def test_float64_and_empty(self):
        assert nn.Linear(2, 2, dtype=mt.float64).weight.dtype == mt.float64
        with pytest.warns(UserWarning, match="zero-element"):
            assert nn.Linear(0, 2)(mt.ones(3, 0)).shape == (3, 2)

    def test_wrong_size(self):
        with pytest.raises(RuntimeError):
            nn.Linear(3, 2)(mt.ones(4, 4))


class TestLosses:
    LOGITS = np.array([[1.0, 2.0, 0.5], [0.1, -3.0, 4.0], [0.0, 0.0, 0.0], [10.0, -10.0, 0.0]], np.float32)
    TARGET = np.array([2, 0, 1, 1])
    LOSSES = -log_softmax(LOGITS.astype(np.float64), 1)[np.arange(4), TARGET]

    @pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
    def test_cross_entropy(self, reduction):
        expected = {"mean": self.LOSSES.mean(), "sum": self.LOSSES.sum(), "none": self.LOSSES}[reduction]
        loss = nn.CrossEntropyLoss(reduction=reduction)(mt.tensor(self.LOGITS), mt.tensor(self.TARGET))
        np.testing.assert_allclose(values(loss), expected, rtol=1e-6)

    def test_gradient(self):
        logits = mt.tensor(self.LOGITS, requires_grad=True)
        F.cross_entropy(logits, mt.tensor(self.TARGET)).backward()
        expected = (np.exp(log_softmax(self.LOGITS.astype(np.float64), 1)) - np.eye(3)[self.TARGET]) / 4
        np.testing.assert_allclose(values(logits.grad), expected, atol=1e-7)

    def test_ignore_index_and_weight(self):
        target, weight = np.array([2, 0, -100, 1]), np.array([1.0, 2.0, 0.5], np.float32)
        factors = weight[self.TARGET]
        expected = (self.LOSSES * factors)[[0, 1, 3]].sum() / factors[[0, 1, 3]].sum()
        loss = F.cross_entropy(mt.tensor(self.LOGITS), mt.tensor(target), mt.tensor(weight), ignore_index=-100)
        np.testing.assert_allclose(loss.item(), expected, rtol=1e-6)
        each = F.cross_entropy(mt.tensor(self.LOGITS), mt.tensor(target), ignore_index=-100, reduction="none")
        assert each[2].item() == 0.0
        every = F.cross_entropy(mt.tensor(self.LOGITS), mt.tensor([1, 1, 1, 1]), ignore_index=1)
        assert math.isnan(every.item())

    def test_label_smoothing_is_a_soft_target(self):
        soft = np.eye(3, dtype=np.float32)[self.TARGET] * 0.9 + 0.1 / 3
        weight = mt.tensor([1.0, 2.0, 0.5])
        logits, target = mt.tensor(self.LOGITS), mt.tensor(self.TARGET)
        for w in (None, weight):
            hard = F.cross_entropy(logits, target, w, label_smoothing=0.1, reduction="none")
            given = F.cross_entropy(logits, mt.tensor(soft), w, reduction="none")
            np.testing.assert_allclose(values(hard), values(given), rtol=1e-5)
        smoothed = F.cross_entropy(logits, mt.tensor(np.eye(3, dtype=np.float32)[self.TARGET]), label_smoothing=0.1)
        np.testing.assert_allclose(smoothed.item(), F.cross_entropy(logits, mt.tensor(soft)).item(), rtol=1e-6)

    def test_more_dimensions_and_single_example(self):
        logits = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
        target = np.array([[0, 1, 2, 0], [2, 2, 1, 0]])
        expected = -np.take_along_axis(log_softmax(logits, 1), target[:, None], 1).mean()
        np.testing.assert_allclose(F.cross_entropy(mt.tensor(logits), mt.tensor(target)).item(), expected, rtol=1e-5)
        single = F.cross_entropy(mt.tensor(self.LOGITS[0]), mt.tensor(2))
        np.testing.assert_allclose(single.item(), self.LOSSES[0], rtol=1e-6)

    def test_large_logits_stay_finite(self):
        loss = F.cross_entropy(mt.tensor([[1e4, -1e4]]), mt.tensor([1]))
        assert loss.item() == 2e4

    @pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
    def test_bad_arguments(self):
        logits, target = mt.ones(4, 3), mt.zeros(4, dtype=mt.int64)
        with pytest.raises(ValueError, match=r"batch_size \(4\) to match target batch_size \(2\)"):
            F.cross_entropy(logits, target[:2])
        with pytest.raises(ValueError, match="x is not a valid value for reduction"):
            F.cross_entropy(logits, target, reduction="x")
        with pytest.raises(RuntimeError, match="for all 3 classes"):
            F.nll_loss(logits, target, mt.ones(2))
        with pytest.raises(RuntimeError, match="0D or 1D target tensor expected"):
            F.nll_loss(logits, mt.zeros(4, 1, dtype=mt.int64))
        with pytest.raises(RuntimeError, match=r"target size \[4, 2\], got \[4, 3\]"):
            F.nll_loss(mt.ones(4, 3, 2), mt.zeros(4, 3, dtype=mt.int64))
        with pytest.raises(RuntimeError, match="label_smoothing"):
            F.cross_entropy(logits, target, label_smoothing=2.0)
        with pytest.raises(RuntimeError, match="expected target dtype to be Long"):
            F.cross_entropy(logits, mt.ones(4))
        for wrong in (3, -1, -99):
            with pytest.raises(IndexError):
                F.cross_entropy(logits, target + wrong)

    def test_mse(self):
        a, b = mt.tensor([1.0, 2.0]), mt.tensor([3.0, 5.0])
        assert nn.MSELoss()(a, b).item() == 6.5
        assert nn.MSELoss(reduction="sum")(a, b).item() == 13.0
        assert values(nn.MSELoss(reduction="none")(a, b)).tolist() == [4.0, 9.0]
        with pytest.warns(UserWarning, match="different to the input size"):
            F.mse_loss(a, b.reshape(2, 1))

    def test_one_hot(self):
        assert values(F.one_hot(mt.tensor([0, 2]))).tolist() == [[1, 0, 0], [0, 0, 1]]
        assert F.one_hot(mt.tensor([[0], [1]]), 5).shape == (2, 1, 5)
        for tensor, classes in (([1.0], -1), ([-1], -1), ([3], 3), ([0], 0)):
            with pytest.raises(RuntimeError):
                F.one_hot(mt.tensor(tensor), classes)


class TestActivations:
    X = np.array([[-2.0, 0.0, 3.0]], np.float32)

    @pytest.mark.parametrize(
        ("module", "expected"),
        [
            (nn.ReLU(), np.maximum(X, 0)),
            (nn.Tanh(), np.tanh(X)),
            (nn.Sigmoid(), 1 / (1 + np.exp(-X))),
            (nn.LogSoftmax(1), log_softmax(X, 1)),
            (nn.Softmax(1), np.exp(log_softmax(X, 1))),
            (nn.Identity(1, x=2), X),
        ],
        ids=repr,
    )
    def test_values(self, module, expected):
        np.testing.assert_allclose(values(module(mt.tensor(self.X))), expected, rtol=1e-6)

    def test_in_place(self):
        x = mt.tensor(self.X)
        assert nn.ReLU(inplace=True)(x) is x
        assert values(x).tolist() == [[0.0, 0.0, 3.0]]
        assert repr(nn.ReLU(inplace=True)) == "ReLU(inplace=True)"

    def test_dtype(self):
        assert F.softmax(mt.ones(2), 0, dtype=mt.float64).dtype == mt.float64
        assert F.log_softmax(mt.tensor([1, 2]), 0, dtype=mt.float32).dtype == mt.float32


class TestInit:
    def test_constants(self):
        tensor = mt.empty(2, 2)
        assert values(nn.init.ones_(tensor)).tolist() == [[1, 1], [1, 1]]
        assert values(nn.init.constant_(tensor, 3.0)).tolist() == [[3, 3], [3, 3]]
        assert nn.init.zeros_(tensor) is tensor

    def test_bounds(self):
        weight = nn.Parameter(mt.empty(200, 100))
        for fill, bound in (
            (lambda: nn.init.uniform_(weight, -2.0, 1.0), 2.0),
            (lambda: nn.init.xavier_uniform_(weight), math.sqrt(6 / 300)),
            (lambda: nn.init.kaiming_uniform_(weight, nonlinearity="relu"), math.sqrt(6 / 100)),
            (lambda: nn.init.kaiming_uniform_(weight, mode="fan_out", nonlinearity="relu"), math.sqrt(6 / 200)),
        ):
            assert 0.99 * bound < np.abs(values(fill())).max() <= bound
        assert weight.is_leaf
        sample = values(nn.init.normal_(weight, 1.0, 2.0))
        assert abs(sample.mean() - 1.0) < 0.05
        assert abs(sample.std() - 2.0) < 0.05

    def test_errors(self):
        with pytest.raises(ValueError, match="fewer than 2 dimensions"):
            nn.init.xavier_uniform_(mt.empty(3))
        with pytest.raises(ValueError, match="not supported"):
            nn.init.kaiming_uniform_(mt.empty(3, 3), mode="fan")
        with pytest.raises(ValueError, match="Unsupported nonlinearity 'swish'; known"):
            nn.init.calculate_gain("swish")
        assert nn.init.calculate_gain("leaky_relu", 0.0) == math.sqrt(2)
