"""Tensors as the bytes of a safetensors file: a length, a header in JSON, and the data of each."""

from __future__ import annotations

import json
from typing import Any

from minitensor import _C
from minitensor._C import Tensor, uint8
from minitensor._functions.offered import empty, frombuffer
from minitensor.serialization.safetensors import _NAMES

__all__ = ["pack", "unpack"]

_CODES = {name: code for code, name in _NAMES.items()}


def pack(tensors: dict[str, Tensor]) -> bytes:
    """The bytes. RuntimeError for a dtype that the format has not."""
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    at = 0
    for name, tensor in tensors.items():
        if tensor.dtype.name not in _CODES:
            raise RuntimeError(f"the safetensors format has no dtype {tensor.dtype.name} (tensor '{name}')")
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        data = flat.view(uint8).numpy().tobytes() if flat.numel() else b""
        header[name] = {
            "dtype": _CODES[tensor.dtype.name], "shape": list(tensor.shape), "data_offsets": [at, at + len(data)]
        }  # fmt: skip
        parts.append(data)
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


def unpack(data: bytes) -> dict[str, Tensor]:
    """The tensors. RuntimeError if the bytes are no such file."""
    try:
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        found = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            dtype = getattr(_C, _NAMES[entry["dtype"]])
            part = data[8 + length + begin : 8 + length + end]
            flat = frombuffer(bytearray(part), dtype=dtype) if part else empty(0, dtype=dtype)
            found[name] = flat.reshape(entry["shape"])
        return found
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise RuntimeError(f"the program's weights are damaged: {error}") from None
