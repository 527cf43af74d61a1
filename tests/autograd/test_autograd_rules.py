"""Autograd's rules: which gradients a pass computes and stores, what hooks are given, leaves that are views.

Each test runs here and, where it is installed, in PyTorch.
"""

import copy
from collections import OrderedDict
from types import MappingProxyType

import pytest
from leaves import leaf, of_inference, scaled

import minitensor

pytestmark = pytest.mark.filterwarnings("ignore")


# ---- a pass and its inputs


def test_a_refused_pass_retains_nothing(lib):
    x = leaf(lib, 1.0, 2.0)
    y = x * 2
    with pytest.raises(RuntimeError, match="does not require grad"):
        x.detach().sum().backward(inputs=[y])
    y.sum().backward()
    assert y.grad is None


def test_grad_stores_nothing(lib):
    x = leaf(lib, 1.0, 2.0)
    y = scaled(lib).apply(x)
    with lib.no_grad(), pytest.raises(RuntimeError):
        y.sum().backward(inputs=[y, y])
    a, b = lib.autograd.grad(y.sum(), [x, x], create_graph=True)
    assert a is b
    assert a.tolist() == [3.0, 3.0]
    assert y.grad is None
    assert x.grad is None


def test_the_output_of_a_function_as_an_input(lib):
    x = leaf(lib, 1.0, 2.0)
    y = scaled(lib).apply(x)
    (y * y).sum().backward(inputs=[y])
    assert y.grad.tolist() == [6.0, 12.0]
    assert x.grad is None


def test_a_view_made_under_no_grad_retains_nothing(lib):
    x = leaf(lib, 1.0, 2.0)
    with lib.no_grad():
        view = x.view(2, 1)
    view.retain_grad()  # it counts as a leaf
    assert view.requires_grad
    assert not view.retains_grad


def test_nodes_compute_what_the_pass_wants(lib):
    x, w = leaf(lib, 1.0, 2.0), leaf(lib, 3.0, 4.0)
    seen = []
    y = x * w
    y.grad_fn.register_hook(lambda inner, outer: seen.append([g is not None for g in inner]))
    lib.autograd.grad(y.sum(), [w], retain_graph=True)
    y.sum().backward(retain_graph=True, inputs=[y])
    y.sum().backward()
    assert seen == [[False, True], [False, False], [True, True]]


def test_a_write_to_a_part_computes_what_the_pass_wants(lib):
    x, w = leaf(lib, 1.0, 2.0), leaf(lib, 3.0)
    seen = []
    y = x * 1
    y[0].mul_(w[0])
    y.grad_fn.register_hook(lambda inner, outer: seen.append([g is not None for g in inner]))
    assert lib.autograd.grad(y.sum(), [w], retain_graph=True)[0].tolist() == [1.0]
    assert lib.autograd.grad(y.sum(), [x], retain_graph=True)[0].tolist() == [3.0, 1.0]
    assert seen == [[False, True], [True, False]]


def test_views_have_gradients_of_their_own(lib):
    x = leaf(lib, 1.0, 2.0)
    for view in (x.t(), x[:], x.view(-1)):
        a, b = lib.autograd.grad(view.sum(), [view, x])
        assert a is not b
    y = x.squeeze()
    a, b = lib.autograd.grad(y.sum(), [y, x])
    assert a is b


def test_slices_of_everything_are_slices(lib):
    x = leaf(lib, 1.0, 2.0)
    assert x[:].grad_fn.name() == "SliceBackward0"
    assert x[...].grad_fn.name() == "AliasBackward0"


def test_the_second_derivative_of_relu_is_zero(lib):
    x = leaf(lib, 1.0, -2.0)
    (g,) = lib.autograd.grad(x.relu().sum(), x, create_graph=True)
    (second,) = lib.autograd.grad(g.sum(), x)
    assert second.tolist() == [0.0, 0.0]


# ---- hooks


def test_edges_are_of_what_can_have_a_gradient(lib):
    x = leaf(lib, 0.5, 2.0)
    where, mask = lib.tensor([0]), x.detach() > 1
    counts = {
        "number": (x * 2, 2),
        "power": (x**2, 1),
        "base": (2**x, 1),
        "mask": (x.masked_fill(mask, 2.0), 1),
        "choice": (lib.where(mask, x, x), 2),
        "gather": (x.gather(0, where), 1),
        "rows": (x[where], 1),
        "scatter": (x.scatter(0, where, x[:1]), 2),
        "bools": (x * mask, 2),
        "joined": (lib.cat([x, where]), 2),
    }
    for name, (result, count) in counts.items():
        assert len(result.grad_fn.next_functions) == count, name
        seen = []
        result.grad_fn.register_hook(lambda inner, outer, seen=seen: seen.append(len(inner)))
        result.sum().backward()
        assert seen == [count], name


