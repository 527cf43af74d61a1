"""Writing whole files: either the new one is there afterwards, or the old one is untouched."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Any

__all__ = ["write_file"]


def write_file(path: str | os.PathLike[str], write: Callable[[Any], Any]) -> None:
    """Have `write(file)` make the whole file beside its place, then put it there.

    A link stays, and what it leads to is replaced. What is no ordinary file (a pipe, a device) is written to.
    """
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    try:
        old = os.stat(path)
    except FileNotFoundError:
        old = None
        if not os.path.isdir(folder):
            raise RuntimeError(f"Parent directory {folder} does not exist.") from None
    if old is not None and not (stat.S_ISREG(old.st_mode) and _is(target, old)):
        with open(path, "wb") as file:
            write(file)
        return
    if old is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
    temporary = os.path.join(folder, f".{name[:40]}.{os.urandom(6).hex()}.tmp")
    try:
        # The umask, or the folder, says what others may do with a new file.
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "wb") as file:
            write(file)
            file.flush()
            if old is not None:
                _same_access(file.fileno(), old)
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):  # it may never have been there
            os.unlink(temporary)
        if isinstance(error, OSError):
            error.add_note(f"{os.fspath(path)} was not changed")
        raise


def _is(path: str, status: os.stat_result) -> bool:
    """Whether a file can be replaced by its name: /dev/fd/3 may lead to one that has none any more."""
    try:
        return os.path.samestat(os.lstat(path), status)
    except OSError:
        return False


def _same_access(handle: int, old: os.stat_result) -> None:
    new = os.fstat(handle)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with suppress(PermissionError):  # another user's file, which this one may write: it becomes this one's
            os.fchown(handle, old.st_uid, old.st_gid)
    os.fchmod(handle, stat.S_IMODE(old.st_mode) & 0o777)
