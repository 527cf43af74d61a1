"""Versions of tensors, and `.data`.

Each test runs here and, where it is installed, in PyTorch.
"""

import pytest
from leaves import double, leaf

import minitensor

pytestmark = pytest.mark.filterwarnings("ignore")


def test_data_has_a_version_of_its_own(lib):
    x = leaf(lib, 1.0, 2.0)
    y = x * 1
    z = y * y
    y.data.mul_(2)
    assert (y._version, y.data._version) == (0, 0)
    z.sum().backward()  # a write that `.data` hides
    assert x.grad.tolist() == [4.0, 8.0]
    data = y.data
    data.view(2).add_(1)
    assert (data._version, y._version) == (1, 0)
    y.detach().add_(1)
    assert (data._version, y._version) == (1, 1)


def test_what_has_no_kernel_writes_nothing(lib):
    x = lib.ones(3, dtype=lib.complex128)
    for method in ("atan2_", "xlogy_", "lgamma_"):
        with pytest.raises(NotImplementedError, match="not implemented for 'ComplexDouble'"):
            getattr(x, method)(*[x] * (method != "lgamma_"))
        assert x._version == 0
    x.mul_(2)
    assert x._version == 1


def test_setting_data_keeps_the_version(lib):
    x = leaf(lib, 1.0, 2.0)
    y = x * 1
    z = y * y
    y.add_(1)
    y.data = lib.zeros(2, dtype=lib.float64)
    assert y._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    other = lib.ones(2, dtype=lib.float64)
    other.add_(1)
    y.data = other
    y.add_(1)
    assert (y._version, other._version) == (2, 1)
    assert other.tolist() == [3.0, 3.0]


def test_data_of_another_dtype(lib):
    x = leaf(lib, 1.0, 2.0)
    with pytest.raises(RuntimeError, match="floating point"):
        x.data = lib.tensor([1, 2])
    held = x * 2
    x.data = x.data.float()
    (x * 3).sum().backward()
    assert x.grad.dtype is lib.float32
    del held


def test_data_of_another_shape_while_its_node_is_held():
    """PyTorch refuses the gradient then, but not where nobody holds the node."""
    x = leaf(minitensor, 1.0, 2.0)
    edge = minitensor.autograd.graph.get_gradient_edge(x)
    x.data = x.data.new_ones(3)
    (x * 3).sum().backward()
    minitensor.autograd.backward(edge, x.data * 2)
    assert x.grad.tolist() == [5, 5, 5]
    assert minitensor.autograd.graph.get_gradient_edge(x).node is edge.node


def test_double_after_a_function_used_the_parameter(lib):
    layer = lib.nn.Linear(2, 1)
    held = double(lib, lambda x: x * 2).apply(layer.weight.view(2))
    layer.double()
    layer(lib.ones(1, 2, dtype=lib.float64)).sum().backward()
    assert layer.weight.grad.dtype is lib.float64
    del held


def test_a_gradient_is_not_the_seed(lib):
    x = leaf(lib, 1.0, 2.0)
    x.backward(x, create_graph=True)
    assert x.grad is not x
    assert x.grad.data_ptr() != x.data_ptr()
    assert x.grad.requires_grad


def test_a_leaf_that_wants_no_gradient_any_more_gets_none(lib):
    x = leaf(lib, 1.0, 2.0)
    y = x * 2
    x.requires_grad_(False)
    y.sum().backward()
    assert x.grad is None


def test_a_hook_after_accumulating_returns_nothing(lib):
    x = leaf(lib, 1.0, 2.0)
    x.register_post_accumulate_grad_hook(lambda t: t.grad)
    with pytest.raises(RuntimeError, match="should return None"):
        (x * 2).sum().backward()


def test_tensors_of_inference_mode_have_no_version(lib):
    with lib.inference_mode():
        x = lib.ones(2)
        x.add_(1)
        for t in (x, x[:1]):
            with pytest.raises(RuntimeError, match="do not track version"):
                _ = t._version
    with pytest.raises(RuntimeError, match="do not track version"):
        _ = x._version
    y = lib.ones(2)
    with lib.inference_mode():
        y.add_(1)
        assert y._version == 1


