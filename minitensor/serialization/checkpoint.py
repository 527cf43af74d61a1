"""`save` and `load`."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, Any

from minitensor import _C
from minitensor._C import Tensor, device
from minitensor.serialization.archive import Reader, Writer
from minitensor.serialization.files import write_file
from minitensor.serialization.names import find, storage_of
from minitensor.serialization.pickler import pickle_object
from minitensor.serialization.weights_only_unpickler import unpickle
from minitensor.serialization.whole_objects import unpickle_whole
from minitensor.storage import TypedStorage, UntypedStorage

__all__ = ["load", "read_checkpoint", "save", "write_entries"]

_Path = str | os.PathLike[str]
_MapLocation = str | device | dict[str, str] | Callable[..., Any] | None


def save(
    obj: Any,
    f: _Path | IO[bytes],
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Save an object with tensors in it, such as a module's state_dict(), so that `load` and `torch.load` read it.

    Tensors that share memory share it again when they are loaded. A path is written atomically: either the whole new
    file is there afterwards, or the old one is untouched; what is no ordinary file, such as a pipe, is written to. `f`
    may also be a binary file that can be written to.

    What is neither a tensor nor plain data (numbers, text, dtypes, lists, tuples, dicts, sets ...) is saved as Python
    pickles it, PicklingError if it can't. `load` runs no code, and so makes it again only with `weights_only=False`, or
    where `serialization.add_safe_globals` has allowed its class. Modules are saved whole, with what they hold; PyTorch
    can't read them.
    """
    if pickle_module is not None or not _use_new_zipfile_serialization:
        raise ValueError("save() writes the zip format with its own pickler; pickle_module must be None")
    if not 2 <= pickle_protocol <= 5:
        raise ValueError(f"pickle_protocol must be from 2 to 5, got {pickle_protocol}")
    if not isinstance(f, (str, os.PathLike)):
        if not callable(getattr(f, "write", None)):
            raise AttributeError(f"expected 'f' to be a path or a file to write to, got {type(f).__name__}")
        _writer("archive", obj, pickle_protocol)(f)
    else:
        write_file(f, _writer(Path(f).stem or "archive", obj, pickle_protocol))


def _writer(name: str, obj: Any, protocol: int) -> Callable[[Any], None]:
    """What writes the object to a file; PicklingError before any file is touched."""
    entries = write_entries(obj, protocol)

    def write(file: Any) -> None:
        writer = Writer(file, name)
        entries(writer)
        writer.close()

    return write


def write_entries(obj: Any, protocol: int) -> Callable[[Writer], None]:
    """What adds the entries of an object to an archive; PicklingError at once."""
    pickled, storages = pickle_object(obj, protocol)

    def write(writer: Writer) -> None:
        writer.write("data.pkl", pickled)
        writer.write(".format_version", b"1")
        writer.write(".storage_alignment", b"64")
        writer.write("byteorder", b"little")
        for key, data in enumerate(storages):
            writer.write(f"data/{key}", data.cpu().numpy().data if data.numel() else b"")
        writer.write("version", b"3\n")

    return write


def load(
    f: _Path | IO[bytes],
    map_location: _MapLocation = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = True,
    mmap: bool | None = None,
) -> Any:
    """Load what `save` or `torch.save` has written.

    No code runs from the file, whatever it holds: names other than those of tensors and plain data are refused, unless
    `add_safe_globals` has allowed them. Only with `weights_only=False` it may hold whole objects, such as modules. They
    are made by calling what the file names, so that its source must be trusted. `map_location` says where tensors
    go: a device, a dict from device to device, or a function of a storage's tensor and its device's name. With `mmap`,
    a path's data is read when it is touched.

    RuntimeError for a file that is no checkpoint, damaged or cut off; UnpicklingError for one that asks for
    anything else than data.
    """
    if pickle_module is not None:
        raise ValueError("load() reads with its own unpickler, which runs no code; pickle_module must be None")
    whole = weights_only is False
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            if not file.seekable():  # a pipe
                return _read(io.BytesIO(file.read()), os.fspath(f), map_location, None, whole)
            return _read(file, os.fspath(f), map_location, os.fspath(f) if mmap else None, whole)
    if mmap:
        raise ValueError("f must be a string or a path in order to use the mmap argument")
    if not (callable(getattr(f, "read", None)) and callable(getattr(f, "seek", None))):
        raise AttributeError(
            f"expected 'f' to be a path or a file object that can be read and sought in, got {type(f).__name__}"
        )
    return _read(f, getattr(f, "name", None) or "the file", map_location, None, whole)


def _read(file: Any, shown: str, map_location: _MapLocation, mapped_path: str | None, whole: bool) -> Any:
    if map_location is not None and not (isinstance(map_location, (str, device, dict)) or callable(map_location)):
        raise TypeError(f"map_location must be a device, a dict or a function, got {type(map_location).__name__}")
    return read_checkpoint(Reader(file, str(shown)), map_location, mapped_path, whole)


def read_checkpoint(reader: Reader, map_location: _MapLocation, mapped_path: str | None, whole: bool) -> Any:
    """The object in an archive."""
    storages: dict[str, Tensor] = {}

    def persistent_load(identity: Any) -> TypedStorage | UntypedStorage:
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
        itemsize = 1 if kind[1] is None else getattr(_C, kind[1]).itemsize
        if count * itemsize > storages[key].numel():
            raise UnpicklingError(f"storage {key} holds {storages[key].numel()} bytes, not {count} x {itemsize}")
        return storage_of(storages[key], kind[1])

    pickled = reader.read("data.pkl")
    return unpickle_whole(pickled, persistent_load) if whole else unpickle(pickled, find, persistent_load)


def _moved(data: Tensor, location: str, map_location: _MapLocation) -> Tensor:
    if map_location is None:
        target: Any = location
    elif isinstance(map_location, dict):
        target = map_location.get(location, location)
    elif isinstance(map_location, (str, device)):
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
