"""The gradient of every differentiable row, and the gradient of that, against finite differences in float64."""

import math
from fractions import Fraction

import numpy as np
import pytest
from row_samples import DOMAINS, Operand, build, forms, pointwise
from row_samples.nn import OTHER_GRADIENT, WITHOUT_GRADIENT

import minitensor as mt
from minitensor.ops import ROWS

IN_PLACE_ONLY = {"fill", "copy"}
# Their first operand has no derivative here, as in PyTorch; test_pointwise.py has that of the second.
PARTLY = {"zeta", "igamma", "igammac"}
STEP = 1e-6
# Their derivative is zero, or not that of their own formula, wherever finite differences can see it.
STEPS = {"floor_divide", "floor", "ceil", "trunc", "round", "sign", "sgn", "angle"}

# They read one triangle of a symmetric matrix, so their gradient is only defined along symmetric directions, or give
# complex numbers: tests/linalg and test_fft.py have them.
ELSEWHERE = (
    {
        "_linalg_cholesky",
        "_cholesky_solve",
        "_cholesky_inverse",
        "_linalg_eigh",
        "_linalg_eig",
        "_fft_c2c",
        "_fft_r2c",
        "_fft_c2r",
    }
    | {
        # Of samples at their place among all samples: tests/distributions has them.
        "_standard_gamma",
        "_sample_dirichlet",
    }
    | set(OTHER_GRADIENT)
)


def has_derivative(row):
    return row.vjp is not None and not getattr(row.vjp, "underived", False)


def differentiable():
    skipped = IN_PLACE_ONLY | ELSEWHERE | PARTLY
    return [name for name, row in ROWS.items() if has_derivative(row) and name not in skipped]


def tensors(result):
    listed = result if isinstance(result, (tuple, list)) else [result]
    listed = [mt.view_as_real(t) if t.is_complex() else t for t in listed]
    return [t for t in listed if t.is_floating_point()]


def differentiable_tensor(t):
    return isinstance(t, mt.Tensor) and (t.is_floating_point() or t.is_complex())


def direction(rng, x):
    """Random numbers like x's."""
    d = rng.normal(size=tuple(x.shape))
    return d + 1j * rng.normal(size=tuple(x.shape)) if x.is_complex() else d


def at_a_corner(form, name):
    """Equal elements share an extreme; the mean of nothing is NaN; of collectives only sums have gradients."""
    operands = [a for a in form if isinstance(a, Operand)]
    return (
        (DOMAINS.get(name) == "distinct" and any(a.layout == "expanded" for a in operands))
        or (name == "mean" and any(0 in a.shape for a in operands))
        or (name == "_all_reduce" and form[1] != 0)
    )


def flatten(arguments):
    """The tensor operands, in order, and how to call with others in their places."""
    flat = [t for a in arguments for t in (a if isinstance(a, list) else [a])]

    def rebuild(wanted):
        replacements = iter(wanted)

        def one(t):
            return next(replacements) if differentiable_tensor(t) else t

        return tuple([one(t) for t in a] if isinstance(a, list) else one(a) for a in arguments)

    return [t for t in flat if differentiable_tensor(t)], rebuild


def project(results, rng):
    """One number: the results times random weights."""
    results = tensors(results)
    weights = [mt.tensor(rng.normal(size=tuple(t.shape))) for t in results]
    total = mt.zeros((), dtype=mt.float64)
    for t, w in zip(results, weights, strict=True):
        total = total + (t * w).sum()
    return total


def check(function, inputs, seed, what):
    """The gradient of `function` along random directions, against central differences."""
    rng = np.random.default_rng(seed)
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    gradients = mt.autograd.grad(function(*leaves), leaves, allow_unused=True, materialize_grads=True)
    for _ in range(2):
        directions = [direction(rng, x) for x in inputs]
        moved = []
        for sign in (1, -1):
            there = [x.detach() + mt.tensor(sign * STEP * d) for x, d in zip(inputs, directions, strict=True)]
            moved.append(function(*(t.requires_grad_() for t in there)).item())
        numeric = (moved[0] - moved[1]) / (2 * STEP)
        # Of a complex number the gradient is the direction of steepest ascent.
        analytic = sum(
            float((g.detach().numpy().conj() * d).sum().real) for g, d in zip(gradients, directions, strict=True)
        )
        assert analytic == pytest.approx(numeric, rel=1e-5, abs=1e-6), what


