"""Automatic differentiation: graphs, and in-place writes to what they hold."""

import gc
import weakref

import pytest

import minitensor as mt
from minitensor.autograd import grad


def leaf(*values, dtype=mt.float64):
    return mt.tensor(values, dtype=dtype, requires_grad=True)


# ---- graphs


def test_gradients_accumulate():
    x = leaf(1.0, 2.0)
    for _ in range(3):
        (x * x).sum().backward()
    assert x.grad.tolist() == [6, 12]


def test_the_gradient_is_the_leafs_own():
    x = leaf(1.0, 2.0)
    seed = mt.ones(2, dtype=mt.float64)
    x.backward(seed)
    seed.add_(5)
    assert x.grad.tolist() == [1, 1]
    y = leaf(1.0, 2.0)
    (x.alias() + y).backward(mt.ones(2, dtype=mt.float64))
    x.grad.zero_()
    assert y.grad.tolist() == [1, 1]


def test_diamonds():
    x = leaf(3.0)
    y = x * x
    z = y * y + y
    (z * y).sum().backward()  # x^6 + x^4
    assert x.grad.tolist() == [6 * 3**5 + 4 * 3**3]


def test_unused_inputs():
    x, y = leaf(1.0), leaf(2.0)
    z = (x * 2).sum()
    with pytest.raises(RuntimeError, match=r"appears to not have been used in the graph\. Set allow_unused=True"):
        grad(z, [x, y], retain_graph=True)
    assert grad(z, [x, y], allow_unused=True, retain_graph=True)[1] is None
    assert grad(z, [x, y], materialize_grads=True)[1].tolist() == [0]


def test_gradients_of_intermediates():
    x = leaf(2.0)
    y = x * 3
    z = y * y
    gy, gx = grad(z.sum(), [y, x])
    assert (gy.tolist(), gx.tolist()) == ([12], [36])
    assert x.grad is None


def test_inputs_of_backward():
    x, y = leaf(1.0), leaf(2.0)
    (x * y).sum().backward(inputs=[x])
    assert (x.grad.tolist(), y.grad) == ([2], None)
    with pytest.raises(RuntimeError, match="cannot be empty"):
        (x * y).sum().backward(inputs=[])


def test_several_roots():
    x = leaf(2.0, 3.0)
    a, b = x * 2, x * x
    mt.autograd.backward([a, b], [mt.ones(2, dtype=mt.float64), mt.tensor([1.0, 10.0], dtype=mt.float64)])
    assert x.grad.tolist() == [6, 62]
    with pytest.raises(RuntimeError, match="got 2 tensors and 1 gradients"):
        mt.autograd.backward([a, b], [mt.ones(2)])


def test_a_root_within_anothers_graph():
    x = leaf(2.0)
    y = x * x
    z = y * 3
    assert grad([z.sum(), y.sum()], [x])[0].tolist() == [16]


def test_implicit_gradients_are_for_scalars():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (x * 2).backward()
    with pytest.raises(
        RuntimeError, match=r"Mismatch in shape: grad_output\[0\] has a shape of minitensor.Size\(\[3\]\)"
    ):
        (x * 2).backward(mt.ones(3))


def test_no_graph():
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"):
        mt.ones(1).backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        grad(leaf(1.0).sum(), [mt.ones(1)])


def test_a_graph_is_freed():
    x = leaf(1.0)
    y = x.exp()
    z = (y * x).sum()
    z.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        z.backward()


def test_a_graph_that_saves_nothing_may_be_used_again():
    x = leaf(1.0)
    z = (x + 1).sum()
    z.backward()
    z.backward()
    assert x.grad.tolist() == [2]


def test_retain_graph():
    x = leaf(2.0)
    z = (x * x * x).sum()
    z.backward(retain_graph=True)
    z.backward()
    assert x.grad.tolist() == [24]


def test_saved_tensors_are_freed_with_the_graph():
    x = leaf(*range(10))
    y = x.exp()
    saved = weakref.ref(y)
    z = (y * y).sum()
    del y
    assert saved() is not None
    z.backward()
    gc.collect()
    assert saved() is None


def test_switches_of_a_pass_are_true_or_false():
    x = leaf(1.0, 2.0)
    for name in ("retain_graph", "create_graph", "allow_unused"):
        for value in ("a", 1.5, [], object()):
            with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
                grad((x * x).sum(), x, **{name: value})
            if name != "allow_unused":
                with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
                    (x * x).sum().backward(**{name: value})
        assert grad((x * x).sum(), x, **{name: 1})[0].tolist() == [2.0, 4.0]
    assert x.grad is None
    assert grad(x.sum(), [x, leaf(1.0)], allow_unused=1)[1] is None
    with pytest.raises(RuntimeError, match="not have been used"):
        grad(x.sum(), [x, leaf(1.0)], allow_unused=0, materialize_grads=True)


