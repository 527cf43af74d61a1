"""Who read and wrote each piece of memory last, and whether a barrier lies between that and what comes now.

Each warp has a clock, and knows the clocks of its block's other warps at the last barrier that it shared with them. An
access is ordered after an earlier one if its warp knows a later time of the earlier one's warp. Threads of a warp are
ordered by a barrier of the warp only: they needn't run in step. Blocks are ordered by a fence before an atomic
operation on an address that the other block then uses so too.

For each granule (the shortest access of the kernel) there is one word for the last write and one for the reads since:
the launch, a kind, the clock, and the thread.
"""

from __future__ import annotations

import numpy as np

PLAIN, ATOMIC, PENDING = 0, 1, 2
"""Kinds of writes; a pending one is a cp.async that nobody waited for."""
ONE, WARP, BLOCK, ALL = 0, 1, 2, 3
"""Kinds of readers: one thread, several of a warp or block, any. What is read with `.nc` is read by all, for ever."""
LAUNCHES, CLOCKS = 1 << 12, 1 << 17


class LaunchRaces:
    """What the batches of a launch share: the records of global memory, and what blocks released."""

    def __init__(self, memory, granule: int):
        self.granule = granule
        if memory.launches % (LAUNCHES - 1) == 0:
            memory.records.clear()
        self.launch = memory.launches % (LAUNCHES - 1) + 1
        if granule not in memory.records:
            size = len(memory.storage.bytes) // granule
            memory.records[granule] = (np.zeros(size, np.int64), np.zeros(size, np.int64))
        self.writes, self.reads = memory.records[granule]
        self.released: dict[int, dict[int, np.ndarray]] = {}
        """For each address of an atomic operation the blocks that released there, and what their warps' clocks were."""


class SpaceRecords:
    """The records of one state space."""

    def __init__(self, granule: int, writes: np.ndarray, reads: np.ndarray, launch: int):
        self.granule, self.writes, self.reads, self.launch = granule, writes, reads, launch


