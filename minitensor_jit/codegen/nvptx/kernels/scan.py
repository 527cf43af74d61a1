"""Scans: `kernel-call`s of cumsum, cumprod, cummax and cummin, one element after the other as the eager kernels go.

Sums of floating-point numbers are in a wider type, and their order is part of what they are, so a thread has a lane
from its beginning to its end. Lanes that lie side by side are read as they are; those that lie one after the other come
through shared memory, a tile of some lanes' next elements at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....ir.builder import Builder
from ....ir.module import Computation, Instruction
from ....ir.semantics.combiners import highest, lowest
from ....ir.semantics.kernel_call import KernelCall
from ....ir.shape import DTYPES, Shape
from ...emitter.loops import counted_loop
from ...emitter.scalar_computation import apply_scalar
from ...emitter.types import MEMORY, dtype_constant
from ...indexing.indexing_map import Space
from ...kernel_spec import KernelSpec
from ...llvm.ir_types import Value
from ..unit import GpuUnit, Kernel
from .loop_kernel import largest_index, threads_for

__all__ = ["Scan", "scans"]

_SUMS = ("cumsum", "cumprod")
_EXTREMES = ("cummax", "cummin")
# Elements that are on their way to a thread at a time.
_AHEAD = 8
# A warp's tile: so many elements for each thread.
_WARP = 32
_EACH = 32


def scans(call: Instruction) -> bool:
    """Whether there is a kernel for the call."""
    found = KernelCall.of(call)
    if found.op not in (*_SUMS, *_EXTREMES) or not call.operands[0].dims:
        return False
    dtype = call.operands[0].dtype
    if found.op in _EXTREMES:
        return dtype != "pred" and DTYPES[dtype].kind != "c" and dtype not in ("f16", "bf16")
    same = call.array_shape.dtype == dtype and found.params[1] is None
    return same and dtype in ("f16", "bf16", "f32", "f64", "s64")


def _sum_step(op: str, dtype: str) -> tuple[Computation, list[tuple[str, float | int]]]:
    """(total, element) -> (total, result), and the first total."""
    wide = {"f16": "f32", "bf16": "f32", "f32": "f64"}.get(dtype, dtype)
    c = Builder(op)
    total, x = c.parameter(Shape(wide)), c.parameter(Shape(dtype))
    x = x if dtype == wide else c.convert(x, wide)
    made = c.add(total, x) if op == "cumsum" else c.multiply(total, x)
    result = made if dtype == wide else c.convert(made, dtype)
    return c.build_computation(c.tuple(made, result)), [(wide, 0 if op == "cumsum" else 1)]


def _extreme_step(op: str, dtype: str) -> tuple[Computation, list[tuple[str, float | int]]]:
    """(best, place, element, its place) -> (best, place, best, place), and what is there before: the last stays."""
    c = Builder(op)
    best, place, x, at = (c.parameter(Shape(t)) for t in (dtype, "s64") * 2)
    take = c.compare(x, best, "LE" if op == "cummin" else "GE")
    if DTYPES[dtype].kind == "f":
        # Nothing compares with NaN, which stays until the next one.
        take = c.or_(take, c.compare(x, x, "NE"))
    made, where = c.select(take, x, best), c.select(take, at, place)
    worst = highest(dtype) if op == "cummin" else lowest(dtype)
    return c.build_computation(c.tuple(made, where, made, where)), [(dtype, worst), ("s64", 0)]


class Scan:
    """The kernel of a scan."""

    in_place: set[tuple[int, int]] = set()  # noqa: RUF012 - never changed

    def __init__(self, unit: GpuUnit, spec: KernelSpec, call: Instruction) -> None:
        found = KernelCall.of(call)
        x = call.operands[0]
        dim = found.params[0]
        assert isinstance(dim, int)
        axis = dim % len(x.dims)
        self.unit, self.spec, self.call = unit, spec, call
        self.dtype = x.dtype
        self.length = x.dims[axis]
        self.inner = prod(x.dims[axis + 1 :])
        self.lanes = prod(x.dims[:axis]) * self.inner
        self.places = found.op in _EXTREMES
        self.step, self.starts = (_extreme_step if self.places else _sum_step)(found.op, x.dtype)
        self.dtypes = [x.dtype, "s64"] if self.places else [x.dtype]
        self.results = {(r.attrs["index"] if r.opcode == "get-tuple-element" else 0): n for r, n in spec.roots}

    def emit(self) -> None:
        """Emits and launches it."""
        if not self.lanes or not self.length:
            return
        if self.inner > 1:
            self._emit_columns()
        else:
            self._emit_rows()

    def _begin(self, threads: int) -> None:
        x = self.call.operands[0]
        self.kernel = Kernel(self.unit, self.spec, Space(), threads, 2 * largest_index([x]) + threads * _EACH)
        self.e = self.kernel.e
        self.source = self.kernel.argument(self.unit.symbol(self.spec, x))
        self.targets = {k: self.kernel.result(n) for k, n in self.results.items()}

    def _launch(self, blocks: int) -> None:
        nbytes = self.call.operands[0].array_shape.nbytes
        nbytes += sum(self.lanes * self.length * DTYPES[self.dtypes[k]].itemsize for k in self.results)
        self.kernel.launch(blocks, "scan", nbytes, self.lanes * self.length)

    def _first(self) -> list[Value]:
        return [dtype_constant(dtype, value) for dtype, value in self.starts]

    def _take(self, state: Sequence[Value], x: Value, at: Value) -> tuple[list[Value], list[Value]]:
        """The state after an element, and the results at its place."""
        b = self.e.inner
        more = [b.sext(at, MEMORY["s64"]) if at.text != "i64" else at] if self.places else []
        made = apply_scalar(self.e, self.step, [*state, x, *more])
        return made[: len(self.starts)], made[len(self.starts) :]

    # ---- lanes side by side

    def _emit_columns(self) -> None:
        self._begin(threads_for(self.lanes))
        e = self.e
        blocks = -(-self.lanes // self.kernel.threads)
        at = self.kernel.thread()
        exact = blocks * self.kernel.threads == self.lanes
        with e.when(None if exact else e.inner.icmp_signed("<", at, e.index(self.lanes))):
            b = e.inner
            outer, within = b.udiv(at, e.index(self.inner)), b.urem(at, e.index(self.inner))
            corner = b.add(b.mul(outer, e.index(self.length * self.inner)), within)

            def some(first: Value, state: Sequence[Value], count: int) -> list[Value]:
                b = e.inner
                rows = [b.add(first, e.index(k)) for k in range(count)]
                places = [b.add(corner, b.mul(row, e.index(self.inner))) for row in rows]
                for row, place, x in zip(
                    rows, places, [e.load_at(self.source, self.dtype, place) for place in places], strict=True
                ):
                    state, made = self._take(state, x, row)
                    for k, target in self.targets.items():
                        e.store_at(target, self.dtypes[k], place, made[k])
                return list(state)

            whole = self.length // _AHEAD * _AHEAD
            state = self._first()
            if whole:
                state = counted_loop(e, e.index(0), e.index(whole), _AHEAD, lambda r, s: some(r, s, _AHEAD), state)
            if whole < self.length:
                some(e.index(whole), state, self.length - whole)
        self._launch(blocks)

    # ---- lanes one after the other

    def _emit_rows(self) -> None:
        """A warp has some lanes, and a tile of their next elements."""
        lanes = min(_WARP, 1 << (self.lanes - 1).bit_length())
        width = _WARP * _EACH // lanes
        self._begin(_WARP)
        e = self.e
        b = e.builders[0]
        blocks = -(-self.lanes // lanes)
        # Rows of a tile begin in different banks.
        size = lanes * (width + 1)
        given = e.shared("given", MEMORY[self.dtype], size)
        made_of = {k: e.shared(f"made{k}", MEMORY[self.dtypes[k]], size) for k in self.targets}
        thread = e.wide(e.register("tid.x"))
        first = b.mul(e.wide(e.register("ctaid.x")), e.index(lanes))
        mine = b.and_(thread, e.index(lanes - 1))
        row_of = b.mul(mine, e.index(width + 1))
        writes = None if lanes == _WARP else b.icmp_signed("<", thread, e.index(lanes))
        per_row = width // _WARP

        def place(k: int) -> tuple[int, int]:
            return k // per_row, k % per_row * _WARP

        def tile(at: Value, state: Sequence[Value]) -> list[Value]:
            b = e.inner
            seen = []
            for k in range(_EACH):
                row, column = place(k)
                # Beyond the end the last element is read, and not used.
                lane = b.intrinsic("llvm.smin", b.add(first, e.index(row)), e.index(self.lanes - 1))
                within = b.intrinsic("llvm.smin", b.add(at, b.add(thread, e.index(column))), e.index(self.length - 1))
                seen.append(e.load_at(self.source, self.dtype, b.add(b.mul(lane, e.index(self.length)), within)))
            for k, x in enumerate(seen):
                row, column = place(k)
                e.store_at(given, self.dtype, b.add(thread, e.index(row * (width + 1) + column)), x)
            e.barrier()

            def some(j: Value, state: Sequence[Value]) -> list[Value]:
                b = e.inner
                places = [b.add(row_of, b.add(j, e.index(n))) for n in range(_AHEAD)]
                made = []
                for n, x in enumerate([e.load_at(given, self.dtype, p) for p in places]):
                    state, results = self._take(state, x, b.add(at, b.add(j, e.index(n))))
                    made.append(results)
                with e.when(writes):
                    for p, results in zip(places, made, strict=True):
                        for k, held in made_of.items():
                            e.store_at(held, self.dtypes[k], p, results[k])
                return list(state)

            state = counted_loop(e, e.index(0), e.index(width), _AHEAD, some, state)
            e.barrier()
            for k in range(_EACH):
                row, column = place(k)
                b = e.inner
                lane, within = b.add(first, e.index(row)), b.add(at, b.add(thread, e.index(column)))
                inside = b.and_(
                    b.icmp_signed("<", lane, e.index(self.lanes)), b.icmp_signed("<", within, e.index(self.length))
                )
                with e.when(inside):
                    b = e.inner
                    at_tile = b.add(thread, e.index(row * (width + 1) + column))
                    to = b.add(b.mul(lane, e.index(self.length)), within)
                    for n, target in self.targets.items():
                        e.store_at(target, self.dtypes[n], to, e.load_at(made_of[n], self.dtypes[n], at_tile))
            e.barrier()
            return state

        counted_loop(e, e.index(0), e.index(self.length), width, tile, self._first())
        self._launch(blocks)