def test_higher_derivatives():
    x = leaf(0.5, 2.0)
    y = x**3
    for factor, power in ((3, 2), (6, 1)):
        (y,) = grad(y.sum(), [x], create_graph=True)
        assert y.tolist() == pytest.approx([factor * v**power for v in (0.5, 2.0)])
    assert y.requires_grad


def test_gradients_of_gradients_accumulate_with_create_graph():
    x = leaf(2.0)
    (x * x).sum().backward(create_graph=True)
    assert x.grad.requires_grad
    (x.grad * x.grad).sum().backward()
    assert x.grad.tolist() == [4 + 16]


def test_a_long_chain():
    x = leaf(1.0)
    y = x
    for _ in range(100_000):
        y = y + 1
    y.sum().backward()
    assert x.grad.tolist() == [1]
    del y
    # And one that is never used.
    y = x
    for _ in range(100_000):
        y = y * 1
    del y


def test_a_long_chain_of_views():
    x = leaf(*range(4))
    y = x
    for _ in range(20_000):
        y = y.alias()
    y.sum().backward()
    assert x.grad.tolist() == [1] * 4


def test_a_long_chain_of_writes():
    x = leaf(1.0, 2.0)
    y = x * 1
    for _ in range(20_000):
        y.add_(1)
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_the_node_of_a_tensor():
    x = leaf(1.0, 2.0)
    y = (x.exp() * 2).log_softmax(0)
    assert y.grad_fn.name() == "LogSoftmaxBackward0"
    assert "LogSoftmaxBackward0" in repr(y.grad_fn)
    ((node, index),) = y.grad_fn.next_functions
    assert (node.name(), index) == ("MulBackward0", 0)
    assert y.grad_fn == y.grad_fn
    assert x.grad_fn is None
    assert x.is_leaf
    assert not y.is_leaf
    assert y.detach().is_leaf


# ---- in-place writes and views


def test_writing_to_leaves_is_refused():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        x[0] = 1
    with mt.no_grad():
        x.add_(1)
    assert x.tolist() == [2, 3]


def test_writes_change_the_history():
    x = leaf(1.0, 2.0)
    y = x * 3
    before = y.grad_fn
    y.mul_(2)
    assert y.grad_fn != before
    y.sum().backward()
    assert x.grad.tolist() == [6, 6]


def test_what_a_write_overwrites_is_kept_for_its_gradient():
    x, w = leaf(1.0, 2.0), leaf(5.0, 7.0)
    y = x * 1
    y.mul_(w)
    y.sum().backward()
    assert w.grad.tolist() == [1, 2]
    assert x.grad.tolist() == [5, 7]
    x.grad = None
    y = x * 1
    y.mul_(y)
    y.pow_(2)
    y.sum().backward()
    assert x.grad.tolist() == [4, 32]


def test_writes_to_a_view_reach_the_base():
    x, w = leaf(1.0, 2.0, 3.0), leaf(10.0, 20.0)
    y = x * 1
    y[1:].mul_(w)
    assert y.grad_fn.name() == "torch::autograd::CopySlices"
    (y * y).sum().backward()
    assert x.grad.tolist() == [2, 2 * 2 * 100, 2 * 3 * 400]
    assert w.grad.tolist() == [2 * 4 * 10, 2 * 9 * 20]


def test_writes_to_a_base_reach_its_views():
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    v = y[1:]
    y.mul_(2)
    assert v.grad_fn.name() == "AsStridedBackward0"
    v.sum().backward()
    assert x.grad.tolist() == [0, 2, 2]


def test_writes_to_sibling_views():
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    a, b, c = y[:2], y[1:], y[0]
    a.mul_(3)
    b.mul_(5)
    (a.sum() + b.sum() * 10 + c * 100).backward()
    assert y.tolist() == [3, 30, 15]
    assert x.grad.tolist() == [3 + 300, 15 + 150, 50]


def test_overlapping_operands():
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    y[1:].add_(y[:-1])
    y.sum().backward()
    assert y.tolist() == [1, 3, 5]
    assert x.grad.tolist() == [2, 2, 1]


def test_writing_something_that_requires_grad_into_a_buffer():
    w = leaf(1.0, 2.0)
    buffer = mt.zeros(3, 2, dtype=mt.float64)
    for i in range(3):
        buffer[i] = w * (i + 1)
    assert buffer.requires_grad
    (buffer * mt.arange(3, dtype=mt.float64).reshape(3, 1)).sum().backward()
    assert w.grad.tolist() == [8, 8]


def test_writing_constants_stops_gradients():
    x = leaf(1.0, 2.0, 3.0)
    y = x * 2
    y[0] = 7
    y[2:].zero_()
    y.sum().backward()
    assert x.grad.tolist() == [0, 2, 0]


