"""Shapes that may have unknown sizes: `TensorShape` and its `Dimension`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["Dimension", "TensorShape"]


class Dimension:
    """One size of a shape; its ``value`` is None where it is unknown."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        """`value`: an int, None or a Dimension."""
        self.value: int | None = value.value if isinstance(value, Dimension) else None if value is None else int(value)

    def __index__(self) -> int:
        if self.value is None:
            raise TypeError("this size is not known before the graph runs; tf.shape(x)[i] has it then")
        return self.value

    __int__ = __index__

    def __eq__(self, other: object) -> bool:
        return self.value == (other.value if isinstance(other, Dimension) else other)

    def __hash__(self) -> int:
        return hash(self.value)

    def _with(self, other: Any, compute: Any) -> Dimension:
        right = Dimension(other).value
        return Dimension(None if self.value is None or right is None else compute(self.value, right))

    def __add__(self, other: Any) -> Dimension:
        return self._with(other, lambda a, b: a + b)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Dimension:
        return self._with(other, lambda a, b: a - b)

    def __mul__(self, other: Any) -> Dimension:
        return self._with(other, lambda a, b: a * b)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Dimension:
        return self._with(other, lambda a, b: a // b)

    def __str__(self) -> str:
        return "?" if self.value is None else str(self.value)

    def __repr__(self) -> str:
        return f"Dimension({self.value})"


class TensorShape:
    """The sizes of a tensor: each known or not, or not even how many there are."""

    __slots__ = ("_dims",)

    def __init__(self, dims: Any) -> None:
        """`dims`: None, one size, or a sequence of sizes, None among them for those that are unknown."""
        self._dims: tuple[int | None, ...] | None
        if isinstance(dims, TensorShape):
            self._dims = dims._dims
        elif dims is None:
            self._dims = None
        else:
            sizes = dims if isinstance(dims, Sequence) or hasattr(dims, "__iter__") else [dims]
            self._dims = tuple(Dimension(-1 if size is None else size).value for size in sizes)
            if any(size is not None and size < -1 for size in self._dims):
                raise ValueError(f"Dimension must be >= 0, in shape {list(sizes)}")
            self._dims = tuple(None if size == -1 else size for size in self._dims)

    @property
    def dims(self) -> list[Dimension] | None:
        """The sizes, None if their number is unknown."""
        return None if self._dims is None else [Dimension(size) for size in self._dims]

    @property
    def ndims(self) -> int | None:
        """How many sizes there are, None if that is unknown."""
        return None if self._dims is None else len(self._dims)

    rank = ndims

    def as_list(self) -> list[int | None]:
        """The sizes, None for each that is unknown; ValueError if their number is."""
        if self._dims is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return list(self._dims)

    def is_fully_defined(self) -> bool:
        """Whether every size is known."""
        return self._dims is not None and None not in self._dims

    def num_elements(self) -> int | None:
        """The product of the sizes, None if one is unknown."""
        total = 1
        for size in [None] if self._dims is None else self._dims:
            if size is None:
                return None
            total *= size
        return total

    def takes(self, sizes: tuple[int, ...]) -> bool:
        """Whether a value of these sizes has this shape."""
        dims = self._dims
        if dims is None or dims == sizes:
            return True
        if len(dims) != len(sizes):
            return False
        return all(dim is None or dim == size for dim, size in zip(dims, sizes, strict=True))

    def is_compatible_with(self, other: Any) -> bool:
        """Whether a tensor can have both shapes."""
        left, right = self._dims, TensorShape(other)._dims
        if left is None or right is None:
            return True
        return len(left) == len(right) and all(
            a is None or b is None or a == b for a, b in zip(left, right, strict=True)
        )

    def merge_with(self, other: Any) -> TensorShape:
        """What both shapes say together; ValueError where they contradict each other."""
        other = TensorShape(other)
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {other} are not compatible")
        if self._dims is None or other._dims is None:
            return other if self._dims is None else self
        return TensorShape([b if a is None else a for a, b in zip(self._dims, other._dims, strict=True)])

    def __iter__(self) -> Iterator[Dimension]:
        if self._dims is None:
            raise ValueError("Cannot iterate over a shape with unknown rank.")
        return iter([Dimension(size) for size in self._dims])

    def __len__(self) -> int:
        if self._dims is None:
            raise ValueError("Cannot take the length of shape with unknown rank.")
        return len(self._dims)

    def __getitem__(self, key: Any) -> Any:
        if self._dims is None:
            return TensorShape(None) if isinstance(key, slice) else Dimension(None)
        return TensorShape(self._dims[key]) if isinstance(key, slice) else Dimension(self._dims[key])

    def __eq__(self, other: object) -> bool:
        try:
            return self._dims == TensorShape(other)._dims
        except (TypeError, ValueError):
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self._dims)

    def __str__(self) -> str:
        if self._dims is None:
            return "<unknown>"
        sizes = ", ".join("?" if size is None else str(size) for size in self._dims)
        return f"({sizes},)" if len(self._dims) == 1 else f"({sizes})"

    def __repr__(self) -> str:
        return f"TensorShape({None if self._dims is None else list(self._dims)})"
