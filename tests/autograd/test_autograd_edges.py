"""Autograd's edges: views and writes in place through Functions and modes, versions, `.data`, copies, checkpoints.

Each test runs here and, where it is installed, in PyTorch, which must have the values that are stored.
"""

import copy
import gc
import importlib
import pickle

import numpy as np
import pytest

import minitensor

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(params=["minitensor", "torch"])
def lib(request):
    module = minitensor if request.param == "minitensor" else pytest.importorskip("torch")
    importlib.import_module(f"{module.__name__}.utils.checkpoint")
    return module


def leaf(lib, *values):
    return lib.tensor(values, dtype=lib.float64, requires_grad=True)


def double(lib, returned, dirty=False):
    """A Function of x whose results are made by `returned`; its gradient is ten times each one's, plus its place."""

    class Double(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            results = returned(x)
            if dirty:
                ctx.mark_dirty(x)
            return results

        @staticmethod
        def backward(ctx, *gradients):
            seen.append([g.tolist() for g in gradients])
            return sum(g.sum() * (i + 1) for i, g in enumerate(gradients)).expand(2) * 1.0

    seen = []
    Double.seen = seen
    return Double


# ---- results of Functions


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


def test_a_view_made_under_no_grad(lib):
    x, base = leaf(lib, 3.0, 3.0), lib.ones(2, dtype=lib.float64)
    with lib.no_grad():
        view = base[:1]
    assert view._base is base
    with pytest.raises(RuntimeError, match="no_grad"):
        view.mul_(x[:1])
    base.mul_(x)
    with pytest.raises(RuntimeError, match="no_grad"):
        (view * 1).sum()
    with lib.no_grad():
        view.mul_(2)  # in the same mode it's no question
    base.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_a_view_of_a_leaf_made_under_no_grad(lib):
    x = leaf(lib, 1.0, 2.0)
    with lib.no_grad():
        view = x[:1]
    assert view.requires_grad
    assert view.is_leaf
    assert view.grad_fn is None
    view.register_hook(lambda g: None)  # that nothing calls
    assert lib.autograd.grad((x * view).sum(), [x, view], allow_unused=True)[1] is None


def test_a_view_outlives_the_wish_for_gradients_of_its_base(lib):
    x = leaf(lib, 1.0, 2.0)
    view = x[:1]
    x.requires_grad = False
    assert view.requires_grad
    with pytest.raises(RuntimeError, match="view of a leaf"):
        view.mul_(2)


# ---- versions and .data


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


# ---- copies


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


# ---- checkpoints


def test_a_changed_argument_of_a_checkpoint_is_an_error(lib):
    x = leaf(lib, 1.0, 2.0)
    y = x * 1
    z = lib.utils.checkpoint.checkpoint(lambda a: a * a, y, use_reentrant=False)
    with lib.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_each_pass_computes_a_checkpoint_anew(lib):
    x, w = leaf(lib, 1.0, 2.0), leaf(lib, 2.0, 2.0)

    def f(a):
        return (a * w * w).sum() + (a * a).sum()

    z = lib.utils.checkpoint.checkpoint(f, x, use_reentrant=False)
    first = lib.autograd.grad(z, x, retain_graph=True)[0].tolist()
    with lib.no_grad():
        w.mul_(2)
    second = lib.autograd.grad(z, x)[0].tolist()
    assert (first, second) == ([6.0, 8.0], [18.0, 20.0])


def test_a_reentrant_checkpoint_refuses_grad(lib):
    x = leaf(lib, 1.0, 2.0)
    z = lib.utils.checkpoint.checkpoint(lambda a: a * a, x, use_reentrant=True)
    with pytest.raises(RuntimeError, match="use_reentrant"):
        lib.autograd.grad(z.sum(), x)


# ---- NumPy


@pytest.mark.parametrize("op", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "iadd", "imul"])
def test_a_tensor_and_an_array_make_a_tensor(lib, op):
    import operator

    array = np.array([1.0, 2.0])
    made = getattr(operator, op)(lib.tensor([3.0, 5.0]), array)
    expected = getattr(operator, op)(np.array([3.0, 5.0], np.float32), array.copy()) if op[0] != "i" else None
    assert isinstance(made, lib.Tensor)
    assert made.dtype is lib.float64
    if expected is not None:
        assert made.tolist() == expected.tolist()


def test_a_tensor_that_requires_grad_and_an_array(lib):
    with pytest.raises(RuntimeError, match="numpy"):
        leaf(lib, 1.0, 2.0) * np.ones(2)


def test_comparing_a_tensor_with_an_array_makes_a_tensor(lib):
    made = lib.tensor([1.0, 2.0]) == np.array([1.0, 3.0])
    assert isinstance(made, lib.Tensor)
    assert made.dtype is lib.bool
    assert made.tolist() == [True, False]


