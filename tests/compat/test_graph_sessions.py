"""Graphs in sessions: values, variables, programs, errors, names, timelines, threads."""

import collections
import json
import threading

import numpy as np
import pytest

import minitensor as mt
import minitensor.compat.v1 as tf
from minitensor import timeline
from minitensor_jit.functions import recorder

pytestmark = pytest.mark.at_once(reason="it counts what runs")


@pytest.fixture
def recorded(monkeypatch):
    """Counts the runs that Python recorded."""
    found = []
    record = recorder.Recorder.record

    def counted(recorder, *args):
        found.append(recorder)
        return record(recorder, *args)

    monkeypatch.setattr(recorder.Recorder, "record", counted)
    return found


@pytest.fixture(autouse=True)
def _compiles_at_once():
    with mt.jit.options(enable_lazy_compilation=False):
        yield


def config(level):
    made = tf.ConfigProto()
    made.graph_options.optimizer_options.global_jit_level = level
    return made


def softmax_model(pixels=6, classes=3, scope=None):
    x = tf.placeholder(tf.float32, [None, pixels], name="x")
    w = tf.Variable(tf.zeros([pixels, classes]), name="w")
    b = tf.Variable(tf.zeros([classes]), name="b")
    with scope() if scope else tf.name_scope(""):
        logits = tf.matmul(x, w) + b
        labels = tf.placeholder(tf.int64, [None], name="labels")
        loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    return x, labels, w, b, loss


def batches(count, size=8, pixels=6, classes=3):
    generator = np.random.default_rng(1)
    return [
        (generator.random((size, pixels), dtype=np.float32), generator.integers(0, classes, size)) for _ in range(count)
    ]


def softmax_by_hand(steps, rate=0.5):
    w, b, losses = np.zeros((6, 3)), np.zeros(3), []
    for x, labels in steps:
        logits = x @ w + b
        p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        losses.append(-np.log(p[np.arange(len(x)), labels]).mean())
        g = (p - np.eye(3)[labels]) / len(x)
        w, b = w - rate * x.T @ g, b - rate * g.sum(0)
    return losses, w, b


