"""Generators of random numbers, and the default one's state.

A generator is a seed and a place in the stream of that seed. There are two kinds, and `use` chooses. Numbers come from
Philox-4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011), keyed by the seed and counted by
the op's place and the element's: the same seed gives the same numbers with any number of threads, eager and compiled.
Or they are those of PyTorch 2.13 on the CPU, of MT19937 (Matsumoto and Nishimura, "Mersenne Twister", ACM TOMACS 8,
1998): the same seed gives what PyTorch gives.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from minitensor import _C
from minitensor._jit import entry_points

__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "thread_safe_generator",
    "use",
]

_TORCH_BYTES = 5056
_kind = "philox"  # of generators for the CPU
_WORD = 0xFFFF_FFFF_FFFF_FFFF
_DEFAULT_SEED = 67280421310721


class Generator(_C._Generator):
    """A stream of random numbers of its own: ops that take `generator=` draw from it."""

    def __new__(cls, device: Any = "cpu") -> Generator:
        """Make a generator with PyTorch's default seed, for the CPU or a GPU: of the same seed both draw alike."""
        made = super().__new__(cls)
        made.device = device if isinstance(device, _C.device) else _C.device(device)
        if made.device.type not in ("cpu", "jit_cpu", "cuda"):
            raise RuntimeError(f"there is no generator for device '{made.device}'; the CPU's is 'cpu'")
        if made.device.type == "cuda":
            context = entry_points.cuda_module("context")
            index = context.current_device() if made.device.index is None else made.device.index
            context.require(index)
            made.device = _C.device("cuda", index)
        made._set(_DEFAULT_SEED, 0)
        if _kind == "torch" and made.device.type == "cpu":
            made._use_torch(True)
        return made

    device: Any
    """The device that the numbers are for."""

    def manual_seed(self, seed: int) -> Generator:
        """Begin the stream of a seed: any number of 64 bits, negative ones too. Returns the generator."""
        number = int(seed)
        if not -0x8000_0000_0000_0000 <= number <= _WORD:
            raise ValueError(f"Overflow when unpacking long: the seed {number} does not fit in 64 bits")
        self._set(number & _WORD, 0)
        return self

    def seed(self) -> int:
        """Begin the stream of a seed from the system's entropy, and return the seed."""
        number = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(number)
        return number

    def initial_seed(self) -> int:
        """The seed of the stream."""
        return self._state()[0]

    def get_state(self) -> Any:
        """A uint8 tensor: the seed and the place in the stream, 16 bytes, or PyTorch's state of 5056 bytes."""
        return _C.tensor_from_data(list(self._save()), _C.uint8, None, True)

    def _save(self) -> bytes:
        if self._draws_as_torch():
            return self._torch_state()
        return b"".join(word.to_bytes(8, "little") for word in self._state())

    def _load(self, state: bytes) -> None:
        if len(state) == _TORCH_BYTES:
            self._set_torch_state(state)
            return
        self._use_torch(False)
        self._set(int.from_bytes(state[:8], "little"), int.from_bytes(state[8:], "little"))

    def set_state(self, new_state: Any) -> Generator:
        """Go back to a state from `get_state`. Returns the generator.

        A generator of PyTorch's numbers takes a state of PyTorch's, as PyTorch takes one of its.
        """
        if not isinstance(new_state, _C.Tensor) or new_state.dtype is not _C.uint8:
            raise TypeError(f"RNG state must be a torch.ByteTensor, but got {_described(new_state)}")
        size = _TORCH_BYTES if self._draws_as_torch() else 16
        if tuple(new_state.shape) != (size,):
            raise RuntimeError(f"RNG state is wrong size: expected {size} bytes, got shape {list(new_state.shape)}")
        state = bytes(new_state.tolist())
        if size == 16 and state[15] & 0x80:
            raise RuntimeError("RNG state is invalid: the place in the stream has 63 bits")
        self._load(state)
        return self

    def clone_state(self) -> Generator:
        """A new generator at the same place of the same stream."""
        other = Generator(self.device)
        other._load(self._save())
        return other

    def graphsafe_get_state(self) -> Generator:
        """A generator that has this one's state now."""
        return self.clone_state()

    def graphsafe_set_state(self, state: Generator) -> Generator:
        """Take over another generator's state."""
        if not isinstance(state, Generator):
            raise TypeError(f"expected a Generator, but got {type(state).__name__}")
        self._load(state._save())
        return self

    def __reduce__(self) -> Any:
        """Pickled with its state."""
        return _rebuild, (str(self.device), self._save())

    def __repr__(self) -> str:
        """The device and the state."""
        seed, offset = self._state()
        if self._draws_as_torch():
            return f"<minitensor.Generator device={self.device} seed={seed}, of PyTorch's numbers>"
        return f"<minitensor.Generator device={self.device} seed={seed} offset={offset}>"


