"""vmap gives what a loop over the examples gives, and says what it can't do."""

import numpy as np
import pytest

import minitensor as mt
from minitensor import vmap


def example(*shape, seed=0):
    return mt.tensor(np.random.default_rng(seed).normal(size=shape))


def looped(function, *args):
    return np.stack([function(*(a[i] for a in args)).numpy() for i in range(args[0].shape[0])])


FUNCTIONS = {
    "elementwise": lambda x: mt.exp(x) * 2 + x / 3,
    "sum": lambda x: x.sum(),
    "sum of a dim": lambda x: x.sum(-1, keepdim=True),
    "mean": lambda x: x.mean((0, 1)),
    "amax": lambda x: x.amax(1),
    "max": lambda x: x.max(1).values,
    "argmax": lambda x: x.argmax(),
    "argmax of a dim": lambda x: x.argmax(-1, keepdim=True),
    "softmax": lambda x: x.softmax(-1),
    "transpose": lambda x: x.t() * 1,
    "permute": lambda x: x.permute(1, 0),
    "reshape": lambda x: x.reshape(-1),
    "flatten": lambda x: x.transpose(0, 1).flatten(),
    "indexing": lambda x: x[0] + x[1:, 1:2],
    "unsqueeze": lambda x: x.unsqueeze(-1).squeeze(),
    "expand": lambda x: x[0].expand(5, 4),
    "cat": lambda x: mt.cat([x, mt.zeros(1, 4, dtype=mt.float64)]),
    "stack": lambda x: mt.stack([x, x], -1),
    "matmul": lambda x: x @ x.t(),
    "vector": lambda x: x @ x[0],
    "dot": lambda x: x[0] @ x[1],
    "sort": lambda x: x.sort(0).indices,
    "cumsum": lambda x: x.cumsum(1),
    "where": lambda x: mt.where(x > 0, x, 0.0),
    "tril": lambda x: x.tril(),
    "gather": lambda x: x.gather(1, mt.tensor([[0], [1], [0]])),
    "index_select": lambda x: x.index_select(1, mt.tensor([2, 0])),
    "split": lambda x: mt.cat(x.split(2, 1)[::-1], 1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_against_a_loop(name, dim):
    x = example(5, 3, 4)
    mapped = vmap(FUNCTIONS[name], in_dims=dim)(x.movedim(0, dim))
    np.testing.assert_allclose(mapped.numpy(), looped(FUNCTIONS[name], x), rtol=1e-12)


def test_several_arguments():
    x, y = example(5, 3), example(5, 3, seed=1)
    assert np.allclose(vmap(lambda a, b: a @ b)(x, y).numpy(), (x * y).sum(1).numpy())
    assert np.allclose(vmap(lambda a, b: a + b, in_dims=(0, None))(x, y[0]).numpy(), (x + y[0]).numpy())
    assert np.allclose(vmap(lambda d: d["a"] * d["b"], in_dims=({"a": 0, "b": None},))({"a": x, "b": y[0]}).numpy(),
                       (x * y[0]).numpy())  # fmt: skip


def test_products_of_vectors_and_matrices():
    v, m = example(5, 3), example(5, 3, 4, seed=1)
    for wanted, made in (
        ("bi,bij->bj", vmap(mt.matmul)(v, m)),
        ("i,bij->bj", vmap(mt.matmul, (None, 0))(v[0], m)),
        ("bi,ij->bj", vmap(mt.matmul, (0, None))(v, m[0])),
        ("bji,bi->bj", vmap(mt.matmul)(m.mT, v)),
        ("bi,bi->b", vmap(mt.matmul)(v, v)),
    ):
        first, second = wanted.split("->")[0].split(",")
        a = {"bi": v, "i": v[0], "bji": m.mT}[first]
        b = {"bij": m, "ij": m[0], "bi": v}[second]
        np.testing.assert_allclose(made.numpy(), np.einsum(wanted, a.numpy(), b.numpy()))


def test_out_dims_and_structures():
    x = example(5, 3)
    swapped, whole = vmap(lambda a: (a * 2, {"sum": a.sum()}), out_dims=(1, 0))(x)
    assert swapped.shape == (3, 5)
    assert whole["sum"].shape == (5,)
    assert vmap(lambda a: mt.ones(2))(x).shape == (5, 2)


def test_out_dims_count_from_both_ends():
    x = example(5, 3, 2)
    for place in range(-3, 3):
        made = vmap(lambda a: a * 2, out_dims=place)(x)
        assert made.tolist() == (x * 2).movedim(0, place).tolist()
    for place in (-4, 3):
        with pytest.raises(IndexError, match=rf"expected to be in range of \[-3, 2\], but got {place}"):
            vmap(lambda a: a * 2, out_dims=place)(x)
    assert mt._C.vmap_depth() == 0


def test_nested():
    x, y = example(3, 4), example(5, 4, seed=1)
    outer = vmap(lambda a: vmap(lambda b: a @ b)(y))(x)
    assert np.allclose(outer.numpy(), (x @ y.t()).numpy())
    assert np.allclose(vmap(vmap(mt.exp, in_dims=1), in_dims=1)(x[None]).numpy(), x.exp().numpy()[..., None])


def test_chunks():
    x = example(7, 3)
    for size in (1, 2, 7, 9):
        assert vmap(lambda a: a.sum(), chunk_size=size)(x).tolist() == x.sum(1).tolist()


def test_in_place():
    def function(a):
        b = a.clone()
        b[0] = 5
        b[1:] *= 2
        return b.add_(a)

    x = example(5, 3)
    assert np.allclose(vmap(function)(x).numpy(), looped(function, x))
    given = x.clone()
    vmap(lambda a: a.zero_())(given)
    assert given.sum().item() == 0
    with pytest.raises(RuntimeError, match="vmap: inplace arithmetic"):
        vmap(lambda a: mt.zeros(3, dtype=mt.float64).add_(a))(x)


def test_views_by_strides():
    """They are views, of each slice's own memory, and their offsets are those of slices."""
    x = mt.arange(24.0).reshape(4, 6)

    def strided(v):
        return v.as_strided((2, 2), (3, 1), 1), v[2:].as_strided((2,), (1,)), v[2:].as_strided((2,), (2,), 3)

    for got, want in zip(vmap(strided)(x), zip(*(strided(row.clone()) for row in x), strict=True), strict=True):
        np.testing.assert_array_equal(got, mt.stack(want))

    def written(v):
        v = v.clone()
        v.as_strided((2,), (2,), 1).mul_(-1.0)
        return v

    np.testing.assert_array_equal(vmap(written)(x), mt.stack([written(row) for row in x]))
    np.testing.assert_array_equal(vmap(vmap(written))(x.reshape(2, 2, 6)).reshape(4, 6), vmap(written)(x))


@pytest.mark.parametrize(
    "change",
    [
        lambda y: y.t_(),
        lambda y: y.unsqueeze_(1),
        lambda y: y.transpose_(0, 1)[1:].mul_(2.0),
        lambda y: y.unsqueeze_(0).squeeze_(),
        lambda y: y.as_strided_((2, 3), (1, 2), 1),
    ],
)
def test_tensors_that_become_views_of_themselves(change):
    x = mt.arange(24.0).reshape(2, 3, 4)

    def changed(v):
        y = v * 1.0
        change(y)
        return y

    def summed(v):
        y = changed(v)
        return (y * y * mt.arange(float(y.numel())).reshape(y.shape)).sum()

    for function in (changed, mt.func.grad(summed), vmap(lambda row: row.unsqueeze_(0).squeeze_() * 2.0)):
        np.testing.assert_array_equal(vmap(function)(x.clone()), mt.stack([function(each) for each in x.clone()]))


def test_writes_to_what_gradients_need():
    """They are noticed, whether they go to the whole or to a part."""

    def of_whole(v):
        y = v * 1.0
        loss = (y * y).sum()
        y[0].mul_(2.0)
        return loss

    def of_part(v):
        y = v * 1.0
        loss = (y[1:] * y[1:]).sum()
        y.mul_(2.0)
        return loss

    for function in (of_whole, of_part):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            vmap(mt.func.grad(function))(mt.ones(3, 4))


def test_type_promotion_of_numbers():
    # A slice without dimensions gives way to one with them.
    x, y = mt.ones(3, dtype=mt.float64), mt.ones(3, 2)
    assert vmap(lambda a, b: a * b)(x, y).dtype is mt.float32


def test_gradients_through_it():
    x = example(4, 3).requires_grad_()
    vmap(lambda a: (a * a).sum().exp())(x).sum().backward()
    expected = 2 * x.detach() * (x.detach() ** 2).sum(1, keepdim=True).exp()
    assert np.allclose(x.grad.numpy(), expected.numpy())


def test_randomness():
    x = mt.zeros(4, 3)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(lambda a: a + mt.rand(3))(x)
    same = vmap(lambda a: a + mt.rand(3), randomness="same")(x)
    different = vmap(lambda a: a + mt.rand(3), randomness="different")(x)
    assert len({tuple(row) for row in same.tolist()}) == 1
    assert len({tuple(row) for row in different.tolist()}) == 4


def test_randomness_after_a_function_three_levels_in():
    class Double(mt.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g * 2

    one = vmap(lambda a: Double.apply(a) + mt.rand(()), randomness="different")
    drawn = vmap(vmap(one, randomness="same"), randomness="different")(mt.zeros(2, 3, 4)).numpy()
    assert (drawn == drawn[:, :1]).all()
    assert len(set(drawn[:, 0].ravel().tolist())) == 8


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: vmap(lambda a: a)(1), ValueError, "We cannot vmap over non-Tensor arguments"),
        (lambda: vmap(lambda a: a, in_dims=3)(mt.ones(2)), ValueError, "expected in_dim to satisfy -1 <= in_dim < 1"),
        (lambda: vmap(mt.add)(mt.ones(2), mt.ones(3)), ValueError, "Expected all tensors to have the same size"),
        (lambda: vmap(lambda a: 1)(mt.ones(2)), ValueError, "must only return Tensors"),
        (lambda: vmap(lambda: 1)(), ValueError, "got no inputs"),
        (lambda: vmap(mt.exp, randomness="x")(mt.ones(2)), RuntimeError, "Only allowed values for randomness"),
        (lambda: vmap(lambda a: a.nonzero())(mt.ones(2, 2)), RuntimeError, "the op 'nonzero' has no rule"),
        (lambda: vmap(lambda a: a.item())(mt.ones(2)), RuntimeError, "has no value of its own"),
    ],
)
def test_wrong_calls(call, error, message):
    with pytest.raises(error, match=message):
        call()
    assert mt._C.vmap_depth() == 0


