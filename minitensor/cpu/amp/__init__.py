"""`minitensor.amp` for CPU alone, under PyTorch's older names."""

import minitensor as mt
from minitensor.amp.older import classes_for

__all__ = ["GradScaler", "autocast"]

autocast, GradScaler = classes_for("cpu", mt.bfloat16)
