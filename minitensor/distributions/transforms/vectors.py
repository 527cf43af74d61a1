"""Transforms to simplices and to triangular and definite matrices."""

from __future__ import annotations

import math
from typing import Any

from minitensor import linalg
from minitensor._C import Size
from minitensor._functions.offered import arange, eye, sigmoid, tanh
from minitensor.distributions import constraints
from minitensor.distributions.parameters import tril_matrix_to_vec, vec_to_tril_matrix
from minitensor.distributions.transforms.elementwise import _Plain
from minitensor.dtypes import finfo
from minitensor.nn.functional import logsigmoid, pad, softmax

__all__ = [
    "CorrCholeskyTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "SoftmaxTransform",
    "StickBreakingTransform",
]


class CorrCholeskyTransform(_Plain):
    """Vectors of length D (D - 1) / 2 to Cholesky factors of D x D correlation matrices.

    tanh makes partial correlations of them, by which each row is filled from the left: an entry takes its share of
    what the row's length 1 has left, and the diagonal takes the rest (Lewandowski, Kurowicka and Joe, "Generating
    random correlation matrices based on vines and extended onion method", 2009).
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        eps = finfo(x.dtype).eps
        partial = vec_to_tril_matrix(tanh(x).clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - partial * partial).sqrt().cumprod(-1)
        partial = partial + eye(partial.shape[-1], dtype=partial.dtype, device=partial.device)
        return partial * pad(left[..., :-1], [1, 0], value=1.0)

    def _inverse(self, y: Any) -> Any:
        left = pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1.0)
        partial = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (partial.log1p() - partial.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Half the logarithm of what each entry found left of its row, and tanh's, summed."""
        # What is left before column j is what is left after j - 1; of the first column it is 1.
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2)
        of_tanh = 2 * (math.log(2.0) - x + logsigmoid(2 * x)).sum(-1)
        return 0.5 * left.log().sum(-1) + of_tanh

    def forward_shape(self, shape: Any) -> Any:
        """A vector of n becomes a matrix of D x D with n = D (D - 1) / 2; ValueError if there is no such D."""
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        n = shape[-1]
        size = round((0.25 + 2 * n) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != n:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], size, size))

    def inverse_shape(self, shape: Any) -> Any:
        """A square matrix becomes the vector of its entries below the diagonal."""
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class SoftmaxTransform(_Plain):
    """y = exp(x), divided by its sum. Not one to one: its inverse gives log(y)."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Any) -> Any:
        return softmax(x, -1)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        """The same; ValueError for no dimension."""
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The same; ValueError for no dimension."""
        return self.forward_shape(shape)


class StickBreakingTransform(_Plain):
    """Vectors of length n to the simplex of n + 1 numbers, each a share of what those before have left.

    The shares are sigmoids, shifted so that zeros give equal numbers (Stan Reference Manual, "Unit simplex").
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _shift(n: int, like: Any) -> Any:
        return arange(n, 0, -1, dtype=like.dtype, device=like.device).log()

    def _call(self, x: Any) -> Any:
        z = x - self._shift(x.shape[-1], x)
        left = (1 - sigmoid(z).clamp(max=1 - finfo(x.dtype).eps)).cumprod(-1)
        share = pad(sigmoid(z).clamp(min=finfo(x.dtype).tiny), [0, 1], value=1.0)
        return share * pad(left, [1, 0], value=1.0)

    def _inverse(self, y: Any) -> Any:
        taken = y[..., :-1]
        left = (1 - taken.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return taken.log() - left.log() + self._shift(taken.shape[-1], y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log y + log(1 - share), summed."""
        z = x - self._shift(x.shape[-1], x)
        return (logsigmoid(-z) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        """One number more."""
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        """One number less."""
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(_Plain):
    """Square matrices to lower triangular ones with exp of the diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Plain):
    """Square matrices to positive definite ones, by their Cholesky factors."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(linalg.cholesky(y))
