"""Functions of the user's: what they return, mark as dirty and save, and the arguments that they get.

Each test runs here and, where it is installed, in PyTorch.
"""

import gc
import weakref

import pytest
from leaves import double, leaf, scaled

pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_result_that_is_returned_twice(lib):
    x = leaf(lib, 1.0, 2.0)

    def twice(x):
        y = x * 2
        return y, y

    f = double(lib, twice)
    a, b = f.apply(x)
    assert a is b
    (a * 3 + b).sum().backward()
    assert f.seen == [[[0.0, 0.0], [4.0, 4.0]]]
    assert x.grad.tolist() == [16.0, 16.0]


def test_an_input_that_is_returned_twice(lib):
    x = leaf(lib, 1.0, 2.0)
    f = double(lib, lambda x: (x, x))
    a, b = f.apply(x)
    assert a is not x
    assert a is not b
    (a * 3 + b).sum().backward()
    assert f.seen == [[[3.0, 3.0], [1.0, 1.0]]]


def test_a_dirty_result_that_is_returned_twice(lib):
    x = leaf(lib, 1.0, 2.0)
    y = x * 1

    def twice(y):
        y.mul_(2)
        return y, y

    f = double(lib, twice, dirty=True)
    a, b = f.apply(y)
    assert a is y
    assert b is y
    y.sum().backward()
    assert f.seen == [[[0.0, 0.0], [1.0, 1.0]]]
    assert x.grad.tolist() == [4.0, 4.0]


def test_results_without_gradients_keep_their_places(lib):
    x = leaf(lib, 1.0, 2.0)
    f = double(lib, lambda x: (x > 1, x * 2, x * 3))
    mask, _, b = f.apply(x)
    assert not mask.requires_grad
    b.sum().backward()
    assert f.seen[0][1:] == [[0.0, 0.0], [1.0, 1.0]]
    assert x.grad.tolist() == [6.0, 6.0]


@pytest.mark.parametrize("returned", [lambda x: x, lambda x: x.view(2), lambda x: x[:2]])
def test_a_write_to_a_view_from_a_function_is_refused(lib, returned):
    x = leaf(lib, 1.0, 2.0)
    y = x * 1
    out = double(lib, returned).apply(y)
    with pytest.raises(RuntimeError, match="view"):
        out.mul_(5)
    assert y.tolist() == [1.0, 2.0]
    again = double(lib, returned).apply(y)
    y.mul_(3)
    with pytest.raises(RuntimeError, match="view"):
        (again * 2).sum()


def test_a_write_to_a_users_tensor_through_a_function_is_refused(lib):
    x, mine = leaf(lib, 1.0, 2.0), lib.tensor([5.0, 6.0], dtype=lib.float64)
    f = double(lib, lambda a: a)
    out = f.apply(mine)
    with pytest.raises(RuntimeError):
        out.mul_(x)
    assert mine.tolist() == [5.0, 6.0]


def test_a_dirty_base_brings_its_history_to_older_views(lib):
    x = leaf(lib, 1.0, 2.0)
    y = x * 1
    view = y[:1]

    def write(y):
        y.mul_(2)
        return y

    f = double(lib, write, dirty=True)
    f.apply(y)
    (view * 7).sum().backward()
    assert f.seen == [[[7.0, 0.0]]]
    assert x.grad.tolist() == [7.0, 7.0]


def test_a_dirty_view_brings_its_history_to_its_base(lib):
    x = leaf(lib, 1.0, 2.0, 3.0)
    y = x * 1
    view = y[1:]

    def write(y):
        y.mul_(2)
        return y

    f = double(lib, write, dirty=True)
    assert f.apply(view) is view
    (y * lib.tensor([1.0, 10.0, 100.0], dtype=lib.float64)).sum().backward()
    assert f.seen == [[[10.0, 100.0]]]
    assert x.grad.tolist() == [1.0, 110.0, 110.0]


def test_a_dirty_leaf_is_refused(lib):
    x = leaf(lib, 1.0, 2.0)
    with pytest.raises(RuntimeError, match="leaf"):
        double(lib, lambda x: x, dirty=True).apply(x)


# ---- Functions' arguments


