"""`mt.jit.script`, `trace` and what goes with them: PyTorch's torch.jit, where Python runs."""

import copy
import io
import pickle
import zipfile

import pytest

import minitensor as mt
from minitensor import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.scale = 2.0

    def forward(self, x):
        x = self.norm(self.one(x))
        if x.sum() > 0:
            x = x * self.scale
        return self.other(x)

    @mt.jit.export
    def other(self, x):
        return x + 1


class Old(mt.jit.ScriptModule):
    def __init__(self):
        super().__init__()
        self.count = mt.jit.Attribute(3, int)

    @mt.jit.script_method
    def forward(self, x):
        return x * self.count


@mt.jit.script
def doubled(x, by: float = 2.0):
    return x * by


def plain(x):
    return x + 1


def test_a_scripted_module_has_the_tensors_and_the_methods():
    mt.manual_seed(0)
    net = Net()
    made = mt.jit.script(net)
    assert type(made).__name__ == "RecursiveScriptModule"
    assert made.original_name == "Net"
    assert made.one.original_name == "Linear"
    assert isinstance(made, mt.jit.ScriptModule)
    assert isinstance(made.one, mt.jit.ScriptModule)
    assert not isinstance(net, mt.jit.ScriptModule)
    assert list(made.state_dict()) == list(net.state_dict())
    assert made.one.weight is net.one.weight
    assert repr(made).splitlines()[:3] == [
        "RecursiveScriptModule(",
        "  original_name=Net",
        "  (one): RecursiveScriptModule(original_name=Linear)",
    ]
    x = mt.randn(5, 3)
    made.eval()
    assert net.training
    assert mt.equal(made(x), net.eval()(x))
    assert mt.equal(made.other(x), x + 1)
    assert mt.jit.script(made) is made
    made(x).sum().backward()
    assert net.one.weight.grad is not None


def test_the_same_submodule_twice_is_one_again():
    shared = nn.Linear(2, 2)
    made = mt.jit.script(nn.Sequential(shared, nn.ReLU(), shared))
    assert made[0] is made[2]
    assert len(list(made.parameters())) == 2


def test_a_traced_module():
    net = nn.Sequential(nn.Linear(2, 2))
    made = mt.jit.trace(net, mt.ones(1, 2))
    assert type(made).__name__ == "TopLevelTracedModule"
    assert type(made[0]).__name__ == "TracedModule"
    assert mt.equal(made(mt.ones(3, 2)), net(mt.ones(3, 2)))
    assert mt.jit.trace(net.forward, mt.ones(1, 2))[0].weight is net[0].weight
    assert mt.jit.trace(net, example_kwarg_inputs={"input": mt.ones(1, 2)})(mt.ones(1, 2)).shape == (1, 2)
    with pytest.raises(RuntimeError, match="example_kwarg_inputs should be a dict"):
        mt.jit.trace(net)
    with pytest.raises(RuntimeError, match="shapes"):
        mt.jit.trace(net, mt.ones(1, 3))
    made = mt.jit.trace_module(Net(), {"forward": mt.ones(2, 3), "other": mt.ones(1)})
    assert made.other(mt.ones(1)).item() == 2


def test_functions():
    assert isinstance(doubled, mt.jit.ScriptFunction)
    assert doubled.name == "doubled"
    assert doubled(mt.ones(1)).item() == 2
    assert doubled(mt.ones(1), by=3.0).item() == 3
    assert isinstance(mt.jit.trace(plain, mt.ones(1)), mt.jit.ScriptFunction)
    for wrong in (3, "text", len):
        with pytest.raises(TypeError, match="script: expected"):
            mt.jit.script(wrong)
    assert mt.jit.script(Net) is Net
    assert mt.jit.script_if_tracing(plain)(mt.zeros(1)).item() == 1