REFUSED = {
    "index_fill_": lambda lib, x, at: x.index_fill_(0, at, 1.0),
    "index_add_": lambda lib, x, at: x.index_add_(0, at, lib.ones(2, 3)),
    "index_copy_": lambda lib, x, at: x.index_copy_(0, at, lib.ones(2, 3)),
    "index_put_": lambda lib, x, at: x.index_put_((at,), lib.ones(2, 3)),
    "index_reduce_": lambda lib, x, at: x.index_reduce_(0, at, lib.ones(2, 3), "amax"),
    "x[at]": lambda lib, x, at: x.__setitem__(at, 1.0),
    "scatter_": lambda lib, x, at: x.scatter_(0, at.unsqueeze(1), lib.ones(2, 1)),
    "scatter_ number": lambda lib, x, at: x.scatter_(0, at.unsqueeze(1), 1.0),
    "scatter_add_": lambda lib, x, at: x.scatter_add_(0, at.unsqueeze(1), lib.ones(2, 1)),
    "scatter_reduce_": lambda lib, x, at: x.scatter_reduce_(0, at.unsqueeze(1), lib.ones(2, 1), "sum"),
    "put_": lambda lib, x, at: x.put_(at * 3, lib.ones(2)),
    "shape": lambda lib, x, at: x.add_(lib.ones(4)),
    "dtype": lambda lib, x, at: x.add_(lib.ones(3, dtype=lib.complex64)),
}


@pytest.mark.at_once(reason="an index out of bounds is known when the values are")
@pytest.mark.parametrize("write", REFUSED)
def test_a_refused_write_is_no_version(lib, write):
    x = lib.zeros(3, 3)
    y = (leaf(lib, 1.0, 2.0, 3.0) * x).sum()  # which has saved x
    with pytest.raises((IndexError, RuntimeError)):
        REFUSED[write](lib, x, lib.tensor([0, 5]))
    assert x._version == 0
    assert lib is not minitensor or not x.any()  # PyTorch's index_fill_ has written what came before
    y.backward()


@pytest.mark.at_once(reason="an index out of bounds is known when the values are")
def test_too_few_elements_for_a_mask_write_nothing():
    for x in (minitensor.zeros(4), minitensor.zeros(8)[::2]):  # PyTorch writes what it has, and counts nothing
        with pytest.raises(RuntimeError, match="Number of elements of source"):
            x.masked_scatter_(minitensor.ones(4) > 0, minitensor.ones(3))
        assert x._version == 0
        assert not x.any()
    x = minitensor.zeros(4)
    assert x.masked_scatter_(minitensor.tensor([True, False, True, False]), minitensor.ones(2)).tolist() == [1, 0, 1, 0]


def test_what_is_a_view(lib):
    x, y = lib.ones(2, 2), leaf(lib, 1.0, 2.0)
    with lib.no_grad():
        of_no_grad = y[:1]
    with lib.inference_mode():
        made = lib.ones(2)
        of_made, of_inference = made[:1], y[:1]
    views = (x[0], x.t(), y[:1], x.reshape(4), x.split(1)[0], x.expand(2, 2, 2), of_no_grad, of_inference)
    others = (x, y, x + 1, x.detach(), y[:1].detach(), x.view(4).data, x.contiguous(), made, of_made, lib.real(x))
    assert [t._is_view() for t in views] == [True] * len(views)
    assert [t._is_view() for t in others] == [False] * len(others)
    assert [t._base is not None for t in (*views, *others)] == [t._is_view() for t in (*views, *others)]


def test_copy_by_name(lib):
    assert lib.zeros(2).copy_(other=lib.ones(2), non_blocking=True).tolist() == [1, 1]
    with pytest.raises(TypeError):
        lib.zeros(2).copy_(src=lib.ones(2))
