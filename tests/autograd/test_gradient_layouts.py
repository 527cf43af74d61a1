"""Gradients lie in memory as PyTorch's do: as what they are the gradients of."""

import math

import pytest

import minitensor as mt


def counted(*sizes):
    return mt.arange(float(math.prod(sizes))).reshape(sizes)


def steps(strides, shape):
    """Those that count."""
    return [stride for stride, size in zip(strides, shape, strict=True) if size > 1]


LEAVES = {
    "contiguous": lambda: counted(3, 4),
    "transposed": lambda: counted(4, 3).t(),
    "permuted": lambda: counted(2, 3, 4, 5).permute(2, 0, 3, 1),
    "channels last": lambda: counted(2, 3, 4, 5).to(memory_format=mt.channels_last),
    "expanded": lambda: counted(1, 4).expand(3, 4),
    "with gaps": lambda: counted(6, 4)[::2],
    "one row": lambda: counted(4, 1).t(),
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", LEAVES)
def test_a_leafs_gradient_lies_in_memory_as_the_counted(name, create_graph):
    """Row-major where the leaf has gaps or overlaps, whatever the layout is in which the gradient comes."""
    dense = name not in ("expanded", "with gaps")
    for loss in (
        lambda x: x.sum(),
        lambda x: (x * 2.0).sum(),
        lambda x: (x.contiguous() * 3.0).sum(),
        lambda x: (x.flatten() * mt.arange(float(x.numel()))).sum(),
        lambda x: (x.permute(*reversed(range(x.ndim))) * counted(*reversed(x.shape))).sum(),
    ):
        x = LEAVES[name]().requires_grad_()
        expected = x.stride() if dense else mt.empty(x.shape).stride()
        for _ in range(2):
            loss(x).backward(create_graph=create_graph)
            assert steps(x.grad.stride(), x.shape) == steps(expected, x.shape)
        plain = x.detach().clone(memory_format=mt.contiguous_format).requires_grad_()
        loss(plain).backward()
        assert x.grad.tolist() == (plain.grad * 2).tolist()


@pytest.mark.parametrize("batch", [(), (5,)])
def test_gradients_of_products_have_the_layout_of_their_matrices(batch):
    """As the weight of `nn.Linear`, which is multiplied transposed: its gradient needn't be moved."""
    x, weight = counted(*batch, 7, 3).requires_grad_(), counted(4, 3).requires_grad_()
    matrix = weight.t()
    product = x @ matrix
    g = counted(*product.shape)
    gx, gm = mt.autograd.grad(product, (x, matrix), g, retain_graph=True)
    assert gx.is_contiguous()
    assert gm.stride() == matrix.stride() == (1, 3)
    by_columns = counted(3, 7).t().requires_grad_()
    (gc,) = mt.autograd.grad(by_columns @ counted(3, 4), by_columns, counted(7, 4))
    assert gc.stride() == (1, 7)
    assert gc.tolist() == (counted(7, 4) @ counted(3, 4).t()).tolist()
    product.backward(g)
    assert weight.grad.is_contiguous()
    assert weight.grad.tolist() == (g.reshape(-1, 4).t() @ x.detach().reshape(-1, 3)).tolist()


def test_a_leaf_that_was_given_data_of_another_shape():
    """The gradient is of what the leaf was when it was used, and row-major."""
    for data in (counted(3, 2).t(), counted(8)[::2], counted(4, 3, 2).permute(2, 0, 1), counted(5)):
        leaf = counted(2, 3, 4).requires_grad_()
        loss = (leaf.permute(2, 0, 1) * counted(4, 2, 3)).sum()
        leaf.data = data
        loss.backward()
        assert leaf.grad.shape == (2, 3, 4)
        assert leaf.grad.is_contiguous()
        assert mt.equal(leaf.grad, counted(4, 2, 3).permute(1, 2, 0))


def test_without_the_policy_gradients_stay_as_they_lie():
    def strides_of(enforced):
        leaf = mt.ones(3, 2).t().requires_grad_()
        with mt.autograd.enforce_grad_layout_policy(enforced):
            (leaf * mt.arange(6.0).view(2, 3)).sum().backward()
        return leaf.grad.stride()

    assert strides_of(True) == (1, 2)
    assert strides_of(False) == (3, 1)
    assert mt.autograd.enforce_grad_layout_policy(False)(strides_of)(True) == (1, 2)
    assert strides_of(True) == (1, 2)  # the decorator has set nothing
    mt.autograd.enforce_grad_layout_policy(False)
    try:
        assert mt._C.set_any_grad_layout(False)
    finally:
        mt._C.set_any_grad_layout(False)
