"""Nodes and their hooks, what is saved for backward, custom functions, anomaly mode and checkpoints."""

import copy
import pickle
import warnings
import weakref

import numpy as np
import pytest

import minitensor as mt
from minitensor.autograd import Function, grad, graph
from minitensor.autograd.function import once_differentiable
from minitensor.utils.checkpoint import checkpoint, checkpoint_sequential


def leaf(*values):
    return mt.tensor(values, dtype=mt.float64, requires_grad=True)


def lists(gradients):
    return [None if g is None else g.tolist() for g in gradients]


# ---- nodes


def test_names_are_pytorchs():
    x = leaf(1.0, 2.0)
    names = {
        "AddBackward0": x + 1, "MulBackward0": x * 2, "SumBackward0": x.sum(), "SumBackward1": x.sum(0),
        "ToCopyBackward0": x.float(), "MaxBackward0": x.max(0).values, "MmBackward0": x[None] @ x[:, None],
        "DotBackward0": x @ x, "SelectBackward0": x[0], "LogSoftmaxBackward0": x.log_softmax(0),
    }  # fmt: skip
    for name, tensor in names.items():
        assert tensor.grad_fn.name() == name == type(tensor.grad_fn).__name__
        assert isinstance(tensor.grad_fn, graph.Node)
    y = x * x
    assert y.grad_fn is y.grad_fn
    assert [n.name() for n, _ in y.grad_fn.next_functions] == ["torch::autograd::AccumulateGrad"] * 2
    assert y.grad_fn.next_functions[0][0].variable is x
    y.grad_fn.metadata["note"] = 1
    assert y.grad_fn.metadata == {"note": 1}


def test_names_and_edges_go_by_the_call():
    """PyTorch numbers an op's overloads. Its nodes have edges for tensors, and for numbers that it makes tensors."""
    x, y, chosen = leaf(1.0, 2.0), leaf(3.0, 4.0), mt.tensor([True, False])
    whole = mt.tensor([1, 2])
    calls = {
        "pow": [("PowBackward0", 1, x**2), ("PowBackward1", 2, x**y), ("PowBackward2", 1, 2**x)],
        "fmod": [("FmodBackward0", 1, x.fmod(2)), ("FmodBackward1", 2, x.fmod(y))],
        "remainder": [("RemainderBackward0", 1, x % 2), ("RemainderBackward1", 2, x % y)],
        "lerp": [("LerpBackward0", 2, x.lerp(y, 0.5)), ("LerpBackward1", 3, x.lerp(y, y))],
        "masked_fill": [
            ("MaskedFillBackward0", 1, x.masked_fill(chosen, 2.0)),
            ("MaskedFillBackward1", 2, x.masked_fill(chosen, mt.tensor(2.0))),
            ("MaskedFillBackward1", 2, x.masked_fill(chosen, mt.tensor(2))),
        ],
        "where": [
            ("WhereBackward0", 2, mt.where(chosen, x, y)),
            ("WhereBackward0", 2, mt.where(chosen, x, whole)),
            ("WhereBackward0", 2, mt.where(chosen, x, 2)),
        ],
        "xlogy": [
            ("XlogyBackward0", 2, mt.xlogy(x, y)),
            ("XlogyBackward1", 1, mt.xlogy(2.0, x)),
            ("XlogyBackward2", 1, mt.xlogy(x, 2.0)),
        ],
        "copysign": [("CopysignBackward0", 2, x.copysign(y)), ("CopysignBackward1", 1, x.copysign(2.0))],
        "clamp": [("ClampBackward1", 1, x.clamp(0, 1)), ("ClampBackward0", 3, x.clamp(y, y))],
        "median": [("MedianBackward0", 1, x.median()), ("MedianBackward1", 1, x.median(0).values)],
        "matmul": [("MvBackward0", 2, x.expand(3, 2) @ x), ("BmmBackward0", 2, x.expand(4, 3, 2) @ x.expand(4, 2, 2))],
        "add": [("AddBackward0", 2, x + 1), ("AddBackward0", 2, x + whole)],
    }
    for op, expected in calls.items():
        for name, edges, result in expected:
            assert (op, result.grad_fn.name(), len(result.grad_fn.next_functions)) == (op, name, edges)


def test_what_is_saved_can_be_seen():
    x = leaf(1.0, 2.0)
    y = x * x.detach()
    assert y.grad_fn._saved_other.tolist() == [1, 2]
    z = x.exp()
    assert z.grad_fn._saved_result.tolist() == z.tolist()
    z.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        z.grad_fn._saved_result  # noqa: B018  (the access is what is tested)
    with pytest.raises(AttributeError):
        y.grad_fn._saved_nothing  # noqa: B018  (the access is what is tested)


