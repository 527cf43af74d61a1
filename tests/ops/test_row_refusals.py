"""What kernels rely on is refused before they run, also of ops that only the library calls, beside calls that fit.

`a(2, 3)` are ones in that shape, `i` is `tensor`.
"""

import re

import pytest

import minitensor as mt
from minitensor.ops.row import ROWS

pytestmark = pytest.mark.at_once(reason="calls are refused when they are made")
i = mt.tensor


def a(*sizes):
    return mt.ones(sizes)


CALLS = [
    (
        "_cdist",
        lambda: (a(1, 2, 3), a(1, 4, 3), 2.0),
        lambda: (a(1, 2, 3), a(2, 4, 3), 2.0),
        RuntimeError,
        "_cdist: expected two batches of as many sets of vectors of one length, got [1, 2, 3] and [2, 4, 3]",
    ),
    (
        "_cdist",
        lambda: (a(1, 2, 3), a(1, 4, 3), 2.0),
        lambda: (a(1, 2, 3), a(1, 4, 2), 2.0),
        RuntimeError,
        "_cdist: expected two batches of as many sets of vectors of one length, got [1, 2, 3] and [1, 4, 2]",
    ),
    (
        "_cdist",
        lambda: (a(1, 2, 3), a(1, 4, 3), 2.0),
        lambda: (a(1, 2, 3), a(1, 4, 3).double(), 2.0),
        RuntimeError,
        "_cdist: expected floating-point operands of one dtype",
    ),
    (
        "_csr_matmul",
        lambda: (i([0, 1]), i([0]), a(1), a(1, 2)),
        lambda: (i([0, 1]), i([0, 0]), a(1), a(1, 2)),
        RuntimeError,
        "_csr_matmul(): there are 2 column indices, but values of shape [1]",
    ),
    (
        "_csr_matmul",
        lambda: (i([0, 1]), i([0]), a(1), a(1, 2)),
        lambda: (i([0, 1]), i([0]), a(1), a(1)),
        RuntimeError,
        "_csr_matmul(): argument 4 must have 2 dimensions, got [1]",
    ),
    (
        "_csr_matmul",
        lambda: (i([0, 1]), i([0]), a(1), a(1, 2)),
        lambda: (i([0, 1]), i([0]), a(1), a(1, 2).double()),
        RuntimeError,
        "_csr_matmul(): expected operands of one dtype, but got float32 and float64",
    ),
    (
        "_csr_matmul",
        lambda: (i([0, 1]), i([0]), a(1), a(1, 2)),
        lambda: (i([0, 1]).int(), i([0]), a(1), a(1, 2)),
        RuntimeError,
        "_csr_matmul(): indices must be int64",
    ),
    (
        "_csr_matmul",
        lambda: (i([0, 1]), i([0]), a(1), a(1, 2)),
        lambda: (i([0, 2]), i([0]), a(1), a(1, 2)),
        RuntimeError,
        "_csr_matmul(): the compressed indices must rise from 0 to 1",
    ),
    (
        "_csr_sampled",
        lambda: (i([0, 1]), i([0]), a(1, 2), a(1, 2)),
        lambda: (i([0, 1]), i([0]), a(2, 2), a(1, 2)),
        RuntimeError,
        "_csr_sampled(): [2, 2] and [1, 2] don't fit 1 rows",
    ),
    (
        "_csr_sampled",
        lambda: (i([0, 1]), i([0]), a(1, 2), a(1, 2)),
        lambda: (i([0, 1]), i([0]), a(1, 2), a(1, 3)),
        RuntimeError,
        "_csr_sampled(): [1, 2] and [1, 3] don't fit 1 rows",
    ),
    (
        "_segment_reduce",
        lambda: (a(2), i([0, 2]), 0, None, 0),
        lambda: (a(2), i([0, 3]), 0, None, 0),
        RuntimeError,
        "segment_reduce(): offsets out of bounds",
    ),
    (
        "_segment_reduce",
        lambda: (a(2), i([0, 2]), 0, None, 0),
        lambda: (a(2), i([0, 2, 1]), 0, None, 0),
        RuntimeError,
        "segment_reduce(): offsets must not decrease",
    ),
    (
        "_segment_reduce",
        lambda: (a(2), i([0, 2]), 0, None, 0),
        lambda: (a(2), i([[0, 2]]), 0, None, 0),
        RuntimeError,
        "segment_reduce(): offsets must have the dimensions of data up to axis",
    ),
    (
        "_bincount",
        lambda: (i([0]), a(1), 1),
        lambda: (i([0]), a(2), 1),
        RuntimeError,
        "weights should be 1-d and have the same length as input",
    ),
    (
        "_pad_around",
        lambda: (a(1, 2), (1, 1), 0),
        lambda: (a(1, 2), (2, 1), 0),
        RuntimeError,
        "pad: the input has not enough elements for the counts",
    ),
    (
        "_pad_around",
        lambda: (a(1, 2), (1, 1), 0),
        lambda: (a(1, 2), (1,), 0),
        RuntimeError,
        "pad: expected pairs of counts for at most three dimensions",
    ),
    (
        "nll_loss",
        lambda: (a(2, 3), i([0, 2])),
        lambda: (a(2, 3), i([[0, 2]])),
        RuntimeError,
        "nll_loss: the target must have one dimension [N], but has shape [1, 2]",
    ),
    (
        "nll_loss",
        lambda: (a(2, 3), i([0, 2])),
        lambda: (a(2, 3), i([0, 2, 1])),
        ValueError,
        "Expected input batch_size (2) to match target batch_size (3).",
    ),
    (
        "nll_loss",
        lambda: (a(2, 3), i([0, 2])),
        lambda: (a(3), i([0])),
        RuntimeError,
        "nll_loss: the input must have two dimensions [N, C], but has shape [3]",
    ),
    (
        "convolution_backward_weight",
        lambda: (a(1, 1, 2), a(1, 1, 3), (1, 1, 2), (1,), (0,), (1,), 1),
        lambda: (a(1, 1, 3), a(1, 1, 3), (1, 1, 2), (1,), (0,), (1,), 1),
        RuntimeError,
        "convolution_backward_weight: a convolution of [1, 1, 3] with weights [1, 1, 2] "
        "gives [1, 1, 2], but the gradient has [1, 1, 3]",
    ),
    (
        "convolution_backward_input",
        lambda: (a(1, 1, 2), a(1, 1, 2), (1, 1, 3), (1,), (0,), (1,), 1),
        lambda: (a(1, 1, 2), a(1, 1, 2), (1, 1, 4), (1,), (0,), (1,), 1),
        RuntimeError,
        "convolution_backward_input: a convolution of [1, 1, 4] with weights [1, 1, 2] "
        "gives [1, 1, 3], but the gradient has [1, 1, 2]",
    ),
    (
        "convolution",
        lambda: (a(1, 1, 3), a(1, 1, 2), None, (1,), (0,), (1,), 1),
        lambda: (a(1, 1, 3), a(1, 1, 2), a(2), (1,), (0,), (1,), 1),
        RuntimeError,
        "Given weight of size [1, 1, 2], expected bias to be 1-dimensional with 1 "
        "elements, but got bias of size [2] instead",
    ),
    (
        "convolution",
        lambda: (a(1, 1, 3), a(1, 1, 2), None, (1,), (0,), (1,), 1),
        lambda: (a(1, 1, 3), a(1, 1, 2), None, (1, 1), (0,), (1,), 1),
        RuntimeError,
        "expected stride to be a single integer value or a list of 1 values to match the "
        "convolution dimensions, but got stride=[1, 1]",
    ),
    (
        "convolution",
        lambda: (a(1, 1, 3), a(1, 1, 2), None, (1,), (0,), (1,), 1),
        lambda: (a(1, 3), a(1, 1, 2), None, (1,), (0,), (1,), 1),
        RuntimeError,
        "convolution: expected input and weight of 3 to 5 dimensions, but got [1, 3] and [1, 1, 2]",
    ),
    (
        "convolution",
        lambda: (a(1, 1, 3), a(1, 1, 2), None, (1,), (0,), (1,), 1),
        lambda: (a(1, 1, 3), a(1, 1, 2).double(), None, (1,), (0,), (1,), 1),
        RuntimeError,
        "Input type (float) and weight type (double) should be the same",
    ),
    (
        "attention",
        lambda: (a(1, 2, 3), a(1, 4, 3), a(1, 4, 3), None, 1.0, False),
        lambda: (a(1, 2, 3), a(1, 4, 2), a(1, 4, 3), None, 1.0, False),
        RuntimeError,
        "attention: query [B, L, E], key [B, S, E] and value [B, S, V] do not fit: [1, 2, 3], [1, 4, 2], [1, 4, 3]",
    ),
    (
        "attention",
        lambda: (a(1, 2, 3), a(1, 4, 3), a(1, 4, 3), None, 1.0, False),
        lambda: (a(1, 2, 3), a(1, 4, 3), a(1, 5, 3), None, 1.0, False),
        RuntimeError,
        "attention: query [B, L, E], key [B, S, E] and value [B, S, V] do not fit: [1, 2, 3], [1, 4, 3], [1, 5, 3]",
    ),
    (
        "attention",
        lambda: (a(1, 2, 3), a(1, 4, 3), a(1, 4, 3), a(1, 2, 4), 1.0, False),
        lambda: (a(1, 2, 3), a(1, 4, 3), a(1, 4, 3), a(1, 2, 3), 1.0, False),
        RuntimeError,
        "attention: expected a mask of query's dtype and shape [B, L, S], but got [1, 2, 3]",
    ),
    (
        "avg_pool_backward",
        lambda: (a(1, 1, 2), (1, 1, 3), (2,), (1,), (0,), False, True, None),
        lambda: (a(1, 1, 3), (1, 1, 3), (2,), (1,), (0,), False, True, None),
        RuntimeError,
        "avg_pool_backward: the gradient's sizes are not those of the pooling",
    ),
    (
        "adaptive_avg_pool_backward",
        lambda: (a(1, 1, 2), (1, 1, 3)),
        lambda: (a(1, 1, 2), (1, 3)),
        RuntimeError,
        "adaptive_avg_pool_backward: input_size must have the gradient's rank",
    ),
    (
        "batch_norm",
        lambda: (a(2, 3), a(3), a(3), a(3), a(3), True),
        lambda: (a(2, 3), a(2), a(3), a(3), a(3), True),
        RuntimeError,
        "Expected weight to be a vector of size equal to the number of channels in "
        "input, but got weight of shape [2] and input of shape [2, 3]",
    ),
    (
        "embedding_backward",
        lambda: (a(2, 3), i([0, 1]), 2, -1, False),
        lambda: (a(2), i([0, 1]), 2, -1, False),
        RuntimeError,
        "embedding_backward: the gradient must have one dimension more",
    ),
]


@pytest.mark.parametrize(("name", "fits", "does_not", "kind", "message"), CALLS)
def test_calls_that_do_not_fit_are_refused(name, fits, does_not, kind, message):
    results = ROWS[name].call(*fits())
    assert all(isinstance(result, mt.Tensor) for result in (results if isinstance(results, tuple) else (results,)))
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        ROWS[name].call(*does_not())
