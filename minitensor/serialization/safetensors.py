"""Reading and writing safetensors files, through the library of that name (`pip install minitensor[safetensors]`).

The names are those of `safetensors.torch`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from minitensor import _C
from minitensor._C import Tensor
from minitensor._functions.offered import empty, frombuffer
from minitensor.serialization.files import write_file

__all__ = ["load", "load_file", "save", "save_file"]

_NAMES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "U16": "uint16",
    "U32": "uint32", "U64": "uint64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
    "C64": "complex64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz",
}  # fmt: skip


def _library() -> Any:
    try:
        import safetensors
    except ImportError:
        raise ImportError(
            "safetensors files need the package safetensors: pip install 'minitensor[safetensors]'"
        ) from None
    return safetensors


def save(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file with these tensors.

    RuntimeError for tensors that share memory, which the format can't say: clone() them.
    """
    library = _library()
    flat = _checked(tensors)
    specs = {
        name: library.TensorSpec(dtype=t.dtype.name, shape=list(t.shape), data_ptr=t._address(), data_len=t.nbytes)
        for name, t in flat.items()
    }
    return bytes(library.serialize(specs, metadata))


def save_file(
    tensors: dict[str, Tensor], filename: str | os.PathLike[str], metadata: dict[str, str] | None = None
) -> None:
    """Write a safetensors file: either the whole new file is there afterwards, or the old one is untouched."""
    data = save(tensors, metadata)
    write_file(filename, lambda file: file.write(data))


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors in the bytes of a safetensors file. RuntimeError if it is damaged."""
    library = _library()
    try:
        found = library.deserialize(data)
    except library.SafetensorError as error:
        raise RuntimeError(f"not a safetensors file, or damaged: {error}") from None
    return {name: _tensor(name, entry) for name, entry in found}


def load_file(filename: str | os.PathLike[str], device: Any = "cpu") -> dict[str, Tensor]:
    """The tensors in a safetensors file, on a device."""
    loaded = load(Path(filename).read_bytes())
    return {name: t.to(device=device) for name, t in loaded.items()}


def _checked(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous tensors with memory of their own."""
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, Tensor] but received {type(tensors)}")
    owners: dict[int, str] = {}
    flat = {}
    for name, t in tensors.items():
        if not isinstance(name, str) or not isinstance(t, Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected a name and a Tensor but received {type(t)}")
        if t.dtype.name not in _NAMES.values():
            raise ValueError(f"the safetensors format has no dtype {t.dtype.name} (tensor '{name}')")
        other = owners.setdefault(t._storage_id(), name) if t.numel() else name
        if other != name:
            raise RuntimeError(
                f"'{other}' and '{name}' share memory, which a safetensors file can't say: clone() one of them"
            )
        flat[name] = t.detach().contiguous()
    return flat


def _tensor(name: str, entry: dict[str, Any]) -> Tensor:
    dtype = _NAMES.get(entry["dtype"])
    if dtype is None:
        raise RuntimeError(f"tensor '{name}' has dtype {entry['dtype']}, which is not here")
    data = bytearray(entry["data"])
    flat = empty(0, dtype=getattr(_C, dtype)) if not data else frombuffer(data, dtype=getattr(_C, dtype))
    return flat.reshape(tuple(entry["shape"]))