@pytest.mark.parametrize("name", ["graph", "code", "inlined_graph", "graph_for", "code_with_constants"])
def test_what_describes_torchscript_is_not_there(name):
    for made in (mt.jit.script(nn.Linear(1, 1)), doubled):
        assert not hasattr(made, name)
        with pytest.raises(AttributeError, match="has no TorchScript"):
            getattr(made, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = doubled.nothing


def test_a_class_of_the_old_kind():
    old = Old()
    assert old.count == 3
    assert old(mt.ones(2)).tolist() == [3.0, 3.0]
    assert old.original_name == "Old"


def test_copies():
    made = mt.jit.script(Net())
    deep, shallow = copy.deepcopy(made), copy.copy(made)
    assert deep.one.weight is not made.one.weight
    assert mt.equal(deep.one.weight, made.one.weight)
    assert shallow.one is made.one
    assert type(deep) is type(made)
    with pytest.raises(pickle.PickleError, match="ScriptModules cannot be"):
        pickle.dumps(made)
    with pytest.raises(pickle.PickleError, match="ScriptModules cannot be"):
        mt.save(made, io.BytesIO())


@pytest.mark.parametrize("make", [mt.jit.script, lambda m: mt.jit.trace(m, mt.ones(2, 3))])
def test_files(make, tmp_path):
    made = make(Net().eval())
    x = mt.randn(4, 3)
    made.save(tmp_path / "net.pt", _extra_files={"note": "hello", "data": b"\0\1"})
    extra = {"note": "", "data": ""}
    loaded = mt.jit.load(tmp_path / "net.pt", map_location="cpu", _extra_files=extra)
    assert extra == {"note": b"hello", "data": b"\0\1"}
    assert type(loaded).__name__ == type(made).__name__
    assert type(loaded.one).__name__ == type(made.one).__name__
    assert mt.equal(loaded(x), made(x))
    assert not loaded.training
    assert loaded.original_name == "Net"
    assert mt.equal(loaded.other(x), x + 1)
    again = mt.jit.load(io.BytesIO(loaded.save_to_buffer()))
    assert mt.equal(again(x), made(x))
    buffer = io.BytesIO()
    mt.jit.save(made, buffer)
    buffer.seek(0)
    assert mt.equal(mt.jit.load(buffer)(x), made(x))


def test_files_of_functions(tmp_path):
    doubled.save(tmp_path / "f.pt")
    assert mt.jit.load(tmp_path / "f.pt")(mt.ones(1)).item() == 2
    with pytest.raises(RuntimeError, match="can't be found by its name"):
        mt.jit.script(lambda x: x).save(tmp_path / "g.pt")
    assert not (tmp_path / "g.pt").exists()


def test_files_that_are_none(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        mt.jit.load(tmp_path / "nothing")
    with pytest.raises(ValueError, match="is a directory"):
        mt.jit.load(tmp_path)
    with zipfile.ZipFile(tmp_path / "theirs.pt", "w") as file:
        for name in ("data.pkl", "constants.pkl", "code/__torch__.py"):
            file.writestr(f"net/{name}", b"")
    with pytest.raises(RuntimeError, match="TorchScript program of PyTorch"):
        mt.jit.load(tmp_path / "theirs.pt")
    mt.save({"a": mt.ones(1)}, tmp_path / "state.pt")
    with pytest.raises(RuntimeError, match="was not written by"):
        mt.jit.load(tmp_path / "state.pt")
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(RuntimeError, match="not a checkpoint"):
        mt.jit.load(tmp_path / "text")
    with pytest.raises(AttributeError, match="has no attribute 'save'"):
        mt.jit.save(Net(), tmp_path / "net.pt")


def test_a_class_that_is_gone(tmp_path, monkeypatch):
    mt.jit.script(Net()).save(tmp_path / "net.pt")
    monkeypatch.delitem(globals(), "Net")
    with pytest.raises(RuntimeError, match="can't be imported here"):
        mt.jit.load(tmp_path / "net.pt")


def test_frozen():
    made = mt.jit.script(Net())
    with pytest.raises(RuntimeError, match="eval mode"):
        mt.jit.freeze(made)
    with pytest.raises(RuntimeError, match="expects a ScriptModule"):
        mt.jit.freeze(Net())
    x = mt.randn(4, 3)
    wanted = made.eval()(x)
    frozen = mt.jit.freeze(made, preserved_attrs=["one.bias"])
    assert list(frozen.state_dict()) == ["one.bias"]
    assert mt.equal(frozen(x), wanted)
    assert not frozen.one.weight.requires_grad
    assert made.one.weight.requires_grad
    assert mt.jit.optimize_for_inference(mt.jit.script(Net())).state_dict() == {}


def test_futures():
    future = mt.jit.fork(plain, mt.zeros(1))
    assert future.done()
    assert mt.jit.wait(future).item() == future.value().item() == 1
    assert future.then(lambda f: f.wait() + 1).wait().item() == 2
    failed = mt.jit.fork(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        failed.wait()
    with pytest.raises(ZeroDivisionError):
        failed.then(lambda f: f.value()).wait()
    seen = []
    late = mt.jit.Future()
    late.add_done_callback(seen.append)
    after = late.then(lambda f: f.value() + 1)
    assert not late.done()
    assert not after.done()
    with pytest.raises(RuntimeError, match="no result was set"):
        late.wait()
    late.set_result(3)
    assert seen == [late]
    assert after.wait() == 4
    with pytest.raises(RuntimeError, match="complete again"):
        late.set_result(4)
    with pytest.raises(TypeError):
        mt.jit.wait(3)
    with pytest.raises(TypeError):
        mt.jit.fork(3)


def test_functions_as_text():
    unit = mt.jit.CompilationUnit(
        """
        def twice(x: Tensor) -> Tensor:
            return x * 2

        def more(x: Tensor, n: Optional[int] = None) -> Tensor:
            return twice(x) + torch.ones(1) * (1 if n is None else n)
        """
    )
    assert unit.more(mt.ones(1)).item() == 3
    assert unit.more(mt.ones(1), 5).item() == 7
    with pytest.raises(AttributeError, match="no attribute 'less'"):
        _ = unit.less


def test_settings_are_kept():
    before = mt.jit.set_fusion_strategy([("DYNAMIC", 3)])
    assert mt.jit.set_fusion_strategy(before) == [("DYNAMIC", 3)]
    with pytest.raises(RuntimeError, match="FusionBehavior"):
        mt.jit.set_fusion_strategy([("OTHER", 1)])
    assert not mt.jit.onednn_fusion_enabled()
    mt.jit.enable_onednn_fusion(True)
    assert mt.jit.onednn_fusion_enabled()
    mt.jit.enable_onednn_fusion(False)
    with mt.jit.strict_fusion(), mt.jit.optimized_execution(False):
        assert not mt.jit.is_scripting()
        assert not mt.jit.is_tracing()
    for wrong in (lambda: mt.jit.interface(3), lambda: mt.jit.ignore(3)):
        with pytest.raises(RuntimeError):
            wrong()


def test_the_compilers_own_names_stay():
    assert mt.jit.explain
    assert mt.jit.function is mt.function
    assert {"script", "explain"} <= set(dir(mt.jit))
