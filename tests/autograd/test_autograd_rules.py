"""Autograd's rules: which gradients a pass computes and stores, what hooks are given, tensors of inference mode, leaves
that are views.

Each test runs here and, where it is installed, in PyTorch.
"""

import copy
import gc
import importlib
import weakref

import pytest

import minitensor

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(params=["minitensor", "torch"])
def lib(request):
    module = minitensor if request.param == "minitensor" else pytest.importorskip("torch")
    importlib.import_module(f"{module.__name__}.func")
    importlib.import_module(f"{module.__name__}.utils.checkpoint")
    return module


def leaf(lib, *values):
    return lib.tensor(values, dtype=lib.float64, requires_grad=True)


def scaled(lib, factor=3, **marks):
    """A Function of x whose forward and backward are given, with the marks that its context gets."""

    class Scaled(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            for mark, value in marks.items():
                getattr(ctx, mark)(value)
            return x * factor

        @staticmethod
        def backward(ctx, gradient):
            return gradient * factor

    return Scaled


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


# ---- inference mode


def of_inference(lib):
    with lib.inference_mode():
        return lib.ones(2, 2)


WRITES = {
    "op": lambda lib, x: x.mul_(2),
    "copy": lambda lib, x: x.copy_(lib.ones(2, 2)),
    "item": lambda lib, x: x.__setitem__(0, 3.0),
    "mask": lambda lib, x: x.__setitem__(x > 0, 3.0),
    "view": lambda lib, x: x.view(-1).mul_(2),
    "shape": lambda lib, x: x.t_(),
    "out": lambda lib, x: lib.add(lib.ones(2, 2), 1, out=x),
    "out of several": lambda lib, x: lib.cat([lib.ones(1, 2), lib.ones(1, 2)], out=x),
    "resize": lambda lib, x: x.resize_(3, 3),
    "random": lambda lib, x: x.uniform_(),
    "foreach": lambda lib, x: lib._foreach_add_([x], 1),
}


@pytest.mark.parametrize("mode", ["no_grad", "enable_grad"])
@pytest.mark.parametrize("write", WRITES)
def test_tensors_of_inference_mode_are_written_in_it(lib, write, mode):
    x = of_inference(lib)
    with getattr(lib, mode)(), pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        WRITES[write](lib, x)
    with lib.inference_mode():
        WRITES[write](lib, of_inference(lib))


def test_a_refused_write_changes_nothing():
    x = of_inference(minitensor)
    for write in WRITES.values():
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            write(minitensor, x)
    assert x.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_data_of_an_inference_tensor_is_written_anywhere(lib):
    x = of_inference(lib)
    x.data.mul_(2)
    x.detach().mul_(2)
    assert x.tolist() == [[4.0, 4.0], [4.0, 4.0]]
    assert x.data.is_inference()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        x.data.t().squeeze_()


def test_set_data_brings_what_the_data_is(lib):
    x = leaf(lib, 1.0, 2.0)
    with lib.inference_mode():
        x.data = x.data * 2
    assert x.is_inference()
    x.data = x.detach().clone()
    assert not x.is_inference()
    assert (x * 2).requires_grad


def test_a_gradient_of_inference_mode_is_not_added_to(lib):
    x = leaf(lib, 1.0, 2.0)
    with lib.inference_mode():
        x.backward(lib.ones_like(x))
    assert x.grad.is_inference()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        x.sum().backward()
    before = x.grad.tolist()
    with lib.inference_mode():
        x.backward(lib.ones_like(x))
    assert x.grad.tolist() == [before[0] + 1, before[1] + 1]


def test_nothing_is_recorded_of_inference_tensors(lib):
    x = leaf(lib, 1.0, 2.0)
    with lib.inference_mode():
        y = lib.ones(2, dtype=lib.float64, requires_grad=True)
        with lib.enable_grad():
            assert not (x * 2).requires_grad
    assert not y.exp().requires_grad
    assert (y * 2).requires_grad  # the 2 is a tensor too, and not of inference mode
    assert y.detach_().requires_grad


def test_create_graph_in_inference_mode(lib):
    x = leaf(lib, 1.0, 2.0)
    (x * x).sum().backward(create_graph=True)
    with lib.inference_mode():
        x.backward(lib.ones_like(x), create_graph=True)
    assert not x.grad.requires_grad
    assert x.grad.tolist() == [3.0, 5.0]


def test_inference_tensors_are_not_saved(lib):
    class Keeps(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(y)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2, None

    x, y = leaf(lib, 1.0, 2.0), of_inference(lib)[0].double()
    with lib.inference_mode():
        y = lib.ones(2, dtype=lib.float64)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        Keeps.apply(x, y)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        lib.utils.checkpoint.checkpoint(lambda a, b: a + b, x, y, use_reentrant=False)
    with lib.no_grad():
        assert Keeps.apply(x, y).tolist() == [2.0, 4.0]


def test_writes_among_inference_tensors_are_not_recorded(lib):
    x = leaf(lib, 1.0, 2.0)
    with lib.inference_mode():
        x.data = x.detach().clone()
    x += x
    assert x.tolist() == [2.0, 4.0]
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        x += 1


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


# ---- Functions


def test_a_returned_input_is_not_saved_by_setup_context(lib):
    def function(saves, returns, mark=None):
        class Given(lib.autograd.Function):
            @staticmethod
            def forward(x, y):
                return returns(x, y)

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(*saves(*inputs))
                if mark:
                    mark(ctx, output)

            @staticmethod
            def backward(ctx, gradient):
                return gradient, gradient

        return Given

    for x in (leaf(lib, 1.0), leaf(lib, 1.0).detach()):
        with pytest.raises(RuntimeError, match="returned as-is"):
            function(lambda x, y: (x,), lambda x, y: x).apply(x, x * 2)
        function(lambda x, y: (y,), lambda x, y: x).apply(x, x * 2)
    x = leaf(lib, 1.0)
    unmarked = function(lambda x, y: (x,), lambda x, y: x, lambda ctx, out: ctx.mark_non_differentiable(out))
    assert not unmarked.apply(x, x * 2).requires_grad


@pytest.mark.parametrize("mark", ["mark_dirty", "mark_non_differentiable"])
def test_marks_are_of_tensors(lib, mark):
    with pytest.raises(RuntimeError, match=f"{mark} (can )?only accept"):
        scaled(lib, **{mark: 2.0}).apply(leaf(lib, 1.0))


def test_a_dirty_input_drops_its_gradient(lib):
    class Doubles(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    x = leaf(lib, 1.0, 2.0)
    y = x * 1
    y.retain_grad()
    y.sum().backward(retain_graph=True)
    Doubles.apply(y)
    assert y.grad is None
    plain = lib.ones(2)
    assert Doubles.apply(plain) is plain


def test_a_result_without_a_gradient_is_saved_as_it_is(lib):
    class Pair(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            first, second = x * 2, x * 3
            ctx.mark_non_differentiable(first)
            ctx.save_for_backward(first, second)
            return first, second

        @staticmethod
        def backward(ctx, _, gradient):
            first, second = ctx.saved_tensors
            assert not first.requires_grad
            assert second.requires_grad
            return gradient * first

    x = leaf(lib, 1.0, 2.0)
    (g,) = lib.autograd.grad(Pair.apply(x)[1].sum(), x)
    assert g.tolist() == [2.0, 4.0]


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


# ---- what a Function saves


def saving(lib, what, got):
    """A Function of three tensors that saves an argument or a result, its second result without a gradient."""

    class Saving(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, constant, inner):
            result, plain = x * 2, x * 3
            ctx.mark_non_differentiable(plain)
            named = {"leaf": x, "constant": constant, "inner": inner, "plain": plain, "result": result}
            ctx.save_for_backward(named[what])
            ctx.kept = weakref.ref(named[what])
            return result, plain

        @staticmethod
        def backward(ctx, gradient, _):
            (saved,) = ctx.saved_tensors
            got.append(saved)
            got.append(saved is ctx.kept())
            return gradient * saved, None, None

    return Saving


def saved_state(lib, what, unpack=None):
    x, got = leaf(lib, 1.0, 2.0), []
    inner = leaf(lib, 5.0, 6.0) * 1
    given = x, lib.tensor([3.0, 4.0], dtype=lib.float64), inner
    if unpack is None:
        result, plain = saving(lib, what, got).apply(*given)
    else:
        with lib.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), unpack):
            result, plain = saving(lib, what, got).apply(*given)
    assert not plain.requires_grad
    first = lib.autograd.grad(result.sum(), [x], create_graph=True)[0]
    saved, same = got
    second = None
    if first.requires_grad:
        second = [g if g is None else g.tolist() for g in lib.autograd.grad(first.sum(), [x, inner], allow_unused=True)]
    return same, saved.requires_grad, saved.is_leaf, first.tolist(), second


def test_results_without_a_gradient_are_saved_as_they_are(lib):
    assert saved_state(lib, "plain") == (True, False, True, [3.0, 6.0], None)
    x, got = leaf(lib, 1.0, 2.0), []
    result, plain = saving(lib, "plain", got).apply(x, x.detach(), x.detach())
    plain.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


SAVED_BY_HOOKS = {
    "leaf": (False, True, True, [1.0, 2.0], [[1.0, 1.0], None]),
    "constant": (False, False, True, [3.0, 4.0], None),
    "inner": (False, True, False, [5.0, 6.0], [None, [1.0, 1.0]]),
    "plain": (False, False, True, [3.0, 6.0], None),
    "result": (False, True, False, [2.0, 4.0], [[2.0, 4.0], None]),
}


@pytest.mark.parametrize("what", SAVED_BY_HOOKS)
def test_what_hooks_unpack_for_a_function(lib, what):
    made = []

    def unpack(tensor):
        made.append(tensor.clone())
        return made[-1]

    assert saved_state(lib, what, unpack) == SAVED_BY_HOOKS[what]
    wants = SAVED_BY_HOOKS[what][1]
    assert not made[0].requires_grad, "the hook's tensor has no history"
    x, got = leaf(lib, 1.0, 2.0), []
    with lib.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), unpack):
        result, _ = saving(lib, what, got).apply(x, x.detach() + 2, leaf(lib, 1.0, 1.0) * 1)
    result.sum().backward()
    assert (got[0] is made[-1]) == (not wants)