@pytest.mark.parametrize("level", [-1, 0, 1, 2])
def test_softmax_regression(level, recorded):
    x, labels, w, b, loss = softmax_model()
    step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    steps = batches(40)
    wanted, w_wanted, b_wanted = softmax_by_hand(steps)
    with tf.Session(config=config(level)) as session:
        session.run(tf.global_variables_initializer())
        losses, counts = [], []
        for images, classes in steps:
            recorded.clear()
            losses.append(session.run([loss, step], {x: images, labels: classes})[0])
            counts.append(len(recorded))
        np.testing.assert_allclose(losses, wanted, rtol=1e-5)
        np.testing.assert_allclose(session.run(w), w_wanted, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(session.run(b), b_wanted, rtol=1e-4, atol=1e-6)
        assert counts[:2] == [0, 1]  # the first run runs op by op, the second makes the program
        assert counts[-10:] == [0] * 10


def boxes(mode):
    scope = tf.contrib.compiler.jit.experimental_jit_scope if mode == "scope" else None
    x, labels, _, _, loss = softmax_model(scope=scope)
    step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    metadata = tf.RunMetadata()
    with tf.Session(config=config(tf.OptimizerOptions.ON_1 if mode == "on" else 0)) as session:
        session.run(tf.global_variables_initializer())
        for images, classes in batches(30):
            session.run(step, {x: images, labels: classes})
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run(step, {x: images, labels: classes}, options=options, run_metadata=metadata)
    trace = json.loads(timeline.Timeline(step_stats=metadata.step_stats).generate_chrome_trace_format())
    return {event["name"] for event in trace["traceEvents"] if event["ph"] == "X"}


def test_the_timeline_has_boxes_of_ops():
    assert "MatMul" in boxes("ops")
    assert "_JitLaunch" not in boxes("ops")


@pytest.mark.parametrize("mode", ["on", "scope"])
def test_the_timeline_has_launches(mode):
    found = boxes(mode)
    assert "_JitLaunch" in found
    assert "MatMul" not in found


def test_changed_shapes_and_variables_are_seen():
    x = tf.placeholder(tf.float32, [None, 2])
    w = tf.Variable([[1.0], [2.0]])
    y = tf.matmul(x, w)
    twice = w.assign(w * 2)
    with tf.Session() as session:
        w.initializer.run()
        for size in (1, 4, 4, 4, 7, 1):
            value = np.full((size, 2), 3, np.float32)
            assert y.eval({x: value}).tolist() == [[9.0]] * size
        for factor in (2, 4, 8, 16):
            session.run(twice)
            assert y.eval({x: [[1, 1]]}).tolist() == [[3.0 * factor]]
        w.load([[0.0], [1.0]])
        assert y.eval({x: [[1, 1]]}).tolist() == [[1.0]]


def test_results_are_copies():
    w = tf.Variable([1.0, 2.0])
    add = w.assign_add([1.0, 1.0])
    x = tf.placeholder(tf.float32, [2])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        seen = [session.run(w) for _ in range(3)]
        later = [session.run(add) for _ in range(4)]
        assert [value.tolist() for value in seen] == [[1, 2]] * 3
        assert [value.tolist() for value in later] == [[2, 3], [3, 4], [4, 5], [5, 6]]
        fed = np.array([1, 2], np.float32)
        back = session.run(tf.reshape(x, [2, 1]), {x: fed})
        fed[:] = 0
        assert back.tolist() == [[1], [2]]


def test_sessions_have_variables_of_their_own():
    w = tf.Variable(1.0)
    add = tf.assign_add(w, 1.0)
    one, two = tf.Session(), tf.Session()
    for session in (one, two):
        session.run(w.initializer)
    for _ in range(3):
        one.run(add)
    assert (one.run(w), two.run(w)) == (4, 1)


def test_structures_of_fetches():
    Pair = collections.namedtuple("Pair", "a b")
    a, b = tf.constant(1.0), tf.constant([2, 3], name="b")
    done = tf.group(a, b)
    with tf.Session() as session:
        found = session.run({"x": [a, (done, b)], "y": Pair(a, [b]), "z": "b:0"})
        assert type(session.run(Pair(a, b))) is Pair
        assert type(session.run((a, b))) is tuple
        assert type(session.run([Pair(a, b)])[0]) is Pair
        assert type(session.run([(a, b)])[0]) is tuple
    assert found["x"][0] == 1
    assert found["x"][1][0] is None
    assert found["y"].b[0].tolist() == found["z"].tolist() == [2, 3]
    assert isinstance(found["x"][0], np.float32)


def test_what_is_fed_replaces_what_would_be_computed():
    x = tf.placeholder_with_default([1.0, 2.0], [None])
    y = x * 2
    z = y + 1
    with tf.Session() as session:
        assert session.run(z).tolist() == [3, 5]
        assert session.run(z, {x: [5]}).tolist() == [11]
        assert session.run(z, {y: [5]}).tolist() == [6]
        assert session.run([y, z], {y.name: [5]})[0].tolist() == [5]


def test_control_dependencies():
    w = tf.Variable(1.0)
    with tf.control_dependencies([w.assign_add(1.0)]):
        seen = tf.identity(w)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert [session.run(seen) for _ in range(4)] == [2, 3, 4, 5]


def test_an_interactive_session_is_the_default_one():
    session = tf.InteractiveSession()
    assert tf.get_default_session() is session
    assert tf.constant(3.0).eval() == 3
    session.close()
    assert tf.get_default_session() is None
    with pytest.raises(ValueError, match="No default session"):
        tf.constant(3.0).eval()
    with pytest.raises(RuntimeError, match="closed"):
        session.run(tf.constant(1.0))


# ---- errors


def test_a_placeholder_without_a_value():
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError) as caught:
        session.run(x + 1)
    assert caught.value.op is x.op
    message = str(caught.value)
    assert "placeholder tensor 'x' with dtype float32 and shape [?,2]" in message
    assert "test_graph_sessions.py:" in message


