"""Code that measures itself, for `--hlo_profile`: the entry reads the clock around every kernel.

The counts lie in memory of this process, and their addresses in the code, which therefore can't be kept on disk.
"""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ...runtime.kernel_counters import KernelCounter, ModuleCounters
from ..emitter.loops import i64
from ..kernel_spec import KernelSpec, flops_of, source_ops
from ..llvm.ir_text import Builder, Function
from ..llvm.ir_types import I64, Value
from .unit import Location, Unit

__all__ = ["Stopwatch"]


def _kind(form: str) -> str:
    """What a table calls a kernel, from the class that emits it: RowKernel is "row", KernelCallPlan "kernel call"."""
    words = re.findall("[A-Z][a-z]*", re.sub("(Kernels?|Plan)$", "", form))
    return " ".join(words).lower()


class Stopwatch:
    """Makes the counters of one module, and the code that adds to them."""

    def __init__(self, unit: Unit, name: str) -> None:
        self._unit = unit
        self.counters = ModuleCounters(name, KernelCounter(name, "module"))
        self._now: Function | None = None

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Around all that the entry does."""
        with self._measure(self.counters.whole):
            yield

    @contextmanager
    def kernel(self, spec: KernelSpec, form: str) -> Iterator[None]:
        """Around one kernel; `form` is the class that emits it."""
        counter = KernelCounter(spec.name, _kind(form), flops=flops_of(spec), ops=source_ops(spec))
        self.counters.kernels.append(counter)
        with self._measure(counter):
            yield
        counter.nbytes = _traffic(spec)

    @contextmanager
    def _measure(self, counter: KernelCounter) -> Iterator[None]:
        begin = self._time()
        yield
        b = self._unit.builder
        taken = b.sub(self._time(), begin)
        changes = ("add", taken), ("add", i64(1)), ("min", taken), ("xchg", begin), ("xchg", taken)
        for place, (change, amount) in enumerate(changes):
            cell = f"inttoptr (i64 {counter.address + 8 * place} to ptr)"
            b.raw(f"atomicrmw {change} ptr {cell}, i64 {amount.ref} monotonic")

    def _time(self) -> Value:
        if self._now is None:
            self._now = _clock(self._unit)
        return self._unit.builder.emit(I64, "i64", f"call i64 @{self._now.name}()")


def _clock(unit: Unit) -> Function:
    """`nanoseconds()`: what the system's monotonic clock shows."""
    function = Function(unit.module, "nanoseconds", I64, [])
    b = Builder(function, function.block("entry"))
    place = function.alloca(I64, 2)
    address = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value
    clock = f"inttoptr (i64 {address} to ptr)"
    b.raw(f"call i32 {clock}(i32 {time.CLOCK_MONOTONIC}, ptr {place.ref})")
    seconds, nanoseconds = b.load(place, I64, 8), b.load(b.gep(place, 1, I64), I64, 8)
    b.ret(b.add(b.mul(seconds, Value(I64, "i64", "1000000000")), nanoseconds))
    return function


def _traffic(spec: KernelSpec) -> int:
    """The bytes of all that a kernel reads and writes, each array once."""
    shapes = [parameter.array_shape for parameter in spec.computation.parameters]
    places: dict[object, int] = {}
    for binding, shape in zip(spec.operands, shapes, strict=False):
        if isinstance(binding, Location):
            places[binding] = max(places.get(binding, 0), shape.nbytes)
    return sum(places.values()) + sum(root.array_shape.nbytes for root in spec.computation.roots)