def test_a_hook_replaces_the_gradients_that_it_is_shown(lib):
    x = leaf(lib, 1.0, 2.0)
    y = x.masked_fill(x.detach() > 1, 5.0) ** 2
    y.grad_fn.register_hook(lambda inner, outer: (inner[0] * 10,))
    y.sum().backward()
    assert x.grad.tolist() == [20.0, 0.0]


def test_hooks_after_accumulating(lib):
    x = leaf(lib, 1.0, 2.0)
    seen = []
    other = lib.zeros(2, dtype=lib.float64)
    first = x.register_post_accumulate_grad_hook(lambda t: other)
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t is other))
    with pytest.raises(RuntimeError, match="should return None"):
        x.sum().backward()
    first.remove()
    same = x.register_post_accumulate_grad_hook(lambda t: t)
    x.sum().backward()
    assert seen == [True, False]
    same.remove()
    y = x * 2
    x.requires_grad_(False)
    y.sum().backward()
    assert seen == [True, False, False]
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_leaf_that_got_a_history_takes_no_gradient(lib):
    x = leaf(lib, 1.0, 2.0)
    y = x.view(-1)
    x.requires_grad = False
    x.add_(y)
    with pytest.raises(RuntimeError, match="leaf variable has been moved into the graph interior"):
        x.sum().backward()


# ---- views


def test_a_leaf_may_be_a_view(lib):
    x = lib.arange(4, dtype=lib.float64)
    view = x.view(2, 2)
    view.requires_grad_()
    assert view._base is x
    part = view[0]
    assert part._base is x
    part.sum().backward()
    assert view.grad.tolist() == [[1.0, 1.0], [0.0, 0.0]]
    with lib.no_grad():
        assert not view[0].requires_grad
    with pytest.raises((RuntimeError, NotImplementedError), match="view of a leaf Variable"):
        part.mul_(2)
    view.requires_grad_(False)
    assert view._base is x


def test_the_history_of_its_base_reaches_a_leaf_and_its_views(lib):
    w, x = leaf(lib, 2.0, 3.0), lib.ones(2, dtype=lib.float64)
    view = x.view(2, 1)
    view.requires_grad_()
    part = view[0]
    x.mul_(w)
    assert not view.is_leaf
    (part * 5).sum().backward(retain_graph=True)
    assert w.grad.tolist() == [5.0, 0.0]
    part.mul_(2)
    x.sum().backward()
    assert w.grad.tolist() == [7.0, 1.0]


def test_a_write_beside_a_leaf_that_is_a_view():
    x = minitensor.ones(2, dtype=minitensor.float64)
    view = x.view(2, 1)
    view.requires_grad_()
    part = view[0]
    x.mul_(3)  # in PyTorch this makes the next line a gradient of nothing
    part.sum().backward()
    assert view.grad.tolist() == [[1.0], [0.0]]


def test_a_view_that_wants_what_its_base_wants(lib):
    x = leaf(lib, 1.0, 2.0)
    with lib.inference_mode():
        view = x.view(2, 1)
    view.requires_grad_()
    view.requires_grad_(False)
    assert view.requires_grad


def test_a_view_of_what_was_detached_has_no_gradient(lib):
    x = leaf(lib, 1.0, 2.0)
    view = x.view(2, 1)
    x.detach_()
    x.mul_(2)
    seen = []
    view.grad_fn.register_hook(lambda inner, outer: seen.append(inner[0] is None))
    view.sum().backward()
    assert x.grad is None
    assert seen == [True]


def test_a_changed_view_of_a_function_is_refused_where_it_was_saved(lib):
    class First(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.view(-1)

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.saved_tensors[0].sum()

    x = leaf(lib, 1.0, 2.0)
    y = First.apply(x)
    x.requires_grad_(False)
    with lib.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match="utput"):
        _ = y.is_leaf


def test_results_of_composed_functions_are_no_views(lib):
    x = leaf(lib, 1.0, 2.0)
    stacked, copied = lib.stack([x, x]), lib.stack([x, x]).t().reshape(-1)
    for result in (stacked, copied):
        assert result._base is None
        result.detach_()


def test_a_transposition_in_place_of_a_view_of_a_leaf(lib):
    x = leaf(lib, 1.0, 2.0)
    view = x[None]
    x.requires_grad_(False)
    with pytest.raises((RuntimeError, NotImplementedError), match="view of a leaf Variable"):
        view.t_()


def test_a_part_of_what_shows_an_element_twice(lib):
    x = leaf(lib, 3.0, 4.0)
    (x.expand(2, 2).as_strided((2,), (1,)) * x.detach()).sum().backward()
    assert x.grad.tolist() == [3.0, 4.0]


def test_a_copied_handle_is_made_now(lib):
    x = of_inference(lib)
    other = copy.copy(x)
    assert not other.is_inference()
    assert other.data_ptr() == x.data_ptr()


