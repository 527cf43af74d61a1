"""How a program under MT_JIT_FLAGS begins: without the compiler, and with what its earlier processes found out.

What a program is to have recorded the core decides (`csrc/trace/policy/policy.h`); most of the time that is little or
nothing. So the compiler isn't imported before there is something to compile, nor for what an earlier process had
compiled (`kept_plans.py`). What became of the runs of the program is kept at its end, beside the code that was
compiled for it: by the program's file, in a private folder. It is a hint for the next process, which no result
depends on.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
import zlib
from contextlib import suppress
from typing import Any

from minitensor import _C

__all__ = ["BY_POLICY", "CAREFUL", "FIRST", "Begun", "begin", "begun", "default_folder", "plain", "program_name"]

BY_POLICY, CAREFUL = 2, 4
"""Bits of the number of options, which the core reads: whether the policy decides, and whether it is level 1's."""
FIRST = 8 | BY_POLICY
"""The number of the first options that there are, if they say no more than `plain` ones."""
_MAGIC = b"minitensor runs 3\n"
_MOST = 1 << 20
"""Bytes that are kept of one program."""
_CI = ("CI", "CONTINUOUS_INTEGRATION", "GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE", "TF_BUILD", "JENKINS_URL")
_PLAIN = re.compile(
    r"--(?:(auto_jit)=([12])|cpu_global_jit(?:=true)?|(program_cache)(?:=(true|false))?"
    r"|(persistent_cache_directory)=([^\s\"'\\]+))"
)


class Begun:
    """A program that has begun: the number of its options, and where what is compiled for it is kept, if anywhere."""

    def __init__(self, number: int, folder: str | None) -> None:
        self.number = number
        self.folder = folder
        self.flags = os.environ.get("MT_JIT_FLAGS", "")
        self.pid = os.getpid()
        self.trusted: bool | None = None
        """Whether code from the folder is run, once that has been checked."""
        self.recalled = 0
        """How many plans were taken from there."""


begun: Begun | None = None


def default_folder() -> str | None:
    """Where programs keep what they learn, if nobody says where: not where every run begins anew, as in CI."""
    if any(os.environ.get(name, "").lower() not in ("", "0", "false") for name in _CI):
        return None
    home = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(home):
        parts = ("~", "Library", "Caches") if sys.platform == "darwin" else ("~", ".cache")
        home = os.path.expanduser(os.path.join(*parts))
    return os.path.join(home, "minitensor") if os.path.isabs(home) else None


def plain(text: str) -> tuple[int, str | None] | None:
    """(level, folder) of flags that say no more than that a program is recorded on the CPU; None for others."""
    words = text.split()
    found = [_PLAIN.fullmatch(word) for word in words]
    if not all(found) or not any(word.startswith("--cpu_global_jit") for word in words):
        return None
    level, keeps, folder = 0, True, None
    for match in found:
        assert match is not None
        if match[1]:
            level = int(match[2])
        elif match[3]:
            keeps = match[4] != "false"
        elif match[5]:
            folder = match[6]
    return (level, folder or (default_folder() if keeps else None)) if level else None


def begin(number: int, folder: str | None) -> None:
    """Record the program from here on, as far as the policy says."""
    global begun
    begun = Begun(number, folder)
    _C.set_options_id(number)
    program = None if folder is None else program_name()
    file = before = None
    if folder is not None and program is not None:
        file = _FileOfRuns(folder, program)
        before = file.load()
        if before is not None and not _C.learn_of_runs(before, file.folder):
            before = None
    if folder is not None:
        _C.set_submit_callback(_submit)
        _C.set_recall_callback(_recall)
        if before:
            from minitensor._jit.kept_plans import compiler_sources

            compiler_sources()  # read by the time that a plan is recalled
    _C.begin_program()
    # Values that nobody asked for have no effect that could be seen; they run for their errors and the account.
    atexit.register(_end, file, before)


