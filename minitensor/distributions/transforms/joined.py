"""Transforms of the parts of a tensor along one dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitensor._functions.offered import cat, stack
from minitensor.distributions import constraints
from minitensor.distributions.parameters import sum_rightmost
from minitensor.distributions.transforms.transform import Transform

__all__ = ["CatTransform", "StackTransform"]


class _OfParts(Transform):
    """What both have: transforms, and a dimension."""

    transforms: list[Any]
    dim: int

    def _take(self, tseq: Sequence[Any], dim: int, cache_size: int) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:
        """Whether all parts are."""
        return all(t.bijective for t in self.transforms)

    def _check_dim(self, x: Any) -> None:
        if not -x.dim() <= self.dim < x.dim():
            raise AssertionError(f"dim {self.dim} is out of range for a value of {x.dim()} dimensions")


class CatTransform(_OfParts):
    """Each part, of its length along a dimension, by its transform; the results are joined."""

    def __init__(
        self, tseq: Sequence[Any], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        """`lengths`: those of the parts; 1 each if None."""
        self._take(tseq, dim, cache_size)
        super().__init__(cache_size=cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"lengths must have {len(self.transforms)} entries, got {len(self.lengths)}")

    @property
    def event_dim(self) -> int:
        """The greatest of the parts'."""
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """The parts' together."""
        return sum(self.lengths)

    def _made_again(self, cache_size: int) -> Any:
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        """The parts', joined."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """The parts', joined."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)

    def _parts(self, x: Any) -> Any:
        self._check_dim(x)
        if x.size(self.dim) != self.length:
            raise AssertionError(f"x.size({self.dim}) = {x.size(self.dim)} must equal length {self.length}")
        return zip(self.transforms, x.split(self.lengths, self.dim), strict=True)

    def _call(self, x: Any) -> Any:
        return cat([t(part) for t, part in self._parts(x)], self.dim)

    def _inverse(self, y: Any) -> Any:
        return cat([t.inv(part) for t, part in self._parts(y)], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The parts', joined; or their sum where the dimension is within an event."""
        found = []
        for (t, before), (_, after) in zip(self._parts(x), self._parts(y), strict=True):
            found.append(sum_rightmost(t.log_abs_det_jacobian(before, after), self.event_dim - t.event_dim))
        dim = (self.dim if self.dim < 0 else self.dim - x.dim()) + self.event_dim
        return cat(found, dim) if dim < 0 else sum(found)


class StackTransform(_OfParts):
    """Each slice along a dimension by its transform; the results are stacked."""

    def __init__(self, tseq: Sequence[Any], dim: int = 0, cache_size: int = 0) -> None:
        """`tseq`: a transform for each slice."""
        self._take(tseq, dim, cache_size)
        super().__init__(cache_size=cache_size)

    def _made_again(self, cache_size: int) -> Any:
        return StackTransform(self.transforms, self.dim, cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        """The slices', stacked."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """The slices', stacked."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)

    def _each(self, how: Callable[..., Any], *tensors: Any) -> Any:
        for x in tensors:
            self._check_dim(x)
            if x.size(self.dim) != len(self.transforms):
                raise AssertionError(
                    f"x.size({self.dim}) = {x.size(self.dim)} must equal the {len(self.transforms)} transforms"
                )
        slices = zip(*(x.unbind(self.dim) for x in tensors), strict=True)
        return stack([how(t, *s) for t, s in zip(self.transforms, slices, strict=True)], self.dim)

    def _call(self, x: Any) -> Any:
        return self._each(lambda t, part: t(part), x)

    def _inverse(self, y: Any) -> Any:
        return self._each(lambda t, part: t.inv(part), y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The slices', stacked."""
        return self._each(lambda t, before, after: t.log_abs_det_jacobian(before, after), x, y)
