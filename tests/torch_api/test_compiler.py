"""`compile`, PyTorch's name for a compiled function."""

import copy
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest

import minitensor as mt

pytestmark = pytest.mark.at_once(reason="it compiles by itself")


def test_a_function():
    @mt.compile
    def f(x, scale=2.0):
        return (x * scale + 1).relu().sum()

    x = mt.arange(-4.0, 4.0)
    for _ in range(3):
        assert f(x).tolist() == (x * 2 + 1).relu().sum().tolist()
        assert f(x, scale=3.0).tolist() == (x * 3 + 1).relu().sum().tolist()


def test_options_of_a_decorator():
    @mt.compile(fullgraph=True, dynamic=False, mode="max-autotune")
    def f(x):
        return x.sum() * 2

    assert f(mt.ones(3)).item() == 6
    assert f.programs == 1

    @mt.compile(fullgraph=True)
    def looks(x):
        return x * 2 if x.sum() > 0 else x

    with pytest.raises(mt.InvalidArgumentError, match="bool"):
        looks(mt.ones(3))
    assert mt.compile(looks.__wrapped__)(mt.ones(1)).item() == 2


@pytest.mark.parametrize("options", [{"backend": "eager"}, {"backend": "aot_eager"}, {"disable": True}])
def test_what_is_not_compiled_is_the_function(options):
    assert mt.compile(len, **options) is len
    assert mt.compile(**options)(len) is len


def test_wrong_arguments():
    with pytest.raises(mt.compiler.InvalidBackend, match="Invalid backend: 'tvm', see"):
        mt.compile(len, backend="tvm")
    with pytest.raises(RuntimeError, match="mode or options, got both"):
        mt.compile(len, mode="default", options={})
    with pytest.raises(RuntimeError, match="expected something callable, got int"):
        mt.compile(3)


def test_a_module():
    mt.manual_seed(0)
    model = mt.nn.Sequential(mt.nn.Linear(3, 4), mt.nn.Tanh(), mt.nn.Linear(4, 1))
    compiled = mt.compile(model)
    x = mt.randn(5, 3)
    expected = model(x)
    for _ in range(3):
        assert mt.equal(compiled(x), expected)
    assert list(compiled.state_dict()) == [f"_orig_mod.{name}" for name in model.state_dict()]
    assert compiled._orig_mod is model
    assert isinstance(compiled, mt.nn.Module)
    assert [p is q for p, q in zip(compiled.parameters(), model.parameters(), strict=True)] == [True] * 4
    assert not compiled.eval().training
    assert not model.training
    with pytest.raises(AttributeError, match="no_such"):
        _ = compiled.no_such
    model.extra = 5
    assert compiled.extra == 5
    with mt.no_grad():
        model[0].weight.zero_()
    assert mt.equal(compiled(x), model(x))
    compiled(x).sum().backward()
    assert model[2].bias.grad.tolist() == [5.0]


@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_pickled_module_is_compiled_as_it_was(fullgraph):
    class Reads(mt.nn.Module):
        def forward(self, x):
            return x * float(x.sum())

    x = mt.randn(3, 4)
    loaded = pickle.loads(pickle.dumps(mt.compile(mt.nn.Linear(4, 2), fullgraph=fullgraph)))
    assert mt.equal(loaded(x), loaded._orig_mod(x))
    loaded._modules["_orig_mod"] = Reads()
    again = copy.copy(loaded)
    if fullgraph:
        with pytest.raises(mt.InvalidArgumentError):
            again(x)
    else:
        assert mt.equal(again(x), x * float(x.sum()))


