"""What PyTorch keeps in torch.utils."""

from minitensor.utils import checkpoint, hooks

__all__ = ["_pytree", "benchmark", "checkpoint", "data", "dlpack", "hooks", "tensorboard"]


def __getattr__(name: str) -> object:
    if name in ("_pytree", "benchmark", "data", "dlpack", "tensorboard"):
        import importlib

        return importlib.import_module(f"minitensor.utils.{name}")
    raise AttributeError(f"module 'minitensor.utils' has no attribute '{name}'")
