"""Gradients and optimizers of graphs: against finite differences, and steps by hand."""

import math

import numpy as np
import pytest

import minitensor.compat.v1 as tf

pytestmark = pytest.mark.at_once(reason="sessions record by themselves")

A = np.random.default_rng(2).standard_normal((3, 4))
IMAGES = np.random.default_rng(3).standard_normal((1, 4, 5, 2))


def differences(run, x, step=1e-6):
    found = np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[place] += step
        down[place] -= step
        found[place] = (run(up) - run(down)) / (2 * step)
    return found


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (lambda x: tf.reduce_sum(tf.tanh(x) * tf.exp(x)), A),
        (lambda x: tf.reduce_mean(tf.matmul(x, x, transpose_b=True)), A),
        (lambda x: tf.reduce_sum(tf.nn.softmax(x)[:, 1]), A),
        (lambda x: tf.reduce_sum(tf.square(tf.gather(x, [2, 0, 2]))), A),
        (lambda x: tf.reduce_sum(tf.nn.moments(x, [0])[1]), A),
        (lambda x: tf.nn.l2_loss(tf.concat([x, x * 2], 1)), A),
        (lambda x: tf.losses.sparse_softmax_cross_entropy([1, 0, 3], x), A),
        (lambda x: tf.reduce_sum(tf.square(tf.nn.conv2d(x, tf.cast(tf.ones([3, 2, 2, 1]), tf.float64), [1, 2, 1, 1],
                                                        "SAME"))), IMAGES),
        (lambda x: tf.reduce_sum(tf.square(tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"))), IMAGES),
        (lambda x: tf.reduce_sum(tf.square(tf.nn.avg_pool(x, [1, 3, 2, 1], [1, 2, 2, 1], "SAME"))), IMAGES),
    ],
)  # fmt: skip
def test_gradients(call, value):
    x = tf.placeholder(tf.float64, [None, *value.shape[1:]])
    y = call(x)
    (gradient,) = tf.gradients(y, x)
    assert gradient.shape.as_list() == x.shape.as_list()
    with tf.Session() as session:
        wanted = differences(lambda v: session.run(y, {x: v}), value)
        for _ in range(3):
            np.testing.assert_allclose(session.run(gradient, {x: value}), wanted, rtol=1e-6, atol=1e-7)


def test_gradients_by_intermediate_values_and_of_gradients():
    x = tf.placeholder(tf.float64, [3])
    h = x * x
    y = tf.reduce_sum(h * h)
    by_h, by_x = tf.gradients(y, [h, x])
    (second,) = tf.gradients(by_x, x)
    (weighted,) = tf.gradients(h, x, grad_ys=[[1.0, 2.0, 3.0]])
    v = np.array([1.0, 2.0, -3.0])
    with tf.Session() as session:
        for _ in range(3):
            found = session.run([by_h, by_x, second, weighted], {x: v})
            for value, wanted in zip(found, [2 * v**2, 4 * v**3, 12 * v**2, 2 * v * [1, 2, 3]], strict=True):
                np.testing.assert_allclose(value, wanted)


def test_what_has_no_gradient():
    x, z = tf.placeholder(tf.float32, [3]), tf.placeholder(tf.float32, [3])
    assert tf.gradients(x * 2, z) == [None]
    assert tf.gradients(tf.stop_gradient(x) * 2, x) == [None]
    assert tf.gradients(tf.cast(tf.argmax(x, 0), tf.float32), x) == [None]
    with pytest.raises(TypeError, match="floating point"):
        tf.gradients(tf.argmax(x, 0), x)
    w = tf.Variable([1.0])
    with pytest.raises(ValueError, match="No gradients provided for any variable"):
        tf.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(x))
    with tf.Graph().as_default(), pytest.raises(ValueError, match="No variables"):
        tf.train.GradientDescentOptimizer(1.0).minimize(tf.constant(1.0))
    assert w.trainable


def gradient_descent(w, g, state):
    return w - 0.1 * g


def momentum(w, g, state):
    state["a"] = 0.9 * state.get("a", 0) + g
    return w - 0.1 * state["a"]


def nesterov(w, g, state):
    state["a"] = 0.9 * state.get("a", 0) + g
    return w - 0.1 * (g + 0.9 * state["a"])


def adagrad(w, g, state):
    state["a"] = state.get("a", 0.1) + g * g
    return w - 0.1 * g / np.sqrt(state["a"])


def rmsprop(w, g, state, centered=False):
    state["s"] = 0.8 * state.get("s", 1.0) + 0.2 * g * g
    state["mean"] = 0.8 * state.get("mean", 0.0) + 0.2 * g
    spread = state["s"] - state["mean"] ** 2 if centered else state["s"]
    state["m"] = 0.5 * state.get("m", 0.0) + 0.1 * g / np.sqrt(spread + 1e-6)
    return w - state["m"]


def adam(w, g, state):
    state["t"] = t = state.get("t", 0) + 1
    state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
    state["v"] = 0.99 * state.get("v", 0) + 0.01 * g * g
    return w - 0.1 * np.sqrt(1 - 0.99**t) / (1 - 0.9**t) * state["m"] / (np.sqrt(state["v"]) + 1e-4)


