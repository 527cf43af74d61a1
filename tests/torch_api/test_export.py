"""`minitensor.export`: modules as programs, their bits, their sizes, and what is refused."""

import copy
import dataclasses
import pickle

import pytest

import minitensor as mt
import minitensor.nn.functional as F
from minitensor import compiler, export, nn
from minitensor.export import Dim, UserError


class Block(nn.Module):
    """Attention as people write it: sizes read from tensors, views by them, a mask that is cut."""

    def __init__(self, width=8, heads=2, longest=16):
        super().__init__()
        self.heads = heads
        self.both = nn.Linear(width, 3 * width)
        self.norm = nn.LayerNorm(width)
        self.register_buffer("mask", mt.tril(mt.ones(longest, longest)), persistent=False)

    def forward(self, x):
        b, t, c = x.size()
        assert t <= self.mask.shape[0]
        q, k, v = self.both(self.norm(x)).split(c, dim=2)
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / k.size(-1) ** 0.5)
        scores = scores.masked_fill(self.mask[:t, :t] == 0, float("-inf"))
        return x + (F.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(b, t, c)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight
        self.offset = mt.linspace(0, 1, 8)

    def forward(self, ids, scale=1.0):
        x = self.embed(ids) + mt.arange(ids.shape[1], dtype=mt.float32)[None, :, None] * self.offset
        for block in self.blocks:
            x = block(x)
        return {"logits": self.head(x) * scale, "count": ids.shape[0] * ids.shape[1]}


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2))
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        x = self.drop(self.layers(x))
        return F.interpolate(x, scale_factor=2).flatten(1).sum(1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(3, 4, batch_first=True)
        self.cell = nn.GRUCell(4, 4)

    def forward(self, x):
        out, (h, _) = self.rnn(x)
        return self.cell(h[0]), out[:, -1]


def ids(batch, length):
    return mt.arange(batch * length).reshape(batch, length) * 7 % 11


MODELS = {
    "transformer": (Model, lambda: (ids(3, 5),)),
    "convolution": (Convolution, lambda: (mt.randn(2, 3, 4, 4),)),
    "recurrent": (Recurrent, lambda: (mt.randn(2, 5, 3),)),
    "attention": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), lambda: (mt.randn(2, 3, 8),)),
    "mlp": (lambda: nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2)), lambda: (mt.randn(5, 3),)),
}


def same(left, right):
    left, right = mt.utils._pytree.tree_leaves(left), mt.utils._pytree.tree_leaves(right)
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        assert (mt.equal(a, b) and a.dtype == b.dtype) if isinstance(a, mt.Tensor) else a == b


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_the_bits_are_the_modules(name, train, tmp_path):
    make, example = MODELS[name]
    mt.manual_seed(3)
    module, args = make().train(train), example()
    before = copy.deepcopy(module.state_dict())
    state = mt.get_rng_state()
    program = export.export(module, args)
    same(before, module.state_dict())
    assert mt.equal(state, mt.get_rng_state())
    program.validate()
    export.save(program, tmp_path / "model.pt2")
    loaded, again = (export.load(tmp_path / "model.pt2") for _ in range(2))
    assert str(loaded.graph) == str(program.graph)
    assert str(loaded.graph_signature) == str(program.graph_signature)
    runs = []
    for run in (copy.deepcopy(module), copy.deepcopy(program.module()), loaded.module(), export.unflatten(again)):
        mt.manual_seed(5)
        run(*args)
        result = run(*args)
        mt.utils._pytree.tree_leaves(result)[0].sum().backward()
        state = run.state_dict()
        gradients = {n: p.grad for n, p in run.named_parameters() if p.grad is not None}
        runs.append((result, {n: state[n] for n in sorted(before)}, dict(sorted(gradients.items()))))
    for other in runs[1:]:
        same(runs[0], other)