def test_a_copy_of_itself(lib):
    x = lib.ones(1).expand(3)
    x.copy_(x)
    x[0:2] = x[0:2]
    assert x.tolist() == [1.0, 1.0, 1.0]


# ---- func.linearize


def test_linearize_depends_on_the_tangents_alone(lib):
    x, t = leaf(lib, 2.0), leaf(lib, 3.0)
    value, push = lib.func.linearize(lambda x: x**3, x)
    value.sum().backward()
    pushed = push(t)
    assert pushed.tolist() == [36.0]
    (pushed * pushed).sum().backward()
    assert x.grad.tolist() == [12.0]
    assert t.grad.tolist() == [864.0]


def test_linearize_of_structures(lib):
    x, y = leaf(lib, 2.0).detach(), leaf(lib, 3.0).detach()
    value, push = lib.func.linearize(lambda d: {"a": d["p"] * d["q"], "b": d["p"].sum()}, {"p": x, "q": y})
    pushed = push({"p": lib.ones_like(x), "q": lib.ones_like(x)})
    assert value["a"].tolist() == [6.0]
    assert pushed["a"].tolist() == [5.0]
    assert pushed["b"].tolist() == 1.0


def test_hooks_that_hooks_remove_are_called_this_time(lib):
    x = leaf(lib, 1.0, 2.0)
    y = x * 2
    seen, handles = [], []

    def registered(register, name, give=lambda *given: None):
        def hook(*given):
            seen.append(name)
            for handle in handles:
                handle.remove()
            return give(*given)

        handles.append(register(hook))

    for i in range(2):
        registered(y.register_hook, f"tensor {i}", lambda g: g * 3)
        registered(y.grad_fn.register_prehook, f"pre {i}")
        registered(y.grad_fn.register_hook, f"post {i}")
        registered(x.register_hook, f"leaf {i}")
        registered(x.register_post_accumulate_grad_hook, f"accumulated {i}")
    first = y.grad_fn
    y.sum().backward(retain_graph=True)
    # The first that is called has removed all; those of its kind are called, since the pass had them.
    assert seen == ["tensor 0", "tensor 1"]
    assert first is y.grad_fn
    assert x.grad.tolist() == [18.0, 18.0]
    y.sum().backward()
    assert seen == ["tensor 0", "tensor 1"]


def test_hooks_of_a_detached_tensor_that_are_removed(lib):
    y = leaf(lib, 1.0, 2.0) * 2
    handles = [y.register_hook(lambda g: g * 3), y.register_hook(lambda g: g * 5)]
    y.detach_()
    handles[0].remove()
    y.requires_grad_()
    y.sum().backward()
    assert y.grad.tolist() == [5.0, 5.0]
    handles[1].remove()
    y.sum().backward()
    assert y.grad.tolist() == [6.0, 6.0]


def test_inputs_by_name(lib):
    x, y = leaf(lib, 1.0, 2.0), leaf(lib, 3.0, 4.0)
    (x * y).sum().backward(inputs={"x": x})
    assert x.grad.tolist() == [3.0, 4.0]
    assert y.grad is None
    (x * y).sum().backward(inputs={0: lib.autograd.graph.get_gradient_edge(y)})
    assert y.grad.tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError):
        (x * y).sum().backward(inputs={x: 1})
    for mapping in (OrderedDict(x=x), MappingProxyType({"x": x})):
        with pytest.raises(TypeError, match=r"to `backward\(\)` must be a dict, not"):
            (x * y).sum().backward(inputs=mapping)
        with pytest.raises(TypeError, match=r"to `grad\(\)` must be a dict, not"):
            lib.autograd.grad((x * y).sum(), mapping)
    for call in (lambda: (x * y).sum().backward(inputs={}), lambda: lib.autograd.grad(x.sum(), {})):
        with pytest.raises(RuntimeError, match="cannot be empty"):
            call()


def test_a_hook_of_several_counts_the_places_of_its_registration(lib):
    """A tensor that is detached in place since, and made a leaf, is at another."""
    seen = []
    x = leaf(lib, 1.0, 2.0)
    y = x * 2
    lib.autograd.graph.register_multi_grad_hook([y], seen.append)
    earlier = y * 3
    y.detach_().requires_grad_()
    (y * 5).sum().backward()
    assert not seen
    earlier.sum().backward()
    assert [[g.tolist() for g in gradients] for gradients in seen] == [[[3.0, 3.0]]]
    y = x * 2
    lib.autograd.graph.register_multi_grad_hook([y, x], seen.append)
    z = y * 3
    y.detach_().requires_grad_()
    (z.sum() + y.sum()).backward()
    assert (seen[1][0].tolist(), seen[1][1]) == ([3.0, 3.0], None)
