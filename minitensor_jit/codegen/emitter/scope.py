"""The state of emission: loop levels with what was computed in each, the vector variable, and the guards of memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from ..indexing.indexing_map import AffineExpr, Atom, Space
from ..llvm.ir_text import Builder, Function
from ..llvm.ir_types import Value

__all__ = ["UNGUARDED", "Guards", "Scope"]

# The lanes' mask, the lanes' condition and the predicate under which a value was computed, by their names.
Guards: TypeAlias = tuple[str | None, str | None, str | None]
UNGUARDED: Guards = (None, None, None)


class Scope:
    """Loop levels and guards.

    `builders[k]` appends to the block of loop level `k`, and `caches[k]` holds what was emitted there. `vector_var` is
    the variable whose neighbouring values are the lanes of vectors; without one everything is scalar.
    """

    def __init__(self, function: Function, space: Space, lanes: int) -> None:
        self.function = function
        self.space = space
        self.vector_lanes = lanes
        self.vector_var: Atom | None = None
        self.builders = [Builder(function, function.block("entry"), 0)]
        self.caches: list[dict[object, Value]] = [{}]
        self.variables: dict[Atom, Value] = {}
        self.lane_mask: Value | None = None  # lanes that exist and whose condition holds; None for all
        self.lane_condition: Value | None = None  # of these, those whose condition holds, whether they exist or not
        self.predicate: Value | None = None  # a scalar condition that guards loads; None for none
        self._varying: dict[AffineExpr, bool] = {}

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
    def vectorized(self, var: AffineExpr | None) -> Iterator[None]:
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

    def set_variable(self, var: AffineExpr, value: Value) -> None:
        """Declares the current value of a loop variable."""
        if var.terms:
            self.variables[var.terms[0][0]] = value

    def splat(self, value: Value, lanes: int) -> Value:
        """A scalar in all lanes."""
        if value.lanes == lanes:
            return value
        key = ("splat", value.ref, value.text)
        known = self._find(key)
        return known if known is not None else self._keep(key, self.at(value).splat(value, lanes))

    def guards(self) -> Guards:
        """The guards in force, as part of the key of a value."""
        return (_ref(self.lane_mask), *self.scalar_guards())

    def scalar_guards(self) -> tuple[str | None, str | None]:
        """The guards of what is the same in all lanes; whether a lane exists is none of them."""
        return _ref(self.lane_condition), _ref(self.predicate)


def _ref(value: Value | None) -> str | None:
    return None if value is None else value.ref
