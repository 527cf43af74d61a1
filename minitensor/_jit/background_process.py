"""Has another process compile what a program records, while the program goes on.

A thread would hold the interpreter's lock most of the time. The helper is started when there is something to compile
that this process may use, else when the program ends. It is nobody's child, has the lowest claim to the processors that
still gets on, and puts plans and code into the program's folder, where the next run of the program finds them too. It
goes when the program has gone, or when there has been nothing to do for a while. It is told of a job by a line in a
pipe: a number, and the file that has the rest. To hand a job over takes a program little: nothing of the compiler is
imported for it.
"""

from __future__ import annotations

import itertools
import os
import sys
from contextlib import suppress
from typing import Any

from minitensor import _C, _forks
from minitensor._jit import programs
from minitensor._jit.kept_plans import make_private

__all__ = ["JOBS", "REPLIES", "submit"]

JOBS, REPLIES = 100, 101
"""The helper's ends of the two pipes."""
_SERVE = "from minitensor_jit.compiler.background_worker import serve; serve()"
# In the background of a shell, which ends at once: so it is not a child that the program might wait for.
_START = 'exec </dev/null >/dev/null 2>&1; "$@" &'

_numbers = itertools.count()
_put_off: dict[int, str] = {}
"""The files of the jobs that wait for the end of the program, by their numbers."""
_MOST_PUT_OFF = 256
"""So many lines fit into a pipe that nobody reads yet."""
_jobs: int | None = None
_replies: int | None = None
_pid = 0


def _pickled(job: tuple[Any, ...]) -> bytes:
    # Without what the Python half of pickle imports, which takes longer than this.
    try:
        from _pickle import dumps
    except ImportError:
        from pickle import dumps
    return dumps(job, protocol=5)


def submit(number: int, signature: bytes, described: Any, put_off: bool = False) -> bool:
    """Have a trace compiled, at once or by `send_put_off`.

    False if that can't be done, or it isn't recorded under the program's own options.
    """
    program = programs.begun
    if program is None or program.folder is None or _C.options_id() != program.number:
        return False
    if not hasattr(os, "posix_spawn") or not sys.executable:
        return False
    try:
        if make_private(program.folder) is not None:
            return False
        path = os.path.join(program.folder, f".{os.getpid()}-{next(_numbers)}-job.tmp")
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(handle, "wb") as file:
            file.write(_pickled((program.flags, program.folder, signature, described)))
    except OSError:
        return False
    if put_off and len(_put_off) < _MOST_PUT_OFF:
        _put_off[number] = path
        return True
    with suppress(KeyError, OSError):
        os.unlink(_put_off.pop(number))
    return _send(number, path)


def send_put_off() -> None:
    """The program ends: have compiled what was put off until now."""
    while _put_off:
        if not _send(*_put_off.popitem()):
            break
    for path in _put_off.values():
        with suppress(OSError):
            os.unlink(path)
    _put_off.clear()


def _send(number: int, path: str) -> bool:
    line = f"{number} {path}\n".encode()
    for _ in range(2):
        try:
            if _jobs is None or _pid != os.getpid():
                _start()
            assert _jobs is not None
            os.write(_jobs, line)
            return True
        except OSError:  # it has gone: another one
            forget()
    with suppress(OSError):
        os.unlink(path)
    return False


def forget() -> None:
    """Let go of the helper, which then ends."""
    global _jobs, _replies
    _C.set_reply_pipe(-1)
    for end in (_jobs, _replies):
        if end is not None:
            with suppress(OSError):
                os.close(end)
    _jobs = _replies = None


def _pipe() -> tuple[int, int]:
    """Return a pipe whose ends are not among the numbers that the helper's ends have."""
    import fcntl  # only where posix_spawn is

    ends = []
    for end in os.pipe():
        ends.append(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, REPLIES + 1))
        os.close(end)
    return ends[0], ends[1]


def _start() -> None:
    global _jobs, _replies, _pid
    forget()
    jobs, _jobs = _pipe()
    _replies, replies = _pipe()
    _pid = os.getpid()
    package = os.path.dirname(os.path.dirname(os.path.abspath(_C.__file__)))
    environment = {name: value for name, value in os.environ.items() if name != "MT_JIT_FLAGS"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH", ""))))
    command = ["sh", "-c", _START, "sh", sys.executable, "-P", "-c", _SERVE]
    try:
        pid = os.posix_spawn(
            "/bin/sh",
            command,
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, jobs, JOBS), (os.POSIX_SPAWN_DUP2, replies, REPLIES)],
            setpgroup=0,  # Ctrl-C is meant for the program
        )
    finally:
        os.close(jobs)
        os.close(replies)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)
    _C.set_reply_pipe(_replies)


def _forget_all() -> None:
    forget()
    _put_off.clear()  # the files are the parent's


_forks.in_child(_forget_all)
