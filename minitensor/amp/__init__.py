"""Mixed precision: autocast, and the scaling of losses that float16 gradients need."""

from minitensor.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from minitensor.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
