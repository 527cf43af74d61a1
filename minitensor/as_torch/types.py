"""`torch.types`: names for annotations."""

from __future__ import annotations

import os
from builtins import bool as _bool
from builtins import complex as _complex
from builtins import float as _float
from builtins import int as _int
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

from minitensor import Size, Tensor, device, dtype
from minitensor.composite.layout import layout
from minitensor.storage import UntypedStorage

__all__ = ["Device", "FileLike", "Number", "Storage"]

Number: TypeAlias = _int | _float | _bool
Device: TypeAlias = device | str | _int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
Storage = UntypedStorage

# Not public in PyTorch, but what programs import from there.
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_dtype, _device, _size, _layout = dtype, device, Size | list[_int] | tuple[_int, ...], layout
_number = (_int, _float, _bool, _complex)
_Any = Any