def test_a_step_is_one_program():
    mt.manual_seed(0)
    model = mt.nn.Linear(3, 1)
    optimizer = mt.optim.SGD(model.parameters(), lr=0.1)

    @mt.compile(fullgraph=True)
    def step(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    x = mt.randn(8, 3)
    losses = [step(x).item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    assert step.programs == 1
    assert step.hits >= 3  # the first call makes what the optimizer keeps


def test_is_compiling():
    seen = []

    def f(x):
        seen.append(mt.compiler.is_compiling())
        return x + 1

    f(mt.ones(1))
    with mt.jit_scope():
        f(mt.ones(1))
    mt.compile(f)(mt.ones(1))
    f(mt.ones(1))
    assert seen == [False, False, True, False]
    assert mt.compiler.disable(f) is f
    assert mt.compiler.disable()(f) is f
    assert mt.compiler.list_backends() == ["inductor", "minitensor"]


def test_reset_forgets_code():
    x = mt.ones(4)
    with mt.jit_scope():
        y = (x * 2 + 1).exp().sum()
    y.item()
    assert mt.jit.cache_info()["size"] > 0
    mt.compiler.reset()
    assert mt.jit.cache_info()["size"] == 0


def test_modules_for_eager_backends_look_like_compiled_ones():
    net = mt.nn.Linear(2, 3)
    x = mt.ones(1, 2)
    for backend in ("eager", "inductor"):
        made = mt.compile(net, backend=backend)
        assert made._orig_mod is net
        assert list(made.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
        assert len(list(made.parameters())) == 2
        assert mt.equal(made(x), net(x))
        assert callable(made.dynamo_ctx)
        again = pickle.loads(pickle.dumps(made))
        assert mt.equal(again(x), net(x))
        assert (again.dynamo_ctx is again._orig_mod) == (backend == "eager")
    assert mt.compile(net, disable=True) is net


class TestStance:
    """What PyTorch documents of `torch.compiler.set_stance`."""

    @pytest.fixture(autouse=True)
    def _default_after(self):
        yield
        mt.compiler.set_stance("default")

    @pytest.fixture
    def seen(self):
        return []

    @pytest.fixture
    def f(self, seen):
        def f(x, more=None):
            seen.append(mt.compiler.is_compiling())
            return x * 2 if more is None else x * 2 + more["y"]

        return mt.compile(f)

    @pytest.fixture
    def g(self):
        return mt.compile(lambda x, more=None: x.exp() * 2 + (more or {"y": 0.5})["y"], fullgraph=True)

    def test_ways_to_set_it(self, f, seen):
        @mt.compiler.set_stance("force_eager")
        def within():
            f(mt.ones(2))

        within()
        f(mt.ones(2))
        with mt.compiler.set_stance("force_eager"):
            f(mt.ones(2))
        f(mt.ones(2))
        mt.compiler.set_stance("force_eager")
        f(mt.ones(2))
        with mt.compiler.set_stance():
            f(mt.ones(2))
        f(mt.ones(2))
        assert seen == [False, True, False, True, False, True, False]

    def test_a_generator_has_it_while_it_runs(self, f, seen):
        @mt.compiler.set_stance("force_eager")
        def generator():
            for _ in range(2):
                yield f(mt.ones(2))

        for _ in generator():
            f(mt.ones(2))
        assert seen == [False, True, False, True]

    def test_force_eager_ignores_programs_and_demands(self, g):
        @mt.compile(fullgraph=True)
        def looks(x):
            return x * 2 if x.sum() > 0 else x

        for _ in range(3):
            g(mt.ones(3))
        hits = g.hits
        assert hits
        with mt.compiler.set_stance("force_eager"):
            assert looks(mt.ones(1)).tolist() == [2]
            assert mt.equal(g(mt.ones(3)), g.__wrapped__(mt.ones(3)))
        assert g.hits == hits
        with pytest.raises(mt.InvalidArgumentError):
            looks(mt.ones(1))

    @pytest.mark.parametrize("more", [None, {"y": 1.0}])
    def test_recompiling(self, g, more):
        for _ in range(3):
            g(mt.ones(3), more)
        programs, hits = g.programs, g.hits
        for stance in ("eager_on_recompile", "fail_on_recompile"):
            with mt.compiler.set_stance(stance):
                assert mt.equal(g(mt.ones(3), more), g.__wrapped__(mt.ones(3), more))
                hits += 1
                assert g.hits == hits
                if stance == "eager_on_recompile":
                    assert mt.equal(g(mt.ones(4).double(), more), g.__wrapped__(mt.ones(4).double(), more))
                else:
                    with pytest.raises(RuntimeError, match="would be compiled, and the stance is 'fail_on_recompile'"):
                        g(mt.ones(4).double(), more)
        assert (g.programs, g.hits) == (programs, hits)
        g(mt.ones(4).double(), more)
        assert g.programs == programs + 1

    @pytest.mark.parametrize("stance", ["eager_then_compile", "aot_eager_then_compile"])
    def test_eager_then_compile(self, f, seen, stance):
        mt.compiler.set_stance(stance)
        for size in (3, 3, 4):
            f(mt.ones(size))
        assert seen == [False, True, True]

    def test_forced_backends(self, f, seen):
        with mt.compiler.set_stance(force_backend="eager"):
            f(mt.ones(2))
        with mt.compiler.set_stance(force_backend="inductor"):
            f(mt.ones(2))
        assert seen == [False, True]
        with pytest.raises(RuntimeError, match="Invalid backend: 'none'"):
            mt.compiler.set_stance(force_backend="none")
        with pytest.raises(RuntimeError, match="goes with the stance 'default'"):
            mt.compiler.set_stance("force_eager", force_backend="inductor")

    def test_what_is_refused_sets_nothing(self):
        mt.compiler.set_stance("eager_on_recompile")
        with pytest.raises(RuntimeError, match="unknown stance 'eager'; there are 'default', 'force_eager'"):
            mt.compiler.set_stance("eager")
        with pytest.raises(RuntimeError, match="unknown stance 3"):
            mt.compiler.set_stance(3)
        mt.compiler.set_stance()

        @mt.compile
        def sets(x):
            mt.compiler.set_stance("force_eager")
            return x

        with pytest.raises(RuntimeError, match="in a compiled function"):
            sets(mt.ones(1))
        assert mt._C.stance() == "default"


def test_substitutes_run_where_a_function_is_compiled():
    ran = []

    def original(x, scale=2.0):
        ran.append("original")
        return x * scale

    @mt.compiler.substitute_in_graph(original)
    def in_graph(x, scale=2.0):
        ran.append("substitute")
        return x * scale

    assert in_graph(mt.ones(1)).item() == 2
    assert mt.compile(lambda x: in_graph(x) + 1)(mt.ones(1)).item() == 3
    assert ran == ["original", "substitute"]
    with pytest.raises(TypeError, match="Signature mismatch"):
        mt.compiler.substitute_in_graph(original)(lambda x, factor=2.0: x)
    for taken in (lambda *args, **kwargs: 0, lambda x, scale=2.0, *rest: 0):
        mt.compiler.substitute_in_graph(original)(taken)
    mt.compiler.substitute_in_graph(original, skip_signature_check=True)(lambda y: y)
    with pytest.raises(TypeError, match="expects a callable, got int"):
        mt.compiler.substitute_in_graph(3)
    with pytest.raises(TypeError, match="a function to decorate, got int"):
        mt.compiler.substitute_in_graph(original)(3)


ARTIFACTS = """
import sys
import minitensor as mt

path, loads = sys.argv[1:]
if loads == "load":
    print(len(mt.compiler.load_cache_artifacts(open(path, "rb").read()).inductor_artifacts), end=" ")
f = mt.function(lambda x: (x * 3 + 1).relu().sum(), jit_compile=True)
print(f(mt.arange(8.0) - 4).item(), "llvmlite" in sys.modules)
if loads == "save":
    data, info = mt.compiler.save_cache_artifacts()
    open(path, "wb").write(data)
    assert not info.empty()
"""


def test_compiled_code_goes_to_another_process(tmp_path):
    def run(loads):
        command = [sys.executable, "-c", ARTIFACTS, str(tmp_path / "code"), loads]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    value, compiled = run("save")
    assert compiled == "True"
    # What is taken over is not compiled again, which would import LLVM's binding.
    assert run("load") == ["1", value, "False"]


def test_damaged_artifacts_are_not_loaded():
    assert mt.compiler.load_cache_artifacts(b"") is None
    kept = mt.function(lambda x: x * 5 + 1, jit_compile=True)
    kept(mt.ones(3))
    data, info = mt.compiler.save_cache_artifacts()
    assert mt.compiler.load_cache_artifacts(data[:-1] + bytes([data[-1] ^ 1])) is None
    assert set(mt.compiler.load_cache_artifacts(data).inductor_artifacts) == set(info.inductor_artifacts)


def test_a_backend_of_the_users():
    graphs = []

    def backend(module, inputs):
        assert isinstance(module, mt.fx.GraphModule)
        graphs.append((module, [tuple(t.shape) for t in inputs]))
        return lambda *tensors: [result * 2 for result in module(*tensors)]

    @mt.compile(backend=backend)
    def f(x, pair, scale=2.0):
        return {"sum": x * scale + pair[0], "product": x @ pair[1]}

    x, y = mt.ones(2, 2), mt.full((2, 2), 3.0, requires_grad=True)
    for _ in range(2):
        found = f(x, (y, y), scale=3.0)
        assert mt.equal(found["sum"], (x * 3 + y) * 2)
        assert mt.equal(found["product"], x @ y * 2)
    assert [shapes for _, shapes in graphs] == [[(2, 2)] * 3]
    assert [n.op for n in graphs[0][0].graph.nodes].count("placeholder") == 3
    found["sum"].sum().backward()
    assert y.grad.tolist() == [[2.0, 2.0]] * 2
    f(x, (y, y), scale=4.0)
    f(mt.ones(3, 3), (mt.ones(3, 3), mt.ones(3, 3)))
    assert [shapes for _, shapes in graphs] == [[(2, 2)] * 3] * 2 + [[(3, 3)] * 3]


def test_a_backend_of_the_users_for_modules():
    seen = []

    def backend(module, inputs):
        seen.append(sorted(name.rpartition(".")[2] for name, _ in module.named_parameters()))
        return module.forward

    model = mt.nn.Sequential(mt.nn.Linear(3, 2), mt.nn.ReLU())
    compiled = mt.compile(model, backend=backend)
    x = mt.rand(4, 3)
    assert mt.equal(compiled(x), model(x))
    with mt.no_grad():
        model[0].weight.mul_(2)
    assert mt.equal(compiled(x), model(x))
    assert mt.equal(mt.compile(lambda t: model(t) + 1, backend=backend)(x), model(x) + 1)
    assert seen == [["bias", "weight"]] * 2


def test_a_backend_and_what_cannot_be_traced():
    def looks(x):
        return x * 2 if x.sum() > 0 else x

    with pytest.warns(UserWarning, match="looks runs as it is"):
        assert mt.compile(looks, backend=lambda module, _: module)(mt.ones(1)).item() == 2
    with pytest.raises(mt.fx.proxy.TraceError):
        mt.compile(looks, backend=lambda module, _: module, fullgraph=True)(mt.ones(1))


def test_a_backend_of_the_users_gets_what_differs_anew():
    class Scaled(mt.nn.Module):
        def forward(self, x):
            return x * 2 if self.training else x * 3

    asked = []

    def backend(module, inputs):
        asked.append(len(inputs))
        return module

    model = Scaled()
    compiled, x = mt.compile(model, backend=backend), mt.ones(2)
    for mode, factor in ((True, 2.0), (False, 3.0), (True, 2.0), (False, 3.0)):
        model.train(mode)
        assert compiled(x).tolist() == [factor] * 2
    assert asked == [1, 1]

    signs = mt.compile(lambda x, zero: x * math.copysign(1.0, zero), backend=backend)
    assert [signs(x, zero).tolist() for zero in (0.0, -0.0, 0.0)] == [[1.0, 1.0], [-1.0, -1.0], [1.0, 1.0]]
    nothing = mt.compile(lambda x, number: x + 1, backend=backend)
    for _ in range(3):
        nothing(x, math.nan)
    assert asked == [1] * 5

    total = mt.compile(lambda x, values: x + sum(values), backend=backend)
    with pytest.warns(UserWarning, match="runs as it is: an argument can't be told from others: unhashable"):
        assert total(x, np.ones(3)).tolist() == [4.0, 4.0]
    with pytest.raises(mt.fx.proxy.TraceError, match="unhashable"):
        mt.compile(lambda x, values: x, backend=backend, fullgraph=True)(x, np.ones(3))
    assert asked == [1] * 5