def test_setup_context_and_backward_see_defaults(lib):
    seen = []

    class Scale(lib.autograd.Function):
        @staticmethod
        def forward(x, k=2):
            return x * k

        @staticmethod
        def setup_context(ctx, inputs, output):
            seen.append(inputs[1:])
            ctx.k = inputs[1]

        @staticmethod
        def backward(ctx, g):
            return g * ctx.k, None

    for make in (lambda x: Scale.apply(x), lambda x: Scale.apply(x, k=2), lambda x: Scale.apply(k=2, x=x)):
        x = leaf(lib, 1.0)
        make(x).sum().backward()
        assert x.grad.tolist() == [2.0]
    assert seen == [(2,)] * 3
    with pytest.raises(TypeError):
        Scale.apply(leaf(lib, 1.0), wrong=1)


def test_a_gradient_of_no_tensor_is_refused(lib):
    class Wrong(lib.autograd.Function):
        @staticmethod
        def forward(ctx, k, x):
            return x * k

        @staticmethod
        def backward(ctx, g):
            return g, g

    x = leaf(lib, 1.0)
    with pytest.raises(RuntimeError, match="gradient different than None at position 1, but the corresponding forward"):
        Wrong.apply(2, x).sum().backward()
    assert x.grad is None


def test_a_function_may_save_a_view_whose_history_is_refused(lib):
    class Both(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            view, same = x.view(-1), x.mul_(2)
            ctx.mark_non_differentiable(view)
            ctx.save_for_backward(view)
            return view, same

        @staticmethod
        def backward(ctx, g, h):
            ctx.saved_tensors  # noqa: B018  (asking for them is what is refused)
            return h

    view, same = Both.apply(leaf(lib, 1.0, 2.0))
    assert (view.tolist(), same.tolist()) == ([2.0, 4.0], [2.0, 4.0])
    with pytest.raises(RuntimeError, match=r"is a view|A view was created"):
        same.sum().backward()


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


@pytest.mark.parametrize("split", [False, True])
def test_a_function_without_backward_is_refused_by_the_backward_pass(lib, split):
    class OneWay(lib.autograd.Function):
        if split:

            @staticmethod
            def forward(x):
                return x * 2

            @staticmethod
            def setup_context(ctx, inputs, output):
                pass
        else:

            @staticmethod
            def forward(ctx, x):
                return x * 2

    x = leaf(lib, 1.0, 2.0)
    y = OneWay.apply(x)
    assert y.tolist() == [2.0, 4.0]
    assert y.requires_grad
    with pytest.raises(NotImplementedError, match="either the backward or vjp"):
        (y + x).sum().backward()
    assert OneWay.apply(x.detach()).requires_grad is False


@pytest.mark.parametrize(
    ("gradients", "said"),
    [
        (3.0, "expected 2, got 1"), ((None,), "expected 2, got 1"), ((None, None, 1), "expected 2, got 3"),
        ((None, "text"), r"expected Variable or None \(got str\)"),
        ((2, None), r"expected Variable or None \(got int\)"),
    ],
)  # fmt: skip
def test_gradients_that_are_none(lib, gradients, said):
    """The class of the error, and what it says of it, are PyTorch's."""

    class Wrong(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, grad):
            return gradients

    x, y = leaf(lib, 1.0, 2.0), leaf(lib, 3.0, 4.0)
    z = Wrong.apply(x, y).sum()
    with pytest.raises(RuntimeError, match=said):
        z.backward()
    assert x.grad is None
    assert y.grad is None


def test_a_function_with_two_rules_for_vmap_is_refused(lib):
    class Both(lib.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

        @staticmethod
        def vmap(info, in_dims, x):
            return x * 3, in_dims[0]

    with pytest.raises(RuntimeError, match="ambiguity"):
        lib.func.vmap(Both.apply)(lib.ones(2, 3))


def test_nothing_saved_is_freed_too(lib):
    y = scaled(lib).apply(leaf(lib, 1.0, 2.0))
    assert y.grad_fn.saved_tensors == ()
    y.sum().backward()
    with pytest.raises(RuntimeError, match="already been freed"):
        _ = y.grad_fn.saved_tensors


def test_what_is_set_on_the_node_is_the_contexts(lib):
    class Scaled(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.factor = 2
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor

    x = leaf(lib, 1.0, 2.0)
    y = Scaled.apply(x)
    y.grad_fn.factor = 7
    assert y.grad_fn.factor == 7
    y.sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]
    del y.grad_fn.factor
    assert not hasattr(y.grad_fn, "factor")
    with pytest.raises(AttributeError):
        y.grad_fn.next_functions = ()
    with pytest.raises(AttributeError):
        (x * 2).grad_fn.factor = 3


def test_both_backward_and_vjp_are_refused(lib):
    class Both(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

        @staticmethod
        def vjp(ctx, g):
            return g * 3

    x = leaf(lib, 1.0, 2.0)
    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        Both.apply(x).sum().backward()
    assert x.grad is None


def test_backward_may_be_a_method_of_the_class(lib):
    class Double(lib.autograd.Function):
        factor = 5

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @classmethod
        def backward(cls, ctx, gradient):
            return gradient * cls.factor

    x = leaf(lib, 1.0, 2.0)
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]


def test_a_saved_result_is_the_asked_nodes(lib):
    """Also where another node's backward asks, or a hook, or nobody's."""

    class Square(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            result = x * x
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    class Other(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def backward(ctx, gradient):
            return gradient * y.grad_fn.saved_tensors[0]

    x, w = leaf(lib, 1.0, 2.0), leaf(lib, 5.0, 6.0)
    y = Square.apply(x)
    asked = []
    y.grad_fn.register_prehook(lambda _: asked.append(y.grad_fn.saved_tensors[0].grad_fn is y.grad_fn))
    (gradient,) = lib.autograd.grad(Other.apply(w).sum(), w, create_graph=True)
    assert gradient.tolist() == [1.0, 4.0]
    found = lib.autograd.grad(gradient.sum(), [x, w], allow_unused=True)
    assert (found[0].tolist(), found[1]) == ([2.0, 2.0], None)
    y = Square.apply(x)
    assert y.grad_fn.saved_tensors[0].grad_fn is y.grad_fn
    assert asked == [True]
    with lib.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t * 1):
        y = Square.apply(x)
    assert y.grad_fn.saved_tensors[0].grad_fn is y.grad_fn


@pytest.mark.parametrize("value", ["a", 1, None, []])
def test_gradients_are_materialized_or_not(lib, value):
    class Double(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(value)
            return x * 2

    with pytest.raises(TypeError):
        Double.apply(leaf(lib, 1.0))


@pytest.mark.parametrize("split", [False, True])
def test_arguments_by_name_have_gradients(lib, split):
    seen = []

    class Product(lib.autograd.Function):
        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.needs_input_grad)
            return (g * ctx.k, g * ctx.x, None)[: len(ctx.needs_input_grad)]

    def setup_context(ctx, inputs, output=None):
        ctx.x, ctx.k = inputs[:2]

    def forward(ctx, x, k=2.0, power=1):
        setup_context(ctx, (x, k))
        return (x * k) ** power

    if split:
        Product.forward = staticmethod(lambda x, k=2.0, power=1: (x * k) ** power)
        Product.setup_context = staticmethod(setup_context)
    else:
        Product.forward = staticmethod(forward)
    x, k = lib.tensor([3.0, 4.0]), lib.tensor([5.0, 6.0], requires_grad=True)
    Product.apply(x, k=k).sum().backward()
    assert k.grad.tolist() == [3.0, 4.0]
    assert seen[0][:2] == (False, True)
    k.grad = None
    Product.apply(power=1, k=k, x=x).sum().backward()
    assert k.grad.tolist() == [3.0, 4.0]
    assert seen[1] == (False, True, False)
    for wrong in ({"other": k}, {"k": k, "power": 1, "x": x}):
        with pytest.raises(TypeError):
            Product.apply(x, **wrong)


def test_arguments_without_a_position_are_refused(lib):
    x = lib.ones(2, requires_grad=True)
    for forward in (lambda ctx, x, *, k: x * k, lambda ctx, x, **named: x * named["k"], lambda ctx, x, j=1, k=2: x):
        cls = type("Named", (lib.autograd.Function,), {"forward": staticmethod(forward)})
        with pytest.raises(TypeError, match="argument"):
            cls.apply(x, k=x)
