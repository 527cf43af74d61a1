"""Products with matrices in compressed rows. Their gradients are in `minitensor.sparse.products`."""

from __future__ import annotations

from minitensor.ops.row import opaque

__all__: list[str] = []

_WHY = "its loops follow indices, which are data"

csr_matmul = opaque(
    "_csr_matmul(Tensor crow, Tensor col, Tensor values, Tensor dense)",
    "A matrix in compressed rows times a dense one [K, N].",
    why=_WHY, function=False, method=False,
)  # fmt: skip
csr_sampled = opaque(
    "_csr_sampled(Tensor crow, Tensor col, Tensor a, Tensor b)",
    "The elements of a @ b.T, of a [M, N] and b [K, N], at the places of compressed rows.",
    why=_WHY, function=False, method=False,
)  # fmt: skip