@pytest.mark.parametrize("name", differentiable())
def test_gradient(name):
    row = ROWS[name]
    checked = 0
    for seed, form in enumerate(forms(row)):
        if name == "cast" and form[-1] != "float64":
            continue
        arguments = build(form, "float64", DOMAINS.get(name, "normal"), seed)
        inputs, rebuild = flatten(arguments)
        if not inputs or at_a_corner(form, name):
            continue

        def loss(*given, rebuild=rebuild, seed=seed):
            return project(tensors(row.call(*rebuild(given))), np.random.default_rng(seed))

        check(loss, inputs, seed, f"{name} {form}")
        checked += 1
    assert checked


@pytest.mark.parametrize("name", [n for n in differentiable() if n not in STEPS])
def test_second_gradient(name):
    row = ROWS[name]
    for seed, form in enumerate(forms(row)):
        if name == "cast" and form[-1] != "float64":
            continue
        arguments = build(form, "float64", DOMAINS.get(name, "normal"), seed)
        inputs, rebuild = flatten(arguments)
        if not inputs or at_a_corner(form, name):
            continue

        def gradient(*given, rebuild=rebuild, seed=seed):
            rng = np.random.default_rng(seed)
            # Squared, so that the gradient that comes in depends on the inputs too.
            loss = (project(tensors(row.call(*rebuild(given))), rng) + 1) ** 2
            gradients = mt.autograd.grad(loss, given, create_graph=True, allow_unused=True, materialize_grads=True)
            return project(gradients, rng)

        check(gradient, inputs, seed, f"{name} {form}")


def gradients_twice(row, arguments, seed):
    """The bits of the first gradients, and of those of the gradients, under each default dtype."""
    inputs, rebuild = flatten(arguments)
    found = []
    for default in (mt.float32, mt.float64):
        before = mt.get_default_dtype()
        mt.set_default_dtype(default)
        try:
            leaves = [x.detach().clone().requires_grad_() for x in inputs]
            loss = (project(tensors(row.call(*rebuild(leaves))), np.random.default_rng(seed)) + 1) ** 2
            first = mt.autograd.grad(loss, leaves, create_graph=True, allow_unused=True, materialize_grads=True)
            total = project(first, np.random.default_rng(seed))
            second = mt.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
        finally:
            mt.set_default_dtype(before)
        found.append([t.detach().resolve_conj().numpy().tobytes() for t in (*first, *second)])
    return found


@pytest.mark.parametrize("name", [n for n in differentiable() if n not in STEPS])
def test_numbers_in_gradients_are_of_the_tensors_dtype(name):
    """A tensor of numbers alone has the default dtype, and would round a factor of float64."""
    for seed, form in enumerate(forms(ROWS[name])):
        if name == "cast" and form[-1] != "float64":
            continue
        arguments = build(form, "float64", DOMAINS.get(name, "normal"), seed)
        if not flatten(arguments)[0] or at_a_corner(form, name):
            continue
        narrow, wide = gradients_twice(ROWS[name], arguments, seed)
        assert narrow == wide, form


# The function pads complex numbers in another way, and singular vectors are free to turn.
NOT_COMPLEX = {"_pad_around", "_linalg_svd"}
GREATEST_OR_LEAST = (3, 4)  # of _scatter_reduce; the function refuses those of complex numbers


def takes(row, form, dtype, domain, seed):
    """The arguments of a form in a dtype; None if the row doesn't take it."""
    arguments = build(form, dtype, domain, seed)
    try:
        with mt.no_grad():
            row.call(*arguments)
    except (RuntimeError, TypeError):
        return None
    return arguments


@pytest.mark.exhaustive
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", [n for n in differentiable() if n not in STEPS | NOT_COMPLEX])
def test_gradients_of_complex_numbers(name, order):
    """First and second ones of all rows that take complex numbers; the others refuse each form."""
    row = ROWS[name]
    domain = DOMAINS.get(name, "normal")
    for seed, form in enumerate(forms(row)):
        if name == "cast" and form[-1] not in ("float64", "complex128"):
            continue
        if name == "_scatter_reduce" and form[4] in GREATEST_OR_LEAST:
            continue
        if (arguments := takes(row, form, "complex128", domain, seed)) is None:
            continue
        inputs, rebuild = flatten(arguments)
        if not inputs or at_a_corner(form, name):
            continue

        def loss(*given, rebuild=rebuild, seed=seed):
            return project(row.call(*rebuild(given)), np.random.default_rng(seed))

        def gradient(*given, loss=loss, seed=seed):
            there = mt.autograd.grad(
                (loss(*given) + 1) ** 2, given, create_graph=True, allow_unused=True, materialize_grads=True
            )
            return project(there, np.random.default_rng(seed))

        check(loss if order == 1 else gradient, inputs, seed, f"{name} {form}")