def test_the_signature():
    program = export.export(Model(), (ids(2, 4),), {"scale": 2.0})
    signature = program.graph_signature
    assert signature.parameters[:2] == ("embed.weight", "blocks.0.both.weight")
    assert signature.non_persistent_buffers == ("blocks.0.mask", "blocks.1.mask")
    assert signature.lifted_tensor_constants == ("offset",)
    assert signature.user_inputs == ("ids", 2.0)
    assert signature.user_outputs[1] == 8
    assert signature.inputs_to_parameters["p_embed_weight"] == "embed.weight"
    assert list(program.constants) == ["blocks.0.mask", "blocks.1.mask", "offset"]
    assert sorted(program.state_dict) == sorted(Model().state_dict())
    assert [n for n, _ in program.named_parameters()] == [n for n, _ in Model().named_parameters()]
    assert "ids: USER_INPUT" in str(program)
    assert program.module().head.weight is program.module().embed.weight
    changed = export.export(Convolution(), (mt.randn(2, 3, 4, 4),)).graph_signature
    assert set(changed.buffers_to_mutate.values()) == {
        "layers.1.running_mean", "layers.1.running_var", "layers.1.num_batches_tracked"
    }  # fmt: skip


def test_sizes_that_vary():
    module = Model().eval()
    batch, length = Dim("batch"), Dim("length", max=16)
    program = export.export(module, (ids(3, 5),), dynamic_shapes={"ids": {0: batch, 1: length}})
    assert str(program.range_constraints) == "{'batch': VR[0, int_oo], 'length': VR[0, 16]}"
    run = program.module()
    for sizes in ((3, 5), (1, 1), (7, 16), (2, 9)):
        same(run(ids(*sizes)), module(ids(*sizes)))
    with pytest.raises(AssertionError, match=r"ids.size\(\)\[1\] <= 16, but it is 17"):
        run(ids(2, 17))


def test_sizes_that_do_not_vary():
    run = export.export(Model().eval(), (ids(3, 5),)).module()
    with pytest.raises(AssertionError, match=r"Guard failed: ids.size\(\)\[0\] == 3, but it is 4"):
        run(ids(4, 5))
    with pytest.raises(AssertionError, match=r"ids.dtype == minitensor.int64, but it is minitensor.int32"):
        run(ids(3, 5).int())
    with pytest.raises(AssertionError, match=r"ids.dim\(\) == 2"):
        run(mt.zeros(3, dtype=mt.int64))
    with pytest.raises(ValueError, match="Trying to flatten user inputs"):
        run()
    with pytest.raises(RuntimeError, match="Unable to call ExportedProgram directly"):
        export.export(Model(), (ids(3, 5),))(ids(3, 5))
    for call in (run.train, run.eval):
        with pytest.raises(NotImplementedError, match="not supported yet"):
            call()


