"""The store that one process serves and the others reach over TCP."""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from minitensor import _forks
from minitensor.distributed.errors import DistNetworkError, DistStoreError
from minitensor.distributed.stores.connection import accepted, connected, job_token, listener
from minitensor.distributed.stores.store import DEFAULT_TIMEOUT, VALUES, Table, TableStore, seconds

__all__ = ["TCPStore"]

_LENGTH = struct.Struct("<I")
_LARGEST = 1 << 30


def _packed(fields: Sequence[bytes]) -> bytes:
    body = b"".join(_LENGTH.pack(len(field)) + field for field in fields)
    return _LENGTH.pack(len(body)) + body


def _fields(body: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(body):
        (length,) = _LENGTH.unpack_from(body, at)
        found.append(body[at + 4 : at + 4 + length])
        at += 4 + length
    return found


class _Client:
    """What the server knows of one connection."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.unread = bytearray()
        self.unsent = bytearray()
        self.waits: tuple[str, list[Any]] | None = None

    def requests(self) -> list[list[bytes]]:
        """The whole requests that have come. EOFError at the end of the connection."""
        try:
            while chunk := self.end.recv(65536):
                self.unread += chunk
                if len(chunk) < 65536:
                    break
            else:
                raise EOFError
        except BlockingIOError:
            pass
        found = []
        while len(self.unread) >= 4:
            (length,) = _LENGTH.unpack_from(self.unread)
            if length > _LARGEST:
                raise EOFError
            if len(self.unread) < 4 + length:
                break
            found.append(_fields(bytes(self.unread[4 : 4 + length])))
            del self.unread[: 4 + length]
        return found

    def send(self, *fields: bytes) -> None:
        """Answer, as far as the other end takes it now."""
        self.unsent += _packed(fields)
        self.flush()

    def flush(self) -> None:
        """Send what is left."""
        try:
            while self.unsent:
                del self.unsent[: self.end.send(self.unsent)]
        except BlockingIOError:
            pass


class _Server:
    """The table, and a thread that answers."""

    def __init__(self, listening: socket.socket) -> None:
        self.listening = listening
        self.table = Table()
        self.clients: dict[int, _Client] = {}
        self.admitted: list[socket.socket] = []
        self.wakes, self.wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.ended = False
        self.ending = _forks.lock()  # nobody writes to a descriptor that another file has meanwhile
        self.closing = False
        self.owner = os.getpid()
        listening.setblocking(False)
        self.thread = threading.Thread(target=self._serve, name="minitensor-store", daemon=True)
        self.thread.start()

    def close(self) -> None:
        """Stop; connections are closed."""
        if self.owner != os.getpid() or self.closing:
            return
        self.closing = True
        self._wake_up()
        self.thread.join(5)

    def _wake_up(self) -> bool:
        """Let the thread look around; False if it has ended."""
        with self.ending:
            if not self.ended:
                os.write(self.wake, b".")
            return not self.ended

    def _admit(self, end: socket.socket) -> None:
        try:
            accepted(end)
        except DistNetworkError:
            return  # the other end says why
        end.setblocking(False)
        self.admitted.append(end)
        if not self._wake_up():
            end.close()

    def _serve(self) -> None:
        poll = select.poll()
        poll.register(self.listening, select.POLLIN)
        poll.register(self.wakes, select.POLLIN)
        while not self.closing:
            for descriptor, _ in poll.poll():
                if descriptor == self.wakes:
                    os.read(self.wakes, 4096)
                    while self.admitted:
                        end = self.admitted.pop()
                        self.clients[end.fileno()] = _Client(end)
                        poll.register(end, select.POLLIN)
                elif descriptor == self.listening.fileno():
                    try:
                        end, _ = self.listening.accept()
                    except OSError:
                        continue
                    threading.Thread(target=self._admit, args=(end,), daemon=True).start()
                else:
                    client = self.clients[descriptor]
                    try:
                        client.flush()
                        for request in client.requests():
                            self._answer(client, request)
                        poll.modify(descriptor, select.POLLIN | (select.POLLOUT if client.unsent else 0))
                    except (OSError, EOFError):
                        poll.unregister(descriptor)
                        del self.clients[descriptor]
                        client.end.close()
        for client in self.clients.values():
            client.end.close()
        self.listening.close()
        with self.ending:
            self.ended = True
            os.close(self.wakes)
            os.close(self.wake)
        for end in self.admitted:
            end.close()

    def _answer(self, client: _Client, request: list[bytes]) -> None:
        name = request[0].decode()
        count = len(request) - VALUES.get(name, 0)
        client.waits = name, [*(key.decode() for key in request[1:count]), *request[count:]]
        self._try(client)
        # What others wait for may be there now.
        if name in VALUES:
            for other in list(self.clients.values()):
                try:
                    self._try(other)
                except OSError:
                    continue  # its end is noticed when it is polled

    def _try(self, client: _Client) -> None:
        if client.waits is None:
            return
        name, arguments = client.waits
        try:
            answer = getattr(self.table, name)(*arguments)
        except DistStoreError as error:
            client.waits = None
            client.send(b"error", str(error).encode())
            return
        if answer is not None:
            client.waits = None
            client.send(b"", answer)


class TCPStore(TableStore):
    """A store that the process with ``is_master`` serves on the interface of `host_name`; port 0 is any free one.

    With ``wait_for_workers`` the master waits until `world_size` processes, itself one of them, have connected.
    Processes must know the job's token (``MT_DISTRIBUTED_TOKEN``).
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        self._timeout = timeout
        self._host = host_name
        self._server: _Server | None = None
        self._lock = _forks.lock()
        self._end: socket.socket | None = None
        if is_master:
            job_token()  # an error of it is this process's, not its clients'
            key = host_name, port
            if multi_tenant and port and key in _shared:
                self._server = _shared[key]
            else:
                if master_listen_fd is not None:
                    listening = socket.socket(fileno=master_listen_fd)
                else:
                    listening = listener(host_name, port)
                self._server = _Server(listening)
                if multi_tenant:
                    _shared[host_name, listening.getsockname()[1]] = self._server
            port = self._server.listening.getsockname()[1]
        self._port = port
        self._end = connected(host_name, port, seconds(timeout))
        if wait_for_workers and world_size is not None and world_size > 0:
            self.add("init/", 1)
            end = time.monotonic() + seconds(timeout)
            while is_master and (come := self.add("init/", 0)) < world_size:
                if time.monotonic() > end:
                    raise DistStoreError(
                        f"Timed out after {seconds(timeout):.0f} seconds waiting for clients. "
                        f"{come}/{world_size} clients joined."
                    )
                time.sleep(0.005)

    @property
    def host(self) -> str:
        """The name of the host that serves it."""
        return self._host

    @property
    def port(self) -> int:
        """The port there."""
        return self._port

    @property
    def local_address(self) -> str:
        """The address of this machine by which it reaches the store."""
        assert self._end is not None
        found: str = self._end.getsockname()[0]
        return found

    def clone(self) -> TCPStore:
        """Return another connection to the same store."""
        return TCPStore(self._host, self._port, None, False, self._timeout, False)

    def __del__(self) -> None:
        if (end := getattr(self, "_end", None)) is not None:
            end.close()

    def _close(self) -> None:
        """Close the connection, and the server if it is this process's."""
        with self._lock:
            if self._end is not None:
                self._end.close()
            self._end = None
        if self._server is not None and self._server not in _shared.values():
            self._server.close()

    def _call(self, name: str, keys: Sequence[str], values: Sequence[bytes], timeout: timedelta | None) -> bytes | None:
        request = _packed([name.encode(), *(key.encode() for key in keys), *values])
        with self._lock:
            if self._end is None:
                self._end = connected(self._host, self._port, seconds(self._timeout))
            whole = False
            try:
                self._end.settimeout(None)
                self._end.sendall(request)
                answer = self._answer(time.monotonic() + seconds(timeout or self._timeout))
                whole = answer is not None
            except (OSError, EOFError) as error:
                raise DistNetworkError(
                    f"the store at {self._host}:{self._port} is gone ({error or 'it closed the connection'}); the "
                    "process that serves it has ended or left its group"
                ) from error
            finally:
                if not whole:  # an answer may still come: never take it for another's
                    self._end.close()
                    self._end = None
        if answer is None:
            return None
        if answer[0] == b"error":
            raise DistStoreError(answer[1].decode())
        return answer[1]

    def _answer(self, end: float) -> list[bytes] | None:
        assert self._end is not None
        got, wanted = bytearray(), 4
        while len(got) < wanted:
            left = end - time.monotonic()
            if left <= 0:
                return None
            self._end.settimeout(left)
            try:
                chunk = self._end.recv(wanted - len(got))
            except TimeoutError:
                return None
            if not chunk:
                raise EOFError
            got += chunk
            if wanted == 4 and len(got) == 4:
                wanted += _LENGTH.unpack(got)[0]
        return _fields(bytes(got[4:]))


_shared: dict[tuple[str, int], _Server] = {}