def test_functions_of_numpy_make_tensors(lib):
    made = np.exp(lib.zeros(2))
    assert isinstance(made, lib.Tensor)
    assert made.tolist() == [1.0, 1.0]


def test_a_number_of_numpy_is_a_number(lib):
    for number in (np.float64(2), np.float32(2)):
        for made in (lib.tensor([1.0, 2.0]) * number, number * lib.tensor([1.0, 2.0])):
            assert isinstance(made, lib.Tensor)
            assert made.dtype is lib.float32


# ---- vmap


def test_what_escapes_vmap_is_refused():
    escaped = []

    def keep(x):
        escaped.append(x * 2)
        return x

    minitensor.vmap(keep)(minitensor.ones(3, 2))
    for use in (lambda t: t + 1, lambda t: t[0], lambda t: t.add_(1), lambda t: t.sum().backward()):
        with pytest.raises(RuntimeError, match="vmap"):
            use(escaped[0])


def test_nothing_of_vmap_gets_into_other_tensors():
    w = minitensor.ones(2, requires_grad=True)

    def set_data(x):
        w.data = x
        return x

    with pytest.raises(RuntimeError, match="vmap"):
        minitensor.vmap(set_data)(minitensor.ones(3, 2))
    with pytest.raises(RuntimeError, match=r"backward\(\) called inside"):
        minitensor.vmap(lambda x: (x * w).sum().backward())(minitensor.ones(3, 2))
    assert w.grad is None
    assert w.tolist() == [1.0, 1.0]


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


def test_whole_numbers_have_no_gradient(lib):
    for transform in (lib.func.grad, lib.func.jacrev):
        with pytest.raises(RuntimeError, match="floating point"):
            transform(lambda x: x.sum())(lib.ones(2, dtype=lib.int64))


def test_a_checkpoint_may_change_its_shapes(lib):
    def gradient(**more):
        runs = []

        def f(x):
            runs.append(x)
            return (x * x * (1 if len(runs) == 1 else lib.ones(3, 1, dtype=lib.float64))).exp().sum()

        x = leaf(lib, 0.0, 0.0)
        lib.utils.checkpoint.checkpoint(f, x, use_reentrant=False, **more).backward()
        return x.grad.tolist()

    with pytest.raises(RuntimeError, match="different metadata"):
        gradient()
    assert gradient(determinism_check="none") == [0.0, 0.0]
    if lib is minitensor:
        with pytest.raises(ValueError, match="determinism_check"):
            gradient(determinism_check="some")


# ---- inference mode, and gradients at the edges of numbers


def test_enable_grad_records_nothing_in_inference_mode(lib):
    x = leaf(lib, 1.0, 2.0)
    with lib.inference_mode(), lib.enable_grad():
        y = x * 2
        assert (y.requires_grad, y.is_inference(), x[:1].requires_grad) == (False, True, True)
        z = lib.ones(2, dtype=lib.float64)
        z.mul_(x)
        x.add_(1)
        assert (z.requires_grad, x.requires_grad, x.tolist()) == (False, True, [2.0, 3.0])
        with lib.inference_mode(False):
            assert (x * 2).requires_grad


INF, NAN = float("inf"), float("nan")
EDGES = {
    "0 ** x": (lambda lib, x: 0**x, [0.0, -INF, NAN, 0.0, 0.0]),
    "huber_loss": (lambda lib, x: lib.nn.functional.huber_loss(x, x * 0, reduction="none"), [0.0, -1.0, NAN, NAN, 1.0]),
    "huber_loss of infinity": (
        lambda lib, x: lib.nn.functional.huber_loss(x, lib.zeros(5, dtype=lib.float64), reduction="none"),
        [0.0, -1.0, NAN, 1.0, 1.0],
    ),
    "logaddexp": (
        lambda lib, x: lib.logaddexp(x, lib.full((5,), -INF, dtype=lib.float64)), [1.0, 1.0, NAN, 1.0, 1.0],
    ),
    "amax": (lambda lib, x: x.amax(0), [NAN] * 5),
    "amin of rows": (lambda lib, x: x.reshape(5, 1).expand(5, 2).amin(1), [1.0, 1.0, NAN, 1.0, 1.0]),
    "max": (lambda lib, x: x.max(), [0.0, 0.0, 1.0, 0.0, 0.0]),
    "relu": (lambda lib, x: x.relu(), [0.0, 0.0, 1.0, 1.0, 1.0]),
    "digamma": (lambda lib, x: lib.digamma(x[2:4]), [0.0, 0.0, NAN, 0.0, 0.0]),
    "atan2 of y": (lambda lib, x: lib.atan2(x, lib.zeros(5, dtype=lib.float64)), [0.0, 0.0, NAN, 0.0, 0.0]),
    "atan2 of x": (lambda lib, x: lib.atan2(lib.zeros(5, dtype=lib.float64), x), [0.0, -0.0, NAN, -0.0, -0.0]),
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_gradients_at_zero_and_infinity(lib, name):
    function, expected = EDGES[name]
    x = leaf(lib, 0.0, -1.0, NAN, INF, 3.0)
    function(lib, x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), expected)


