"""`tf.math`: the functions of numbers, which `tf` itself has too."""

from __future__ import annotations

from minitensor.compat.v1.framework.instead import missing as _missing
from minitensor.compat.v1.nn import in_top_k, l2_normalize, log_softmax, softmax, softplus, top_k
from minitensor.compat.v1.ops import math_ops as _math_ops
from minitensor.compat.v1.ops.math_ops import *  # noqa: F403

__all__ = ["in_top_k", "l2_normalize", "log_softmax", "softmax", "softplus", "top_k", *_math_ops.__all__]

__getattr__ = _missing(__name__)
