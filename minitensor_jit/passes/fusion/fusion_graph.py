"""Fusions in the making and the instructions around them as one graph, kept current while fusions are merged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from ...ir.module import Computation, Instruction
from .fusion_decision import Group

__all__ = ["FusionGraph"]

Node: TypeAlias = Group | Instruction


class FusionGraph:
    """Who reads whom. `alone` are instructions that stand outside of fusions although some fusion has a copy."""

    def __init__(self, computation: Computation, groups: list[Group], alone: set[Instruction]) -> None:
        self.root = computation.root
        self.users: dict[Instruction, dict[Node, None]] = {}
        self._producer: dict[Instruction, Group] = {root: group for group in groups for root in group.roots}
        self._after: dict[Node, set[Node]] = {}
        self._before: dict[Node, set[Node]] = {}
        grouped = {member for group in groups for member in group.members}
        for group in groups:
            self.read(group, group.reads)
        for i in computation.instructions:
            if i not in grouped or i in alone:
                self.read(i, i.operands)

    def read(self, node: Node, values: Iterable[Instruction]) -> None:
        """Enter what a node reads."""
        for value in values:
            self.users.setdefault(value, {})[node] = None
            source: Node = self._producer.get(value, value)
            if source is not node:
                self._after.setdefault(source, set()).add(node)
                self._before.setdefault(node, set()).add(source)

    def leaves(self, root: Instruction, group: Group) -> bool:
        """Whether a value is read outside its group."""
        return root is self.root or any(user is not group for user in self.users.get(root, ()))

    def neighbours(self, group: Group) -> list[Group]:
        """The groups of the same loops that read what this one reads, or one of which reads the other's output."""
        found: dict[Group, None] = {}
        for value in group.reads:
            if value in self._producer:
                found[self._producer[value]] = None
            if value.array_shape.size > 1 or group.size == 1:  # every loop may read the same scalar
                found.update((user, None) for user in self.users[value] if isinstance(user, Group))
        for root in group.roots:
            found.update((user, None) for user in self.users.get(root, ()) if isinstance(user, Group))
        return [g for g in found if g is not group and g.loops == group.loops]

    def waits(self, a: Group, b: Group) -> bool:
        """Whether a path leads from one to the other through a third node."""
        return self._path(a, b) or self._path(b, a)

    def _path(self, start: Node, end: Node) -> bool:
        stack = [n for n in self._after.get(start, ()) if n is not end]
        seen = set(stack)
        while stack:
            for node in self._after.get(stack.pop(), ()):
                if node is end:
                    return True
                if node not in seen:
                    seen.add(node)
                    stack.append(node)
        return False

    def leads(self, start: Node, end: Node) -> bool:
        """Whether `end` waits for `start`."""
        return end in self._after.get(start, ()) or self._path(start, end)

    def output(self, again: Instruction, group: Group) -> None:
        """Let a group have one more output."""
        self._producer[again] = group

    def move(self, value: Instruction, again: Instruction, reader: Instruction) -> None:
        """Note that an instruction reads `again` where it read `value`."""
        del self.users[value][reader]
        self.read(reader, (again,))
        source: Node = self._producer.get(value, value)
        if all(self._producer.get(o, o) is not source for o in reader.operands):
            self._after[source].discard(reader)
            self._before[reader].discard(source)

    def merge(self, a: Group, b: Group) -> None:
        """Take everything of `b` into `a`; `b` is no node any more."""
        for root in b.roots:
            self._producer[root] = a
        for value in (*a.reads, *b.reads):
            users = self.users[value]
            users.pop(a, None)
            users.pop(b, None)
        a.merge(b)
        for value in a.reads:
            self.users[value][a] = None
        for forward, backward in ((self._after, self._before), (self._before, self._after)):
            others = forward.pop(b, set())
            for node in others:
                backward[node].discard(b)
                if node is not a:
                    backward[node].add(a)
            mine = forward.setdefault(a, set())
            mine |= others
            mine -= {a, b}