def test_batched_gradients():
    x = example(3).requires_grad_()
    y = x.exp() * x.sum()
    units = mt.eye(3, dtype=mt.float64)
    (rows,) = mt.autograd.grad(y, x, units, is_grads_batched=True, retain_graph=True)
    for i in range(3):
        (row,) = mt.autograd.grad(y, x, units[i], retain_graph=True)
        assert np.allclose(rows[i].numpy(), row.numpy())


# ---- writes to what is made for the slices


@pytest.mark.parametrize(
    "write",
    [
        lambda x: mt.zeros_like(x).add_(x),
        lambda x: mt.empty_like(x).copy_(x),
        lambda x: x.new_zeros(2).copy_(x),
        lambda x: x.new_empty(2).copy_(x),
        lambda x: x.new_full((2,), 3.0).sub_(3).add_(x),
        lambda x: mt.add(x, 0, out=x.new_ones(2)),
        lambda x: mt.add(x, 0, out=x.clone().zero_()),
        lambda x: mt.sort(x, 0, out=(mt.zeros_like(x), mt.zeros_like(x).long()))[0],
        lambda x: mt.cat([x[:1], x[1:]], out=mt.zeros_like(x)),
    ],
)
def test_slices_are_written_where_they_belong(write):
    x = mt.arange(6.0).view(3, 2)
    assert mt.vmap(write)(x).tolist() == x.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]


