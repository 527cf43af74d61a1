"""`tf.random`: random numbers by their shorter names."""

from __future__ import annotations

from minitensor.compat.v1.framework.graph import set_random_seed
from minitensor.compat.v1.framework.instead import missing as _missing
from minitensor.compat.v1.ops.random_ops import random_normal as normal
from minitensor.compat.v1.ops.random_ops import random_uniform as uniform
from minitensor.compat.v1.ops.random_ops import truncated_normal

__all__ = ["normal", "set_random_seed", "truncated_normal", "uniform"]

__getattr__ = _missing(__name__)