class Sized(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def varied(function, example, spec=None):
    return export.export(Sized(function), (example,), dynamic_shapes=({0: spec or Dim("n")},))


def test_what_python_decides_by_sizes_is_checked():
    run = varied(lambda x: x * 2 if x.shape[0] > 3 else x - 1, mt.ones(5)).module()
    assert run(mt.ones(9))[0].item() == 2
    with pytest.raises(AssertionError, match=r"size\(\)\[0\] > 3, which holds in the exported program"):
        run(mt.ones(3))
    run = varied(lambda x: x.view(x.numel() // 2, -1) if x.numel() % 2 == 0 else x, mt.ones(6)).module()
    assert run(mt.ones(10)).shape == (5, 2)
    with pytest.raises(AssertionError, match="== 0, which holds"):
        run(mt.ones(7))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: sum(x[i] for i in range(x.shape[0])),
        lambda x: x * int(x.shape[0]),
        lambda x: mt.stack(list(x)),
        lambda x: x + len(x),
        lambda x: x.sum() * float(x.shape[0]),
    ],
)
def test_sizes_that_turn_out_to_be_fixed(function):
    with pytest.raises(UserError, match=r"Constraints violated \(n\)! You marked n as dynamic"):
        varied(function, mt.ones(5))
    with pytest.raises(UserError, match="Constraints violated"):
        varied(function, mt.ones(5), Dim.DYNAMIC)
    program = varied(function, mt.ones(5), Dim.AUTO)
    assert program.range_constraints == {}
    assert mt.equal(program.module()(mt.full((5,), 2.0)), function(mt.full((5,), 2.0)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x / x.shape[0],
        lambda x: x * (1.0 / x.size(0) ** 0.5) + x.shape[0] % 3,
        lambda x: mt.cat([x, mt.zeros(2 * x.shape[0] + 1)]),
        lambda x: x[: x.shape[0] // 2].sum() - (x.shape[0] - 7),
        lambda x: x.new_full((x.shape[0], 2), -x.numel()),
        lambda x: x.expand(max(x.shape[0], 2), -1) if x.dim() == 2 else x.unsqueeze(0).expand(3, x.size(-1)),
        lambda x: mt.arange(x.shape[0]) * mt.linspace(0, 1, x.shape[0]),
    ],
)
def test_arithmetic_with_sizes(function):
    run = varied(function, mt.ones(6)).module()
    for n in (6, 9, 14):
        x = mt.linspace(-1, 2, n)
        same(run(x), function(x))


def test_derived_and_common_sizes():
    class Pair(nn.Module):
        def forward(self, x, y, z):
            return x + y, z[: x.shape[0]] * x

    n = Dim("n", min=2, max=40)
    program = export.export(
        Pair(), (mt.ones(4), mt.ones(4), mt.ones(9)), dynamic_shapes={"x": (n,), "y": {0: n}, "z": {0: 2 * n + 1}}
    )
    run = program.module()
    assert run(mt.ones(7), mt.ones(7), mt.ones(15))[1].shape == (7,)
    for wrong, text in (((7, 6, 15), "are of one n"), ((7, 7, 14), "2 \\* n \\+ 1"), ((1, 1, 3), ">= 2")):
        with pytest.raises(AssertionError, match=text):
            run(*(mt.ones(k) for k in wrong))
    with pytest.raises(UserError, match="which is not"):
        export.export(Pair(), (mt.ones(4), mt.ones(4), mt.ones(8)), dynamic_shapes=((n,), (n,), (2 * n + 1,)))
    program = export.export(
        Pair(), (mt.ones(4), mt.ones(4), mt.ones(9)), dynamic_shapes=({0: Dim.AUTO}, (Dim.AUTO,), None)
    )
    assert list(program.range_constraints) == ["s0"]


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        ({"w": None}, "its top-level keys must be the arg names"),
        (({5: Dim("b")},), "no dimension 5"),
        (((Dim("b"), None, None),), "has 3 items"),
        (({0: 3},), "does not match input size of 5"),
        (({0: "b"},), "expected a Dim"),
        (3, "to be a dict, tuple or list"),
        (({0: Dim("b", max=4)},), "outside of the range"),
        ((None, None), "2 items for the 1 inputs"),
    ],
)
def test_wrong_dynamic_shapes(shapes, text):
    with pytest.raises(UserError, match=text):
        export.export(Sized(lambda x: x), (mt.ones(5),), dynamic_shapes=shapes)


def test_dims():
    b = Dim("b", min=3, max=9)
    assert repr(b) == "Dim('b', min=3, max=9)"
    assert (repr(2 * b + 1), repr(b - 1), (2 * b + 1).max) == ("2*b + 1", "b - 1", 19)
    assert repr(Dim.AUTO) == "DimHint(AUTO)"
    assert [d.__name__ for d in export.dims("x", "y", max=4)] == ["x", "y"]
    for wrong in (lambda: Dim("b", min=3, max=2), lambda: Dim("1b")):
        with pytest.raises(AssertionError):
            wrong()
    with pytest.raises(NotImplementedError):
        b * 0
    x = mt.ones(5, 2)
    shapes = export.ShapesCollection()
    shapes[x][0] = Dim("n")
    assert str(shapes.dynamic_shapes(Sized(F.relu), (x,))) == "{'x': {0: Dim('n', min=0)}}"
    assert export.export(Sized(F.relu), (x,), dynamic_shapes=shapes).module()(mt.ones(7, 2)).shape == (7, 2)
    more = export.AdditionalInputs()
    more.add((mt.ones(7, 2),))
    program = export.export(Sized(F.relu), (x,), dynamic_shapes=more)
    more.verify(program)
    assert program.module()(mt.ones(3, 2)).shape == (3, 2)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x if x.sum() > 0 else -x,
        lambda x: x * x.sum().item(),
        lambda x: mt.tensor(x.tolist()),
        lambda x: x[: int(x[0])],
        lambda x: x + 1 if mt.equal(x, x) else x,
        lambda x: mt.tensor(x.detach().numpy() * 2),
    ],
)
def test_reads_of_values(function):
    x = mt.tensor([2.0, 1.0])
    with pytest.raises(UserError, match="reads the value of a tensor"):
        export.export(Sized(function), (x,))
    program = export.draft_export(Sized(function), (x,))
    assert len(program._report) == 1
    same(program.module()(x), function(x))


