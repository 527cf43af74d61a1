"""How buckets of gradients are exchanged, by PyTorch's names."""

from minitensor.distributed.algorithms.ddp_comm_hooks import default_hooks

__all__ = ["default_hooks"]
