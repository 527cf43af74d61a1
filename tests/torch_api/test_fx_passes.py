"""Passes over graphs."""

import pytest

import minitensor as mt
from minitensor import fx, nn
from minitensor.fx.passes.shape_prop import ShapeProp


class _Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        largest = self.convolution(x).max(1)
        return largest[0], x.size(0)


def test_shape_prop():
    net, x = _Net(), mt.ones(2, 3, 5, 6).to(memory_format=mt.channels_last)
    traced = fx.symbolic_trace(net)
    values, size = ShapeProp(traced).propagate(x)
    assert values.equal(net(x)[0])
    assert size == 2
    nodes = {node.name: node.meta for node in traced.graph.nodes}
    given = nodes["x"]["tensor_meta"]
    assert given == (mt.Size([2, 3, 5, 6]), mt.float32, False, (90, 1, 18, 3), mt.channels_last, False, {})
    convolved = nodes["convolution"]["tensor_meta"]
    assert (convolved.shape, convolved.dtype, convolved.requires_grad) == (mt.Size([2, 4, 3, 4]), mt.float32, True)
    pair = nodes["max_1"]["tensor_meta"]
    assert [(part.shape, part.dtype) for part in pair] == [
        (mt.Size([2, 3, 4]), kind) for kind in (mt.float32, mt.int64)
    ]
    assert nodes["size"] == {"type": int}
    whole = nodes["output"]["tensor_meta"]
    assert (whole[0].shape, whole[1], nodes["output"]["type"]) == (mt.Size([2, 3, 4]), 2, tuple)


def test_shape_prop_of_strides_of_no_format_and_of_sparse_tensors():
    traced = fx.symbolic_trace(lambda x, s: (x.t(), s))
    ShapeProp(traced).propagate(mt.ones(2, 3), mt.eye(2).to_sparse())
    turned, sparse = next(n for n in traced.graph.nodes if n.op == "output").meta["tensor_meta"]
    assert (turned.stride, turned.memory_format) == ((1, 3), None)
    assert (sparse.shape, sparse.stride, sparse.memory_format) == (mt.Size([2, 2]), (), None)


def test_shape_prop_names_the_node_that_fails():
    traced = fx.symbolic_trace(lambda x: x.view(7))
    with pytest.raises(RuntimeError, match=r"^ShapeProp error for: node=%view : .* with meta=\{\}$"):
        ShapeProp(traced).propagate(mt.ones(2))
