"""Objects that go from one process to another over a socket, the memory of tensors and arrays beside them.

What is large lies in memory without a name (``memfd_create``), whose descriptor goes over the socket: whoever dies,
nothing is left in /dev/shm. The socket itself carries only short messages, so that neither side waits long.
"""

from __future__ import annotations

import array
import io
import mmap
import os
import pickle
import socket
import struct
from collections import deque
from multiprocessing.reduction import ForkingPickler
from typing import Any

from minitensor._C import Tensor, uint8
from minitensor._functions.offered import empty, frombuffer

_HEAD = struct.Struct("<QQ")  # the length of the pickle, the number of buffers
_SIZE = struct.Struct("<Q")
_ALIGNED = 64
_SHORT = 4096


class _Pickler(ForkingPickler):
    """What processes are started with, and the memory of tensors apart."""

    def __init__(self, file: Any, buffers: list[Any]) -> None:
        super().__init__(file, 5, True, buffers.append)

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or value.device.type != "cpu" or not value.is_leaf:
            return NotImplemented
        from minitensor.nn.parameter import Parameter

        data = value.detach().contiguous()
        # A class may say by itself how it is pickled.
        if type(value) not in (Tensor, Parameter) or vars(value):
            return NotImplemented
        flat: Any = data.reshape(-1).view(uint8).numpy() if data.numel() else None
        buffer = None if flat is None else pickle.PickleBuffer(flat)
        return _rebuilt, (buffer, type(value), data.dtype, tuple(data.shape), value.requires_grad)


def _rebuilt(buffer: Any, kind: Any, dtype: Any, shape: tuple[int, ...], requires_grad: bool) -> Any:
    data = empty(shape, dtype=dtype) if buffer is None else frombuffer(buffer, dtype=dtype).view(shape)
    if kind is not Tensor:
        return kind(data, requires_grad)
    return data.requires_grad_(requires_grad)


def pack(value: Any) -> tuple[bytes, int | None]:
    """The bytes that go over a socket, and the descriptor of memory beside them, which the caller closes."""
    stream, buffers = io.BytesIO(), []  # type: ignore[var-annotated]
    _Pickler(stream, buffers).dump(value)
    text = stream.getbuffer()
    parts = [buffer.raw() for buffer in buffers]
    if not parts and len(text) <= _SHORT:
        return b"s" + text, None
    descriptor = os.memfd_create("minitensor", os.MFD_CLOEXEC)
    try:
        table = _HEAD.pack(len(text), len(parts)) + b"".join(_SIZE.pack(part.nbytes) for part in parts)
        at = 0
        for part in (memoryview(table), text, *parts):
            _write(descriptor, part, at)
            at += _padded(part.nbytes)
        os.ftruncate(descriptor, max(at, 1))
    except BaseException:
        os.close(descriptor)
        raise
    return b"m", descriptor


def _padded(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _write(descriptor: int, part: memoryview, at: int) -> None:
    while part.nbytes:
        written = os.pwrite(descriptor, part, at)
        part, at = part[written:], at + written


def unpack(text: bytes, descriptor: int | None) -> Any:
    """What :func:`pack` packed. Takes the descriptor over; tensors lie in its memory, as long as they live."""
    if descriptor is None:
        return pickle.loads(text[1:])
    try:
        memory = memoryview(mmap.mmap(descriptor, 0, flags=mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)))
    finally:
        os.close(descriptor)
    length, count = _HEAD.unpack_from(memory, 0)
    sizes = [_SIZE.unpack_from(memory, _HEAD.size + i * _SIZE.size)[0] for i in range(count)]
    at = _padded(_HEAD.size + count * _SIZE.size)
    body = memory[at : at + length]
    at += _padded(length)
    buffers = []
    for size in sizes:
        buffers.append(memory[at : at + size])
        at += _padded(size)
    return pickle.loads(body, buffers=buffers)


class Channel:
    """One end of a connection of two processes. Sends wait in a list until the other end takes them."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._waiting: deque[tuple[bytes, int | None]] = deque()

    @staticmethod
    def pair() -> tuple[Channel, Channel]:
        """Both ends."""
        first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return Channel(first), Channel(second)

    def __reduce__(self) -> Any:
        return Channel, (self.socket,)

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self.socket.fileno()

    @property
    def has_waiting(self) -> bool:
        """Whether something is still to be sent."""
        return bool(self._waiting)

    def put(self, value: Any) -> None:
        """Send it, or note it for :meth:`flush`."""
        self._waiting.append(pack(value))
        self.flush()

    def flush(self, wait: bool = False) -> None:
        """Send what the other end takes now, or all if ``wait``."""
        while self._waiting:
            text, descriptor = self._waiting[0]
            beside = []
            if descriptor is not None:
                beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
            try:
                self.socket.sendmsg([text], beside, 0 if wait else socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            self._waiting.popleft()
            if descriptor is not None:
                os.close(descriptor)

    def get(self) -> Any:
        """The next message; EOFError if the other end is gone."""
        size = array.array("i").itemsize
        try:
            text, beside, _, _ = self.socket.recvmsg(_SHORT + 64, socket.CMSG_SPACE(size), socket.MSG_CMSG_CLOEXEC)
        except ConnectionError:
            text, beside = b"", []
        if not text:
            raise EOFError
        descriptor = None
        for level, kind, data in beside:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptor = array.array("i", data[:size])[0]
        return unpack(text, descriptor)

    def close(self) -> None:
        """Close this end; what waits to be sent is dropped."""
        self.socket.close()
        while self._waiting:
            _, descriptor = self._waiting.popleft()
            if descriptor is not None:
                os.close(descriptor)
