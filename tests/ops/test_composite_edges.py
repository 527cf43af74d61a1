"""Corners of composed functions, with PyTorch too where it is installed: the expected values are its own."""

import math

import pytest

import minitensor as mt


@pytest.fixture(params=["minitensor", "torch"])
def lib(request):
    return pytest.importorskip(request.param)


@pytest.mark.parametrize(
    ("n", "before", "after", "rows"),
    [
        (0, 3, None, 3),
        (0, 0, 2, 3),
        (1, 0, None, 2),
        (1, 0, 0, 2),
        (1, 1, 2, 5),
        (2, 0, 2, 3),
        (5, 0, 0, 0),
        (3, 1, 0, 1),
    ],
)
def test_diff_of_what_is_put_around(lib, n, before, after, rows):
    x = lib.tensor([[1.0, 2.0], [4.0, 8.0], [9.0, 1.0]])
    around = [None if k is None else lib.zeros(k, 2) for k in (before, after)]
    assert tuple(lib.diff(x, n=n, dim=0, prepend=around[0], append=around[1]).shape) == (rows, 2)
    assert lib.diff(x, n=0, dim=0, prepend=around[0]).tolist() == x.tolist()


def test_random_draws_pass_a_gradient_of_zero_to_their_probabilities(lib):
    p = lib.tensor([0.0, 1.0, 0.5], requires_grad=True)
    drawn = lib.bernoulli(p)
    assert drawn.tolist()[:2] == [0.0, 1.0]
    assert drawn.grad_fn is not None
    drawn.sum().backward()
    assert p.grad.tolist() == [0.0, 0.0, 0.0]
    x = lib.ones(3, requires_grad=True)
    y = x * 1
    y.bernoulli_(p)
    y.sum().backward()
    assert (x.grad.tolist(), p.grad.tolist()) == ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0])
    assert lib.bernoulli(p, 0.5).requires_grad
    with lib.no_grad():
        assert not lib.bernoulli(p).requires_grad


def test_fractional_pooling_of_nothing(lib):
    functional = lib.nn.functional
    for rank, function in ((2, functional.fractional_max_pool2d), (3, functional.fractional_max_pool3d)):
        result, indices = function(lib.ones(0, 2, *[6] * rank), 2, output_size=3, return_indices=True)
        assert tuple(result.shape) == tuple(indices.shape) == (0, 2, *[3] * rank)
        with pytest.raises(RuntimeError, match="non-zero size for non-batch dimensions"):
            function(lib.ones(2, 0, *[6] * rank), 2, output_size=3)


def test_division_by_its_old_names(lib):
    x = lib.tensor([2.0, 4.0])
    assert (x.__rdiv__(8).tolist(), x.__div__(2).tolist()) == ([4.0, 2.0], [1.0, 2.0])
    assert x.__idiv__(2) is x
    assert x.tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError, match="can't be cast"):
        lib.tensor([1]).__idiv__(2)


def test_dropout_below_vmap(lib):
    vmap, dropout = lib.func.vmap if hasattr(lib.func, "vmap") else lib.vmap, lib.nn.functional.dropout
    x = lib.ones(20, 50)
    different = vmap(lambda row: dropout(row, 0.5), randomness="different")(x)
    same = vmap(lambda row: dropout(row, 0.5), randomness="same")(x)
    drawn = vmap(lambda row: lib.bernoulli(row * 0.5), randomness="different")(x)
    for result, of in ((different, {0.0, 2.0}), (same, {0.0, 2.0}), (drawn, {0.0, 1.0})):
        assert {value for row in result.tolist() for value in row} == of
    assert len({tuple(row) for row in different.tolist()}) == len({tuple(row) for row in drawn.tolist()}) == 20
    assert len({tuple(row) for row in same.tolist()}) == 1
    for function in (lambda row: dropout(row, 0.5), lambda row: lib.bernoulli(row * 0.5)):
        with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
            vmap(function)(x)


@pytest.mark.parametrize(
    "call",
    [
        lambda lib, x: lib.stack([x, x], axis=1).shape,
        lambda lib, x: lib.max(x, axis=1).values,
        lambda lib, x: x.max(axis=1, keepdims=True).values,
        lambda lib, x: lib.median(x, axis=0).values,
        lambda lib, x: lib.quantile(x, 0.5, axis=0, keepdims=True),
        lambda lib, x: lib.stack([x, x], axis=1, out=lib.zeros(2, 2, 3)).shape,
    ],
)
def test_numpys_names_of_keywords(lib, call):
    assert call(lib, lib.arange(6.0).reshape(2, 3)) is not None
    with pytest.raises(TypeError):
        lib.stack([lib.ones(2)], axes=0)
    with pytest.raises(TypeError):
        lib.stack([lib.ones(2)], dim=0, axis=0)


