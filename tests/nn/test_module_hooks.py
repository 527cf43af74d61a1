"""Module's hooks, and what else of it there is: every test runs with PyTorch too, where it is installed."""

import copy
import io
import pickle

import pytest
from runs import Runs

import minitensor as mt


@pytest.fixture(params=["minitensor", "torch"])
def lib(request):
    return pytest.importorskip(request.param)


def scale(lib, factor=2.0):
    class Scale(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = lib.nn.Parameter(lib.tensor([factor]))

        def forward(self, x, y=0.0, fails=False):
            if fails:
                raise ValueError("on purpose")
            return x * self.w + y

    return Scale()


class TestForward:
    def test_order_of_global_and_own(self, lib):
        m, log = scale(lib), []
        hooks = lib.nn.modules.module
        handles = [
            hooks.register_module_forward_pre_hook(lambda m, args: log.append("global before")),
            hooks.register_module_forward_hook(lambda m, args, out: log.append("global after")),
        ]
        m.register_forward_pre_hook(lambda m, args: log.append("before"))
        m.register_forward_hook(lambda m, args, out: log.append("after"))
        m.register_forward_hook(lambda m, args, out: out + 1, prepend=True)
        try:
            assert m(lib.tensor([1.0])).tolist() == [3.0]
        finally:
            for handle in handles:
                handle.remove()
        assert log == ["global before", "before", "global after", "after"]
        m(lib.tensor([1.0]))
        assert log[4:] == ["before", "after"]

    def test_always_called(self, lib):
        m, log = scale(lib), []
        m.register_forward_hook(lambda m, args, kwargs, out: log.append(out), always_call=True, with_kwargs=True)
        m.register_forward_hook(lambda m, args, out: log.append("not this"))
        with pytest.raises(ValueError, match="on purpose"):
            m(lib.tensor([1.0]), fails=True)
        assert log == [None]

    def test_keyword_hooks_and_removal(self, lib):
        m = scale(lib)
        with m.register_forward_pre_hook(lambda m, a, k: (a, {**k, "y": 5.0}), with_kwargs=True):
            assert m(lib.tensor([1.0])).tolist() == [7.0]
            assert len(m._forward_pre_hooks) == len(m._forward_pre_hooks_with_kwargs) == 1
        assert len(m._forward_pre_hooks) == len(m._forward_pre_hooks_with_kwargs) == 0
        m.register_forward_pre_hook(lambda m, a, k: a, with_kwargs=True)
        with pytest.raises(RuntimeError, match="forward pre-hook must return None or a tuple"):
            m(lib.tensor([1.0]))

    def test_a_hook_in_the_registry_counts(self, lib):
        m = scale(lib)
        m._forward_hooks[123] = lambda m, args, out: out * 10
        assert m(lib.tensor([1.0])).tolist() == [20.0]


class TestBackward:
    def test_full(self, lib):
        m, log = scale(lib, 3.0), []
        m.register_full_backward_pre_hook(lambda m, g: log.append(("before", g[0].tolist())))
        m.register_full_backward_hook(lambda m, gi, go: log.append((gi[0].tolist(), go[0].tolist())))
        m.register_full_backward_hook(lambda m, gi, go: (gi[0] * 10, *gi[1:]))
        x = lib.tensor([2.0], requires_grad=True)
        (m(x, 1.0) * 4).sum().backward()
        assert log == [("before", [4.0]), ([12.0], [4.0])]
        assert x.grad.tolist() == [120.0]
        assert m.w.grad.tolist() == [8.0]

    def test_pre_hook_changes_the_gradient(self, lib):
        m = scale(lib, 3.0)
        m.register_full_backward_pre_hook(lambda m, g: (g[0] * 2,))
        x = lib.tensor([2.0], requires_grad=True)
        m(x).sum().backward()
        assert x.grad.tolist() == [6.0]
        assert m.w.grad.tolist() == [4.0]

    def test_what_is_no_tuple_stands_for_all_gradients(self, lib):
        m, x = scale(lib, 3.0), lib.ones(2, requires_grad=True)
        for register in (m.register_full_backward_hook, m.register_full_backward_pre_hook):
            with register(lambda m, *gradients: [lib.full((2,), 5.0)]):
                m(x).sum().backward()
            with register(lambda m, *gradients: lib.ones(2)), pytest.raises(RuntimeError, match="invalid number"):
                m(x).sum().backward()
        assert x.grad.tolist() == [20.0, 20.0]

    def test_several_arguments_and_results(self, lib):
        class Both(lib.nn.Module):
            def forward(self, a, n, b):
                return a * b, n, a + b

        m, log = Both(), []
        m.register_full_backward_hook(lambda m, gi, go: log.append([g if g is None else g.tolist() for g in gi + go]))
        a, b = lib.tensor([2.0], requires_grad=True), lib.tensor([5.0], requires_grad=True)
        p, _, s = m(a, 7, b)
        (p + 10 * s).sum().backward()
        assert log == [[[15.0], None, [12.0], [1.0], None, [10.0]]]

    @pytest.mark.filterwarnings("ignore:Full backward hook")
    def test_without_arguments_that_want_gradients(self, lib):
        m, log = scale(lib), []
        m.register_full_backward_hook(lambda m, gi, go: log.append((gi, go[0].tolist())))
        m(lib.tensor([2.0])).sum().backward()
        assert log == [((None,), [1.0])]
        assert m.w.grad.tolist() == [2.0]

    def test_wrong_number_of_gradients(self, lib):
        m = scale(lib)
        m.register_full_backward_hook(lambda m, gi, go: (None, None))
        with pytest.raises(RuntimeError, match="invalid number of grad_input"):
            m(lib.tensor([2.0], requires_grad=True)).sum().backward()

    @pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:Using a non-full")
    def test_old_hooks_are_those_of_the_last_node(self, lib):
        m, log = scale(lib), []
        m.register_backward_hook(lambda m, gi, go: log.append(go[0].tolist()))
        (m(lib.tensor([2.0], requires_grad=True), 1.0) * 3).sum().backward()
        assert log == [[3.0]]
        with pytest.raises(RuntimeError, match="Cannot use both"):
            m.register_full_backward_hook(print)

    def test_global(self, lib):
        m, log = lib.nn.Sequential(scale(lib), scale(lib, 5.0)), []
        hooks = lib.nn.modules.module
        with hooks.register_module_full_backward_hook(lambda m, gi, go: log.append(type(m).__name__)):
            m(lib.tensor([2.0], requires_grad=True)).sum().backward()
        assert log == ["Scale", "Scale", "Sequential"]


class TestStateHooks:
    def test_state_dict(self, lib):
        m, log = lib.nn.Sequential(scale(lib)), []
        m.register_state_dict_pre_hook(lambda m, prefix, keep_vars: log.append((prefix, keep_vars)))

        def add(module, state, prefix, metadata):
            state["extra"] = 1

        m.register_state_dict_post_hook(add)
        m[0]._register_state_dict_hook(lambda m, state, prefix, metadata: metadata.update(mine=prefix))
        state = m.state_dict()
        assert list(state) == ["0.w", "extra"]
        assert log == [("", False)]
        assert state._metadata["0"] == {"version": 1, "mine": "0."}
        m.register_state_dict_post_hook(lambda *a: {})
        with pytest.raises(RuntimeError, match="must return None"):
            m.state_dict()

    def test_load_state_dict(self, lib):
        m, log = lib.nn.Sequential(scale(lib)), []

        def rename(module, state, prefix, *rest):
            log.append(type(module).__name__)
            if prefix + "old" in state:
                state[prefix + "w"] = state.pop(prefix + "old")

        m[0].register_load_state_dict_pre_hook(rename)
        m.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
        m.load_state_dict({"0.old": lib.tensor([9.0])})
        assert log == ["Scale"]
        assert m[0].w.tolist() == [9.0]
        m.load_state_dict({})  # the hook has taken what is missing out
        twin = copy.deepcopy(m)
        twin.load_state_dict({"0.old": lib.tensor([1.0])})
        assert (m[0].w.tolist(), twin[0].w.tolist()) == ([9.0], [1.0])

    @pytest.mark.filterwarnings("ignore:Positional args", "error::UserWarning")
    def test_to_a_meta_module_and_assign(self, lib):
        m = lib.nn.Linear(2, 1, device="meta")
        state = {"weight": lib.ones(1, 2), "bias": lib.zeros(1)}
        with pytest.raises(UserWarning, match="meta parameter"):
            m.load_state_dict(state)
        m.load_state_dict(state, assign=True)
        assert m(lib.ones(1, 2)).tolist() == [[2.0]]
        assert isinstance(m.weight, lib.nn.Parameter)

    def test_extra_state(self, lib):
        class Counted(lib.nn.Module):
            count = 3

            def get_extra_state(self):
                return self.count

            def set_extra_state(self, state):
                self.count = state

        m, other = Counted(), Counted()
        m.count = 8
        assert list(m.state_dict()) == ["_extra_state"]
        other.load_state_dict(m.state_dict())
        assert other.count == 8
        with pytest.raises(RuntimeError, match="Missing key"):
            other.load_state_dict({})
        with pytest.raises(RuntimeError, match="Unexpected key"):
            scale(lib).load_state_dict({"w": lib.ones(1), "_extra_state": 1})


class TestRegistration:
    def test_registration_hooks(self, lib):
        hooks, log = lib.nn.modules.module, []
        with (
            hooks.register_module_parameter_registration_hook(lambda m, n, p: log.append(n)),
            hooks.register_module_buffer_registration_hook(lambda m, n, b: log.append(n)),
            hooks.register_module_module_registration_hook(lambda m, n, c: log.append(n)),
        ):
            m = lib.nn.Module()
            m.p = lib.nn.Parameter(lib.ones(1))
            m.register_buffer("b", lib.ones(1))
            m.c = lib.nn.Module()
        assert log == ["p", "b", "c"]

    def test_buffers_by_assignment(self, lib):
        m = lib.nn.Module()
        m.kept, m.dropped = lib.nn.Buffer(lib.ones(1)), lib.nn.Buffer(lib.ones(1), persistent=False)
        assert isinstance(m.kept, lib.nn.Buffer)
        assert not isinstance(lib.ones(1), lib.nn.Buffer)
        assert [name for name, _ in m.named_buffers()] == ["kept", "dropped"]
        assert list(m.state_dict()) == ["kept"]

    def test_submodules(self, lib):
        m = lib.nn.Sequential(lib.nn.Sequential(lib.nn.ReLU()))
        m.set_submodule("0.0", lib.nn.Tanh())
        assert type(m[0][0]) is lib.nn.Tanh
        m.set_submodule("0.more", lib.nn.ReLU())
        assert m.get_submodule("0.more") is m[0].more
        with pytest.raises(AttributeError, match="has no attribute"):
            m.set_submodule("0.none", lib.nn.ReLU(), strict=True)
        for target, module, error in (("", lib.nn.ReLU(), ValueError), ("0", 3, ValueError)):
            with pytest.raises(error):
                m.set_submodule(target, module)
        with pytest.raises(AttributeError, match=r"is not an nn\.Module"):
            m.get_submodule("0.training")
        with pytest.raises(AttributeError, match=r"is not an nn\.Parameter"):
            m.get_parameter("0.training")
        with pytest.raises(AttributeError, match="is not a buffer"):
            m.get_buffer("0.training")

    def test_arguments_of_module(self, lib):
        with pytest.raises(TypeError, match="unexpected keyword argument 'a'"):
            lib.nn.Module(a=1)
        with pytest.raises(TypeError, match="takes 1 positional argument but 3 were given"):
            lib.nn.Sigmoid(1, 2)
        with pytest.raises(ValueError, match="non-leaf"):
            lib.nn.Module().register_parameter("p", _of_computed(lib))

    def test_walks(self, lib):
        shared = lib.nn.Linear(1, 1)
        m = lib.nn.Sequential(shared, shared)
        assert len(list(m.modules())) == 2
        assert len(list(m.modules(remove_duplicate=False))) == 3
        assert [n for n, _ in m.named_modules(remove_duplicate=False)] == ["", "0", "1"]
        assert [n for n, _ in m.named_parameters(remove_duplicate=False)][2:] == ["1.weight", "1.bias"]
        assert m._get_name() == "Sequential"


def _of_computed(lib):
    parameter = lib.nn.Parameter(lib.ones(1))
    made = parameter * 2
    made.__class__ = lib.nn.Parameter
    return made


class TestConversions:
    def test_dtypes(self, lib):
        m = lib.nn.BatchNorm1d(2)
        for name, dtype in (("half", "float16"), ("bfloat16", "bfloat16"), ("double", "float64"), ("float", "float32")):
            assert getattr(m, name)() is m
            assert {str(t.dtype).split(".")[1] for t in m.state_dict().values()} == {dtype, "int64"}
        m.to("cpu", lib.float64, non_blocking=True)
        assert m.weight.dtype == lib.float64
        m.to(lib.ones(1))
        assert m.weight.dtype == lib.float32
        m.type(lib.float64)
        assert m.num_batches_tracked.dtype == lib.float64
        with pytest.raises(TypeError, match="floating point or complex"):
            m.to(lib.int32)

    def test_meta_and_back(self, lib):
        m = lib.nn.Linear(2, 3).to("meta")
        assert m.weight.is_meta
        assert m.to_empty(device="cpu") is m
        assert not m.weight.is_meta
        assert m.weight.requires_grad

    def test_old_pickles(self, lib):
        m = scale(lib)
        state = {k: v for k, v in m.__dict__.items() if k in ("training", "_parameters", "_buffers", "_modules")}
        m.__dict__.clear()
        m.__setstate__(dict(state, _forward_hooks={}, _forward_pre_hooks={}, _backward_hooks={}))
        assert m(lib.tensor([1.0])).tolist() == [2.0]
        assert list(m.state_dict()) == ["w"]
        m.load_state_dict(m.state_dict())

    @pytest.mark.filterwarnings("ignore::FutureWarning")
    def test_whole_models_in_files(self, lib):
        m = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.BatchNorm1d(2), lib.nn.ReLU())
        file = io.BytesIO()
        lib.save(m, file)
        file.seek(0)
        other = lib.load(file, weights_only=False)
        assert type(other) is lib.nn.Sequential
        assert other(lib.ones(3, 2)).tolist() == m(lib.ones(3, 2)).tolist()
        file.seek(0)
        with pytest.raises(pickle.UnpicklingError):
            lib.load(file)


