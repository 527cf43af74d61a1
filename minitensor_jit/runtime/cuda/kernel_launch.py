"""The launch of a PTX kernel, copies and fills on a stream: steps of a program, once their addresses are known."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minitensor_jit.runtime.cuda.driver import driver
from minitensor_jit.runtime.cuda.program import Address, HostValue, KernelLaunch, MemoryCopy, MemoryFill

__all__ = ["NOTHING", "Bind", "Call", "Launch", "copy", "fill", "resolve"]

_FORMATS = {1: "B", 2: "H", 4: "I", 8: "Q"}

Call = tuple[Callable[..., Any], tuple[Any, ...]]
"""What runs a step: it is called with the arguments and, behind them, the stream."""
Bind = Callable[[Sequence[int]], Call]
"""One step, given the addresses of all buffers."""


def resolve(address: Address) -> Callable[[Sequence[int]], int]:
    """What finds an address among those of all buffers."""
    slot, offset = address.slot, address.offset
    return lambda slots: slots[slot] + offset


class Launch:
    """One kernel: what it is called with is packed by a prepared format."""

    __slots__ = ("_call", "_format", "_places", "launch")

    def __init__(self, function: Any, launch: KernelLaunch, value_slots: Mapping[int, int]) -> None:
        self.launch = launch
        self._call = function._launch_kernel
        if launch.shared_bytes > 48 << 10:
            attributes = driver().function_attribute
            function.set_attribute(attributes.MAX_DYNAMIC_SHARED_SIZE_BYTES, launch.shared_bytes)
        text = ""
        at = 0
        # Scalars are known: only addresses are filled in.
        self._places: list[tuple[int, int]] = []
        for argument in launch.arguments:
            size = 8 if isinstance(argument, Address) else argument.nbytes
            text += f"{-at % size}x" + _FORMATS[size]
            at += -at % size + size
            if isinstance(argument, Address):
                self._places.append((argument.slot, argument.offset))
            elif isinstance(argument, HostValue):
                # The value's bits as an integer, in place of an address.
                self._places.append((value_slots[argument.slot], 0))
            else:
                self._places.append((-1, argument.value & ((1 << 8 * size) - 1)))
        self._format = struct.Struct("<" + text.replace("0x", "")).pack

    def __call__(self, slots: Sequence[int]) -> Call:
        """What launches it, given the addresses of all buffers."""
        packed = self._format(*[slots[slot] + offset if slot >= 0 else offset for slot, offset in self._places])
        launch = self.launch
        return self._call, (launch.grid, launch.block, packed, launch.shared_bytes)


def copy(step: MemoryCopy) -> Bind:
    """A copy from one place of a GPU's memory to another."""
    source, target, nbytes = resolve(step.source), resolve(step.target), step.nbytes
    enqueue = driver().memcpy_dtod_async

    def bind(slots: Sequence[int]) -> Call:
        start, end = source(slots), target(slots)
        return (enqueue, (end, start, nbytes)) if start != end and nbytes else NOTHING

    return bind


def fill(step: MemoryFill) -> Bind:
    """A fill of a GPU's memory with one value."""
    d = driver()
    enqueue = {1: d.memset_d8_async, 2: d.memset_d16_async, 4: d.memset_d32_async}[step.nbytes]
    target, value, count = resolve(step.target), step.value & ((1 << 8 * step.nbytes) - 1), step.count
    return lambda slots: (enqueue, (target(slots), value, count)) if count else NOTHING


def _nothing(_: Any) -> None:
    """The call of a step that has nothing to do."""


NOTHING: Call = (_nothing, ())