def test_items_of_what_is_made_like_a_slice():
    def swapped(x):
        made = mt.zeros_like(x)
        made[0] = x.sum()
        made[1:] = x[:1]
        return made

    assert mt.vmap(swapped)(mt.arange(4.0).view(2, 2)).tolist() == [[1.0, 0.0], [5.0, 2.0]]
    nested = mt.vmap(mt.vmap(swapped))(mt.arange(4.0).view(1, 2, 2))
    assert nested.tolist() == [[[1.0, 0.0], [5.0, 2.0]]]


def test_slices_have_no_storage_to_change():
    for use in (lambda x: x.clone().resize_(1), lambda x: x.untyped_storage().fill_(3), lambda x: x.storage()):
        with pytest.raises(RuntimeError, match="vmap"):
            mt.vmap(use)(mt.ones(3, 2))


# ---- Functions


def functions(lib):
    class Product(lib.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y, power):
            return x * y, (x + y).exp()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs[:2], output[1])
            ctx.power = inputs[2]

        @staticmethod
        def backward(ctx, g, h):
            x, y, e = ctx.saved_tensors
            return g * y + h * e * ctx.power, g * x + h * e, None

    return Product


@pytest.mark.parametrize("name", ["minitensor", "torch"])
def test_gradients_go_through_functions_inside_and_outside(name):
    lib = mt if name == "minitensor" else pytest.importorskip("torch")
    func, product = lib.func, functions(lib)
    x, y = lib.arange(6.0).view(3, 2) / 5, lib.tensor([0.5, 2.0])

    def one(x, y):
        a, b = product.apply(x, y, 3)
        return (a * b).sum()

    def mapped(x, y):
        return func.vmap(one, in_dims=(0, None))(x, y).sum()

    def summed(x, y):
        return sum(one(x[i], y) for i in range(3))

    for argument in (0, 1):
        expected = func.grad(summed, argnums=argument)(x, y)
        assert lib.allclose(func.grad(mapped, argnums=argument)(x, y), expected)
        leaves = [x.clone().requires_grad_(), y.clone().requires_grad_()]
        mapped(*leaves).backward()
        assert lib.allclose(leaves[argument].grad, expected)
    inside = func.vmap(func.grad(one, argnums=(0, 1)), in_dims=(0, None))(x, y)
    assert lib.allclose(inside[0], func.grad(summed)(x, y))
    assert lib.allclose(inside[1].sum(0), func.grad(summed, argnums=1)(x, y))

    def outside_of_inside(y):
        return func.vmap(func.grad(lambda x: product.apply(x, y, 3)[1].sum()))(x).sum()

    assert lib.allclose(func.grad(outside_of_inside)(y), 3 * (x + y).exp().sum(0))


