"""nn.functional against NumPy where the formula is short, against PyTorch where that can be imported, and compiled."""

import math
import warnings

import numpy as np
import pytest

import minitensor as mt
import minitensor.nn.functional as F
from minitensor.ops import ROWS

RNG = np.random.default_rng(7)


def normal(*shape):
    return RNG.normal(size=shape)


def positive(*shape):
    return RNG.uniform(0.1, 0.9, shape)


def places(below, *shape):
    return RNG.integers(0, below, shape)


def tensors(result):
    return [t for t in (result if isinstance(result, (tuple, list)) else [result]) if isinstance(t, mt.Tensor)]


def slope(function, leaves, direction, step=1e-6):
    moved = []
    for sign in (1, -1):
        there = [t.detach() + sign * step * mt.tensor(d) for t, d in zip(leaves, direction, strict=True)]
        moved.append(function(*[t.requires_grad_() for t in there]).item())
    return (moved[0] - moved[1]) / (2 * step)


def check_gradients(function, *arrays):
    """The gradient and the gradient's gradient along random directions, against central differences."""
    rng = np.random.default_rng(3)
    weights = None

    def loss(*given):
        nonlocal weights
        results = tensors(function(*given))
        if weights is None:
            weights = [mt.tensor(rng.normal(size=tuple(t.shape))) for t in results]
        total = sum((t * w).sum() for t, w in zip(results, weights, strict=True))
        return (total + 1) ** 2

    second = [mt.tensor(rng.normal(size=a.shape)) for a in arrays]

    def gradient(*given):
        found = mt.autograd.grad(loss(*given), given, create_graph=True, allow_unused=True, materialize_grads=True)
        return sum((g * w).sum() for g, w in zip(found, second, strict=True))

    leaves = [mt.tensor(a, requires_grad=True) for a in arrays]
    direction = [rng.normal(size=a.shape) for a in arrays]
    for scalar in (loss, gradient):
        value = scalar(*leaves)
        if not value.requires_grad:
            continue
        found = mt.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True)
        along = sum(float((g.numpy() * d).sum()) for g, d in zip(found, direction, strict=True))
        assert along == pytest.approx(slope(scalar, leaves, direction), rel=2e-4, abs=1e-5)


# ---- convolution


