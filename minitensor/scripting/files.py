"""Files of scripted modules and functions: checkpoints of ours that hold the module whole."""

from __future__ import annotations

import importlib
import io
import json
import os
import zipfile
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from minitensor.nn import Module
from minitensor.scripting.functions import ScriptFunction
from minitensor.scripting.modules import (
    RecursiveScriptModule,
    ScriptModule,
    TopLevelTracedModule,
    TracedModule,
    original,
    scripted,
)
from minitensor.serialization.archive import Reader, Writer
from minitensor.serialization.checkpoint import read_checkpoint, write_entries
from minitensor.serialization.files import write_file

__all__ = ["load", "save", "to_bytes"]

_ENTRY = "script.json"


def save(m: Any, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
    """Write a scripted or traced module or function to a path, atomically, or to a binary file.

    The file has the tensors, and classes and functions by their names, for `load` of minitensor: a module's classes
    must be importable there. :func:`minitensor.export.save` writes what needs no source. `_extra_files` has more
    entries by name, text or bytes. AttributeError for what was not scripted.
    """
    if not isinstance(m, (ScriptModule, ScriptFunction)):
        raise AttributeError(f"'{type(m).__name__}' object has no attribute 'save': script or trace it first")
    if isinstance(f, (str, os.PathLike)):
        write_file(f, _writer(Path(f).stem or "archive", m, _extra_files))
    else:
        _writer("archive", m, _extra_files)(f)


def to_bytes(m: Any, extra: dict[str, Any] | None = None) -> bytes:
    """The bytes of such a file."""
    file = io.BytesIO()
    _writer("archive", m, extra)(file)
    return file.getvalue()


def _writer(name: str, m: Any, extra: dict[str, Any] | None) -> Any:
    about: dict[str, Any] = {"version": 1}
    if isinstance(m, ScriptFunction):
        function = m._function
        home, path = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
        if home is None or not _is(home, path, m):
            raise RuntimeError(
                f"save: the function {path or m.name} can't be found by its name in {home}, which is all that a file "
                "has of a function"
            )
        about.update(kind="function", module=home, name=path)
        held: Any = None
    else:
        about["kind"] = "traced" if isinstance(m, TracedModule) else "scripted"
        held = original(m)
    entries = write_entries(held, 2)

    def write(file: Any) -> None:
        writer = Writer(file, name)
        writer.write(_ENTRY, json.dumps(about).encode())
        for key, value in (extra or {}).items():
            writer.write(f"extra/{key}", value.encode() if isinstance(value, str) else bytes(value))
        entries(writer)
        writer.close()

    return write


def _is(home: str, path: str, m: ScriptFunction) -> bool:
    try:
        return _found(home, path) in (m, m._function)
    except (ImportError, AttributeError):
        return False


def _found(home: str, path: str) -> Any:
    found: Any = importlib.import_module(home)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def load(
    f: Any, map_location: Any = None, _extra_files: dict[str, Any] | None = None, _restore_shapes: bool = False
) -> Any:
    """Load what `save` has written, as a scripted module or function, its tensors on `map_location`.

    It imports the modules that the file names and makes objects of their classes: its source must be trusted. The
    keys of `_extra_files` get the entries of those names, as bytes. ValueError for a path where there is nothing;
    RuntimeError for other files, among them the TorchScript programs of PyTorch, and for classes that are not here.
    """
    if isinstance(f, (str, os.PathLike)):
        if not os.path.exists(f):
            raise ValueError(f"The provided filename {f} does not exist")
        if os.path.isdir(f):
            raise ValueError(f"The provided filename {f} is a directory")
        with open(f, "rb") as file:
            return _read(file, os.fspath(f), map_location, _extra_files)
    data = f if f.seekable() else io.BytesIO(f.read())
    return _read(data, str(getattr(f, "name", "the file")), map_location, _extra_files)


def _read(file: Any, shown: str, map_location: Any, extra: dict[str, Any] | None) -> Any:
    try:
        with zipfile.ZipFile(file) as names:
            theirs = any(name.endswith("/constants.pkl") for name in names.namelist())
    except zipfile.BadZipFile:
        theirs = False
    if theirs:
        raise RuntimeError(
            f"{shown} is a TorchScript program of PyTorch, which minitensor does not run; load its weights in PyTorch "
            "and save the state_dict"
        )
    file.seek(0)
    reader = Reader(file, shown)
    about = json.loads(reader.optional(_ENTRY, b"{}"))
    if about.get("version") != 1:
        raise RuntimeError(f"{shown} was not written by minitensor.jit.save; minitensor.load reads checkpoints")
    for key in extra or ():
        extra[key] = reader.optional(f"extra/{key}", b"")  # type: ignore[index]
    try:
        if about["kind"] == "function":
            found = _found(about["module"], about["name"])
            return found if isinstance(found, ScriptFunction) else ScriptFunction(found)
        module = read_checkpoint(reader, map_location, None, True)
    except (ImportError, AttributeError, UnpicklingError) as error:
        raise RuntimeError(
            f"{shown} names what can't be imported here: {error}. The file has classes by their names only; "
            "minitensor.export.save writes programs that need no source"
        ) from error
    assert isinstance(module, Module)
    if about["kind"] == "traced":
        return scripted(module, TopLevelTracedModule, TracedModule)
    return scripted(module, RecursiveScriptModule, RecursiveScriptModule)
