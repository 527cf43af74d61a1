"""How warps' accesses fall on sectors of global memory and on the banks of shared memory."""

from __future__ import annotations

import numpy as np

SECTOR = 32
BANKS = 32


class Traffic:
    """Counts for the lanes of one batch."""

    def __init__(self, m):
        self.m = m
        self.sectors = {"read": 0, "written": 0}
        self.requests = self.shared_requests = self.wavefronts = self.ideal = 0

    def note(self, space, offset, size: int, way: str) -> None:
        m = self.m
        warp = m.here(m.warp_of)
        offset = np.broadcast_to(offset, m.n)
        if space.name == "global":
            self.sectors[way] += len(np.unique((warp << 40) | (offset // SECTOR)))
            self.requests += len(np.unique(warp))
        elif space.name == "shared":
            self.shared_requests += len(np.unique(warp))
            self.count_banks(offset, size, warp)

    def count_banks(self, offset, size: int, warp) -> None:
        """Accesses of 8 bytes take two turns of half a warp, those of 16 four of a quarter; each has 32 banks."""
        m = self.m
        turns = max(1, size // 4)
        turn = warp * turns + m.here(m.lane_of) // (32 // turns)
        word = (offset[:, None] // 4 + np.arange(turns)).ravel()
        key = np.unique((np.repeat(turn, turns) << 32) | word)  # the same word is read once for all
        turn, bank = key >> 32, key % BANKS
        cells, busy = np.unique(turn * BANKS + bank, return_counts=True)
        turn = cells // BANKS
        starts = np.flatnonzero(np.concatenate([[True], turn[1:] != turn[:-1]]))
        self.wavefronts += int(np.maximum.reduceat(busy, starts).sum())
        self.ideal += len(starts)

    def add_to(self, counts) -> None:
        counts.global_sectors_read += self.sectors["read"]
        counts.global_sectors_written += self.sectors["written"]
        counts.global_requests += self.requests
        counts.shared_requests += self.shared_requests
        counts.shared_wavefronts += self.wavefronts
        counts.shared_ideal_wavefronts += self.ideal
