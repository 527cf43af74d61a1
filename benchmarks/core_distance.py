"""How far apart two cores are: what it takes to hand 16 kB from one to the other and back.

Loops of some microseconds are faster on two threads if that is little. A virtual machine's cores move from one place to
another while it runs, so figures of small steps have a factor of two or more in them that is the machine's.
"""

import ctypes
import os
import statistics
import threading
import time

from llvmlite import binding as llvm

BYTES = 16 << 10  # which each core writes before it hands them over
TRIPS, ROUNDS = 400, 9


class CoreDistance:
    """Measures the distance between two cores by their numbers."""

    def __init__(self, first: int, second: int) -> None:
        self._cores = first, second
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
        module = llvm.parse_assembly(_ir())
        module.verify()
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()
        signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        self._kernel = signature(self._engine.get_function_address("hand_over"))

    def __call__(self) -> float:
        """Return the seconds of a round trip: the median of some rounds."""
        before = os.sched_getaffinity(0)
        try:
            return statistics.median(self._round() for _ in range(ROUNDS))
        finally:
            os.sched_setaffinity(0, before)

    def _round(self) -> float:
        memory = ctypes.create_string_buffer(BYTES + 4096)  # whose turn it is, and behind that what is handed over
        place = -(-ctypes.addressof(memory) // 128) * 128

        def other() -> None:
            os.sched_setaffinity(0, {self._cores[1]})
            self._kernel(place, 1, TRIPS)  # ctypes releases the interpreter's lock

        thread = threading.Thread(target=other)
        os.sched_setaffinity(0, {self._cores[0]})
        thread.start()
        self._kernel(place, 0, 2)  # until the other thread is there
        began = time.perf_counter()
        self._kernel(place, 0, TRIPS - 2)
        took = time.perf_counter() - began
        thread.join()
        return took / (TRIPS - 2)


def _ir() -> str:
    return f"""
define void @hand_over(ptr %turn, i64 %own, i64 %trips) {{
entry:
  %data = getelementptr i8, ptr %turn, i64 256
  %other = xor i64 %own, 1
  br label %trip
trip:
  %trip.n = phi i64 [ 0, %entry ], [ %trip.next, %done ]
  br label %wait
wait:
  %now = load atomic i64, ptr %turn acquire, align 8
  %mine = icmp eq i64 %now, %own
  br i1 %mine, label %write, label %wait
write:
  %at = phi i64 [ 0, %wait ], [ %at.next, %write ]
  %place = getelementptr i8, ptr %data, i64 %at
  %old = load volatile i64, ptr %place, align 8
  %new = add i64 %old, 1
  store volatile i64 %new, ptr %place, align 8
  %at.next = add i64 %at, 64
  %all = icmp uge i64 %at.next, {BYTES}
  br i1 %all, label %done, label %write
done:
  store atomic i64 %other, ptr %turn release, align 8
  %trip.next = add i64 %trip.n, 1
  %last = icmp uge i64 %trip.next, %trips
  br i1 %last, label %end, label %trip
end:
  ret void
}}
"""
