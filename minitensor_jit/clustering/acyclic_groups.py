"""A DAG whose nodes can be merged into groups without ever making a cycle.

Merging two nodes of a DAG makes a cycle exactly when a path leads from one to the other through a third node. To see
that cheaply a topological order is maintained (after Pearce and Kelly, "A dynamic topological sort algorithm for
directed acyclic graphs", JEA 2007): each group has a rank, edges lead from lower to higher ranks, and only ranks
between those of merged nodes ever change.

`grow` merges a node with everything that it can reach by edges between groups of its key. It visits what is reachable
in the order of the ranks. So when it comes to a node it has seen every path to it, and knows whether one leads through
a node that stayed outside. A node that was refused for that stays refused however the groups grow, since the one in
between never joins: it has another key, or makes the group too large. So one `grow` for each node, in topological
order, contracts every edge that can be contracted.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

_DIRECT = -1
"""Reached by edges between members only."""
_SETTLED = -2
"""Refused in an earlier `grow`, for a reason that is on record."""


@dataclass(slots=True)
class Refusals:
    """Why nodes of equal keys were not merged, by node."""

    cycle: dict[int, int] = field(default_factory=dict)
    """To a node outside, through which a path leads."""
    size: set[int] = field(default_factory=set)


class ContractedGraph:
    """Nodes 0..n-1, given in topological order, and the groups that they are merged into.

    Nodes are merged only if their keys are equal; None never merges. A group has at most `max_size` nodes.
    """

    def __init__(
        self, predecessors: Sequence[Iterable[int]], keys: Sequence[Hashable | None], max_size: int | None = None
    ) -> None:
        count = len(keys)
        self._keys = list(keys)
        self._parent = list(range(count))
        self._rank = list(range(count))
        self._sizes = [1] * count
        self._max_size = count if max_size is None else max_size
        self._grown = bytearray(count)
        self._predecessors = [set(sources) for sources in predecessors]
        self._successors: list[set[int]] = [set() for _ in range(count)]
        for node, sources in enumerate(self._predecessors):
            for source in sources:
                self._successors[source].add(node)
        self.refusals = Refusals()

    def find(self, node: int) -> int:
        """Return the representative of the node's group."""
        parent = self._parent
        while parent[node] != node:
            parent[node] = node = parent[parent[node]]
        return node

    def rank(self, node: int) -> int:
        """Return the place of the node's group in the topological order of the groups."""
        return self._rank[self.find(node)]

    def contract(self) -> None:
        """Merge along edges until no edge is left that could be contracted."""
        for node, key in enumerate(self._keys):
            if key is not None and not self._grown[self.find(node)]:
                self.grow(node)

    def join(self, groups: Iterable[int]) -> None:
        """Merge groups of one key that no edge connects, as far as no path leads from one to the other."""
        waiting = sorted({self.find(node) for node in groups}, key=self._rank.__getitem__)
        while len(waiting) > 1:
            first = self.grow(waiting[0], waiting[1:])
            waiting = sorted({self.find(node) for node in waiting} - {first}, key=self._rank.__getitem__)

    def grow(self, start: int, candidates: Sequence[int] = ()) -> int:
        """Merge into the group of `start` whatever may join it, and return the group's representative.

        May join: its successors, theirs, and so on; and the `candidates`, groups of equal key and higher rank.
        """
        find, parent, rank = self.find, self._parent, self._rank
        keys, sizes, grown = self._keys, self._sizes, self._grown
        start = find(start)
        key = keys[start]
        size = sizes[start]
        members = {start: None}
        outside: list[int] = []
        reached: dict[int, int] = {}  # to the node outside through which it is reached first
        refused: dict[int, int] = {}  # those next to a member, to the node outside through which they are reached too
        heap: list[tuple[int, int]] = []
        hopeful = 0  # how many of those in the heap may still join

        def reach(nodes: Iterable[int], through: int) -> None:
            nonlocal hopeful
            for node in nodes:
                group = parent[node]
                node = group if parent[group] == group else find(group)
                if node in members:
                    continue
                same = keys[node] == key
                how = _DIRECT if through == _SETTLED and not same else through
                before = reached.get(node)
                if before is None:
                    reached[node] = how
                    heappush(heap, (rank[node], node))
                    hopeful += same and how == _DIRECT
                elif before == _DIRECT and how != _DIRECT:
                    reached[node] = how
                    hopeful -= same
                    refused[node] = how
                elif before >= 0 and how == _DIRECT:
                    refused[node] = before

        reach(self._successors[start], _SETTLED if grown[start] else _DIRECT)
        reach(candidates, _DIRECT)
        while hopeful:
            _, node = heappop(heap)
            through = reached[node]
            same = keys[node] == key
            if same and through == _DIRECT:
                hopeful -= 1
                if size + sizes[node] <= self._max_size:
                    size += sizes[node]
                    members[node] = None
                    if hopeful or not grown[node]:
                        reach(self._successors[node], _SETTLED if grown[node] else _DIRECT)
                    continue
                reached[node] = refused[node] = through = node
            outside.append(node)
            reach(self._successors[node], through if through >= 0 else node)
        self._refuse(start, refused)
        grown[start] = True
        return self._merge(list(members), outside) if len(members) > 1 else start

    def _refuse(self, start: int, refused: dict[int, int]) -> None:
        """Put on record why nodes next to the group of `start` did not join it."""
        keys = self._keys
        for node, through in refused.items():
            if keys[node] != keys[start] or through < 0:
                continue
            if keys[through] == keys[start]:
                self.refusals.size.update((start, node))
            else:
                self.refusals.cycle.setdefault(start, through)
                self.refusals.cycle.setdefault(node, through)

    def _merge(self, members: list[int], outside: list[int]) -> int:
        """Make one group of `members`. `outside` has what else the first of them reaches; both are in order of rank."""
        rank = self._rank
        first, last = rank[members[0]], rank[members[-1]]
        after = [node for node in outside if rank[node] < last]
        before = self._between(members, first) if after else []
        place = first if after else last
        if after and before:
            # What leads into the group takes the lowest of the ranks, then comes the group, then what it leads to.
            pool = sorted(rank[node] for nodes in (members, before, after) for node in nodes)
            place = pool[len(before)]
            for node, slot in zip(before, pool, strict=False):
                rank[node] = slot
            for node, slot in zip(after, pool[len(pool) - len(after) :], strict=True):
                rank[node] = slot

        group = max(members, key=lambda node: len(self._successors[node]) + len(self._predecessors[node]))
        successors, predecessors = self._successors[group], self._predecessors[group]
        for node in members:
            if node != group:
                self._parent[node] = group
                self._sizes[group] += self._sizes[node]
                successors |= self._successors[node]
                predecessors |= self._predecessors[node]
                self._successors[node] = self._predecessors[node] = set()
        if len(members) > 2:
            self._successors[group] = {self.find(node) for node in successors} - {group}
            self._predecessors[group] = {self.find(node) for node in predecessors} - {group}
        rank[group] = place
        self._grown[group] = True
        return group

    def _between(self, members: list[int], first: int) -> list[int]:
        """Return the nodes of a rank above `first` from which a path leads to a member, by rank."""
        seen = set(members)
        found: list[int] = []
        stack = list(members)
        while stack:
            for node in self._predecessors[stack.pop()]:
                node = self.find(node)
                if node not in seen and self._rank[node] > first:
                    seen.add(node)
                    found.append(node)
                    stack.append(node)
        return sorted(found, key=self._rank.__getitem__)
