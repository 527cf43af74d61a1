"""Modules' registries and state: what is written there counts, and children's overridden methods are called.

Every test runs with PyTorch too, where it is installed: the expected values are its own.
"""

import copy
import pickle
from typing import ClassVar

import pytest

import minitensor as mt


@pytest.fixture(params=["minitensor", "torch"])
def lib(request):
    return pytest.importorskip(request.param)


def filled(lib, *values):
    return lib.nn.Parameter(lib.tensor(values))


def affine(lib):
    class Affine(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = filled(lib, 2.0)
            self.register_buffer("b", lib.tensor([1.0]))
            self.child = lib.nn.Identity()

        def forward(self, x):
            return self.child(x * self.w) + self.b

    return Affine()


def result(lib, module):
    return module(lib.tensor([3.0])).tolist()


class TestRegistries:
    def test_they_are_where_attributes_are_found(self, lib):
        m = affine(lib)
        assert not {"w", "b", "child"} & set(vars(m))
        m._parameters["w"] = filled(lib, 5.0)
        assert m.w.tolist() == [5.0]
        assert result(lib, m) == [16.0]
        m._buffers["b"] = lib.tensor([10.0])
        assert result(lib, m) == [25.0]
        m._modules["child"] = lib.nn.ReLU()
        assert repr(m.child) == "ReLU()"
        m._parameters["extra"] = None
        assert m.extra is None
        assert isinstance(m._parameters, dict)

    @pytest.mark.parametrize("registry", ["_parameters", "_buffers", "_modules"])
    def test_what_is_removed_is_gone(self, lib, registry):
        m = affine(lib)
        name = next(iter(getattr(m, registry)))
        del getattr(m, registry)[name]
        assert not hasattr(m, name)
        with pytest.raises(AttributeError, match=f"'Affine' object has no attribute '{name}'"):
            getattr(m, name)
        setattr(m, name, "other")
        assert getattr(m, name) == "other"
        assert name in vars(m)

    def test_a_computed_tensor_takes_a_parameters_place(self, lib):
        # As weight normalisation does it.
        m = affine(lib)
        v = m.w
        del m._parameters["w"]
        m.v = v
        m.w = v * 10
        m(lib.tensor([3.0])).sum().backward()
        assert m.v.grad.tolist() == [30.0]
        assert [name for name, _ in m.named_parameters()] == ["v"]

    def test_a_property_that_fails_is_looked_up_there(self, lib):
        class Odd(lib.nn.Module):
            @property
            def inner(self):
                raise AttributeError("not this way")

        m = Odd()
        m._modules["inner"] = lib.nn.Identity()
        assert repr(m.inner) == "Identity()"

    def test_class_and_instance_come_first(self, lib):
        m = affine(lib)
        type(m).w = "of the class"
        assert m.w == "of the class"
        vars(m)["b"] = "of the instance"
        assert m.b == "of the instance"

    def test_super_getattr(self, lib):
        class Wrapper(lib.nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def __getattr__(self, name):
                try:
                    return super().__getattr__(name)
                except AttributeError:
                    return getattr(self.inner, name)

        m = Wrapper(affine(lib))
        assert m.w.tolist() == [2.0]
        assert repr(m.inner.child) == "Identity()"
        with pytest.raises(AttributeError, match="'Affine' object has no attribute 'nothing'"):
            _ = m.nothing
        late = affine(lib)
        type(late).__getattr__ = lambda self, name: name.upper()
        assert late.w == "W"
        del type(late).__getattr__
        assert late.w.tolist() == [2.0]

    def test_before_init(self, lib):
        class Forgetful(lib.nn.Module):
            def __init__(self):
                pass

        m = Forgetful()
        assert not hasattr(m, "weight")
        with pytest.raises(AttributeError, match="cannot assign module before Module"):
            m.child = lib.nn.Identity()
        with pytest.raises(AttributeError):
            m(1)

    def test_dir_names_what_is_registered(self, lib):
        m = affine(lib)
        assert {"w", "b", "child", "forward", "training"} <= set(dir(m))
        assert "0" not in dir(lib.nn.Sequential(lib.nn.Identity()))

    def test_other_dictionaries(self, lib):
        m = affine(lib)
        m._parameters = {"w": filled(lib, 7.0)}
        assert result(lib, m) == [22.0]
        m.w = filled(lib, 8.0)
        assert result(lib, m) == [25.0]

    def test_a_parameters_name_takes_no_module(self, lib):
        m = affine(lib)
        with pytest.raises(TypeError, match=r"cannot assign .*Identity' as parameter 'w'"):
            m.w = lib.nn.Identity()
        m.child = filled(lib, 1.0)
        assert "child" not in m._modules
        m.b = lib.nn.Identity()
        assert "b" not in m._buffers


class TestCopies:
    def test_copy_shares_the_registries(self, lib):
        m = affine(lib)
        other = copy.copy(m)
        other.w = filled(lib, 4.0)
        m._buffers["b"] = lib.tensor([0.0])
        assert result(lib, m) == result(lib, other) == [12.0]
        other.training = False
        assert m.training

    def test_own_registries_of_a_copy(self, lib):
        m = affine(lib)
        other = copy.copy(m)
        other._parameters = other._parameters.copy()
        other.w = filled(lib, 4.0)
        assert (result(lib, m), result(lib, other)) == ([7.0], [13.0])

    def test_deepcopy_and_pickle(self, lib):
        m = lib.nn.Sequential(lib.nn.Linear(2, 1), lib.nn.Linear(1, 1))
        m[1].weight = m[1].bias
        for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
            assert other[1].weight is other[1].bias
            assert other[0].weight is not m[0].weight
            assert type(other._modules) is type(m._modules)
            other[0].weight = filled(lib, 1.0)
            assert other[0].weight.tolist() == [1.0]
            assert tuple(m[0].weight.shape) == (1, 2)


class TestChildrensMethods:
    def test_train_and_apply(self, lib):
        calls = []

        class Frozen(lib.nn.Module):
            def __init__(self):
                super().__init__()
                self.w = filled(lib, 1.0)

            def train(self, mode=True):
                calls.append(("train", mode))
                return super().train(False)

            def _apply(self, fn, recurse=True):
                calls.append("apply")
                return self

        m = lib.nn.Sequential(Frozen(), lib.nn.Linear(1, 1))
        m.train()
        assert [m.training, m[0].training, m[1].training] == [True, False, True]
        m.double()
        assert calls == [("train", True), "apply"]
        assert str(m[0].w.dtype).endswith("float32")
        assert str(m[1].weight.dtype).endswith("float64")

    def test_state_dict(self, lib):
        class Renamed(lib.nn.Linear):
            def state_dict(self, *args, **kwargs):
                found = super().state_dict(*args, **kwargs)
                found["seen"] = kwargs["prefix"]
                return found

        class Quiet(lib.nn.Linear):
            def _save_to_state_dict(self, destination, prefix, keep_vars):
                destination[prefix + "w"] = self.weight if keep_vars else self.weight.detach()

        m = lib.nn.ModuleList([Renamed(1, 1), lib.nn.ModuleList([Quiet(1, 1)])])
        assert list(m.state_dict()) == ["0.weight", "0.bias", "seen", "1.0.w"]
        assert m.state_dict()["seen"] == "0."
        assert m.state_dict(keep_vars=True)["1.0.w"] is m[1][0].weight
        given = {"there": 1}
        assert m.state_dict(destination=given, prefix="at.") is given
        assert list(given) == ["there", "at.0.weight", "at.0.bias", "seen", "at.1.0.w"]

    def test_extra_state_and_versions(self, lib):
        class Counter(lib.nn.Module):
            _version = 3

            def __init__(self):
                super().__init__()
                self.count = 0

            def get_extra_state(self):
                return {"count": self.count}

            def set_extra_state(self, state):
                self.count = state["count"]

        m = lib.nn.Sequential(Counter(), lib.nn.Linear(1, 1))
        m[0].count = 4
        state = m.state_dict()
        assert list(state) == ["0._extra_state", "1.weight", "1.bias"]
        assert state._metadata == {"": {"version": 1}, "0": {"version": 3}, "1": {"version": 1}}
        other = lib.nn.Sequential(Counter(), lib.nn.Linear(1, 1))
        assert repr(other.load_state_dict(state)) == "<All keys matched successfully>"
        assert other[0].count == 4
        without = {key: value for key, value in state.items() if "extra" not in key}
        assert other.load_state_dict(without, strict=False).missing_keys == ["0._extra_state"]
        superfluous = {**without, "1._extra_state": 1, "0._extra_state": {"count": 1}}
        assert other.load_state_dict(superfluous, strict=False).unexpected_keys == ["1._extra_state"]

    def test_loading(self, lib):
        seen = []

        class Old(lib.nn.Linear):
            _version = 2

            def _load_from_state_dict(self, state, prefix, metadata, strict, missing, unexpected, errors):
                seen.append((prefix, metadata.get("version"), strict, sorted(state)))
                if metadata.get("version", 1) < 2:
                    state[prefix + "weight"] = state.pop(prefix + "kernel")
                super()._load_from_state_dict(state, prefix, metadata, strict, missing, unexpected, errors)

        m = lib.nn.Sequential(Old(1, 1, bias=False), lib.nn.Linear(1, 1))
        state = {"0.kernel": lib.tensor([[5.0]]), "1.weight": lib.tensor([[6.0]]), "1.bias": lib.tensor([7.0])}
        m.load_state_dict(state)
        assert seen == [("0.", None, True, ["0.kernel"])]
        assert [p.tolist() for p in m.parameters()] == [[[5.0]], [[6.0]], [7.0]]
        assert sorted(state) == ["0.kernel", "1.bias", "1.weight"]  # the caller's stays
        m.load_state_dict(m.state_dict())
        assert seen[1] == ("0.", 2, True, ["0.weight"])

    def test_names_that_do_not_fit(self, lib):
        m = lib.nn.Sequential(lib.nn.Linear(1, 1))
        state = {"0.weight": lib.tensor([[1.0]]), "0.b.c": 1, "1.w": 2, "x": 3}
        found = m.load_state_dict(state, strict=False)
        assert (found.missing_keys, sorted(found.unexpected_keys)) == (["0.bias"], ["0.b.c", "1.w", "x"])
        with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "0.bias"'):
            m.load_state_dict(state)

    def test_a_number_that_was_saved_as_a_vector(self, lib):
        m = lib.nn.Module()
        m.register_buffer("steps", lib.tensor(0))
        m.load_state_dict({"steps": lib.tensor([7])})
        assert m.steps.tolist() == 7


@pytest.mark.at_once
class TestCompiledFunctions:
    def test_writes_into_the_registries_are_noticed(self):
        def changes(m):
            yield m._parameters.__setitem__, ("w", filled(mt, 5.0))
            yield m._buffers.update, ({"b": mt.tensor([10.0])},)
            yield m._modules.__setitem__, ("child", mt.nn.Tanh())
            yield m._modules.__ior__, ({"child": mt.nn.Identity()},)
            yield setattr, (m, "_parameters", {"w": filled(mt, 7.0)})

        m = affine(mt)
        f = mt.function(m, jit_compile=True)
        x = mt.tensor([3.0])
        assert f(x).tolist() == f(x).tolist() == [7.0]
        for change, args in changes(m):
            change(*args)
            expected = result(mt, m)
            for _ in range(2):
                assert f(x).tolist() == expected
        assert f.hits > 0

    def test_a_model_made_meanwhile_changes_nothing(self):
        m = affine(mt)
        f = mt.function(m, jit_compile=True)
        x = mt.tensor([3.0])
        f(x), f(x)
        hits, programs = f.hits, f.programs
        for _ in range(3):
            other = mt.nn.Sequential(mt.nn.Linear(2, 2), mt.nn.Linear(2, 2))
            other[1].weight = mt.nn.Parameter(mt.ones(2, 2))
            f(x)
        assert (f.hits, f.programs) == (hits + 3, programs)


def test_parameters_are_new_where_their_values_go_or_come():
    layer = mt.nn.Linear(2, 2)
    weight = layer.weight
    values, gradient = weight.detach().clone(), mt.ones(2, 2)
    weight.grad = gradient
    layer.bias.requires_grad_(False)
    layer.to("meta")
    assert layer.weight is not weight
    assert weight.equal(values)
    assert weight.grad is gradient
    assert layer.weight.is_meta
    assert layer.weight.grad.is_meta
    assert (layer.weight.requires_grad, layer.bias.requires_grad) == (True, False)
    assert list(dict(layer.named_parameters())) == ["weight", "bias"]
    placeholder = layer.weight
    layer.to_empty(device="cpu")
    assert placeholder.is_meta
    assert not layer.weight.is_meta
    weight = layer.weight
    layer.double()
    assert layer.weight is weight
    assert weight.dtype is mt.float64


class _Own(mt.Tensor):
    called: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.called.append(function.__name__)
        return super().__torch_function__(function, types, args, kwargs)


class _Plain(mt.Tensor):
    __torch_function__ = mt._C._disabled_torch_function_impl


def test_a_parameter_of_a_class_of_its_own_keeps_it():
    data = mt.ones(2, 2).as_subclass(_Own)
    model = mt.nn.Linear(2, 2, bias=False)
    model.weight = mt.nn.Parameter(data)
    assert type(model.weight) is _Own
    assert (model.weight.is_leaf, model.weight.requires_grad) == (True, True)
    assert model.weight.data_ptr() == data.data_ptr()
    assert [isinstance(t, mt.nn.Parameter) for t in (model.weight, data, mt.ones(1), 1)] == [True, False, False, False]
    assert not isinstance(model.weight, mt.nn.UninitializedParameter)
    assert [name for name, _ in model.named_parameters()] == ["weight"]
    _Own.called.clear()
    result = model(mt.ones(2))
    assert (type(result), _Own.called) == (_Own, ["linear"])
    result.sum().backward()
    mt.optim.SGD(model.parameters(), lr=0.5).step()
    assert data.as_subclass(mt.Tensor).tolist() == [[0.5, 0.5], [0.5, 0.5]]
    model.double()
    assert (type(model.weight), model.weight.dtype, isinstance(model.weight, mt.nn.Parameter)) == (
        _Own,
        mt.float64,
        True,
    )
    copied = copy.deepcopy(model)
    assert isinstance(copied.weight, mt.nn.Parameter)
    assert type(copied.weight) is type(mt.nn.Parameter(model.weight, requires_grad=False)) is _Own
    with pytest.raises(TypeError, match="cannot assign"):
        model.weight = data
    with pytest.raises(RuntimeError, match=r"requires that detach\(\) returns an instance of the same type"):
        mt.nn.Parameter(mt.ones(2).as_subclass(_Plain))
