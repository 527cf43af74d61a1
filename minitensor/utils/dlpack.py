"""Tensors that share their memory with other libraries': `utils.dlpack`, by PyTorch's name."""

from __future__ import annotations

import enum

from minitensor.composite.metadata import to_dlpack
from minitensor.creation import from_dlpack

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


# Kinds of devices, by DLPack's names and numbers: https://github.com/dmlc/dlpack/blob/main/include/dlpack/dlpack.h
DLDeviceType = enum.IntEnum(
    "DLDeviceType",
    {
        "kDLCPU": 1,
        "kDLCUDA": 2,
        "kDLCUDAHost": 3,
        "kDLOpenCL": 4,
        "kDLVulkan": 7,
        "kDLMetal": 8,
        "kDLVPI": 9,
        "kDLROCM": 10,
        "kDLROCMHost": 11,
        "kDLExtDev": 12,
        "kDLCUDAManaged": 13,
        "kDLOneAPI": 14,
        "kDLWebGPU": 15,
        "kDLHexagon": 16,
        "kDLMAIA": 17,
    },
)
DLDeviceType.__doc__ = "Kinds of devices, by DLPack's numbers."