@pytest.mark.parametrize("name", ["minitensor", "torch"])
def test_a_function_may_have_its_own_rule(name):
    lib = mt if name == "minitensor" else pytest.importorskip("torch")
    seen = []

    class Own(lib.autograd.Function):
        @staticmethod
        def forward(x, k):
            return x * k

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.k = inputs[1]

        @staticmethod
        def backward(ctx, g):
            return g * ctx.k, None

        @staticmethod
        def vmap(info, in_dims, x, k):
            seen.append((info.batch_size, info.randomness, in_dims, tuple(x.shape)))
            return Own.apply(x, k), in_dims[0]

    x = lib.arange(6.0).view(2, 3)
    assert lib.func.vmap(lambda x: Own.apply(x, 5))(x).tolist() == (x * 5).tolist()
    assert seen == [(2, "error", (0, None), (2, 3))]
    assert lib.func.grad(lambda x: lib.func.vmap(lambda x: Own.apply(x, 5))(x).sum())(x).tolist() == [[5.0] * 3] * 2
    assert lib.func.vmap(lib.func.grad(lambda x: Own.apply(x, 5).sum()))(x).tolist() == [[5.0] * 3] * 2
    assert len(seen) == 3


@pytest.mark.parametrize("name", ["cholesky", "inv", "lu_factor", "ldl_factor"])
def test_factorizations_look_at_all_matrices(name):
    function = getattr(mt.linalg, name)
    one = mt.eye(3) * 3 + 1
    given = mt.stack([mt.stack([one, one * 2]), mt.stack([one * 3, one * 4])])
    first = lambda a: function(a) if name in ("cholesky", "inv") else function(a)[0]  # noqa: E731
    assert mt.equal(mt.func.vmap(first)(given[0]), first(given[0]))
    assert mt.equal(mt.func.vmap(mt.func.vmap(first))(given), first(given))
    with pytest.raises(RuntimeError, match="Batch element 1"):
        mt.func.vmap(first)(mt.stack([one, mt.zeros(3, 3)]))


