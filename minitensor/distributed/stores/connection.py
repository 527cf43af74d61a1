"""Connections of the processes of a job: each end shows the other that it knows the job's token, before anything else.

The token is `MT_DISTRIBUTED_TOKEN`, which the launcher makes up for each job. Where there is none it is a secret of the
user's, in a file that only they can read, so that programs that start their own processes need no launcher.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path

from minitensor.distributed.errors import DistNetworkError

__all__ = ["TOKEN", "accepted", "connected", "connected_locally", "job_token", "listener", "local_address"]

TOKEN = "MT_DISTRIBUTED_TOKEN"
_HANDSHAKE = 10.0  # seconds that the other end has to prove itself


def job_token() -> bytes:
    """The token of this job."""
    if given := os.environ.get(TOKEN):
        return given.encode()
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "minitensor"
    path = folder / "distributed_token"
    try:
        for _ in range(2):
            if path.exists():
                if path.stat().st_uid != os.getuid() or path.stat().st_mode & 0o077:
                    raise DistNetworkError(
                        f"{path} is to be this user's, with mode 600: others may have read the token"
                    )
                return path.read_bytes()
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial = path.with_suffix(f".{os.getpid()}")
            with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
                stream.write(secrets.token_hex(32))
            try:
                os.link(partial, path)  # whoever comes first
            except FileExistsError:
                pass
            finally:
                partial.unlink()
    except OSError as error:
        raise DistNetworkError(
            f"processes authenticate with a token, and {path} can't be kept ({error.strerror}); "
            f"set {TOKEN} to the same secret for all of them"
        ) from error
    return path.read_bytes()


def local_address(host: str) -> str:
    """The address of this machine by which `host` is reached: loopback for itself."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(address)  # sends nothing
            found: str = probe.getsockname()[0]
            return found
    except OSError as error:
        raise DistNetworkError(f"the host {host!r} can't be reached: {error.strerror}") from error


def listener(host: str, port: int = 0) -> socket.socket:
    """A socket that listens on the interface of `host` only."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise DistNetworkError(f"the host {host!r} is not known: {error.strerror}") from error
    made = socket.socket(family, kind)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(1024)
    except OSError as error:
        made.close()
        raise DistNetworkError(
            f"The server socket has failed to listen on any local network address. port: {port}, "
            f"host: {host} ({error.strerror})"
        ) from error
    return made


def _quick(end: socket.socket) -> None:
    if end.family != socket.AF_UNIX:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _limited(end: socket.socket, limit: float) -> None:
    """Have reads and writes of the file descriptor, which is a blocking one, fail after so many seconds; 0: never."""
    end.settimeout(None)
    wait = int(limit).to_bytes(8, "little") + int(limit % 1 * 1e6).to_bytes(8, "little")
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, wait)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)


def accepted(end: socket.socket, token: bytes | None = None) -> socket.socket:
    """The accepted end, after both have shown that they know the token, the job's unless one is given.

    DistNetworkError, and closed, otherwise.
    """
    _handshake(end, True, token)
    return end


def _handshake(end: socket.socket, first: bool, token: bytes | None = None) -> None:
    key = job_token() if token is None else token
    _quick(end)
    _limited(end, _HANDSHAKE)
    connection = Connection(end.fileno())
    try:
        for step in (deliver_challenge, answer_challenge) if first else (answer_challenge, deliver_challenge):
            step(connection, key)
    except (AuthenticationError, EOFError, OSError, ValueError) as error:
        end.close()
        wrong = isinstance(error, AuthenticationError)
        text = "has another token" if wrong else f"did not authenticate ({error or 'it closed the connection'})"
        raise DistNetworkError(f"the process at the other end {text}; {TOKEN} must be the same for all") from error
    finally:
        connection._handle = None  # type: ignore[attr-defined]  # the socket stays open
    _limited(end, 0)


def connected(host: str, port: int, timeout: float) -> socket.socket:
    """A connection, once somebody listens there. DistNetworkError after `timeout` seconds."""
    end = time.monotonic() + timeout
    wait = 0.01
    while True:
        left = end - time.monotonic()
        try:
            made = socket.create_connection((host, port), timeout=max(left, 0.01))
            break
        except OSError as error:
            if time.monotonic() + wait > end:
                raise DistNetworkError(
                    f"The client socket has timed out after {timeout:.0f}s while trying to connect to "
                    f"({host}, {port}): {error.strerror or error}"
                ) from error
        time.sleep(wait)
        wait = min(wait * 1.5, 0.5)
    if made.getsockname() == made.getpeername():  # nobody listens, and the port was the next free one
        made.close()
        return connected(host, port, max(end - time.monotonic(), 0.01))
    _handshake(made, first=False)
    return made


def connected_locally(name: bytes, timeout: float, token: bytes | None = None) -> socket.socket:
    """A connection to a process of this machine that listens under a name of Linux' (`unix(7)`)."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(timeout)
    try:
        made.connect(name)
    except OSError as error:
        made.close()
        raise DistNetworkError(f"a process of this machine can't be reached: {error.strerror or error}") from error
    _handshake(made, False, token)
    return made
