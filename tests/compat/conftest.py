import pytest

import minitensor.compat.v1 as tf


@pytest.fixture(autouse=True)
def graph():
    """Each test has a graph of its own."""
    with tf.Graph().as_default() as made:
        yield made
