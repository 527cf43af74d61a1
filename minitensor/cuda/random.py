"""The generators of random numbers of GPUs: each has its own, of the same numbers as the CPU's for the same seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor import random as _random
from minitensor.cuda.devices import device_count, index_of


def generator_of(device: Any = None) -> Any:
    """The default generator of a GPU."""
    return _random.gpu_generator(index_of(device))


def manual_seed(seed: int) -> None:
    """Seed the current GPU's generator; nothing where there is no GPU."""
    if device_count():
        generator_of().manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all GPUs."""
    for index in range(device_count()):
        generator_of(index).manual_seed(seed)


def seed() -> None:
    """Seed the current GPU's generator from the system's entropy."""
    generator_of().seed()


def seed_all() -> None:
    """Seed the generators of all GPUs from the system's entropy, alike."""
    number = generator_of(0).seed()
    manual_seed_all(number)


def initial_seed() -> int:
    """The seed of the current GPU's generator."""
    return int(generator_of().initial_seed())


def get_rng_state(device: Any = "cuda") -> Any:
    """The state of a GPU's generator: a uint8 tensor of the CPU."""
    return generator_of(device).get_state()


def get_rng_state_all() -> list[Any]:
    """The states of all GPUs' generators."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Go back to a state from `get_rng_state`."""
    generator_of(device).set_state(new_state)


def set_rng_state_all(new_states: Sequence[Any]) -> None:
    """Go back to states from `get_rng_state_all`."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
