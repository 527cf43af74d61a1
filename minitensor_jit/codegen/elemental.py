"""Elemental emission: the value of any instruction at any index, shared by all targets.

An `Emitter` walks from an instruction to its leaves and emits exactly what one element (or one vector of neighbouring
elements) needs. Every value remembers the loop that it depends on and is emitted there, so what does not change in an
inner loop is computed outside it; every value is emitted once per index, however many users it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..ir.module import Instruction
from ..ir.opcode import is_elementwise
from ..ir.shape import DTYPES
from .elementwise import ELEMENTWISE, convert
from .errors import CompileError
from .index import Atom, Div, Dyn, Index, Lin, Space, Var
from .indexing import (
    Condition,
    concatenate_offsets,
    operand_indices,
    pad_conditions,
    update_conditions,
)
from .llvm import I1, I8, I32, I64, PTR, VOID, Builder, Function, Type, Value, constant, integer, type_text, vector
from .types import MEMORY, dtype_constant

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Emitter"]

# The lanes' mask, the lanes' condition and the predicate under which a value was computed, by their names.
Guards: TypeAlias = tuple[str | None, str | None, str | None]
UNGUARDED: Guards = (None, None, None)

# Opcodes whose result at an index is that of their first operand at another one.
FORWARDING = frozenset({"broadcast", "reshape", "bitcast", "transpose", "slice", "reverse", "dynamic-slice", "gather"})


class Emitter:
    """Emits values into a function, at the loop level where they belong.

    `builders[k]` appends to the block of loop level `k`, and `caches[k]` holds what was emitted there. `vector_var`
    is the variable whose neighbouring values make up the lanes of a vector; without one everything is scalar.
    """

    def __init__(self, function: Function, space: Space, lanes: int) -> None:
        self.function = function
        self.space = space
        self.vector_lanes = lanes
        self.vector_var: Atom | None = None
        self.builders = [Builder(function, function.block("entry"), 0)]
        self.caches: list[dict[object, Value]] = [{}]
        self.pointers: dict[Instruction, Value] = {}
        # Instructions that were computed by other means (the results of reductions), with the element they are.
        self.results: dict[Instruction, tuple[Lin, Value]] = {}
        # Parameters that are known to be constants.
        self.constants: dict[Instruction, Instruction] = {}
        self.variables: dict[Atom, Value] = {}
        self.lane_mask: Value | None = None  # lanes that exist and whose condition holds; None for all
        self.lane_condition: Value | None = None  # of these, those whose condition holds, whether they exist or not
        self.predicate: Value | None = None  # a scalar condition that guards loads; None for none
        self._varying: dict[Lin, bool] = {}

    # ---- levels and state

    @property
    def inner(self) -> Builder:
        """The builder of the innermost loop."""
        return self.builders[-1]

    def at(self, *values: Value | None) -> Builder:
        """The builder of the outermost loop in which all of the values are known."""
        return self.builders[max([v.level for v in values if v is not None], default=0)]

    def push(self, block_builder: Builder) -> None:
        """Enters a loop body."""
        self.builders.append(block_builder)
        self.caches.append({})

    def pop(self) -> None:
        """Leaves a loop body; what was emitted there is out of scope."""
        self.builders.pop()
        self.caches.pop()

    def _find(self, key: object) -> Value | None:
        for cache in reversed(self.caches):
            known = cache.get(key)
            if known is not None:
                return known
        return None

    def _keep(self, key: object, value: Value) -> Value:
        self.caches[value.level][key] = value
        return value

    @contextmanager
    def vectorized(self, var: Lin | None) -> Iterator[None]:
        """Within, the values of `var` (a single variable) are the lanes of vectors."""
        outer = self.vector_var
        self.vector_var = var.terms[0][0] if var is not None and var.terms and self.vector_lanes > 1 else None
        self._varying = {}
        try:
            yield
        finally:
            self.vector_var = outer
            self._varying = {}

    @contextmanager
    def masked(self, mask: Value | None) -> Iterator[None]:
        """Within, only the lanes of `mask` may touch memory."""
        outer = self.lane_mask
        self.lane_mask = mask
        try:
            yield
        finally:
            self.lane_mask = outer

    @contextmanager
    def _guarded(self, conditions: Sequence[Value]) -> Iterator[None]:
        """Within, memory may be read only where the conditions hold, besides the guards already there."""
        before = self.lane_mask, self.lane_condition, self.predicate
        for c in conditions:
            if c.lanes > 1:
                self.lane_mask = self._both(self.lane_mask, c)
                self.lane_condition = self._both(self.lane_condition, c)
            else:
                self.predicate = self._both(self.predicate, c)
        try:
            with self.space.conditional():
                yield
        finally:
            self.lane_mask, self.lane_condition, self.predicate = before

    def _both(self, a: Value | None, b: Value) -> Value:
        return b if a is None else self.at(a, b).and_(a, b)

    def set_variable(self, var: Lin, value: Value) -> None:
        """Declares the current value of a loop variable."""
        if var.terms:
            self.variables[var.terms[0][0]] = value

    # ---- index arithmetic

    def varies(self, lin: Lin) -> bool:
        """Whether the form differs between the lanes of a vector."""
        if self.vector_var is None or not lin.terms:
            return False
        known = self._varying.get(lin)
        if known is None:
            known = self._varying[lin] = any(self._atom_varies(a) for a, _ in lin.terms)
        return known

    def _atom_varies(self, atom: Atom) -> bool:
        if isinstance(atom, Var):
            return atom is self.vector_var
        if isinstance(atom, Div):
            return self.varies(atom.lin)
        return self._dynamic(atom).lanes > 1

    def _dynamic(self, atom: Dyn) -> Value:
        """The position that a `Dyn` stands for, clamped, in the integer type it is stored in."""
        key = ("dyn", atom, self._guards())
        known = self._find(key)
        if known is not None:
            return known
        raw = self.value(atom.source, atom.index)
        b = self.at(raw)
        dtype = atom.source.dtype
        bits = 8 * DTYPES[dtype].itemsize
        if DTYPES[dtype].kind == "i":
            if atom.high < 2 ** (bits - 1) - 1:
                raw = b.intrinsic("llvm.smin", raw, constant(raw.type, atom.high))
            raw = b.intrinsic("llvm.smax", raw, constant(raw.type, 0))
        elif atom.high < 2**bits - 1:
            raw = b.intrinsic("llvm.umin", raw, constant(raw.type, atom.high))
        return self._keep(key, raw)

    def _guards(self) -> Guards:
        return (_ref(self.lane_mask), *self._scalar_guards())

    def _scalar_guards(self) -> tuple[str | None, str | None]:
        """The guards of what is the same in all lanes; whether a lane exists is none of them."""
        return _ref(self.lane_condition), _ref(self.predicate)

    def _atom(self, atom: Atom) -> Value:
        """The value of an atom that is the same in all lanes (or, for the vector variable, in lane 0)."""
        if isinstance(atom, Var):
            return self.variables[atom]
        if isinstance(atom, Div):
            lin = self.scalar(atom.lin)
            return self.at(lin).udiv(lin, constant(I64, atom.divisor))
        value = self._dynamic(atom)
        return self.at(value).zext(value, I64)

    def scalar(self, lin: Lin) -> Value:
        """The form as an i64; the vector variable stands for its value in lane 0."""
        if not lin.terms:
            return constant(I64, lin.const)
        key = ("lin", lin, self._scalar_guards())
        known = self._find(key)
        if known is not None:
            return known
        # Outer loops first, so that their part of the sum is computed outside.
        total: Value | None = None
        for value, factor in sorted(((self._atom(a), c) for a, c in lin.terms), key=lambda t: t[0].level):
            term = value if factor == 1 else self.at(value).mul(value, constant(I64, factor))
            total = term if total is None else self.at(total, term).add(total, term)
        assert total is not None
        if lin.const:
            total = self.at(total).add(total, constant(I64, lin.const))
        return self._keep(key, total)

    def lanes_of(self, lin: Lin) -> Value:
        """The form in every lane, as a vector of i32 where its range allows, else of i64."""
        key = ("lanes", lin, self._guards())
        known = self._find(key)
        if known is not None:
            return known
        reach = abs(lin.const) + sum(abs(c) * max(abs(b) for b in self.space.atom_range(a)) for a, c in lin.terms)
        type_ = I32 if reach < 2**31 - self.vector_lanes else I64
        return self._keep(key, self._lanes_of(lin, type_))

    def _lanes_of(self, lin: Lin, type_: Type) -> Value:
        n = self.vector_lanes
        vector_type = vector(type_, n)
        uniform = Lin(
            lin.const, tuple((a, c) for a, c in lin.terms if a is self.vector_var or not self._atom_varies(a))
        )
        base = self.scalar(uniform)
        b = self.at(base)
        total = b.splat(b.trunc(base, I32) if type_ is I32 else base, n)
        for atom, c in lin.terms:
            if atom is self.vector_var:
                term = constant(vector_type, [c * k for k in range(n)])
            elif not self._atom_varies(atom):
                continue
            elif isinstance(atom, Div):
                term = self._times(self._quotients(atom, type_), c)
            else:
                term = self._dynamic(atom)  # type: ignore[arg-type]
                bits = term.type.element.width
                b = self.at(term)
                if bits != (32 if type_ is I32 else 64):
                    term = (
                        b.zext(term, vector_type)
                        if (bits < 64 and type_ is I64) or bits < 32
                        else b.trunc(term, vector_type)
                    )
                term = self._times(term, c)
            total = self.at(total, term).add(total, term)
        return total

    def _quotients(self, atom: Div, type_: Type) -> Value:
        vector_type = vector(type_, self.vector_lanes)
        wrap = self._wrap(atom)
        if wrap is None:
            numerator = self._lanes_of(atom.lin, type_)
            return self.at(numerator).udiv(numerator, constant(vector_type, atom.divisor))
        first, below = wrap
        b = self.at(first, below)
        quotient = b.splat(b.trunc(first, type_), self.vector_lanes)
        return b.add(quotient, b.zext(b.not_(below), vector_type))

    def _wrap(self, atom: Div) -> tuple[Value, Value] | None:
        """Of a quotient that changes at most once within a vector: its value in lane 0, and the lanes that have it."""
        n = self.vector_lanes
        simple = atom.divisor >= n and all(
            c == 1 if a is self.vector_var else not self._atom_varies(a) for a, c in atom.lin.terms
        )
        if not simple:
            return None
        first = self._atom(atom)
        key = ("wrap", atom, self._guards())
        below = self._find(key)
        if below is None:
            position = self.scalar(atom.lin)
            b = self.at(position, first)
            # So many more lanes until the next multiple of the divisor.
            left = b.sub(b.mul(b.add(first, constant(I64, 1)), constant(I64, atom.divisor)), position)
            left = b.trunc(b.intrinsic("llvm.smin", left, constant(I64, n)), I32)
            below = b.icmp_signed("<", constant(vector(I32, n), list(range(n))), b.splat(left, n))
            self._keep(key, below)
        return first, below

    def _times(self, value: Value, factor: int) -> Value:
        return value if factor == 1 else self.at(value).mul(value, constant(value.type, factor))

    def condition(self, conditions: Sequence[Condition]) -> list[Value] | bool:
        """Whether all conditions hold: a scalar, a lane mask, or one of each; a plain bool where the ranges decide."""
        parts: dict[bool, Value] = {}
        for c in conditions:
            low, high = self.space.range(c.lin)
            if high < c.low or low >= c.high:
                return False
            if c.low <= low and high < c.high and c.step == 1:
                continue
            varies = self.varies(c.lin)
            x = self.lanes_of(c.lin) if varies else self.scalar(c.lin)
            b = self.at(x)
            shifted = b.sub(x, constant(x.type, c.low)) if c.low else x
            holds = b.icmp_unsigned("<", shifted, constant(x.type, c.high - c.low))
            if c.step > 1:
                exact = b.icmp_unsigned("==", b.urem(shifted, constant(x.type, c.step)), constant(x.type, 0))
                holds = b.and_(holds, exact)
            known = parts.get(varies)
            parts[varies] = holds if known is None else self.at(known, holds).and_(known, holds)
        return list(parts.values()) or True

    # ---- values

    def splat(self, value: Value, lanes: int) -> Value:
        """A scalar in all lanes."""
        if value.lanes == lanes:
            return value
        key = ("splat", value.ref, value.text)
        known = self._find(key)
        return known if known is not None else self._keep(key, self.at(value).splat(value, lanes))

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
                self._remember(node, at, self._emit(node, at))
        result = self._known(i, index)
        assert result is not None
        return result

    def _dependencies(self, i: Instruction, index: Index) -> list[tuple[Instruction, Index]]:
        """What is read unconditionally to compute the value."""
        if i in self.pointers or i in self.results or i in self.constants:
            return []
        if is_elementwise(i.opcode):
            return [(o, index) for o in i.operands]
        if i.opcode in FORWARDING:
            return [(i.operands[0], operand_indices(self.space, i, index)[0])]
        return []

    def _known(self, i: Instruction, index: Index) -> Value | None:
        mask, condition, predicate = guards = self._guards()
        known = self._find((i, index, guards))
        if known is None and guards != UNGUARDED:
            # What was computed without guards is good with them; and a scalar does not ask which lanes exist.
            known = self._find((i, index, UNGUARDED))
            if known is None and mask is not None:
                known = self._find((i, index, (None, condition, predicate)))
        return known

    def _remember(self, i: Instruction, index: Index, value: Value) -> None:
        guards = self._guards() if value.lanes > 1 else (None, *self._scalar_guards())
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
        return self.load(self.function.module.data(raw), i.dtype, lin)

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

    # ---- memory

    def address(self, base: Value, dtype: str, lin: Lin) -> Value:
        """The address of element `lin` (in lane 0)."""
        element = MEMORY[dtype]
        pointer = base
        if lin.terms:
            key = ("address", base.ref, dtype, lin.terms, self._scalar_guards())
            known = self._find(key)
            if known is None:
                levels: dict[int, list[tuple[Atom, int]]] = {}
                for atom, c in lin.terms:
                    level = self.scalar(Lin(0, ((atom, 1),))).level
                    levels.setdefault(level, []).append((atom, c))
                for level in sorted(levels):
                    offset = self.scalar(Lin(0, tuple(levels[level])))
                    pointer = self.at(pointer, offset).gep(pointer, offset, element)
                known = self._keep(key, pointer)
            pointer = known
        return self.at(pointer).gep(pointer, lin.const, element)

    def load(self, base: Value, dtype: str, lin: Lin, *, mutable: bool = False) -> Value:
        """Element `lin` of an array, in all lanes; guarded as the state says.

        The load moves out of loops that it does not depend on, unless the memory is `mutable`: the kernel writes it.
        """
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

    def _load_lanes(self, base: Value, dtype: str, lin: Lin) -> Value:
        n, element, align = self.vector_lanes, MEMORY[dtype], DTYPES[dtype].itemsize
        type_ = vector(element, n)
        mask = self._load_mask()
        module = self.function.module
        direct = [c for a, c in lin.terms if a is self.vector_var]
        if direct == [1] and not any(self._atom_varies(a) for a, _ in lin.terms if a is not self.vector_var):
            address = self.address(base, dtype, lin)
            b = self.at(address, base, mask)
            if mask is None:
                return b.load(address, type_, align)
            name = f"llvm.masked.load.v{n}{_suffix(element)}.p0"
            callee = module.declare(name, type_, [PTR, vector(I1, n), type_])
            return b.call(callee, [_aligned(address, align), mask, constant(type_, None)])
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

    def _load_wrapped(self, base: Value, dtype: str, lin: Lin, mask: Value | None) -> Value | None:
        """A load whose lanes are in two pieces, as for a bias that is repeated row after row. None if it is not so."""
        n, element, align = self.vector_lanes, MEMORY[dtype], DTYPES[dtype].itemsize
        varying = [(a, c) for a, c in lin.terms if a is not self.vector_var and self._atom_varies(a)]
        stride = lin.coefficient(self.vector_var) if self.vector_var is not None else 0
        if len(varying) != 1 or stride not in (0, 1):
            return None
        atom, jump = varying[0]
        wrap = self._wrap(atom) if isinstance(atom, Div) else None
        if wrap is None:
            return None
        first, below = wrap
        start = self.scalar(Lin(lin.const, tuple((a, c) for a, c in lin.terms if a is not atom)))
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

    def store(self, base: Value, dtype: str, lin: Lin, value: Value, *, streaming: bool = False) -> None:
        """Writes element `lin` (contiguous lanes) in the innermost loop, under the lane mask."""
        b = self.inner
        align = DTYPES[dtype].itemsize
        vectors = self.varies(lin)
        if vectors:
            value = self.splat(value, self.vector_lanes)
        if dtype == "pred":
            value = self.at(value).zext(value, vector(I8, value.lanes))
        address = self.address(base, dtype, lin)
        if vectors and self.lane_mask is not None:
            name = f"llvm.masked.store.v{value.lanes}{_suffix(MEMORY[dtype])}.p0"
            callee = self.function.module.declare(name, VOID, [value.type, PTR, vector(I1, value.lanes)])
            b.call(callee, [value, _aligned(address, align), self.lane_mask])
        elif streaming and vectors:
            b.store(value, address, min(64, align * value.lanes), ", !nontemporal !0")
        else:
            b.store(value, address, align)


def _ref(value: Value | None) -> str | None:
    return None if value is None else value.ref


def _suffix(element: object) -> str:
    return {"float": "f32", "double": "f64"}.get(type_text(element), type_text(element))  # type: ignore[arg-type]


def _aligned(pointer: Value, align: int) -> Value:
    """The pointer with the alignment that masked operations read from their argument's attribute."""
    return Value(pointer.type, f"{pointer.text} align {align}", pointer.ref, pointer.level)
