"""Copies and pickles of tensors: gradients, attributes, shared memory, classes.

Each test runs here and, where it is installed, in PyTorch.
"""

import copy
import pickle

import pytest
from leaves import leaf

pytestmark = pytest.mark.filterwarnings("ignore")


def test_deep_copies_of_a_gradient_that_is_a_parameter(lib):
    x = leaf(lib, 1.0, 2.0)
    x.grad = lib.nn.Parameter(lib.ones(2, dtype=lib.float64))
    (x.grad * x.grad).sum().backward(create_graph=True)
    copied = copy.deepcopy(x)
    assert copied.grad.tolist() == [1.0, 1.0]
    assert copied.grad.grad is None


def test_deep_copies_have_their_own_gradients(lib):
    a, b = leaf(lib, 1.0), leaf(lib, 2.0)
    a.grad, b.grad = lib.full((1,), 3.0, dtype=lib.float64), lib.full((1,), 4.0, dtype=lib.float64)
    for _ in range(3):
        x, y = copy.deepcopy((a, b))
        assert (x.grad.item(), y.grad.item()) == (3.0, 4.0)
        assert x.grad is not a.grad


def test_deep_copies_keep_attributes(lib):
    x = lib.ones(2)
    x.tag = [1]
    y = copy.deepcopy(x)
    assert y.tag == [1]
    assert y.tag is not x.tag


def test_deep_copies_of_views_still_share(lib):
    base = lib.arange(12.0).view(3, 4)
    view, transposed, wide = base[1:, ::2], base.t(), lib.ones(1).expand(4)
    b, v, t, w = copy.deepcopy((base, view, transposed, wide))
    assert (v.stride(), v.storage_offset()) == (view.stride(), view.storage_offset())
    assert t.stride() == (1, 4)
    assert w.stride() == (0,)
    b.zero_()
    assert v.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert t.sum() == 0
    assert base.sum() == 66


def test_deep_copies_of_parameters_have_no_gradient(lib):
    p = lib.nn.Parameter(lib.ones(2))
    p.grad = lib.ones(2)
    q = copy.deepcopy(p)
    assert q.grad is None
    assert type(q) is lib.nn.Parameter
    assert q.requires_grad


def test_copy_shares_memory(lib):
    x = leaf(lib, 1.0, 2.0)
    x.grad, x.tag = lib.ones(2, dtype=lib.float64), [1]
    y = copy.copy(x)
    assert y.data_ptr() == x.data_ptr()
    assert y.requires_grad
    assert y.is_leaf
    assert y.grad is None
    assert y.tag is x.tag


def test_pickles_keep_strides_and_attributes(lib):
    x = lib.arange(6.0).view(2, 3).t()
    x.tag = "here"
    y = pickle.loads(pickle.dumps(x))
    assert y.stride() == (1, 3)
    assert y.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert y.tag == "here"


def test_as_subclass_is_differentiable(lib):
    class Mine(lib.Tensor):
        pass

    x = leaf(lib, 1.0, 2.0)
    y = x.as_subclass(Mine)
    assert type(y) is Mine
    assert y._base is x
    (y * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("kind", ["tensor", "leaf", "node", "several"])
def test_copied_handles_of_hooks(lib, kind):
    x = leaf(lib, 1.0, 2.0)
    y, seen = x * 2, []
    hooked = {
        "tensor": lambda: x.register_hook(seen.append),
        "leaf": lambda: x.register_post_accumulate_grad_hook(seen.append),
        "node": lambda: y.grad_fn.register_hook(lambda gradients, _: seen.append(gradients)),
        "several": lambda: lib.autograd.graph.register_multi_grad_hook([x], seen.append),
    }
    handle = hooked[kind]()
    module = lib.nn.Module()
    module.handle = handle
    copy.deepcopy(module).handle.remove()
    y.sum().backward(retain_graph=True)
    assert len(seen) == 1
    copy.copy(handle).remove()
    handle.remove()
    y.sum().backward()
    assert len(seen) == 1
