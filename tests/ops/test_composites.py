"""Composed functions against NumPy, or values worked out by hand: nothing here shares code with what it checks."""

import cmath
import itertools
import math

import numpy as np
import pytest

import minitensor as mt
from minitensor.composite import COMPOSITES

A = np.array([[1.5, -2.0, 0.25, 4.0], [3.0, 0.5, -1.0, 2.5], [-0.75, 1.0, 2.0, -3.5]])
B = np.array([[2.0, 1.0, -1.5, 0.5], [0.25, -2.0, 1.0, 3.0], [1.0, 4.0, -0.5, 2.0]])
S = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, -1.0], [0.5, -1.0, 2.0]])  # positive definite
V = np.array([3.0, -1.0, 2.0, 0.5])
W = np.array([1.0, 2.0, -2.0, 4.0])
Z = np.array([1 + 2j, 3 - 1j, -2 + 0.5j])
T3 = np.arange(24.0).reshape(2, 3, 4)
N = np.array([1.0, np.nan, np.inf, -np.inf, 2.0])
I = np.array([5, 0, 3, 3, 1, 5, 5])  # noqa: E741
M = A > 0.3


def t(x, dtype=None):
    return mt.tensor(np.asarray(x), dtype=dtype)


def stft_by_hand(x, n, hop, window):
    frames = [x[i : i + n] * window for i in range(0, len(x) - n + 1, hop)]
    return np.stack([np.fft.rfft(f) for f in frames], 1)


def distances(x, y, p):
    return np.array([[(np.abs(a - b) ** p).sum() ** (1 / p) for b in y] for a in x])


def window(n, f):
    """A periodic window from the formula of the symmetric one."""
    return np.array([f(2 * math.pi * k / n) for k in range(n)])


def put_along(x, index, values, axis):
    x = x.copy()
    np.put_along_axis(x, index, values, axis)
    return x


def replaced(x, where, by):
    x = x.copy()
    x[where] = by
    return x


IDX = np.array([[0, 2, 1, 0], [1, 1, 2, 0]])
SQ = T3[:, :, :3]

