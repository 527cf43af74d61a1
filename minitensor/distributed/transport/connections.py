"""How the processes of a group come to have memory, or connections, together. They meet in a store."""

from __future__ import annotations

import os
import secrets
import socket
import struct
import time
from datetime import timedelta
from typing import Any, Protocol

from minitensor import _C
from minitensor.distributed.errors import DistNetworkError
from minitensor.distributed.stores.connection import (
    accepted,
    connected,
    connected_locally,
    listener,
    local_address,
)
from minitensor.distributed.stores.store import PrefixStore, Store, seconds

__all__ = ["TRANSPORT", "connect", "machine", "sharing"]

TRANSPORT = "MT_DISTRIBUTED_TRANSPORT"
_HELLO = struct.Struct("<II")


def machine() -> str:
    """What processes that can share memory have in common: the running system, its network, and the user."""
    with open("/proc/sys/kernel/random/boot_id") as stream:
        boot = stream.read().strip()
    return f"{boot}/{os.stat('/proc/self/ns/net').st_ino}/{os.getuid()}"


def _interface_address(name: str) -> str:
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            found = fcntl.ioctl(probe.fileno(), 0x8915, struct.pack("256s", name.encode()[:15]))  # SIOCGIFADDR
        except OSError as error:
            raise DistNetworkError(f"the network interface {name!r} has no address: {error.strerror}") from error
    return socket.inet_ntoa(found[20:24])


def _own_address(store: Store) -> str:
    """The address that others connect to: of the interface by which the store is reached, or of the one chosen."""
    if name := os.environ.get("GLOO_SOCKET_IFNAME"):
        return _interface_address(name.split(",")[0])
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    found = getattr(store, "local_address", None)
    return found if found is not None else local_address("localhost")


def connect(store: Store, rank: int, size: int, timeout: timedelta) -> Any:
    """The communicator of a group. DistNetworkError or DistStoreError if the others don't come in time."""
    wanted = os.environ.get(TRANSPORT, "")
    if wanted not in ("", "shared_memory", "tcp"):
        raise ValueError(f"{TRANSPORT}={wanted}: there are shared_memory and tcp")
    if size == 1:
        return _C._Communicator.from_shared_memory(_C._Communicator.shared_memory(1), 0, 1)
    old = store.timeout
    store.set_timeout(timeout)
    try:
        store.set(f"machine/{rank}", machine())
        machines = {store.get(f"machine/{other}") for other in range(size)}
        end = time.monotonic() + seconds(timeout)
        if wanted == "tcp" or (len(machines) > 1 and not wanted):
            return _mesh(store, rank, size, end)
        if len(machines) > 1:
            raise DistNetworkError(f"{TRANSPORT}=shared_memory: the processes are on {len(machines)} machines")
        return sharing(store, rank, size, end)
    finally:
        store.set_timeout(old)


def _left(end: float) -> float:
    return max(end - time.monotonic(), 0.01)


class Meeting(Protocol):
    """What ranks know of each other beforehand: a store, or what can do as much."""

    def set(self, key: str, value: bytes, /) -> object:
        """Tell the others."""

    def get(self, key: str, /) -> bytes:
        """What was told, once it was."""


def sharing(meeting: Meeting, rank: int, size: int, end: float, token: bytes | None = None) -> Any:
    """The communicator of processes of one machine: rank 0 makes the memory and hands its descriptor to the others.

    They prove that they know the token, the job's unless one is given.
    """
    if rank > 0:
        name = meeting.get("memory")
        if not name:
            raise DistNetworkError("rank 0 could not make memory")
        with connected_locally(name, _left(end), token) as to_first:
            to_first.settimeout(_left(end))
            _, descriptors, _, _ = socket.recv_fds(to_first, 1, 1)
            if not descriptors:
                raise DistNetworkError("rank 0 left while the group was made")
            os.set_inheritable(descriptors[0], False)
            made = _C._Communicator.from_shared_memory(descriptors[0], rank, size)
            to_first.sendall(_HELLO.pack(rank, 0))
            if not to_first.recv(1):
                raise DistNetworkError("rank 0 left while the group was made: another rank did not come")
            return made
    name = b"\0minitensor-" + secrets.token_hex(8).encode()
    ends: list[socket.socket] = []
    descriptor, told = -1, False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        try:
            descriptor = _C._Communicator.shared_memory(size)
            listening.bind(name)
            listening.listen(size)
            told = True
            meeting.set("memory", name)
            while len(ends) < size - 1:
                one = _accept(listening, end, f"{size - 1 - len(ends)} of {size} ranks", token)
                if one is not None:
                    ends.append(one)
                    socket.send_fds(one, [b"m"], [descriptor])
            made = _C._Communicator.from_shared_memory(descriptor, rank, size)
            descriptor = -1
            for one in ends:
                one.settimeout(_left(end))
                if len(one.recv(_HELLO.size)) < _HELLO.size:
                    raise DistNetworkError("a rank left while the group was made")
            for one in ends:
                one.sendall(b"g")
            return made
        finally:
            if not told:
                meeting.set("memory", b"")  # nobody is to wait for more
            if descriptor >= 0:
                os.close(descriptor)
            for one in ends:
                one.close()


def _accept(listening: socket.socket, end: float, missing: str, token: bytes | None = None) -> socket.socket | None:
    """The next connection; None of somebody who doesn't know the token."""
    listening.settimeout(_left(end))
    try:
        one, _ = listening.accept()
    except TimeoutError:
        raise DistNetworkError(f"{missing} did not connect in time") from None
    try:
        return accepted(one, token)
    except DistNetworkError:
        return None


def _mesh(store: Store, rank: int, size: int, end: float) -> Any:
    """Two connections between any two ranks; the higher one connects."""
    lanes = [[-1] * size, [-1] * size]
    address = _own_address(store)
    with listener(address) as listening:
        store.set(f"address/{rank}", f"{address} {listening.getsockname()[1]}")
        try:
            for other in range(rank):
                host, port = store.get(f"address/{other}").decode().split()
                for lane in range(2):
                    one = connected(host, int(port), _left(end))
                    one.sendall(_HELLO.pack(rank, lane))
                    lanes[lane][other] = one.detach()
            while missing := sum(lane[rank + 1 :].count(-1) for lane in lanes):
                accepted_one = _accept(listening, end, f"{-(-missing // 2)} of {size} ranks")
                if accepted_one is None:
                    continue
                accepted_one.settimeout(_left(end))
                hello = accepted_one.recv(_HELLO.size, socket.MSG_WAITALL)
                other, lane = _HELLO.unpack(hello) if len(hello) == _HELLO.size else (size, 0)
                if not (rank < other < size and lane < 2 and lanes[lane][other] < 0):
                    accepted_one.close()
                    continue
                lanes[lane][other] = accepted_one.detach()
            return _C._Communicator.from_sockets(rank, size, *lanes)
        except BaseException:
            for ends in lanes:
                for descriptor in ends:
                    if descriptor >= 0:
                        os.close(descriptor)
            raise