class TestContainers:
    def test_lists(self, lib):
        nn = lib.nn
        m = nn.ModuleList([nn.ReLU(), nn.Tanh()])
        m.insert(1, nn.Sigmoid())
        m += [nn.ReLU(), nn.ReLU()]
        assert [type(x).__name__ for x in m] == ["ReLU", "Sigmoid", "Tanh", "ReLU", "ReLU"]
        assert repr(m) == "ModuleList(\n  (0): ReLU()\n  (1): Sigmoid()\n  (2): Tanh()\n  (3-4): 2 x ReLU()\n)"
        assert type(m.pop(-1)) is nn.ReLU
        assert len(m.__add__([nn.ReLU()])) == 5
        assert "0" not in dir(m)
        with pytest.raises(TypeError):
            m.extend(3)
        s = nn.Sequential(nn.ReLU()) + nn.Sequential(nn.Tanh())
        s *= 2
        assert [type(x).__name__ for x in 2 * s][:3] == ["ReLU", "Tanh", "ReLU"]
        assert type(s.pop(1)) is nn.Tanh
        with pytest.raises(ValueError, match="factor"):
            s * 0

    def test_dicts(self, lib):
        nn = lib.nn
        m = nn.ModuleDict({"a": nn.ReLU()})
        m.update([("b", nn.Tanh()), ["c", nn.Sigmoid()]])
        assert (list(m), len(m), "b" in m) == (["a", "b", "c"], 3, True)
        assert type(m.pop("b")) is nn.Tanh
        del m["a"]
        assert [k for k, _ in m.items()] == ["c"]
        with pytest.raises(TypeError):
            m.update(3)
        with pytest.raises(ValueError, match="length 3"):
            m.update([("a", nn.ReLU(), 3)])
        m.clear()
        assert len(m) == 0

    def test_parameters(self, lib):
        nn = lib.nn
        p = nn.ParameterList([lib.ones(2), nn.Parameter(lib.zeros(1))])
        p.append("text")
        p[0] = lib.zeros(3, 2)
        assert [n for n, _ in p.named_parameters()] == ["0", "1"]
        assert isinstance(p[0], nn.Parameter)
        assert (p[-1], len(p), len(p[:2])) == ("text", 3, 2)
        assert repr(p).replace(lib.__name__, "torch") == (
            "ParameterList(\n    (0): Parameter containing: [torch.float32 of size 3x2]\n"
            "    (1): Parameter containing: [torch.float32 of size 1]\n    (2): Object of type: str\n)"
        )
        with pytest.raises(RuntimeError, match="should not be called"):
            p()
        with pytest.raises(TypeError):
            p.extend(lib.ones(1))
        d = nn.ParameterDict({"b": lib.ones(1), "a": 3})
        d["c"] = nn.Parameter(lib.zeros(2))
        assert (list(d), d["a"], d.get("z", 5), "c" in d) == (["a", "b", "c"], 3, 5, True)
        assert list((d | nn.ParameterDict({"e": 1})).keys()) == ["a", "b", "c", "e"]
        assert d.popitem()[0] == "c"
        assert d.setdefault("f", 7) == 7
        assert "(b): Parameter containing: [torch.FloatTensor of size 1]" in repr(d).replace(lib.__name__, "torch")
        assert list(d.fromkeys(["x"], 2).items()) == [("x", 2)]
        with pytest.raises(TypeError, match="not a string"):
            d[3] = 1


