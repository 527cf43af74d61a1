"""Graphs of Python by `minitensor.fx`."""

import copy
import math
import operator
import pickle

import pytest

import minitensor as mt
from minitensor import fx


class Net(mt.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = mt.nn.Linear(3, 4)
        self.w = mt.nn.Parameter(mt.ones(4))
        self.seq = mt.nn.Sequential(mt.nn.ReLU())

    def forward(self, x, y=2, *, k=None):
        a, _ = x.shape[0], x.size(1)
        z = self.seq(self.lin(x) + self.w)
        z = 1 - (mt.relu(z) - 1)
        z = z.view(a, -1)
        return {"o": z.T, "l": [z[0], -z, z[:, 1:]]}, z.sum(dim=0)


GRAPH = """graph():
    %x : [num_users=3] = placeholder[target=x]
    %y : [num_users=0] = placeholder[target=y](default=2)
    %k : [num_users=0] = placeholder[target=k](default=None)
    %getattr_1 : [num_users=1] = call_function[target=builtins.getattr](args = (%x, shape), kwargs = {})
    %getitem : [num_users=1] = call_function[target=operator.getitem](args = (%getattr_1, 0), kwargs = {})
    %size : [num_users=0] = call_method[target=size](args = (%x, 1), kwargs = {})
    %lin : [num_users=1] = call_module[target=lin](args = (%x,), kwargs = {})
    %w : [num_users=1] = get_attr[target=w]
    %add : [num_users=1] = call_function[target=operator.add](args = (%lin, %w), kwargs = {})
    %seq_0 : [num_users=1] = call_module[target=seq.0](args = (%add,), kwargs = {})
    %relu : [num_users=1] = call_function[target=minitensor.relu](args = (%seq_0,), kwargs = {})
    %sub : [num_users=1] = call_function[target=operator.sub](args = (%relu, 1), kwargs = {})
    %sub_1 : [num_users=1] = call_function[target=operator.sub](args = (1, %sub), kwargs = {})
    %view : [num_users=5] = call_method[target=view](args = (%sub_1, %getitem, -1), kwargs = {})
    %getitem_1 : [num_users=1] = call_function[target=operator.getitem](args = (%view, 0), kwargs = {})
    %neg : [num_users=1] = call_function[target=operator.neg](args = (%view,), kwargs = {})
    %getitem_2 : [num_users=1] = call_function[target=operator.getitem](args = (%view, \
(slice(None, None, None), slice(1, None, None))), kwargs = {})
    %sum_1 : [num_users=1] = call_method[target=sum](args = (%view,), kwargs = {dim: 0})
    %getattr_2 : [num_users=1] = call_function[target=builtins.getattr](args = (%view, T), kwargs = {})
    return ({'o': getattr_2, 'l': [getitem_1, neg, getitem_2]}, sum_1)"""

CODE = """


def forward(self, x, y = 2, k = None):
    getattr_1 = x.shape
    getitem = getattr_1[0];  getattr_1 = None
    size = x.size(1);  size = None
    lin = self.lin(x);  x = None
    w = self.w
    add = lin + w;  lin = w = None
    seq_0 = getattr(self.seq, "0")(add);  add = None
    relu = minitensor.relu(seq_0);  seq_0 = None
    sub = relu - 1;  relu = None
    sub_1 = 1 - sub;  sub = None
    view = sub_1.view(getitem, -1);  sub_1 = getitem = None
    getitem_1 = view[0]
    neg = -view
    getitem_2 = view[(slice(None, None, None), slice(1, None, None))]
    sum_1 = view.sum(dim = 0)
    getattr_2 = view.T;  view = None
    return ({'o': getattr_2, 'l': [getitem_1, neg, getitem_2]}, sum_1)
    """


@pytest.fixture
def traced():
    mt.manual_seed(0)
    return fx.symbolic_trace(Net())


def test_graph_and_code(traced):
    assert str(traced.graph) == GRAPH
    assert traced.code == CODE
    traced.graph.lint()


def test_it_computes_what_the_module_does():
    net = Net()
    traced = fx.symbolic_trace(net)
    x = mt.randn(2, 3)
    (first, second), (_, want) = traced(x), net(x)
    assert mt.equal(second, want)
    assert first["l"][2].shape == (2, 3)
    assert mt.equal(fx.Interpreter(traced).run(x)[1], want)
    assert fx.Transformer(traced).transform().code == traced.code
    assert {n for n, _ in traced.named_parameters()} == {"lin.weight", "lin.bias", "w"}
    assert traced.w is net.w
    assert "__call__" not in vars(mt.nn.Module)


def test_copies(traced):
    x = mt.randn(2, 3)
    want = traced(x)[1]
    for other in (copy.deepcopy(traced), pickle.loads(pickle.dumps(traced)), copy.copy(traced)):
        assert other.code == traced.code
        assert mt.equal(other(x)[1], want)
    assert copy.deepcopy(traced).w is not traced.w


@pytest.mark.torch
def test_as_torch():
    torch = pytest.importorskip("torch")

    class Theirs(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = torch.nn.Linear(3, 4)
            self.w = torch.nn.Parameter(torch.ones(4))
            self.seq = torch.nn.Sequential(torch.nn.ReLU())

        forward = Net.forward

    functions = {"mt": torch}
    Theirs.forward = type(Net.forward)(Net.forward.__code__, {**globals(), **functions}, "forward", (2,))
    Theirs.forward.__kwdefaults__ = {"k": None}
    theirs = torch.fx.symbolic_trace(Theirs())
    assert str(theirs.graph) == GRAPH.replace("minitensor", "torch")
    assert theirs.code == CODE.replace("minitensor", "torch")


def test_operators_with_the_proxy_on_the_right():
    def forward(x, y):
        sums = 3 + x, 7 - x, 2 * x, 17 // x, 17 / x, 17 % x, 2**x
        return (*sums, 1 << x, 256 >> x, 6 & x, 8 | x, 6 ^ x, (x & y) | y)

    traced = fx.symbolic_trace(forward)
    assert traced(5, 3) == forward(5, 3)
    # The names that PyTorch 2.13 gives.
    names = [node.name for node in traced.graph.nodes]
    assert names[-6:-1] == ["and_", "or_", "xor", "and__1", "or__1"]


def test_changing_a_graph(traced):
    graph = traced.graph
    (relu,) = graph.find_nodes(op="call_function", target=mt.relu)
    with graph.inserting_after(relu):
        made = graph.call_function(mt.tanh, (relu,))
    relu.replace_all_uses_with(made, delete_user_cb=lambda user: user is not made)
    assert made.prev is relu
    traced.recompile()
    assert "tanh = minitensor.tanh(relu);  relu = None" in traced.code
    with pytest.raises(RuntimeError, match="Tried to erase Node relu but it still had 1 users"):
        graph.erase_node(relu)
    assert graph.eliminate_dead_code()
    assert not graph.find_nodes(op="call_method", target="size")
    assert not graph.eliminate_dead_code()
    graph.lint()


def test_building_a_graph():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(mt.add, (x, 1))
    with graph.inserting_before(y):
        z = graph.call_method("neg", (x,))
    y.update_arg(0, z)
    graph.output(y)
    module = fx.GraphModule(mt.nn.Module(), graph)
    assert module(mt.ones(2)).tolist() == [0.0, 0.0]
    assert [n.name for n in graph.nodes] == ["x", "neg", "add", "output"]
    assert [n.name for n in reversed(graph.nodes)] == ["output", "add", "neg", "x"]
    assert x.users == {z: None}
    assert len(graph.nodes) == 4
    y.append(z)  # now it comes too late
    with pytest.raises(RuntimeError, match="used before it has been defined"):
        graph.lint()


def test_names():
    graph = fx.Graph()
    names = [graph.placeholder(n).name for n in ("x", "x", "x_1", "sum", "class", "1a", "a.b")]
    assert names == ["x", "x_1", "x_2", "sum_1", "class_1", "_1a", "a_b"]


def branch(x):
    return x if x.sum() > 0 else -x


def unpack(x):
    a, b = x
    return a + b


@fx.wrap
def opaque(x, n):
    return x * n if float(x.sum()) > 0 else x


fx.wrap("len")


def leaves(x):
    return math.sqrt(x) + opaque(x, n=3) + len(x)


def test_control_flow():
    with pytest.raises(fx.proxy.TraceError, match="cannot be used as inputs to control flow"):
        fx.symbolic_trace(branch)
    with pytest.raises(fx.proxy.TraceError, match="Proxy object cannot be iterated"):
        fx.symbolic_trace(lambda x: list(iter(x)))
    assert fx.symbolic_trace(unpack)((mt.ones(1), mt.ones(1))).tolist() == [2.0]
    assert "x + 2" in fx.symbolic_trace(lambda x, flag: x + 2 if flag else x, {"flag": True}).code


def test_leaves_among_functions():
    module = fx.symbolic_trace(leaves)
    targets = [n.target for n in module.graph.nodes if n.op == "call_function"]
    assert targets == [math.sqrt, opaque, operator.add, len, operator.add]
    assert module(mt.tensor([4.0])).tolist() == [15.0]
    assert opaque(mt.ones(1), 2).tolist() == [2.0]  # it is itself again
    assert leaves.__globals__["math"] is math


def test_constants_and_other_tensors():
    constant = mt.tensor([1.0, 2.0])
    module = fx.symbolic_trace(lambda x: constant * x + mt.add(constant, x) + constant.add(x))
    assert [n.target for n in module.graph.nodes if n.op == "get_attr"] == ["_tensor_constant0"] * 3
    # As PyTorch has it, an operator of a tensor with a proxy is the tensor's method.
    kinds = [n.op.removeprefix("call_") for n in module.graph.nodes if n.op.startswith("call")]
    assert kinds == ["method", "function", "function", "method", "function"]
    assert module(mt.ones(2)).tolist() == [5.0, 8.0]
    assert [n for n, _ in module.named_buffers()] == ["_tensor_constant0"]


def test_patterns():
    module = fx.symbolic_trace(lambda x, y: mt.relu(x + y) + mt.relu(x + 1))
    found = fx.replace_pattern(module, lambda a, b: mt.relu(a + b), lambda a, b: mt.tanh(a) * b)
    assert len(found) == 2
    assert str(found[0].anchor) == "relu"
    x, y = mt.ones(2), mt.full((2,), 2.0)
    assert mt.equal(module(x, y), x.tanh() * y + x.tanh())
    module.graph.lint()
    # What is computed on the way is used elsewhere.
    other = fx.symbolic_trace(lambda x: mt.relu(x + 1) + (lambda s: mt.relu(s) + s)(x + 2))
    assert len(fx.replace_pattern(other, lambda a, b: mt.relu(a + b), lambda a, b: a)) == 1


def test_interpreters_of_ones_own():
    class Doubled(fx.Interpreter):
        def call_function(self, target, args, kwargs):
            return super().call_function(target, args, kwargs) * 2

    class Renamed(fx.Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(mt.exp if target is mt.tanh else target, args, kwargs)

    module = fx.symbolic_trace(lambda x: mt.tanh(x))
    assert mt.equal(Doubled(module).run(mt.ones(2)), mt.ones(2).tanh() * 2)
    assert "minitensor.exp" in Renamed(module).transform().code
    wrong = fx.symbolic_trace(lambda x: x.no_such_method())
    with pytest.raises(AttributeError) as caught:
        fx.Interpreter(wrong).run(mt.ones(2))
    assert "While executing %no_such_method" in caught.value.__notes__[0]
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x"):
        fx.Interpreter(module).run()


def test_submodules():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_module("inner.act", (x,)))
    module = fx.GraphModule({"inner.act": mt.nn.ReLU()}, graph)
    assert module(mt.tensor([-1.0])).tolist() == [0.0]
    assert module.add_submodule("inner.other", mt.nn.Tanh())
    module.delete_all_unused_submodules()
    assert [n for n, _ in module.named_modules()] == ["", "inner", "inner.act"]
    with pytest.raises(RuntimeError, match="that target was not provided"):
        fx.GraphModule({}, graph)


def test_print(traced, capsys):
    traced.graph.print_tabular()
    assert capsys.readouterr().out.startswith("opcode")
    assert traced.print_readable(print_output=False).startswith("class Net(minitensor.nn.Module):\n    def forward(")
    assert fx.has_side_effect(print) is print


def test_annotations():
    class Typed(mt.nn.Module):
        def forward(self, x: mt.Tensor, k: int = 2, o: int | None = None, s: "int" = 3, *more: int) -> mt.Tensor:
            return x * k

    traced = fx.symbolic_trace(Typed())
    kinds = [node.type for node in traced.graph.nodes]
    assert kinds == [mt.Tensor, int, int | None, "int", None, None, None]
    assert str(traced.graph).splitlines()[1:6] == [
        "    %x : minitensor.Tensor [num_users=1] = placeholder[target=x]",
        "    %k : int [num_users=1] = placeholder[target=k](default=2)",
        "    %o : int | None [num_users=0] = placeholder[target=o](default=None)",
        "    %s : 'int' [num_users=0] = placeholder[target=s](default=3)",
        "    %more : [num_users=0] = placeholder[target=*more]",
    ]
    first = "def forward(self, x : minitensor.Tensor, k : int = 2, o = None, s = 3, *more):"
    assert traced.code.strip().splitlines()[0] == first
    assert [n.type for n in copy.deepcopy(traced).graph.nodes] == kinds
    assert traced(mt.ones(2)).tolist() == [2.0, 2.0]


def test_annotations_with_classes_of_a_program():
    def f(x: Net, y: mt.nn.Linear):
        return x, y

    traced = fx.symbolic_trace(f)
    assert f"x : {Net.__module__.replace('.', '_')}_Net, y : minitensor.nn.modules.linear.Linear" in traced.code
    assert traced(1, 2) == (1, 2)