def test_a_variable_without_a_value():
    w = tf.Variable(1.0, name="w")
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value w"):
            session.run(w + 1)
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value w"):
            session.run(w.assign_add(1.0))
        session.run(w.assign(3.0))
        assert session.run(w + 1) == 4


def test_shapes_are_compared_when_the_graph_is_made():
    x, w = tf.placeholder(tf.float32, [None, 784]), tf.zeros([783, 10])
    with pytest.raises(ValueError, match=r"'MatMul'.*\[\?,784\], \[783,10\]"):
        tf.matmul(x, w)
    with pytest.raises(ValueError, match=r"\[2,3\], \[4\]"):
        tf.zeros([2, 3]) + tf.zeros([4])
    with pytest.raises(TypeError, match="type int32 that does not match type float32"):
        tf.zeros([2]) + tf.zeros([2], tf.int32)
    with pytest.raises(ValueError, match="has shape"):
        tf.Variable(tf.zeros([2])).assign([1.0, 2.0, 3.0])


def test_shapes_that_are_known_when_it_runs():
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32, name="y")
    total = tf.add(x, y, name="total")
    with tf.Session() as session:
        for _ in range(3):
            assert session.run(total, {x: [1, 2], y: 1}).tolist() == [2, 3]
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"node total \(Add\), made at .*sessions.py:\d+"):
                session.run(total, {x: [1, 2], y: [1, 2, 3]})


def test_what_can_not_be_fed_or_fetched():
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    with tf.Session() as session:
        with pytest.raises(ValueError, match=r"shape \(3,\) for Tensor 'x:0', which has shape '\(\?, 2\)'"):
            session.run(x, {x: [1, 2, 3]})
        with pytest.raises(TypeError, match=r"value of a feed cannot be a tf\.Tensor"):
            session.run(x, {x: tf.zeros([1, 2])})
        with pytest.raises(TypeError, match="feed_dict key"):
            session.run(x, {"nothing:0": 1})
        with pytest.raises(TypeError, match="must be a string or Tensor"):
            session.run(3)
        with pytest.raises(ValueError, match="cannot be interpreted"):
            session.run("nothing:0")
        with tf.Graph().as_default():
            other = tf.zeros([1])
        with pytest.raises(ValueError, match="not an element of this graph"):
            session.run(other)
    with pytest.raises(ValueError, match="same graph"):
        tf.get_default_graph().add("Add", mt.add, [x, other])
    with pytest.raises(TypeError, match="bool"):
        bool(x)
    with pytest.raises(TypeError, match="iterable"):
        list(x)


# ---- names


def test_names():
    x = tf.placeholder(tf.float32, name="x")
    assert x.name == "x:0"
    assert tf.placeholder(tf.float32, name="x").name == "x_1:0"
    assert tf.placeholder(tf.float32).name == "Placeholder:0"
    with tf.name_scope("layer") as scope:
        assert scope == "layer/"
        assert tf.zeros([1], name="z").name == "layer/z:0"
    with tf.name_scope("layer"):
        assert tf.zeros([1], name="z").name == "layer_1/z:0"
    w = tf.Variable(1.0, name="w")
    assert (w.name, w.op.name, w.initializer.name) == ("w:0", "w", "w/Assign")
    assert tf.Variable(1.0, name="w").name == "w_1:0"
    graph = tf.get_default_graph()
    assert graph.get_tensor_by_name("x:0") is x
    assert graph.get_operation_by_name("x") is x.op
    with pytest.raises(KeyError):
        graph.get_tensor_by_name("nothing:0")
    with pytest.raises(ValueError, match="valid scope name"):
        tf.zeros([1], name="a b")
    assert repr(x) == "<tf.Tensor 'x:0' dtype=float32>"
    assert repr(w) == "<tf.Variable 'w:0' shape=() dtype=float32_ref>"


