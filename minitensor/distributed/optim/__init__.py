"""Optimizers whose state is shared out among processes."""

from minitensor.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["ZeroRedundancyOptimizer"]
