"""`minitensor.amp` for CPU alone, under PyTorch's older names."""

from minitensor._C import bfloat16
from minitensor.amp.older import classes_for

__all__ = ["GradScaler", "autocast"]

autocast, GradScaler = classes_for("cpu", bfloat16)
