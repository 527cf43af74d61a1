"""Ops of graphs against NumPy: with shapes that are known while the graph is made, and without."""

import numpy as np
import pytest

import minitensor.compat.v1 as tf

RNG = np.random.default_rng(0)
A = RNG.standard_normal((3, 4)).astype(np.float32)
B = RNG.standard_normal((3, 4)).astype(np.float32)
P = np.abs(A) + 0.5
V = RNG.standard_normal(4).astype(np.float32)
WHOLE, OTHER = RNG.integers(1, 9, (3, 4)).astype(np.int32), RNG.integers(1, 9, (3, 4)).astype(np.int32)
T, F = A > 0, B > 0
IMAGES = RNG.standard_normal((2, 5, 6, 3)).astype(np.float32)
FILTERS = RNG.standard_normal((3, 2, 3, 4)).astype(np.float32)


def soft(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def same(size, window, stride):
    total = max((-(-size // stride) - 1) * stride + window - size, 0)
    return total // 2, total - total // 2


def windows(x, kh, kw, sh, sw, padding, fill=0.0):
    if padding == "SAME":
        x = np.pad(x, [(0, 0), same(x.shape[1], kh, sh), same(x.shape[2], kw, sw), (0, 0)], constant_values=fill)
    return np.lib.stride_tricks.sliding_window_view(x, (kh, kw), (1, 2))[:, ::sh, ::sw]  # [n, h, w, c, kh, kw]


def convolved(x, f, sh, sw, padding):
    return np.einsum("nhwcij,ijco->nhwo", windows(x, *f.shape[:2], sh, sw, padding), f)


def clipped(x, bound):
    return x * bound / max(np.sqrt((x * x).sum()), bound)


CASES = {
    "abs": (tf.abs, np.abs, [A]), "negative": (tf.negative, np.negative, [A]), "sign": (tf.sign, np.sign, [A]),
    "square": (tf.square, np.square, [A]), "sqrt": (tf.sqrt, np.sqrt, [P]), "rsqrt": (tf.rsqrt, lambda x: x**-0.5, [P]),
    "reciprocal": (tf.reciprocal, lambda x: 1 / x, [P]), "exp": (tf.exp, np.exp, [A]), "log": (tf.log, np.log, [P]),
    "log1p": (tf.log1p, np.log1p, [P]), "sin": (tf.sin, np.sin, [A]), "cos": (tf.cos, np.cos, [A]),
    "tanh": (tf.tanh, np.tanh, [A]), "sigmoid": (tf.sigmoid, lambda x: 1 / (1 + np.exp(-x)), [A]),
    "floor": (tf.floor, np.floor, [A]), "ceil": (tf.ceil, np.ceil, [A]), "round": (tf.round, np.round, [3 * A]),
    "logical_not": (tf.logical_not, np.logical_not, [T]), "is_nan": (tf.is_nan, np.isnan, [np.where(A > 0, A, np.nan)]),
    "is_finite": (tf.is_finite, np.isfinite, [np.where(A > 0, A, np.inf)]),
    "add": (tf.add, np.add, [A, V]), "subtract": (tf.subtract, np.subtract, [A, B]),
    "multiply": (tf.multiply, np.multiply, [V, A]), "floordiv": (tf.floordiv, np.floor_divide, [-WHOLE, OTHER]),
    "mod": (tf.mod, np.mod, [-WHOLE, OTHER]),
    "pow": (tf.pow, np.power, [P, B]), "maximum": (tf.maximum, np.maximum, [A, B]),
    "minimum": (tf.minimum, np.minimum, [A, B]), "truediv": (tf.truediv, np.divide, [A, P]),
    "truediv of integers": (tf.truediv, np.divide, [WHOLE, OTHER]),
    "div of integers": (tf.div, np.floor_divide, [-WHOLE, OTHER]),
    "squared_difference": (tf.squared_difference, lambda x, y: (x - y) ** 2, [A, B]),
    "equal": (tf.equal, np.equal, [WHOLE, OTHER]), "not_equal": (tf.not_equal, np.not_equal, [WHOLE, OTHER]),
    "less": (tf.less, np.less, [A, B]), "less_equal": (tf.less_equal, np.less_equal, [WHOLE, OTHER]),
    "greater": (tf.greater, np.greater, [A, B]), "greater_equal": (tf.greater_equal, np.greater_equal, [WHOLE, OTHER]),
    "logical_and": (tf.logical_and, np.logical_and, [T, F]), "logical_or": (tf.logical_or, np.logical_or, [T, F]),
    "cast": (lambda x: tf.cast(x, tf.int32), lambda x: x.astype(np.int32), [3 * A]),
    "to_float": (tf.to_float, np.float32, [WHOLE]),
    "matmul": (lambda x, y: tf.matmul(x, y, transpose_b=True), lambda x, y: x @ y.T, [A, B]),
    "matmul transposed": (lambda x, y: tf.matmul(x, y, transpose_a=True), lambda x, y: x.T @ y, [A, B]),
    "add_n": (lambda *x: tf.add_n(x), lambda x, y, z: x + y + z, [A, B, P]),
    "reduce_sum": (tf.reduce_sum, np.sum, [A]),
    "reduce_sum of integers": (tf.reduce_sum, lambda x: x.sum(dtype="i4"), [WHOLE]),
    "reduce_mean": (lambda x: tf.reduce_mean(x, 1, keepdims=True), lambda x: x.mean(1, keepdims=True), [A]),
    "reduce_max": (lambda x: tf.reduce_max(x, [0, 1]), np.max, [A]),
    "reduce_min": (lambda x: tf.reduce_min(x, reduction_indices=[0]), lambda x: x.min(0), [A]),
    "reduce_prod": (tf.reduce_prod, np.prod, [A]),
    "reduce_all": (lambda x: tf.reduce_all(x, 1), lambda x: x.all(1), [T]),
    "reduce_any": (tf.reduce_any, np.any, [T]),
    "reduce_logsumexp": (lambda x: tf.reduce_logsumexp(x, 1), lambda x: np.log(np.exp(x).sum(1)), [A]),
    "argmax": (lambda x: tf.argmax(x, 1), lambda x: x.argmax(1), [A]),
    "argmin": (tf.argmin, lambda x: x.argmin(0), [A]),
    "cumsum": (lambda x: tf.cumsum(x, 1), lambda x: x.cumsum(1), [A]),
    "clip_by_value": (lambda x: tf.clip_by_value(x, -0.5, 0.5), lambda x: x.clip(-0.5, 0.5), [A]),
    "clip_by_norm": (lambda x: tf.clip_by_norm(x, 1.0), lambda x: clipped(x, 1.0), [A]),
    "global_norm": (
        lambda x, y: tf.global_norm([x, None, y]),
        lambda x, y: np.sqrt((x * x).sum() + (y * y).sum()), [A, V],
    ),
    "zeros_like": (tf.zeros_like, np.zeros_like, [A]), "ones_like": (tf.ones_like, np.ones_like, [WHOLE]),
    "zeros_like of a dtype": (lambda x: tf.zeros_like(x, tf.int64), lambda x: np.zeros_like(x, np.int64), [A]),
    "ones_like of a dtype": (lambda x: tf.ones_like(x, tf.float64), lambda x: np.ones_like(x, np.float64), [WHOLE]),
    "fill": (lambda x: tf.fill([2, 3], tf.reduce_max(x)), lambda x: np.full((2, 3), x.max()), [A]),
    "shape": (tf.shape, lambda x: np.array(x.shape, np.int32), [A]), "size": (tf.size, lambda x: np.int32(x.size), [A]),
    "rank": (tf.rank, lambda x: np.int32(x.ndim), [A]),
    "reshape": (lambda x: tf.reshape(x, [-1, 2]), lambda x: x.reshape(-1, 2), [A]),
    "reshape by shapes": (lambda x: tf.reshape(x, [tf.shape(x)[0] * 2, -1]), lambda x: x.reshape(6, 2), [A]),
    "range": (lambda x: tf.range(tf.shape(x)[1]), lambda x: np.arange(4, dtype=np.int32), [A]),
    "transpose": (tf.transpose, np.transpose, [A]),
    "transpose in an order": (lambda x: tf.transpose(x, [0, 3, 1, 2]), lambda x: x.transpose(0, 3, 1, 2), [IMAGES]),
    "expand_dims": (lambda x: tf.expand_dims(x, -1), lambda x: x[..., None], [A]),
    "squeeze": (lambda x: tf.squeeze(x, [1]), lambda x: x[:, 0], [A[:, None]]),
    "concat": (lambda x, y: tf.concat([x, y], 1), lambda x, y: np.concatenate([x, y], 1), [A, B]),
    "stack": (lambda x, y: tf.stack([x, y], 1), lambda x, y: np.stack([x, y], 1), [A, B]),
    "unstack": (lambda x: tf.unstack(x, 4, 1)[2], lambda x: x[:, 2], [A]),
    "stack first": (lambda x, y: tf.stack([x, y]), lambda x, y: np.stack([x, y]), [A, B]),
    "unstack first, counted": (lambda x: tf.unstack(x, 3)[2], lambda x: x[2], [A]),
    "split first": (lambda x: tf.split(x, 3)[1], lambda x: x[1:2], [A]),
    "split": (lambda x: tf.split(x, [1, 3], 1)[1], lambda x: x[:, 1:], [A]),
    "split equally": (lambda x: tf.split(x, 2, axis=1)[1], lambda x: x[:, 2:], [A]),
    "gather": (lambda x: tf.gather(x, [[2, 0], [1, 1]]), lambda x: x[[[2, 0], [1, 1]]], [A]),
    "gather along": (lambda x: tf.gather(x, [3, 1], axis=1), lambda x: x[:, [3, 1]], [A]),
    "one_hot": (lambda x: tf.one_hot(x, 6), lambda x: (x[..., None] == np.arange(6)).astype(np.float32), [WHOLE]),
    "tile": (lambda x: tf.tile(x, [2, 1]), lambda x: np.tile(x, (2, 1)), [A]),
    "pad": (lambda x: tf.pad(x, [[1, 0], [0, 2]]), lambda x: np.pad(x, [(1, 0), (0, 2)]), [A]),
    "reverse": (lambda x: tf.reverse(x, [1]), lambda x: x[:, ::-1], [A]),
    "slice": (lambda x: tf.slice(x, [1, 0], [-1, 2]), lambda x: x[1:, :2], [A]),
    "getitem": (lambda x: x[1:, tf.newaxis, ::2], lambda x: x[1:, None, ::2], [A]),
    "getitem by shapes": (lambda x: x[tf.shape(x)[0] - 1], lambda x: x[-1], [A]),
    "where": (tf.where, np.where, [T, A, B]),
    "where of rows": (tf.where, lambda c, x, y: np.where(c[:, None], x, y), [T[:, 0], A, B]),
    "identity": (tf.identity, np.copy, [A]), "stop_gradient": (tf.stop_gradient, np.copy, [A]),
    "operators": (
        lambda x, y: -x * 2 + y / 3 - 1 + abs(x) ** 2,
        lambda x, y: -x * 2 + y / 3 - 1 + np.abs(x) ** 2, [A, B],
    ),
    "operators, reversed": (lambda x: 1 - 2 / x, lambda x: 1 - 2 / x, [P]),
    "operators of bools": (lambda x, y: ~x & y | x, lambda x, y: ~x & y | x, [T, F]),
    "relu": (tf.nn.relu, lambda x: x.clip(0), [A]), "relu6": (tf.nn.relu6, lambda x: x.clip(0, 6), [9 * A]),
    "elu": (tf.nn.elu, lambda x: np.where(x > 0, x, np.expm1(x)), [A]),
    "leaky_relu": (tf.nn.leaky_relu, lambda x: np.where(x > 0, x, 0.2 * x), [A]),
    "softplus": (tf.nn.softplus, lambda x: np.log1p(np.exp(x)), [A]),
    "l2_loss": (tf.nn.l2_loss, lambda x: (x * x).sum() / 2, [A]), "softmax": (tf.nn.softmax, soft, [A]),
    "log_softmax": (tf.nn.log_softmax, lambda x: np.log(soft(x)), [A]),
    "bias_add": (tf.nn.bias_add, np.add, [A, V]),
    "xw_plus_b": (tf.nn.xw_plus_b, lambda x, w, b: x @ w + b, [A, np.ascontiguousarray(B.T), V[:3]]),
    "moments": (lambda x: tf.nn.moments(x, [0])[1], lambda x: x.var(0), [A]),
    "batch_normalization": (
        lambda x: tf.nn.batch_normalization(x, *tf.nn.moments(x, [0]), 0.5, 2.0, 1e-3),
        lambda x: (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-3) * 2 + 0.5, [A],
    ),
    "l2_normalize": (lambda x: tf.nn.l2_normalize(x, 1), lambda x: x / np.sqrt((x * x).sum(1, keepdims=True)), [A]),
    "embedding_lookup": (lambda x: tf.nn.embedding_lookup(x, [2, 2, 0]), lambda x: x[[2, 2, 0]], [A]),
    "in_top_k": (lambda x: tf.nn.in_top_k(x, [0, 1, 2], 2), lambda x: np.array(
        [label in row.argsort()[-2:] for row, label in zip(x, [0, 1, 2], strict=True)]), [A]),
    "top_k": (lambda x: tf.nn.top_k(x, 2)[0], lambda x: -np.sort(-x, 1)[:, :2], [A]),
    "softmax_cross_entropy": (
        lambda p, x: tf.nn.softmax_cross_entropy_with_logits(labels=p, logits=x),
        lambda p, x: -(p * np.log(soft(x))).sum(1), [soft(B), A],
    ),
    "sparse_softmax_cross_entropy": (
        lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[1, 0, 3], logits=x),
        lambda x: -np.log(soft(x))[[0, 1, 2], [1, 0, 3]], [A],
    ),
    "sigmoid_cross_entropy": (
        lambda z, x: tf.nn.sigmoid_cross_entropy_with_logits(labels=z, logits=x),
        lambda z, x: -z * np.log(1 / (1 + np.exp(-x))) - (1 - z) * np.log(1 / (1 + np.exp(x))), [soft(B), A],
    ),
    "losses.weighted": (
        lambda x: tf.losses.sparse_softmax_cross_entropy([1, 0, 3], x, weights=[1.0, 0.0, 2.0]),
        lambda x: (-np.log(soft(x))[[0, 2], [1, 3]] * [1, 2]).sum() / 2, [A],
    ),
    "losses.mean_squared_error": (tf.losses.mean_squared_error, lambda x, y: ((x - y) ** 2).mean(), [A, B]),
    "losses.absolute_difference": (tf.losses.absolute_difference, lambda x, y: np.abs(x - y).mean(), [A, B]),
    "losses.softmax_cross_entropy": (
        lambda p, x: tf.losses.softmax_cross_entropy(p, x, label_smoothing=0.2),
        lambda p, x: -((0.8 * p + 0.05) * np.log(soft(x))).sum(1).mean(), [soft(B), A],
    ),
}  # fmt: skip

for padding in ("SAME", "VALID"):
    for steps in ((1, 1), (2, 3)):
        CASES[f"conv2d {padding} {steps}"] = (
            lambda x, f, p=padding, s=steps: tf.nn.conv2d(x, f, [1, *s, 1], p),
            lambda x, f, p=padding, s=steps: convolved(x, f, *s, p), [IMAGES, FILTERS],
        )  # fmt: skip
        CASES[f"max_pool {padding} {steps}"] = (
            lambda x, p=padding, s=steps: tf.nn.max_pool(x, [1, 3, 2, 1], [1, *s, 1], p),
            lambda x, p=padding, s=steps: windows(x, 3, 2, *s, p, -np.inf).max((4, 5)), [IMAGES],
        )  # fmt: skip
        CASES[f"avg_pool {padding} {steps}"] = (
            lambda x, p=padding, s=steps: tf.nn.avg_pool(x, [1, 3, 2, 1], [1, *s, 1], p),
            lambda x, p=padding, s=steps: np.nanmean(windows(x, 3, 2, *s, p, np.nan), (4, 5)), [IMAGES],
        )  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "known"),
    [
        (name, known)
        for name in CASES
        for known in ("known", "first size unknown", "unknown")
        # The last size is part of the computation.
        if (name, known) != ("losses.softmax_cross_entropy", "unknown")
    ],
)
def test_op(name, known):
    call, expected, arrays = CASES[name]
    shapes = [None if known == "unknown" else [None if known[0] == "f" else a.shape[0], *a.shape[1:]] for a in arrays]
    holders = [tf.placeholder(a.dtype, s if a.ndim else []) for a, s in zip(arrays, shapes, strict=True)]
    found = call(*holders)
    wanted = np.asarray(expected(*arrays))
    assert found.shape.is_compatible_with(wanted.shape)
    if known == "known":
        assert found.shape.as_list() == list(wanted.shape)
    with tf.Session() as session:
        for _ in range(3):  # the third is replayed
            value = session.run(found, dict(zip(holders, arrays, strict=True)))
            assert value.shape == wanted.shape
            np.testing.assert_allclose(value, wanted, rtol=2e-5, atol=2e-6)
    numpy_type = {tf.float32: "f4", tf.int32: "i4", tf.int64: "i8", tf.bool: "?", tf.float64: "f8"}[found.dtype]
    assert value.dtype == numpy_type


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda: tf.constant([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]], np.int32)),
        (lambda: tf.constant(0.5, shape=[2, 2]), np.full((2, 2), 0.5, np.float32)),
        (lambda: tf.constant(np.float64(2)), np.float64(2)),
        # Whole numbers take 32 bits where they fit.
        (lambda: tf.constant([-(2**31), 2**31 - 1]), np.array([-(2**31), 2**31 - 1], np.int32)),
        (lambda: tf.constant([-(2**31) - 1, 0]), np.array([-(2**31) - 1, 0], np.int64)),
        (lambda: tf.constant([0, 2**31]), np.array([0, 2**31], np.int64)),
        (lambda: tf.zeros([2, 3], tf.int64), np.zeros((2, 3), np.int64)),
        (lambda: tf.ones([2]), np.ones(2, np.float32)),
        (lambda: tf.eye(2), np.eye(2, dtype=np.float32)),
        (lambda: tf.range(1, 7, 2), np.array([1, 3, 5], np.int32)),
        (lambda: tf.linspace(0.0, 1.0, 5), np.linspace(0, 1, 5, dtype=np.float32)),
        (lambda: tf.convert_to_tensor([1.0, tf.constant(2.0)]), np.array([1, 2], np.float32)),
    ],
)
def test_what_takes_no_tensors(make, wanted):
    tensor = make()
    with tf.Session():
        value = tensor.eval()
    assert value.dtype == wanted.dtype
    np.testing.assert_array_equal(value, wanted)


