"""Sparse tensors for the tests."""

import numpy as np

import minitensor as mt

INDICES, VALUES = [[0, 1, 1, 0], [2, 0, 2, 2]], [3.0, 4.0, 5.0, 6.0]
DENSE = [[0.0, 0.0, 9.0], [4.0, 0.0, 5.0]]
COMPRESSED = (mt.sparse_csr, mt.sparse_csc, mt.sparse_bsr, mt.sparse_bsc)


def coo(**options):
    return mt.sparse_coo_tensor(mt.tensor(INDICES), mt.tensor(VALUES), (2, 3), **options)


def random(*shape, seed=0, part=0.5, dtype="float64"):
    rng = np.random.default_rng(seed)
    return mt.tensor((rng.normal(size=shape) * (rng.random(shape) < part)).astype(dtype))


def as_layout(dense, layout):
    if layout is mt.strided:
        return dense
    blocks = (2, 3) if layout in (mt.sparse_bsr, mt.sparse_bsc) else None
    return dense.to_sparse(layout=layout, blocksize=blocks)
