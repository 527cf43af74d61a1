"""Collectives of compiled code between processes: straight from its memory, and into it, by the process group's engine.

The calls are the very ones that the ops make eagerly, in the same order, so that a process may run compiled what
another one still runs op by op.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from minitensor._C import bfloat16, from_numpy, launch_values, share_launch_memory
from minitensor.ops.collective import GROUPS, REDUCTIONS

from ..ir.module import Instruction
from ..ir.opcode import COLLECTIVES
from ..ir.shape import BFLOAT16, Shape, leaves

__all__ = ["exchange_of"]

_NUMBERS: Final = {opcode: number for number, opcode in REDUCTIONS.items()}
# Addresses repeat, since memory does.
_KEPT: Final = 64


def exchange_of(i: Instruction) -> Callable[[Any], None] | None:
    """What makes an exchange, of an array of the addresses of operands and results; None for what is no process's."""
    match = re.search(r'process_group="([^"]*)"', i.attrs.get("frontend_attributes", ""))
    if i.opcode not in COLLECTIVES or match is None:
        return None
    name = match[1]
    inputs, outputs = [o.array_shape for o in i.operands], leaves(i.shape)
    given, made = [_Arrays(s) for s in inputs], [_Arrays(s) for s in outputs]
    count = len(given)
    members: tuple[int, ...] = next(iter(i.attrs.get("replica_groups", ())), ())

    known = 0  # where it was found

    def group() -> Any:
        nonlocal known
        found = GROUPS.get(known)
        if found is not None and found.name == name:
            return found
        known = next((number for number, one in GROUPS.items() if one.name == name), -1)
        if known < 0:
            raise ValueError(f"{i.name}: the process group {name!r} was destroyed")
        return GROUPS[known]

    def copy(pointers: Any) -> list[Any]:
        """The results, with what the operands have."""
        results = []
        for k, result in enumerate(made):
            source, target = pointers[k], pointers[count + k]
            if source != target and result.nbytes:
                result.bytes_at(target)[:] = given[k].bytes_at(source)
            results.append(result.at(target))
        return results

    if i.opcode == "all-reduce":
        op = _number(i)
        return lambda pointers: group().all_reduce_into(copy(pointers), op)
    if i.opcode == "all-reduce-start":
        op = _number(i)

        def start(pointers: Any) -> None:
            (values,) = copy(pointers)
            launch = launch_values()
            # Another op may fail before the end. The launch's memory is used again then, unless it is shared.
            shared = share_launch_memory(pointers[1], values) if made[0].nbytes else None
            if launch is None or shared is None:
                group().all_reduce_into([values], op)
            else:
                launch[pointers[1]] = group().all_reduce_begun(shared, op)

        return start
    if i.opcode == "all-reduce-done":

        def done(pointers: Any) -> None:
            work = (launch_values() or {}).pop(pointers[0], None)
            if work is not None:
                work.wait()
            copy(pointers)

        return done
    if i.opcode == "collective-broadcast":
        return lambda pointers: group().broadcast_into(copy(pointers)[0], group().ranks.index(members[0]))
    if count != 1 or i.attrs.get("dimensions", (0,)) != (0,):
        raise ValueError(f"{i.name}: a process group exchanges one array, along its first dimension")
    if i.opcode == "all-gather":
        return lambda p: group().all_gather_into(made[0].at(p[1]), given[0].at(p[0]))
    if i.opcode == "reduce-scatter":
        op = _number(i)
        return lambda p: group().reduce_scatter_into(made[0].at(p[1]), given[0].at(p[0]), op)
    if i.opcode == "all-to-all":
        return lambda p: group().all_to_all_into(made[0].at(p[1]), given[0].at(p[0]))

    def permute(pointers: Any) -> None:
        ranks = group().ranks
        result = made[0].at(pointers[1])
        result.zero_()
        pairs = [ranks.index(n) for pair in i.attrs["source_target_pairs"] for n in pair]
        group().permute_into(result, given[0].at(pointers[0]), pairs)

    return permute


def _number(i: Instruction) -> int:
    root = i.attrs["to_apply"].root
    if root.opcode not in _NUMBERS or any(o.opcode != "parameter" for o in root.operands):
        raise ValueError(f"{i.name}: a process group combines by {', '.join(_NUMBERS)}, not by {root.opcode}")
    return _NUMBERS[root.opcode]


class _Arrays:
    """Arrays of one shape in compiled code's memory, as tensors."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.nbytes: int = shape.nbytes
        self.tensors: dict[int, Any] = {}
        self.bytes: dict[int, memoryview] = {}

    def bytes_at(self, address: int) -> memoryview:
        """The memory at an address, for as long as that of the tensor."""
        known = self.bytes.get(address)
        if known is None:
            if len(self.bytes) >= _KEPT:
                self.bytes.clear()
            known = self.bytes[address] = memoryview((ctypes.c_char * self.nbytes).from_address(address)).cast("B")
        return known

    def at(self, address: int | None) -> Any:
        """The tensor at an address, which is valid as long as the call that it is for goes on."""
        known = self.tensors.get(address or 0)
        if known is None:
            if len(self.tensors) >= _KEPT:
                self.tensors.clear()
            known = self.tensors[address or 0] = self._made(address)
        return known

    def _made(self, address: int | None) -> Any:
        shape = self.shape
        narrow = shape.numpy_dtype == BFLOAT16
        dtype = np.uint16 if narrow else shape.numpy_dtype
        if not shape.nbytes or address is None:
            array = np.empty(shape.dims, dtype)
        else:
            array = np.frombuffer(self.bytes_at(address), np.uint8).view(dtype).reshape(shape.dims)
        tensor = from_numpy(array)
        return tensor.view(bfloat16) if narrow else tensor