class Races:
    """For the lanes of one batch."""

    def __init__(self, m, shared: LaunchRaces, shared_granule: int):
        self.m = m
        self.launch = shared
        self.first_thread = m.first * (m.total // m.blocks)
        self.block_threads = m.total // m.blocks
        self.warps = m.warps // m.blocks
        """Of a block."""
        self.known = np.zeros((m.warps, self.warps), np.int64)
        self.own = np.arange(m.warps) % self.warps
        self.known[np.arange(m.warps), self.own] = 1
        self.epoch = np.zeros(m.blocks, np.int64)
        """How many barriers of all threads a block has passed."""
        size = len(m.spaces["shared"].storage.bytes) // shared_granule
        self.spaces = {
            "global": SpaceRecords(shared.granule, shared.writes, shared.reads, shared.launch),
            "shared": SpaceRecords(shared_granule, np.zeros(size, np.int64), np.zeros(size, np.int64), 1),
        }
        self.fenced = np.zeros(m.total, bool)
        self.acquired: dict[int, dict[int, np.ndarray]] = {}
        """For each warp the blocks whose clocks it knows through atomic operations."""

    # Words

    def word(self, records: SpaceRecords, kind, clock, thread):
        return (records.launch << 51) | (kind << 49) | (clock << 32) | (thread + self.first_thread)

    @staticmethod
    def parts(word):
        return (word >> 49) & 3, (word >> 32) & (CLOCKS - 1), word & 0xFFFFFFFF

    def ordered(self, thread, earlier, clock) -> np.ndarray:
        """Whether what a thread (of the launch) did at a time is known to one of this batch."""
        m = self.m
        block = earlier // self.block_threads - m.first
        own = block == m.cta_of[thread]
        warp = (earlier % self.block_threads) // 32
        result = own & (self.known[m.warp_of[thread], warp] > clock)
        if self.acquired:
            for k in np.flatnonzero(~result & ~own):
                row = self.acquired.get(int(m.warp_of[thread[k]]), {}).get(int(block[k]) + m.first)
                result[k] = row is not None and row[warp[k]] > clock[k]
        return result

    def granules(self, records: SpaceRecords, offset, size: int):
        """The granules that each access has, and the thread of each."""
        count = size // records.granule
        place = np.broadcast_to(offset // records.granule, self.m.n)
        thread = self.m.everyone if self.m.index is None else self.m.index
        if count == 1:
            return place, thread
        return (place[:, None] + np.arange(count)).ravel(), np.repeat(thread, count)

    # Accesses

    def read(self, space, offset, size: int, line: int, constant: bool = False) -> None:
        records = self.spaces[space.name]
        place, thread = self.granules(records, offset, size)
        word = records.writes[place]
        there = (word >> 51) == records.launch
        if there.any():
            self.compare_write(space, place, thread, word, there, "read", line, constant)
        if constant:
            records.reads[place] = (records.launch << 51) | (ALL << 49)
            return
        clock = self.known[self.m.warp_of[thread], self.own[self.m.warp_of[thread]]]
        mine = self.word(records, ONE, clock, thread)
        old = records.reads[place]
        for _ in range(4):
            records.reads[place] = self.join(records, old, mine, thread, clock)
            old = records.reads[place]
            left = ~self.covers(records, old, thread, clock)
            if not left.any():
                return
            place, thread, clock, mine, old = place[left], thread[left], clock[left], mine[left], old[left]

    def covers(self, records, word, thread, clock) -> np.ndarray:
        kind, when, who = self.parts(word)
        who = who - self.first_thread
        inside = (who >= 0) & (who < self.m.total)
        who = np.where(inside, who, 0)
        m = self.m
        one = (kind == ONE) & (who == thread)
        warp = (kind == WARP) & (m.warp_of[who] == m.warp_of[thread]) & (when >= clock)
        block = (kind == BLOCK) & (m.cta_of[who] == m.cta_of[thread]) & (when >= self.epoch[m.cta_of[thread]])
        return (inside & (one | warp | block)) | (kind == ALL)

    def join(self, records, old, mine, thread, clock) -> np.ndarray:
        """The readers that were there and a new one."""
        fresh = (old >> 51) != records.launch
        if fresh.all():
            return mine
        kind, when, who = self.parts(old)
        m = self.m
        inside = (who >= self.first_thread) & (who < self.first_thread + m.total)
        local = np.where(inside, who - self.first_thread, 0)
        replace = (
            fresh | ((kind == ONE) & (who == thread + self.first_thread)) | self.after_reads(kind, when, who, thread)
        )
        same_warp = inside & (kind <= WARP) & (m.warp_of[local] == m.warp_of[thread])
        same_block = inside & (kind <= BLOCK) & (m.cta_of[local] == m.cta_of[thread])
        joined = np.where(
            same_warp,
            self.word(records, WARP, np.maximum(when, clock), thread),
            np.where(
                same_block,
                self.word(records, BLOCK, self.epoch[m.cta_of[thread]], thread),
                (records.launch << 51) | (ALL << 49),
            ),
        )
        joined = np.where(kind == ALL, old, joined)
        return np.where(replace, mine, joined)

    def after_reads(self, kind, when, who, thread) -> np.ndarray:
        """Whether all the readers of a record come before a thread's next access."""
        m = self.m
        known = (kind <= WARP) & self.ordered(thread, who, when)
        block = who // self.block_threads - m.first
        passed = (kind == BLOCK) & (block == m.cta_of[thread]) & (self.epoch[m.cta_of[thread]] > when)
        return known | passed

    def write(self, space, offset, size: int, line: int, kind: int = PLAIN) -> None:
        records = self.spaces[space.name]
        place, thread = self.granules(records, offset, size)
        word = records.writes[place]
        there = (word >> 51) == records.launch
        if there.any():
            self.compare_write(space, place, thread, word, there, "write", line, False, kind)
        word = records.reads[place]
        there = (word >> 51) == records.launch
        if there.any():
            what, when, who = self.parts(word)
            fine = ((what == ONE) & (who == thread + self.first_thread)) | self.after_reads(what, when, who, thread)
            wrong = there & ~fine
            if wrong.any():
                self.report(space, place, thread, wrong, what, who, "written here and read by", line)
        clock = self.known[self.m.warp_of[thread], self.own[self.m.warp_of[thread]]]
        records.writes[place] = self.word(records, kind, clock, thread)

    def compare_write(self, space, place, thread, word, there, verb, line, constant, kind=PLAIN) -> None:
        """Faults where the last write of a granule isn't ordered before this access."""
        what, when, who = self.parts(word)
        own = (who == thread + self.first_thread) & (what != PENDING) & (not constant)
        wrong = there & ~own
        if kind == ATOMIC:
            wrong &= what != ATOMIC
        if wrong.any():
            wrong[wrong] = ~self.ordered(thread[wrong], who[wrong], when[wrong]) | (what[wrong] == PENDING) | constant
        if wrong.any():
            said = f"{'read' if verb == 'read' else 'written'} here and written by"
            if constant:
                said = "read with .nc here and written in the same launch by"
            elif (what[wrong] == PENDING).any():
                said = f"{'read' if verb == 'read' else 'written'} here before the cp.async is waited for of"
            self.report(space, place, thread, wrong, np.zeros_like(what), who, said, line)

    def report(self, space, place, thread, wrong, kinds, who, said: str, line: int) -> None:
        m = self.m
        k = int(np.argmax(wrong))
        other = int(who[k])
        if kinds[k] == ALL:
            name = "other threads, or with .nc"
        else:
            where = m.coordinates(other % self.block_threads, m.block)
            name = f"thread {where} of block {m.coordinates(other // self.block_threads, m.grid)}"
        granule = self.spaces[space.name].granule
        at = int(place[k]) * granule
        at = space.base + at if not space.stride else at % space.stride
        index = m.everyone if m.index is None else m.index
        mask = np.isin(index, thread[wrong])
        m.fault("race", line, mask, f"{space.name} address {at:#x} is {said} {name}, with no barrier between")

    def arrived(self, space, offset, size: int) -> None:
        """Copies that were on their way are there, for the thread that waited."""
        records = self.spaces[space.name]
        place, thread = self.granules(records, offset, size)
        clock = self.known[self.m.warp_of[thread], self.own[self.m.warp_of[thread]]]
        records.writes[place] = self.word(records, PLAIN, clock, thread)

    # Barriers, fences

    def barrier(self, index: np.ndarray, key: np.ndarray) -> None:
        """Threads passed a barrier together with those of the same key."""
        m = self.m
        warps, first = np.unique(m.warp_of[index], return_index=True)
        groups = key[first]
        self.known[warps, self.own[warps]] += 1
        if (self.known[warps, self.own[warps]] >= CLOCKS - 1).any():
            raise OverflowError("a kernel with more than 100,000 barriers")
        order = np.argsort(groups, kind="stable")
        warps, groups = warps[order], groups[order]
        starts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
        newest = np.maximum.reduceat(self.known[warps], starts, axis=0)
        sizes = np.diff(np.append(starts, len(warps)))
        self.known[warps] = np.repeat(newest, sizes, axis=0)
        blocks = warps[starts] // self.warps
        self.epoch[blocks[sizes == self.warps]] += 1
        if self.acquired:
            for start, size in zip(starts, sizes, strict=True):
                members = [int(w) for w in warps[start : start + size]]
                together: dict[int, np.ndarray] = {}
                for warp in members:
                    together |= self.acquired.get(warp, {})
                for warp in members:
                    self.acquired[warp] = dict(together)

    def warp_barrier(self) -> None:
        m = self.m
        warps = np.unique(m.here(m.warp_of))
        self.known[warps, self.own[warps]] += 1

    def fence(self) -> None:
        self.fenced[self.m.everyone if self.m.index is None else self.m.index] = True

    def synchronize(self, address) -> None:
        """Atomic operations of threads that made a fence: they release what they know, and learn what others did."""
        m = self.m
        index = m.everyone if m.index is None else m.index
        address = np.broadcast_to(address, m.n)
        for k in np.flatnonzero(self.fenced[index]):
            thread, at = int(index[k]), int(address[k])
            warp = int(m.warp_of[thread])
            released = self.launch.released.setdefault(at, {})
            self.acquired.setdefault(warp, {}).update(released)
            # What this warp did until now lies before its clock's next value.
            self.known[warp, self.own[warp]] += 1
            released |= self.acquired[warp]
            released[m.first + int(m.cta_of[thread])] = self.known[warp].copy()