OPTIMIZERS = {
    "sgd": (lambda: tf.train.GradientDescentOptimizer(0.1), gradient_descent, []),
    "momentum": (lambda: tf.train.MomentumOptimizer(0.1, 0.9), momentum, ["momentum"]),
    "nesterov": (lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True), nesterov, ["momentum"]),
    "adagrad": (lambda: tf.train.AdagradOptimizer(0.1), adagrad, ["accumulator"]),
    "rmsprop": (lambda: tf.train.RMSPropOptimizer(0.1, 0.8, 0.5, 1e-6), rmsprop, ["rms", "momentum"]),
    "rmsprop, centered": (
        lambda: tf.train.RMSPropOptimizer(0.1, 0.8, 0.5, 1e-6, centered=True),
        lambda w, g, state: rmsprop(w, g, state, centered=True),
        ["rms", "momentum", "mg"],
    ),
    "adam": (lambda: tf.train.AdamOptimizer(0.1, 0.9, 0.99, 1e-4), adam, ["m", "v"]),
}


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name, level):
    make, by_hand, slots = OPTIMIZERS[name]
    w = tf.Variable(np.array([1.0, -2.0, 3.0]), name="w")
    target = tf.placeholder(tf.float64, [3])
    step, optimizer = tf.train.get_or_create_global_step(), make()
    train = optimizer.minimize(tf.reduce_sum(tf.square(tf.square(w) - target)), global_step=step)
    assert optimizer.get_slot_names() == slots
    assert tf.trainable_variables() == [w]
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = level
    expected, state = np.array([1.0, -2.0, 3.0]), {}
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        for number in range(15):
            goal = np.array([2.0, 1.0, 0.5]) + number / 10
            session.run(train, {target: goal})
            expected = by_hand(expected, 4 * expected * (expected**2 - goal), state)
            if name in ("sgd", "momentum", "nesterov") and number > 3:
                break
            np.testing.assert_allclose(session.run(w), expected, rtol=1e-9)
        assert session.run(step) == number + 1


def test_gradients_are_from_before_the_step():
    v, w = tf.Variable(2.0), tf.Variable(3.0)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(v * w)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        np.testing.assert_allclose(session.run([v, w]), [2 - 0.3, 3 - 0.2], rtol=1e-6)


def test_gradients_may_be_changed_between():
    w = tf.Variable([3.0, 4.0])
    rate = tf.placeholder(tf.float32, [])
    optimizer = tf.train.GradientDescentOptimizer(rate)
    (pair,) = optimizer.compute_gradients(tf.nn.l2_loss(w))
    (clipped,), norm = tf.clip_by_global_norm([pair[0]], 1.0)
    train = optimizer.apply_gradients([(clipped, w)])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run([norm, train], {rate: 0.5})[0] == pytest.approx(5)
        np.testing.assert_allclose(session.run(w), [3 - 0.3, 4 - 0.4], rtol=1e-6)
        session.run(train, {rate: 0.0})
        np.testing.assert_allclose(session.run(w), [3 - 0.3, 4 - 0.4], rtol=1e-6)


def test_exponential_decay():
    step = tf.placeholder(tf.int64, [])
    rates = [tf.train.exponential_decay(0.5, step, 10, 0.9, staircase=stairs) for stairs in (False, True)]
    with tf.Session() as session:
        found = session.run(rates, {step: 25})
    np.testing.assert_allclose(found, [0.5 * 0.9**2.5, 0.5 * 0.9**2], rtol=1e-6)


def test_other_decays():
    step = tf.placeholder(tf.int32, [])
    rates = [
        tf.train.natural_exp_decay(0.5, step, 10, 0.9),
        tf.train.natural_exp_decay(0.5, step, 10, 0.9, staircase=True),
        tf.train.inverse_time_decay(0.5, step, 10, 0.9),
        tf.train.polynomial_decay(0.5, step, 10, 0.1, power=2.0),
        tf.train.polynomial_decay(0.5, step, 10, 0.1, cycle=True),
        tf.train.cosine_decay(0.5, step, 10, alpha=0.2),
        tf.train.piecewise_constant(step, [10, 15], [0.5, 0.2, 0.1]),
    ]
    with tf.Session() as sess:
        for now in (0, 3, 10, 14, 16):
            part, whole = now / 10, now // 10
            cycle = max(1, math.ceil(part)) * 10
            wave = 0.5 * (1 + math.cos(math.pi * min(part, 1)))
            assert sess.run(rates, {step: now}) == pytest.approx([
                0.5 * math.exp(-0.9 * part), 0.5 * math.exp(-0.9 * whole), 0.5 / (1 + 0.9 * part),
                0.4 * (1 - min(part, 1)) ** 2 + 0.1, 0.4 * (1 - now / cycle) + 0.1, 0.5 * (0.8 * wave + 0.2),
                0.5 if now <= 10 else 0.2 if now <= 15 else 0.1,
            ], abs=1e-6)  # fmt: skip
    with pytest.raises(ValueError, match="1 less than the length of values"):
        tf.train.piecewise_constant(step, [1], [0.1])


def test_other_losses():
    guess, label = np.array([0.2, 0.9, 0.5], np.float32), np.array([1.0, 1.0, 0.0], np.float32)
    with tf.Session() as sess:
        found = sess.run([
            tf.losses.huber_loss(label, guess * 4, delta=1.5), tf.losses.log_loss(label, guess),
            tf.losses.hinge_loss(label, guess),
        ])  # fmt: skip
    error = np.abs(label - guess * 4)
    huber = np.where(error <= 1.5, error**2 / 2, 1.5 * (error - 1.5) + 1.5**2 / 2)
    cross = -(label * np.log(guess + 1e-7) + (1 - label) * np.log(1 - guess + 1e-7))
    hinge = np.maximum(0, 1 - (2 * label - 1) * guess)
    assert found == pytest.approx([huber.mean(), cross.mean(), hinge.mean()], abs=1e-6)
