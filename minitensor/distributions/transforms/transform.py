"""What every transform has, and its inverse."""

from __future__ import annotations

import weakref
from typing import Any

__all__ = ["Transform"]


class Transform:
    """A function from `domain` to `codomain`, both constraints, which may have an inverse.

    With `cache_size=1` the last pair of argument and result is kept, so that the inverse of a result is the very
    argument, which is exact and free.
    """

    bijective: Any = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        """`cache_size`: 0 or 1 pairs."""
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Any = None
        self._last: Any = (None, None)
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        """Without the weak reference to the inverse."""
        return self.__dict__ | {"_inv": None}

    @property
    def event_dim(self) -> int:
        """How many dimensions one event has, before and after."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        dims: int = self.domain.event_dim
        return dims

    @property
    def inv(self) -> Any:
        """The inverse: a transform whose own inverse is this one."""
        found = None if self._inv is None else self._inv()
        if found is None:
            found = _InverseTransform(self)
            self._inv = weakref.ref(found)
        return found

    @property
    def sign(self) -> Any:
        """Of a monotone transform of numbers: 1 if it increases, -1 if it decreases."""
        raise NotImplementedError

    def _made_again(self, cache_size: int) -> Any:
        return type(self)(cache_size=cache_size)

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same transform with that cache."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__ or type(self)._made_again is not Transform._made_again:
            return self._made_again(cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        """Whether they are known to do the same."""
        return self is other

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, x: Any) -> Any:
        """The result at x."""
        if self._cache_size == 0:
            return self._call(x)
        before, result = self._last
        if x is not before:
            result = self._call(x)
            self._last = x, result
        return result

    def _inv_call(self, y: Any) -> Any:
        if self._cache_size == 0:
            return self._inverse(y)
        result, after = self._last
        if y is not after:
            result = self._inverse(y)
            self._last = result, y
        return result

    def _call(self, x: Any) -> Any:
        raise NotImplementedError

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the absolute value of the Jacobian's determinant at x, where the result is y."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """The class."""
        return f"{type(self).__name__}()"

    def forward_shape(self, shape: Any) -> Any:
        """The shape of the result for an argument's."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of the argument for a result's."""
        return shape


class _InverseTransform(Transform):
    """The inverse of a transform."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._of = transform

    @property
    def domain(self) -> Any:
        """The codomain of the other."""
        return self._of.codomain

    @property
    def codomain(self) -> Any:
        """The domain of the other."""
        return self._of.domain

    @property
    def bijective(self) -> bool:
        """As the other."""
        return self._of.bijective

    @property
    def sign(self) -> Any:
        """As the other's."""
        return self._of.sign

    @property
    def inv(self) -> Any:
        """The other."""
        return self._of

    def with_cache(self, cache_size: int = 1) -> Any:
        """The inverse of the other with that cache."""
        return self._of.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        """Whether the others are equal."""
        return isinstance(other, _InverseTransform) and self._of == other._of

    def __repr__(self) -> str:
        """The class and the other."""
        return f"{type(self).__name__}({self._of!r})"

    def __call__(self, x: Any) -> Any:
        """The other's inverse at x."""
        return self._of._inv_call(x)

    def _inv_call(self, y: Any) -> Any:
        return self._of(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The other's, negated."""
        return -self._of.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        """The other's, backwards."""
        return self._of.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        """The other's, backwards."""
        return self._of.forward_shape(shape)
