"""The order in memory of convolutions' weights."""

from __future__ import annotations

from typing import Any, TypeVar

from minitensor.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from minitensor.nn.modules.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

M = TypeVar("M", bound=Module)


def _convert(module: Module, kinds: tuple[type, ...], memory_format: Any) -> None:
    for found in module.modules():
        if isinstance(found, kinds):
            weight: Any = found.weight
            weight.data = weight.detach().clone(memory_format=memory_format)


def convert_conv2d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Order the weights of all two-dimensional convolutions in memory, in place."""
    _convert(module, (Conv2d, ConvTranspose2d), memory_format)
    return module


def convert_conv3d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Order the weights of all three-dimensional convolutions in memory, in place."""
    _convert(module, (Conv3d, ConvTranspose3d), memory_format)
    return module
