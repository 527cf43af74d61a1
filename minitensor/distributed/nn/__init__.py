"""Collective calls with gradients, by PyTorch's names."""

from minitensor.distributed.nn.functional import *  # noqa: F403
