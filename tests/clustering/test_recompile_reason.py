"""Why a cluster is compiled again: what changed of it, by the op and line that has it."""

from types import SimpleNamespace

from clustering.clustering_graphs import VECTOR, Build

from minitensor_jit.clustering.graph import TensorMeta
from minitensor_jit.compiler.recompile_reason import CompileReasons


def scaled_sum(number=2.0, dim=0, shape=(8,), kept=1):
    """A graph, and what stands for its module."""
    b = Build(0)
    b.graph.add_argument(0, TensorMeta("f32", shape))
    value = b.op("_Const", kind="constant", outputs=(TensorMeta("f32", ()),), params={"value": number}, source=None)
    product = b.op("mul", b.arg(0), value, outputs=(TensorMeta("f32", shape),))
    total = b.op("sum", product, params={"dim": dim}, outputs=(VECTOR,))
    b.graph.fetches += [total, product][:kept]
    return b.graph, SimpleNamespace(parameters=[((0, 0), "f32")])


def why(*changes, in_detail=True):
    reasons = CompileReasons(10)
    return [reasons.why(*scaled_sum(**change), in_detail=in_detail) for change in changes]


def test_each_part_is_named():
    assert why({}, {"shape": (9,)}) == ["first use", "argument 0: f32[8] became f32[9]"]
    assert why({}, {"number": 3.0})[1] == "a number of mul (train.py:3): value=2.0 became value=3.0"
    assert why({}, {"dim": 1})[1] == "parameters of sum (train.py:4): dim=0 became dim=1"
    kept = "what the program keeps of it: sum (train.py:4) became sum (train.py:4), mul (train.py:3)"
    assert why({}, {"kept": 2})[1] == kept
    # Numbers last: they are rarely why.
    assert why({}, {"number": 3.0, "kept": 2})[1] == kept
    assert why({}, {"number": 3.0, "dim": 1})[1] == "parameters of sum (train.py:4): dim=0 became dim=1"
    assert why({}, {})[1] == "other results are used, or constants changed"
    assert why({}, {"dim": 1}, in_detail=False)[1] == "other results are used, or constants changed"


def test_it_is_compared_with_the_last_one():
    found = why({}, {"dim": 1}, {"dim": 1, "number": 3.0})
    assert found[2] == "a number of mul (train.py:3): value=2.0 became value=3.0"
