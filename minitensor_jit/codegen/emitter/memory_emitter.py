"""Loads and stores of array elements: contiguous, masked, wrapped around, gathered or scalar."""

from __future__ import annotations

from typing import Protocol

from ...ir.shape import DTYPES
from ..indexing.indexing_map import AffineExpr, Atom, FloorDiv
from ..llvm.ir_text import Builder
from ..llvm.ir_types import I1, I8, I32, PTR, VOID, Pair, Type, Value, constant, integer, type_text, vector
from .index_emitter import IndexEmitter
from .staged_lanes import is_staged, load_staged, store_staged
from .types import MEMORY, PARTS

__all__ = ["MemoryEmitter"]


class Tile(Protocol):
    """Another way to load lanes that are `stride` elements apart, where the loops around allow one."""

    @property
    def mask(self) -> Value | None:
        """The lanes that exist. It is asked only if all of them are wanted."""

    def load(self, base: Value, dtype: str, lin: AffineExpr, stride: int) -> Value | None:
        """The lanes, as they lie in memory; None to load them one by one."""


class MemoryEmitter(IndexEmitter):
    """Emits addresses, loads and stores."""

    tile: Tile | None = None
    prefetch: int = 0  # contiguous loads announce what lies so many bytes ahead; 0 for not

    def address(self, base: Value, dtype: str, lin: AffineExpr) -> Value:
        """The address of element `lin` (in lane 0)."""
        element = MEMORY[dtype]
        pointer = base
        if lin.terms:
            key = ("address", base.ref, dtype, lin.terms, self.scalar_guards())
            known = self._find(key)
            if known is None:
                levels: dict[int, list[tuple[Atom, int]]] = {}
                for atom, c in lin.terms:
                    level = self.scalar(AffineExpr(0, ((atom, 1),))).level
                    levels.setdefault(level, []).append((atom, c))
                for level in sorted(levels):
                    offset = self.scalar(AffineExpr(0, tuple(levels[level])))
                    pointer = self.at(pointer, offset).gep(pointer, offset, element)
                known = self._keep(key, pointer)
            pointer = known
        return self.at(pointer).gep(pointer, lin.const, element)

    def element_address(self, base: Value, dtype: str, lin: AffineExpr, more: Value) -> Value:
        """The address of element `lin + more` (in lane 0)."""
        address = self.address(base, dtype, lin)
        return self.at(address, more).gep(address, more, MEMORY[dtype])

    def load(self, base: Value, dtype: str, lin: AffineExpr, *, mutable: bool = False) -> Value:
        """Element `lin` of an array, in all lanes; guarded as the state says.

        The load moves out of loops that it does not depend on, unless the memory is `mutable`: the kernel writes it.
        """
        if dtype in PARTS:
            return self._load_complex(base, PARTS[dtype], lin, mutable)
        if mutable:
            base = Value(base.type, base.text, base.ref, self.inner.level)
        if self.varies(lin):
            value = self._load_lanes(base, dtype, lin)
        else:
            address = self.address(base, dtype, lin)
            guard = self._scalar_guard()
            if guard is not None:
                address = self.at(address, guard, base).select(guard, address, base)
            value = self.at(address, base).load(address, MEMORY[dtype], DTYPES[dtype].itemsize)
        return self._from_memory(value, dtype)

    def _load_complex(self, base: Value, part: str, lin: AffineExpr, mutable: bool) -> Value:
        """Both parts, which lie next to each other."""
        if not self._is_contiguous(lin):
            tile, self.tile = self.tile, None  # made for whole elements
            try:
                return Pair(
                    self.load(base, part, lin * 2, mutable=mutable), self.load(base, part, lin * 2 + 1, mutable=mutable)
                )
            finally:
                self.tile = tile
        if mutable:
            base = Value(base.type, base.text, base.ref, self.inner.level)
        n, element, align = self.vector_lanes, MEMORY[part], DTYPES[part].itemsize
        type_, mask = vector(element, 2 * n), self._load_mask()
        address = self.address(base, part, lin * 2)
        b = self.at(address, base, mask)
        known = n if mask is None else _leading(mask)
        if mask is None or known == n:
            both = b.load(address, type_, align)
        elif known:
            # LLVM 22.1 ends the process at parts that are taken from a masked load whose mask it knows.
            first = b.load(address, vector(element, 2 * known), align)
            both = b.shuffle(first, constant(first.type, None), [min(k, 2 * known) for k in range(2 * n)])
        elif is_staged(b.module, mask, align):
            both = load_staged(b, address, type_, mask, 2 * align)
        else:
            name = f"llvm.masked.load.v{2 * n}{_suffix(element)}.p0"
            callee = self.function.module.declare(name, type_, [PTR, vector(I1, 2 * n), type_])
            address = self._near(address, base)
            b = self.at(address, mask)
            both = b.call(callee, [_aligned(address, align), _doubled(b, mask), constant(type_, None)])
        return Pair(b.shuffle(both, both, range(0, 2 * n, 2)), b.shuffle(both, both, range(1, 2 * n, 2)))

    def _is_contiguous(self, lin: AffineExpr) -> bool:
        """Whether the lanes are neighbours in memory."""
        direct = [c for a, c in lin.terms if a is self.vector_var]
        return direct == [1] and not any(self._atom_varies(a) for a, _ in lin.terms if a is not self.vector_var)

    def _scalar_guard(self) -> Value | None:
        """When a value that is the same in all lanes may be read: if any lane wants it."""
        condition = self.lane_condition
        if condition is None:
            return self.predicate
        key = ("any", condition.ref)
        wanted = self._find(key)
        if wanted is None:
            b = self.at(condition)
            bits = b.bitcast(condition, integer(condition.lanes))
            wanted = self._keep(key, b.icmp_unsigned("!=", bits, constant(bits.type, 0)))
        return self._both(self.predicate, wanted)

    def _near(self, address: Value, base: Value) -> Value:
        """The address of a masked load, or the array's own if no lane wants it.

        A load without lanes reads nothing wherever it points, but takes a hundred cycles where no memory is.
        """
        if self.lane_condition is None and self.predicate is None:
            return address
        guard = self._scalar_guard()
        assert guard is not None
        return self.at(address, guard, base).select(guard, address, base)

    def _from_memory(self, value: Value, dtype: str) -> Value:
        if dtype != "pred":
            return value
        return self.at(value).icmp_unsigned("!=", value, constant(value.type, 0))

    def _load_mask(self) -> Value | None:
        """The lanes that may be read, from both guards; None for all."""
        mask, predicate = self.lane_mask, self.predicate
        if predicate is None:
            return mask
        lanes = self.splat(predicate, self.vector_lanes)
        return lanes if mask is None else self.at(mask, lanes).and_(mask, lanes)

    def _load_lanes(self, base: Value, dtype: str, lin: AffineExpr) -> Value:
        n, element, align = self.vector_lanes, MEMORY[dtype], DTYPES[dtype].itemsize
        type_ = vector(element, n)
        mask = self._load_mask()
        module = self.function.module
        direct = [c for a, c in lin.terms if a is self.vector_var]
        others = any(self._atom_varies(a) for a, _ in lin.terms if a is not self.vector_var)
        if direct in ([1], [-1]) and not others:
            backwards = direct == [-1]
            order = range(n - 1, -1, -1)
            address = self.address(base, dtype, lin - (n - 1) if backwards else lin)
            b = self.at(address, base, mask)
            if mask is None:
                if self.prefetch:
                    self._prefetch(b, b.gep(address, -self.prefetch if backwards else self.prefetch, I8))
                value = b.load(address, type_, align)
            elif not backwards and is_staged(module, mask, align):
                value = load_staged(b, address, type_, mask, align)
            else:
                name = f"llvm.masked.load.v{n}{_suffix(element)}.p0"
                callee = module.declare(name, type_, [PTR, vector(I1, n), type_])
                address = self._near(address, base)
                b = self.at(address, mask)
                wanted = b.shuffle(mask, mask, order) if backwards else mask
                value = b.call(callee, [_aligned(address, align), wanted, constant(type_, None)])
            return b.shuffle(value, value, order) if backwards else value
        if self.tile is not None and mask is self.tile.mask and len(direct) == 1:
            across = None if others else self.tile.load(base, dtype, lin, direct[0])
            if across is not None:
                return across
        wrapped = self._load_wrapped(base, dtype, lin, mask)
        if wrapped is not None:
            return wrapped
        index = self.lanes_of(lin)
        b = self.at(index, base, mask)
        pointers = vector(PTR, n)
        where = b.emit(
            pointers,
            type_text(pointers),
            f"getelementptr {type_text(element)}, ptr {base.ref}, {index.text} {index.ref}",
        )
        name = f"llvm.masked.gather.v{n}{_suffix(element)}.v{n}p0"
        callee = module.declare(name, type_, [pointers, vector(I1, n), type_])
        active = mask if mask is not None else constant(vector(I1, n), True)
        passthru = constant(type_, None)
        return b.call(callee, [_aligned(where, align), active, passthru])

    def _prefetch(self, b: Builder, address: Value) -> None:
        """Into the second-level cache; the address may be beyond the array."""
        callee = self.function.module.declare("llvm.prefetch.p0", VOID, [PTR, I32, I32, I32])
        for_reading, near, data = constant(I32, 0), constant(I32, 2), constant(I32, 1)
        b.call(callee, [address, for_reading, near, data])

    def _load_wrapped(self, base: Value, dtype: str, lin: AffineExpr, mask: Value | None) -> Value | None:
        """A load whose lanes are in two pieces, as for a bias that is repeated row after row. None if it is not so."""
        n, element, align = self.vector_lanes, MEMORY[dtype], DTYPES[dtype].itemsize
        varying = [(a, c) for a, c in lin.terms if a is not self.vector_var and self._atom_varies(a)]
        stride = lin.coefficient(self.vector_var) if self.vector_var is not None else 0
        if len(varying) != 1 or stride not in (0, 1):
            return None
        atom, jump = varying[0]
        wrap = self._wrap(atom) if isinstance(atom, FloorDiv) else None
        if wrap is None:
            return None
        first, below = wrap
        start = self.scalar(AffineExpr(lin.const, tuple((a, c) for a, c in lin.terms if a is not atom)))
        offset = self._times(first, jump)
        b = self.at(start, offset, below, base, mask)
        low = b.gep(base, b.add(start, offset), element)
        high = b.gep(low, jump, element)
        above = b.not_(below)
        if mask is not None:
            below, above = b.and_(below, mask), b.and_(above, mask)
        type_ = vector(element, n)
        if stride == 1:
            name = f"llvm.masked.load.v{n}{_suffix(element)}.p0"
            callee = self.function.module.declare(name, type_, [PTR, vector(I1, n), type_])
            value = b.call(callee, [_aligned(low, align), below, constant(type_, None)])
            return b.call(callee, [_aligned(high, align), above, value])
        # One value up to the jump and another one beyond; what no lane needs is not read.
        pieces = []
        for address, lanes in ((low, below), (high, above)):
            bits = b.bitcast(lanes, integer(n))
            wanted = b.icmp_unsigned("!=", bits, constant(bits.type, 0))
            pieces.append(b.splat(b.load(b.select(wanted, address, base), element, align), n))
        return b.select(below, pieces[0], pieces[1])

    def store(
        self,
        base: Value,
        dtype: str,
        lin: AffineExpr,
        value: Value,
        *,
        streaming: bool = False,
        in_place: bool = False,
    ) -> None:
        """Writes element `lin` (contiguous lanes) in the innermost loop, under the lane mask.

        `in_place`: the value may be a choice between what lies there and something else. LLVM makes a masked store of
        that, which takes AMD's processors as long as a dozen of plain ones.
        """
        b = self.inner
        align = DTYPES[dtype].itemsize
        vectors = self.varies(lin)
        if vectors:
            value = self.splat(value, self.vector_lanes)
        exist = mask = self.lane_mask
        lane_bytes = align
        if isinstance(value, Pair):
            dtype, lin = PARTS[dtype], lin * 2
            if not vectors:
                self.store(base, dtype, lin, value.re)
                self.store(base, dtype, lin + 1, value.im)
                return
            order = [k + part * value.lanes for k in range(value.lanes) for part in (0, 1)]
            value = self.at(value).shuffle(value.re, value.im, order)
            mask = None if mask is None else _doubled(self.at(mask), mask)
        if dtype == "pred":
            value = self.at(value).zext(value, vector(I8, value.lanes))
        address = self.address(base, dtype, lin)
        lane = _only_lane(mask) if vectors and mask is not None else None
        if vectors and exist is not None and is_staged(b.module, exist, DTYPES[dtype].itemsize):
            store_staged(b, value, address, exist, lane_bytes)
        elif lane is not None:
            # LLVM 22.1 forgets, of a masked store of one lane, that its elements were truncated: it writes beyond them.
            scalar = b.extract_element(value, lane)
            b.store(scalar, b.gep(address, lane, MEMORY[dtype]), DTYPES[dtype].itemsize)
        elif vectors and mask is not None:
            name = f"llvm.masked.store.v{value.lanes}{_suffix(MEMORY[dtype])}.p0"
            callee = self.function.module.declare(name, VOID, [value.type, PTR, vector(I1, value.lanes)])
            b.call(callee, [value, _aligned(address, DTYPES[dtype].itemsize), mask])
        elif streaming and vectors:
            b.store(value, address, min(64, align * value.lanes), ", !nontemporal !0")
        else:
            if in_place and vectors:
                value = b.freeze(value)
            b.store(value, address, DTYPES[dtype].itemsize)


def _lanes_of(mask: Value) -> list[bool]:
    """The lanes that a mask has, if that is known now; empty if not."""
    return [bit.strip() == "i1 true" for bit in mask.ref.strip("<>").split(",")] if mask.ref.startswith("<") else []


def _only_lane(mask: Value) -> int | None:
    """The one lane that a mask has, if it is known now that there is only one."""
    lanes = _lanes_of(mask)
    return lanes.index(True) if lanes.count(True) == 1 else None


def _leading(mask: Value) -> int | None:
    """How many lanes a mask has, if it is known now that it has the first ones."""
    lanes = _lanes_of(mask)
    count = lanes.count(True)
    return count if count and all(lanes[:count]) else None


def _doubled(b: Builder, mask: Value) -> Value:
    """Each lane twice."""
    return b.shuffle(mask, mask, [k // 2 for k in range(2 * mask.lanes)])


def _suffix(element: Type) -> str:
    text = type_text(element)
    return {"float": "f32", "double": "f64"}.get(text, text)


def _aligned(pointer: Value, align: int) -> Value:
    """The pointer with the alignment that masked operations read from their argument's attribute."""
    return Value(pointer.type, f"{pointer.text} align {align}", pointer.ref, pointer.level)
