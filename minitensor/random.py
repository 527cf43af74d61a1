"""The default generator's state."""

from __future__ import annotations

import os
from typing import Any

from minitensor import _C

__all__ = ["get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


def manual_seed(seed: int) -> None:
    """Seed the generator: the program then draws the same numbers, with any number of threads, eager or compiled."""
    number = int(seed)
    if not -0x8000_0000_0000_0000 <= number <= 0xFFFF_FFFF_FFFF_FFFF:
        raise RuntimeError(f"Overflow when unpacking long: the seed {number} does not fit in 64 bits")
    _C.set_generator_state(number & 0xFFFF_FFFF_FFFF_FFFF, 0)


def seed() -> int:
    """Seed the generator from the system's entropy; returns the seed."""
    number = int.from_bytes(os.urandom(8), "little")
    manual_seed(number)
    return number


def initial_seed() -> int:
    """The current seed."""
    number: int = _C.generator_state()[0]
    return number


def get_rng_state() -> Any:
    """The generator's state, an int64 tensor: seed and place in the stream."""
    state = [n - (1 << 64) if n >= 1 << 63 else n for n in _C.generator_state()]
    return _C.tensor_from_data(state, _C.int64, None, True)


def set_rng_state(state: Any) -> None:
    """Go back to a state from `get_rng_state`."""
    seed, offset = state.tolist()
    _C.set_generator_state(seed & 0xFFFF_FFFF_FFFF_FFFF, offset & 0xFFFF_FFFF_FFFF_FFFF)