def test_what_is_saved_is_among_the_attributes():
    def saved(node):
        return sorted(name for name in dir(node) if name.startswith("_saved_"))

    x = leaf(1.0, 2.0)
    unpacked = []
    with graph.saved_tensors_hooks(lambda t: t, lambda t: unpacked.append(t) or t):
        y = x * x.detach()
    assert saved(y.grad_fn) == ["_saved_other"]
    assert not unpacked
    nodes = [x.exp().grad_fn, x.pow(2).grad_fn, x[0].grad_fn, (x / x).grad_fn, x.relu().grad_fn, (-x).grad_fn]
    assert [saved(node) for node in nodes] == [
        ["_saved_result"],
        ["_saved_exponent", "_saved_self"],
        ["_saved_dim", "_saved_index"],
        ["_saved_other", "_saved_self"],
        ["_saved_result"],
        [],
    ]
    for node in nodes:
        assert {"name", "metadata", "next_functions"} <= set(dir(node))
        for name in saved(node):
            getattr(node, name)
    y.sum().backward()
    assert "_saved_other" in saved(y.grad_fn)
    with pytest.raises(RuntimeError, match="second time"):
        y.grad_fn._saved_other  # noqa: B018  (the access is what is tested)


def test_hooks_of_nodes_run_in_order():
    x = leaf(1.0, 2.0)
    y = x * 3
    log = []
    y.retain_grad()
    y.register_hook(lambda g: g * 2)
    y.grad_fn.register_prehook(lambda gs: log.append(("pre", lists(gs))))
    handle = y.grad_fn.register_hook(lambda after, before: log.append(("post", lists(after)[0], lists(before))))
    x.register_post_accumulate_grad_hook(lambda t: log.append(("stored", t.grad.tolist())))
    y.sum().backward(retain_graph=True)
    assert log == [("pre", [[2, 2]]), ("post", [6, 6], [[2, 2]]), ("stored", [6, 6])]
    assert y.grad.tolist() == [2, 2]  # after the other hooks
    handle.remove()
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 10,))
    y.grad_fn.register_hook(lambda after, before: (after[0] + 1, *after[1:]))
    assert grad(y.sum(), x)[0].tolist() == [61, 61]


def test_retain_grad_follows_writes_in_place():
    x = leaf(1.0, 2.0)
    y = x * 3
    y.retain_grad()
    assert y.retains_grad
    y.mul_(2)
    y.sum().backward()
    assert y.grad.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="requires_grad=False"):
        mt.ones(1).retain_grad()
    with pytest.raises(RuntimeError, match="non-leaf"):
        y.register_post_accumulate_grad_hook(print)


def test_retained_gradients_of_several_results_stay_apart():
    # PyTorch 2.13 takes the first result's hook for that of the one that is written.
    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, first, second):
            return first * 2 + second * 3

    x = leaf(1.0, 2.0)
    first, second = Two.apply(x)
    first.retain_grad()
    second.retain_grad()
    second.mul_(5)
    second.sum().backward()
    assert lists([x.grad, first.grad, second.grad]) == [[15, 15], None, [1, 1]]


def test_edges():
    x = leaf(1.0, 2.0)
    y = x.exp()
    edge = graph.get_gradient_edge(y)
    assert edge.node is y.grad_fn
    assert np.allclose(grad(edge, x, mt.ones(2, dtype=mt.float64), retain_graph=True)[0].numpy(), y.detach().numpy())
    assert grad(y.sum() * 2, graph.get_gradient_edge(x))[0].tolist() == (2 * y).tolist()


def test_hooks_of_several_tensors():
    x = leaf(1.0, 2.0)
    a, b, c = x * 2, x * 3, x * 4
    seen, first = [], []
    graph.register_multi_grad_hook((a, b, c), lambda gs: seen.append(lists(gs)))
    graph.register_multi_grad_hook((a, b), lambda g: first.append(g.tolist()), mode="any")
    (a + b).sum().backward()
    assert seen == [[[1, 1], [1, 1], None]]
    assert first == [[1, 1]]


@pytest.mark.parametrize("mode", ["all", "any"])
def test_hooks_of_several_tensors_keep_no_gradients(mode):
    x = leaf(1.0, 2.0)
    a, b = x * 2, x * 3
    held = []
    graph.register_multi_grad_hook(
        (a, b), lambda gs: held.extend(weakref.ref(g) for g in (gs if mode == "all" else [gs])), mode=mode
    )
    for runs in (1, 2):
        (a.square() + b).sum().backward(retain_graph=True)
        assert len(held) == runs * (2 if mode == "all" else 1)
        if mode == "all":
            assert [ref() for ref in held] == [None] * len(held)


