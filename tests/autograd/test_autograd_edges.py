"""Autograd's edges: views without history, checkpoints, arrays beside tensors, vmap, gradients at zero and infinity.

Each test runs here and, where it is installed, in PyTorch, which must have the values that are stored.
"""

import gc

import numpy as np
import pytest
from leaves import leaf

import minitensor

pytestmark = pytest.mark.filterwarnings("ignore")


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


REFUSED = {
    "no inputs": (RuntimeError, lambda lib, x, y: lib.autograd.grad(y, ())),
    "inputs that are None": (TypeError, lambda lib, x, y: lib.autograd.grad(y, None)),
    "an input that is a number": (RuntimeError, lambda lib, x, y: lib.autograd.grad(y, [5])),
    "inputs that are a text": (RuntimeError, lambda lib, x, y: lib.autograd.grad(y, "x")),
    "an input that is None": (RuntimeError, lambda lib, x, y: y.backward(inputs=[None])),
    "no roots": (TypeError, lambda lib, x, y: lib.autograd.backward(None)),
    "roots that are None": (TypeError, lambda lib, x, y: lib.autograd.grad(None, x)),
    "a flag that is a number": (RuntimeError, lambda lib, x, y: setattr(x, "requires_grad", 5)),
    "a flag that is deleted": (RuntimeError, lambda lib, x, y: delattr(x, "requires_grad")),
    "a flag that is a text": (TypeError, lambda lib, x, y: x.requires_grad_("x")),
    "a flag that is None": (TypeError, lambda lib, x, y: x.requires_grad_(None)),
    "data that is deleted": (RuntimeError, lambda lib, x, y: delattr(x, "data")),
    "a mode that is a number": (TypeError, lambda lib, x, y: lib.set_grad_enabled(0)),
    "a mode that is a text": (TypeError, lambda lib, x, y: lib.set_grad_enabled("x")),
    "hooks that are numbers": (TypeError, lambda lib, x, y: lib.autograd.graph.saved_tensors_hooks(5, 5).__enter__()),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_tensor_flag_or_function_is_refused(lib, name):
    error, call = REFUSED[name]
    x = lib.tensor([2.0], requires_grad=True)
    with pytest.raises(error) as caught:
        call(lib, x, x * x)
    assert caught.type is error
    assert x.requires_grad
    assert lib.is_grad_enabled()
    (x * x).sum().backward()
    assert x.grad.tolist() == [4.0]


def test_a_tensor_of_the_shape_is_not_broadcast(lib):
    x, y = lib.ones(3), lib.ones(2, 3)
    a, b = lib.broadcast_tensors(x, y)
    assert b is y
    assert a.shape == (2, 3)
    assert x.broadcast_to(2, 3).tolist() == x.broadcast_to((2, 3)).tolist() == y.tolist()


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
