"""Names of TensorFlow: they are here, or say what to use.

`names_of_tensorflow.txt` has what `dir` gives of tensorflow 2.21's `compat.v1` and of those of its modules that are
here, and what was in `tf.layers` and `tf.contrib` of tensorflow 1.15.
"""

import importlib
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

import minitensor
import minitensor.compat.v1 as tf

NAMES = (Path(__file__).parent / "names_of_tensorflow.txt").read_text().split()
MENTIONED = re.compile(r"\b(?:tf|minitensor)(?:\.\w+)+")


def found(name):
    """What a name stands for; `tf` is the module here."""
    first, *rest = name.split(".")
    thing = tf if first == "tf" else minitensor
    for depth, part in enumerate(rest, 1):
        try:
            thing = getattr(thing, part)
        except AttributeError:
            module = f"{thing.__name__}.{part}"
            if depth == len(rest):
                return find_spec(module)  # not imported: the alias refuses where PyTorch was imported before
            thing = importlib.import_module(module)
    return thing


def refusal(name):
    """The text of the AttributeError for a name without `tf.`; None if it is here."""
    thing = tf
    for part in name.split("."):
        try:
            thing = getattr(thing, part)
        except AttributeError as error:
            return str(error)
    return None


REFUSED = {name: text for name in NAMES if (text := refusal(name)) is not None}


def test_what_is_here_is_counted():
    assert len(NAMES) > 1000
    assert 300 < len(NAMES) - len(REFUSED) < len(NAMES) // 2


def test_every_name_that_is_not_here_says_what_to_use():
    silent = [name for name, text in REFUSED.items() if not MENTIONED.search(text.partition(": ")[2])]
    assert silent == []


def test_few_say_no_more_than_that_eager_code_may_have_it():
    vague = [name for name, text in REFUSED.items() if "minitensor's own functions" in text]
    assert len(vague) < 30, vague


def test_what_is_to_be_used_is_there():
    mentioned = {name for text in REFUSED.values() for name in MENTIONED.findall(text.partition(": ")[2])}
    assert len(mentioned) > 100
    for name in sorted(mentioned):
        assert found(name) is not None, name


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("nn.dynamic_rnn", "tf.while_loop"),
        ("nn.rnn_cell", "minitensor.nn.LSTM"),
        ("map_fn", "tf.unstack"),
        ("scan", "tf.while_loop"),
        ("train.MonitoredTrainingSession", "tf.Session.run"),
        ("train.StopAtStepHook", "tf.Session.run"),
        ("data", "minitensor.utils.data.DataLoader"),
        ("train.shuffle_batch", "feed_dict"),
        ("FIFOQueue", "feed_dict"),
        ("cumprod", "minitensor.cumprod"),
        ("matrix_inverse", "minitensor.linalg.inv"),
        ("train.Server", "minitensor.distributed"),
        ("contrib.layers", "tf.layers.dense"),
        ("layers.conv3d", "tf.layers.conv2d"),
        ("enable_eager_execution", "minitensor.tensor"),
        ("no_such_name", "minitensor's own functions"),
    ],
)
def test_what_well_known_names_say(name, use):
    text = refusal(name)
    assert text is not None
    assert use in text.partition(": ")[2]


def test_shorter_names_are_the_same_functions():
    assert tf.math.log is tf.log
    assert tf.random.normal is tf.random_normal
    assert tf.initializers.zeros is tf.zeros_initializer
    assert tf.train.piecewise_constant_decay is tf.train.piecewise_constant
    assert tf.double is tf.float64
    assert tf.OpError is tf.errors.OpError


def test_what_is_switched_off_was_never_on():
    tf.disable_v2_behavior()
    tf.disable_eager_execution()
    assert not tf.executing_eagerly()
    with tf.Session() as sess:
        assert sess.run(tf.constant(2.0) * 3.0) == 6.0


def test_python_asks_modules_for_its_own_names_without_advice():
    with pytest.raises(AttributeError, match=r"no attribute '__path_of_nothing__'$"):
        _ = tf.nn.__path_of_nothing__
