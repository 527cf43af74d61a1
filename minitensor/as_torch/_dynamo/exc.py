"""`torch._dynamo.exc`: the errors that programs catch."""

from minitensor.compiler import InvalidBackend

__all__ = ["InvalidBackend"]
