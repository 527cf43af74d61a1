"""`cond` and `while_loop`: only what is chosen runs, gradients go through it, and wrong parts are named."""

import numpy as np
import pytest

import minitensor.compat.v1 as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def session():
    made = tf.Session()
    made.run(tf.global_variables_initializer())
    return made


def test_only_the_chosen_branch_runs():
    flag = tf.placeholder(tf.bool, [])
    count = tf.Variable(0)
    chosen = tf.cond(flag, lambda: tf.assign_add(count, 1), lambda: tf.identity(count))
    nothing = tf.cond(flag, lambda: tf.assign_add(count, 10).op, lambda: tf.no_op())
    sess = session()
    assert [int(sess.run(chosen, {flag: value})) for value in (True, False, True)] == [1, 1, 2]
    assert sess.run(nothing, {flag: False}) is None
    assert int(sess.run(count)) == 2
    assert sess.run(nothing, {flag: True}) is None
    assert int(sess.run(count)) == 12


def test_gradients_go_through_the_chosen_branch():
    x, flag = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.bool, [])
    weight = tf.Variable(2.0)
    pair = tf.cond(
        flag, lambda: (tf.reduce_sum(x * weight), tf.constant(1)), lambda: (tf.reduce_sum(x) - weight, tf.constant(2))
    )
    gradient = tf.gradients(pair[0], weight)[0]
    train = tf.train.GradientDescentOptimizer(0.5).minimize(pair[0])
    sess = session()
    feed = {x: [1.0, 2.0, 3.0], flag: True}
    assert sess.run([*pair, gradient], feed) == [12.0, 1, 6.0]
    assert sess.run([*pair, gradient], {**feed, flag: False}) == [4.0, 2, -1.0]
    sess.run(train, {**feed, flag: False})
    assert sess.run(weight) == 2.5


def test_a_branch_inside_of_a_branch_with_random_numbers():
    a, b = tf.placeholder(tf.bool, []), tf.placeholder(tf.bool, [])
    drawn = tf.cond(
        a, lambda: tf.cond(b, lambda: tf.random_uniform([3], 5.0, 6.0), lambda: tf.zeros([3])), lambda: tf.ones([3])
    )
    sess = session()
    found = sess.run(drawn, {a: True, b: True})
    assert found.shape == (3,)
    assert ((found >= 5) & (found < 6)).all()
    assert sess.run(drawn, {a: True, b: False}).tolist() == [0.0] * 3
    assert sess.run(drawn, {a: False, b: False}).tolist() == [1.0] * 3


def test_loops():
    weight = tf.Variable(2.0)
    i, total = tf.while_loop(
        lambda i, total: tf.less(i, 5),
        lambda i, total: [i + 1, total * weight + 1.0],
        [tf.constant(0), tf.constant(1.0)],
    )
    gradient = tf.gradients(total, weight)[0]
    x = tf.placeholder(tf.float32, [None])
    longer = tf.while_loop(
        lambda t: tf.shape(t)[0] < 8, lambda t: tf.concat([t, t], 0), [x], shape_invariants=[tf.TensorShape([None])]
    )
    bounded = tf.while_loop(lambda i: tf.less(i, 100), lambda i: i + 1, [tf.constant(0)], maximum_iterations=7)
    sess = session()
    for _ in range(3):
        assert sess.run([i, total, gradient]) == [5, 63.0, 129.0]
        assert sess.run(longer, {x: [1.0, 2.0, 3.0]}).shape == (12,)
        assert sess.run(bounded) == 7
    assert (i.dtype, total.shape.as_list(), longer.shape.as_list()) == (tf.int32, [], [None])


def test_variables_of_parts_must_have_values():
    weight = tf.Variable(1.0)
    flag = tf.placeholder(tf.bool, [])
    value = tf.cond(flag, lambda: weight * 2.0, lambda: tf.constant(1.0))
    with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized"):
        tf.Session().run(value, {flag: False})


def test_wrong_parts():
    flag = tf.placeholder(tf.bool, [])
    one, w = tf.constant(1.0), tf.Variable(1.0)
    for kind, match, call in (
        (TypeError, "must not be a Python bool", lambda: tf.cond(True, lambda: one, lambda: one)),
        (TypeError, "must be a bool", lambda: tf.cond(one, lambda: one, lambda: one)),
        (TypeError, "false_fn must be callable", lambda: tf.cond(flag, lambda: one)),
        (TypeError, "the same type", lambda: tf.cond(flag, lambda: one, lambda: tf.constant(1))),
        (ValueError, "same number", lambda: tf.cond(flag, lambda: one, lambda: [one, one])),
        (ValueError, "must return a value", lambda: tf.cond(flag, lambda: None, lambda: one)),
        (ValueError, "take gradients outside", lambda: tf.cond(flag, lambda: tf.gradients(one * w, w)[0], lambda: one)),
        (ValueError, "No loop variables", lambda: tf.while_loop(lambda: flag, lambda: 1, [])),
        (TypeError, "boolean scalar", lambda: tf.while_loop(lambda i: i, lambda i: i, [one])),
        (ValueError, "2 values for 1", lambda: tf.while_loop(lambda i: i < 2.0, lambda i: [i, i], [one])),
        (TypeError, "of a loop variable", lambda: tf.while_loop(lambda i: flag, lambda i: tf.cast(i, tf.int32), [one])),
        (ValueError, "not an invariant",
         lambda: tf.while_loop(lambda t: flag, lambda t: tf.concat([t, t], 0), [tf.zeros([2])])),
    ):  # fmt: skip
        with pytest.raises(kind, match=match):
            call()


def test_summaries(tmp_path):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    x = tf.placeholder(tf.float32, [None])
    assert tf.summary.merge_all() is None
    total = tf.reduce_sum(x)
    tf.summary.scalar("total", total)
    tf.summary.histogram("x", x, family="inputs")
    tf.summary.image("picture", tf.reshape(x, [1, 1, -1, 1]), max_outputs=1)
    merged = tf.summary.merge_all()
    with tf.Session() as sess, tf.summary.FileWriter(tmp_path, sess.graph) as writer:
        for step in range(2):
            shown, found = sess.run([merged, total], {x: [1.0, 2.0 + step]})
            assert type(shown) is bytes
            assert found == 3.0 + step
            writer.add_summary(shown, step)
        assert merged.eval({x: [0.0, 1.0]}, sess)
    (file,) = tmp_path.iterdir()
    events = list(loader.LegacyEventFileLoader(str(file)).Load())
    values = [(event.step, v.tag, v.simple_value) for event in events for v in event.summary.value]
    assert [v for v in values if v[1] == "total"] == [(0, "total", 3.0), (1, "total", 4.0)]
    assert {tag for _, tag, _ in values} == {"total", "inputs/x", "picture/image"}
    assert any(b"Placeholder" in event.graph_def for event in events)
    with pytest.raises(TypeError, match="merge takes summaries"):
        tf.summary.merge([total])
    assert np.isfinite(found)