class TestLazy:
    def test_parameters_have_no_shape(self, lib):
        m = lib.nn.LazyLinear(3)
        assert repr(m.weight) == "<UninitializedParameter>"
        with pytest.raises(RuntimeError, match="shape"):
            m.weight.shape  # noqa: B018
        state = m.state_dict()
        assert isinstance(state["weight"], lib.nn.UninitializedParameter)
        twin = pickle.loads(pickle.dumps(m))
        twin.load_state_dict(lib.nn.Linear(4, 3).state_dict())
        assert tuple(twin.weight.shape) == (3, 4)
        assert tuple(m(lib.ones(2, 5)).shape) == (2, 3)
        assert type(m) is lib.nn.Linear
        assert not m._forward_pre_hooks
        with pytest.raises(RuntimeError):
            lib.nn.LazyLinear(3).load_state_dict({"weight": lib.ones(3, 4)})


def test_a_whole_model_of_pytorch_loads():
    torch = pytest.importorskip("torch")
    nn = torch.nn
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.LSTM(4, 2), nn.TransformerEncoderLayer(4, 2, 8)).eval()
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    ours = mt.load(file, weights_only=False)
    assert repr(ours) == repr(model)
    for mine, theirs, width in zip(ours, model, (3, 4, 4, 4), strict=True):
        x = torch.arange(2.0 * width).reshape(2, width) / 7
        expected, got = theirs(x), mine(mt.tensor(x.numpy()))
        expected, got = (r[0] if isinstance(r, tuple) else r for r in (expected, got))
        assert got.flatten().tolist() == pytest.approx(expected.flatten().tolist(), abs=1e-5)


