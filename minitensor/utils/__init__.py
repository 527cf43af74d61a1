"""What PyTorch keeps in torch.utils."""

from minitensor.utils import checkpoint, hooks

__all__ = ["checkpoint", "hooks"]
