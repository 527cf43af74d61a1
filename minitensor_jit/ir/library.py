"""What custom calls name: functions that are not made of HLO. The layers above say which there are.

The IR knows no tensors, so it asks a `Library` that `minitensor_jit` installs: the eager kernels and their inner loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .module import Instruction

__all__ = ["ELEMENTWISE_PREFIX", "Library", "LibraryLoop", "find_loop", "install", "library", "loop_of"]

ELEMENTWISE_PREFIX: Final = "mt.elementwise."
"""What the target of a custom call begins with that is computed element by element, by the loop of that name."""


@dataclass(frozen=True, slots=True)
class LibraryLoop:
    """A function over contiguous elements: `docs/codegen.md` has its forms, one for each number of inputs."""

    name: str
    dtype: str
    """The type of all inputs."""
    inputs: int
    result: str
    """The type of the result."""
    address: int

    @property
    def symbol(self) -> str:
        """What object code calls it."""
        return f"{ELEMENTWISE_PREFIX}{self.name}.{self.dtype}"


class Library(Protocol):
    """The functions that this process has."""

    def loop(self, name: str, dtype: str) -> LibraryLoop | None:
        """The loop of that name for inputs of that type, if there is one."""

    def has_kernel(self, target: str) -> bool:
        """Whether there is the kernel that a `kernel-call` names."""

    def run_kernel(self, call: Instruction, operands: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """The results of a `kernel-call`."""


class _Empty:
    def loop(self, name: str, dtype: str) -> LibraryLoop | None:
        return None

    def has_kernel(self, target: str) -> bool:
        return False

    def run_kernel(self, call: Instruction, operands: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        raise NotImplementedError(f"this process has no kernel {call.attrs['custom_call_target']}")


_make: Callable[[], Library] = _Empty
_library: Library | None = None


def install(make: Callable[[], Library]) -> None:
    """Sets what makes the library when it is first asked for."""
    global _make, _library
    _make, _library = make, None


def library() -> Library:
    """The library that was installed; an empty one without."""
    global _library
    if _library is None:
        _library = _make()
    return _library


def find_loop(name: str, dtype: str) -> LibraryLoop | None:
    """The loop of that name for inputs of that type, if there is one."""
    return library().loop(name, dtype)


def loop_of(i: Instruction) -> LibraryLoop | None:
    """The loop that an `elementwise-call` names, if this process has it."""
    loop = find_loop(str(i.attrs["custom_call_target"]).removeprefix(ELEMENTWISE_PREFIX), i.operands[0].dtype)
    return loop if loop is not None and (loop.inputs, loop.result) == (len(i.operands), i.dtype) else None
