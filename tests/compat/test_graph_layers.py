"""`tf.layers`, compared with PyTorch's formulas by minitensor's own modules, and the variables that it makes."""

import numpy as np
import pytest

import minitensor as mt
import minitensor.compat.v1 as tf

rng = np.random.default_rng(0)


def numbers(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def names():
    return [variable.op.name for variable in tf.global_variables()]


def test_dense_is_a_product_a_sum_and_the_activation():
    x = numbers(5, 3)
    y = tf.layers.dense(x, 4, tf.nn.relu, bias_initializer=tf.ones_initializer)
    assert y.shape.as_list() == [5, 4]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        found, kernel, bias = sess.run([y, *tf.global_variables()])
    assert names() == ["dense/kernel", "dense/bias"]
    assert np.array_equal(bias, np.ones(4))
    assert 0 < np.abs(kernel).max() <= np.sqrt(6 / 7)
    np.testing.assert_allclose(found, np.maximum(x @ kernel + bias, 0), rtol=1e-5, atol=1e-6)


def test_dense_takes_more_dimensions_of_unknown_sizes():
    p = tf.placeholder(tf.float32, [None, None, 3])
    y = tf.layers.dense(p, 2, use_bias=False, name="out")
    x = numbers(4, 5, 3)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        found, kernel = sess.run([y, *tf.global_variables()], {p: x})
    assert names() == ["out/kernel"]
    np.testing.assert_allclose(found, x @ kernel, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="should be defined"):
        tf.layers.dense(tf.placeholder(tf.float32, [2, None]), 3)


def test_layers_without_names_are_numbered_and_shared_on_request():
    def model(x, reuse):
        with tf.variable_scope("model", reuse=reuse):
            return tf.layers.dense(tf.layers.dense(x, 3), 3)

    x = tf.constant(numbers(2, 3))
    first, second = model(x, None), model(x, True)
    assert names() == ["model/dense/kernel", "model/dense/bias", "model/dense_1/kernel", "model/dense_1/bias"]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        a, b = sess.run([first, second])
    assert np.array_equal(a, b)
    tf.layers.dense(x, 2)
    tf.layers.dense(x, 2)
    assert names()[4::2] == ["dense/kernel", "dense_1/kernel"]
    with pytest.raises(ValueError, match="already exists"):
        tf.layers.dense(x, 3, name="dense")


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("strides", [1, 2])
def test_conv2d_and_pools(padding, strides):
    x = numbers(2, 7, 8, 3)
    y = tf.layers.conv2d(x, 4, [3, 2], strides, padding, activation=tf.nn.relu)
    largest = tf.layers.max_pooling2d(y, 2, 2, padding)
    mean = tf.layers.average_pooling2d(y, (2, 2), (1, 2), padding)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        kernel, bias = sess.run(tf.global_variables())
        wanted = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, [1, strides, strides, 1], padding.upper()), bias))
        found, pooled, averaged, same = sess.run([y, largest, mean, wanted])
        window = [1, 2, 2, 1]
        assert np.array_equal(found, same)
        assert np.array_equal(pooled, sess.run(tf.nn.max_pool(found, window, window, padding.upper())))
        assert np.array_equal(averaged, sess.run(tf.nn.avg_pool(found, window, [1, 1, 2, 1], padding.upper())))
    assert kernel.shape == (3, 2, 3, 4)
    with pytest.raises(ValueError, match="channels_last"):
        tf.layers.conv2d(x, 4, 3, data_format="channels_first")


def test_flatten_keeps_the_batch():
    known = tf.layers.flatten(tf.placeholder(tf.float32, [None, 2, 3]))
    assert known.shape.as_list() == [None, 6]
    p = tf.placeholder(tf.float32, [None, None, 3])
    with tf.Session() as sess:
        x = numbers(4, 5, 3)
        assert np.array_equal(sess.run(tf.layers.flatten(p), {p: x}), x.reshape(4, 15))


def test_dropout_is_for_training():
    x, flag = np.ones((100, 100), np.float32), tf.placeholder(tf.bool, [])
    never, always, fed = (tf.layers.dropout(x, 0.25, training=training) for training in (False, True, flag))
    with tf.Session() as sess:
        a, b, c = sess.run([never, always, fed], {flag: True})
        assert np.array_equal(a, x)
        for found in (b, c):
            assert set(np.unique(found)) == {np.float32(0), np.float32(1) / np.float32(0.75)}
            assert np.count_nonzero(found) / found.size == pytest.approx(0.75, abs=0.03)
        assert np.array_equal(sess.run(fed, {flag: False}), x)


@pytest.mark.parametrize("shape", [(6, 3), (4, 5, 6, 3)])
@pytest.mark.parametrize("fed", [False, True])
def test_batch_normalization_by_the_batch_then_by_what_was_kept(shape, fed):
    p, flag = tf.placeholder(tf.float32, [None, *shape[1:]]), tf.placeholder(tf.bool, [])
    if fed:
        train = test = tf.layers.batch_normalization(p, momentum=0.9, training=flag)
    else:
        train = tf.layers.batch_normalization(p, momentum=0.9, training=True, name="n")
        test = tf.layers.batch_normalization(p, momentum=0.9, name="n", reuse=True)
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert len(updates) == 2
    assert [variable.trainable for variable in tf.global_variables()] == [True, True, False, False]
    own = mt.nn.BatchNorm1d(3, eps=1e-3, momentum=0.1) if len(shape) == 2 else mt.nn.BatchNorm2d(3, 1e-3, 0.1)

    def expected(x):
        images = mt.tensor(x).movedim(-1, 1)
        return own(images).movedim(1, -1).detach().numpy()

    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            x = numbers(*shape)
            found = sess.run([train, *updates], {p: x, flag: True})[0]
            np.testing.assert_allclose(found, expected(x), rtol=1e-4, atol=1e-5)
        mean, variance = sess.run(tf.global_variables()[2:])
        np.testing.assert_allclose(mean, own.running_mean.numpy(), rtol=1e-5, atol=1e-6)
        if len(shape) == 4:  # of rows it is the population's, of images a sample's as PyTorch's
            np.testing.assert_allclose(variance, own.running_var.numpy(), rtol=1e-5)
            own.eval()
            np.testing.assert_allclose(sess.run(test, {p: x, flag: False}), expected(x), rtol=1e-4, atol=1e-5)
        sess.run(updates, {p: x, flag: False} if fed else {p: x})
        after = sess.run(tf.global_variables()[2:])
        assert np.array_equal(after[0], mean) == fed


@pytest.mark.parametrize("level", ["L0", "ON_1"])
def test_a_network_of_layers_learns(level):
    images, digits = numbers(64, 6, 6, 1), np.arange(64) % 2
    images[digits == 1, 2:4, 2:4] += 3
    x, y, training = tf.placeholder(tf.float32, [None, 6, 6, 1]), tf.placeholder(tf.int64, [None]), True
    h = tf.layers.conv2d(x, 4, 3, padding="same", activation=tf.nn.relu)
    h = tf.layers.max_pooling2d(tf.layers.batch_normalization(h, training=training), 2, 2)
    loss = tf.losses.sparse_softmax_cross_entropy(y, tf.layers.dense(tf.layers.flatten(h), 2))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        step = tf.train.AdamOptimizer(0.01).minimize(loss)
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = getattr(
        tf.OptimizerOptions, "ON_1" if level != "OFF" else "L0"
    )
    with tf.Session(config=config) as sess:
        sess.run(tf.global_variables_initializer())
        values = [sess.run([loss, step], {x: images, y: digits})[0] for _ in range(40)]
    assert values[-1] < 0.3 * values[0]
