"""Derivatives that go forward: through no_grad, writes in place, Functions with a `jvp`, and what goes backward beside.

Each test runs here and, where it is installed, in PyTorch, which must have the values that are stored.
"""

import threading

import pytest

import minitensor

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(params=["minitensor", pytest.param("torch", marks=pytest.mark.torch)])
def lib(request):
    return minitensor if request.param == "minitensor" else pytest.importorskip("torch")


def at(lib):
    return lib.tensor([2.0, 3.0], dtype=lib.float64)


def along(lib):
    return lib.tensor([1.0, 10.0], dtype=lib.float64)


def lists(value):
    if isinstance(value, (tuple, list)):
        return [lists(v) for v in value]
    return value.tolist() if hasattr(value, "tolist") else value


def still(lib, function):
    def stilled(x):
        with lib.no_grad():
            return function(x)

    return stilled


def stopped(lib):
    """The sum of c * x, where c = x * x is a constant to what goes backward."""
    return lambda x: (still(lib, lambda x: x * x)(x) * x).sum()


def jvp(lib, function):
    return lib.func.jvp(function, (at(lib),), (along(lib),))


def test_no_grad_does_not_stop_what_goes_forward(lib):
    assert lists(jvp(lib, still(lib, lambda x: x * x))) == [[4.0, 9.0], [4.0, 60.0]]
    assert lists(lib.func.jacfwd(still(lib, lambda x: x * x))(at(lib))) == [[4.0, 0.0], [0.0, 6.0]]
    assert lists(jvp(lib, lib.no_grad()(lambda x: x * x))) == [[4.0, 9.0], [4.0, 60.0]]


def test_set_grad_enabled_does_not_either(lib):
    def function(x):
        before = lib.is_grad_enabled()
        lib.set_grad_enabled(False)
        y = x * x
        lib.set_grad_enabled(before)
        return y

    assert lists(jvp(lib, function)) == [[4.0, 9.0], [4.0, 60.0]]


def test_the_mode_is_seen(lib):
    seen = []

    def function(x):
        seen.append(lib.is_grad_enabled())
        with lib.no_grad():
            seen.append(lib.is_grad_enabled())
            y = x * x
            seen.append(y.requires_grad)
            with lib.enable_grad():
                seen.append(lib.is_grad_enabled())
        return y

    jvp(lib, function)
    assert seen == [True, False, False, True]


@pytest.mark.parametrize(
    ("derivative", "expected"),
    [
        (lambda f, x, v, func: func.hessian(f)(x), [[4.0, 0.0], [0.0, 6.0]]),
        (lambda f, x, v, func: func.grad(lambda x: func.jvp(f, (x,), (v,))[1])(x), [4.0, 60.0]),
        (lambda f, x, v, func: func.grad(lambda x: func.jvp(f, (x,), (v,))[0])(x), [4.0, 9.0]),
        (lambda f, x, v, func: func.jvp(func.grad(f), (x,), (v,)), [[4.0, 9.0], [4.0, 60.0]]),
        (lambda f, x, v, func: func.jacrev(func.jacfwd(f))(x), [[4.0, 0.0], [0.0, 6.0]]),
        (lambda f, x, v, func: func.jacfwd(func.jacfwd(f))(x), [[12.0, 0.0], [0.0, 18.0]]),
        (lambda f, x, v, func: func.linearize(f, x)[1](v), 282.0),
    ],
)
def test_backward_ends_at_no_grad_and_forward_does_not(lib, derivative, expected):
    assert lists(derivative(stopped(lib), at(lib), along(lib), lib.func)) == expected


def test_under_vmap(lib):
    xs = lib.stack([at(lib), along(lib)])
    assert lists(lib.vmap(lib.func.hessian(stopped(lib)))(xs)) == [[[4.0, 0], [0, 6]], [[2, 0], [0, 20]]]