def test_views_of_a_transposed_detached_base():
    w = leaf(2.0, 3.0, 4.0)
    base = mt.ones(3, 2, dtype=mt.float64).t().detach()
    base[1].mul_(w)
    (base * mt.arange(6, dtype=mt.float64).reshape(2, 3)).sum().backward(retain_graph=True)
    assert w.grad.tolist() == [3, 4, 5]
    v = base[:, 1]
    base.mul_(2)
    assert grad(v.sum(), [w])[0].tolist() == [0, 2, 0]
    assert w.grad.tolist() == [3, 4, 5]


def test_a_base_inside_a_larger_storage():
    w = leaf(2.0, 3.0)
    base = mt.arange(6, dtype=mt.float64)[2:5].detach()
    view = base[1:]
    base.mul_(mt.cat([w, w[:1]]))
    assert grad(view.sum(), [w])[0].tolist() == [4, 3]


def test_second_derivatives_through_writes():
    x = leaf(1.0, 2.0, 3.0)

    def f(x):
        y = x * 1
        y[1:].mul_(y[:-1])
        y.mul_(x)
        return y

    (g,) = grad((f(x) ** 2).sum(), [x], create_graph=True)
    (h,) = grad((g * g).sum(), [x])
    step = 1e-6
    for i in range(3):
        sides = []
        for sign in (1, -1):
            moved = x.detach().clone()
            moved[i] += sign * step
            moved.requires_grad_()
            (there,) = grad((f(moved) ** 2).sum(), [moved])
            sides.append((there * there).sum().item())
        assert h[i].item() == pytest.approx((sides[0] - sides[1]) / (2 * step), rel=1e-6)


def test_saved_tensors_that_were_changed():
    x = leaf(1.0, 2.0)
    y = x.exp()
    z = y * 2  # saves only the number
    y.add_(1)
    with pytest.raises(
        RuntimeError,
        match=r"DoubleTensor \[2\]\], which is output 0 of Exp, is at version 1; expected version 0",
    ):
        z.sum().backward()
    y = x * 1
    z = y * y
    with mt.no_grad():
        y[0] = 5
    with pytest.raises(RuntimeError, match="It was saved for MulBackward0"):
        z.sum().backward()


def test_changes_of_what_is_not_saved():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = y + 1
    w = y * 3 + y @ mt.eye(2, dtype=mt.float64)
    y.add_(1)
    (z + y + w).sum().backward()
    assert x.grad.tolist() == [12, 12]


def test_a_factor_is_kept_for_the_other_factors_gradient_only():
    x = leaf(*range(1000))
    y = x * 1
    before = mt.allocator_stats()["allocated_bytes"]
    z = y * 2
    w = z * mt.ones(1000, dtype=mt.float64)
    del y, z
    # What is left: w, the ones, and no intermediate.
    assert mt.allocator_stats()["allocated_bytes"] - before <= 8192
    w.sum().backward()
    assert x.grad[0].item() == 2


def test_integers_and_bools_have_no_gradient():
    x = leaf(1.5, 2.5)
    assert not (x > 2).requires_grad
    assert not x.long().requires_grad
    assert x.long().double().requires_grad is False
    with pytest.raises(RuntimeError, match="only Tensors of floating point and complex dtype can require gradients"):
        mt.ones(2, dtype=mt.int64).requires_grad_()


def test_flags():
    x = leaf(1.0)
    y = x * 2
    with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables"):
        y.requires_grad_(False)
    y.detach_()
    assert not y.requires_grad
    assert y.is_leaf
    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        (x * 2)[:].detach_()


def test_assigned_gradients():
    x = leaf(1.0, 2.0)
    x.grad = mt.tensor([3.0, 4.0], dtype=mt.float64)
    (x * 1).sum().backward()
    assert x.grad.tolist() == [4, 5]
    for wrong, match in (
        (mt.ones(3, dtype=mt.float64), "gradient and the tensor are the same size"),
        (mt.ones(2), "different type"),
    ):
        with pytest.raises(RuntimeError, match=match):
            x.grad = wrong
    with pytest.raises(TypeError, match="assigned grad expected to be a Tensor or None"):
        x.grad = 1.0
    x.grad = None
    assert x.grad is None


def test_what_no_wanted_gradient_reads_is_not_kept():
    x, y = leaf(1.0, 2.0), leaf(4.0, 5.0)
    for z in (x / 2, x / y, x**2):
        z.mul_(3)
        z.sum().backward()
    assert x.grad.tolist() == [1.5 + 0.75 + 6, 1.5 + 0.6 + 12]
    # Of a product with a number nothing is kept: its graph may be used again.
    z = (x * 2).sum()
    z.backward()
    z.backward()