def test_saved_tensors_hooks():
    x = leaf(1.0, 2.0)
    packed = []
    with graph.saved_tensors_hooks(lambda t: packed.append(t) or t.numpy(force=True).copy(), mt.from_numpy):
        y = (x * x).exp()
    assert len(packed) == 3
    (first,) = grad(y.sum(), x, create_graph=True)
    assert np.allclose(first.detach().numpy(), (2 * x * y).detach().numpy())
    (second,) = grad(first.sum(), x)  # the history of what was saved is kept too
    assert np.allclose(second.numpy(), (2 * y + 4 * x * x * y).detach().numpy())
    with (
        pytest.raises(RuntimeError, match="not here"),
        graph.disable_saved_tensors_hooks("not here"),
        graph.save_on_cpu(),
    ):
        pass
    with graph.saved_tensors_hooks(lambda t: t, lambda t: 3):
        y = x.exp()
    with pytest.raises(TypeError, match="expected to be a Tensor"):
        y.sum().backward()
    with (
        pytest.raises(RuntimeError, match="modifying its input in place"),
        graph.saved_tensors_hooks(lambda t: t.add_(1), lambda t: t),
    ):
        mt.ones(2).mul_(x * 1).exp()


def test_what_is_saved_on_the_host_is_a_copy():
    x = leaf(1.0, 2.0)
    y = x.clone()
    with graph.save_on_cpu():
        z = (y**2).sum()
    y.mul_(5)
    assert grad(z, x)[0].tolist() == [2, 4]


def test_mutation_that_is_allowed():
    x = leaf(1.0, 2.0)
    with graph.allow_mutation_on_saved_tensors():
        y = x.clone()
        z = (y**2).sum()
        y.mul_(5)
        assert grad(z, x)[0].tolist() == [2, 4]


def test_mutation_is_allowed_of_what_is_run_within():
    x, outside = leaf(1.0, 2.0), pytest.raises(AssertionError, match="outside of the 'allow_mutation_on_saved_tensors'")
    with graph.allow_mutation_on_saved_tensors() as kept:
        y, z = (x.clone() ** 2).sum(), (x.clone() ** 3).sum()
        with pytest.raises(RuntimeError, match="cannot be nested"), graph.allow_mutation_on_saved_tensors():
            pass
        kept.clear()
        with outside:
            grad(y, x)
        w = (x.clone() ** 2).sum()
        copies = weakref.ref(next(iter(kept._held)))
        assert grad(w, x)[0].tolist() == [2, 4]
        del w
        assert copies() is None  # the graph is gone, and with it what was kept for it
        w = (x.clone() ** 2).sum()
    for left in (z, w):
        with outside:
            grad(left, x)


def test_hooks_of_saved_tensors_are_not_forbidden_within_some():
    x = leaf(1.0, 2.0)
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        with pytest.raises(RuntimeError, match="none here"), graph.disable_saved_tensors_hooks("none here"):
            pass
        y = x * x
    with graph.disable_saved_tensors_hooks("none here"):
        assert grad(y.sum(), x)[0].tolist() == [2, 4]


def test_a_hook_of_several_in_mode_any_is_of_those_that_want_a_gradient():
    x, seen = leaf(1.0, 2.0), []
    graph.register_multi_grad_hook((x.detach(), x), lambda g: seen.append(g.tolist()), mode="any")
    (x * 2).sum().backward()
    assert seen == [[2, 2]]


def test_a_function_is_no_object():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        made = Double()
    with pytest.raises(RuntimeError, match="Legacy autograd function"):
        made(leaf(1.0))


# ---- custom functions


def test_functions_that_write_in_place():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(1.0, 2.0)
    y = x * 1
    assert Double.apply(y) is y
    assert y.grad_fn.name() == "DoubleBackward"
    assert grad(y.sum(), x)[0].tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        Double.apply(x)


def test_functions_whose_gradients_are_wrong():
    def function(gradient):
        class Custom(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, g):
                return gradient(g)

        return Custom

    x = leaf(1.0, 2.0, 3.0)
    with pytest.raises(RuntimeError, match=r"incorrect number of gradients \(expected 1, got 2\)"):
        grad(function(lambda g: (g, g)).apply(x).sum(), x)
    with pytest.raises(RuntimeError, match=r"invalid gradient at index 0 - got \[2\] but expected shape compatible"):
        grad(function(lambda g: mt.ones(2)).apply(x).sum(), x)
    assert grad(function(lambda g: (g, None)).apply(x).sum(), x)[0].tolist() == [1, 1, 1]


