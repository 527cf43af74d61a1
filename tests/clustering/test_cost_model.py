"""The cost model's bytes and times, worked out by hand."""

import pytest
from clustering.clustering_graphs import VECTOR, Build

from minitensor.ops import ROWS
from minitensor_jit.clustering.cost_model import ARGUMENT_US, BYTES_PER_US, FLOPS_PER_US, LAUNCH_US, OP_US, predict
from minitensor_jit.clustering.graph import TensorMeta

BYTES = 4 * 8  # of a VECTOR
PAIR = (VECTOR, TensorMeta("f64", (3,)))


def costs(build, *members):
    return predict(build.graph, [build.graph.node(value[0]) for value in members])


def check(found, *, steps, ops_bytes, border, cluster_bytes=None, arguments, work=0.0, slow=0.0):
    cluster_bytes = border if cluster_bytes is None else cluster_bytes
    assert (found.ops_bytes, found.cluster_bytes) == (ops_bytes, cluster_bytes)
    assert found.ops_us == pytest.approx(OP_US * steps + ops_bytes / BYTES_PER_US + work)
    moved = cluster_bytes / BYTES_PER_US
    assert found.cluster_us == pytest.approx(LAUNCH_US + ARGUMENT_US * arguments + moved + work + slow)
    assert bool(found.decision) is (found.cluster_us < found.ops_us)


def test_a_chain_moves_its_ends_only():
    b = Build(2)
    first = b.op("add", b.arg(0), b.arg(1))
    second = b.op("mul", first, b.arg(0))
    last = b.op("tanh", second)
    b.graph.fetches.append(last)
    # One by one: three and three and two arrays; as one: two are read, one is written.
    check(costs(b, first, second, last), steps=3, ops_bytes=8 * BYTES, border=3 * BYTES, arguments=3)


def test_what_others_read_is_written_once():
    b = Build(1)
    first = b.op("exp", b.arg(0))
    second = b.op("sin", first)
    outside = b.op("nonzero", first)
    again = b.op("nonzero", first)
    b.graph.fetches += [second, first, outside, again]
    check(costs(b, first, second), steps=2, ops_bytes=4 * BYTES, border=3 * BYTES, arguments=3)
    # Nothing of it is wanted but by the op outside.
    del b.graph.fetches[:2]
    check(costs(b, first, second), steps=2, ops_bytes=4 * BYTES, border=2 * BYTES, arguments=2)


@pytest.mark.parametrize("place", [0, 1])
def test_of_several_results_those_are_written_that_are_read(place):
    b = Build(3)
    sizes = [BYTES, 8 * 3]
    both = b.op("both", b.arg(2), outputs=PAIR)
    b.graph.fetches.append(b.op("nonzero", (both[0], place)))
    check(costs(b, both), steps=1, ops_bytes=BYTES + sum(sizes), border=BYTES + sizes[place], arguments=2)


def test_views_and_constants_are_free():
    b = Build(1)
    number = b.op("_Const", kind="constant", outputs=(TensorMeta("f32", ()),))
    seen = b.view(b.arg(0))
    made = b.op("mul", seen, number)
    b.graph.fetches.append(made)
    check(costs(b, seen, made), steps=1, ops_bytes=2 * BYTES + 4, border=2 * BYTES, arguments=2)


@pytest.mark.parametrize(("op", "shape"), [("tanh", (5, 3)), ("sum", ())])
def test_products_take_their_time_on_either_side(op, shape):
    b = Build(0)
    for id, dims in enumerate([(5, 7), (7, 3)]):
        b.graph.add_argument(id, TensorMeta("f32", dims))
    product = b.op("matmul", b.arg(0), b.arg(1), kind="contraction", outputs=(TensorMeta("f32", (5, 3)),))
    last = b.op(op, product, outputs=(TensorMeta("f32", shape),))
    b.graph.fetches.append(last)
    result = 4 * (15 if shape else 1)
    alone, border = 4 * (35 + 21 + 15), 4 * (35 + 21) + result  # a sum's is less than the product moves by itself
    bytes_of_both = alone + 4 * 15 + result
    work = 2 * 15 * 7 / FLOPS_PER_US
    found = costs(b, product, last)
    check(found, steps=2, ops_bytes=bytes_of_both, border=border, cluster_bytes=alone, arguments=3, work=work)


@pytest.mark.parametrize("op", [name for name, row in ROWS.items() if row.slow_ns])
def test_slow_ops_have_a_price_for_each_element(op):
    b = Build(1)
    made = b.op(op, b.arg(0))
    b.graph.fetches.append(made)
    slow = ROWS[op].slow_ns * 1e-3 * 8
    check(costs(b, made), steps=1, ops_bytes=2 * BYTES, border=2 * BYTES, arguments=2, slow=slow)
