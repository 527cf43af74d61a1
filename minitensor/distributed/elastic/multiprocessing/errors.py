"""How programs tell their launcher what ended them."""

from minitensor.distributed.launcher.error_file import record

__all__ = ["record"]
