"""The machine: runs a kernel's blocks of threads as NumPy vectors, many blocks of threads at once.

Threads that stand at the same block of code run it together. Of the places where threads stand, the first in the order
of `program.in_meeting_order` runs next, so threads that parted meet again where their ways join.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from .errors import PtxError, PtxFault
from .kernel import Kernel, Step
from .lanes import Checks, Lanes
from .memory import ALIGNMENT, Memory
from .parser import Module, parse
from .races import LaunchRaces

BATCH = 1 << 15
"""How many threads run together, at least one block."""
PARKED = -1


@dataclass
class Counts:
    """What launches did. Bytes are what instructions asked for; with `Machine(measure=True)` the rest is counted."""

    instructions: Counter = field(default_factory=Counter)
    """By opcode, one for each thread."""
    global_bytes_read: int = 0
    global_bytes_written: int = 0
    shared_bytes_read: int = 0
    shared_bytes_written: int = 0
    global_sectors_read: int = 0
    """Transactions of 32 bytes, as a warp's request is cut into them."""
    global_sectors_written: int = 0
    global_requests: int = 0
    shared_requests: int = 0
    shared_wavefronts: int = 0
    """Cycles that shared memory was busy; without bank conflicts the ideal number."""
    shared_ideal_wavefronts: int = 0

    @property
    def bank_conflicts(self) -> int:
        return self.shared_wavefronts - self.shared_ideal_wavefronts

    @property
    def instruction_count(self) -> int:
        return sum(self.instructions.values())


def three(size: int | tuple[int, ...]) -> tuple[int, int, int]:
    sizes = (size,) if isinstance(size, int) else tuple(int(s) for s in size)
    return (*sizes, 1, 1)[:3]


