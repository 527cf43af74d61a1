"""Fuses elementwise operations, data movement and reductions, so that intermediates stay in registers."""

from __future__ import annotations

from ...ir.module import Computation, Instruction
from ...ir.refusal import Refused
from ...ir.shape import TupleShape
from ...ir.size import hint
from ..sequence_pass import SequencePass
from .fusion_decision import MIN_KEPT_BYTES, Group, is_expensive, is_loop, is_trivial
from .fusion_graph import FusionGraph
from .outline import Outline, outline

__all__ = ["Fusion"]


class Fusion(SequencePass):
    """Makes `fusion` instructions of what can be computed in one loop.

    Contract: afterwards every elementwise operation, movement, gather and reduce of the entry is inside a fusion,
    except a reshape of a buffer that no fusion reads: it only renames the buffer. dot, scatter, sort and existing
    fusions stay as they are.

    - kLoop: every output has the same dimensions; an element of the output is computed from elements of the operands.
    - kInput: every output is a reduce of inputs of the same dimensions over the same dimensions, with all that is fused
      into the inputs. A reduction's result is never fused into what reads it (see `RowFusion` for that).

    First every producer goes into all of its consumers, users before operands; it is duplicated if computing it again
    costs less than the memory traffic: if it is expensive, only for two consumers of a large array. Then groups that
    read the same memory, or of which one reads the other's output, are merged into fusions with several outputs. At
    last a large output that would be kept for readers of much later is given again by a loop that then runs anyway.
    """

    name = "fusion"

    def _run(self, computation: Computation) -> bool:
        groups, alone = self._fuse_producers(computation)
        if not groups:
            return False
        groups = self._merge(computation, groups, alone)
        order = {i: n for n, i in enumerate(computation.instructions)}
        outlines = []
        for group in groups:
            roots = sorted(group.roots, key=order.__getitem__)
            outlines.append(Outline(_in_order(roots, group.members), roots, group.kind))
        outline(computation, outlines)
        return True

    # ---- producers into consumers

    def _fuse_producers(self, computation: Computation) -> tuple[list[Group], set[Instruction]]:
        """The groups, in order, and the instructions that also stand outside of them."""
        alone: set[Instruction] = set()
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
                    if known is None or user in alone:
                        external = True
                    if known is not None:
                        targets.update(dict.fromkeys(known))
                if self._into_all(p, list(targets), external, users[p]):
                    of[p] = list(targets)
                    if not external:
                        continue
                if external and p.opcode in ("reshape", "constant"):
                    alone.add(p)  # it only names a buffer where others than fusions read it
                    continue
                group = Group(p, "kLoop")
            else:
                continue
            groups.append(group)
            of.setdefault(p, []).append(group)
        groups.reverse()
        return groups, alone

    def _into_all(self, p: Instruction, targets: list[Group], external: bool, users: list[Instruction]) -> bool:
        """Fuse p into every group that reads it, or into none."""
        if not targets:
            return False
        if external and not is_trivial(p):
            decision = Refused.NEEDED_IN_MEMORY.because("its value is needed in memory anyway", p.shape.nbytes)
            self.refuse(p, targets[0].roots[0], decision)
            return False
        if p.opcode == "constant" and p.array_shape.size != 1:
            return False
        decision = targets[0].duplication(p, targets)
        if not decision:
            self.refuse(p, targets[0].roots[0], decision)
            return False
        for group in targets:
            decision = group.accepts(p, users)
            if not decision:
                self.refuse(p, group.roots[0], decision)
                return False
        for group in targets:
            group.add(p, users)
            if len(targets) > 1 and is_expensive(p):
                group.recomputed = p
        return True

    # ---- several outputs

    def _merge(self, computation: Computation, groups: list[Group], alone: set[Instruction]) -> list[Group]:
        graph = FusionGraph(computation, groups, alone)
        order = {group: n for n, group in enumerate(groups)}
        for a in groups:
            while a in order:
                # Those before it have had their turn with it.
                later = sorted((b for b in graph.neighbours(a) if order[b] > order[a]), key=order.__getitem__)
                for b in later:
                    decision = a.shares(b)
                    if decision and graph.waits(a, b):
                        shared = sum(o.shape.nbytes for o in a.reads & b.reads)
                        decision = Refused.CYCLE.because("they would wait for each other", shared)
                    if decision:
                        graph.merge(a, b)
                        del order[b]
                        break
                    self.refuse(a.roots[0], b.roots[0], decision)
                else:
                    break
        kept = list(order)
        self._forget_joined(kept)
        for group in list(order):
            self._output_again(computation, graph, group, list(order))
        for group in kept:
            group.roots = [r for r in group.roots if graph.leaves(r, group)]
        return kept

    def _forget_joined(self, groups: list[Group]) -> None:
        """Leave out what was refused one way and done the other; of what was asked again keep the last answer."""
        home = {root: group for group in groups for root in group.roots}
        last = {(one.what, one.into): one for one in self.decisions}
        self.decisions = [
            one for one in last.values() if one.into not in home or home.get(one.what) is not home[one.into]
        ]

    # ---- outputs that are kept for long

    def _output_again(self, computation: Computation, graph: FusionGraph, group: Group, groups: list[Group]) -> None:
        """Give a loop's large output once more where another loop computes what it is made of anyway.

        That other loop waits for some of the output's readers, as a backward pass for the forward pass. The readers
        that wait for them too, and that it does not wait for, read the second output; so the first need not be kept.
        """
        if group.kind != "kLoop" or len(group.roots) != 1 or group.roots[0] is computation.root:
            return
        value = group.roots[0]
        if isinstance(value.shape, TupleShape) or hint(value.shape.nbytes) < MIN_KEPT_BYTES:
            return
        # A reshape only gives the output another name.
        names = [
            value,
            *(r for r in graph.users.get(value, ()) if isinstance(r, Instruction) and r.opcode == "reshape"),
        ]
        readers = [(name, r) for name in names for r in graph.users.get(name, ()) if r not in names]
        if computation.root in names or any(r is computation.root for _, r in readers):
            return  # it is the caller's memory
        for other in groups:
            if other is group or value in other.reads or not other.computes(group):
                continue
            first = {r for _, r in readers if r is not other and graph.leads(r, other)}
            late = [
                (name, r)
                for name, r in readers
                if isinstance(r, Instruction) and r not in first and any(graph.leads(f, r) for f in first)
            ]
            if late:
                self._read_again(computation, graph, group, other, late)
                return

    def _read_again(
        self,
        computation: Computation,
        graph: FusionGraph,
        group: Group,
        other: Group,
        late: list[tuple[Instruction, Instruction]],
    ) -> None:
        """Give the output of one group by another one as well, for readers of it by its names."""
        value = group.roots[0]
        again = value.clone(value.operands)
        graph.output(again, other)
        other.roots.append(again)
        other.members |= (group.members - {value}) | {again}
        copies = {value: again}
        computation.instructions.insert(computation.instructions.index(value) + 1, again)
        for name, reader in late:
            if name not in copies:
                copies[name] = name.clone([again])
                computation.instructions.insert(computation.instructions.index(name) + 1, copies[name])
                graph.read(copies[name], (again,))
            reader.operands = [copies[name] if o is name else o for o in reader.operands]
            graph.move(name, copies[name], reader)


def _in_order(roots: list[Instruction], members: set[Instruction]) -> list[Instruction]:
    """Operands before what reads them, as the roots reach them: equal fusions are then equal line by line.

    In the computation's own order, what several of them share would stand elsewhere than what one has for itself.
    """
    order: dict[Instruction, None] = {}
    for root in roots:
        stack: list[tuple[Instruction, int]] = [(root, 0)]
        while stack:
            i, k = stack.pop()
            if i in order:
                continue
            operands = i.operands
            while k < len(operands) and (operands[k] not in members or operands[k] in order):
                k += 1
            if k < len(operands):
                stack += ((i, k + 1), (operands[k], 0))
            else:
                order[i] = None
    return list(order)