# name: what is called, with t() around the operands; what it must give
CASES = {
    # complex
    "complex": (lambda: mt.complex(t(V), t(W)), V + 1j * W),
    "polar": (lambda: mt.polar(t([2.0, 1.0]), t([math.pi / 3, -1.0])), [cmath.rect(2, math.pi / 3), cmath.rect(1, -1)]),
    "conj": (lambda: mt.conj(t(Z)), Z.conj()),
    "conj_physical": (lambda: mt.conj_physical(t(Z)), Z.conj()),
    "resolve_conj": (lambda: mt.resolve_conj(t(Z)), Z),
    "resolve_neg": (lambda: mt.resolve_neg(t(V)), V),
    "real": (lambda: mt.real(t(Z)), Z.real),
    "imag": (lambda: mt.imag(t(Z)), Z.imag),
    "is_conj": (lambda: mt.is_conj(t(Z)), False),
    "is_neg": (lambda: mt.is_neg(t(V)), False),
    # contraction
    "mm": (lambda: mt.mm(t(A), t(B.T)), A @ B.T),
    "bmm": (lambda: mt.bmm(t(T3), t(T3.transpose(0, 2, 1))), T3 @ T3.transpose(0, 2, 1)),
    "mv": (lambda: mt.mv(t(A), t(V)), A @ V),
    "dot": (lambda: mt.dot(t(V), t(W)), -1.0),
    "vdot": (lambda: mt.vdot(t(Z), t(Z * 1j)), (Z.conj() * Z * 1j).sum()),
    "inner": (lambda: mt.inner(t(A), t(B)), A @ B.T),
    "outer": (lambda: mt.outer(t(V), t(W)), V[:, None] * W),
    "kron": (lambda: mt.kron(t(A), t(S)), np.kron(A, S)),
    "addmm": (lambda: mt.addmm(t(S), t(A), t(B.T), beta=2, alpha=0.5), 2 * S + 0.5 * (A @ B.T)),
    "addmv": (lambda: mt.addmv(t(S[0]), t(A), t(V), beta=3, alpha=-1), 3 * S[0] - A @ V),
    "addr": (lambda: mt.addr(t(A), t(S[0]), t(V), beta=0.5, alpha=2), 0.5 * A + 2 * np.outer(S[0], V)),
    "baddbmm": (lambda: mt.baddbmm(t(SQ), t(T3), t(T3.transpose(0, 2, 1)), beta=2, alpha=3),
                2 * SQ + 3 * T3 @ T3.transpose(0, 2, 1)),
    "addbmm": (lambda: mt.addbmm(t(S), t(T3), t(T3.transpose(0, 2, 1)), beta=2, alpha=3),
               2 * S + 3 * (T3 @ T3.transpose(0, 2, 1)).sum(0)),
    "tensordot": (lambda: mt.tensordot(t(T3), t(T3), dims=([0, 2], [0, 2])), np.tensordot(T3, T3, ([0, 2], [0, 2]))),
    "tensordot 1": (lambda: mt.tensordot(t(T3), t(A.T), dims=1), np.tensordot(T3, A.T, 1)),
    "bilinear": (lambda: mt.bilinear(t(A), t(B), t(np.stack([np.ones((4, 4)), np.eye(4)])), t([1.0, -1.0])),
                 np.stack([A.sum(1) * B.sum(1) + 1, (A * B).sum(1) - 1], 1)),
    "trace": (lambda: mt.trace(t(A)), 1.5 + 0.5 + 2.0),
    "cross": (lambda: mt.cross(t(S), t(S[::-1].copy()), dim=1), np.cross(S, S[::-1])),
    # shape
    "reshape": (lambda: mt.reshape(t(A), (2, -1)), A.reshape(2, 6)),
    "reshape_as": (lambda: t(A).reshape_as(t(A.T)), A.reshape(4, 3)),
    "view_as": (lambda: t(A).view_as(t(A.T)), A.reshape(4, 3)),
    "expand_as": (lambda: t(V).expand_as(t(A)), np.broadcast_to(V, (3, 4))),
    "broadcast_to": (lambda: mt.broadcast_to(t(V), (2, 4)), np.broadcast_to(V, (2, 4))),
    "broadcast_shapes": (lambda: list(mt.broadcast_shapes((3, 1), (2, 1, 4))), [2, 3, 4]),
    "broadcast_tensors": (lambda: mt.broadcast_tensors(t(V), t(A)), [np.broadcast_to(V, (3, 4)), A]),
    "movedim": (lambda: mt.movedim(t(T3), (0, 1), (2, 0)), np.moveaxis(T3, (0, 1), (2, 0))),
    "swapaxes": (lambda: mt.swapaxes(t(T3), 0, -1), T3.swapaxes(0, 2)),
    "t": (lambda: mt.t(t(A)), A.T),
    "adjoint": (lambda: mt.adjoint(t(np.outer(Z, Z * 2))), np.outer(Z, Z * 2).conj().T),
    "flatten": (lambda: mt.flatten(t(T3), 1), T3.reshape(2, 12)),
    "unflatten": (lambda: mt.unflatten(t(A), 1, (2, -1)), A.reshape(3, 2, 2)),
    "ravel": (lambda: mt.ravel(t(A.T)), A.T.ravel()),
    "atleast_1d": (lambda: mt.atleast_1d(t(2.0)), [2.0]),
    "atleast_2d": (lambda: mt.atleast_2d(t(V)), V[None]),
    "atleast_3d": (lambda: mt.atleast_3d(t(A)), np.atleast_3d(A)),
    "repeat": (lambda: t(A).repeat(2, 1, 2), np.tile(A, (2, 1, 2))),
    "tile": (lambda: mt.tile(t(T3), (2,)), np.tile(T3, 2)),
    "repeat_interleave": (lambda: mt.repeat_interleave(t(A), t([2, 0, 1]), dim=0), np.repeat(A, [2, 0, 1], 0)),
    "repeat_interleave 1": (lambda: mt.repeat_interleave(t(A), 2), np.repeat(A, 2)),
    "narrow": (lambda: mt.narrow(t(A), 1, -3, 2), A[:, 1:3]),
    "unbind": (lambda: mt.unbind(t(A), 1), list(A.T)),
    "fliplr": (lambda: mt.fliplr(t(A)), A[:, ::-1]),
    "flipud": (lambda: mt.flipud(t(A)), A[::-1]),
    "rot90": (lambda: mt.rot90(t(A), -1), np.rot90(A, -1)),
    "rot90 planes": (lambda: mt.rot90(t(T3), 3, (1, 2)), np.rot90(T3, 3, (1, 2))),
    # joining
    "stack": (lambda: mt.stack([t(A), t(B)], -1), np.stack([A, B], -1)),
    "hstack": (lambda: mt.hstack([t(A), t(B)]), np.hstack([A, B])),
    "hstack of vectors": (lambda: mt.hstack([t(V), t(W)]), np.hstack([V, W])),
    "vstack": (lambda: mt.vstack([t(V), t(W)]), np.vstack([V, W])),
    "dstack": (lambda: mt.dstack([t(V), t(W)]), np.dstack([V, W])),
    "column_stack": (lambda: mt.column_stack([t(V), t(A.T)]), np.column_stack([V, A.T])),
    "block_diag": (lambda: mt.block_diag(t([[1.0, 2.0]]), t(3.0), t([4.0])),
                   [[1, 2, 0, 0], [0, 0, 3, 0], [0, 0, 0, 4]]),
    "meshgrid": (lambda: mt.meshgrid(t(V), t([1.0, 2.0]), t([7.0, 8.0, 9.0]), indexing="ij"),
                 np.meshgrid(V, [1.0, 2.0], [7.0, 8.0, 9.0], indexing="ij")),
    "meshgrid xy": (lambda: mt.meshgrid(t(V), t([1.0, 2.0]), t([7.0, 8.0, 9.0]), indexing="xy"),
                    np.meshgrid(V, [1.0, 2.0], [7.0, 8.0, 9.0], indexing="xy")),
    "meshgrid of one": (lambda: mt.meshgrid(t(V), indexing="xy"), [V]),
    "cartesian_prod": (lambda: mt.cartesian_prod(t([1, 2]), t([3, 4])), list(itertools.product([1, 2], [3, 4]))),
    "combinations": (lambda: mt.combinations(t([1, 2, 3]), 2, with_replacement=True),
                     list(itertools.combinations_with_replacement([1, 2, 3], 2))),
    "combinations without": (lambda: mt.combinations(t([1, 2, 3, 4]), 3), [(1, 2, 3), (1, 2, 4), (1, 3, 4), (2, 3, 4)]),
    "split": (lambda: mt.split(t(A), 3, 1), [A[:, :3], A[:, 3:]]),
    "split_with_sizes": (lambda: mt.split_with_sizes(t(A), [1, 3], 1), [A[:, :1], A[:, 1:]]),
    "chunk": (lambda: mt.chunk(t(np.arange(7)), 3), [[0, 1, 2], [3, 4, 5], [6]]),
    "tensor_split": (lambda: mt.tensor_split(t(np.arange(7)), 3), np.array_split(np.arange(7), 3)),
    "tensor_split at": (lambda: mt.tensor_split(t(A), (1, 3), 1), [A[:, :1], A[:, 1:3], A[:, 3:]]),
    "hsplit": (lambda: mt.hsplit(t(A), 2), np.hsplit(A, 2)),
    "vsplit": (lambda: mt.vsplit(t(A), [1]), np.vsplit(A, [1])),
    "dsplit": (lambda: mt.dsplit(t(T3), 2), np.dsplit(T3, 2)),
    # creation
    "full": (lambda: mt.full((2, 3), 7.5), np.full((2, 3), 7.5)),
    "zeros": (lambda: mt.zeros(2, 3), np.zeros((2, 3))),
    "ones": (lambda: mt.ones((2,)), [1.0, 1.0]),
    "full_like": (lambda: mt.full_like(t(A), 3), np.full((3, 4), 3.0)),
    "zeros_like": (lambda: mt.zeros_like(t(A)), np.zeros((3, 4))),
    "ones_like": (lambda: mt.ones_like(t(I)), np.ones(7, int)),
    "scalar_tensor": (lambda: mt.scalar_tensor(2.5), 2.5),
    "arange": (lambda: mt.arange(1, 2.6, 0.5), [1.0, 1.5, 2.0, 2.5]),
    "range": (lambda: mt.arange(3, -4, -3), [3, 0, -3]),
    "linspace": (lambda: mt.linspace(-1, 2, 4), [-1.0, 0.0, 1.0, 2.0]),
    "logspace": (lambda: mt.logspace(0, 2, 3, dtype=mt.float64), [1.0, 10.0, 100.0]),
    "eye": (lambda: mt.eye(2, 3), np.eye(2, 3)),
    "bartlett_window": (lambda: mt.bartlett_window(4, dtype=mt.float64), [0.0, 0.5, 1.0, 0.5]),
    "hann_window": (lambda: mt.hann_window(5, dtype=mt.float64), window(5, lambda a: 0.5 - 0.5 * math.cos(a))),
    "hann_window symmetric": (lambda: mt.hann_window(5, periodic=False, dtype=mt.float64), np.hanning(5)),
    "hamming_window": (lambda: mt.hamming_window(5, False, dtype=mt.float64), np.hamming(5)),
    "blackman_window": (lambda: mt.blackman_window(6, False, dtype=mt.float64), np.blackman(6)),
    "kaiser_window": (lambda: mt.kaiser_window(6, False, beta=5.0, dtype=mt.float64), np.kaiser(6, 5.0)),
    # diagonals
    "diag": (lambda: mt.diag(t(V), 1), np.diag(V, 1)),
    "diag of a matrix": (lambda: mt.diag(t(A), -1), np.diag(A, -1)),
    "diag_embed": (lambda: mt.diag_embed(t(A), -1), np.stack([np.diag(r, -1) for r in A])),
    "diagflat": (lambda: mt.diagflat(t([[1.0, 2.0]]), 1), np.diagflat([[1.0, 2.0]], 1)),
    "select_scatter": (lambda: mt.select_scatter(t(A), t(V), 0, -1), replaced(A, 2, V)),
    "slice_scatter": (lambda: mt.slice_scatter(t(A), t(B[:, :2]), 1, 0, None, 2), replaced(A, np.s_[:, ::2], B[:, :2])),
    "diagonal_scatter": (lambda: mt.diagonal_scatter(t(A), t([7.0, 8.0, 9.0]), 1),
                         replaced(A, (np.arange(3), np.arange(1, 4)), [7.0, 8.0, 9.0])),
    "as_strided_scatter": (lambda: mt.as_strided_scatter(t(A), t([[7.0, 8.0]]), (1, 2), (1, 5), 2),
                           replaced(A.ravel(), [2, 7], [7.0, 8.0]).reshape(3, 4)),
    "vander": (lambda: mt.vander(t(V), 3), np.vander(V, 3)),
    "vander increasing": (lambda: mt.vander(t(V), increasing=True), np.vander(V, increasing=True)),
    "unravel_index": (lambda: mt.unravel_index(t([5, 11, 0]), (3, 4)), np.unravel_index([5, 11, 0], (3, 4))),
    # differences, distances
    "gradient": (lambda: mt.gradient(t(A)), np.gradient(A)),
    "gradient spaced": (lambda: mt.gradient(t(V), spacing=(t([0.0, 1.0, 3.0, 4.5]),)),
                        [np.gradient(V, [0.0, 1.0, 3.0, 4.5])]),
    "cdist": (lambda: mt.cdist(t(A), t(B), p=3.0), distances(A, B, 3.0)),
    "cdist euclidean": (lambda: mt.cdist(t(A), t(B)), distances(A, B, 2.0)),
    "pdist": (lambda: mt.pdist(t(A)), distances(A, A, 2.0)[np.triu_indices(3, 1)]),
    "einsum": (lambda: mt.einsum("bij,kj,b->ik", t(T3), t(A), t([2.0, -1.0])),
               np.einsum("bij,kj,b->ik", T3, A, [2.0, -1.0])),
    # indexing
    "gather": (lambda: mt.gather(t(A), 0, t(IDX)), np.take_along_axis(A, IDX, 0)),
    "scatter": (lambda: mt.scatter(t(A), 0, t([[0, 2, 1, 0]]), t(B)), put_along(A, np.array([[0, 2, 1, 0]]), B[:1], 0)),
    "scatter_add": (lambda: mt.scatter_add(t(V), 0, t([0, 1, 0]), t(S[0])), [3 + 4 + 0.5, -1 + 1.0, 2.0, 0.5]),
    "scatter_reduce sum": (lambda: mt.scatter_reduce(t(V), 0, t([0, 1, 0]), t(S[0]), "sum"), [7.5, 0.0, 2.0, 0.5]),
    "scatter_reduce sum without": (
        lambda: mt.scatter_reduce(t(V), 0, t([0, 1, 0]), t(S[0]), "sum", include_self=False), [4.5, 1.0, 2.0, 0.5]),
    "scatter_reduce prod without": (
        lambda: mt.scatter_reduce(t(V), 0, t([0, 1, 0]), t(S[0]), "prod", include_self=False), [2.0, 1.0, 2.0, 0.5]),
    "scatter_reduce mean": (lambda: mt.scatter_reduce(t(V), 0, t([0, 1, 0]), t(S[0]), "mean"), [2.5, 0.0, 2.0, 0.5]),
    "scatter_reduce mean without": (
        lambda: mt.scatter_reduce(t(V), 0, t([0, 1, 0]), t(S[0]), "mean", include_self=False), [2.25, 1.0, 2.0, 0.5]),
    "scatter_reduce amax": (lambda: mt.scatter_reduce(t(V), 0, t([0, 1, 0]), t(S[0]), "amax"), [4.0, 1.0, 2.0, 0.5]),
    "scatter_reduce amax without": (
        lambda: mt.scatter_reduce(t(V * 9), 0, t([0, 1, 0]), t(S[0]), "amax", include_self=False),
        [4.0, 1.0, 18.0, 4.5]),
    "scatter_reduce amin": (lambda: mt.scatter_reduce(t(V), 0, t([0, 1, 0]), t(S[0]), "amin"), [0.5, -1.0, 2.0, 0.5]),
    "take_along_dim": (lambda: mt.take_along_dim(t(A), t(IDX - 3), 0), np.take_along_axis(A, IDX - 3, 0)),
    "take_along_dim wide": (lambda: mt.take_along_dim(t(A), t([[-1], [-4], [2]]), 1),
                            np.take_along_axis(A, np.array([[-1], [-4], [2]]), 1)),
    "take_along_dim line": (lambda: mt.take_along_dim(t(A), t([0, 11, 5])), A.ravel()[[0, 11, 5]]),
    "index_select": (lambda: mt.index_select(t(A), 1, t([3, 0, 3])), A[:, [3, 0, 3]]),
    "index_add": (lambda: mt.index_add(t(V), 0, t([1, 1]), t([5.0, 6.0]), alpha=2), [3.0, 21.0, 2.0, 0.5]),
    "index_copy": (lambda: mt.index_copy(t(A), 0, t([2, 0]), t(B[:2])), np.stack([B[1], A[1], B[0]])),
    "index_fill": (lambda: mt.index_fill(t(A), 1, t([-1, 0]), 9), replaced(A, np.s_[:, [0, 3]], 9)),
    "index_reduce": (lambda: mt.index_reduce(t(V), 0, t([0, 2, 0]), t([2.0, 5.0, 4.0]), "prod"),
                     [24.0, -1.0, 10.0, 0.5]),
    "index_reduce without": (
        lambda: mt.index_reduce(t(V), 0, t([0, 2, 0]), t([2.0, 5.0, 4.0]), "mean", include_self=False),
        [3.0, -1.0, 5.0, 0.5]),
    "take": (lambda: mt.take(t(A), t([[11, -1], [0, 4]])), A.ravel()[[[11, -1], [0, 4]]]),
    "put": (lambda: mt.put(t(V), t([0, -1]), t([7.0, 8.0])), [7.0, -1.0, 2.0, 8.0]),
    "index_put": (lambda: mt.index_put(t(A), (t([0, 0]), t([1, 1])), t([2.0, 3.0]), accumulate=True),
                  replaced(A, (0, 1), 3.0)),
    "masked_scatter": (lambda: mt.masked_scatter(t(A), t(M), t(np.arange(12.0))),
                       replaced(A, M, np.arange(float(M.sum())))),
    "argwhere": (lambda: mt.argwhere(t(M)), np.argwhere(M)),
    "nonzero": (lambda: mt.nonzero(t(M), as_tuple=True), np.nonzero(M)),
    "nonzero_static": (lambda: mt.nonzero_static(t(I), size=8, fill_value=-1),
                       [[0], [2], [3], [4], [5], [6], [-1], [-1]]),
    "nonzero_static of few": (lambda: mt.nonzero_static(t([0, 3, 0]), size=4), [[1], [-1], [-1], [-1]]),
    "nonzero_static of none": (lambda: mt.nonzero_static(t([[0, 0]]), size=2, fill_value=7), [[7, 7], [7, 7]]),
    "nonzero_static of more": (lambda: mt.nonzero_static(t([1, 0, 3]), size=1), [[0]]),
    "where": (lambda: mt.where(t(M), t(A), t(0.5)), np.where(M, A, 0.5)),
    "isin of many": (lambda: mt.isin(t(np.arange(60).reshape(6, 10)), t(np.arange(80, 10, -3))),
                     np.isin(np.arange(60).reshape(6, 10), np.arange(80, 10, -3))),
    "isin": (lambda: mt.isin(t(I), t([3, 5]), invert=True), np.isin(I, [3, 5], invert=True)),
    # reduction
    "max": (lambda: mt.max(t(A), 1), [A.max(1), A.argmax(1)]),
    "min": (lambda: mt.min(t(A), 0), [A.min(0), A.argmin(0)]),
    "aminmax": (lambda: mt.aminmax(t(A), dim=1), [A.min(1), A.max(1)]),
    "var": (lambda: mt.var(t(A), 1), A.var(1, ddof=1)),
    "std": (lambda: mt.std(t(A), correction=0), A.std()),
    "var_mean": (lambda: mt.var_mean(t(A), 0), [A.var(0, ddof=1), A.mean(0)]),
    "std_mean": (lambda: mt.std_mean(t(A), 0, correction=2), [A.std(0, ddof=2), A.mean(0)]),
    "nanmean": (lambda: mt.nanmean(t([1.0, np.nan, 4.0])), 2.5),
    "norm": (lambda: mt.norm(t(A), 3, 1), (np.abs(A) ** 3).sum(1) ** (1 / 3)),
    "nuclear_norm": (lambda: mt.nuclear_norm(t(A)), np.linalg.norm(A, "nuc")),
    "frobenius_norm": (lambda: mt.norm(t(A)), np.linalg.norm(A)),
    "renorm": (lambda: mt.renorm(t([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0),
               [[3 / (5 + 1e-7), 4 / (5 + 1e-7)], [0.3, 0.4]]),
    "dist": (lambda: mt.dist(t(V), t(W), 1), np.abs(V - W).sum()),
    "logsumexp": (lambda: mt.logsumexp(t(A), 1), np.log(np.exp(A).sum(1))),
    "logsumexp infinite": (lambda: mt.logsumexp(t([-np.inf, -np.inf]), 0), -np.inf),
    "count_nonzero": (lambda: mt.count_nonzero(t(I)), 6),
    "equal": (lambda: [mt.equal(t(A), t(A)), mt.equal(t(A), t(B)), mt.equal(t(A), t(A.T))], [True, False, False]),
    "allclose": (lambda: [mt.allclose(t(A), t(A + 1e-9)), mt.allclose(t(A), t(B))], [True, False]),
    # linear algebra
    "det": (lambda: mt.det(t(S)), np.linalg.det(S)),
    "logdet": (lambda: mt.logdet(t(S)), np.log(np.linalg.det(S))),
    "slogdet": (lambda: mt.slogdet(t(-S)), list(np.linalg.slogdet(-S))),
    "inverse": (lambda: mt.inverse(t(S)), np.linalg.inv(S)),
    "pinverse": (lambda: mt.pinverse(t(A)), np.linalg.pinv(A)),
    "matrix_power": (lambda: mt.matrix_power(t(S), -2), np.linalg.matrix_power(S, -2)),
    "matrix_exp": (lambda: mt.matrix_exp(t([[0.0, 1.0], [0.0, 0.0]])), [[1.0, 1.0], [0.0, 1.0]]),
    "cholesky": (lambda: mt.cholesky(t(S)), np.linalg.cholesky(S)),
    "cholesky_solve": (lambda: mt.cholesky_solve(t(A), t(np.linalg.cholesky(S))), np.linalg.solve(S, A)),
    "cholesky_inverse": (lambda: mt.cholesky_inverse(t(np.linalg.cholesky(S))), np.linalg.inv(S)),
    "triangular_solve": (lambda: mt.triangular_solve(t(A), t(S))[0], np.linalg.solve(np.triu(S), A)),
    # metadata
    "is_nonzero": (lambda: [mt.is_nonzero(t(0.0)), mt.is_nonzero(t([-2]))], [False, True]),
    "is_same_size": (lambda: [mt.is_same_size(t(A), t(B)), mt.is_same_size(t(A), t(A.T))], [True, False]),
    "fill_diagonal_": (lambda: t(A).fill_diagonal_(9.0), replaced(A, (np.arange(3), np.arange(3)), 9.0)),
    "sum_to_size": (lambda: t(T3).sum_to_size(3, 1), T3.sum(0).sum(1, keepdims=True)),
    "frombuffer": (lambda: mt.frombuffer(bytearray(b"\x01\x00\x02\x00\x03\x00"), dtype=mt.int16, offset=2), [2, 3]),
    "apply_": (lambda: t(V).apply_(lambda x: x * x), V * V),
    "map_": (lambda: t(V).map_(t(W), lambda x, y: x - y), V - W),
    # order
    "sort": (lambda: mt.sort(t(A), 1, descending=True), [-np.sort(-A, 1), np.argsort(-A, 1)]),
    "sort stable": (lambda: mt.sort(t(I), stable=True), [np.sort(I), np.argsort(I, kind="stable")]),
    "argsort": (lambda: mt.argsort(t(A), 0), np.argsort(A, 0)),
    "msort": (lambda: mt.msort(t(A)), np.sort(A, 0)),
    "median": (lambda: mt.median(t(A), 1), [np.sort(A, 1)[:, 1], np.argsort(A, 1)[:, 1]]),
    "nanmedian": (lambda: mt.nanmedian(t([3.0, np.nan, 1.0, 2.0])), 2.0),
    "quantile": (lambda: mt.quantile(t(A), t([0.25, 0.6]), dim=1), np.quantile(A, [0.25, 0.6], axis=1)),
    "nanquantile": (lambda: mt.nanquantile(t([1.0, np.nan, 4.0]), 0.5), 2.5),
    "searchsorted": (lambda: mt.searchsorted(t([1.0, 2.0, 2.0, 5.0]), t([2.0, 0.0, 9.0]), right=True), [3, 0, 4]),
    "bucketize": (lambda: mt.bucketize(t([2.0, 0.0, 9.0]), t([1.0, 2.0, 2.0, 5.0])), [1, 0, 4]),
    "unique": (lambda: mt.unique(t(I), return_inverse=True, return_counts=True),
               np.unique(I, return_inverse=True, return_counts=True)),
    "unique rows": (lambda: mt.unique(t([[2, 1], [1, 3], [2, 1]]), dim=0), [[1, 3], [2, 1]]),
    "unique_consecutive": (lambda: mt.unique_consecutive(t(I), return_counts=True), [[5, 0, 3, 1, 5], [1, 1, 2, 1, 2]]),
    "pad": (lambda: mt.nn.functional.pad(t(A), (1, 2, 0, 1), value=7.0),
            np.pad(A, ((0, 1), (1, 2)), constant_values=7.0)),
    "pad reflect": (lambda: mt.nn.functional.pad(t(T3), (1, 2), "reflect"),
                    np.pad(T3, ((0, 0), (0, 0), (1, 2)), "reflect")),
    "pad circular": (lambda: mt.nn.functional.pad(t(T3), (1, 2), "circular"),
                     np.pad(T3, ((0, 0), (0, 0), (1, 2)), "wrap")),
    "pad replicate": (lambda: mt.nn.functional.pad(t(T3), (1, 2), "replicate"),
                      np.pad(T3, ((0, 0), (0, 0), (1, 2)), "edge")),
    # pointwise
    "add": (lambda: mt.add(t(A), t(B), alpha=3), A + 3 * B),
    "sub": (lambda: mt.sub(t(A), t(B), alpha=0.5), A - 0.5 * B),
    "rsub": (lambda: mt.rsub(t(A), t(B), alpha=2), B - 2 * A),
    "clamp": (lambda: mt.clamp(t(A), t(V), t(W)), np.minimum(np.maximum(A, V), W)),
    "clamp_min": (lambda: mt.clamp_min(t(A), 0.5), np.maximum(A, 0.5)),
    "clamp_max": (lambda: mt.clamp_max(t(A), 0.5), np.minimum(A, 0.5)),
    "div floor": (lambda: mt.div(t(A), t(B), rounding_mode="floor"), np.floor(A / B)),
    "div trunc": (lambda: mt.div(t([-7, 7]), t([2, -2]), rounding_mode="trunc"), [-3, -3]),
    "round": (lambda: mt.round(t([0.5, 1.5, -2.5, 1.255]), decimals=0), [0.0, 2.0, -2.0, 1.0]),
    "round decimals": (lambda: mt.round(t([123.456, -0.04]), decimals=1), [123.5, -0.0]),
    "fix": (lambda: mt.fix(t(A)), np.trunc(A)),
    "frexp": (lambda: mt.frexp(t(A)), list(np.frexp(A))),
    "ldexp": (lambda: mt.ldexp(t(V), t([1, -1, 3, 0])), np.ldexp(V, [1, -1, 3, 0])),
    "deg2rad": (lambda: mt.deg2rad(t(V)), np.deg2rad(V)),
    "rad2deg": (lambda: mt.rad2deg(t(V)), np.rad2deg(V)),
    "addcmul": (lambda: mt.addcmul(t(A), t(B), t(W), value=2), A + 2 * B * W),
    "addcdiv": (lambda: mt.addcdiv(t(A), t(B), t(W), value=2), A + 2 * B / W),
    "lerp": (lambda: mt.lerp(t(A), t(B), 0.25), A + 0.25 * (B - A)),
    "logaddexp": (lambda: mt.logaddexp(t(A), t(B)), np.logaddexp(A, B)),
    "float_power": (lambda: mt.float_power(t(I), 1.5), I**1.5),
    "logit": (lambda: mt.logit(t([0.25, 0.9, 0.0]), eps=0.1), np.log(np.array([0.25 / 0.75, 9.0, 0.1 / 0.9]))),
    "expit": (lambda: mt.special.expit(t(V)), 1 / (1 + np.exp(-V))),
    "gammaln": (lambda: mt.special.gammaln(t([1.0, 4.5])), [math.lgamma(1.0), math.lgamma(4.5)]),
    "mvlgamma": (lambda: mt.mvlgamma(t([3.0]), 2), [0.5 * math.log(math.pi) + math.lgamma(3.0) + math.lgamma(2.5)]),
    "psi": (lambda: mt.special.psi(t([1.0, 2.0])), [-np.euler_gamma, 1 - np.euler_gamma]),
    "polygamma": (lambda: mt.polygamma(1, t([1.0, 2.0])), [math.pi**2 / 6, math.pi**2 / 6 - 1]),
    "gammainc": (lambda: mt.special.gammainc(t([1.0]), t([2.0])), [1 - math.exp(-2)]),
    "gammaincc": (lambda: mt.special.gammaincc(t([2.0]), t([3.0])), [4 * math.exp(-3)]),
    "nan_to_num": (lambda: mt.nan_to_num(t(N), 0.5, 9.0, -9.0), [1.0, 0.5, 9.0, -9.0, 2.0]),
    "isreal": (lambda: mt.isreal(t(np.array([1 + 0j, 1j]))), [True, False]),
    "isclose": (lambda: mt.isclose(t(N), t(np.array([1 + 1e-7, np.nan, np.inf, np.inf, 3.0])), equal_nan=True),
                [True, True, True, False, False]),
    "prelu": (lambda: mt.prelu(t(A), t([0.5])), np.where(A > 0, A, 0.5 * A)),
    # statistics
    "bincount": (lambda: mt.bincount(t(I)), np.bincount(I)),
    "bincount of zeros": (lambda: mt.bincount(t([0, 0, 0])), [3]),
    "bincount of none": (lambda: mt.bincount(t([], mt.int64), minlength=2), [0, 0]),
    "bincount weights": (lambda: mt.bincount(t(I), t(np.arange(7.0)), minlength=8), np.bincount(I, np.arange(7.0), 8)),
    "histc": (lambda: mt.histc(t(A), 5, -3, 3), np.histogram(A, 5, (-3, 3))[0]),
    "histc of equal": (lambda: mt.histc(mt.ones(3), 4), [0, 0, 3, 0]),
    "histogram": (lambda: mt.histogram(t(A), 4), np.histogram(A, 4)),
    "histogram of equal": (lambda: mt.histogram(mt.ones(3), 3), [[0, 3, 0], [0.5, 0.5 + 1 / 3, 0.5 + 2 / 3, 1.5]]),
    "histogram edges": (lambda: mt.histogram(t(V), t([-1.0, 0.0, 2.0, 3.0]), weight=t(W), density=True),
                        np.histogram(V, [-1.0, 0.0, 2.0, 3.0], weights=W, density=True)),
    "histogramdd": (lambda: mt.histogramdd(t(A[:, :2]), (2, 3))[0], np.histogramdd(A[:, :2], (2, 3))[0]),
    "cov": (lambda: mt.cov(t(A), correction=0, fweights=t([1, 2, 1, 3])), np.cov(A, ddof=0, fweights=[1, 2, 1, 3])),
    "corrcoef": (lambda: mt.corrcoef(t(A)), np.corrcoef(A)),
    "diff": (lambda: mt.diff(t(A), 2, 1, prepend=t(B[:, :1])), np.diff(A, 2, 1, prepend=B[:, :1])),
    "trapezoid": (lambda: mt.trapezoid(t(A), t([0.0, 1.0, 3.0, 4.5])), np.trapezoid(A, [0.0, 1.0, 3.0, 4.5])),
    "cumulative_trapezoid": (lambda: mt.cumulative_trapezoid(t(V), dx=2), np.cumsum(V[1:] + V[:-1])),
    "segment_reduce": (lambda: mt.segment_reduce(t(V), "sum", lengths=t([1, 0, 3]), initial=0.0), [3.0, 0.0, 1.5]),
    # spectral
    "stft": (lambda: mt.stft(t(np.arange(12.0) ** 2), 4, 2, window=t(np.hanning(4)), center=False, return_complex=True),
             stft_by_hand(np.arange(12.0) ** 2, 4, 2, np.hanning(4))),
}  # fmt: skip


def as_arrays(result):
    if isinstance(result, mt.Tensor):
        return np.asarray(result.numpy())
    if isinstance(result, (tuple, list)) and any(isinstance(part, mt.Tensor) for part in result):
        return [as_arrays(part) for part in result]
    return np.asarray(result)


@pytest.mark.filterwarnings("ignore:torch.cholesky is deprecated", "ignore::UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_against_numpy(name):
    call, expected = CASES[name]
    got = as_arrays(call())
    if not isinstance(got, list):
        got, expected = [got], [expected]
    assert len(got) == len(expected)
    for mine, theirs in zip(got, expected, strict=True):
        assert mine.shape == np.shape(theirs)
        single = mine.dtype.itemsize <= 4 or mine.dtype == np.complex64
        np.testing.assert_allclose(mine, theirs, rtol=1e-6 if single else 1e-12, atol=1e-7 if single else 1e-12)


COPIES = {
    "alias_copy": (lambda x: mt.alias_copy(x), A), "detach_copy": (lambda x: mt.detach_copy(x), A),
    "diagonal_copy": (lambda x: mt.diagonal_copy(x, 1), np.diagonal(A, 1)),
    "expand_copy": (lambda x: mt.expand_copy(x, (2, 3, 4)), np.stack([A, A])),
    "permute_copy": (lambda x: mt.permute_copy(x, (1, 0)), A.T), "t_copy": (lambda x: mt.t_copy(x), A.T),
    "select_copy": (lambda x: mt.select_copy(x, 1, 2), A[:, 2]),
    "slice_copy": (lambda x: mt.slice_copy(x, 1, 0, None, 2), A[:, ::2]),
    "squeeze_copy": (lambda x: mt.squeeze_copy(x), A), "unsqueeze_copy": (lambda x: mt.unsqueeze_copy(x, 0), A[None]),
    "transpose_copy": (lambda x: mt.transpose_copy(x, 0, 1), A.T),
    "view_copy": (lambda x: mt.view_copy(x, (4, 3)), A.reshape(4, 3)),
    "unfold_copy": (lambda x: mt.unfold_copy(x, 1, 2, 2), A.reshape(3, 2, 2)),
    "narrow_copy": (lambda x: mt.narrow_copy(x, 0, 1, 2), A[1:]),
    "as_strided_copy": (lambda x: mt.as_strided_copy(x, (2, 2), (1, 4), 1), [[-2.0, 0.5], [0.25, -1.0]]),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
def test_copies_have_memory_of_their_own(name):
    call, expected = COPIES[name]
    x = t(A)
    got = call(x)
    assert np.array_equal(got.numpy(), expected)
    x.fill_(0)
    assert np.array_equal(got.numpy(), expected)


@pytest.mark.parametrize(
    "name", ["scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_fill", "index_reduce"]
)
def test_in_place_forms_write_what_the_plain_ones_return(name):
    arguments = {
        "scatter": (0, t([[0, 2, 1, 0]]), t(B)), "scatter_add": (0, t([[0, 2, 1, 0]]), t(B)),
        "scatter_reduce": (0, t([[0, 2, 1, 0]]), t(B), "amin"), "index_add": (0, t([2, 2]), t(B[:2])),
        "index_copy": (0, t([2, 0]), t(B[:2])), "index_fill": (1, t([1]), 4.0),
        "index_reduce": (0, t([2, 2]), t(B[:2]), "prod"),
    }[name]  # fmt: skip
    expected = {
        "scatter": put_along(A, np.array([[0, 2, 1, 0]]), B[:1], 0),
        "scatter_add": A + np.array([[2.0, 0, 0, 0.5], [0, 0, -1.5, 0], [0, 1.0, 0, 0]]),
        "scatter_reduce": np.minimum(A, np.array([[2, np.inf, np.inf, 0.5], [np.inf, np.inf, -1.5, np.inf],
                                                  [np.inf, 1.0, np.inf, np.inf]])),
        "index_add": replaced(A, 2, A[2] + B[0] + B[1]), "index_copy": np.stack([B[1], A[1], B[0]]),
        "index_fill": replaced(A, np.s_[:, 1], 4.0), "index_reduce": replaced(A, 2, A[2] * B[0] * B[1]),
    }[name]  # fmt: skip
    x = t(A)
    assert getattr(x, f"{name}_")(*arguments) is x
    assert np.allclose(x.numpy(), expected, rtol=1e-12, atol=0)


def test_the_gradient_of_a_complex_quotient():
    # Of the real part of w * x / y, with the derivative as conjugate, as PyTorch has it: conj(w / y), conj(-w x / y^2).
    x, y, w = 1 + 2j, 3 - 1j, 2 - 0.5j
    a, b = (mt.tensor(v, dtype=mt.complex128, requires_grad=True) for v in (x, y))
    (mt.tensor(w, dtype=mt.complex128) * (a / b)).real.backward()
    assert cmath.isclose(a.grad.item(), (w / y).conjugate(), rel_tol=1e-14)
    assert cmath.isclose(b.grad.item(), (-w * x / y**2).conjugate(), rel_tol=1e-14)


# Without an oracle here: what the memory or the kind of a tensor is, random draws, decompositions and solvers (held
# against NumPy and their own definitions in tests/linalg), sparse tensors (tests/sparse), and the forms of those above
# under another name.
ELSEWHERE = {"decompositions", "solvers", "products", "norms", "random", "layout", "metadata", "copies", "lowrank",
             "sparse"}  # fmt: skip


def test_most_have_an_oracle():
    named = {name.split()[0] for name in CASES}
    missing = {
        c.name
        for c in COMPOSITES.values()
        if c.call.__module__.startswith("minitensor.composite.")
        and not ELSEWHERE.intersection(c.call.__module__.split("."))
        and c.name.removeprefix("special_") not in named
        and not c.name.endswith("_")
    }
    assert missing == {
        "chain_matmul", "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
        "new_full", "new_ones", "new_tensor", "new_zeros", "hash_tensor", "norm_except_dim", "istft", "lu", "qr", "svd",
        "geqrf", "orgqr", "ormqr", "lu_solve", "lu_unpack", "symeig", "eig", "lstsq", "solve", "matrix_rank",
        "multigammaln", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "positive",
    }  # fmt: skip