class Machine:
    """Runs the kernels of a module. `checks` says what is looked for, `measure` whether transactions are counted.

    Raises PtxError where the text isn't understood, PtxFault for what a kernel must not do.
    """

    def __init__(
        self, text: str | Module, *, checks: Checks | None = None, measure: bool = False, shared_limit: int = 232448
    ):
        self.module = parse(text) if isinstance(text, str) else text
        self.checks = checks or Checks()
        self.measure = measure
        self.shared_limit = shared_limit
        self.counts = Counts()
        self.kernels: dict[str, Kernel] = {}
        self.max_steps = 50_000_000

    @property
    def kernel_names(self) -> list[str]:
        return [f.name for f in self.module.functions.values() if f.entry]

    def kernel(self, name: str) -> Kernel:
        if name not in self.kernels:
            self.kernels[name] = Kernel(self.module, name)
        return self.kernels[name]

    def global_addresses(self, kernel: Kernel, memory: Memory) -> dict[str, int]:
        """Variables of the module in global memory get a place there when a kernel first needs them."""
        known = memory.globals.setdefault(id(self), {})
        for name, variable in kernel.globals.items():
            if name not in known:
                known[name] = memory.allocate(variable.size)
                memory.write(known[name], (variable.data or b"").ljust(variable.size, b"\0"))
        return known

    def launch(
        self,
        name: str,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        shared_bytes: int,
        arguments: bytes,
        memory: Memory,
    ) -> None:
        """Runs all blocks. `arguments` are the parameters' bytes, each at a multiple of its alignment."""
        kernel = self.kernel(name)
        grid, block = three(grid), three(block)
        threads = block[0] * block[1] * block[2]
        if min(grid) < 1 or min(block) < 1 or threads > 1024 or block[2] > 64 or max(grid[1:]) > 65535:
            raise PtxFault("launch", f"{name}: a grid of {grid} blocks of {block} threads")
        for key, most in (("reqntid", None), ("maxntid", None)):
            if key in kernel.limits:
                said = three(kernel.limits[key])
                most = said[0] * said[1] * said[2]
                if threads > most or (key == "reqntid" and block != said):
                    raise PtxFault("launch", f"{name} is declared with .{key} {said} and launched with {block} threads")
        if len(arguments) < kernel.params.size:
            raise PtxFault("launch", f"{name} takes {kernel.params.size} bytes of parameters, not {len(arguments)}")
        shared = kernel.layouts["shared"].size + shared_bytes
        if shared > self.shared_limit:
            raise PtxFault("launch", f"{name}: {shared} bytes of shared memory, of {self.shared_limit}")
        blocks = grid[0] * grid[1] * grid[2]
        together = max(1, BATCH // threads)
        if shared:
            together = max(1, min(together, (1 << 26) // shared))
        memory.launch_began()
        races = LaunchRaces(memory, kernel.granules["global"]) if self.checks.races else None
        with np.errstate(all="ignore"):
            for first in range(0, blocks, together):
                lanes = Lanes(
                    self,
                    kernel,
                    grid,
                    block,
                    first,
                    min(together, blocks - first),
                    shared_bytes,
                    arguments,
                    memory,
                    self.checks,
                    races,
                )
                Run(self, kernel, lanes).run()


class Run:
    """One batch of blocks from beginning to end."""

    def __init__(self, machine: Machine, kernel: Kernel, lanes: Lanes):
        self.machine = machine
        self.kernel = kernel
        self.m = lanes
        self.total = lanes.total
        self.registers: list = [None] * len(kernel.names)
        self.owned = [False] * len(kernel.names)
        self.set: dict[int, np.ndarray] = {r: np.zeros(lanes.total, bool) for r in kernel.maybe_unset}
        self.waiting: dict[int, list] = {0: [None]}
        """For each block of code the threads that stand there: arrays of their numbers, or None for all."""
        self.parked: list[tuple] = []

    def run(self) -> None:
        steps, m = self.kernel.steps, self.m
        ran = Counter()
        done = 0
        while True:
            if not self.waiting:
                if not self.parked:
                    break
                self.release()
            at = min(self.waiting)
            groups = self.waiting.pop(at)
            if len(groups) == 1:
                index = groups[0]
            else:
                index = np.sort(np.concatenate(groups))
                if len(index) == self.total:
                    index = None
            m.stand(index)
            step = steps[at]
            self.step(step, index)
            ran[at] += m.n
            done += 1
            if done > self.machine.max_steps:
                raise PtxFault(
                    "endless", f"{self.kernel.name} ran {done} blocks of code and did not end, at line {step.line}"
                )
        counts = self.machine.counts
        for at, threads in ran.items():
            for opcode, times in steps[at].opcodes.items():
                counts.instructions[opcode] += times * threads
        m.count_bytes(counts)

    def step(self, step: Step, index: np.ndarray | None) -> None:
        registers, m = self.registers, self.m
        if self.set:
            self.check_set(step, index)
        if index is None:
            inputs = [registers[r] for r in step.inputs]
        else:
            inputs = []
            for r in step.inputs:
                value = registers[r]
                inputs.append(value if value is None or value.ndim == 0 else value[index])
        values = step.function(m, *inputs)
        if index is None:
            for r, value in zip(step.outputs, values, strict=False):
                registers[r] = value
                self.owned[r] = False
        else:
            for r, value in zip(step.outputs, values, strict=False):
                self.scatter(r, index, value)
        if self.set:
            for r in step.outputs:
                if r in self.set:
                    self.set[r][... if index is None else index] = True
        self.go_on(step, index, values[len(step.outputs) :])

    def scatter(self, r: int, index: np.ndarray, value) -> None:
        old = self.registers[r]
        if not self.owned[r]:
            new = np.zeros(self.total, value.dtype)
            if old is not None:
                new[...] = old
            self.registers[r] = old = new
            self.owned[r] = True
        old[index] = value

    def check_set(self, step: Step, index: np.ndarray | None) -> None:
        if not self.m.checks.uninitialized:
            return
        for r in step.inputs:
            if r in self.set:
                there = self.set[r] if index is None else self.set[r][index]
                if not there.all():
                    name = self.kernel.names[r]
                    self.m.fault(
                        "uninitialized register",
                        step.line,
                        ~there,
                        f"{name} is read in the block of code that ends here",
                    )

    def go_on(self, step: Step, index: np.ndarray | None, extra: tuple) -> None:
        waiting = self.waiting
        if step.conditional:
            condition = extra[0]
            if condition.ndim == 0:
                waiting.setdefault(step.taken if condition else step.following, []).append(index)
                return
            count = int(np.count_nonzero(condition))
            if count in (0, self.m.n):
                waiting.setdefault(step.taken if count else step.following, []).append(index)
                return
            if index is None:
                index = self.m.everyone
            waiting.setdefault(step.taken, []).append(index[condition])
            waiting.setdefault(step.following, []).append(index[~condition])
        elif step.kind in ("ret", "exit"):
            self.m.end(index)
        elif step.kind == "trap":
            self.m.fault("trap", step.line, np.True_, "the kernel trapped")
        elif step.kind.startswith("bar."):
            self.park(step, index, extra)
        else:
            waiting.setdefault(step.taken if step.taken >= 0 else step.following, []).append(index)

    # Barriers

    def park(self, step: Step, index: np.ndarray | None, extra: tuple) -> None:
        number, count, test = extra
        index = self.m.everyone if index is None else index
        number = np.broadcast_to(np.asarray(number, np.int64), len(index))
        count = np.broadcast_to(np.asarray(count, np.int64), len(index))
        if (number > 15).any():
            self.m.fault("barrier", step.line, number > 15, "there are barriers 0 to 15")
        if test is not None:
            test = np.broadcast_to(test, len(index))
        self.parked.append((step, index, number, count, test))
        if step.kind == "bar.arrive":
            self.waiting.setdefault(step.following, []).append(index)

    def release(self) -> None:
        """Lets threads go whose barrier is complete: all of the block that didn't end, or as many as it says."""
        m = self.m
        index = np.concatenate([p[1] for p in self.parked])
        which = np.concatenate([np.full(len(p[1]), k) for k, p in enumerate(self.parked)])
        key = m.cta_of[index] * 16 + np.concatenate([p[2] for p in self.parked])
        count = np.concatenate([p[3] for p in self.parked])
        present = np.bincount(key, minlength=16 * m.blocks)
        wanted = np.where(count == 0, m.alive_count[m.cta_of[index]], count)
        complete = present[key] == wanted
        if (present[key] > wanted).any():
            step = self.parked[which[np.argmax(present[key] > wanted)]][0]
            m.stand(index)
            m.fault("divergent barrier", step.line, present[key] > wanted, "more threads than the barrier waits for")
        if not complete.any():
            self.deadlock(index, which)
        self.check_warps(index[complete], which[complete], key[complete])
        m.barrier(index[complete], key[complete])
        left = []
        for k, (step, threads, number, count, test) in enumerate(self.parked):
            go = complete[which == k]
            if step.kind != "bar.arrive" and go.any():
                gone = threads[go]
                if test is not None:
                    self.reduce(step, gone, number[go], test[go], k)
                self.waiting.setdefault(step.following, []).append(None if len(gone) == self.total else gone)
            if not go.all():
                stay = ~go
                left.append((step, threads[stay], number[stay], count[stay], None if test is None else test[stay]))
        self.parked = left

    def reduce(self, step: Step, index: np.ndarray, number: np.ndarray, test: np.ndarray, k: int) -> None:
        key = self.m.cta_of[index] * 16 + number
        true = np.bincount(key, weights=test, minlength=16 * self.m.blocks)[key].astype(np.int64)
        all_of = np.bincount(key, minlength=16 * self.m.blocks)[key]
        how = step.kind.split(".")[2]
        value = {"popc": true.astype(np.uint32), "and": true == all_of, "or": true > 0}[how]
        self.scatter(step.result, index, value)

    def check_warps(self, index: np.ndarray, which: np.ndarray, key: np.ndarray) -> None:
        """A barrier is `aligned`: all threads of a warp come to the same instruction, and none of them has ended."""
        m = self.m
        warps = m.warp_of[index]
        first = np.full(m.warps, -1)
        first[warps] = which
        same = first[warps] == which
        size = np.bincount(warps, minlength=m.warps)
        wrong = ~same | (size[warps] != m.warp_size[warps])
        if wrong.any():
            step = self.parked[which[np.argmax(wrong)]][0]
            m.stand(index)
            m.fault("divergent barrier", step.line, wrong, f"not all threads of its warp come to this {step.opcode}")

    def deadlock(self, index: np.ndarray, which: np.ndarray) -> None:
        lines = sorted({p[0].line for p in self.parked})
        self.m.stand(index)
        self.m.fault(
            "divergent barrier", lines[0], np.True_,
            f"threads wait at the barriers of lines {lines} for others that never come",
        )  # fmt: skip


__all__ = ["ALIGNMENT", "Checks", "Counts", "Machine", "Memory", "PtxError", "PtxFault"]
