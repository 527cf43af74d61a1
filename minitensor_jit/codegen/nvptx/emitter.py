"""The shared emitter in one thread of a GPU: scalar values, 16-byte accesses, registers of the thread, shuffles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from ...ir.shape import DTYPES
from ..emitter.elemental import Emitter
from ..emitter.types import MEMORY, PARTS
from ..indexing.indexing_map import AffineExpr, Atom, Space
from ..llvm.ir_text import Builder, Function
from ..llvm.ir_types import F32, I1, I8, I16, I32, I64, PTR, VOID, Pair, Type, Value, constant, vector

__all__ = ["ACCESS_BYTES", "GpuEmitter"]

ACCESS_BYTES: Final = 16
"""The most that one instruction reads or writes."""

_ALL_LANES: Final = -1
_EXECUTIONS: Final = {"down": 31, "bfly": 31, "idx": 31}


class GpuEmitter(Emitter):
    """Emits the code of one thread.

    With a `unit`, the kernel emits `width` consecutive elements one after the other: the form `width * variable + k` is
    the k-th one. What they read from consecutive places is read together.
    """

    def __init__(self, function: Function, space: Space, literal: Callable[[bytes], Value]) -> None:
        super().__init__(function, space, 1)
        self._literal = literal
        self._unit: Atom | None = None
        self._width = 1
        self._copy = 0
        self._unit_guard: Value | None = None  # a predicate that holds for all of a unit or for none of it
        self._parts = 1  # how many numbers an element in memory is
        # Arrays of which all elements of a unit are read, or none: only these are read together.
        self.wide_bases: set[str] = set()
        # Arrays that results may lie over: threads read their own elements only, so loads stay where these are known.
        self.changing: set[str] = set()
        # Loads that come from elsewhere: by the address of the array, the type and the form.
        self.staged: dict[tuple[str, str, AffineExpr], Callable[[], Value]] = {}

    def literal(self, raw: bytes) -> Value:
        """Constant bytes in memory."""
        return self._literal(raw)

    # ---- memory

    def from_memory(self, value: Value, dtype: str) -> Value:
        """A value as it lies in memory, in a register."""
        return self._from_memory(value, dtype)

    @contextmanager
    def unit(self, variable: AffineExpr, width: int, copy: int) -> Iterator[None]:
        """Within, element number `copy` of the unit is emitted."""
        before = self._unit, self._width, self._copy
        self._unit = variable.terms[0][0] if variable.terms and width > 1 else None
        self._width, self._copy = width, copy
        try:
            yield
        finally:
            self._unit, self._width, self._copy = before

    @contextmanager
    def guarded_unit(self, guard: Value | None) -> Iterator[None]:
        """Within, memory is read only where the guard holds, which is the same for all elements of the unit."""
        before = self.predicate, self._unit_guard
        if guard is not None:
            self.predicate = self._unit_guard = self._both(self.predicate, guard)
        try:
            yield
        finally:
            self.predicate, self._unit_guard = before

    def load(self, base: Value, dtype: str, lin: AffineExpr, *, mutable: bool = False) -> Value:
        """Element `lin` of an array: by itself, or with its neighbours."""
        staged = self.staged.get((base.ref, dtype, lin))
        if staged is not None:
            return staged()
        if base.ref in self.changing:
            base = self.here(base)
        if dtype in PARTS:
            self._parts = 2
            try:
                part = PARTS[dtype]
                re = self.load(base, part, lin * 2, mutable=mutable)
                return Pair(re, self.load(base, part, lin * 2 + 1, mutable=mutable))
            finally:
                self._parts = 1
        if not mutable:
            wide = self._load_wide(base, dtype, lin)
            if wide is not None:
                return self._from_memory(wide, dtype)
        return super().load(base, dtype, lin, mutable=mutable)

    def _load_wide(self, base: Value, dtype: str, lin: AffineExpr) -> Value | None:
        """The element from a load of several; None if its neighbours in memory are not those of the unit."""
        unit, parts = self._unit, self._parts
        guard = self.predicate
        if unit is None or (guard is not None and guard is not self._unit_guard) or base.ref not in self.wide_bases:
            return None
        if lin.coefficient(unit) != self._width * parts:
            return None
        width = min(self._width * parts, ACCESS_BYTES // DTYPES[dtype].itemsize)
        while width > 1 and any(c % width for _, c in lin.terms):
            width //= 2
        # With a residue, the load would go beyond what the elements need.
        if width <= 1 or (lin.const - parts * self._copy) % width >= parts:
            return None
        lane = lin.const % width
        start = lin - lane
        key = ("wide", base.ref, dtype, width, start, self.scalar_guards())
        whole = self._find(key)
        element = MEMORY[dtype]
        if whole is None:
            address = self.address(base, dtype, start)
            if guard is not None:
                address = self.at(address, guard, base).select(guard, address, base)
            whole = self.at(address, base).load(address, vector(element, width), width * DTYPES[dtype].itemsize)
            self._keep(key, whole)
        part = ("lane", whole.ref, lane)
        known = self._find(part)
        return known if known is not None else self._keep(part, self.at(whole).extract_element(whole, lane))

    def store_unit(self, base: Value, dtype: str, lin: AffineExpr, values: Sequence[Value]) -> None:
        """Writes elements `lin`, `lin + 1`, ...; `lin` is a multiple of their number, a power of two."""
        b = self.inner
        if dtype in PARTS:
            dtype, lin = PARTS[dtype], lin * 2
            values = [part for v in values if isinstance(v, Pair) for part in (v.re, v.im)]
        if dtype == "pred":
            values = [b.zext(v, I8) for v in values]
        element, itemsize = MEMORY[dtype], DTYPES[dtype].itemsize
        width = min(len(values), ACCESS_BYTES // itemsize)
        while width > 1 and any(c % width for _, c in lin.terms):
            width //= 2
        for at in range(0, len(values), width):
            address = self.address(base, dtype, lin + at)
            whole = values[at]
            if width > 1:
                type_ = vector(element, width)
                whole = constant(type_, None)
                whole = Value(type_, whole.text, "poison")
                for k, value in enumerate(values[at : at + width]):
                    line = f"insertelement {whole.text} {whole.ref}, {value.text} {value.ref}, i64 {k}"
                    whole = b.emit(type_, whole.text, line)
            b.store(whole, address, width * itemsize)

    def load_at(self, base: Value, dtype: str, at: Value) -> Value:
        """Element number `at`, here and now."""
        b = self.inner
        if dtype in PARTS:
            part, first = PARTS[dtype], b.add(at, at)
            re = self.load_at(base, part, first)
            return Pair(re, self.load_at(base, part, b.add(first, constant(first.type, 1))))
        value = b.load(b.gep(base, at, MEMORY[dtype]), MEMORY[dtype], DTYPES[dtype].itemsize)
        return b.icmp_unsigned("!=", value, constant(I8, 0)) if dtype == "pred" else value

    def store_at(self, base: Value, dtype: str, at: Value, value: Value) -> None:
        """Writes element number `at`."""
        b = self.inner
        if isinstance(value, Pair):
            part, first = PARTS[dtype], b.add(at, at)
            self.store_at(base, part, first, value.re)
            self.store_at(base, part, b.add(first, constant(first.type, 1)), value.im)
            return
        if dtype == "pred":
            value = b.zext(value, I8)
        b.store(value, b.gep(base, at, MEMORY[dtype]), DTYPES[dtype].itemsize)

    def load_four(self, base: Value, dtype: str, at: Value) -> list[Value]:
        """Elements `at` to `at + 3`, from memory that changes; `at` is a multiple of four."""
        b, element, itemsize = self.inner, MEMORY[dtype], DTYPES[dtype].itemsize
        width = min(4, ACCESS_BYTES // itemsize)
        found = []
        for part in range(0, 4, width):
            place = b.gep(b.gep(base, at, element), part, element)
            whole = b.load(place, vector(element, width), width * itemsize)
            found += [b.extract_element(whole, k) for k in range(width)]
        return found

    def shared(self, name: str, element: Type, count: int) -> Value:
        """Memory that the threads of a block share, aligned to 16 bytes."""
        text = {I8: "i8", I16: "i16"}.get(element, str(element))
        module = self.function.module
        name = f"@{self.function.name}_{name}"
        module.globals.append(f"{name} = internal addrspace(3) global [{count} x {text}] poison, align 16")
        return Value(PTR, "ptr", f"addrspacecast (ptr addrspace(3) {name} to ptr)")

    # ---- the thread

    def register(self, name: str) -> Value:
        """A register of the thread such as tid.x, as an i32."""
        key = ("sreg", name)
        known = self._find(key)
        if known is None:
            callee = self.function.module.declare(f"llvm.nvvm.read.ptx.sreg.{name}", I32, [])
            known = self._keep(key, self.builders[0].call(callee, []))
        return known

    def wide(self, value: Value) -> Value:
        """A non-negative i32 in the type of indices."""
        return self.at(value).zext(value, self.index_type)

    def index(self, value: int) -> Value:
        """A constant in the type of indices."""
        return constant(self.index_type, value)

    def here(self, value: Value) -> Value:
        """The value as one of the current block: what depends on it is computed there and not before."""
        return Value(value.type, value.text, value.ref, len(self.builders) - 1)

    def barrier(self) -> None:
        """Waits for all threads of the block."""
        self.inner.call(self.function.module.declare("llvm.nvvm.barrier0", VOID, []), [])

    def shuffle(self, value: Value, by: int, mode: str = "down") -> Value:
        """The value that the thread `by` lanes further up in the warp has (or that of lane `by`, or lane xor `by`)."""
        b = self.inner
        if isinstance(value, Pair):
            return Pair(self.shuffle(value.re, by, mode), self.shuffle(value.im, by, mode))
        text = value.text
        if text == "double" or text == "i64":
            bits = b.bitcast(value, I64)
            low = self.shuffle(b.trunc(bits, I32), by, mode)
            high = self.shuffle(b.trunc(b.lshr(bits, constant(I64, 32)), I32), by, mode)
            both = b.or_(b.zext(low, I64), b.shl(b.zext(high, I64), constant(I64, 32)))
            return b.bitcast(both, value.type)
        if text in ("i1", "i8", "i16"):
            moved = self.shuffle(b.zext(value, I32), by, mode)
            return b.trunc(moved, value.type)
        type_, name = (F32, "f32") if text == "float" else (I32, "i32")
        callee = self.function.module.declare(f"llvm.nvvm.shfl.sync.{mode}.{name}", type_, [I32, type_, I32, I32])
        arguments = [constant(I32, _ALL_LANES), value, constant(I32, by), constant(I32, _EXECUTIONS[mode])]
        return b.call(callee, arguments)

    def ballot(self, condition: Value) -> Value:
        """Bit k of the result: whether the condition holds in lane k of the warp."""
        callee = self.function.module.declare("llvm.nvvm.vote.ballot.sync", I32, [I32, I1])
        return self.inner.call(callee, [constant(I32, _ALL_LANES), condition])

    def first_set(self, mask: Value) -> Value:
        """The number of the lowest bit that is set; some is."""
        callee = self.function.module.declare("llvm.cttz.i32", I32, [I32, I1])
        return self.inner.call(callee, [mask, constant(I1, False)])

    def atomic(self, operation: str, address: Value, value: Value) -> None:
        """An atomic operation on an integer of the device's memory, such as add and umin."""
        self.inner.emit(
            value.type,
            value.text,
            f'atomicrmw {operation} ptr {address.ref}, {value.text} {value.ref} syncscope("device") monotonic',
        )

    # ---- control flow

    @contextmanager
    def when(self, condition: Value | None) -> Iterator[None]:
        """Within, code runs only where the condition holds; what is emitted there is not known after it."""
        if condition is None:
            yield
            return
        then, after = self.function.block("then"), self.function.block("after")
        outer = self.inner
        self.push(Builder(self.function, then, len(self.builders)))
        try:
            yield
        finally:
            self.inner.branch(after)
            self.pop()
            outer.cbranch(condition, then, after)
            outer.position_at_end(after)