@pytest.mark.parametrize(
    "written",
    [
        lambda a, b: a.mul_(b),
        lambda a, b: a.pow_(b),
        lambda a, b: a.sin_(),
        lambda a, b: a.addcmul_(a, b),
        lambda a, b: a.cumprod_(0),
        lambda a, b: a[1:].div_(b[1:]),
    ],
)
def test_gradients_of_writes_in_place_read_what_was_there(written):
    def function(row):
        copy = row * 1.5
        written(copy, row)
        return copy

    x = (mt.arange(6.0).view(2, 3) + 1).requires_grad_()
    (mt.func.vmap(function)(x) * x.detach()).sum().backward()
    expected = mt.autograd.grad((mt.stack([function(row) for row in x]) * x.detach()).sum(), x)[0]
    assert x.grad.tolist() == expected.tolist()
    tangent = mt.ones(2, 3)
    forward = mt.func.jvp(mt.func.vmap(function), (x.detach(),), (tangent,))[1]
    alone = [mt.func.jvp(function, (row,), (ones,))[1] for row, ones in zip(x.detach(), tangent, strict=True)]
    np.testing.assert_allclose(forward.numpy(), mt.stack(alone).numpy(), rtol=1e-6)


@pytest.mark.parametrize("layout", [lambda a: a * 1.5, lambda a: (a * 1.5).t().clone().t()])
def test_gradients_inside_of_writes_to_views(layout):
    def function(m):
        copy = layout(m)
        copy[1:].mul_(m[1:])
        return copy.sum()

    x = mt.arange(18.0).view(2, 3, 3) + 1
    found = mt.func.vmap(mt.func.grad(function))(x)
    assert found.tolist() == mt.stack([mt.func.grad(function)(m) for m in x]).tolist()
    second = mt.func.vmap(mt.func.hessian(function))(x)
    assert second.tolist() == mt.stack([mt.func.hessian(function)(m) for m in x]).tolist()


@pytest.mark.parametrize("name", ["minitensor", "torch"])
def test_what_a_functions_own_rule_gives_for_all_slices_keeps_its_history(name):
    lib = mt if name == "minitensor" else pytest.importorskip("torch")
    weight = lib.tensor([1.0, 2.0], requires_grad=True)

    class Own(lib.autograd.Function):
        @staticmethod
        def forward(x):
            return x, x

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, *gradients):
            return gradients[0]

        @staticmethod
        def vmap(info, in_dims, x):
            return given(x)

    x = lib.arange(6.0).view(3, 2)
    given = lambda x: ((weight * 2, x * weight), (None, 0))  # noqa: E731
    shared, mapped = lib.func.vmap(Own.apply)(x)
    assert shared.tolist() == [[2.0, 4.0]] * 3
    assert lib.autograd.grad(shared.sum() + mapped.sum(), weight)[0].tolist() == [6.0 + 6.0, 6.0 + 9.0]
    given = lambda x: (weight, None)  # noqa: E731
    assert lib.autograd.grad(lib.func.vmap(Own.apply)(x).sum(), weight)[0].tolist() == [3.0, 3.0]
    given = lambda x: (weight.detach(), None)  # noqa: E731
    assert not lib.func.vmap(Own.apply)(x).requires_grad
    for wrong in (5, None, (x,), (x, 0, 0)):
        given = lambda x, wrong=wrong: wrong  # noqa: E731
        with pytest.raises(RuntimeError, match="to have two returns"):
            lib.func.vmap(Own.apply)(x)
