"""What parameters of distributions have in common: broadcasting, probabilities and logits, lazy properties."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

from minitensor import dtypes
from minitensor._C import Tensor, get_default_dtype
from minitensor._functions.offered import (
    broadcast_tensors,
    log,
    log1p,
    rand,
    randn,
    sigmoid,
    softmax,
    tensor,
    tril_indices,
    zeros,
)
from minitensor.autograd import enable_grad
from minitensor.overrides import is_tensor_like

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060  # DLMF 5.2.3


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """The values as tensors of one shape. Numbers take the dtype and device of the first tensor, if there is one.

    ValueError for what is neither a tensor, nor a number, nor an object with `__torch_function__`.
    """
    tensors = [value for value in values if isinstance(value, Tensor)]
    for value in values:
        if not isinstance(value, Number) and not is_tensor_like(value):
            raise ValueError(f"Input arguments must all be instances of Number or Tensor, got {type(value).__name__}")
    dtype = tensors[0].dtype if tensors else get_default_dtype()
    device = tensors[0].device if tensors else None
    made = [tensor(v, dtype=dtype, device=device) if isinstance(v, Number) else v for v in values]
    return tuple(broadcast_tensors(*made))


def as_numbers(*values: Any) -> bool:
    """Whether none of the values is a tensor, so that they have no shape."""
    return not any(isinstance(value, Tensor) for value in values)


def standard_normal(shape: Any, dtype: Any, device: Any) -> Any:
    """Samples of the normal distribution of mean 0 and variance 1."""
    return randn(tuple(shape), dtype=dtype, device=device)


def uniform_inside(shape: Any, like: Any) -> Any:
    """Uniform samples in (0, 1), whose logarithms, and those of 1 - u, are finite."""
    finfo = dtypes.finfo(like.dtype)
    return rand(tuple(shape), dtype=like.dtype, device=like.device).clamp(min=finfo.tiny, max=1 - finfo.eps)


def sum_rightmost(value: Any, dims: int) -> Any:
    """The sum over the last `dims` dimensions; the value itself for none."""
    return value if dims == 0 else value.sum(tuple(range(-dims, 0)))


# The names by which libraries import them, though they are private in PyTorch.
_standard_normal, _sum_rightmost = standard_normal, sum_rightmost


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Probabilities: the sigmoid of log odds, or the softmax over the last dimension of log weights."""
    return sigmoid(logits) if is_binary else softmax(logits, -1)


def clamp_probs(probs: Any) -> Any:
    """Probabilities kept eps away from 0 and 1, so that the logarithms of both are finite."""
    eps = dtypes.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Log odds, or logarithms over the last dimension, of clamped probabilities."""
    clamped = clamp_probs(probs)
    return log(clamped) - log1p(-clamped) if is_binary else log(clamped)


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The entries of (..., n, n) matrices on and below diagonal `diag`, row by row, as vectors."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = tril_indices(n, n, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """The square matrices whose entries on and below diagonal `diag` are the vectors', row by row; zero above."""
    count = vec.shape[-1]
    n = 1
    while entries_below(n, diag) < count:
        n += 1
    if entries_below(n, diag) != count:
        raise ValueError(
            f"The size of last dimension is {count} which cannot be expressed as the lower triangular part of a "
            "square D x D matrix."
        )
    rows, columns = tril_indices(n, n, diag)
    flat = zeros(*vec.shape[:-1], n * n, dtype=vec.dtype, device=vec.device)
    places = (rows * n + columns).to(vec.device).expand(vec.shape)
    return flat.scatter(-1, places, vec).reshape(*vec.shape[:-1], n, n)


def entries_below(n: int, diag: int) -> int:
    """How many entries an n x n matrix has on and below diagonal `diag`."""
    return sum(min(max(row + diag + 1, 0), n) for row in range(n))


class lazy_property:  # noqa: N801  (PyTorch's name)
    """A property that is computed when it is first read, with gradients, and then kept by the instance."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        """`wrapped`: the method that computes it."""
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__
        self.__name__ = wrapped.__name__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """The value; of the class, a property."""
        if instance is None:
            return _PropertyOfClass(self.wrapped)
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.__name__, value)
        return value


class _PropertyOfClass(lazy_property, property):
    """What a class shows of a lazy property: a property, so that documentation tools see one."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        property.__init__(self, wrapped)


def one_of(probs: Any, logits: Any) -> None:
    """ValueError unless exactly one of the two parameters is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class ProbsOrLogits:
    """The parameters `probs` and `logits`, of which one is given and the other computed when it is asked for."""

    _is_binary = True

    def _take_one(self, probs: Any, logits: Any, *others: Any) -> tuple[Any, ...]:
        """Keep the one that is given, broadcast with the others, which are returned."""
        one_of(probs, logits)
        self._given = "logits" if probs is None else "probs"
        value = logits if probs is None else probs
        value, *rest = broadcast_all(value, *others)
        self.__dict__[self._given] = value
        return tuple(rest)

    @lazy_property
    def logits(self) -> Any:
        """The log odds of a success, or the log weights of the categories."""
        return probs_to_logits(self.probs, is_binary=self._is_binary)

    @lazy_property
    def probs(self) -> Any:
        """The probability of a success, or those of the categories."""
        return logits_to_probs(self.logits, is_binary=self._is_binary)

    @property
    def _param(self) -> Any:
        return self.__dict__[self._given]

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter that was given."""
        return self._param.shape

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._param.new(*args, **kwargs)