def test_a_derivative_taken_under_no_grad_is_a_constant_to_what_goes_backward(lib):
    x, v = at(lib).requires_grad_(), along(lib)
    cube = lib.func.grad(lambda y: (y**3).sum())
    with lib.no_grad():
        inner = [cube(x), lib.func.vjp(lambda y: y**3, x)[0], *lib.func.jvp(lambda y: y**3, (x,), (v,))]
    assert [t.requires_grad for t in inner] == [False] * 4
    assert cube(x).requires_grad
    assert lists(jvp(lib, still(lib, cube))) == [[12.0, 27.0], [12.0, 180.0]]

    def pulled(x):
        with lib.no_grad():
            out, pull = lib.func.vjp(lambda y: y**3, x)
            return pull(lib.ones_like(out))[0]

    assert lists(jvp(lib, pulled)) == [[12.0, 27.0], [12.0, 180.0]]
    assert lists(lib.func.grad(lambda x: jvp_at(lib, pulled, x).sum())(at(lib))) == [0.0, 0.0]

    def pushed(x):
        with lib.no_grad():
            return lib.func.jvp(lambda y: (y**3).sum(), (x,), (along(lib),))[1]

    assert lists(lib.func.grad(pushed)(at(lib))) == [0.0, 0.0]


def jvp_at(lib, function, x):
    return lib.func.jvp(function, (x,), (along(lib),))[1]


def test_through_the_steps_of_an_optimizer(lib):
    def trained(rate):
        w = at(lib)
        for _ in range(2):
            slope = lib.func.grad(lambda w: (w * w).sum())(w)
            with lib.no_grad():
                w = w - rate * slope
        return w

    rate = lib.tensor(0.25, dtype=lib.float64)
    # w (1 - 2 r)^2, and its derivative -4 w (1 - 2 r)
    assert lists(lib.func.jvp(trained, (rate,), (lib.ones_like(rate),))) == [[0.5, 0.75], [-4.0, -6.0]]


def test_writes_to_an_argument(lib):
    assert lists(jvp(lib, lambda x: x.mul_(2))) == [[4.0, 6.0], [2.0, 20.0]]

    def doubled(x):
        with lib.no_grad():
            x.mul_(2)
        return x * x

    assert lists(jvp(lib, doubled)) == [[16.0, 36.0], [16.0, 240.0]]


def test_writes_under_no_grad_carry_derivatives(lib):
    def parameter(x):
        q = lib.nn.Parameter(lib.ones(2, dtype=lib.float64))
        with lib.no_grad():
            q.copy_(x * 2)
        assert q.is_leaf
        assert q.requires_grad
        assert q.grad_fn is None
        return q * 3

    def parts(x):
        q = lib.zeros(2, dtype=lib.float64)
        view = q[0:1]
        with lib.no_grad():
            view.copy_(x[1:] * 2)
            q[1] = x[0]
        return q * 3, view * 1

    assert lists(jvp(lib, parameter)) == [[12.0, 18.0], [6.0, 60.0]]
    assert lists(jvp(lib, parts)) == [[[18.0, 6.0], [6.0]], [[60.0, 3.0], [20.0]]]


def test_detach_and_inference_mode_stop_it(lib):
    def inferred(x):
        with lib.inference_mode():
            return x * x

    assert lists(jvp(lib, lambda x: x.detach() * x)) == [[4.0, 9.0], [2.0, 30.0]]
    assert lists(jvp(lib, lambda x: x.data * x)) == [[4.0, 9.0], [2.0, 30.0]]
    assert lists(jvp(lib, inferred)) == [[4.0, 9.0], [0.0, 0.0]]
    with lib.inference_mode():
        assert lists(jvp(lib, still(lib, lambda x: x * x))) == [[4.0, 9.0], [4.0, 60.0]]


def test_hooks_are_not_called_on_the_way(lib):
    def hooked(x):
        y = x * x
        if y.requires_grad:
            y.register_hook(lambda g: g * 100)
        return y * x

    assert lists(jvp(lib, hooked)) == [[8.0, 27.0], [12.0, 270.0]]


