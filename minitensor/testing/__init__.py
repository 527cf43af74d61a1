"""For tests of programs that use tensors."""

from minitensor.testing.comparison import assert_allclose, assert_close
from minitensor.testing.creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