def test_what_hooks_unpack_must_be_a_tensor(lib):
    x = leaf(lib, 1.0, 2.0)
    with lib.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: 3):
        result, _ = saving(lib, "constant", []).apply(x, x.detach(), x.detach())
    with pytest.raises(TypeError, match="unpack_hook expected to be a Tensor but got result of type"):
        result.sum().backward()


def test_an_unpacked_leaf_does_not_take_the_gradient_with_it(lib):
    x, got = leaf(lib, 1.0, 2.0), []
    with lib.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), lambda t: t.clone()):
        result, _ = saving(lib, "leaf", got).apply(x, x.detach(), x.detach())
    result.sum().backward(retain_graph=True)
    got.clear()
    result.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_what_hooks_pack_for_a_function_is_not_held_elsewhere(lib):
    x = leaf(lib, 1.0, 2.0)
    inner = x * 4
    with lib.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), lambda t: lib.tensor(t, dtype=lib.float64)):
        result, _ = saving(lib, "inner", []).apply(x, x.detach(), inner)
    held = weakref.ref(inner)
    del inner
    gc.collect()
    assert held() is None
    result.sum().backward()
    assert x.grad.tolist() == [4.0, 8.0]


def test_only_tensors_and_none_are_saved(lib):
    class Saves(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, other):
            ctx.save_for_backward(x, other)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            assert ctx.saved_tensors[1] is None
            return g * 2, None

    x = lib.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match=r"save_for_backward can only save variables, but argument .*int"):
        Saves.apply(x, 3)
    Saves.apply(x, None).sum().backward()
    assert x.grad.tolist() == [2, 2]
