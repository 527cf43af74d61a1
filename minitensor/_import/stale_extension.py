"""Whether the extension module was built from the sources that lie beside the package. Imported only where some do."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator

SYMBOL = "mt_sources"  # in the extension module: the checksum of what it was built from, which setup.py puts there


def sources_below(folder: str) -> Iterator[os.DirEntry[str]]:
    """The C++ sources in a folder and those in it."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from sources_below(entry.path)
            elif entry.name.endswith((".cpp", ".h")):
                yield entry


def checksum(folder: str) -> str:
    """One of the names and contents of all C++ sources in a folder."""
    import hashlib

    result = hashlib.sha256()
    for path in sorted(os.path.relpath(entry.path, folder) for entry in sources_below(folder)):
        with open(os.path.join(folder, path), "rb") as stream:
            content = stream.read()
        result.update(f"{path}\0{len(content)}\0".encode() + content)
    return result.hexdigest()


def warn_if_stale(extension: str, folder: str) -> None:
    """Warn where the extension module was built from other sources than those in the folder.

    The times of the files say it nearly always: the module has that of when its build began. Where one is newer, as
    after a checkout there and back, the contents decide.
    """
    built = os.stat(extension).st_mtime_ns
    if all(entry.stat().st_mtime_ns < built for entry in sources_below(folder)):
        return
    if built_from(extension) == checksum(folder):
        return
    root = os.path.dirname(os.path.abspath(folder))
    warnings.warn(
        f"{extension} was built from other C++ sources than those in {folder}, and may fail or crash with the Python "
        f'sources beside them. Build it again: cd "{root}" && python setup.py build_ext --inplace',
        RuntimeWarning,
        stacklevel=3,
    )


def built_from(extension: str) -> str:
    """The checksum of the sources that the module was built from; empty if it says nothing of them."""
    import ctypes

    try:
        held = (ctypes.c_char * 64).in_dll(ctypes.PyDLL(extension), SYMBOL)
    except (OSError, ValueError):
        return ""
    return held.raw.decode("ascii", "replace")
