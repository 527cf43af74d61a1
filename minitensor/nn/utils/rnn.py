"""Sequences of several lengths in one tensor: padded, or packed one step after the other."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple, Self

from minitensor import nn
from minitensor._C import Tensor, float16, float32, float64, int8, int16, int32, int64, uint8
from minitensor._functions.offered import arange, as_tensor, empty_like, full, sort, stack, tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class PackedSequence_(NamedTuple):  # noqa: N801 - PyTorch's name
    """The parts of a packed sequence."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(PackedSequence_):
    """Sequences by steps: ``data`` has the first step of all of them, then the second of those that have one ...

    ``batch_sizes`` says how many have each step. They are ordered by length, the longest first; ``sorted_indices`` and
    ``unsorted_indices`` lead to that order and back. ``pack_padded_sequence`` and ``pack_sequence`` make them.
    """

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        """Make one of its parts; the two first may come as a pair."""
        if batch_sizes is None:
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. "
                "They should be instantiated by functions like pack_sequence and pack_padded_sequences in nn.utils.rnn."
            )
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def __reduce__(self) -> Any:
        return type(self), tuple(self)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Return the sequences with the data converted, and the indices on its device."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        indices = (t if t is None else t.to(data.device) for t in (self.sorted_indices, self.unsorted_indices))
        return type(self)(data, self.batch_sizes, *indices)

    def pin_memory(self) -> Self:
        """Return the sequences in memory from which copies to a GPU are fast."""
        indices = (t if t is None else t.pin_memory() for t in (self.sorted_indices, self.unsorted_indices))
        return type(self)(self.data.pin_memory(), self.batch_sizes, *indices)

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        """Return the sequences on a CUDA device."""
        return self.to(*args, **kwargs) if args or "device" in kwargs else self.to(device="cuda", **kwargs)

    def cpu(self, *args: Any, **kwargs: Any) -> Self:
        """Return the sequences on the CPU."""
        return self.to(*args, **kwargs) if args or "device" in kwargs else self.to(device="cpu", **kwargs)

    def double(self) -> Self:
        """Return the data as float64."""
        return self.to(dtype=float64)

    def float(self) -> Self:
        """Return the data as float32."""
        return self.to(dtype=float32)

    def half(self) -> Self:
        """Return the data as float16."""
        return self.to(dtype=float16)

    def long(self) -> Self:
        """Return the data as int64."""
        return self.to(dtype=int64)

    def int(self) -> Self:
        """Return the data as int32."""
        return self.to(dtype=int32)

    def short(self) -> Self:
        """Return the data as int16."""
        return self.to(dtype=int16)

    def char(self) -> Self:
        """Return the data as int8."""
        return self.to(dtype=int8)

    def byte(self) -> Self:
        """Return the data as uint8."""
        return self.to(dtype=uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a CUDA device."""
        return self.data.device.type == "cuda"

    def is_pinned(self) -> bool:
        """Return whether the data is in memory from which copies to a GPU are fast."""
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the permutation that undoes one; None for None."""
    if permutation is None:
        return None
    places = arange(permutation.numel(), dtype=permutation.dtype, device=permutation.device)
    return empty_like(permutation).scatter_(0, permutation, places)


def _rows(sizes: list[int], count: int, device: Any) -> Tensor:
    """Return where the packed rows are in ``[T * count, ...]``."""
    return tensor([t * count + n for t, size in enumerate(sizes) for n in range(size)], device=device)


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack ``[T, N, ...]``, or ``[N, T, ...]`` with ``batch_first``, whose sequences have the given lengths.

    If not ``enforce_sorted``, they are put in order of length first. RuntimeError for lengths that are not in order, or
    not positive.
    """
    values = as_tensor(lengths, dtype=int64).to("cpu")
    if values.dim() != 1:
        raise RuntimeError(f"expected 1D lengths, got a tensor with {values.dim()} dimensions")
    order = None
    if not enforce_sorted:
        values, order = sort(values, descending=True)
        order = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    if batch_first:
        input = input.transpose(0, 1)
    steps, count = input.shape[:2]
    numbers: list[int] = values.tolist()
    if len(numbers) != count:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(numbers)} (batch_size={count})"
        )
    if not numbers or numbers[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if any(a < b for a, b in pairwise(numbers)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement."
        )
    if numbers[0] > steps:
        raise RuntimeError(f"Expected lengths of at most {steps}, but got {numbers[0]}")
    sizes = [sum(length > t for length in numbers) for t in range(numbers[0])]
    flat = input.reshape((steps * count, *input.shape[2:]))
    data = flat.index_select(0, _rows(sizes, count, input.device))
    return PackedSequence(data, tensor(sizes), order)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return the sequences as ``[T, N, ...]``, or the batch first, with their lengths, in their first order.

    ``total_length`` is how long they are to be at least. ValueError if the longest is longer.
    """
    sizes: list[int] = sequence.batch_sizes.tolist()
    steps, count = len(sizes), sizes[0]
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {steps}"
            )
        steps = total_length
    data = sequence.data
    padded = full((steps * count, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device)
    padded = padded.index_copy(0, _rows(sizes, count, data.device), data).reshape((steps, count, *data.shape[1:]))
    lengths = tensor([sum(size > n for size in sizes) for n in range(count)])
    if batch_first:
        padded = padded.transpose(0, 1)
    back = sequence.unsorted_indices
    if back is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, back), lengths[back.to("cpu")]


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Return sequences ``[T_i, ...]`` as ``[T, N, ...]``, or the batch first, padded on a side to the longest."""
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    parts = tuple(sequences)
    if not parts:
        raise RuntimeError("received an empty list of sequences")
    longest = max(part.shape[0] for part in parts)

    def padded(part: Tensor) -> Tensor:
        missing = longest - part.shape[0]
        if part.shape[1:] != parts[0].shape[1:]:
            raise RuntimeError(
                f"The size of tensor a {list(parts[0].shape[1:])} must match the size of tensor b "
                f"{list(part.shape[1:])} in all dimensions but the first"
            )
        if missing == 0:
            return part
        sides = (missing, 0) if padding_side == "left" else (0, missing)
        return nn.functional.pad(part, (0, 0) * (part.dim() - 1) + sides, value=padding_value)

    return stack([padded(part) for part in parts], 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """Return the sequences of a padded tensor, each of its length."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[: int(length)] for row, length in zip(rows.unbind(0), lengths, strict=True)]


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences ``[T_i, ...]``, the longest first unless not ``enforce_sorted``."""
    lengths = [sequence.shape[0] for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences of a packed one, in their first order."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
