"""Transforms of functions against what they are by definition."""

import numpy as np
import pytest

import minitensor as mt
from minitensor import func
from minitensor.autograd import forward_ad, functional

F64 = mt.float64


def example(*shape, seed=0):
    return mt.tensor(np.random.default_rng(seed).normal(size=shape))


def close(a, b):
    np.testing.assert_allclose(a.detach().numpy(), np.asarray(b), rtol=1e-9, atol=1e-12)


def cube(x):
    return (x**3).sum()


def test_grad():
    x = example(4)
    close(func.grad(cube)(x), (3 * x**2).numpy())
    gradient, value = func.grad_and_value(cube)(x)
    close(gradient, (3 * x**2).numpy())
    assert value.item() == cube(x).item()
    assert not value.requires_grad
    a, b = func.grad(lambda p, q: (p * q).sum(), argnums=(0, 1))(x, 2 * x)
    close(a, (2 * x).numpy())
    close(b, x.numpy())
    tree = func.grad(lambda d: (d["u"] * d["v"]).sum())({"u": x, "v": x + 1})
    close(tree["u"], (x + 1).numpy())
    gradient, aux = func.grad(lambda p: (cube(p), p * 2), has_aux=True)(x)
    close(aux, (2 * x).numpy())
    with pytest.raises(RuntimeError, match=r"Expected f.* to return a scalar Tensor, got tensor with 1 dims"):
        func.grad(lambda p: p)(x)


def test_grad_nests_and_composes_with_the_tape():
    x = mt.tensor(0.7, dtype=F64)
    third = func.grad(func.grad(func.grad(lambda t: t**5)))
    assert third(x).item() == pytest.approx(60 * 0.7**2)
    # Variables of different levels are not confused: d/dx (x * d/dy (x + y)) is 1.
    assert func.grad(lambda a: a * func.grad(lambda b: a + b)(mt.ones((), dtype=F64)))(x).item() == 1
    y = example(3).requires_grad_()
    close(mt.autograd.grad(func.grad(cube)(y).sum(), y)[0], (6 * y.detach()).numpy())


def test_vjp_and_jvp():
    x, v = example(3), example(3, seed=1)
    out, pull = func.vjp(lambda t: {"a": t.exp(), "b": t.sum()}, x)
    close(out["a"], x.exp().numpy())
    (pulled,) = pull({"a": v, "b": mt.tensor(2.0, dtype=F64)})
    close(pulled, (v * x.exp() + 2).numpy())
    out, pushed = func.jvp(lambda t: t.exp(), (x,), (v,))
    close(pushed, (v * x.exp()).numpy())
    _, push = func.linearize(mt.exp, x)
    close(push(v), (v * x.exp()).numpy())


@pytest.mark.parametrize("jacobian", [func.jacrev, func.jacfwd])
def test_jacobians(jacobian):
    x, a = example(3), example(2, 3, seed=1)
    close(jacobian(lambda t: (a @ t).exp())(x), ((a @ x).exp()[:, None] * a).numpy())
    both = jacobian(lambda p, q: p * q, argnums=(0, 1))(x, x + 1)
    close(both[0], np.diag((x + 1).numpy()))
    close(both[1], np.diag(x.numpy()))


@pytest.mark.filterwarnings("ignore")
def test_forward_jacobians_of_nested_arguments(lib):
    transforms = lib.func
    a, b = lib.tensor([1.0, 2.0], dtype=lib.float64), lib.tensor([3.0], dtype=lib.float64)
    found = transforms.jacfwd(lambda d: {"r": d["a"] * d["b"]})({"a": a, "b": b})
    assert found["r"]["a"].tolist() == [[3, 0], [0, 3]]
    assert found["r"]["b"].tolist() == [[1], [2]]
    first, second = transforms.jacfwd(lambda p, q: p[0] * q, argnums=(0, 1))([a], a)
    assert first[0].tolist() == second.tolist() == [[1, 0], [0, 2]]
    values, aux = transforms.jacfwd(lambda p: (p[0] * p[1], p[1]), has_aux=True)((a, a))
    assert [v.tolist() for v in values] == [[[1, 0], [0, 2]]] * 2
    assert aux.tolist() == [1, 2]
    hessian = transforms.hessian(lambda d: (d["a"] ** 3).sum() * d["b"].sum())({"a": a, "b": b})
    assert hessian["a"]["a"].tolist() == [[18, 0], [0, 36]]
    assert hessian["a"]["b"].tolist() == [[3], [12]]
    assert hessian["b"]["a"].tolist() == [[3, 12]]
    assert hessian["b"]["b"].tolist() == [[0]]