def _end(file: _FileOfRuns | None, before: bytes | None) -> None:
    try:
        _C.flush("the end of the program")
    except Exception:
        import traceback

        traceback.print_exc()  # with the note that names the line; what Python prints by itself here leaves it out
    if file is None or begun is None or begun.pid != os.getpid():
        return
    background = sys.modules.get("minitensor._jit.background_process")
    if background is not None:
        background.send_put_off()
    known = _C.known_runs()
    if (known != before or before is None) and len(known) <= _MOST:
        file.store(known)


def _submit(number: int, signature: bytes, described: Any, put_off: bool) -> bool:
    from minitensor._jit.entry_points import compile_elsewhere

    return compile_elsewhere(number, signature, described, put_off)


def _recall(number: int, signature: bytes) -> tuple[bytes, list[tuple[int, Any]], str] | None:
    """The plan that a helper has kept for what the program has recorded: with the code of its launches, and a name."""
    if begun is None or begun.folder is None or _C.options_id() != begun.number:
        return None
    from minitensor._jit import kept_plans
    from minitensor._jit.processor import processor

    try:
        if begun.trusted is None:
            begun.trusted = kept_plans.why_untrusted(os.path.realpath(begun.folder)) is None
        if not begun.trusted:
            return None
        path = kept_plans.path_of(begun.folder, number)
        kept = kept_plans.load(path, begun.flags, processor(), signature)
        if kept is None:
            return None
        code = []
        for image, imports in kept[1]:
            try:
                code.append(_C.load_object_code(image, "entry", imports))
            except NotImplementedError:
                from minitensor._jit import entry_points

                code.append(entry_points.link_code(image, "entry", imports))
    except (OSError, RuntimeError):
        return None
    begun.recalled += 1
    return kept[0], code, f"kept_{begun.recalled}"


# ---- the file


def program_name() -> str | None:
    """What tells this program from others; None for one that is typed in."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if file is not None:
        return f"file {os.path.realpath(file)}"
    return f"command {sys.orig_argv}" if sys.argv[:1] == ["-c"] else None


def _is_private(info: os.stat_result) -> bool:
    return info.st_uid == os.geteuid() and not info.st_mode & 0o022


class _FileOfRuns:
    """Where is kept what became of the runs of a program. It says for which core and which program it is."""

    def __init__(self, folder: str, program: str) -> None:
        name = program.encode(errors="replace")
        self.folder = folder
        self._path = os.path.join(folder, f"{zlib.crc32(name):08x}{zlib.adler32(name):08x}.mtr")
        core = os.stat(_C.__file__)
        self._stamp = f"{_C.version} {core.st_size} {core.st_mtime_ns} ".encode() + name + b"\n"

    def load(self) -> bytes | None:
        """What an earlier process kept; None if there is nothing that is sound."""
        from minitensor._jit.kept_plans import read_private

        try:
            if not _is_private(os.stat(self.folder)):
                return None
            data = read_private(self._path)
        except OSError:
            return None
        head, body = data[: len(_MAGIC) + 4], data[len(_MAGIC) + 4 :]
        if head != _MAGIC + zlib.crc32(body).to_bytes(4, "little") or not body.startswith(self._stamp):
            return None
        return body[len(self._stamp) :]

    def store(self, known: bytes) -> None:
        """Keep it, entirely or not at all; a folder that can't be written to, or isn't private, is left alone."""
        temporary = os.path.join(self.folder, f".{os.getpid()}-runs.tmp")
        with suppress(OSError):
            os.makedirs(os.path.dirname(self.folder), exist_ok=True)
            with suppress(FileExistsError):
                os.mkdir(self.folder, 0o700)
            if not _is_private(os.stat(self.folder)):
                return
            body = self._stamp + known
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.write(handle, _MAGIC + zlib.crc32(body).to_bytes(4, "little") + body)
            finally:
                os.close(handle)
            os.replace(temporary, self._path)
