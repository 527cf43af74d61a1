"""What surrounds a script: flags, messages, and how it starts and ends."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

import minitensor.compat.v1 as tf

SCRIPT = """
import minitensor.compat.v1 as tf

tf.app.flags.DEFINE_integer("steps", 3, "how many, 100 % of them")
tf.app.flags.DEFINE_float("rate", 0.5, "how fast")
tf.flags.DEFINE_string("name", None, "whose")
tf.app.flags.DEFINE_boolean("xla", True, "whether")
tf.app.flags.DEFINE_bool("fast", False, "whether")
FLAGS = tf.app.flags.FLAGS


def main(argv):
    print(FLAGS.steps, FLAGS.rate, FLAGS.name, FLAGS.xla, FLAGS.fast, argv[1:])
    return 3


if __name__ == "__main__":
    tf.app.run()
"""


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        ([], "3 0.5 None True False []"),
        (["--steps=7", "--rate", "0.25", "--noxla", "--fast", "x"], "7 0.25 None False True ['x']"),
        (["--xla=false", "--name=a", "--other"], "3 0.5 a False False ['--other']"),
    ],
)
def test_flags(arguments, printed, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(Path(tf.__file__).parents[3])}
    done = subprocess.run([sys.executable, path, *arguments], capture_output=True, text=True, env=environment)
    assert (done.stdout, done.returncode) == (printed + "\n", 3), done.stderr


def test_flags_that_are_not_there():
    with pytest.raises(AttributeError, match="no flag 'nothing'"):
        _ = tf.app.flags.FLAGS.nothing


def test_main_is_given_the_arguments():
    with pytest.raises(SystemExit) as ended:
        tf.app.run(main=lambda argv: len(argv), argv=["a", "b"])
    assert ended.value.code == 2


def test_messages(caplog):
    assert tf.logging.get_verbosity() == tf.logging.WARN
    tf.logging.set_verbosity(tf.logging.INFO)
    try:
        tf.logging.info("step %d", 3)
        tf.logging.debug("not this")
        tf.logging.log(tf.logging.ERROR, "bad")
    finally:
        tf.logging.set_verbosity(tf.logging.WARN)
    assert caplog.messages == ["step 3", "bad"]
    assert caplog.records[0].levelno == logging.INFO