def view_without_history(lib):
    """A view that a Function gave, and whose base was written since: what looks at its history is refused."""

    class Flat(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view(-1)

        @staticmethod
        def backward(ctx, g):
            return g

    base = leaf(lib, 1.0, 2.0) * 2
    view = Flat.apply(base)
    base.mul_(3)
    return view


def test_a_view_whose_history_is_refused_may_be_held(lib):
    view = view_without_history(lib)
    with pytest.raises(RuntimeError, match="is a view and its base or another view of it"):
        _ = view.grad_fn
    assert lib.utils.checkpoint.checkpoint(lambda x: x, view, use_reentrant=False) is view
    assert "grad_fn=<Invalid>" in repr(view)
    assert view.requires_grad
    assert view.tolist() == [6.0, 12.0]


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


def test_post_accumulate_hooks_of_a_leaf_that_only_the_graph_holds(lib):
    seen, kept = [], []

    def made(returned):
        x = leaf(lib, 1, 2)
        x.register_post_accumulate_grad_hook(lambda t: seen.append((t.grad.tolist(), t.is_leaf)))
        x.register_post_accumulate_grad_hook(lambda t: kept.append(t))
        return returned(x)

    y, z = made(lambda x: ((x * 3).sum(), (x * x).sum()))
    gc.collect()
    y.backward()
    z.backward()
    assert seen == [([3, 3], True), ([5, 7], True)]
    assert kept[0] is kept[1]
    (kept[0] * 2).sum().backward()
    assert seen[2:] == [([7, 9], True)]
    kept.clear()
    product = made(lambda x: x.exp() * x)
    product.sum().backward()
    assert len(kept) == 1
    assert kept[0].grad.shape == (2,)


def test_a_leaf_that_only_the_graph_holds_keeps_its_object(lib):
    class Named(lib.Tensor):
        pass

    seen = []
    x = lib.ones(2).as_subclass(Named).requires_grad_()
    x.name_of_it = "x"
    x.register_post_accumulate_grad_hook(lambda t: seen.append((type(t), t.name_of_it)))
    y = (x * 2).as_subclass(lib.Tensor).sum()
    del x
    y.backward()
    assert seen == [(Named, "x")]


@pytest.mark.parametrize("retained", [False, True])
def test_what_is_on_the_way_to_another_input_is_taken_before_its_hooks(lib, retained):
    def run(inputs):
        x = leaf(lib, 1, 2)
        y = x * 2
        if retained:
            y.retain_grad()
        y.register_hook(lambda g: g * 10)
        grads = lib.autograd.grad((y * y).sum(), [{"x": x, "y": y}[name] for name in inputs])
        return [g.tolist() for g in grads], y.grad.tolist() if retained else None

    hooked = [40, 80] if retained else None
    assert run("yx") == ([[4, 8], [80, 160]], hooked)
    assert run("y") == ([[40, 80]], hooked)
    assert run("x") == ([[80, 160]], hooked)


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


def test_results_beside_indices_may_be_written(lib):
    for select in (
        lambda x: lib.sort(x),
        lambda x: lib.topk(x, 2),
        lambda x: lib.kthvalue(x, 1),
        lambda x: lib.mode(x),
        lambda x: lib.median(x, 0),
        lambda x: lib.nanmedian(x, 0),
        lambda x: lib.max(x, 0),
        lambda x: lib.min(x, 0),
        lambda x: lib.cummax(x, 0),
        lambda x: lib.cummin(x, 0),
    ):
        x = leaf(lib, 3, 1, 2)
        values, indices = select(x)
        before = lib.zeros(3, dtype=lib.float64).index_add(0, indices.reshape(-1), lib.ones_like(values.reshape(-1)))
        values.mul_(2)
        values.sum().backward()
        assert x.grad.tolist() == (2 * before).tolist()
        values, indices = select(x)
        indices.add_(0)
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            values.sum().backward()


FRESH = {
    "repeat": lambda lib, x: x.repeat(2),
    "tile": lambda lib, x: lib.tile(x, (2,)),
    "rot90": lambda lib, x: lib.rot90(x[None], 1),
    "kron": lambda lib, x: lib.kron(x, x),
    "einsum": lambda lib, x: lib.einsum("i,j->ij", x, x),
    "cdist": lambda lib, x: lib.cdist(x[None], x[None] + 1),
    "quantile": lambda lib, x: lib.quantile(x, 0.5),
    "layer_norm": lambda lib, x: lib.nn.functional.layer_norm(x, (2,)),
    "pixel_shuffle": lambda lib, x: lib.nn.functional.pixel_shuffle(x.repeat(2).reshape(4, 1, 1), 2),
    "pixel_unshuffle": lambda lib, x: lib.nn.functional.pixel_unshuffle(x.repeat(2).reshape(1, 2, 2), 2),
}


@pytest.mark.parametrize("name", FRESH)
def test_what_is_made_anew_is_no_view(lib, name):
    x = leaf(lib, 1, 2)
    y = FRESH[name](lib, x * 1)
    assert y._base is None
    first = lib.autograd.grad(FRESH[name](lib, x * 1).sum(), x)[0]
    if name == "cdist":  # its formula reads the result
        y.sum().backward()
        assert x.grad.tolist() == first.tolist()
    else:
        y.mul_(2)
        y.sum().backward()
        assert np.allclose(x.grad.tolist(), (first * 2).tolist())
    z = FRESH[name](lib, x * 1)
    assert z.detach_().grad_fn is None


def test_grad_takes_what_pytorch_does(lib):
    x, y = lib.tensor([2.0], requires_grad=True), lib.tensor([3.0], requires_grad=True)
    found = lib.autograd.grad(x * y, {"x": x, "y": y})
    assert {name: g.tolist() for name, g in found.items()} == {"x": [3.0], "y": [2.0]}
    assert lib.autograd.grad(x * y, x, None, False, False, True)[0].tolist() == [3.0]
    with pytest.warns(FutureWarning, match="only_inputs argument is deprecated"):
        assert lib.autograd.grad(x * y, y, only_inputs=False)[0].tolist() == [2.0]
    with pytest.raises(RuntimeError, match="cannot be empty"):
        lib.autograd.grad(x * y, {})


@pytest.mark.parametrize("recorded", [False, True])
def test_seeds_are_cast_in_the_callers_mode(lib, recorded):
    x = leaf(lib, 2, 3)
    seed = lib.tensor([1.0, 4.0], requires_grad=True)  # of another dtype than x
    with lib.set_grad_enabled(recorded):
        x.backward(seed, create_graph=True)
        (found,) = lib.autograd.grad(x, x, seed)
    assert (x.grad.dtype, x.grad.tolist(), found.tolist()) == (lib.float64, [1, 4], [1, 4])
    assert (x.grad.requires_grad, found.requires_grad) == (recorded, recorded)
    if recorded:
        (x.grad + found).sum().backward()
        assert seed.grad.tolist() == [2, 2]


@pytest.mark.parametrize("key", [0, slice(1), None, (Ellipsis, 0)])
def test_an_assigned_number_is_an_operand(lib, key):
    x = leaf(lib, 1, 2)
    y = x * 1
    y[0].fill_(2)
    assert len(y.grad_fn.next_functions) == 1
    with lib.no_grad():
        y[0] = 3
    assert len(y.grad_fn.next_functions) == 1
    y[key] = 5
    product, number = y.grad_fn.next_functions
    assert (type(product[0]).__name__, number) == ("CopySlices", (None, 0))
    seen = []
    y.grad_fn.register_hook(lambda after, before: seen.append([g if g is None else g.tolist() for g in after]))
    y.sum().backward()
    expected = [0, 0] if key is None else [0, 1]
    assert (seen, x.grad.tolist()) == ([[expected, None]], expected)


@pytest.mark.parametrize("checkpointed", [False, True])
def test_what_a_gradient_needs_may_not_lose_its_history(lib, checkpointed):
    """Second derivatives would miss the part that went through it."""
    x = leaf(lib, 3.0)
    y = x * 1

    def cube(y):
        return y * y * y

    z = lib.utils.checkpoint.checkpoint(cube, y, use_reentrant=False) if checkpointed else cube(y)
    y.detach_()
    with pytest.raises(RuntimeError, match="has been detached in-place"):
        z.backward(create_graph=True)


@pytest.mark.at_once(reason="counts the calls of a program, which a recording around it leaves out")
def test_a_compiled_function_keeps_what_had_history():
    @minitensor.function(jit_compile=True)
    def f(x):
        y = x * 2
        return y, y * y

    for k in range(3):
        x = leaf(minitensor, 3.0 + k)
        _, z = f(x * 1 if k == 1 else x)
        (g,) = minitensor.autograd.grad(z, x, create_graph=True)
        assert minitensor.autograd.grad(g, x)[0].item() == 8
        y, z = f(x)
        y.detach_()
        with pytest.raises(RuntimeError, match="has been detached in-place"):
            z.backward()
    assert f.hits >= 2
