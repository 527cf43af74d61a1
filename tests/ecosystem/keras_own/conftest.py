"""What Keras' own tests import from its repository's `conftest`, which the wheel does not have."""

import keras
import pytest


def skip_if_backend(name, reason):
    """Skip a test on a backend."""
    return pytest.mark.skipif(keras.backend.backend() == name, reason=reason)
