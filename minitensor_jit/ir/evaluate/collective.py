"""The evaluator's rules for collectives, and the evaluation of a module by several devices at once.

Each device is a thread. At a collective all of them meet, and each computes its own result of what the members of its
group bring: reductions combine in the order of the group, from its first member on. Outside of `evaluate_devices` there
is one device, whose number is 0: a collective among more than one is an error, since nobody else brings anything.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ..module import Computation, Instruction, Module
from ..narrow import WIDER, array_of, wide_array, widened
from ..semantics.collective import Devices, groups_of
from ..shape import TupleShape, leaves
from .computation import scalar_function
from .elementwise import Array, Rule, Value

__all__ = ["COLLECTIVE_RULES", "combined", "evaluate_devices", "on_devices"]

T = TypeVar("T")


class _Meeting:
    """Where the devices of one evaluation exchange what they have."""

    def __init__(self, devices: Devices) -> None:
        self.devices = devices
        self.barrier = threading.Barrier(devices.count)
        self.brought: list[tuple[Instruction, Sequence[Value]] | None] = [None] * devices.count
        self.error: BaseException | None = None

    def exchange(self, device: int, i: Instruction, x: Sequence[Value]) -> Sequence[Sequence[Value]]:
        """What every device brought to the same instruction. ValueError if another one is at another instruction."""
        self.brought[device] = (i, x)
        self.barrier.wait()
        brought = [pair for pair in self.brought if pair is not None]
        self.barrier.wait()
        for other, (theirs, _) in enumerate(brought):
            # By name: each device may have read the text by itself.
            if (theirs.name, theirs.opcode) != (i.name, i.opcode):
                raise ValueError(f"device {device} has come to {i.name}, device {other} to {theirs.name}")
        return [values for _, values in brought]


_ALONE: Final = Devices()
_here: contextvars.ContextVar[tuple[int, _Meeting | None]] = contextvars.ContextVar("device", default=(0, None))


def evaluate_devices(
    module: Module, args: Sequence[Sequence[ArrayLike]], *, devices: Devices | None = None
) -> list[list[Array]]:
    """The results on each device, by number, for each device's arguments; by default all are partitions.

    Raises what the first device to fail raised.
    """
    from .evaluator import evaluate

    devices = devices or Devices(len(args))
    if len(args) != devices.count:
        raise ValueError(f"there are arguments for {len(args)} devices, expected {devices.count}")
    return on_devices(lambda device: evaluate(module, args[device]), devices)


def on_devices(function: Callable[[int], T], devices: Devices) -> list[T]:
    """What a function gives for each device's number, called in a thread for each; what it evaluates is on that device.

    Raises what the first device to fail raised.
    """
    meeting = _Meeting(devices)
    results: list[Any] = [None] * devices.count

    def run(device: int) -> None:
        _here.set((device, meeting))
        try:
            results[device] = function(device)
            # Who still waits for a device that has ended would wait for ever.
            meeting.exchange(device, _END, ())
        except threading.BrokenBarrierError:
            pass  # another device failed, and says why
        except BaseException as error:
            meeting.error = meeting.error or error
            meeting.barrier.abort()

    threads = [threading.Thread(target=run, args=(device,), daemon=True) for device in range(devices.count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if meeting.error is not None:
        raise meeting.error
    return results


_END: Final = Instruction("its end", "tuple", TupleShape(()))


# ---- rules


def _fold(function: Computation, values: Sequence[Array]) -> Array:
    """The values combined in their order."""
    call = scalar_function(function)
    total = values[0]
    for value in values[1:]:
        total = np.asarray(call(total, value))
    return np.array(np.broadcast_to(total, values[0].shape))


def combined(i: Instruction, members: Sequence[Sequence[Array]], place: int) -> list[Array]:
    """What the member at `place` of a group gets of the operands of all members, one array for each result.

    Types that are only stored are combined in the type that they are computed in, and rounded once.
    """
    if "to_apply" in i.attrs and any(s.dtype in WIDER for s in leaves(i.shape)):
        wide = combined(widened(i), [[wide_array(x) for x in theirs] for theirs in members], place)
        return [array_of(x, s.dtype) for x, s in zip(wide, leaves(i.shape), strict=True)]
    if i.opcode == "all-to-all" and "dimensions" not in i.attrs:
        return [theirs[place] for theirs in members]
    return [_combined(i, [theirs[k] for theirs in members], place) for k in range(len(members[place]))]


def _combined(i: Instruction, values: Sequence[Array], place: int) -> Array:
    if i.opcode in ("all-reduce", "all-reduce-start"):
        return _fold(i.attrs["to_apply"], values)
    if i.opcode == "collective-broadcast":
        return values[0]
    dimension, count = i.attrs["dimensions"][0], len(values)
    if i.opcode == "all-gather":
        return np.concatenate(values, axis=dimension)
    if i.opcode == "all-to-all":
        return np.concatenate([np.split(v, count, dimension)[place] for v in values], axis=dimension)
    return _fold(i.attrs["to_apply"], [np.split(v, count, dimension)[place] for v in values])


def _all_devices(i: Instruction, x: Sequence[Value]) -> tuple[int, Devices, Sequence[Sequence[Value]]]:
    device, meeting = _here.get()
    if meeting is None:
        return device, _ALONE, [x]
    return device, meeting.devices, meeting.exchange(device, i, x)


def _collective(i: Instruction, x: Sequence[Value]) -> Value:
    device, devices, brought = _all_devices(i, x)
    try:
        groups = groups_of(i, devices)
    except ValueError as error:
        where = "; a module for several devices needs evaluate_devices" if devices.count == 1 else ""
        raise ValueError(f"{error}{where}") from None
    mine = next((group for group in groups if device in group), None)
    if mine is None and i.opcode != "collective-broadcast":
        raise ValueError(f"device {device} comes to {i.name}, but is in none of its groups")
    if mine is None:  # zeros, as in XLA
        results = [np.zeros_like(a) for a in x]
    else:
        results = combined(i, [brought[member] for member in mine], mine.index(device))
    return tuple(results) if i.is_tuple else results[0]


def _permute(i: Instruction, x: Sequence[Value]) -> Value:
    device, devices, brought = _all_devices(i, x)
    sources = [source for source, target in groups_of(i, devices) if target == device]
    results = brought[sources[0]] if sources else [np.zeros_like(a) for a in x]
    return tuple(results) if i.is_tuple else results[0]


def _done(i: Instruction, x: Sequence[Value]) -> Value:
    return x[0]


def _partition(i: Instruction, x: Sequence[Value]) -> Any:
    device, meeting = _here.get()
    return np.uint32(device % (meeting.devices if meeting else _ALONE).partitions)


def _replica(i: Instruction, x: Sequence[Value]) -> Any:
    device, meeting = _here.get()
    return np.uint32(device // (meeting.devices if meeting else _ALONE).partitions)


COLLECTIVE_RULES: Final[dict[str, Rule]] = {
    "all-gather": _collective,
    "all-reduce": _collective,
    "all-reduce-done": _done,
    "all-reduce-start": _collective,
    "all-to-all": _collective,
    "collective-broadcast": _collective,
    "collective-permute": _permute,
    "partition-id": _partition,
    "reduce-scatter": _collective,
    "replica-id": _replica,
}
