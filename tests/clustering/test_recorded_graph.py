import copy
import pickle
from textwrap import dedent

import pytest
from clustering_graphs import VECTOR, Build

from minitensor_jit.clustering.graph import Graph, Node, Source, TensorMeta
from minitensor_jit.errors import CompileError, InvalidArgumentError
from minitensor_jit.ir.decision import Decision


def test_text():
    build = Build(arguments=2)
    pair = build.op("topk", build.arg(0), outputs=(VECTOR, TensorMeta("s64", (8,))), params={"k": 8, "largest": True})
    scalar = build.op("sum", (pair[0], 1), outputs=(TensorMeta("s64", ()),), source=None)
    build.op("print", scalar, outputs=(), device="cuda:0", control_inputs=(2,), attributes={"_MtCluster": "cluster_0"})
    assert build.done(pair, (2, 1)).text() == dedent(
        """\
        graph step {
          %0 = _Arg[index=0]() : f32[8]
          %1 = _Arg[index=1]() : f32[8]
          %2 = topk[k=8, largest=true](%0) : f32[8], s64[8]  # train.py:3
          %3 = sum(%2:1) : s64[]
          %4 = print(%3) : ()  after %2  @cuda:0  {_MtCluster=cluster_0}  # train.py:5
          return %2, %2:1
        }
        """
    )


def test_long_params_are_cut_and_stay_on_a_line():
    line = Node(0, "constant", params={"value": "a\nb" + "x" * 100}).text()
    assert "\n" not in line
    assert line.endswith("...]() : ()")
    assert len(line) < 80


def test_neighbours():
    build = Build()
    a = build.op("tanh", build.arg(0))
    b = build.op("add", a, a)
    c = build.op("neg", build.arg(0), control_inputs=(a[0],))
    graph = build.done(b, c)
    assert graph.predecessors(b[0]) == (a[0],)
    assert graph.predecessors(c[0]) == (0, a[0])
    assert graph.successors(a[0]) == (b[0], c[0])
    assert graph.successors(c[0]) == ()
    build.op("exp", c)
    assert graph.successors(c[0]) == (4,), "adding a node forgets what was known"
    assert graph.free_id() == 5
    assert graph.meta(a) == VECTOR
    assert 4 in graph
    assert 5 not in graph


def test_dot_is_quoted():
    build = Build(name='a "name"')
    build.op('say \\ "hi"', build.arg(0), attributes={"_MtCluster": "cluster_0"})
    dot = build.done((1, 0)).dot()
    assert 'digraph "a \\"name\\""' in dot
    assert 'say \\\\ \\"hi\\"' in dot
    assert dot.count("{") == dot.count("}")


@pytest.mark.parametrize(
    ("nodes", "fetches", "message"),
    [
        ([Node(0, "a"), Node(0, "b")], [], "two nodes have the id %0"),
        ([Node(0, "a", ((1, 0),))], [], r"an input of %0 = a is %1, which no earlier node gives"),
        ([Node(0, "a", outputs=(VECTOR,)), Node(1, "b", ((0, 1),))], [], "%0:1, which no earlier node"),
        ([Node(0, "a", control_inputs=(1,)), Node(1, "b")], [], r"%0 = a has to run after %1"),
        ([Node(0, "a")], [(0, 0)], "a fetch is %0"),
    ],
)
def test_verify(nodes, fetches, message):
    with pytest.raises(ValueError, match=message):
        Graph(nodes, fetches).verify()


def test_a_node_cannot_be_added_twice():
    build = Build()
    with pytest.raises(ValueError, match="in graph step already"):
        build.graph.add(Node(0, "tanh"))


def test_decisions_keep_the_first_reason():
    yes, no = Decision.allow(), Decision.refuse("it is not even")
    assert yes
    assert not no
    assert (yes & no) == no == (no & Decision.refuse("other")) == (no & yes)
    assert (yes & yes) == yes
    assert str(no) == "no: it is not even"
    assert str(yes) == "yes"
    assert Decision.when(True, "x") == yes
    assert Decision.when(False, "it is not even") == no
    with pytest.raises(ValueError, match="needs a reason"):
        Decision.refuse("")


@pytest.mark.parametrize(
    "error",
    [
        InvalidArgumentError("unique", "its shape depends on the data", Source("train.py", 7), "Use size="),
        CompileError("sort", "no code for f64", Source("train.py", 7)),
    ],
)
def test_errors_name_the_line_and_can_be_copied(error):
    assert '(File "train.py", line 7)' in str(error)
    for same in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(same) is type(error)
        assert str(same) == str(error)
        assert same.source == Source("train.py", 7)


def test_errors_are_what_their_names_say_in_python():
    assert issubclass(InvalidArgumentError, ValueError)
    assert issubclass(CompileError, RuntimeError)