def test_the_mode_ends_with_an_error_and_is_the_threads_own(lib):
    def failing(x):
        with lib.no_grad():
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        jvp(lib, failing)
    found = []

    def other(x):
        def run():
            with lib.no_grad():
                found.append((at(lib).requires_grad_() * 2).requires_grad)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return x

    jvp(lib, other)
    with lib.no_grad():
        found.append((at(lib).requires_grad_() * 2).requires_grad)
    assert found == [False, False]


# ---- dual numbers


def unpacked(lib, tensor):
    return lists(tuple(lib.autograd.forward_ad.unpack_dual(tensor)))


def test_dual_numbers_through_no_grad(lib):
    x = at(lib).requires_grad_()
    with lib.autograd.forward_ad.dual_level():
        dual = lib.autograd.forward_ad.make_dual(x, along(lib))
        y = still(lib, lambda d: d * d)(dual)
        z = y * dual
        assert not y.requires_grad
        assert z.requires_grad
        primal, tangent = lib.autograd.forward_ad.unpack_dual(z)
        assert lists((primal, tangent)) == [[8.0, 27.0], [12.0, 270.0]]
        assert lists(lib.autograd.grad(primal.sum(), x)) == [[4.0, 9.0]]
        assert lists(lib.autograd.grad(tangent.sum(), x)) == [[4.0, 60.0]]


def test_a_pass_backward_leaves_what_a_dual_number_needs(lib):
    x = at(lib).requires_grad_()
    with lib.autograd.forward_ad.dual_level():
        dual = lib.autograd.forward_ad.make_dual(x, along(lib))
        z = (dual**3).sum()
        (slope,) = lib.autograd.grad(z, x)
        assert unpacked(lib, slope) == [[12.0, 27.0], [12.0, 180.0]]
        assert unpacked(lib, z) == [35.0, 282.0]
        with pytest.raises(RuntimeError, match="second time"):
            lib.autograd.grad(z, x)


def test_a_leaf_written_under_no_grad_stays_one(lib):
    q = lib.ones(2, dtype=lib.float64, requires_grad=True)
    with lib.autograd.forward_ad.dual_level():
        dual = lib.autograd.forward_ad.make_dual(at(lib), along(lib))
        with lib.no_grad():
            q.mul_(dual)
        assert q.is_leaf
        assert q.requires_grad
        assert q.grad_fn is None
        z = q * 3
        assert unpacked(lib, z) == [[6.0, 9.0], [3.0, 30.0]]
        z.sum().backward()
        assert lists(q.grad) == [3.0, 3.0]
    assert q.is_leaf
    assert q.requires_grad
    assert q.grad_fn is None
    (q * q).sum().backward()
    assert lists(q.grad) == [7.0, 9.0]
    with pytest.raises(RuntimeError, match="leaf"):
        q.mul_(2)


def test_a_view_of_a_leaf_written_under_no_grad(lib):
    q = lib.tensor([1.0, 2.0, 3.0], dtype=lib.float64, requires_grad=True)
    view = q[1:]
    with lib.autograd.forward_ad.dual_level():
        dual = lib.autograd.forward_ad.make_dual(at(lib), along(lib))
        with lib.no_grad():
            view.mul_(dual)
        assert lists(lib.autograd.grad((q * q).sum(), q)) == [[2.0, 8.0, 18.0]]
        assert lists(lib.autograd.grad((view * 5).sum(), q)) == [[0.0, 5.0, 5.0]]
        assert unpacked(lib, q) == [[1.0, 4.0, 9.0], [0.0, 2.0, 30.0]]
        assert q.is_leaf
        assert view.requires_grad


def test_what_has_a_tangent_is_made_dual_once(lib):
    with lib.autograd.forward_ad.dual_level():
        dual = lib.autograd.forward_ad.make_dual(at(lib), along(lib))
        with pytest.raises(RuntimeError, match="already has a forward gradient"):
            lib.autograd.forward_ad.make_dual(dual * 2, along(lib))
        assert unpacked(lib, lib.autograd.forward_ad.make_dual(at(lib), at(lib))) == [[2.0, 3.0], [2.0, 3.0]]