def test_no_dims_of_roll(lib):
    x = lib.arange(4)
    assert lib.roll(x, 1, None).tolist() == x.roll(1, dims=None).tolist() == [3, 0, 1, 2]


def test_scatter_reduce_by_numpys_names(lib):
    found = lib.zeros(3).scatter_reduce(0, lib.tensor([0, 1]), lib.ones(2), reduce="max")
    assert found.tolist() == [1, 1, 0]
    assert lib.ones(3).scatter_reduce_(0, lib.tensor([1]), lib.zeros(1), reduce="min").tolist() == [1, 0, 1]


def test_buckets_of_bools(lib):
    assert lib.bucketize(lib.tensor([True, False]), lib.tensor([0.5, 1.5])).tolist() == [1, 0]
    assert lib.searchsorted(lib.tensor([False, True]), lib.tensor([1, 2])).tolist() == [1, 2]
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        lib.bucketize(lib.tensor([True]), lib.tensor([False, True]))


@pytest.mark.parametrize("equation", ["ij,ij->ij", "ij,jk->ijk", "ij,kj->jik", "ij,k->jk", "il,lj->ij"])
def test_einsum_of_several_dtypes_without_a_common_sum(lib, equation):
    a, b = lib.tensor([[1, 2], [3, 4]], dtype=lib.int8), lib.tensor([[0.5, 1.5], [2.5, 3.5]])
    b = b[0] if equation.startswith("ij,k-") else b
    if "l" in equation:  # one place to sum
        a, b = a[:, :1], b[:1]
    wanted = lib.einsum(equation, a.float(), b)
    found = lib.einsum(equation, a, b)
    assert found.dtype == lib.float32
    assert found.tolist() == wanted.tolist()
    with pytest.raises(RuntimeError, match="expected scalar type Char but found Float"):
        lib.einsum("ij,ij->", a.expand(2, 2), b.expand(2, 2))


def test_windows_of_a_tensor_of_samples(lib):
    windows = lib.signal.windows
    assert windows.bartlett(lib.tensor(4)).tolist() == windows.bartlett(4).tolist()
    assert windows.hann(lib.tensor(1.0)).tolist() == [1]
    with pytest.raises(TypeError):
        windows.hann(lib.tensor(4.5))


def test_a_mask_of_keys_besides_the_causal_one(lib):
    attention = lib.nn.functional.scaled_dot_product_attention
    x = lib.arange(24.0).reshape(1, 2, 3, 4).sin()
    allowed = lib.tensor([[True, False, True]]).expand(3, 3)
    both = allowed & lib.ones(3, 3, dtype=lib.bool).tril()
    assert lib.allclose(attention(x, x, x, allowed, is_causal=True), attention(x, x, x, both))


def test_targets_of_ctc_are_whole_numbers_of_any_dtype(lib):
    logs = lib.arange(24.0).reshape(4, 2, 3).sin().log_softmax(-1)
    targets, lengths = lib.tensor([[1, 2], [2, 1]]), lib.tensor([2, 2])
    loss = lib.nn.functional.ctc_loss
    found = loss(logs, targets.float() + 0.5, lib.tensor([4, 4]), lengths)
    assert found.item() == loss(logs, targets, lib.tensor([4, 4]), lengths).item()


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_norms_of_nothing_have_gradients(lib, norm):
    weight = lib.ones(3, requires_grad=True)
    getattr(lib.nn.functional, norm)(lib.zeros(0, 3), (3,), weight).sum().backward()
    assert weight.grad.tolist() == [0, 0, 0]


def test_what_is_no_tensor_may_be_saved_where_nobody_wants_a_gradient(lib):
    class Saves(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, other):
            ctx.save_for_backward(x, other)
            return x * 2

    assert Saves.apply(lib.ones(2), "text").tolist() == [2, 2]


def test_quantiles_of_numbers_are_compiled():
    """Only of tensors have their values to be read."""
    x = mt.arange(40.0).reshape(4, 10).sin()
    for program in (lambda x: x.quantile(0.3, dim=1), lambda x: mt.nanquantile(x, 1)):
        assert mt.equal(mt.function(program, jit_compile=True)(x), program(x))


