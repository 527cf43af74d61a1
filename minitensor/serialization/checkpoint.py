"""`save` and `load`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, Any

import minitensor as mt
from minitensor.serialization.archive import Reader, Writer
from minitensor.serialization.names import Storage, find
from minitensor.serialization.pickler import pickle_object
from minitensor.serialization.unpickler import unpickle

__all__ = ["load", "save", "write_atomically"]

_Path = str | os.PathLike[str]
_MapLocation = str | mt.device | dict[str, str] | Callable[..., Any] | None


def save(
    obj: Any,
    f: _Path | IO[bytes],
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Save an object with tensors in it, such as a module's state_dict(), so that `load` and `torch.load` read it.

    Tensors that share memory share it again when they are loaded. A path is written atomically: either the whole new
    file is there afterwards, or the old one is untouched. `f` may also be a binary file that can be written to.

    PicklingError for objects that are neither tensors nor plain data (numbers, text, dtypes, lists, tuples, dicts, sets
    ...), for `load` runs no code.
    """
    if pickle_module is not None or not _use_new_zipfile_serialization:
        raise ValueError("save() writes the zip format with its own pickler; pickle_module must be None")
    if not 2 <= pickle_protocol <= 5:
        raise ValueError(f"pickle_protocol must be from 2 to 5, got {pickle_protocol}")
    if not isinstance(f, (str, os.PathLike)):
        if not callable(getattr(f, "write", None)):
            raise AttributeError(f"expected 'f' to be a path or a file to write to, got {type(f).__name__}")
        _write(obj, f, "archive", pickle_protocol)
        return
    path = Path(f)
    write_atomically(path, lambda file: _write(obj, file, path.stem or "archive", pickle_protocol))


def write_atomically(path: Path, write: Callable[[Any], Any]) -> None:
    """Have `write(file)` make the whole file beside its place, then put it there; the old one stays if that fails."""
    if not path.parent.is_dir():
        raise RuntimeError(f"Parent directory {path.parent} does not exist.")
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _mode(path))
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.add_note(f"{path} was not changed")
        raise


def _mode(path: Path) -> int:
    """The permissions that the file has, or that a new one would get."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _write(obj: Any, file: Any, name: str, protocol: int) -> None:
    pickled, tensors = pickle_object(obj, protocol)
    writer = Writer(file, name)
    try:
        writer.write("data.pkl", pickled)
        writer.write(".format_version", b"1")
        writer.write(".storage_alignment", b"64")
        writer.write("byteorder", b"little")
        for key, tensor in enumerate(tensors):
            writer.write(f"data/{key}", _bytes_of(tensor))
        writer.write("version", b"3\n")
    finally:
        writer.close()


def _bytes_of(tensor: mt.Tensor) -> Any:
    """All the bytes of a tensor's storage."""
    storage = tensor.untyped_storage()
    if storage.nbytes() == 0:
        return b""
    count = storage.nbytes() // tensor.itemsize
    flat = tensor.as_strided((count,), (1,), 0).view(mt.uint8)
    return memoryview(flat.cpu().numpy())


def load(
    f: _Path | IO[bytes],
    map_location: _MapLocation = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = True,
    mmap: bool | None = None,
) -> Any:
    """Load what `save` or `torch.save` has written.

    No code ever runs from the file, whatever it holds and whatever `weights_only` says: names other than those of
    tensors and plain data are refused, unless `add_safe_globals` has allowed them. `map_location` says where tensors
    go: a device, a dict from device to device, or a function of a storage's tensor and its device's name. With `mmap`,
    a path's data is read when it is touched.

    RuntimeError for a file that is no checkpoint, damaged or cut off; UnpicklingError for one that asks for
    anything else than data.
    """
    if pickle_module is not None:
        raise ValueError("load() reads with its own unpickler, which runs no code; pickle_module must be None")
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return _read(file, os.fspath(f), map_location, os.fspath(f) if mmap else None)
    if mmap:
        raise ValueError("f must be a string or a path in order to use the mmap argument")
    if not (callable(getattr(f, "read", None)) and callable(getattr(f, "seek", None))):
        raise AttributeError(
            f"expected 'f' to be a path or a file object that can be read and sought in, got {type(f).__name__}"
        )
    return _read(f, getattr(f, "name", None) or "the file", map_location, None)


def _read(file: Any, shown: str, map_location: _MapLocation, mapped_path: str | None) -> Any:
    if map_location is not None and not (isinstance(map_location, (str, mt.device, dict)) or callable(map_location)):
        raise TypeError(f"map_location must be a device, a dict or a function, got {type(map_location).__name__}")
    reader = Reader(file, str(shown))
    storages: dict[str, mt.Tensor] = {}

    def persistent_load(identity: Any) -> Storage:
        if not isinstance(identity, tuple) or len(identity) != 5 or identity[0] != "storage":
            raise UnpicklingError("a persistent id is not a storage's")
        _, kind, key, location, count = identity
        named = isinstance(key, str) and isinstance(location, str)
        if not (named and isinstance(kind, tuple) and kind[0] == "storage"):
            raise UnpicklingError("a storage's id is malformed")
        if not key.isdecimal() or type(count) is not int:
            raise UnpicklingError(f"a storage has the key {key!r} and {count!r} elements")
        if key not in storages:
            entry = f"data/{key}"
            data = reader.storage(entry) if mapped_path is None else reader.mapped(entry, mapped_path)
            storages[key] = _moved(data, location, map_location)
        itemsize = 1 if kind[1] is None else getattr(mt, kind[1]).itemsize
        if count * itemsize > storages[key].numel():
            raise UnpicklingError(f"storage {key} holds {storages[key].numel()} bytes, not {count} x {itemsize}")
        return Storage(storages[key], kind[1])

    return unpickle(reader.read("data.pkl"), find, persistent_load)


def _moved(data: mt.Tensor, location: str, map_location: _MapLocation) -> mt.Tensor:
    if map_location is None:
        target: Any = location
    elif isinstance(map_location, dict):
        target = map_location.get(location, location)
    elif isinstance(map_location, (str, mt.device)):
        target = map_location
    else:
        moved = map_location(data, location)
        return data.to(device=location) if moved is None else moved
    try:
        return data.to(device=target)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise RuntimeError(
            f"the checkpoint's tensors were on '{location}', and can't be put on '{target}': {error} Pass "
            "map_location='cpu' to load them into memory."
        ) from None