def test_variable_scopes():
    with tf.variable_scope("a"):
        w = tf.get_variable("w", [2, 3])
        with pytest.raises(ValueError, match="a/w already exists"):
            tf.get_variable("w", [2, 3])
    with tf.variable_scope("a", reuse=True):
        assert tf.get_variable("w") is w
        with pytest.raises(ValueError, match="does not exist"):
            tf.get_variable("v", [1])
        with pytest.raises(ValueError, match="specified shape"):
            tf.get_variable("w", [3])
    with tf.variable_scope("a", reuse=tf.AUTO_REUSE) as scope, tf.variable_scope("b"):
        inner = tf.get_variable("v", [4], initializer=tf.constant_initializer(2.0), trainable=False)
        assert scope.name == "a"
    assert (w.name, inner.name) == ("a/w:0", "a/b/v:0")
    assert tf.trainable_variables() == [w]
    assert tf.global_variables() == [w, inner]
    assert tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, "a/b") == [inner]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first, second = session.run([w, inner])
    assert np.abs(first).max() <= np.sqrt(6 / 5)
    assert len(set(first.ravel())) == 6
    assert second.tolist() == [2] * 4


# ---- files


def test_saving_and_restoring(tmp_path):
    v, w = tf.Variable([1.0, 2.0], name="v"), tf.Variable(3, name="w")
    saver, path = tf.train.Saver(max_to_keep=2), str(tmp_path / "model")
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError):
            saver.save(session, path)
        session.run(tf.global_variables_initializer())
        for step in range(3):
            session.run(v.assign_add([1.0, 1.0]))
            assert saver.save(session, path, global_step=step) == f"{path}-{step}"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["checkpoint", "model-1", "model-2"]
    assert tf.train.latest_checkpoint(str(tmp_path)) == f"{path}-2"
    with tf.Session() as session:
        saver.restore(session, f"{path}-1")
        assert [each.tolist() for each in session.run([v, w])] == [[3, 4], 3]
        with pytest.raises(tf.errors.NotFoundError):
            saver.restore(session, f"{path}-0")
    with tf.Graph().as_default(), tf.Session() as session:
        other = tf.train.Saver([tf.Variable([1.0], name="v")])
        with pytest.raises(tf.errors.InvalidArgumentError, match="v has shape"):
            other.restore(session, f"{path}-2")


# ---- threads


def test_threads_share_a_session():
    x = tf.placeholder(tf.float32, [None])
    y = tf.reduce_sum(tf.tanh(x) * 2)
    session, wrong = tf.Session(), []

    def work(seed):
        generator = np.random.default_rng(seed)
        for _ in range(60):
            values = generator.random(5 + seed, dtype=np.float32)
            found = session.run(y, {x: values})
            if abs(found - 2 * np.tanh(values).sum()) > 1e-4:
                wrong.append((seed, found))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_default_graphs_belong_to_threads():
    seen = []
    with tf.Graph().as_default() as mine:
        thread = threading.Thread(target=lambda: seen.append(tf.get_default_graph()))
        thread.start()
        thread.join()
        assert tf.get_default_graph() is mine
    assert seen[0] is not mine


def test_configurations_that_scripts_make():
    made = tf.ConfigProto(allow_soft_placement=True, log_device_placement=False)
    made.gpu_options.allow_growth = True
    made.gpu_options.per_process_gpu_memory_fraction = 0.5
    options = tf.GPUOptions(per_process_gpu_memory_fraction=0.5, allow_growth=True)
    assert made == tf.ConfigProto(allow_soft_placement=True, gpu_options=options)
    assert made != tf.ConfigProto()
    with tf.Session(config=made) as session:
        assert session.run(tf.constant(2.0) + 1.0) == 3.0
    with pytest.raises(TypeError, match="allow_growth must be of type bool, not int"):
        made.gpu_options.allow_growth = 1
    with pytest.raises(AttributeError, match="did you mean 'allow_growth'"):
        made.gpu_options.allow_grow = True
