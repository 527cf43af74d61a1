"""Hooks, gradient modes, custom functions, and what graphs keep alive."""

import gc
import threading

import numpy as np
import pytest

import minitensor as mt
from minitensor.autograd import Function, grad


def leaf(*values, dtype=mt.float64):
    return mt.tensor(values, dtype=dtype, requires_grad=True)


# ---- hooks


def test_hooks():
    x = leaf(1.0, 2.0)
    y = x * 2
    seen = []
    handle = y.register_hook(lambda g: seen.append(g.tolist()))
    y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    (y * 3).sum().backward()
    assert seen == [[3, 3]]
    assert x.grad.tolist() == [61, 61]
    handle.remove()
    handle.remove()
    (x * 1).sum().backward()
    assert len(seen) == 1
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
        mt.ones(1).register_hook(print)


def test_hooks_that_fail():
    x = leaf(1.0)
    x.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        (x * 1).sum().backward()
    y = leaf(1.0)
    y.register_hook(lambda g: "no")
    with pytest.raises(TypeError, match="expected a Tensor or None, but hook '<lambda>' returned 'str'"):
        (y * 1).sum().backward()


def test_retain_grad():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward()
    assert y.grad.tolist() == [4, 8]
    x.retain_grad()


def test_hooks_see_whole_gradients():
    x = leaf(1.0)
    seen = []
    y = x * 2
    y.register_hook(lambda g: seen.append(g.item()))
    (y * 3 + y * 4).sum().backward()
    assert seen == [7]


# ---- modes


def test_modes():
    x = leaf(1.0)
    with mt.no_grad():
        y = x * 2
        assert not y.requires_grad
        assert not mt.is_grad_enabled()
        with mt.enable_grad():
            assert (x * 2).requires_grad
        with mt.set_grad_enabled(True):
            assert (x * 2).requires_grad
        assert not mt.is_grad_enabled()
    assert mt.is_grad_enabled()
    mt.set_grad_enabled(False)
    assert not (x * 2).requires_grad
    mt.set_grad_enabled(True)


def test_modes_as_decorators():
    x = leaf(1.0)
    for mode, expected in (
        (mt.no_grad(), False),
        (mt.no_grad, False),
        (mt.enable_grad(), True),
        (mt.inference_mode(), False),
        (mt.inference_mode, False),
    ):

        @mode
        def f(x):
            "Doc."
            return x * 2

        assert f(x).requires_grad is expected
        assert f(x).is_inference() is (mode is mt.inference_mode or isinstance(mode, mt.inference_mode))
        assert (f.__name__, f.__doc__) == ("f", "Doc.")
    assert mt.is_grad_enabled()
    assert not mt.is_inference_mode_enabled()


def test_modes_survive_exceptions():
    with pytest.raises(KeyError), mt.no_grad():
        raise KeyError
    assert mt.is_grad_enabled()
    x = leaf(1.0)
    x.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        (x * 1).sum().backward()
    assert mt.is_grad_enabled()


