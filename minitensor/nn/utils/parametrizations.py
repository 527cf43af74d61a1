"""Parametrizations: orthogonal matrices, weights of a given length, and of spectral norm one."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from minitensor import linalg
from minitensor._C import Tensor, int32
from minitensor._functions import offered
from minitensor._functions.offered import allclose, cat, eye, geqrf, mv, norm_except_dim, randn, vdot, where, zeros_like
from minitensor.autograd import no_grad
from minitensor.dtypes import finfo
from minitensor.nn.functional import normalize
from minitensor.nn.modules.conv import _ConvTransposeNd
from minitensor.nn.modules.module import Module
from minitensor.nn.utils import parametrize
from minitensor.nn.utils.weight_norm import weight_normed

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


def _is_orthogonal(Q: Tensor) -> bool:  # noqa: N803
    n, k = Q.shape[-2:]
    eps = 10.0 * n * finfo(Q.dtype).eps
    return allclose(Q.mH @ Q, eye(k, dtype=Q.dtype, device=Q.device), atol=eps)


def _make_orthogonal(A: Tensor) -> Tensor:  # noqa: N803
    """Return an orthonormal basis of the columns, each turned to the side of the column that it comes from."""
    q, r = linalg.qr(A)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """Maps matrices to orthogonal ones: Lezcano-Casado and Martínez-Rubio (2019)."""

    base: Any

    def __init__(self, weight: Tensor, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:  # noqa: N803
        """Return the orthogonal matrix, whose longer side is that of ``X``."""
        wide = X.shape[-2] < X.shape[-1]
        x = X.mT if wide else X
        n, k = x.shape[-2:]
        if self.orthogonal_map == _OrthMaps.householder:
            a = x.tril(diagonal=-1)
            tau = 2.0 / (1.0 + (a * a).sum(dim=-2))
            q = linalg.householder_product(a, tau)
            # The diagonal holds signs: 1 or -1.
            q = q * x.diagonal(dim1=-2, dim2=-1).to(int32).unsqueeze(-2)
        else:
            x = x.tril()
            if n != k:
                x = cat([x, x.new_zeros((*x.shape[:-2], n, n - k))], dim=-1)
            a = x - x.mH
            if self.orthogonal_map == _OrthMaps.matrix_exp:
                q = offered.matrix_exp(a)
            else:
                one = eye(n, dtype=a.dtype, device=a.device)
                q = linalg.solve(one - 0.5 * a, one + 0.5 * a)
            if n != k:
                q = q[..., :k]
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if wide else q

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:  # noqa: N803
        """Return what ``Q`` is the orthogonal matrix of; what is not orthogonal is made so."""
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}."
            )
        wide = Q.shape[-2] < Q.shape[-1]
        q = Q.mT if wide else Q
        n, k = q.shape[-2:]
        if hasattr(self, "base"):
            if n != k:
                drawn = randn(*q.shape[:-2], n, n - k, dtype=q.dtype, device=q.device)
                self.base = _make_orthogonal(cat([q, drawn], dim=-1))
            else:
                self.base = q.clone() if _is_orthogonal(q) else _make_orthogonal(q)
            # With the base, minus the identity gives Q again: for zero signs the Householder map would be singular.
            made = zeros_like(Q)
            made.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return made
        if self.orthogonal_map != _OrthMaps.householder:
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False."
            )
        a, tau = geqrf(q)
        signs = a.diagonal(dim1=-2, dim2=-1).sign() * where(tau == 0.0, -1.0, 1.0).to(a.dtype)
        a.diagonal(dim1=-2, dim2=-1).copy_(signs)
        return a.mT if wide else a


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keep a matrix, or a batch of them, orthogonal (unitary if complex): rows or columns, the fewer.

    ``orthogonal_map`` is "matrix_exp", "cayley" or "householder"; by default the first for square and complex matrices,
    the last for others. With ``use_trivialization`` the map is around the first value, which is then kept.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _OrthMaps.__members__:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    made = _Orthogonal(weight, _OrthMaps[orthogonal_map], use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)


class _WeightNorm(Module):
    """Length and direction to a weight: Salimans and Kingma (2016)."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Any:
        """Return ``g * v / norm(v)``."""
        return weight_normed(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Any, Tensor]:
        """Return length and direction of a weight."""
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Compute a weight from its length, one for each index of ``dim``, and its direction."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        old = [f"{prefix}{name}_{letter}" for letter in "gv"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    """Divides a weight by its largest singular value: Miyato and others (2018)."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        rank = weight.ndim
        if not -rank <= dim < rank:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{rank}, {rank - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % rank
        self.eps = eps
        if rank > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._reshape_weight_to_matrix(weight.detach())
            for key, size in zip(("_u", "_v"), matrix.shape, strict=True):
                self.register_buffer(key, normalize(matrix.new_empty(size).normal_(0, 1), dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1)

    @no_grad()
    def _power_method(self, weight_mat: Tensor, n_power_iterations: int) -> None:
        for _ in range(n_power_iterations):
            self._u.copy_(normalize(mv(weight_mat, self._v), dim=0, eps=self.eps))
            self._v.copy_(normalize(mv(weight_mat.mH, self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        """Return the weight over its norm; training improves the estimate of that."""
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = self._reshape_weight_to_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # The graph keeps these; the buffers change with the next call.
        u, v = self._u.clone(), self._v.clone()
        result: Tensor = weight / vdot(u, mv(matrix, v))
        return result

    def right_inverse(self, value: Tensor) -> Tensor:
        """Return the value: it is normalised when it is read."""
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by an estimate of its largest singular value; ``dim`` is that of the outputs."""
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = 1 if isinstance(module, _ConvTransposeNd) else 0
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, made)