def test_forward_jacobians_are_of_tensors():
    for value in ({"a": mt.ones(2), "n": 3}, 3.0, {}):
        with pytest.raises(RuntimeError, match="jacfwd"):
            func.jacfwd(lambda d: mt.ones(2))(value)


def test_a_hessian_for_several_arguments_keeps_no_history():
    found = func.hessian(lambda a, b: (a**3).sum() * b.sum(), argnums=(0, 1))(example(3), example(2))
    assert [one.requires_grad for row in found for one in row] == [False] * 4
    held = func.hessian(lambda d: (d["a"] ** 3).sum() * d["b"].sum())({"a": example(3), "b": example(2)})
    assert [one.requires_grad for row in held.values() for one in row.values()] == [False] * 4


def test_hessian():
    x, a = example(3), example(3, 3, seed=1)
    close(func.hessian(lambda t: t @ a @ t)(x), (a + a.t()).numpy())


def _split(x):
    a, b = x.split([1, 3])
    return a.sum() * (b * b).sum()


def _written(x):
    y = x * 1.0
    y[1].mul_(3.0)
    y[2:].exp_()
    return (y * y).sum()


def _written_twice(x):
    y = (x * 1.0).view(2, 2)
    part = y.t()[1]
    part[1:].mul_(x[0])
    return (part * part).sum() + (y * y).sum()


def _written_imaginary(x):
    z = mt.complex(x[:2] * 1.0, x[2:] * 1.0)
    z[1:].imag.mul_(3.0)
    return (z.abs() ** 2.0).sum()


_OF_PARTS = {
    "elements": lambda x: x[0] * x[1] * x.sum(),
    "slices": lambda x: (x[1:3] ** 2.0).sum() + (x[:2] * x[2:]).sum(),
    "split": _split,
    "written in place": _written,
    "written through a view of a view": _written_twice,
    "written through imaginary parts": _written_imaginary,
}