def test_reads_of_constants_are_allowed():
    program = export.export(Sized(lambda x: x * [r.item() for r in mt.linspace(0, 2, 3)][2]), (mt.ones(2),))
    assert program.module()(mt.ones(2)).tolist() == [2.0, 2.0]


def test_what_is_no_module_or_example():
    with pytest.raises(ValueError, match="Expected `mod` to be an instance of"):
        export.export(lambda x: x, (mt.ones(1),))
    with pytest.raises(UserError, match="Expecting `args` to be a tuple"):
        export.export(Sized(F.relu), mt.ones(1))
    with pytest.raises(TypeError, match="must be an instance of 'ExportedProgram'"):
        export.save(Model(), "nothing.pt2")


def test_modes_within_a_module():
    def half(x):
        with mt.no_grad():
            y = x * 2
        return y + x

    x = mt.ones(2, requires_grad=True)
    run = export.export(Sized(half), (x,)).module()
    run(x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    assert mt.is_grad_enabled()
    seen = []
    export.export(Sized(lambda x: (seen.append(compiler.is_exporting()), x + 1)[1]), (x,))
    assert seen == [True]
    assert not compiler.is_exporting()


def test_writes_in_place():
    def function(x):
        y = x.clone()
        y[0] = 5
        y[1:].mul_(2)
        y += 1
        return y

    program = export.export(Sized(function), (mt.ones(3),))
    assert program.module()(mt.tensor([1.0, 2.0, 3.0])).tolist() == [6.0, 5.0, 7.0]
    x = mt.ones(3)
    program = export.export(Sized(lambda x: x.add_(1)), (x,))
    assert x.tolist() == [1.0, 1.0, 1.0]
    assert list(program.graph_signature.user_inputs_to_mutate.values()) == ["add_"]
    program.module()(x)
    assert x.tolist() == [2.0, 2.0, 2.0]


@dataclasses.dataclass
class Point:
    x: mt.Tensor
    y: mt.Tensor


def test_structures():
    export.register_dataclass(Point)
    with pytest.raises(AssertionError, match="Only dataclasses"):
        export.register_dataclass(int)

    class Moved(nn.Module):
        def forward(self, point, *more, by, **rest):
            return Point(point.x + by["b"][0], point.y * more[0] + rest["extra"])

    one = mt.ones(2)
    program = export.export(Moved(), (Point(one, one), one), {"by": {"b": [one]}, "extra": one})
    assert program.graph_signature.user_inputs == ("point_x", "point_y", "more_0", "by_b_0", "extra")
    found = program.module()(Point(one, one), one * 3, extra=one, by={"b": [one * 4]})
    assert isinstance(found, Point)
    assert (found.x.tolist(), found.y.tolist()) == ([5.0, 5.0], [4.0, 4.0])


def test_copies_of_its_module():
    program = export.export(Model().eval(), (ids(2, 3),))
    run = program.module()
    with mt.no_grad():
        run.head.weight.zero_()
    for other in (copy.deepcopy(run), copy.copy(run), pickle.loads(pickle.dumps(run))):
        assert other(ids(2, 3))["logits"].abs().sum().item() == 0
        with pytest.raises(AssertionError, match="Guard failed"):
            other(ids(2, 4))
    assert program.module(check_guards=False)(ids(2, 3))["count"] == 6


def test_decompositions():
    program = export.export(Sized(lambda x: F.gelu(x) + x.relu()), (mt.ones(2),))
    assert export.default_decompositions() == {}
    assert str(program.run_decompositions().graph) == str(program.graph)
    table = export.CustomDecompTable({F.gelu: lambda x: x * mt.sigmoid(1.702 * x)})
    changed = program.run_decompositions(table)
    x = mt.tensor([1.0, 2.0])
    assert mt.equal(changed.module()(x), x * mt.sigmoid(1.702 * x) + x.relu())
    assert "gelu" in str(program.graph)
    assert "gelu" not in str(changed.graph)


@pytest.mark.torch
def test_the_signature_is_pytorchs():
    torch = pytest.importorskip("torch")

    def program(lib):
        class Moved(lib.nn.Module):
            def __init__(self):
                super().__init__()
                self.lin = lib.nn.Linear(3, 4)
                self.bn = lib.nn.BatchNorm1d(4)
                self.shift = lib.ones(4)
                self.register_buffer("extra", lib.zeros(1), persistent=False)

            def forward(self, x, pair, *more, scale=2.0, **rest):
                y = self.bn(self.lin(x)) * scale + self.shift
                return {"y": y + pair["a"][0] + more[0], "x": x, "s": scale, "n": x.shape[0]}, rest[
                    "other"
                ] + self.extra

        one = lib.ones(4)
        args = (lib.ones(5, 3), {"a": [one, 3]}, lib.ones(4))
        kwargs = {"scale": 3.0, "other": lib.ones(1)}
        made = lib.export.export(Moved().eval(), args, kwargs)
        moved = lib.export.export(
            lib.nn.Linear(3, 2), (lib.ones(5, 3),), dynamic_shapes={"input": {0: lib.export.Dim("b")}}
        )
        refused = []
        for wrong in (lib.ones(5, 4), lib.ones(3, 5)):
            with pytest.raises((AssertionError, ValueError, RuntimeError)) as caught:
                moved.module()(wrong)
            refused.append(caught.type)
        signature = made.graph_signature
        return (
            [str(spec) for spec in signature.input_specs],
            [spec.kind.name for spec in signature.output_specs],
            signature.user_inputs, signature.parameters, signature.buffers, signature.non_persistent_buffers,
            sorted(made.state_dict), sorted(made.constants), str(made.call_spec.in_spec), str(made.call_spec.out_spec),
            [entry.fqn for entry in made.module_call_graph], len(moved.range_constraints), refused,
        )  # fmt: skip

    ours, theirs = program(mt), program(torch)
    assert ours == theirs


def test_a_programs_state_has_parameters_before_buffers():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", mt.ones(3))
            self.norm = nn.BatchNorm1d(3)
            self.same = self.norm
            self.last = nn.Linear(3, 2)

        def forward(self, x):
            return self.last(self.norm(x) * self.scale)

    made = export.export(Scaled().eval(), (mt.ones(2, 3),))
    norms = ["norm", "same"]
    assert list(made.state_dict) == [
        *(f"{norm}.{name}" for norm in norms for name in ("weight", "bias")),
        "last.weight",
        "last.bias",
        "scale",
        *(f"{n}.{name}" for n in norms for name in ("running_mean", "running_var", "num_batches_tracked")),
    ]


def test_the_state_of_a_program_by_kind():
    class Counted(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(mt.ones(2))
            self.register_buffer("kept", mt.full((2,), 3.0))
            self.register_buffer("passing", mt.full((2,), 5.0), persistent=False)

        def forward(self, x):
            return x * self.weight + self.kept - self.passing

    program = export.export(Counted(), (mt.ones(2),))
    assert [tensor.tolist() for tensor in program.parameters()] == [[1, 1]]
    assert [tensor.tolist() for tensor in program.buffers()] == [[3, 3], [5, 5]]
    assert [name for name, _ in program.named_buffers()] == ["kept", "passing"]