def test_functions_that_are_differentiable_once():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    x = leaf(3.0)
    (first,) = grad((Square.apply(x) ** 2).sum(), x, create_graph=True)
    assert first.item() == 108
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        first.sum().backward()


# ---- modes


def test_anomaly_mode_names_the_forward_call():
    x = leaf(0.0)
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        mode = mt.autograd.detect_anomaly()
    with mode:
        y = mt.sqrt(x * 0) * 0  # the line that is shown
        with (
            pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output"),
            pytest.warns(UserWarning, match=r"Error detected in SqrtBackward0(.|\n)*the line that is shown"),
        ):
            y.sum().backward()
    assert not mt.autograd.anomaly_mode.is_anomaly_enabled()


def test_anomaly_mode_is_on_or_off():
    for make in (mt.autograd.set_detect_anomaly, mt.autograd.detect_anomaly):
        with pytest.raises(TypeError, match="must be bool, not str"):
            make("a")
    with pytest.raises(TypeError, match="'check_nan' must be bool, not int"):
        mt.autograd.set_detect_anomaly(True, check_nan=1)
    assert not mt.autograd.anomaly_mode.is_anomaly_enabled()


def test_modes_of_generators():
    seen = []

    @mt.no_grad()
    def steps():
        seen.append(mt.is_grad_enabled())
        got = yield 1
        seen.append((mt.is_grad_enabled(), got))
        yield 2

    generator = steps()
    assert next(generator) == 1
    assert mt.is_grad_enabled()
    assert generator.send("x") == 2
    assert seen == [False, (False, "x")]

    @mt.set_grad_enabled(False)
    def off():
        return mt.is_grad_enabled()

    assert mt.is_grad_enabled()
    assert not off()


def modes():
    return mt.is_grad_enabled(), mt.is_inference_mode_enabled()


def test_modes_nest_and_are_entered_again():
    off, on, inference = mt.no_grad(), mt.enable_grad(), mt.inference_mode()
    with off:
        with on, off:
            with inference:
                assert modes() == (False, True)
                with mt.inference_mode(False):
                    assert modes() == (True, False)
                with on, on:
                    assert modes() == (True, True)
                assert modes() == (False, True)
            assert modes() == (False, False)
        assert modes() == (False, False)
    assert modes() == (True, False)
    for mode in (off, on, inference):
        with pytest.raises(RuntimeError, match="the mode is left, but was not entered"):
            mode.__exit__(None, None, None)

    with pytest.raises(KeyError), off:
        raise KeyError
    assert modes() == (True, False)

    once = mt.set_grad_enabled(False)
    assert modes() == (False, False)
    for _ in range(3):
        with once:
            assert modes() == (False, False)
        assert modes() == (True, False)


def test_modes_as_decorators():
    def inner(depth):
        return [modes(), *(inner(depth - 1) if depth else ())]

    for decorated in (mt.no_grad(inner), mt.no_grad()(inner), mt.no_grad(function=inner)):
        assert decorated(2) == [(False, False)] * 3
        assert decorated.__name__ == "inner"
    with mt.no_grad():
        assert mt.enable_grad(inner)(0) == [(True, False)]
    assert mt.inference_mode(inner)(0) == [(False, True)]
    with pytest.raises(TypeError, match="no_grad: function must be callable, not int"):
        mt.no_grad(5)
    off = mt.set_grad_enabled(False)
    for decorated in (off(inner), off(inner)):
        assert decorated(1) == [(False, False)] * 2
    assert modes() == (True, False)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda mode: pickle.loads(pickle.dumps(mode))])
def test_copies_of_modes(copied):
    """A model may keep a mode among its attributes."""
    for mode, inside in (
        (mt.no_grad(), (False, False)),
        (mt.enable_grad(), (True, False)),
        (mt.inference_mode(), (False, True)),
        (mt.inference_mode(False), (True, False)),
    ):
        with mode:
            other = copied(mode)
        assert type(other) is type(mode)
        with other:
            assert modes() == inside
        assert modes() == (True, False)
        with pytest.raises(RuntimeError, match="was not entered"):
            other.__exit__(None, None, None)

    with mt.enable_grad():
        other = copied(mt.set_grad_enabled(False))
    assert modes() == (True, False)
    for _ in range(2):
        with other:
            assert modes() == (False, False)
        assert modes() == (True, False)