@pytest.mark.parametrize("name", sorted(STEPS))
def test_gradient_of_a_step_is_zero(name):
    x = mt.tensor([-1.3, 0.2, 2.7], requires_grad=True)
    operands = (x, mt.tensor(2.0)) if name == "floor_divide" else (x,)
    ROWS[name].call(*operands).sum().backward()
    assert x.grad.tolist() == [0, 0, 0]


def test_every_row_that_gives_fractions_has_a_gradient_or_none_by_its_nature():
    without = {
        name
        for name, row in ROWS.items()
        if not has_derivative(row)
        and row.kind not in ("random", "creation")
        and name not in ("_view_read", "_view_write", "_assign", "_view_dtype")
    }
    assert without == pointwise.WITHOUT_GRADIENT | {
        *WITHOUT_GRADIENT,
        "_flat_index",
        "isnan",
        "isinf",
        "isfinite",
        "logical_not",
        "bitwise_not",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "logical_and",
        "logical_or",
        "logical_xor",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "any",
        "all",
        "argmax",
        "argmin",
        "nonzero",
        "searchsorted",
        "_order_rows",
        "_bincount",
        "_refuse_where",
        "_histogramdd",
        "_lu_permutation",
        "_geqrf",
        "_linalg_ldl_factor",
        "_linalg_ldl_solve",
    }


# ---- the values at which formulas differ from limits, as PyTorch has them


def grad_of(function, *values):
    leaves = [mt.tensor(v, dtype=mt.float64, requires_grad=True) for v in values]
    return [g.tolist() for g in mt.autograd.grad(function(*leaves).sum(), leaves)]


def test_gradients_at_corners():
    assert grad_of(mt.relu, [-1.0, 0.0, 1.0]) == [[0, 0, 1]]
    assert grad_of(mt.abs, [-2.0, 0.0, 2.0]) == [[-1, 0, 1]]
    assert grad_of(mt.maximum, [1.0, 2.0, 3.0], [1.0, 3.0, 2.0]) == [[0.5, 0, 1], [0.5, 1, 0]]
    assert grad_of(mt.minimum, [1.0, 2.0], [1.0, 3.0]) == [[0.5, 1], [0.5, 0]]
    assert grad_of(lambda x: x.clamp(0, 1), [-0.5, 0.0, 0.5, 1.0, 1.5]) == [[0, 1, 1, 1, 0]]
    assert grad_of(lambda x: x.amax(), [3.0, 1.0, 3.0]) == [[0.5, 0, 0.5]]
    assert grad_of(lambda x: x.max(0).values, [3.0, 1.0, 3.0]) == [[1, 0, 0]]
    assert grad_of(lambda x: x.prod(), [2.0, 0.0, 3.0]) == [[0, 6, 0]]
    assert grad_of(lambda x: x.prod(), [0.0, 0.0, 3.0]) == [[0, 0, 0]]
    assert grad_of(lambda x: x**0, [0.0, 2.0]) == [[0, 0]]
    assert grad_of(lambda x: x**2, [0.0, -2.0]) == [[0, -4]]
    assert grad_of(lambda x, y: x**y, [0.0, 2.0], [2.0, 0.0]) == [[0, 0], [0, pytest.approx(0.6931471805599453)]]
    assert grad_of(mt.sqrt, [0.0, 4.0]) == [[float("inf"), 0.25]]


