"""Elemental emission: the value of any instruction at any index, shared by all targets.

An `Emitter` walks from an instruction to its leaves and emits exactly what one element (or one vector of neighbouring
elements) needs. Every value remembers the loop that it depends on and is emitted there, so what does not change in an
inner loop is computed outside it; every value is emitted once per index, however many users it has.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir.module import Instruction
from ...ir.opcode import Trait, is_elementwise, opcodes_with
from ..errors import CompileError
from ..indexing.indexing_map import AffineExpr, Index, Space
from ..indexing.movement import Condition, concatenate_offsets, operand_indices, pad_conditions, update_conditions
from ..llvm.ir_text import Function
from ..llvm.ir_types import I32, Value, vector
from .conversion import convert
from .elementwise import ELEMENTWISE
from .memory_emitter import MemoryEmitter
from .scope import UNGUARDED
from .types import dtype_constant

__all__ = ["Emitter"]

_REINDEXES = opcodes_with(Trait.REINDEXES)


class Emitter(MemoryEmitter):
    """Emits values into a function, at the loop level where they belong.

    `pointers` says where parameters are in memory.
    """

    def __init__(self, function: Function, space: Space, lanes: int) -> None:
        super().__init__(function, space, lanes)
        self.pointers: dict[Instruction, Value] = {}
        # Instructions that were computed by other means (the results of reductions), with the element they are.
        self.results: dict[Instruction, tuple[AffineExpr, Value]] = {}
        # Parameters that are known to be constants.
        self.constants: dict[Instruction, Instruction] = {}

    def value(self, i: Instruction, index: Index) -> Value:
        """The value of `i` at `index`: a vector if it differs between lanes, else a scalar."""
        known = self._known(i, index)
        if known is not None:
            return known
        # Operands first, with a stack of our own: a chain of operations may be longer than Python's.
        stack = [(i, index, self._dependencies(i, index))]
        while stack:
            node, at, needs = stack[-1]
            missing = [(o, where) for o, where in needs if self._known(o, where) is None]
            if missing:
                stack.extend((o, where, self._dependencies(o, where)) for o, where in missing)
                continue
            stack.pop()
            if self._known(node, at) is None:
                module = self.function.module
                note = module.annotate(node.name)
                self._remember(node, at, self._emit(node, at))
                module.note = note
        result = self._known(i, index)
        assert result is not None
        return result

    def _dependencies(self, i: Instruction, index: Index) -> list[tuple[Instruction, Index]]:
        """What is read unconditionally to compute the value."""
        if i in self.pointers or i in self.results or i in self.constants:
            return []
        if is_elementwise(i.opcode):
            return [(o, index) for o in i.operands]
        if i.opcode in _REINDEXES:
            return [(i.operands[0], operand_indices(self.space, i, index)[0])]
        return []

    def _known(self, i: Instruction, index: Index) -> Value | None:
        mask, condition, predicate = guards = self.guards()
        known = self._find((i, index, guards))
        if known is None and guards != UNGUARDED:
            # What was computed without guards is good with them; and a scalar does not ask which lanes exist.
            known = self._find((i, index, UNGUARDED))
            if known is None and mask is not None:
                known = self._find((i, index, (None, condition, predicate)))
        return known

    def _remember(self, i: Instruction, index: Index, value: Value) -> None:
        guards = self.guards() if value.lanes > 1 else (None, *self.scalar_guards())
        self._keep((i, index, guards), value)

    def _emit(self, i: Instruction, index: Index) -> Value:
        opcode = i.opcode
        pointer = self.pointers.get(i)
        if pointer is not None:
            return self.load(pointer, i.dtype, Space.linearize(index, i.dims))
        if i in self.results:
            lin, value = self.results[i]
            if Space.linearize(index, i.dims) != lin:
                raise CompileError(opcode, "its result is needed for another element than the current one")
            return value
        if i in self.constants:
            return self.value(self.constants[i], index)
        if is_elementwise(opcode):
            operands = [self.value(o, index) for o in i.operands]
            lanes = max(v.lanes for v in operands)
            if lanes > 1:
                operands = [self.splat(v, lanes) for v in operands]
            return ELEMENTWISE[opcode](self.at(*operands), i, operands)
        if opcode == "constant":
            return self._constant(i, index)
        if opcode == "iota":
            return self._iota(i, index)
        if opcode == "concatenate":
            return self._concatenate(i, index)
        if opcode == "pad":
            return self._pad(i, index)
        if opcode == "dynamic-update-slice":
            conditions, at = update_conditions(self.space, i, index)
            return self._choose(conditions, (i.operands[1], at), (i.operands[0], index))
        return self.value(i.operands[0], operand_indices(self.space, i, index)[0])

    def _constant(self, i: Instruction, index: Index) -> Value:
        literal = i.literal
        assert literal is not None
        flat = np.ascontiguousarray(literal).reshape(-1)
        raw = flat.tobytes()
        if flat.size == 1 or raw == raw[: flat.itemsize] * flat.size:
            return dtype_constant(i.dtype, flat[0])
        lin = Space.linearize(index, i.dims)
        if not lin.terms:
            return dtype_constant(i.dtype, flat[lin.const])
        return self.load(self.literal(raw), i.dtype, lin)

    def literal(self, raw: bytes) -> Value:
        """Constant bytes in memory."""
        return self.function.module.data(raw)

    def _iota(self, i: Instruction, index: Index) -> Value:
        lin = index[i.attrs["iota_dimension"]]
        x = self.lanes_of(lin) if self.varies(lin) else self.scalar(lin)
        wide = "s32" if x.type in (I32, vector(I32, x.lanes)) else "s64"
        return convert(self.at(x), x, wide, i.dtype)

    def _choose(
        self, conditions: Sequence[Condition], inside: tuple[Instruction, Index], outside: tuple[Instruction, Index]
    ) -> Value:
        """`inside` where the conditions hold, else `outside`; only then is `inside` read."""
        condition = False if 0 in inside[0].dims else self.condition(conditions)
        if condition is False:
            return self.value(*outside)
        if condition is True:
            return self.value(*inside)
        with self._guarded(condition):
            a = self.value(*inside)
        return self._select(condition, a, self.value(*outside))

    def _select(self, conditions: Sequence[Value], a: Value, b: Value) -> Value:
        lanes = max(c.lanes for c in conditions)
        condition = self.splat(conditions[0], lanes)
        for c in conditions[1:]:
            other = self.splat(c, lanes)
            condition = self.at(condition, other).and_(condition, other)
        lanes = max(condition.lanes, a.lanes, b.lanes)
        if condition.lanes > 1 or lanes > 1:
            a, b = self.splat(a, lanes), self.splat(b, lanes)
            if condition.lanes > 1:
                condition = self.splat(condition, lanes)
        return self.at(condition, a, b).select(condition, a, b)

    def _concatenate(self, i: Instruction, index: Index) -> Value:
        axis = i.attrs["dimensions"][0]
        low, high = self.space.range(index[axis])
        result: Value | None = None
        for o, offset in reversed(list(zip(i.operands, concatenate_offsets(i), strict=True))):
            end = offset + o.dims[axis]
            if 0 in o.dims or low >= end or high < offset:
                continue
            at = (*index[:axis], index[axis] - offset, *index[axis + 1 :])
            condition = self.condition([Condition(index[axis], offset, end)])
            if condition is True:
                return self.value(o, at)
            assert not isinstance(condition, bool)  # an operand that can't be reached was left out above
            with self._guarded(condition):
                value = self.value(o, at)
            result = value if result is None else self._select(condition, value, result)
        if result is None:
            raise CompileError("concatenate", "all operands are empty")
        return result

    def _pad(self, i: Instruction, index: Index) -> Value:
        conditions, shifted, steps = pad_conditions(i, index)
        if not conditions:
            return self.value(i.operands[0], tuple(shifted))
        with self.space.conditional():
            at = tuple(self.space.div(x, s) for x, s in zip(shifted, steps, strict=True))
        return self._choose(conditions, (i.operands[0], at), (i.operands[1], ()))
