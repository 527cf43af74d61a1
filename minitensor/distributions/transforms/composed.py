"""Transforms made of transforms, and the one that reshapes."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from minitensor._C import Size
from minitensor._functions.offered import zeros, zeros_like
from minitensor.distributions import constraints
from minitensor.distributions.parameters import sum_rightmost
from minitensor.distributions.transforms.transform import Transform

__all__ = ["ComposeTransform", "IndependentTransform", "ReshapeTransform", "identity_transform"]


def _widened(constraint: Any, dims: int) -> Any:
    extra = dims - constraint.event_dim
    return constraints.independent(constraint, extra) if extra > 0 else constraint


class ComposeTransform(Transform):
    """One transform after the other, the first of `parts` first."""

    def __init__(self, parts: Sequence[Any], cache_size: int = 0) -> None:
        """`parts`: the transforms; none is the identity."""
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)
        super().__init__(cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        """Whether the parts are equal."""
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """The first part's, for events as large as any part needs."""
        if not self.parts:
            return constraints.real
        dims = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            dims = max(dims + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return _widened(self.parts[0].domain, dims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        """The last part's, for events as large as any part makes them."""
        if not self.parts:
            return constraints.real
        dims = self.parts[0].domain.event_dim
        for part in self.parts:
            dims = max(dims + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return _widened(self.parts[-1].codomain, dims)

    @cached_property
    def bijective(self) -> bool:
        """Whether all parts are."""
        return all(part.bijective for part in self.parts)

    @cached_property
    def sign(self) -> Any:
        """The product of the parts'."""
        sign = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    @property
    def inv(self) -> Any:
        """The parts' inverses in the other order."""
        found = None if self._inv is None else self._inv()
        if found is None:
            found = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv = weakref.ref(found)
            found._inv = weakref.ref(self)
        return found

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same of parts with that cache."""
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Any) -> Any:
        """The last part's result."""
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The sum of the parts', each over its part of an event."""
        if not self.parts:
            return zeros_like(x)
        between = [x]
        for part in self.parts[:-1]:
            between.append(part(between[-1]))
        between.append(y)
        dims = self.domain.event_dim
        total: Any = 0
        for part, before, after in zip(self.parts, between[:-1], between[1:], strict=True):
            total = total + sum_rightmost(part.log_abs_det_jacobian(before, after), dims - part.domain.event_dim)
            dims += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape: Any) -> Any:
        """The parts', one after the other."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The parts', backwards."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        """The parts, one a line."""
        return f"{type(self).__name__}(\n    " + ",\n    ".join(repr(part) for part in self.parts) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose last batch dimensions count as dimensions of one event, over which the Jacobian is summed."""

    def __init__(self, base_transform: Any, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        """`reinterpreted_batch_ndims`: how many."""
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def _made_again(self, cache_size: int) -> Any:
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """The base's, of larger events."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        """The base's, of larger events."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:
        """As the base."""
        return bool(self.base_transform.bijective)

    @property
    def sign(self) -> Any:
        """As the base's."""
        return self.base_transform.sign

    def _call(self, x: Any) -> Any:
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The base's, summed."""
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        """The base and the number of dimensions."""
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Any) -> Any:
        """The base's."""
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        """The base's."""
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """The last dimensions, which are `in_shape`, become `out_shape`, of as many elements."""

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        """The shapes of one event, before and after."""
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        """Real numbers in `in_shape`."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Real numbers in `out_shape`."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def _made_again(self, cache_size: int) -> Any:
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Any) -> Any:
        return x.reshape(*self._batch(x.shape, self.in_shape), *self.out_shape)

    def _inverse(self, y: Any) -> Any:
        return y.reshape(*self._batch(y.shape, self.out_shape), *self.in_shape)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Zeros in the batch's shape."""
        return zeros(self._batch(x.shape, self.in_shape), dtype=x.dtype, device=x.device)

    def forward_shape(self, shape: Any) -> Any:
        """With `out_shape` in the place of `in_shape`. ValueError if that isn't its end."""
        return Size((*self._batch(shape, self.in_shape, check=True), *self.out_shape))

    def inverse_shape(self, shape: Any) -> Any:
        """With `in_shape` in the place of `out_shape`. ValueError if that isn't its end."""
        return Size((*self._batch(shape, self.out_shape, check=True), *self.in_shape))

    @staticmethod
    def _batch(shape: Any, event: Any, check: bool = False) -> tuple[int, ...]:
        cut = len(shape) - len(event)
        if check:
            if cut < 0:
                raise ValueError("Too few dimensions on input")
            if tuple(shape[cut:]) != tuple(event):
                raise ValueError(f"Shape mismatch: expected {tuple(shape[cut:])} but got {tuple(event)}")
        return tuple(shape[:cut])
