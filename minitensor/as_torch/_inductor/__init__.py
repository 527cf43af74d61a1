"""`torch._inductor`: another compiler, whose settings programs make."""

from minitensor.as_torch._inductor import config

__all__ = ["config"]
