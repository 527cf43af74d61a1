"""What PyTorch keeps in torch.utils."""

from minitensor.utils import checkpoint

__all__ = ["checkpoint"]