def test_the_gradient_of_a_product_of_any_size():
    """Products beyond the range of float64, both ways; divided by an element they come back into it, or don't."""
    rng = np.random.default_rng(1)
    reached = set()
    for total in (-1400, -1080, -1000, -300, 0, 300, 1000, 1030, 1400):
        exponents = rng.integers(-900, 900, 40)
        exponents[0] += total - exponents.sum() % 900
        x = np.ldexp(rng.uniform(1, 2, 40), np.clip(exponents, -1050, 1000))
        exact = [Fraction(float(v)) for v in x]
        product = math.prod(exact)
        t = mt.from_numpy(x).requires_grad_()
        (g,) = mt.autograd.grad(t.prod(), t)
        for got, others in zip(g.tolist(), (product / v for v in exact), strict=True):
            try:
                expected = float(others)
            except OverflowError:
                expected = float("inf")
            assert got == pytest.approx(expected, rel=1e-13, abs=5e-324)
            reached.add(0 if expected == 0 else 1 if expected == float("inf") else 2)
    assert reached == {0, 1, 2}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_gradient_of_a_product_neither_overflows_nor_depends_on_threads(dtype):
    large = 1e30 if dtype == "float32" else 1e300
    factors = [large] * 9 + [2.0] + [1 / large] * 9
    for x in (np.array(factors, dtype), np.array(factors[::-1], dtype)):
        for axis in (0, 1):
            t = mt.from_numpy(np.stack([x, x], 1 - axis)).requires_grad_()
            (g,) = mt.autograd.grad(t.prod(axis).sum(), t)
            np.testing.assert_allclose(g.numpy(), 2.0 / t.detach().numpy(), 1e-5)
    tiny = np.finfo(dtype).smallest_subnormal
    t = mt.from_numpy(np.array([tiny, 1.0, 3.0], dtype)).requires_grad_()
    (g,) = mt.autograd.grad(t.prod(), t)
    assert g[1].item() == 3 * float(tiny)

    rng = np.random.default_rng(0)
    long = np.exp(rng.standard_normal(100_000) * 0.01).astype(dtype)
    t = mt.from_numpy(long).requires_grad_()
    expected = long.astype("longdouble").prod() / long.astype("longdouble")
    (g,) = mt.autograd.grad(t.prod(), t)
    np.testing.assert_allclose(g.numpy(), expected.astype(dtype), 1e-6 if dtype == "float32" else 1e-12)
    threads = mt.get_num_threads()
    try:
        mt.set_num_threads(1)
        (alone,) = mt.autograd.grad(t.prod(), t)
    finally:
        mt.set_num_threads(threads)
    assert g.numpy().tobytes() == alone.numpy().tobytes()
    long[70_000] = 0
    (g,) = mt.autograd.grad(t.prod(), t)
    assert g.count_nonzero().item() == 1
    assert g[70_000].item() == pytest.approx(np.delete(long, 70_000).astype("longdouble").prod())


def test_the_gradient_of_a_product_with_infinities_is_that_of_the_others():
    assert grad_of(lambda x: x.prod(), [math.inf, 2.0, 3.0]) == [[6, math.inf, math.inf]]
    g = grad_of(lambda x: x.prod(), [math.nan, 2.0, 0.0])[0]
    assert g[0] == 0
    assert math.isnan(g[1])
    assert math.isnan(g[2])


def test_gradients_reach_broadcast_operands():
    x, y = mt.ones(3, 1, requires_grad=True), mt.ones(2, 1, 4, requires_grad=True)
    (x * y).sum().backward()
    assert x.grad.tolist() == [[8]] * 3
    assert y.grad.tolist() == [[[3] * 4]] * 2


def test_gradients_have_the_operands_dtype():
    x, y = mt.ones(2, requires_grad=True), mt.ones(2, dtype=mt.float64, requires_grad=True)
    (x * y).sum().backward()
    assert (x.grad.dtype, y.grad.dtype) == (mt.float32, mt.float64)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    "name", ["sum", "prod", "mean", "nansum", "norm1", "norm2", "softmax", "log_softmax", "cumsum", "cumprod"]
)
def test_the_dtype_of_a_reduction_is_that_of_its_gradient(name, dtype):
    """Computed in the wider type, the gradient overflows no more than the result."""
    takes = {n for n, row in ROWS.items() if "input, int" in row.schema and "dtype? dtype" in row.schema and row.vjp}
    assert name in takes, takes
    large = {"float16": 3e4, "float32": 3e37, "float64": 3e37}[dtype]
    x = mt.tensor([[1.0, -0.5, large], [large, 1.5, -large]], dtype=getattr(mt, dtype))
    weights = mt.tensor([[0.5, -1.0, 2.0], [1.0, 4.0, 0.25]], dtype=mt.float64) * 1e-75

    def gradient(x, **options):
        x = x.clone().requires_grad_()
        made = ROWS[name].call(x, 1, **options)
        assert made.dtype == mt.float64
        loss = (made * (weights if made.ndim == 2 else weights[:, 0])).sum()
        return mt.autograd.grad(loss * 1e75, x)[0]

    got = gradient(x, dtype=mt.float64)
    assert got.dtype == x.dtype
    assert got.tolist() == gradient(x.double()).to(x.dtype).tolist()
