"""Where a gradient would be lost without a word: tensors taken as numbers, ops without a derivative, writes in place by
functions that read what they overwrite, constructors."""

import pytest

import minitensor as mt
import minitensor.nn.functional as F


def leaf() -> mt.Tensor:
    return mt.tensor(0.5, dtype=mt.float64, requires_grad=True)


V = mt.tensor([[0.2, 1.0], [2.0, 3.0]], dtype=mt.float64)

NUMBERS = {
    "leaky_relu": lambda s: F.leaky_relu(V, s),
    "elu": lambda s: F.elu(V, s),
    "threshold": lambda s: F.threshold(V, 0.0, s),
    "layer_norm": lambda s: F.layer_norm(V, [2], eps=s),
    "attention": lambda s: F.scaled_dot_product_attention(V[None], V[None], V[None], scale=s),
    "addcmul": lambda s: mt.addcmul(V, V, V, value=s),
    "addcdiv_": lambda s: V.clone().addcdiv_(V, V, value=s),
    "addmm": lambda s: mt.addmm(V, V, V, alpha=s),
    "full": lambda s: mt.full((2,), s),
    "full_like": lambda s: mt.full_like(V, s),
    "new_full": lambda s: V.new_full((2,), s),
    "arange": lambda s: mt.arange(0.0, s, 0.1),
    "fill_diagonal_": lambda s: V.clone().fill_diagonal_(s),
    "norm": lambda s: mt.norm(V, p=s),
    "linalg.vector_norm": lambda s: mt.linalg.vector_norm(V, s),
    "renorm": lambda s: mt.renorm(V, s, 0, 1.0),
    "cdist": lambda s: mt.cdist(V, V, p=s),
    "std": lambda s: mt.std(V, correction=s),
    "isclose": lambda s: mt.isclose(V, V, rtol=s),
    "trapezoid": lambda s: mt.trapezoid(V, dx=s),
    "histc": lambda s: mt.histc(V, min=s, max=3.0),
    "nan_to_num": lambda s: mt.nan_to_num(V, nan=s),
    "pad": lambda s: F.pad(V, (1, 1), value=s),
    "interpolate": lambda s: F.interpolate(V[None], scale_factor=s),
    "bernoulli": lambda s: mt.bernoulli(V, s),
    "normal": lambda s: mt.normal(s, 1.0, (2,)),
    "normal_": lambda s: V.clone().normal_(s, 1.0),
    "uniform_": lambda s: V.clone().uniform_(s, 1.0),
    "exponential_": lambda s: V.clone().exponential_(s),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_tensor_that_requires_grad_is_no_number(name: str) -> None:
    with pytest.raises(TypeError, match=r"argument '\w+'( \(position \d\))? must be (Number|float), not Tensor"):
        NUMBERS[name](leaf())
    NUMBERS[name](leaf().detach())


def test_fill_with_a_tensor_has_a_gradient() -> None:
    weights = mt.arange(1.0, 5.0).reshape(2, 2)
    for fill in (lambda x, s: x.fill_(s), mt.fill, lambda x, s: x.fill_(value=s * 2) / 2):
        s, x = leaf(), V.clone().requires_grad_()
        (fill(x * 1, s) * weights).sum().backward()
        assert s.grad.item() == 10
        assert x.grad.tolist() == [[0, 0], [0, 0]]
    with pytest.raises(RuntimeError, match="0-dimension"):
        V.clone().fill_(leaf().expand(2))


def _torch_numbers() -> mt.Generator:
    mt.random.use("torch")
    try:
        return mt.Generator().manual_seed(0)
    finally:
        mt.random.use("philox")


SQUARE = mt.tensor([[2.0, 0.5], [0.5, 3.0]], dtype=mt.float64)
UNDERIVED = {
    "heaviside": lambda x: mt.heaviside(x, V),
    "heaviside of values": lambda x: mt.heaviside(V, x),
    "heaviside_": lambda x: (x * 1).heaviside_(V),
    "geqrf": lambda x: mt.geqrf(x)[0],
    "histogram": lambda x: mt.histogram(x, 3)[0],
    "histogram of weights": lambda x: mt.histogram(V, 3, weight=x)[0],
    "histogramdd": lambda x: mt.histogramdd(x, [3, 3])[0],
    "bincount": lambda x: mt.bincount(mt.tensor([0, 1]), x[0]),
    "ldl_factor": lambda x: mt.linalg.ldl_factor(x)[0],
    "ldl_solve": lambda x: mt.linalg.ldl_solve(SQUARE, mt.tensor([1, 2], dtype=mt.int32), x),
    "binomial": lambda x: mt.binomial(V.round(), x / 4, _torch_numbers()),
}


@pytest.mark.parametrize("name", UNDERIVED)
def test_what_has_no_derivative_says_so_in_the_backward_pass(name: str) -> None:
    out = UNDERIVED[name](SQUARE.clone().requires_grad_())
    assert out.requires_grad
    with pytest.raises(NotImplementedError, match=r"derivative for '.*' is not implemented"):
        out.sum().backward()
    assert not UNDERIVED[name](SQUARE).requires_grad


@pytest.mark.parametrize("make", [mt.distributions.Gamma, mt.distributions.Beta], ids=["gamma", "beta"])
def test_samples_have_no_second_derivative(make: type) -> None:
    x = SQUARE.clone().requires_grad_()
    (g,) = mt.autograd.grad(make(x, x).rsample().sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError):
        g.sum().backward()


def test_gradients_of_means_rates_and_overwritten_tensors_are_zero() -> None:
    mean, std = V.clone().requires_grad_(), V.clone().requires_grad_()
    rate = mt.tensor([1.0, mt.inf], dtype=mt.float64, requires_grad=True)
    drawn = mt.normal(mean, std) + mt.normal(mean, 1.0) + mt.normal(0.0, std)
    (drawn.sum() + mt.poisson(rate[:1]).sum()).backward()
    assert mean.grad.tolist() == std.grad.tolist() == [[0, 0], [0, 0]]
    assert rate.grad.tolist() == [0, 0]
    assert mt.normal(rate, 1.0)[1] == mt.inf
    for write in (lambda y: y.normal_(), lambda y: y.uniform_(), lambda y: y.bernoulli_(), lambda y: y.random_(),
                  lambda y: y.exponential_(), lambda y: y.eq_(V[0]), lambda y: y.logical_not_()):  # fmt: skip
        x = V.clone().requires_grad_()
        y = x * 1
        write(y[0])  # a part, whose gradient ends there
        y.sum().backward()
        assert x.grad.tolist() == [[0, 0], [1, 1]]
        with pytest.raises(RuntimeError, match="leaf"):
            write(x)


def test_binomial_of_philox_numbers_is_refused_at_once() -> None:
    with pytest.raises(NotImplementedError, match="binomial"):
        mt.binomial(V.round(), SQUARE.clone().requires_grad_() / 4)


def test_numbers_and_a_size_give_a_tensor_of_that_size() -> None:
    assert mt.normal(mt.tensor(0.5), mt.tensor(1.0), (2, 3)).shape == (2, 3)


READ_AND_OVERWRITTEN = {
    "clamp": lambda s: (s,),
    "clamp_min": lambda s: (s,),
    "clamp_max": lambda s: (s,),
    "float_power": lambda s: (s,),
    "ldexp": lambda s: (s,),
    "logit": lambda s: (),
    "nan_to_num": lambda s: (),
    "polygamma": lambda s: (1,),
    "renorm": lambda s: (2, 0, 0.3),
    "lerp": lambda s: (V + 1j * V, s),
    "put": lambda s: (mt.tensor([0, 3]), s.expand(2)),
}


@pytest.mark.parametrize("name", [*READ_AND_OVERWRITTEN, "div"])
def test_in_place_form_has_the_gradients_of_the_function(name: str) -> None:
    found = []
    for ending in ("", "_"):
        x, s = (V / 4).requires_grad_(), leaf()
        y = x + 1j * x if name == "lerp" else x * 1
        more = {"rounding_mode": "trunc"} if name == "div" else {}
        out = getattr(y, name + ending)(*READ_AND_OVERWRITTEN.get(name, lambda s: (s,))(s), **more)
        assert (out is y) == (ending == "_")
        out.abs().pow(2).sum().backward()
        found.append((x.grad.tolist(), s.grad if s.grad is None else s.grad.item()))
    assert found[0] == found[1]


class Sub(mt.Tensor):
    pass


MADE = {
    "Tensor": mt.Tensor,
    "DoubleTensor": mt.DoubleTensor,
    "subclass": Sub,
    "new": lambda x: x.new(x),
    "asarray": lambda x: mt.asarray(x, copy=True),
    "asarray of another dtype": lambda x: mt.asarray(x, dtype=mt.float32, copy=True),
}


@pytest.mark.parametrize("name", MADE)
def test_tensors_made_of_a_tensor_have_its_history(name: str) -> None:
    x = V.clone().requires_grad_()
    made = MADE[name](x)
    assert made.requires_grad
    assert not made.is_leaf
    assert (made.data_ptr() == x.data_ptr()) == ("asarray" not in name)
    (made * 3).sum().backward()
    assert x.grad.tolist() == [[3, 3], [3, 3]]
    assert MADE[name](V).is_leaf


def test_constructors_of_another_kind() -> None:
    x = V.clone().requires_grad_()
    plain = mt.Tensor._make_subclass(Sub, x)
    assert (type(plain), plain.requires_grad, plain.data_ptr()) == (Sub, False, x.data_ptr())
    assert mt.Tensor._make_subclass(Sub, x, True).requires_grad
    with pytest.raises(TypeError, match="expected"):
        x.new(V.int())
    with pytest.raises(RuntimeError, match="device"):
        mt.Tensor(x, device="cpu")


def test_bytes_as_another_dtype_have_no_gradient() -> None:
    y = V.clone().requires_grad_() * 1
    out = y.sigmoid()
    for dtype in (mt.float32, mt.complex128, mt.int64):
        seen = y.view(dtype)
        assert not seen.requires_grad
        assert seen._base is None
    out.view(mt.int64).zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


ARGUMENTS = {
    "add": lambda x, t: x.add(x, alpha=t),
    "add_": lambda x, t: x.add_(x, alpha=t),
    "sub": lambda x, t: x.sub(x, alpha=t),
    "rsub": lambda x, t: mt.rsub(x, x, alpha=t),
    "addmv": lambda x, t: mt.addmv(x[0], x, x[0], alpha=t),
    "addr": lambda x, t: mt.addr(x, x[0], x[0], beta=t),
    "baddbmm": lambda x, t: mt.baddbmm(x[None], x[None], x[None], alpha=t),
    "index_add": lambda x, t: x.index_add(0, mt.tensor([0, 1]), x, alpha=t),
    "logspace": lambda x, t: mt.logspace(0, 1, 2, base=t),
    "dropout": lambda x, t: mt.nn.functional.dropout(x, t),
    "normalize": lambda x, t: mt.nn.functional.normalize(x, p=t),
    "cross_entropy": lambda x, t: mt.nn.functional.cross_entropy(x, mt.tensor([0, 1]), label_smoothing=t),
    "poisson_nll_loss": lambda x, t: mt.nn.functional.poisson_nll_loss(x, x, eps=t),
    "foreach_add": lambda x, t: mt._foreach_add([x], [x], alpha=t)[0],
    "foreach_sub_": lambda x, t: mt._foreach_sub_([x], [x], alpha=t)[0],
    "sparse.addmm": lambda x, t: mt.sparse.addmm(x, x.to_sparse(), x, alpha=t),
    "sparse add": lambda x, t: mt.add(x, x.to_sparse(), alpha=t),
    "scatter": lambda x, t: x.scatter(0, mt.tensor([[0]]), value=t),
    "pdist": lambda x, t: mt.pdist(x, t),
    "pairwise_distance": lambda x, t: F.pairwise_distance(x, x, p=t),
    "multi_margin_loss": lambda x, t: F.multi_margin_loss(x, mt.tensor([0, 1]), margin=t),
    "batch_norm": lambda x, t: F.batch_norm(x, mt.zeros(2), mt.ones(2), training=True, momentum=t),
    "embedding": lambda x, t: F.embedding(mt.tensor([0]), x, max_norm=t),
    "matrix_norm": lambda x, t: mt.linalg.matrix_norm(x, 2 * t.ceil() if isinstance(t, mt.Tensor) else 2),
    "cond": lambda x, t: mt.linalg.cond(x + mt.eye(2), 2 * t.ceil() if isinstance(t, mt.Tensor) else 2),
    "histogram": lambda x, t: mt.histogram(x, 3, range=(t, 5.0))[0],
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_numbers_that_require_grad_are_refused_whatever_their_value(name):
    """One times something is that, without what the one has to do with it."""
    x = mt.full((2, 2), 0.5)
    with pytest.raises(TypeError, match=r"must be (Number|float), not Tensor"):
        ARGUMENTS[name](x.clone(), mt.tensor(1.0, requires_grad=True))
    for value in (1.0, 0.5):
        expected = ARGUMENTS[name](x.clone(), value)
        if "dropout" not in name:
            assert mt.equal(ARGUMENTS[name](x.clone(), mt.tensor(value)), expected)


WHOLE = {
    "conv2d": lambda x, n: F.conv2d(x, x[:, :, :2, :2], stride=(n, 1)),
    "avg_pool2d": lambda x, n: F.avg_pool2d(x, (n, 2)),
    "adaptive_avg_pool2d": lambda x, n: F.adaptive_avg_pool2d(x, (n, 1)),
    "max_unpool2d": lambda x, n: F.max_unpool2d(x, x.long(), 2, output_size=(n * 4, 8)),
    "interpolate": lambda x, n: F.interpolate(x, size=(n, 4)),
    "pad": lambda x, n: F.pad(x, (n, 1)),
    "split": lambda x, n: x.split((n, 2), 2)[0],
    "diff": lambda x, n: x.diff(n),
    "gradient": lambda x, n: mt.gradient(x[0, 0], edge_order=n)[0],
    "bincount": lambda x, n: mt.bincount(mt.tensor([0]), minlength=n),
    "one_hot": lambda x, n: F.one_hot(mt.tensor([0]), n),
    "matrix_power": lambda x, n: mt.linalg.matrix_power(x, n),
    "round": lambda x, n: x.round(decimals=n),
    "ctc_loss": lambda x, n: F.ctc_loss(x[0, 0][:, None].log_softmax(-1), mt.tensor([1]), (n,), (1,)),
    "randint_like": lambda x, n: mt.randint_like(x, n) * 0,
}


@pytest.mark.parametrize("name", WHOLE)
def test_sizes_and_orders_are_whole_numbers(name):
    """Nothing behind the point is dropped, and no gradient."""
    x = mt.arange(16.0).reshape(1, 1, 4, 4) / 16
    expected = WHOLE[name](x, 2)
    assert mt.equal(WHOLE[name](x, mt.tensor(2)), expected)
    for wrong in (2.5, 2.0, mt.tensor(2.0), mt.tensor(2.0, requires_grad=True)):
        with pytest.raises(TypeError, match=r"must be (tuple of ints|int)"):
            WHOLE[name](x, wrong)


def test_attention_keeps_no_weights_of_a_chance_that_requires_grad():
    x = mt.ones(1, 2, 2)
    for value in (0.0, 0.5):
        with pytest.raises(TypeError, match="argument 'dropout_p' must be float, not Tensor"):
            F.scaled_dot_product_attention(x, x, x, dropout_p=mt.tensor(value, requires_grad=True))


@pytest.mark.parametrize(
    ("shape", "wrap", "kept"),
    [
        ((2, 3), False, [[0, 1, 1], [1, 0, 1]]),
        ((2, 2, 2), False, [[[0, 1], [1, 1]], [[1, 1], [1, 0]]]),
        ((5, 2), True, [[0, 1], [1, 0], [1, 1], [0, 1], [1, 0]]),
    ],
)
def test_a_filled_diagonal_has_no_gradient(shape: tuple[int, ...], wrap: bool, kept: list) -> None:
    x = mt.ones(shape, requires_grad=True)
    y = x * 3
    older = y[0]
    assert y.fill_diagonal_(2.0, wrap) is y
    (y * y).sum().backward(retain_graph=True)
    assert x.grad.tolist() == (mt.tensor(kept) * 18.0).tolist()
    x.grad = None
    older.sum().backward()  # a view that was made before
    assert x.grad[0].tolist() == (mt.tensor(kept[0]) * 3.0).tolist()
    assert not x.grad[1:].any()
    with pytest.raises(RuntimeError, match="leaf"):
        x.fill_diagonal_(2.0, wrap)
    assert x.tolist() == mt.ones(shape).tolist()