@pytest.mark.parametrize(
    ("p", "dim", "most", "words"),
    [
        (0, 0, 1.0, "non-positive-norm"),
        (-1, 0, 1.0, "non-positive-norm"),
        (2, 0, -1.0, "expected maxnorm to be >= 0 but got -1"),
        (2, 2, 1.0, "out of range"),
    ],
)
def test_what_renorm_refuses(lib, p, dim, most, words):
    with pytest.raises((RuntimeError, IndexError), match=words):
        lib.renorm(lib.ones(2, 3), p, dim, most)
    assert lib.renorm(lib.full((2, 3), 4.0), 0.5, 0, 0.0).tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("given", [3, lambda lib: lib.tensor(3), lambda lib: lib.tensor([3]), None])
def test_the_size_of_what_is_repeated(lib, given):
    size = given(lib) if callable(given) else given
    counts = lib.tensor([1, 2])
    assert lib.repeat_interleave(lib.tensor([7, 8]), counts, output_size=size).tolist() == [7, 8, 8]
    assert lib.repeat_interleave(counts, output_size=size).tolist() == [0, 1, 1]
    assert lib.repeat_interleave(lib.tensor([7, 8, 9]), 1, output_size=size).tolist() == [7, 8, 9]


@pytest.mark.parametrize("given", [3.0, True, lambda lib: lib.tensor(3.0), lambda lib: lib.tensor([3, 3])])
def test_what_is_no_size_of_what_is_repeated(lib, given):
    size = given(lib) if callable(given) else given
    counts = lib.tensor([1, 2])
    with pytest.raises(TypeError, match="repeat_interleave"):
        lib.repeat_interleave(lib.tensor([7, 8]), counts, output_size=size)
    with pytest.raises(TypeError, match="repeat_interleave"):
        lib.repeat_interleave(counts, output_size=size)
    with pytest.raises(TypeError, match="repeat_interleave"):
        lib.tensor([7, 8, 9]).repeat_interleave(1, output_size=size)


def test_another_size_of_what_is_repeated(lib):
    with pytest.raises(RuntimeError, match="allocated size does not match required size"):
        lib.repeat_interleave(lib.tensor([7, 8]), lib.tensor([1, 2]), output_size=4)
    with pytest.raises(RuntimeError, match=r"Invalid output_size, expected 6 but got 4"):
        lib.tensor([7, 8, 9]).repeat_interleave(2, output_size=4)


def test_polygamma_at_infinity(lib):
    x = lib.tensor([float("inf"), -float("inf"), 1.0], dtype=lib.float64)
    first = lib.polygamma(1, x).tolist()
    assert first[0] == 0
    assert first[1] != first[1]
    assert first[2] == pytest.approx(math.pi**2 / 6)


@pytest.mark.parametrize(
    ("n", "dtype", "error", "words"),
    [
        (1.5, "float32", TypeError, r"polygamma\(\): argument 'n' \(position 1\) must be int, not float"),
        (True, "float32", TypeError, r"polygamma\(\): argument 'n' \(position 1\) must be int, not bool"),
        (-1, "float32", RuntimeError, r"polygamma\(n, x\) does not support negative n"),
        (1, "complex64", NotImplementedError, "\"trigamma\" not implemented for 'ComplexFloat'"),
        (2, "complex64", NotImplementedError, "\"polygamma\" not implemented for 'ComplexFloat'"),
    ],
)
def test_what_polygamma_refuses(lib, n, dtype, error, words):
    with pytest.raises(error, match=words):
        lib.polygamma(n, lib.ones(2, dtype=getattr(lib, dtype)))


@pytest.mark.parametrize(
    ("size", "stride", "offset", "dtype", "words"),
    [
        ((3, 3), (1, 3), 0, "float64", r"self.size\(-1\) must be divisible by 2 to view Float as Double"),
        ((3, 4), (1, 3), 0, "float64", r"self.stride\(-1\) must be 1 to view Float as Double"),
        ((3, 4), (1, 3), 1, "float64", r"self.storage_offset\(\) must be divisible by 2 to view Float as Double"),
        ((3, 4), (5, 1), 0, "float64", r"self.stride\(0\) must be divisible by 2 to view Float as Double"),
        ((3, 3), (1, 3), 1, "int8", r"self.stride\(-1\) must be 1 to view Float as Char"),
        ((), (), 0, "int8", r"self.dim\(\) cannot be 0 to view Float as Char"),
    ],
)
def test_what_is_wrong_first_of_a_view_as_another_dtype(lib, size, stride, offset, dtype, words):
    with pytest.raises(RuntimeError, match=words):
        lib.zeros(30).as_strided(size, stride, offset).view(getattr(lib, dtype))
