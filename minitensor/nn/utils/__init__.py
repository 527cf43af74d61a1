"""What PyTorch keeps in torch.nn.utils; imported by its first use."""

from __future__ import annotations

import importlib

# At once: importing the modules of the same names later would put these in the functions' place.
from minitensor.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from minitensor.nn.utils.weight_norm import remove_weight_norm, weight_norm

_PLACES = {
    "convert_parameters": ("parameters_to_vector", "vector_to_parameters"),
    "fusion": ("fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"),
    "init": ("skip_init",),
    "memory_format": ("convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"),
    "clip_grad": ("clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"),
}
_MODULES = ("parametrizations", "parametrize", "prune", "rnn", "stateless")
_FUNCTIONS = {name: module for module, names in _PLACES.items() for name in names}

__all__ = sorted([*_FUNCTIONS, *_MODULES, "remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"])


def __getattr__(name: str) -> object:
    """Import what is asked for."""
    if name in _FUNCTIONS:
        module = importlib.import_module(f"minitensor.nn.utils.{_FUNCTIONS[name]}")
        found = getattr(module, name)
        globals()[name] = found
        return found
    if name in _MODULES or name in _PLACES:
        return importlib.import_module(f"minitensor.nn.utils.{name}")
    raise AttributeError(f"module 'minitensor.nn.utils' has no attribute {name!r}; docs/names.md says what there is")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