def convolve(x, w, stride, padding, dilation, groups):
    """The definition, for two spatial dimensions."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    count, _, height, width = x.shape
    filters, channels, kh, kw = w.shape
    oh = (height - dilation * (kh - 1) - 1) // stride + 1
    ow = (width - dilation * (kw - 1) - 1) // stride + 1
    out = np.zeros((count, filters, oh, ow))
    for f in range(filters):
        first = f // (filters // groups) * channels
        for i in range(kh):
            for j in range(kw):
                patch = x[:, first : first + channels, i * dilation :, j * dilation :]
                patch = patch[:, :, : (oh - 1) * stride + 1 : stride, : (ow - 1) * stride + 1 : stride]
                out[:, f] += (patch * w[f, :, i, j][None, :, None, None]).sum(1)
    return out


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_conv2d(stride, padding, dilation, groups):
    x, w, b = normal(2, 4, 9, 8), normal(8, 4 // groups, 3, 2), normal(8)
    got = F.conv2d(mt.tensor(x), mt.tensor(w), mt.tensor(b), stride, padding, dilation, groups)
    np.testing.assert_allclose(
        got.numpy(), convolve(x, w, stride, padding, dilation, groups) + b[:, None, None], atol=1e-12
    )


@pytest.mark.parametrize(
    "shape", [(1, 16, 40, 41), (70, 3, 5, 5), (3, 32, 7, 7)], ids=["blocks", "small images", "some"]
)
def test_conv2d_in_blocks_gives_the_same_for_any_number_of_threads(shape):
    x = mt.randn(*shape, requires_grad=True)
    w = mt.randn(24, shape[1], 3, 3, requires_grad=True)
    threads = mt.get_num_threads()
    results = []
    try:
        for n in (1, 2, 5):
            mt.set_num_threads(n)
            y = F.conv2d(x, w, padding=1)
            results.append([t.numpy().tobytes() for t in (y.detach(), *mt.autograd.grad((y * y).sum(), [x, w]))])
    finally:
        mt.set_num_threads(threads)
    assert results[0] == results[1] == results[2]
    expected = convolve(x.detach().numpy().astype(float), w.detach().numpy().astype(float), 1, 1, 1, 1)
    np.testing.assert_allclose(y.detach().numpy(), expected, atol=1e-3)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolution_is_the_gradient_of_convolution(rank, groups):
    sizes = (7, 6, 5)[:rank]
    x = mt.tensor(normal(2, 4, *sizes), requires_grad=True)
    w = mt.tensor(normal(6, 4 // groups, *(3, 2, 2)[:rank]))
    y = getattr(F, f"conv{rank}d")(x, w, None, 2, 1, 1, groups)
    g = mt.tensor(normal(*y.shape))
    (expected,) = mt.autograd.grad((y * g).sum(), x)
    spare = [n - ((o - 1) * 2 - 2 + k) for n, o, k in zip(sizes, y.shape[2:], w.shape[2:], strict=True)]
    got = getattr(F, f"conv_transpose{rank}d")(g, w, None, 2, 1, spare, groups)
    np.testing.assert_allclose(got.numpy(), expected.numpy(), atol=1e-12)


def test_convolution_gradients():
    check_gradients(lambda x, w, b: F.conv2d(x, w, b, 2, 1, 1, 2), normal(2, 4, 6, 5), normal(4, 2, 3, 2), normal(4))
    check_gradients(lambda x, w: F.conv_transpose1d(x, w, None, 2, 1, 1), normal(2, 3, 4), normal(3, 2, 3))
    check_gradients(lambda x, w: F.conv2d(x, w, None, 1, "same", 1, 3), normal(1, 3, 5, 5), normal(3, 1, 3, 2))


def test_unfold_and_fold_are_each_others_transposes():
    x, y = normal(2, 3, 6, 5), normal(2, 3 * 6, 12)
    columns = F.unfold(mt.tensor(x), (3, 2), 1, (1, 0), (2, 1))
    back = F.fold(mt.tensor(y), (6, 5), (3, 2), 1, (1, 0), (2, 1))
    assert (columns.numpy() * y).sum() == pytest.approx((x * back.numpy()).sum())


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (((2, 4, 7, 8), (8, 3, 3, 2)), RuntimeError, "to have 3 channels, but got 4"),
        (((2, 4, 2, 8), (8, 4, 3, 2)), RuntimeError, "Kernel size can't be greater"),
        (((7, 8), (8, 4, 3, 2)), RuntimeError, "Expected 3D .unbatched. or 4D"),
        (((2, 4, 7, 8), (8, 4, 3, 2), None, 0), RuntimeError, "non-positive stride"),
        (((2, 4, 7, 8), (8, 4, 3, 2), None, 1, -1), RuntimeError, "negative padding"),
        (((2, 4, 7, 8), (8, 4, 3, 2), None, 2, "same"), RuntimeError, "not supported for strided"),
        (((2, 4, 7, 8), (8, 4, 3, 2), None, 1, 0, 1, 3), RuntimeError, "groups=3"),
    ],
)
def test_bad_convolutions(arguments, error, text):
    x, w, *more = arguments
    with pytest.raises(error, match=text):
        F.conv2d(mt.ones(*x), mt.ones(*w), *more)


# ---- pooling


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("padding", [0, 1])
def test_pooling_is_what_windows_hold(ceil_mode, padding):
    x = normal(2, 3, 7, 8)
    values, indices = F.max_pool2d(mt.tensor(x), 3, 2, padding, 1, ceil_mode, True)
    average = F.avg_pool2d(mt.tensor(x), 3, 2, padding, ceil_mode, count_include_pad=False)
    for i in range(values.shape[2]):
        for j in range(values.shape[3]):
            h, w = max(i * 2 - padding, 0), max(j * 2 - padding, 0)
            window = x[:, :, h : i * 2 - padding + 3, w : j * 2 - padding + 3]
            np.testing.assert_array_equal(values.numpy()[:, :, i, j], window.max((2, 3)))
            np.testing.assert_allclose(average.numpy()[:, :, i, j], window.mean((2, 3)))
    flat = x.reshape(2, 3, -1)
    np.testing.assert_array_equal(
        values.numpy(), np.take_along_axis(flat, indices.numpy().reshape(2, 3, -1), 2).reshape(values.shape)
    )
    np.testing.assert_array_equal(values.numpy(), F.max_pool2d(mt.tensor(x), 3, 2, padding, 1, ceil_mode).numpy())


def test_max_pooling_takes_nan_for_the_largest():
    x = np.zeros((1, 1, 4, 4))
    x[0, 0, 1, 0] = np.nan
    x[0, 0, 2:, 2:] = -np.inf
    values, indices = F.max_pool2d(mt.tensor(x), 2, return_indices=True)
    assert np.isnan(values.numpy()[0, 0, 0, 0])
    assert indices.tolist() == [[[[4, 2], [8, 10]]]]


def test_unpooling_undoes_pooling():
    x = mt.tensor(normal(2, 3, 6, 6))
    values, indices = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(values, indices, 2)
    assert back.shape == x.shape
    np.testing.assert_array_equal(F.max_pool2d(mt.where(back == 0, -math.inf, back), 2).numpy(), values.numpy())
    with pytest.raises(ValueError, match="invalid output_size"):
        F.max_unpool2d(values, indices, 2, output_size=(9, 6))


def test_pooling_gradients():
    for function in (
        lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda x: F.avg_pool2d(x, 3, 2, 1, True, False),
        lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
        lambda x: F.adaptive_max_pool2d(x, 2),
        lambda x: F.lp_pool2d(x, 2, 2),
    ):
        check_gradients(function, normal(1, 2, 7, 6))


def test_adaptive_pooling_keeps_sizes_of_none():
    x = mt.tensor(normal(2, 3, 7, 8))
    assert F.adaptive_avg_pool2d(x, (None, 4)).shape == (2, 3, 7, 4)
    np.testing.assert_allclose(F.adaptive_avg_pool2d(x, 1).numpy(), x.numpy().mean((2, 3), keepdims=True))


# ---- normalisation


def test_batch_norm_moves_the_running_statistics():
    x, mean, var = normal(4, 3, 5), mt.zeros(3, dtype=mt.float64), mt.ones(3, dtype=mt.float64)
    y = F.batch_norm(mt.tensor(x), mean, var, training=True, momentum=0.2)
    m, v = x.mean((0, 2)), x.var((0, 2))
    np.testing.assert_allclose(y.numpy(), (x - m[:, None]) / np.sqrt(v + 1e-5)[:, None], atol=1e-12)
    np.testing.assert_allclose(mean.numpy(), 0.2 * m)
    np.testing.assert_allclose(var.numpy(), 0.8 + 0.2 * x.var((0, 2), ddof=1))
    y = F.batch_norm(mt.tensor(x), mean, var)
    np.testing.assert_allclose(
        y.numpy(), (x - mean.numpy()[:, None]) / np.sqrt(var.numpy() + 1e-5)[:, None], atol=1e-12
    )


def test_norm_gradients():
    mean, var = mt.tensor(normal(4)), mt.tensor(positive(4))
    for shape in ((5, 4), (3, 4, 5), (2, 4, 3, 2)):
        check_gradients(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), normal(*shape), normal(4), normal(4))
        check_gradients(lambda x, w, b: F.batch_norm(x, mean, var, w, b), normal(*shape), normal(4), normal(4))
        check_gradients(lambda x, w, b: F.group_norm(x, 2, w, b), normal(*shape), normal(4), normal(4))
    check_gradients(lambda x, w, b: F.layer_norm(x, (3, 4), w, b), normal(2, 3, 4), normal(3, 4), normal(3, 4))
    check_gradients(lambda x, w, b: F.layer_norm(x, (3, 4), w, b), normal(3, 4), normal(3, 4), normal(3, 4))
    assert F.layer_norm(mt.ones(3, 4), (3, 4)).shape == (3, 4)
    check_gradients(lambda x, w: F.rms_norm(x, (4,), w, 1e-3), normal(2, 3, 4), normal(4))
    check_gradients(lambda x: F.instance_norm(x), normal(2, 3, 4))
    check_gradients(lambda x: F.local_response_norm(x, 3), normal(2, 5, 3))


def test_statistics_of_groups_have_gradients():
    x = mt.randn(2, 6, 5, dtype=mt.float64, requires_grad=True)
    _, mean, rstd = mt.native_group_norm(x, None, None, 2, 6, 5, 3, 0.1)
    (of_mean,) = mt.autograd.grad(mean.sum(), x, retain_graph=True)
    assert np.allclose(of_mean.numpy(), 1 / 10)
    (of_rstd,) = mt.autograd.grad(rstd.sum(), x)
    rows = x.detach().numpy().reshape(2, 3, 10)
    shifted = rows - rows.mean(-1, keepdims=True)
    expected = -shifted / 10 * (rows.var(-1, keepdims=True) + 0.1) ** -1.5
    assert np.allclose(of_rstd.numpy().reshape(2, 3, 10), expected)


def test_group_norm_of_no_images_has_gradients():
    x, w, b = mt.zeros(0, 2, 3, requires_grad=True), mt.ones(2, requires_grad=True), mt.zeros(2, requires_grad=True)
    result, mean, rstd = mt.native_group_norm(x, w, b, 0, 2, 3, 1, 1e-5)
    assert (result.shape, mean.shape, rstd.shape) == ((0, 2, 3), (0, 1), (0, 1))
    (gx,) = mt.autograd.grad(F.group_norm(x, 1, w, b).sum(), x, create_graph=True)
    assert gx.shape == x.shape
    grads = mt.autograd.grad(gx.sum() + F.group_norm(x, 1, w, b).sum(), (w, b))
    assert [g.tolist() for g in grads] == [[0.0, 0.0], [0.0, 0.0]]


def test_native_batch_norm_takes_out():
    x, outs = mt.randn(4, 3), tuple(mt.empty(0) for _ in range(3))
    mt.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5, out=outs)
    assert [tuple(t.shape) for t in outs] == [(4, 3), (3,), (3,)]
    assert np.allclose(outs[1].numpy(), x.numpy().mean(0), atol=1e-6)


def test_what_reads_a_norms_result_may_be_in_place():
    x = mt.randn(4, 3, 5, requires_grad=True)
    for function in (lambda: F.batch_norm(x, None, None, training=True), lambda: F.group_norm(x, 3)):
        (gradient,) = mt.autograd.grad(F.relu(function(), inplace=True).sum(), x)
        assert gradient.isfinite().all()


# ---- embedding


@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
def test_embedding_gradients():
    index = mt.tensor([[1, 1, 2], [4, 0, 1]])
    check_gradients(lambda w: F.embedding(index, w), normal(5, 3))
    w = mt.tensor(normal(5, 3), requires_grad=True)
    (g,) = mt.autograd.grad(F.embedding(index, w, padding_idx=-4).sum(), w)
    assert g[:, 0].tolist() == [1, 0, 1, 0, 1]
    (g,) = mt.autograd.grad(F.embedding(index, w, scale_grad_by_freq=True).sum(), w)
    assert g[:, 0].tolist() == pytest.approx([1, 1, 1, 0, 1])
    with pytest.raises(IndexError, match="index out of range"):
        F.embedding(mt.tensor([5]), w)


def test_embedding_scales_long_rows_down():
    w = mt.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]])
    F.embedding(mt.tensor([0, 1]), w, max_norm=1.0)
    np.testing.assert_allclose(w.numpy(), [[0.6, 0.8], [0.3, 0.4], [6, 8]], rtol=1e-6)


# ---- attention


def test_attention_is_its_formula():
    q, k, v = normal(2, 300, 8), normal(2, 200, 8), normal(2, 200, 5)
    mask = RNG.random((300, 200)) < 0.7
    mask[3] = False
    for causal, seen in ((False, mask), (True, np.tril(np.ones((300, 200), bool)))):
        scores = np.where(seen, q @ k.swapaxes(1, 2) / math.sqrt(8), -np.inf)
        with np.errstate(invalid="ignore"):
            p = np.exp(scores - scores.max(-1, keepdims=True))
            expected = np.nan_to_num(p / p.sum(-1, keepdims=True)) @ v
        got = F.scaled_dot_product_attention(
            *map(mt.tensor, (q, k, v)), None if causal else mt.tensor(mask), is_causal=causal
        )
        np.testing.assert_allclose(got.numpy(), expected, atol=1e-12)


def test_attention_gradients():
    check_gradients(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        normal(2, 4, 3),
        normal(2, 5, 3),
        normal(2, 5, 2),
    )
    check_gradients(F.scaled_dot_product_attention, normal(2, 3), normal(4, 3), normal(4, 2), normal(2, 4))


# ---- losses


def test_ctc_sums_over_alignments():
    """Against all alignments, one by one."""
    import itertools

    logs = np.log(positive(4, 3))
    target = [1, 2]
    total = 0.0
    for path in itertools.product(range(3), repeat=4):
        collapsed = [c for i, c in enumerate(path) if c and (i == 0 or path[i - 1] != c)]
        if collapsed == target:
            total += math.exp(sum(logs[t, c] for t, c in enumerate(path)))
    got = F.ctc_loss(mt.tensor(logs), mt.tensor(target), mt.tensor(4), mt.tensor(2), reduction="sum")
    assert got.item() == pytest.approx(-math.log(total))

    # The gradient is that of the input of log_softmax, for whose values log_probs are taken.
    def loss(x):
        return F.ctc_loss(F.log_softmax(x, -1), mt.tensor([[1, 1], [2, 0]]), (5, 4), (2, 1), reduction="sum")

    start, step = normal(5, 2, 3), 1e-6
    x = mt.tensor(start, requires_grad=True)
    loss(x).backward()
    for place in np.ndindex(*start.shape):
        shift = np.zeros_like(start)
        shift[place] = step
        slope = (loss(mt.tensor(start + shift)) - loss(mt.tensor(start - shift))).item() / (2 * step)
        assert x.grad[place].item() == pytest.approx(slope, abs=1e-7)


@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
def test_ctc_of_targets_that_do_not_fit():
    logs = mt.tensor(normal(3, 2, 4)).log_softmax(-1).requires_grad_()
    targets, times = mt.tensor([1, 2, 3, 1, 1, 2]), (3, 3)
    losses = F.ctc_loss(logs, targets, times, (3, 3), reduction="none")
    assert math.isfinite(losses[0].item())
    assert losses[1].item() == math.inf  # equal neighbours need a blank between them
    finite = F.ctc_loss(logs, targets, times, (3, 3), reduction="none", zero_infinity=True)
    assert finite.tolist() == [losses[0].item(), 0.0]
    finite.sum().backward()
    assert not logs.grad[:, 1].any()
    assert logs.grad[:, 0].any()
    (g,) = mt.autograd.grad(F.ctc_loss(logs, targets, times, (3, 3), zero_infinity=True), [logs], create_graph=True)
    with pytest.raises(RuntimeError, match="derivative for aten::_ctc_loss_backward is not implemented"):
        mt.autograd.grad(g.sum(), [logs])
    with pytest.raises(RuntimeError, match="Expected input_lengths to have value at most 3, but got value 4"):
        F.ctc_loss(logs, targets, (4, 3), (3, 3))
    with pytest.raises(RuntimeError, match="input_lengths must be of size batch_size"):
        F.ctc_loss(logs, targets, (3,), (3, 3))
    with pytest.raises(RuntimeError, match="Expected tensor to have size 5 at dimension 0, but got size 6"):
        F.ctc_loss(logs, targets, times, (3, 2))
    with pytest.raises(RuntimeError, match="blank must be in label range"):
        F.ctc_loss(logs, targets, times, (3, 3), blank=4)
    with mt.jit_scope():
        recorded = F.ctc_loss(logs, targets, times, (3, 3), reduction="none")
    assert recorded.tolist() == losses.tolist()


def test_bags_of_rows():
    table, indices, offsets = normal(4, 3), np.array([0, 2, 1, 1, 3]), [0, 2, 2]
    members = [indices[0:2], indices[2:2], indices[2:5]]
    for mode, combine in (("sum", np.sum), ("mean", np.mean), ("max", np.max)):
        want = np.stack([combine(table[m], axis=0) if len(m) else np.zeros(3) for m in members])
        got = F.embedding_bag(mt.tensor(indices), mt.tensor(table), mt.tensor(offsets), mode=mode)
        np.testing.assert_allclose(got.numpy(), want, atol=1e-12)
        check_gradients(lambda w, m=mode: F.embedding_bag(mt.tensor(indices), w, mt.tensor(offsets), mode=m), table)
    first = mt.embedding_bag(mt.tensor(table), mt.tensor(indices), mt.tensor(offsets), mode=2)
    assert first[1].tolist() == [0, 0, 2, 2, 2]
    assert first[2].tolist() == [2, 0, 3]
    assert np.array_equal(np.take_along_axis(table, first[3].numpy(), 0)[[0, 2]], first[0].numpy()[[0, 2]])


def test_convolutions_of_integers_and_complex_numbers():
    x, w = np.arange(2 * 3 * 5 * 4).reshape(2, 3, 5, 4), np.arange(4 * 3 * 2 * 3).reshape(4, 3, 2, 3) - 30
    floats = F.conv2d(mt.tensor(x, dtype=mt.float64), mt.tensor(w, dtype=mt.float64), None, (2, 1), 1)
    whole = F.conv2d(mt.tensor(x), mt.tensor(w), None, (2, 1), 1)
    assert whole.dtype == mt.int64
    assert np.array_equal(whole.numpy(), floats.numpy().astype(np.int64))
    back = F.conv_transpose2d(whole, mt.tensor(w), None, (2, 1), 1)
    floats = F.conv_transpose2d(floats, mt.tensor(w, dtype=mt.float64), None, (2, 1), 1)
    assert np.array_equal(back.numpy(), floats.numpy().astype(np.int64))

    a, b, c, d = normal(1, 2, 6), normal(1, 2, 6), normal(3, 2, 3), normal(3, 2, 3)
    got = F.conv1d(mt.tensor(a + 1j * b), mt.tensor(c + 1j * d)).numpy()

    def real(p, q):
        return F.conv1d(mt.tensor(p), mt.tensor(q)).numpy()

    np.testing.assert_allclose(got, real(a, c) - real(b, d) + 1j * (real(a, d) + real(b, c)), atol=1e-12)
    columns = F.unfold(mt.tensor((a + 1j * b).reshape(1, 2, 2, 3)), 2)
    assert np.array_equal(columns.numpy().imag, F.unfold(mt.tensor(b.reshape(1, 2, 2, 3)), 2).numpy())


def test_resampling_of_bytes_rounds_and_stays_in_range():
    rng = np.random.default_rng(5)
    x = rng.integers(90, 160, (1, 2, 6, 5))  # no sum of the first dimension leaves the range
    for mode in ("bilinear", "bicubic"):
        got = F.interpolate(mt.tensor(x, dtype=mt.uint8), (9, 11), mode=mode)
        want = F.interpolate(mt.tensor(x, dtype=mt.float64), (9, 11), mode=mode).clamp(0, 255)
        assert got.dtype == mt.uint8
        # Two roundings, one along each dimension.
        assert np.abs(got.numpy().astype(float) - want.numpy()).max() < 2


def test_pooling_of_integers():
    x = np.arange(24).reshape(1, 1, 4, 6) * 7 % 23
    for dtype in (mt.uint8, mt.int8, mt.int16, mt.int32, mt.int64):
        values, places = F.max_pool2d(mt.tensor(x, dtype=dtype), 2, return_indices=True)
        assert values.dtype == dtype
        assert np.array_equal(values.numpy(), x.reshape(1, 1, 2, 2, 3, 2).max((3, 5)))
        assert np.array_equal(x.reshape(-1)[places.numpy()], values.numpy())
    means = F.avg_pool2d(mt.tensor(-x), 2)
    assert np.array_equal(means.numpy(), np.trunc(-x.reshape(1, 1, 2, 2, 3, 2).sum((3, 5)) / 4))
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        F.max_pool1d(mt.tensor(x[0]), 2)


@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
def test_cross_entropy_of_probabilities_is_the_negative_of_one_sum():
    x, p = normal(4, 3, 5), np.abs(normal(4, 3, 5))
    logs = x - np.log(np.exp(x).sum(1, keepdims=True))
    given = mt.tensor(x), mt.tensor(p)
    np.testing.assert_allclose(F.cross_entropy(*given, reduction="none").numpy(), -(logs * p).sum(1), rtol=1e-5)
    np.testing.assert_allclose(F.cross_entropy(*given, reduction="sum").item(), -(logs * p).sum(), rtol=1e-5)
    np.testing.assert_allclose(F.cross_entropy(*given).item(), -(logs * p).sum() / 20, rtol=1e-5)
    # Of one class there is nothing to lose: -0.
    for reduction in ("mean", "sum", "none"):
        loss = F.cross_entropy(mt.zeros(4, 1), mt.ones(4, 1), reduction=reduction)
        assert mt.signbit(loss).all(), reduction
    assert F.cross_entropy(mt.zeros(0, 3), mt.zeros(0, 3)).isnan()
    with pytest.raises(ValueError, match="few is not a valid value for reduction"):
        F.cross_entropy(*given, reduction="few")


def test_cross_entropy_ignores_an_index_by_default():
    x = normal(4, 3)
    logs = x - np.log(np.exp(x).sum(1, keepdims=True))
    got = F.cross_entropy(mt.tensor(x), mt.tensor([0, -100, 2, 1]))
    assert got.item() == pytest.approx(-(logs[0, 0] + logs[2, 2] + logs[3, 1]) / 3)
    assert math.isnan(F.cross_entropy(mt.tensor(x), mt.tensor([-100] * 4)).item())
    with pytest.raises(IndexError, match="Target -1 is out of bounds"):
        F.cross_entropy(mt.tensor(x), mt.tensor([0, -1, 2, 1])).item()


def test_binary_cross_entropy_at_its_corners():
    p = mt.tensor([0.0, 1.0, 0.5], dtype=mt.float64, requires_grad=True)
    loss = F.binary_cross_entropy(p, mt.tensor([1.0, 1.0, 1.0], dtype=mt.float64), reduction="none")
    assert loss.tolist() == pytest.approx([100, 0, math.log(2)])
    (g,) = mt.autograd.grad(loss.sum(), p)
    assert g.tolist() == pytest.approx([-1e12, 0, -2])
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        F.binary_cross_entropy(mt.tensor([1.5]), mt.tensor([1.0]))


def test_poisson_loss_of_an_expectation_of_zero():
    loss = F.poisson_nll_loss(mt.zeros(1), mt.ones(1), log_input=False)
    assert loss.item() == pytest.approx(-math.log(1e-8))


# ---- resampling


def test_interpolation_of_a_line_is_a_line():
    line = mt.arange(5, dtype=mt.float64).reshape(1, 1, 5)
    got = F.interpolate(line, 9, mode="linear", align_corners=True)
    np.testing.assert_allclose(got.numpy().ravel(), np.linspace(0, 4, 9))
    got = F.interpolate(line, scale_factor=2, mode="nearest")
    assert got.flatten().tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_the_identity_grid_gives_the_image():
    x = mt.tensor(normal(2, 3, 4, 5))
    eye = mt.tensor([[[1.0, 0, 0], [0, 1, 0]]] * 2, dtype=mt.float64)
    for align in (True, False):
        grid = F.affine_grid(eye, (2, 3, 4, 5), align)
        for mode in ("bilinear", "nearest", "bicubic"):
            got = F.grid_sample(x, grid, mode, "zeros", align)
            np.testing.assert_allclose(got.numpy(), x.numpy(), atol=1e-12)


def test_resampling_gradients():
    check_gradients(lambda x: F.interpolate(x, (5, 3), mode="bicubic"), normal(1, 2, 3, 4))
    check_gradients(
        lambda x, g: F.grid_sample(x, g, "bilinear", "zeros", False), normal(1, 2, 4, 4), normal(1, 2, 3, 2) * 0.4
    )


def test_shuffles_undo_each_other():
    x = mt.tensor(normal(2, 8, 3, 4))
    assert F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2).tolist() == x.tolist()
    assert F.channel_shuffle(F.channel_shuffle(x, 2), 4).tolist() == x.tolist()


# ---- random


def test_dropout_keeps_the_mean_and_drops_what_it_says():
    mt.manual_seed(0)
    x = mt.ones(400, 50)
    y = F.dropout(x, 0.25)
    assert set(np.unique(y.numpy().round(5))) == {0, np.float32(4 / 3).round(5)}
    assert y.mean().item() == pytest.approx(1, abs=0.02)
    channels = F.dropout2d(mt.ones(40, 50, 3, 3), 0.5).numpy().reshape(2000, 9)
    assert ((channels == 0).all(1) | (channels == 2).all(1)).all()
    z = F.alpha_dropout(mt.randn(100000), 0.3, True)
    assert z.mean().item() == pytest.approx(0, abs=0.03)
    assert z.std().item() == pytest.approx(1, abs=0.03)


def test_gumbel_softmax_hard_is_one_hot_with_a_gradient():
    x = mt.randn(5, 4, requires_grad=True)
    y = F.gumbel_softmax(x, hard=True)
    assert y.detach().sum(1).tolist() == pytest.approx([1] * 5)
    assert mt.autograd.grad((y * mt.arange(4)).sum(), x)[0].abs().sum().item() > 0


# ---- recorded


def test_recorded_is_eager():
    mt.manual_seed(1)
    x, w, b = mt.randn(2, 4, 9, 9), mt.randn(6, 4, 3, 3), mt.randn(6)
    target = mt.tensor([1, 3])

    def network():
        y = F.conv2d(x, w, b, padding=1)
        y = F.batch_norm(y, None, None, training=True)
        y = F.max_pool2d(F.elu(y), 2)
        y = F.layer_norm(F.interpolate(y, 6, mode="bilinear").flatten(2), (36,))
        y = F.scaled_dot_product_attention(y, y, y)
        return F.cross_entropy(F.adaptive_avg_pool1d(y, 1).squeeze(-1), target)

    def gradients():
        leaves = [t.requires_grad_() for t in (x, w, b)]
        loss = network()
        return [loss.detach(), *mt.autograd.grad(loss, leaves)]

    eager = [t.numpy().tobytes() for t in gradients()]
    with mt.jit_scope():
        recorded = gradients()
    assert [t.numpy().tobytes() for t in recorded] == eager


# ---- everything is there


def test_rows_are_not_offered_by_themselves():
    for name in ("max_pool", "plane_gather", "attention", "convolution_backward_input", "group_norm_backward"):
        assert not hasattr(mt, name)
        assert not hasattr(mt.Tensor, name)
        assert name in ROWS


def test_names_and_signatures_are_pytorchs():
    torch = pytest.importorskip("torch")
    import inspect

    theirs = torch.nn.functional
    helpers = {"assert_int_or_pair", "boolean_dispatch", "handle_torch_function"}
    helpers |= {n for n in dir(theirs) if n.startswith("has_torch_function")}
    names = {
        n
        for n in dir(theirs)
        if not n.startswith("_") and callable(getattr(theirs, n)) and not inspect.isclass(getattr(theirs, n))
    }
    names -= helpers | {"Optional"}
    assert {n for n in names if not hasattr(F, n)} <= {"scaled_mm", "scaled_grouped_mm"}
    for name in names & set(F.__all__):
        try:
            expected = list(inspect.signature(getattr(theirs, name)).parameters.values())
        except ValueError:
            continue
        if expected[0].kind is inspect.Parameter.VAR_POSITIONAL:
            continue
        got = list(inspect.signature(getattr(F, name)).parameters.values())
        assert [p.name for p in got] == [p.name for p in expected], name
        for mine, other in zip(got, expected, strict=True):
            same_dtype = repr(mine.default) == repr(other.default).replace("torch.", "minitensor.")
            assert mine.default == other.default or same_dtype, name
    for name in ("GRID_SAMPLE_INTERPOLATION_MODES", "GRID_SAMPLE_PADDING_MODES"):
        assert getattr(F, name) == getattr(theirs, name)


@pytest.mark.filterwarnings("ignore")
def test_a_sample_of_functions_is_pytorchs():
    torch = pytest.importorskip("torch")
    cases = [
        ("conv2d", (normal(2, 4, 7, 8), normal(6, 2, 3, 2), normal(6), 2, 1, 2, 2)),
        ("conv_transpose2d", (normal(2, 4, 5, 4), normal(4, 3, 3, 2), normal(6), 2, 1, 1, 2)),
        ("conv_transpose2d", (normal(2, 4, 5, 4), normal(4, 3, 3, 2), normal(3), 1, 2, 1, 1, 2)),
        ("group_norm", (normal(2, 6, 4, 3), 3, normal(6), normal(6))),
        ("interpolate", (normal(2, 3, 5, 6), (7, 3), None, "bicubic")),
        ("grid_sample", (normal(2, 3, 6, 7), normal(2, 4, 5, 2), "bicubic", "reflection", False)),
        ("cross_entropy", (normal(4, 5), places(5, 4), positive(5), None, 1, None, "mean", 0.1)),
        ("multi_margin_loss", (normal(4, 5), places(5, 4), 2)),
        ("multilabel_margin_loss", (normal(2, 4), np.array([[3, 0, -1, 1], [1, -1, 1, 1]]))),
        ("triplet_margin_loss", (normal(4, 5), normal(4, 5), normal(4, 5), 0.5, 3.0, 1e-6, True)),
        ("embedding_bag", (places(6, 3, 4), normal(6, 5))),
        ("kl_div", (-positive(4, 5), positive(4, 5))),
        ("gelu", (normal(40),)),
        ("hardswish", (normal(40) * 4,)),
        ("softshrink", (normal(40),)),
    ]
    for name, arguments in cases:
        mine = [mt.tensor(a) if isinstance(a, np.ndarray) else a for a in arguments]
        theirs = [torch.tensor(a) if isinstance(a, np.ndarray) else a for a in arguments]
        mine[0] = mine[0].requires_grad_() if mine[0].is_floating_point() else mine[0]
        theirs[0] = theirs[0].requires_grad_() if theirs[0].is_floating_point() else theirs[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got, expected = getattr(F, name)(*mine), getattr(torch.nn.functional, name)(*theirs)
        np.testing.assert_allclose(got.detach().numpy(), expected.detach().numpy(), atol=1e-9, err_msg=name)
        if got.requires_grad:
            (g,), (e,) = mt.autograd.grad(got.sum(), mine[0]), torch.autograd.grad(expected.sum(), theirs[0])
            np.testing.assert_allclose(g.numpy(), e.numpy(), atol=1e-9, err_msg=name)


def test_products_of_groups():
    t, offs, ranges = mt.tensor, mt.tensor([2, 2, 7]), [(0, 2), (2, 2), (2, 7)]
    x, many = normal(7, 4), normal(3, 4, 5)
    got = F.grouped_mm(t(x), t(many), offs=offs)
    want = np.concatenate([x[i:j] @ many[g] for g, (i, j) in enumerate(ranges)])
    np.testing.assert_allclose(got.numpy(), want, atol=1e-12)
    x, y = normal(4, 7), normal(7, 5)
    got = F.grouped_mm(t(x), t(y), offs=offs)
    np.testing.assert_allclose(got.numpy(), np.stack([x[:, i:j] @ y[i:j] for i, j in ranges]), atol=1e-12)
    x, y = normal(3, 2, 4), normal(4, 7)
    got = F.grouped_mm(t(x), t(y), offs=offs, out_dtype=mt.float32)
    assert got.dtype == mt.float32
    want = np.concatenate([x[g] @ y[:, i:j] for g, (i, j) in enumerate(ranges)], 1)
    np.testing.assert_allclose(got.numpy(), want, atol=1e-5)
    np.testing.assert_allclose(F.grouped_mm(t(x), t(many)).numpy(), x @ many, atol=1e-12)
    for one, other, more in ((x[0], many, {}), (x, many, {"offs": offs}), (x[0, 0], y, {"offs": offs})):
        with pytest.raises(RuntimeError, match=r"offset|2d or 3d"):
            F.grouped_mm(t(one), t(other), **more)


@pytest.mark.parametrize(
    ("mode", "rank", "expected"), [("bilinear", 3, 6 + 8), ("nearest", 3, 3 + 1), ("bicubic", 2, 8 + 16)]
)
def test_places_of_neighbours_are_found_once_for_all_corners(mode, rank, expected, monkeypatch):
    from minitensor.nn.functional import grid

    calls = []
    where = grid.where
    monkeypatch.setattr(grid, "where", lambda *given: calls.append(1) or where(*given))
    F.grid_sample(mt.rand(1, 2, *[4] * rank), mt.rand(1, *[3] * rank, rank), mode=mode, align_corners=False)
    assert len(calls) == expected
