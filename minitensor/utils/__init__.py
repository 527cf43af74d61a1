"""What PyTorch keeps in torch.utils."""

from minitensor.utils import checkpoint, hooks

__all__ = ["checkpoint", "data", "hooks"]


def __getattr__(name: str) -> object:
    if name == "data":
        import importlib

        return importlib.import_module("minitensor.utils.data")
    raise AttributeError(f"module 'minitensor.utils' has no attribute '{name}'")
