"""Fuses elementwise operations, data movement and reductions, so that intermediates stay in registers."""

from __future__ import annotations

from typing import Final

from ..ir.decision import Decision
from ..ir.module import Computation, Instruction, Module
from .fusion_group import Group, is_loop, is_trivial
from .outline import Outline, outline

__all__ = ["Fusion"]


class Fusion:
    """Makes `fusion` instructions of what can be computed in one loop.

    Contract: afterwards every elementwise operation, movement, gather and reduce of the entry is inside a fusion,
    except a reshape of a buffer that no fusion reads: it only renames the buffer. dot, scatter, sort and existing
    fusions stay as they are.

    - kLoop: every output has the same dimensions; an element of the output is computed from elements of the operands.
    - kInput: every output is a reduce of inputs of the same dimensions over the same dimensions, with all that is fused
      into the inputs. A reduction's result is never fused into what reads it (see `RowFusion` for that).

    First every producer goes into all of its consumers, users before operands; it is duplicated if computing it again
    costs less than the memory traffic, and never if it is expensive. Then groups that read the same memory, or of which
    one reads the other's output, are merged into fusions with several outputs. Refusals are in `decisions` as
    (producer, consumer, decision).
    """

    name = "fusion"

    def __init__(self) -> None:
        self.decisions: list[tuple[str, str, Decision]] = []

    def run(self, module: Module) -> bool:
        """Fuse in the entry computation."""
        computation = module.entry
        groups = self._fuse_producers(computation)
        if not groups:
            return False
        groups = self._merge(computation, groups)
        order = {i: n for n, i in enumerate(computation.instructions)}
        outlines = []
        for group in groups:
            members = sorted(group.members, key=order.__getitem__)
            outlines.append(Outline(members, sorted(group.roots, key=order.__getitem__), group.kind))
        outline(computation, outlines)
        module.collect()
        return True

    # ---- producers into consumers

    def _fuse_producers(self, computation: Computation) -> list[Group]:
        users = computation.users()
        of: dict[Instruction, list[Group]] = {}
        groups: list[Group] = []
        for p in reversed(computation.instructions):
            if p.opcode == "reduce":
                group = Group(p, "kInput")
            elif is_loop(p):
                if p is not computation.root and not users[p]:
                    continue
                targets: dict[Group, None] = {}
                external = p is computation.root
                for user in users[p]:
                    known = of.get(user)
                    if known is None:
                        external = True
                    else:
                        targets.update(dict.fromkeys(known))
                if self._into_all(p, list(targets), external, users[p]):
                    of[p] = list(targets)
                    if not external or p.opcode in ("reshape", "constant"):
                        continue  # a reshape or constant also stands for itself where others read it
                elif p.opcode in ("reshape", "constant") and external:
                    continue
                group = Group(p, "kLoop")
            else:
                continue
            groups.append(group)
            of.setdefault(p, []).append(group)
        groups.reverse()
        return groups

    def _into_all(self, p: Instruction, targets: list[Group], external: bool, users: list[Instruction]) -> bool:
        """Fuse p into every group that reads it, or into none."""
        if not targets:
            return False
        if external and not is_trivial(p):
            self._refuse(p, targets[0], Decision.refuse("its value is needed in memory anyway"))
            return False
        if p.opcode == "constant" and p.array_shape.size != 1:
            return False
        decision = targets[0].duplication(p, targets)
        if not decision:
            self._refuse(p, targets[0], decision)
            return False
        for group in targets:
            decision = group.accepts(p, users)
            if not decision:
                self._refuse(p, group, decision)
                return False
        for group in targets:
            group.add(p, users)
        return True

    def _refuse(self, p: Instruction, group: Group, decision: Decision) -> None:
        self.decisions.append((p.name, group.roots[0].name, decision))

    # ---- several outputs

    def _merge(self, computation: Computation, groups: list[Group]) -> list[Group]:
        graph = _Graph(computation, groups)
        merged = True
        while merged:
            merged = False
            for n, a in enumerate(groups):
                for b in groups[n + 1 :]:
                    if a.kind != b.kind or a.dims != b.dims or a.reduced != b.reduced:
                        continue
                    decision = self._may_merge(a, b, graph)
                    if not decision:
                        self.decisions.append((a.roots[0].name, b.roots[0].name, decision))
                        continue
                    a.merge(b)
                    groups.remove(b)
                    graph = _Graph(computation, groups)
                    merged = True
                    break
                if merged:
                    break
        for group in groups:
            group.roots = [r for r in group.roots if graph.leaves(r, group)]
        return groups

    @staticmethod
    def _may_merge(a: Group, b: Group, graph: _Graph) -> Decision:
        decision = a.shares(b)
        return decision and Decision.when(not graph.waits(a, b), "they would wait for each other")


class _Graph:
    """Groups and ungrouped instructions as nodes; who reads whom."""

    def __init__(self, computation: Computation, groups: list[Group]) -> None:
        self.root = computation.root
        self.users: dict[Instruction, list[object]] = {}
        producer: dict[Instruction, object] = {}
        grouped: set[Instruction] = set()
        for group in groups:
            grouped.update(group.members)
            for root in group.roots:
                producer[root] = group
        self.after: dict[object, set[object]] = {}
        nodes: list[tuple[object, set[Instruction]]] = [(g, g.operands()) for g in groups]
        nodes += [(i, set(i.operands)) for i in computation.instructions if i not in grouped or _stands_alone(i)]
        for node, operands in nodes:
            for operand in operands:
                self.users.setdefault(operand, []).append(node)
                source = producer.get(operand, operand)
                if source is not node:
                    self.after.setdefault(source, set()).add(node)

    def leaves(self, root: Instruction, group: Group) -> bool:
        """Whether a value is read outside its group."""
        return root is self.root or any(user is not group for user in self.users.get(root, ()))

    def waits(self, a: Group, b: Group) -> bool:
        """Whether a path leads from one to the other through a third node."""
        return self._path(a, b) or self._path(b, a)

    def _path(self, start: object, end: object) -> bool:
        stack = [n for n in self.after.get(start, ()) if n is not end]
        seen = set(stack)
        while stack:
            for node in self.after.get(stack.pop(), ()):
                if node is end:
                    return True
                if node not in seen:
                    seen.add(node)
                    stack.append(node)
        return False


# Instructions that may be inside a fusion and outside it as well.
_ALONE: Final = frozenset({"reshape", "constant"})


def _stands_alone(i: Instruction) -> bool:
    return i.opcode in _ALONE
