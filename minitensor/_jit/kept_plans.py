"""What a helper compiled for the runs of a program, taken back without importing the compiler.

A file has the plan of one trace and the machine code that it launches. It is found by the number of the trace's
signature, and has all that the plan and the code depend on, which is compared before anything of it is used: the whole
signature, the flags, the ops, the processor, the versions and the files of the core, the compiler and LLVM. A checksum
is over all of it. It is a private file in a private folder, since its contents are run.
"""

from __future__ import annotations

import errno
import marshal
import os
import stat
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from typing import Any

from minitensor import _C

__all__ = [
    "compiler_fingerprint",
    "compiler_sources",
    "encode",
    "load",
    "make_private",
    "path_of",
    "read_private",
    "why_untrusted",
]

_MAGIC = b"minitensor run 1\n"
_DIGEST = 32


def _sha256(data: bytes | memoryview) -> bytes:
    # Without what hashlib imports, which takes longer than loading a plan.
    try:
        from _sha2 import sha256  # type: ignore[import-not-found]
    except ImportError:
        try:
            from _sha256 import sha256  # type: ignore[import-not-found]
        except ImportError:
            from hashlib import sha256
    digest: bytes = sha256(data).digest()
    return digest


def path_of(folder: str, signature: int) -> str:
    """Where a plan is kept, by the number of the trace's signature; the core looks for it there too."""
    return os.path.join(folder, f"{signature:016x}.mtd")


# ---- what compiled code depends on


@cache
def compiler_sources() -> Any:
    """A reading of the stamps of the compiler's files, and LLVM's, by a thread: it takes a millisecond.

    Files are told apart by their sizes and times, and nothing is imported: loading kept code takes a millisecond too.
    """
    here = os.path.dirname(os.path.abspath(_C.__file__))
    compiler = os.path.join(os.path.dirname(here), "minitensor_jit")
    found = find_spec("llvmlite")
    llvmlite = os.path.dirname(found.origin) if found is not None and found.origin else ""
    # Rows matter to plans.
    folders = (compiler, os.path.join(here, "ops"), os.path.join(llvmlite, "binding"))
    return _C.read_file_stamps(folders, (".py", ".so", ".dylib", ".dll"))


@cache
def compiler_fingerprint() -> str:
    """What stands for the code that compiles, and for the core that its code calls."""
    core = os.stat(_C.__file__)
    compiler = _sha256(_C.file_stamps(compiler_sources())).hex()
    return f"{_C.version} core {core.st_size} {core.st_mtime_ns} compiler {compiler}"


def _origin(flags: str, processor: str) -> bytes:
    """What stands for everything but the trace that a plan and its code depend on."""
    # A signature has the ops' numbers.
    names = " ".join(_C.op_names())
    parts = (sys.version, flags, processor, compiler_fingerprint(), names)
    return _sha256("\0".join(parts).encode(errors="replace"))


# ---- the files

Import = tuple[str, str, str]
"""A loop of the core: what object code calls it, its name and its dtype."""


def encode(
    flags: str, processor: str, signature: bytes, plan: bytes, objects: Iterable[tuple[bytes, Sequence[Import]]]
) -> bytes:
    """The plan of a trace with the object code of its launches, in their order, as the bytes of a file."""
    code = [(image, list(imports)) for image, imports in objects]
    body = _origin(flags, processor) + marshal.dumps((signature, plan, code))
    return _MAGIC + _sha256(body) + body


def load(
    path: str, flags: str, processor: str, signature: bytes
) -> tuple[bytes, list[tuple[bytes, dict[str, int]]]] | None:
    """The plan, and the object code of each launch with the addresses of what it calls.

    None if there is none that is sound and for this trace.
    """
    try:
        data = read_private(path)
    except OSError:
        return None
    start = len(_MAGIC) + _DIGEST
    body = memoryview(data)[start:]
    if data[:start] != _MAGIC + _sha256(body) or body[:_DIGEST] != _origin(flags, processor):
        return None
    known, plan, objects = marshal.loads(body[_DIGEST:])
    if known != signature:
        return None
    found = []
    for image, imports in objects:
        addresses = {}
        for symbol, name, dtype in imports:
            loop = _C.elementwise_loop(name, dtype)
            if loop is None:
                return None
            addresses[symbol] = loop[0]
        found.append((image, addresses))
    with suppress(OSError):
        os.utime(path)  # what was used last goes last
    return plan, found


# ---- whose files are trusted


def make_private(folder: str) -> str | None:
    """Make a folder that nobody else can write to, if it isn't there; why it can't be trusted, None if it can."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    return why_untrusted(folder)


def why_untrusted(folder: str) -> str | None:
    """Why code from a folder is not run: others could have put it there. None if it is private."""
    info = os.stat(folder)
    if not stat.S_ISDIR(info.st_mode):
        return "it is not a folder"
    if info.st_uid != os.geteuid():
        return f"it belongs to user {info.st_uid}"
    if info.st_mode & 0o022:
        return f"others can write to it (mode {stat.S_IMODE(info.st_mode):04o}; chmod 700 makes it private)"
    while (folder := os.path.dirname(folder)) not in ("", os.sep):
        mode = os.stat(folder).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"anybody can put another one in its place (mode of {folder})"
    return None


def read_private(path: str) -> bytes:
    """A file's bytes. A link is not followed: it could lead to a file of somebody else's.

    What is no file, a pipe say, is not waited for. What memory doesn't hold is an OSError too.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", path)
        if info.st_uid != os.geteuid() or info.st_mode & 0o022:
            raise PermissionError(errno.EPERM, "others can write to the entry", path)
        # Files are put in place whole.
        with open(handle, "rb", closefd=False) as file:
            return file.read()
    except (MemoryError, OverflowError) as error:
        raise OSError(errno.EFBIG, "it is larger than memory", path) from error
    finally:
        os.close(handle)
