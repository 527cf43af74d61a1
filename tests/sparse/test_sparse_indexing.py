"""Keys of sparse tensors, each kind in each place, against those of the dense ones."""

import itertools

import numpy as np
import pytest
from sparse_cases import random

import minitensor as mt

# By the size of the dimension: what stands for it in a key.
KEYS = {
    "number": lambda n: n - 1,
    "from the end": lambda n: -n,
    "0-d tensor": lambda n: mt.tensor(1),
    "slice": lambda n: slice(1, n),
    "all": lambda n: slice(None),
    "list": lambda n: [n - 1, 0, 0],
    "int64 tensor": lambda n: mt.tensor([1, 0, -1]),
    "int32 tensor": lambda n: mt.tensor([1, 1], dtype=mt.int32),
    "no places": lambda n: mt.tensor([], dtype=mt.int64),
    "mask": lambda n: mt.arange(n) != 1,
}
TENSORS = {"list", "int64 tensor", "int32 tensor", "no places", "mask"}


def key_of(names, shape):
    return tuple(KEYS[name](n) for name, n in zip(names, shape, strict=False))


@pytest.mark.parametrize("sparse_dims", [1, 2, 3])
def test_keys_of_every_kind_in_every_place(sparse_dims):
    dense = random(3, 4, 5)
    s = dense.to_sparse(sparse_dims)
    for count in (1, 2, 3):
        for names in itertools.product(KEYS, repeat=count):
            if sum(name in TENSORS for name in names) > 1:
                continue  # dense ones go along together, see below
            key = key_of(names, dense.shape)
            wanted = dense.numpy()
            for dim in reversed(range(count)):  # one by one, the last first: NumPy's order of dimensions is another
                part = key[dim]
                part = part.numpy() if isinstance(part, mt.Tensor) else part
                part = int(part) if isinstance(part, np.ndarray) and not part.ndim else part
                wanted = wanted[(slice(None),) * dim + (part,)]
            got = s[key if count > 1 else key[0]]
            got = got if got.layout is mt.strided else got.to_dense()
            np.testing.assert_array_equal(got.numpy(), wanted, err_msg=str(names))


def test_what_stands_for_several_dimensions_or_none():
    dense = random(3, 4, 5)
    s, array = dense.to_sparse(), dense.numpy()
    for key in (..., (..., 1), (0, ..., 1), (..., 1, slice(1, 3)), None, (None, 1), (1, None), (slice(1, 2), None, 2)):
        np.testing.assert_array_equal(s[key].to_dense().numpy(), array[key], err_msg=str(key))


@pytest.mark.parametrize(
    ("key", "error", "words"),
    [
        (3, IndexError, "out of range"),
        ((0, -5), IndexError, "out of range"),
        (mt.tensor([0, 3]), IndexError, "out of range"),
        (slice(None, None, 2), NotImplementedError, "__getitem__ with a step"),
        (mt.zeros(2, 2, dtype=mt.int64), NotImplementedError, "__getitem__ with such an index"),
        (mt.tensor([0.5]), NotImplementedError, "__getitem__ with such an index"),
        (mt.eye(3).to_sparse(), NotImplementedError, "__getitem__ with a sparse index"),
    ],
)  # fmt: skip
def test_keys_that_are_refused(key, error, words):
    with pytest.raises(error, match=words):
        random(3, 4, 5).to_sparse()[key]


@pytest.mark.parametrize("shape", [(5, 6), (6, 5), (3, 5, 6), (3, 6, 5)])
@pytest.mark.parametrize("name", ["bsr", "bsc"])
def test_blocks_that_do_not_divide_name_the_sizes_of_the_matrices(shape, name):
    with pytest.raises(RuntimeError, match=rf"tensor sparse size \({shape[-2]},{shape[-1]}\) must be divisible by"):
        getattr(mt.ones(shape), f"to_sparse_{name}")((2, 2))