def test_modes_belong_to_threads():
    seen = []
    with mt.no_grad():
        thread = threading.Thread(target=lambda: seen.append(mt.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_inference_tensors():
    x = leaf(1.0, 2.0)
    with mt.inference_mode():
        y = x * 2
        z = mt.ones(2, dtype=mt.float64)
        z.add_(1)
        with mt.inference_mode(False):
            assert (x * 2).requires_grad
    assert y.is_inference()
    assert not y.requires_grad
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        x * z
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        z.add_(1)
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor"):
        z.requires_grad_()
    assert (x + z).requires_grad


@pytest.mark.parametrize("name", ["mul_", "div_", "pow_", "atan2_", "xlogy_", "lerp_"])
@pytest.mark.parametrize("part", [False, True], ids=["whole", "view"])
def test_a_write_that_would_save_an_inference_tensor_is_refused_before_it_writes(name, part):
    with mt.inference_mode():
        other, weight = mt.tensor([3.0, 4.0], dtype=mt.float64), mt.tensor([0.5, 2.0], dtype=mt.float64)
    whole = leaf(1.0, 2.0, 5.0).clone()
    written = whole[:2] if part else whole.narrow(0, 0, 2).clone()
    version = written._version
    arguments = (mt.zeros(2, dtype=mt.float64), weight) if name == "lerp_" else (other,)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        getattr(written, name)(*arguments)
    assert (written.tolist(), written._version) == ([1.0, 2.0], version)
    written.sum().backward()


# ---- custom functions


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


def test_custom_function():
    x = leaf(2.0, 3.0)
    y = Cube.apply(x)
    assert y.grad_fn.name() == "CubeBackward"
    y.sum().backward()
    assert x.grad.tolist() == [12, 27]
    (g,) = grad(Cube.apply(x).sum(), [x], create_graph=True)
    assert grad(g.sum(), [x])[0].tolist() == [12, 18]
    with mt.no_grad():
        assert not Cube.apply(x).requires_grad


def test_custom_function_with_several_results():
    class Split(Function):
        @staticmethod
        def forward(ctx, x, scale, y):
            ctx.scale = scale
            assert ctx.needs_input_grad == (True, False, False)
            ctx.mark_non_differentiable(index := x.argmax(keepdim=False).double())
            return x * scale, y + 1, index

        @staticmethod
        def backward(ctx, a, b, c):
            assert b.tolist() == [0, 0]  # nobody sent any
            assert c.tolist() == 0
            return a * ctx.scale, None, None

    x = leaf(1.0, 2.0)
    a, _, index = Split.apply(x, 5, mt.ones(2, dtype=mt.float64))
    assert not index.requires_grad
    a.sum().backward()
    assert x.grad.tolist() == [5, 5]


def test_custom_function_without_materialized_gradients():
    class Both(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            assert b is None
            return a

    x = leaf(1.0)
    Both.apply(x)[0].sum().backward()
    assert x.grad.tolist() == [1]


def test_custom_function_with_setup_context():
    class Scale(Function):
        @staticmethod
        def forward(x, k):
            return x * k

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.k = inputs[1]

        @staticmethod
        def backward(ctx, g):
            return g * ctx.k, None

    x = leaf(1.0)
    Scale.apply(x, 7).sum().backward()
    assert x.grad.tolist() == [7]


def test_custom_function_that_saves_its_result():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y, None)
            return y

        @staticmethod
        def backward(ctx, g):
            y, nothing = ctx.saved_tensors
            assert nothing is None
            return g * y

    x = leaf(0.5, 1.0)
    e = x.detach().exp().tolist()
    (g,) = grad(Exp.apply(x).sum(), [x], create_graph=True)
    assert grad(g.sum(), [x])[0].tolist() == pytest.approx(e)
    y = Exp.apply(x)
    y.sum().backward()
    assert x.grad.tolist() == e
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.sum().backward()
    # The result is not in a cycle with its node.
    gc.collect()
    before = mt.allocator_stats()["allocated_bytes"]
    for _ in range(5):
        Exp.apply(x)
    assert mt.allocator_stats()["allocated_bytes"] == before


def test_custom_function_errors():
    class Few(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf(1.0)
    with pytest.raises(
        RuntimeError, match=r"FewBackward returned an incorrect number of gradients \(expected 2, got 1\)"
    ):
        Few.apply(x, x).sum().backward()

    class Fails(Cube):
        @staticmethod
        def backward(ctx, g):
            raise LookupError("inside")

    with pytest.raises(LookupError, match="inside"):
        Fails.apply(x).sum().backward()
    y = leaf(2.0) * 1
    z = Cube.apply(y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    with pytest.raises(NotImplementedError, match="forward"):
        Function.apply(x)


def test_custom_function_that_returns_its_input():
    class Identity(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(1.0)
    y = Identity.apply(x)
    assert y is not x
    y.sum().backward()
    assert x.grad.tolist() == [2]
    assert x.is_leaf


def test_custom_functions_are_recorded():
    x = leaf(2.0, 3.0)
    with mt.jit_scope():
        y = Cube.apply(x * 2) + 1
        y.sum().backward()
    assert x.grad.tolist() == [2 * 3 * 16, 2 * 3 * 36]


# ---- memory


def test_no_cycles_keep_graphs_alive():
    gc.collect()
    gc.disable()
    try:
        before = mt.allocator_stats()["allocated_bytes"]
        for _ in range(5):
            x = mt.ones(1000, requires_grad=True)
            y = x * 2
            y.mul_(y)
            y[1:].exp_()
            y.tanh_()
            v = y[10:]
            y.add_(1)
            z = v.softmax(0).sum()
            z.grad_fn.next_functions  # noqa: B018
            del x, y, v, z
        assert mt.allocator_stats()["allocated_bytes"] == before
    finally:
        gc.enable()


def test_graphs_in_threads():
    results = []

    def work(k):
        x = mt.full((50,), float(k), requires_grad=True)
        for _ in range(20):
            x.grad = None
            (x * x).tanh().sum().backward()
        results.append((k, x.grad.numpy().tobytes()))

    threads = [threading.Thread(target=work, args=(k % 2,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(results)) == 2
    assert len(results) == 6


def test_numpy_needs_a_detached_tensor():
    x = leaf(1.0)
    with pytest.raises(
        RuntimeError,
        match=r"Can't call numpy\(\) on Tensor that requires grad. Use tensor.detach\(\).numpy\(\) instead",
    ):
        x.numpy()
    assert x.detach().numpy().tolist() == [1]
    assert x.numpy(force=True).tolist() == [1]
    assert np.asarray(x.detach()).dtype == np.float64