def test_jvp_refuses_what_is_no_number(lib):
    with pytest.raises(RuntimeError, match="to return only tensors"):
        jvp(lib, lambda x: 3)
    whole = lib.tensor([1])
    with pytest.raises(ValueError, match="Expected primal to be floating point or complex"):
        lib.func.jvp(lambda x: x * 2, (whole,), (whole,))


# ---- Functions


def square(lib, kind):
    """A Function whose `jvp` gives a hundred times the derivative, so that it can be told from `backward`."""

    class Square(lib.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])
            ctx.save_for_forward(inputs[0])

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return gradient * 2 * x

        @staticmethod
        def jvp(ctx, tangent):
            (x,) = ctx.saved_tensors
            return tangent * 200 * x

    return Square.apply if kind == "plain" else still(lib, Square.apply)


@pytest.mark.parametrize("kind", ["plain", "no_grad"])
def test_a_functions_own_jvp_is_called(lib, kind):
    function = square(lib, kind)
    assert lists(jvp(lib, function)) == [[4.0, 9.0], [400.0, 6000.0]]
    assert lists(lib.func.jacfwd(function)(at(lib))) == [[400.0, 0.0], [0.0, 600.0]]
    with lib.autograd.forward_ad.dual_level():
        dual = lib.autograd.forward_ad.make_dual(at(lib), along(lib))
        assert unpacked(lib, function(dual)) == [[4.0, 9.0], [400.0, 6000.0]]


def test_what_jvp_computes_is_differentiated(lib):
    function = square(lib, "plain")
    assert lists(lib.func.grad(lambda x: jvp_at(lib, function, x).sum())(at(lib))) == [200.0, 2000.0]
    assert lists(lib.func.jvp(lib.func.grad(lambda x: function(x).sum()), (at(lib),), (along(lib),))[1]) == [2.0, 20.0]


def test_jvp_with_several_arguments_and_results(lib):
    class Both(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, times, y):
            ctx.times = times
            ctx.save_for_forward(x, y)
            ctx.save_for_backward(x)
            return x * y * times, x > 2, x + y

        @staticmethod
        def backward(ctx, *gradients):
            raise AssertionError

        @staticmethod
        def jvp(ctx, dx, dtimes, dy):
            assert dtimes is None
            x, y = ctx.saved_tensors
            return (dx * y + dy * x) * ctx.times * 100, None, dx + dy

    with lib.autograd.forward_ad.dual_level():
        dual = lib.autograd.forward_ad.make_dual(at(lib), along(lib))
        product, flags, total = Both.apply(dual, 3.0, at(lib))
        assert unpacked(lib, product) == [[12.0, 27.0], [600.0, 9000.0]]
        assert unpacked(lib, flags) == [[False, True], None]
        assert unpacked(lib, total) == [[4.0, 6.0], [1.0, 10.0]]
        assert unpacked(lib, Both.apply(dual, 3.0, dual)[0]) == [[12.0, 27.0], [1200.0, 18000.0]]