def test_compiled_modules():
    m = scale(mt)
    m.compile()
    assert m(mt.tensor([1.0])).tolist() == [2.0]
    assert [m(mt.tensor([x])).tolist() for x in (2.0, 3.0)] == [[4.0], [6.0]]
    assert "_compiled_call_impl" not in pickle.loads(pickle.dumps(mt.nn.Linear(1, 1))).__dict__


@pytest.mark.at_once
def test_a_training_step_of_an_image_model_is_one_program():
    def model():
        mt.manual_seed(3)
        return mt.nn.Sequential(
            mt.nn.Conv2d(1, 4, 3, padding=1),
            mt.nn.BatchNorm2d(4),
            mt.nn.ReLU(),
            mt.nn.MaxPool2d(2),
            mt.nn.Flatten(),
            mt.nn.Linear(64, 10),
        )

    images, labels = mt.randn(5, 1, 8, 8), mt.tensor([1, 2, 3, 4, 5])

    def steps(compiled):
        net, runs = model(), Runs()
        optimizer = mt.optim.SGD(net.parameters(), lr=0.1)

        def step(x, y):
            print("run", file=runs)
            optimizer.zero_grad()
            loss = mt.nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            return loss

        run = mt.function(step, jit_compile=True) if compiled else step
        losses = [run(images, labels).item() for _ in range(5)]
        assert len(runs) <= 2 if compiled else len(runs) == 5
        assert net[1].num_batches_tracked.item() == 5
        return losses, [t.numpy().tobytes() for t in net.state_dict().values()]

    assert steps(False) == steps(True)