def test_random_numbers():
    tf.set_random_seed(4)
    normal, uniform = tf.random_normal([20000], 1.0, 2.0), tf.random_uniform([20000], -1, 3)
    short, whole = tf.truncated_normal([20000], stddev=0.1), tf.random_uniform([500], 2, 5, tf.int32)
    kept = tf.nn.dropout(tf.ones([20000]), keep_prob=tf.placeholder_with_default(0.25, []))
    rows = tf.nn.dropout(tf.ones([50, 4]), 0.5, noise_shape=[50, 1])
    seeded = tf.random_normal([3], seed=1)
    runs = []
    for _ in range(2):
        with tf.Session() as session:
            values = [session.run([normal, uniform, short, whole, kept, rows, seeded]) for _ in range(4)]
        runs.append(values)
    for before, after in zip(*runs, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    for a, b in zip(values[2], values[3], strict=True):
        assert not np.array_equal(a, b)
    n, u, s, w, k, r, _ = values[3]
    assert (n.mean(), n.std()) == (pytest.approx(1, abs=0.06), pytest.approx(2, abs=0.05))
    assert (u.min(), u.mean(), u.max()) == tuple(pytest.approx(each, abs=0.05) for each in (-1, 1, 3))
    assert np.abs(s).max() <= 0.2
    assert s.std() > 0.08
    assert set(w) == {2, 3, 4}
    assert set(np.unique(k)) == {0, 4}
    assert k.mean() == pytest.approx(1, abs=0.05)
    assert np.array_equal(r, np.repeat(r[:, :1], 4, 1))
    assert set(np.unique(r)) == {0, 2}


def test_an_op_with_a_seed_of_its_own_has_its_own_numbers():
    """Whatever else draws, and the graph's seed not set; those of two sessions begin alike."""
    seeded, other = tf.random_normal([4], seed=7), tf.random_normal([100])
    with tf.Session() as session:
        alone = [session.run(seeded) for _ in range(3)]
    with tf.Session() as session:
        beside = [session.run([other, seeded])[1] for _ in range(3)]
    assert np.array_equal(alone, beside)
    assert len({values.tobytes() for values in alone}) == 3


@pytest.mark.parametrize("name", ["data", "gfile", "keras", "no_such_name"])
def test_names_that_are_not_here_say_what_to_use(name):
    assert not hasattr(tf, name)
    with pytest.raises(AttributeError, match=rf"no attribute '{name}': .{{10}}"):
        getattr(tf, name)


def test_functions_of_one_and_two_numbers():
    x = np.array([0.3, -0.7], np.float32)
    names = ("tan", "asin", "acos", "atan", "sinh", "cosh", "expm1")
    numpy = {"asin": np.arcsin, "acos": np.arccos, "atan": np.arctan}
    with tf.Session() as sess:
        for name, found in zip(names, sess.run([getattr(tf, name)(x) for name in names]), strict=True):
            np.testing.assert_allclose(found, numpy.get(name, getattr(np, name, None))(x), rtol=1e-6, err_msg=name)
        erf, lgamma, infinite, angle = sess.run([
            tf.erf([0.5]), tf.lgamma([5.0]), tf.is_inf([np.inf, 1.0]), tf.atan2([1.0], [-1.0]),
        ])  # fmt: skip
        assert [*erf, *lgamma, *angle] == pytest.approx([0.5204999, np.log(24), 3 * np.pi / 4], abs=1e-6)
        assert infinite.tolist() == [True, False]


def test_sums_of_products_and_chosen_parts():
    a, b = np.arange(6.0, dtype=np.float32).reshape(2, 3), np.ones((3, 2), np.float32)
    keep = tf.placeholder(tf.bool, [None])
    x = tf.placeholder(tf.float32, [None, 3])
    chosen = tf.boolean_mask(x, keep)
    assert chosen.shape.as_list() == [None, 3]
    with tf.Session() as sess:
        made = sess.run([tf.einsum("ij,jk->ik", a, b), tf.tensordot(a, b, 1), tf.tensordot(a, b, [[1], [0]])])
        assert all(np.array_equal(each, a @ b) for each in made)
        gradient = tf.gradients(chosen, x)[0]
        parts, slope = sess.run([chosen, gradient], {x: a, keep: [False, True]})
        assert parts.tolist() == [[3.0, 4.0, 5.0]]
        assert slope.tolist() == [[0.0] * 3, [1.0] * 3]
    with pytest.raises(ValueError, match="mask must be a bool tensor"):
        tf.boolean_mask(a, [1, 0])