def test_a_backward_that_can_not_be_differentiated_is_an_error(lib):
    class Opaque(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        def backward(ctx, gradient):
            return lib.from_numpy((gradient * 2 * ctx.saved_tensors[0]).detach().numpy())

    with (
        lib.autograd.forward_ad.dual_level(),
        pytest.raises(NotImplementedError, match="You must implement the jvp function"),
    ):
        unpacked(lib, Opaque.apply(lib.autograd.forward_ad.make_dual(at(lib), along(lib))))


# ---- every kind of op: what is computed under no_grad has the derivatives that it has elsewhere

OPS = {
    "norm": lambda m, x: x.norm(p=1.5),
    "softmax": lambda m, x: x.softmax(0),
    "max_pool": lambda m, x: m.nn.functional.max_pool1d(x.reshape(1, 1, 2), 2),
    "index_fill": lambda m, x: m.zeros(3, dtype=m.float64).index_fill(0, m.tensor([1]), x[0]),
    "relu_": lambda m, x: m.nn.functional.relu_(x * 1),
    "elu": lambda m, x: m.nn.functional.elu(x * -1, inplace=True),
    "batch_norm": lambda m, x: m.nn.functional.batch_norm(x.reshape(2, 1), None, None, training=True),
    "std": lambda m, x: x.std(),
    "prod": lambda m, x: x.prod(),
    "sort": lambda m, x: x.sort()[0],
    "where": lambda m, x: m.where(x > 2, x * x, x),
    "cat": lambda m, x: m.cat([x, x * x]),
    "det": lambda m, x: m.linalg.det(m.diag(x) + 1),
    "svd": lambda m, x: m.linalg.svdvals(m.diag(x) + 1),
    "solve": lambda m, x: m.linalg.solve(m.diag(x) + 1, x),
    "product": lambda m, x: m.diag(x) @ m.diag(x),
    "fft": lambda m, x: m.fft.fft(x).real,
    "conv": lambda m, x: m.nn.functional.conv1d(x.reshape(1, 1, 2), x.reshape(1, 1, 2)),
    "attention": lambda m, x: m.nn.functional.scaled_dot_product_attention(*[x.reshape(1, 2, 1)] * 3),
    "setitem": lambda m, x: assigned(m.zeros(4, dtype=m.float64), x * x),
    "addcmul_": lambda m, x: m.ones(2, dtype=m.float64).addcmul_(x, x),
    "t_": lambda m, x: m.diag(x).t_(),
    "mul_": lambda m, x: x.clone().mul_(x),
    "complex": lambda m, x: m.view_as_real(m.complex(x, x * x)),
    "identity": lambda m, x: x + 0,
    "view": lambda m, x: x.reshape(2, 1),
}


def assigned(tensor, value):
    tensor[1:3] = value
    return tensor


@pytest.mark.parametrize("name", OPS)
def test_forward_through_each_kind_of_op(name):
    mt = minitensor

    def plain(x):
        return OPS[name](mt, x)

    masked = still(mt, plain)

    def both(function):
        first = jvp(mt, function)
        second = jvp(mt, lambda x: jvp_at(mt, function, x))
        return lists((first, second))

    assert both(masked) == both(plain)
    backward = mt.func.grad(lambda x: jvp_at(mt, lambda x: masked(x).sum() * x.sum(), x))(at(mt))
    # d/dx (m' sum(x) + m sum(v)), where m and m' are constants
    assert lists(backward) == pytest.approx([jvp_at(mt, plain, at(mt)).sum().item()] * 2)


DUAL_WRITES = {
    "copy": lambda lib, b, d: b.copy_(d),
    "part": lambda lib, b, d: b.__setitem__(slice(0, 1), d[:1]),
    "view": lambda lib, b, d: b[:1].mul_(d[:1]),
    "op": lambda lib, b, d: b.mul_(d).add_(1),
    "lerp": lambda lib, b, d: b.lerp_(d, 0.5),
    "index": lambda lib, b, d: b.index_copy_(0, lib.tensor([1, 0]), d),
}


@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
@pytest.mark.parametrize("write", DUAL_WRITES)
def test_a_buffer_that_is_written_with_a_dual_number_wants_no_gradient(lib, write, grad):
    ad = lib.autograd.forward_ad
    b = lib.ones(2, dtype=lib.float64)
    v = b.view(2)
    with ad.dual_level():
        d = ad.make_dual(at(lib), along(lib))
        with lib.set_grad_enabled(grad):
            DUAL_WRITES[write](lib, b, d)
        y = b * d
        inside = [(t.requires_grad, t.is_leaf, t.grad_fn) for t in (d, b, v, y)]
        assert ad.unpack_dual(b).tangent.any()
        tangent = ad.unpack_dual(y).tangent.tolist()
    after = [(t.requires_grad, t.is_leaf, t.grad_fn) for t in (d, b, v, y, b + 1, v[0], y * y)]
    assert inside == [(False, True, None)] * 4
    assert after == [(False, True, None)] * 7
    assert (b.numpy() * at(lib).numpy()).tolist() == y.tolist()
    x = lib.ones(2, dtype=lib.float64, requires_grad=True)
    (x * b * y).sum().backward()  # they are constants now
    assert x.grad.tolist() == (b * y).tolist()
    assert lib.isfinite(lib.tensor(tangent)).all()


def test_what_dual_numbers_meet_wants_its_gradient(lib):
    ad = lib.autograd.forward_ad
    w = lib.tensor([4.0, 5.0], dtype=lib.float64, requires_grad=True)
    t = along(lib).requires_grad_()
    b = w * 1
    with ad.dual_level():
        d = ad.make_dual(at(lib), t)
        b.mul_(d)
        value, tangent = ad.unpack_dual(b)
        assert (b.requires_grad, value.requires_grad, tangent.requires_grad) == (True, True, True)
        assert lists(lib.autograd.grad(tangent.sum(), (w, t), retain_graph=True)) == [[1.0, 10.0], [4.0, 5.0]]
        square = ad.unpack_dual(d * d)
        assert (square.primal.requires_grad, square.tangent.requires_grad) == (False, True)
        assert lists(lib.autograd.grad(square.tangent.sum(), t)) == [[4.0, 6.0]]
    assert lists(lib.autograd.grad(b.sum(), w)) == [[2.0, 3.0]]


def test_statistics_of_dual_numbers_hold_no_graph(lib):
    ad = lib.autograd.forward_ad
    layer = lib.nn.BatchNorm1d(2, affine=False, dtype=lib.float64)
    for _ in range(3):
        with ad.dual_level():
            x = ad.make_dual(lib.eye(2, dtype=lib.float64), lib.ones(2, 2, dtype=lib.float64))
            layer(x)
        assert (layer.running_mean.requires_grad, layer.running_mean.grad_fn) == (False, None)
    assert layer.state_dict()["running_mean"].numpy().any()


def test_dual_numbers_that_formulas_and_views_read(lib):
    ad = lib.autograd.forward_ad
    rows = lib.tensor([[1.0, 2.0], [3.0, 5.0], [4.0, 1.0]], dtype=lib.float64)
    with ad.dual_level():
        d = ad.make_dual(at(lib), along(lib))
        b = lib.zeros(2, 2, dtype=lib.float64)
        b[0].copy_(d)
        part = b.view(4)[1:3]
        assert lists(ad.unpack_dual(part)) == [[3.0, 0.0], [10.0, 0.0]]
        b[1] = d * 2  # of a base that has dual numbers, and wants no gradient
        assert lists(ad.unpack_dual(b * 1).tangent) == [[1.0, 10.0], [2.0, 20.0]]
        filled = lib.zeros(2, dtype=lib.float64)
        filled.fill_(d[0])
        assert lists(ad.unpack_dual(filled)) == [[2.0, 2.0], [1.0, 1.0]]
        layer = lib.nn.BatchNorm1d(2, affine=False, dtype=lib.float64)
        y = layer(ad.make_dual(rows, rows * rows))
        tangent = ad.unpack_dual(y).tangent
        made = lib.nn.Linear(2, 2).requires_grad_(False)
        assert not any(p.requires_grad for p in made.parameters())
    plain = lib.func.jvp(lambda x: lib.nn.functional.batch_norm(x, None, None, training=True), (rows,), (rows * rows,))
    assert lib.allclose(tangent, plain[1])
    assert tangent.abs().sum() > 0.1
    assert not (layer.running_mean.requires_grad)
    assert not (b.requires_grad)
    assert not (part.requires_grad)
    assert not (filled.requires_grad)