def _rebuild(device: str, state: bytes) -> Generator:
    made = Generator(device)
    made._load(state)
    return made


def _described(thing: Any) -> str:
    return f"a tensor of {thing.dtype}" if isinstance(thing, _C.Tensor) else type(thing).__name__


default_generator = Generator()
"""What ops draw from when no generator is given."""
_C._use_as_default(default_generator, _C.device("cpu"))


_of_gpus: dict[int, Generator] = {}
_seed_of_gpus = _DEFAULT_SEED


def gpu_generator(index: int) -> Generator:
    """What ops on a GPU draw from when no generator is given."""
    if index not in _of_gpus:
        device = _C.device("cuda", index)
        made = Generator(device)
        _C._use_as_default(made, device)
        made.manual_seed(_seed_of_gpus)
        _of_gpus[index] = made
    return _of_gpus[index]


def use(kind: str) -> None:
    """Choose the numbers of the CPU: "philox", or "torch" for those of PyTorch 2.13 from the same seeds.

    The default generator begins the stream of its seed, and generators made from here on are of this kind; those that
    are there stay as they are. Random numbers of other devices are Philox's.

    With "torch" `rand`, `randint`, `randperm`, `bernoulli` and `dropout` give PyTorch's numbers bit by bit, and so does
    `randn` of up to 32 bits from 16 elements on; others are computed by the same formulas in double precision.
    `get_rng_state` and `set_rng_state` have PyTorch's 5056 bytes. Samples whose number of draws may depend on tensors
    (`poisson`, `binomial`, gamma, Dirichlet, `multinomial` with replacement) are not recorded: they run at once.
    `minitensor.as_torch` uses it.

    Raises ValueError for another kind.
    """
    global _kind
    if kind not in ("philox", "torch"):
        raise ValueError(f'the kinds of random numbers are "philox" and "torch", not {kind!r}')
    _kind = kind
    default_generator._use_torch(kind == "torch")


def manual_seed(seed: int) -> Generator:
    """Seed the default generator and those of all GPUs.

    Returns the CPU's. The program then draws the same numbers, eager or compiled.
    """
    global _seed_of_gpus
    default_generator.manual_seed(seed)
    _seed_of_gpus = default_generator.initial_seed()
    for generator in _of_gpus.values():
        generator.manual_seed(_seed_of_gpus)
    return default_generator


def seed() -> int:
    """Seed the default generator from the system's entropy; returns the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The default generator's seed."""
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    """The default generator's state, a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Go back to a state from `get_rng_state`."""
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(devices: Sequence[Any] | None = None, enabled: bool = True, device_type: str = "cpu") -> Iterator[None]:
    """Within the block the default generator draws as it will; afterwards it is where it was before."""
    if not enabled:
        yield
        return
    generators = [default_generator, *_of_gpus.values()]
    before = [generator._save() for generator in generators]
    try:
        yield
    finally:
        for generator, state in zip(generators, before, strict=True):
            generator._load(state)


def thread_safe_generator() -> Generator | None:
    """The generator of a loader's worker that is a thread: None, since workers are processes, with default ones."""
    return None