def test_a_global_hook_is_seen_by_compiled_functions():
    m, log = scale(mt), []
    run = mt.function(lambda x: m(x), jit_compile=True)
    run(mt.ones(1)), run(mt.ones(1))
    with mt.nn.modules.module.register_module_forward_hook(lambda m, args, out: out * 10):
        assert run(mt.ones(1)).tolist() == [20.0]
    assert run(mt.ones(1)).tolist() == [2.0]
    assert log == []


def test_global_hooks_are_of_one_kind_at_a_time():
    hooks = mt.nn.modules.module
    kinds = hooks.register_module_full_backward_hook, hooks.register_module_backward_hook
    for one, other in (kinds, kinds[::-1]):
        with one(lambda *_: None), one(lambda *_: None), pytest.raises(RuntimeError, match="Cannot use both"):
            other(print)
        other(print).remove()


def test_results_without_gradients_stay_without_beside_backward_hooks(lib):
    class Two(lib.nn.Module):
        def forward(self, a, b):
            return a * b, b.sum(), b > 1

    m, log = Two(), []
    m.register_full_backward_hook(lambda m, gi, go: log.append([g if g is None else g.tolist() for g in gi + go]))
    x, y = lib.ones(2, requires_grad=True), lib.tensor([1.0, 2.0])
    product, total, larger = m(x, y)
    assert [product.requires_grad, total.requires_grad, larger.requires_grad] == [True, False, False]
    assert total.is_leaf
    assert total.grad_fn is None
    assert float(total.numpy()) == 3
    product.sum().backward()
    assert log == [[[1, 2], [0, 0], [1, 1], None, None]]