# ---- checkpoints


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints(reentrant):
    x = leaf(0.1, 0.2)
    calls = []

    def function(t):
        calls.append(1)
        return (t * mt.rand(2, dtype=mt.float64)).exp() * t

    mt.manual_seed(0)
    expected = grad(function(x).sum(), x)[0].tolist()
    mt.manual_seed(0)
    checkpoint(function, x, use_reentrant=reentrant).sum().backward()
    assert x.grad.tolist() == expected  # the same random numbers the second time
    assert len(calls) == 3
    x.grad = None
    checkpoint_sequential([mt.exp, mt.sqrt, mt.tanh], 2, x, use_reentrant=reentrant).sum().backward()
    assert np.allclose(x.grad.numpy(), grad(x.exp().sqrt().tanh().sum(), x)[0].numpy())


def test_checkpoints_save_nothing_else():
    kept = []
    x = leaf(0.1, 0.2)
    with graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        checkpoint(lambda t: t.exp().exp().exp(), x, use_reentrant=False)
    assert [t is x for t in kept] == [True]  # to compute it again
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="use_reentrant"):
            checkpoint(mt.exp, x)


def test_reading_the_gradient_of_a_result_warns():
    x = leaf(1.0, 2.0)
    y, kept, of_no_grad = x * 2, x * 3, None
    kept.retain_grad()
    with mt.no_grad():
        of_no_grad = x * 2
    with pytest.warns(UserWarning, match=r"\.grad attribute of a Tensor that is not a leaf"):
        assert y.grad is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (x.grad, kept.grad, of_no_grad.grad, x.detach().grad) == (None, None, None, None)
        (y + kept).sum().backward()
        assert kept.grad.tolist() == [1, 1]


def test_a_gradient_is_read_where_the_history_is_refused():
    class View(mt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view(-1)

        @staticmethod
        def backward(ctx, gradient):
            return gradient.view(2)

    x = leaf(1.0, 2.0) * 1
    y = View.apply(x)
    x.mul_(2)
    with pytest.raises(RuntimeError, match="modified inplace"):
        _ = y.grad_fn
    with pytest.warns(UserWarning, match="not a leaf Tensor"):
        assert y.grad is None


def test_names_of_what_belongs_to_no_op():
    x = leaf(1.0, 2.0)
    part, copied = x * 1, x * 1
    part[0] = 2.0
    copied.copy_(x)
    found = [t.grad_fn for t in (part, copied)]
    assert [n.name() for n in found] == ["torch::autograd::CopySlices", "torch::autograd::CopyBackwards"]
    assert [type(n).__name__ for n in found] == ["CopySlices", "CopyBackwards"]


def test_hooks_stay_with_a_tensor_that_is_detached_in_place():
    """They are called for the leaf that it becomes, and for what was computed of it before."""
    seen = []
    x = mt.ones(2, requires_grad=True)
    z = x * 2
    handle = z.register_hook(lambda g: seen.append(g.tolist()) or g * 10)
    before = z * 3
    z.detach_()
    assert not z.requires_grad
    z.requires_grad_()
    z.register_hook(lambda g: seen.append(["after", *g.tolist()]))
    z.sum().backward()
    assert seen == [[1, 1], ["after", 10, 10]]
    assert z.grad.tolist() == [10, 10]
    before.sum().backward()
    assert seen[2:] == [[3, 3]]
    assert x.grad.tolist() == [60, 60]
    handle.remove()
    z.sum().backward()
    assert seen[3:] == [["after", 1, 1]]
    assert z.grad.tolist() == [11, 11]


def test_a_hook_that_is_removed_after_detaching_is_called_no_more():
    x, seen = mt.ones(2, requires_grad=True), []
    z = x * 2
    first, second = (z * k for k in (1, 2))
    handle = z.register_hook(seen.append)
    z.detach_()
    handle.remove()
    first.sum().backward()
    z.requires_grad_()
    (z * second.detach()).sum().backward()
    assert seen == []
    assert z.grad.tolist() == [4, 4]


def test_other_hooks_of_the_node_stay_there():
    x, seen = mt.ones(4, requires_grad=True), []
    z, other = x.exp(), x.sin()
    z.register_hook(lambda g: seen.append("z"))
    other.register_hook(lambda g: seen.append("other"))
    z.grad_fn.register_prehook(lambda gs: seen.append("node"))
    z.detach_()
    z.requires_grad_()
    (z + other).sum().backward()
    assert sorted(seen) == ["other", "z"]


def test_all_gradients_need_tensors_that_require_grad():
    x = mt.ones(2, requires_grad=True)
    with pytest.raises(AssertionError, match="Expected gradient function to be set"):
        graph.register_multi_grad_hook((x, mt.ones(2)), print)