@pytest.mark.parametrize("name", _OF_PARTS)
def test_hessians_of_parts(name):
    """Mapped, differentiated as a whole and row by row, they are the same."""
    function = _OF_PARTS[name]
    x = mt.tensor([0.3, -0.7, 1.1, 0.5])
    leaf = x.clone().requires_grad_()
    (slope,) = mt.autograd.grad(function(leaf), leaf, create_graph=True)
    rows = mt.stack([mt.autograd.grad(slope[i], leaf, retain_graph=True)[0] for i in range(4)])
    for hessian in (func.hessian(function), func.jacrev(func.grad(function)), func.jacfwd(func.grad(function))):
        np.testing.assert_allclose(hessian(x), rows, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", _OF_PARTS)
def test_gradients_of_parts_of_every_example(name):
    function = _OF_PARTS[name]
    x = mt.tensor([[0.3, -0.7, 1.1, 0.5], [1.0, 2.0, -3.0, 0.25], [0.1, 0.2, 0.3, 0.4]])
    for transformed in (function, func.grad(function), func.hessian(function)):
        one_by_one = mt.stack([transformed(row) for row in x])
        np.testing.assert_allclose(mt.vmap(transformed)(x), one_by_one, rtol=1e-5, atol=1e-6)


def test_gradients_of_every_example():
    x, w = example(5, 3), example(3, seed=1)
    found = func.vmap(func.grad(lambda p, s: (p * s).sum().sin()), in_dims=(None, 0))(w, x)
    close(found, ((x @ w).cos()[:, None] * x).numpy())
    y = x.clone().requires_grad_()
    close(mt.autograd.grad(func.vmap(func.grad(cube))(y).sum(), y)[0], (6 * x).numpy())


@pytest.mark.parametrize(
    "function",
    [
        lambda t: t[0] * t[1] * t[2], lambda t: (t[1:] ** 3).sum(), lambda t: t.unfold(0, 2, 1).prod(),
        lambda t: (t[::2] * t[mt.tensor([0, 0])]).sum(), lambda t: t.sort().values[0] * t.cumsum(0)[1],
        lambda t: t.outer(t).diagonal().exp().sum(), lambda t: t.softmax(0)[0] + t.log_softmax(0).max(),
    ],
)  # fmt: skip
def test_gradients_of_every_example_through_views(function):
    x = example(4, 3)
    expected = [func.grad(function)(row).numpy() for row in x]
    close(func.vmap(func.grad(function))(x), np.stack(expected))
    close(func.vmap(func.vmap(func.grad(function)))(x[None])[0], np.stack(expected))


def test_modules_as_functions():
    models = [mt.nn.Linear(3, 2) for _ in range(4)]
    params, buffers = func.stack_module_state(models)
    assert params["weight"].shape == (4, 2, 3)
    assert all(p.requires_grad and p.is_leaf for p in params.values())
    assert buffers == {}
    norms = [mt.nn.BatchNorm1d(3) for _ in range(2)]
    assert not any(b.requires_grad for b in func.stack_module_state(norms)[1].values())
    x = mt.ones(5, 3)
    together = func.vmap(lambda p: func.functional_call(models[0], p, (x,)))(params)
    for i, model in enumerate(models):
        np.testing.assert_allclose(together[i].detach().numpy(), model(x).detach().numpy(), rtol=1e-6)
    kept = models[0].weight
    with pytest.raises(TypeError, match="replaces tensors, and 'in_features' is a int"):
        func.functional_call(models[0], {"weight": mt.zeros(2, 3), "in_features": x}, (x,))
    assert models[0].weight is kept


@pytest.mark.parametrize("options", [{}, {"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}])
def test_functional_jacobian(options):
    x, y = example(2), example(2, seed=1)
    table = functional.jacobian(lambda p, q: (p * q).exp(), (x, y), **options)
    close(table[0], np.diag(((x * y).exp() * y).numpy()))
    close(table[1], np.diag(((x * y).exp() * x).numpy()))


def test_functional_products():
    x, v = example(3), example(3, seed=1)
    close(functional.hessian(cube, x), np.diag((6 * x).numpy()))
    close(functional.vhp(cube, x, v)[1], (6 * x * v).numpy())
    close(functional.hvp(cube, x, v)[1], (6 * x * v).numpy())
    close(functional.vjp(mt.exp, x, v)[1], (x.exp() * v).numpy())
    close(functional.jvp(mt.exp, x, v)[1], (x.exp() * v).numpy())
    z = x.clone().requires_grad_()
    graph = functional.jacobian(lambda t: t**3, z, create_graph=True)
    close(mt.autograd.grad(graph.sum(), z)[0], (6 * x).numpy())
    with pytest.raises(RuntimeError, match="does not require gradients"):
        functional.jacobian(lambda t: mt.ones(2), x, strict=True)
    close(functional.jacobian(lambda t: mt.ones(2), x), np.zeros((2, 3)))
    with pytest.raises(RuntimeError, match="v has invalid size"):
        functional.vjp(mt.exp, x, mt.ones(2))


def test_dual_numbers():
    x, v = example(3), example(3, seed=1)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, v)
        primal, tangent = forward_ad.unpack_dual((dual * dual).sin())
        close(primal, (x * x).sin().numpy())
        close(tangent, ((x * x).cos() * 2 * x * v).numpy())
        assert forward_ad.unpack_dual(x).tangent is None
        with pytest.raises(RuntimeError, match="Nested forward mode"):
            forward_ad.enter_dual_level()
    with pytest.raises(RuntimeError, match="no level exists"):
        forward_ad.make_dual(x, v)


def test_gradcheck():
    x = example(3).requires_grad_()
    assert mt.autograd.gradcheck(lambda t: t.exp() * t, x, check_batched_grad=True, check_forward_ad=True)
    assert mt.autograd.gradgradcheck(lambda t: t.exp() * t, x)
    assert not mt.autograd.gradcheck(lambda t: t.detach() * t, x, raise_exception=False)
    with pytest.raises(RuntimeError, match="Jacobian mismatch for output 0 with respect to input 0"):
        mt.autograd.gradcheck(lambda t: t.detach() * t, x)
    with pytest.raises(ValueError, match="expects at least one input tensor to require gradient"):
        mt.autograd.gradcheck(mt.exp, x.detach())


ones, two = [1.0, 2.0], [2.0, 8.0]
TRANSFORMS = {
    "grad": lambda f, x: (f.grad(lambda t: (t * t).sum())(x), [2.0, 4.0]),
    "vjp": lambda f, x: (f.vjp(lambda t: t * t, x)[1](x)[0], two),
    "jvp": lambda f, x: (f.jvp(lambda t: t * t, (x,), (x,))[1], two),
    "jacrev": lambda f, x: (f.jacrev(lambda t: t * t)(x), [[2.0, 0.0], [0.0, 4.0]]),
    "jacfwd": lambda f, x: (f.jacfwd(lambda t: t * t)(x), [[2.0, 0.0], [0.0, 4.0]]),
    "hessian": lambda f, x: (f.hessian(lambda t: (t**3).sum())(x), [[6.0, 0.0], [0.0, 12.0]]),
    "vmap": lambda f, x: (mt.vmap(f.grad(lambda t: t * t))(x), [2.0, 4.0]),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_in_inference_mode(name):
    x = mt.tensor(ones)
    with mt.inference_mode():
        inside = mt.tensor(ones)
        for given in (x, inside):
            found, expected = TRANSFORMS[name](mt.func, given)
            assert found.tolist() == expected
            assert not found.requires_grad
    # Also outside of it, of tensors that were made in it.
    found, expected = TRANSFORMS[name](mt.func, inside)
    assert found.tolist() == expected
    with mt.inference_mode():
        assert mt.func.grad(lambda t: (t * inside * t).sum())(x).tolist() == two
        pull = mt.func.vjp(lambda t: t * inside, x)[1]
    assert pull(x)[0].tolist() == [1.0, 4.0]


def test_a_transformed_function_does_not_write_to_what_it_captured():
    captured, x = mt.zeros(2), mt.tensor(ones)
    inner = mt.func.grad(lambda t: (t.clone().mul_(3) * t).sum())
    writes = [
        lambda t: captured.copy_(t),
        lambda t: captured.add_(1),
        lambda t: captured[0].fill_(t[0]),
        lambda t: captured.__setitem__(0, t[0]),
        lambda t: captured.view(2, 1).zero_(),
        lambda t: inner(captured.mul_(2)),
    ]
    for write in writes:

        def function(t, write=write):
            write(t)
            return (t * t).sum()

        for call in (
            lambda: mt.func.grad(function)(x),
            lambda: mt.func.vjp(function, x),
            lambda: mt.func.jvp(function, (x,), (x,)),
            lambda: mt.func.grad(lambda t: mt.func.grad(function)(t).sum())(x),
        ):
            with pytest.raises(RuntimeError, match="tensor that it captured"):
                call()
    assert captured.tolist() == [0, 0]
    assert not captured.requires_grad
    captured.add_(1)  # outside it may be written as ever
    assert captured.tolist() == [1, 1]


def test_a_transformed_function_writes_to_its_arguments_and_to_what_it_makes():
    x, given = mt.tensor(ones), mt.zeros(2)

    def function(t, more, *, named):
        made = mt.zeros(2)
        made[0] = t[0] * 3
        made.view(2, 1).add_(t[:, None])
        more["a"][1:].add_(2)
        named.copy_(more["a"])
        return (made * t).sum()

    named = mt.ones(2)
    assert mt.func.grad(function)(x, {"a": given}, named=named).tolist() == [8.0, 4.0]
    assert (given.tolist(), named.tolist()) == ([0, 2], [0, 2])
    rows = mt.ones(3, 2)
    assert mt.vmap(mt.func.grad(lambda t, b: (b.add_(1) * t).sum()))(rows, mt.zeros(3, 2)).tolist() == [[1, 1]] * 3

    # A tensor of an outer function is captured by an inner one.
    def outer(t):
        made = mt.zeros(2)
        return mt.func.grad(lambda u: (made.add_(u) * u).sum())(t).sum()

    with pytest.raises(RuntimeError, match="captured"):
        mt.func.grad(outer)(x)


def test_no_grad_around_a_forward_derivative_leaves_nothing_to_go_back():
    x = mt.tensor(5.0, requires_grad=True)
    with mt.no_grad():
        value, derivative = mt.func.jvp(lambda x: x * x, (x,), (mt.tensor(1.0),))
    assert (value.item(), derivative.item()) == (25, 10)
    assert not value.requires_grad
    assert not derivative.requires_grad
    value, derivative = mt.func.jvp(lambda x: x * x, (x,), (mt.tensor(1.0),))
    assert value.requires_grad
    assert derivative.requires_grad


def test_parameters_of_functional_calls_by_all_their_names():
    class Tied(mt.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = mt.nn.Linear(2, 2, bias=False), mt.nn.Linear(2, 2, bias=False)
            self.second.weight = self.first.weight
            self.register_buffer("shift", mt.zeros(2))

        def forward(self, x):
            return self.second(self.first(x)) + self.shift

    model, x, double = Tied(), mt.tensor([[1.0, 3.0]]), mt.eye(2) * 2
    before = model(x).tolist()
    assert func.functional_call(model, {"first.weight": double}, x).tolist() == [[4, 12]]
    assert func.functional_call(model, {"second.weight": double}, x).tolist() == [[4, 12]]
    given = ({"first.weight": double, "second.weight": double * 2}, {"shift": mt.ones(2)})
    assert func.functional_call(model, given, (x,), tie_weights=False, strict=True).tolist() == [[9, 25]]
    alone = func.functional_call(model, {"first.weight": double}, x, tie_weights=False)
    np.testing.assert_allclose(alone.tolist(), (x * 2 @ model.second.weight.T).tolist(), rtol=1e-6)
    with pytest.raises(RuntimeError, match=r"missing key\(s\) \['second.weight', 'shift'\].*unexpected.*\['third'\]"):
        func.functional_call(model, {"first.weight": double, "third": x}, x, strict=True)
    with pytest.raises(ValueError, match=r"'shift'.*multiple"):
        func.functional_call(model, ({"shift": x[0]}, {"shift": x[0]}), x)
    assert model(x).tolist() == before


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", ["vjp", "jvp", "vhp", "hvp", "jacobian", "hessian"])
def test_functional_derivatives_of_what_does_not_depend(name, strict, create):
    """Zeros, or an error with `strict`, for an input that plays no part, a part in a line only, and a constant."""
    torch = pytest.importorskip("torch")
    second = name in ("vhp", "hvp", "hessian")
    functions = {
        "both": lambda lib: lambda x, y: (x**3).sum() * y.sum() ** 2,
        "line": lambda lib: lambda x, y: (x * y).sum(),
        "one": lambda lib: lambda x, y: (x**2).sum(),
        "none": lambda lib: lambda x, y: lib.ones((), dtype=lib.float64),
        "constant": lambda lib: lambda x, y: lib.ones((), dtype=lib.float64, requires_grad=True) * 2,
        "wide": lambda lib: lambda x, y: x * y if not second else (x * x * y).sum(),
        "pair": lambda lib: lambda x, y: (x.sum(), y * 2),
        "half": lambda lib: lambda x, y: ((x * y).sum(), lib.ones((), dtype=lib.float64)),
        "number": lambda lib: lambda x, y: 3.0,
    }
    for what, make in functions.items():
        seen = []
        for lib in (mt, torch):
            x, y = (lib.tensor(v, dtype=lib.float64, requires_grad=True) for v in ([1.0, 2.0], [3.0, -4.0]))
            given = () if name in ("jacobian", "hessian") else ((x * 2, y * 3),)
            if name == "vjp":
                one = lib.ones((), dtype=lib.float64)
                given = {"wide": (x.detach(),), "pair": ((one, y.detach()),), "half": ((one, one),)}.get(what, (None,))
            try:
                made = getattr(lib.autograd.functional, name)(
                    make(lib), (x, y), *given, strict=strict, create_graph=create
                )
            except Exception as error:
                seen.append(type(error))
                continue
            flat = []

            def add(thing, flat=flat):
                if isinstance(thing, tuple):
                    [add(one) for one in thing]
                else:
                    flat.append((thing.tolist(), thing.requires_grad))

            add(made)
            seen.append(flat)
        assert seen[0] == seen[1], (what, seen)


def test_results_of_whole_numbers():
    """They have no derivative: forward it is zero, of their dtype, and backward there is none."""
    x, v = mt.tensor([0.25, 1.5, 0.75]), mt.ones(3)

    def both(a):
        return a * 2, a.argmax(), a > 1

    value, tangent = mt.func.jvp(both, (x,), (v,))
    assert [t.tolist() for t in value] == [[0.5, 3.0, 1.5], 1, [False, True, False]]
    assert [t.tolist() for t in tangent] == [[2.0] * 3, 0, [False] * 3]
    assert [t.dtype for t in mt.func.jacfwd(both)(x)] == [mt.float32, mt.int64, mt.bool]
    for call in (lambda: mt.func.vjp(both, x), lambda: mt.func.jacrev(both)(x), lambda: mt.func.hessian(mt.argmax)(x)):
        with pytest.raises(RuntimeError, match="must be floating-point or complex Tensors, got Tensor with dtype"):
            call()


def test_jacobians_of_complex_numbers_are_refused():
    real, z = mt.tensor([1.0, 2.0]), mt.tensor([1.0 + 1j, 2.0])
    for jacobian in (func.jacrev, func.jacfwd):
        with pytest.raises(RuntimeError, match=f"{jacobian.__name__}: Expected all inputs to be real .* input idx: 0"):
            jacobian(lambda t: t.abs())(z)
        with pytest.raises(RuntimeError, match=f"{jacobian.__name__}: Expected all inputs to be real .* input idx: 1"):
            jacobian(lambda t, u: t * 2)(real, z)
        with pytest.raises(RuntimeError, match=f"{jacobian.__name__}: Expected all outputs to be real .* input idx: 1"):
            jacobian(lambda t: (t, t * 1j))(real)


def test_what_is_no_tensor_is_refused():
    x = mt.tensor([1.0, 2.0])
    for call in (
        lambda: func.grad(lambda t: mt.ones(()))(3.0),
        lambda: func.grad(lambda d: d["x"].sum())({"x": x, "n": 3}),
        lambda: func.vjp(lambda t, n: t * n, x, 3),
        lambda: func.jacrev(lambda t, n: t * n, argnums=(0, 1))(x, 3),
    ):
        with pytest.raises(ValueError, match="Thing passed to transform API must be Tensor, got"):
            call()
    assert func.grad(lambda t, n: (t * n).sum())(x, 3).tolist() == [3.0, 3.0]
    _, push = func.linearize(lambda t, u: t * u, x, x)
    for given in ((x,), (x, x, x), ()):
        with pytest.raises(RuntimeError, match="to have the same argspec as the primals"):
            push(*given)
