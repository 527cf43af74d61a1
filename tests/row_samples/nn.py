"""Sample arguments for the rows of neural networks: convolution, pooling, normalisation, attention, embedding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import minitensor as mt

Form = tuple[Any, ...]

# Between equal elements a maximum has no derivative.
DISTINCT = ("max_pool",)
# The gradient is not the formula's derivative: statistics are constants, rows of a table are left out or scaled.
# tests/nn/test_nn_functional.py has those.
OTHER_GRADIENT = (
    "batch_norm", "batch_norm_backward", "embedding", "embedding_backward", "_ctc_loss", "_ctc_loss_backward",
    "_resample", "_resample_backward", "_recurrent",
)  # fmt: skip
# What has none at all: places, and statistics that are constants for the tape.
WITHOUT_GRADIENT = (
    "max_pool_indices", "adaptive_max_pool_indices", "batch_norm_stats", "_recurrent_backward", "_csr_matmul",
    "_csr_sampled",
)  # fmt: skip


def crow(*indices: int) -> Any:
    """Indices that must be what they are."""
    return mt.tensor(indices, dtype=mt.int64)


def nn_forms(op: Callable[..., Any], index: Callable[..., Any]) -> dict[str, list[Form]]:
    """The forms by row; `op` and `index` make operands."""
    two, three, none = (2, 2), (3, 3), (0, 0)
    one = (1, 1)
    window = (two, two, none, one, False)
    average = (two, two, none, False, True, None)
    return {
        "convolution": [
            (op(2, 3, 6, 5), op(4, 3, 3, 2), op(4), one, none, one, 1),
            (op(2, 4, 7, 7), op(6, 2, 3, 3), None, two, one, two, 2),
            (op(2, 4, 5, 5), op(8, 1, 3, 3), op(8), one, one, one, 4),
            (op(2, 4, 7, 6), op(8, 1, 3, 3), op(8), two, one, one, 4),
            (op(2, 3, 9), op(4, 3, 3), op(4), (2,), (1,), (1,), 1),
            (op(1, 2, 4, 4, 4), op(3, 2, 2, 2, 2), None, (1, 1, 1), (0, 0, 0), (1, 1, 1), 1),
            (op(3, 4, 5, 5), op(6, 4, 1, 1), op(6), one, none, one, 1),
            (op(2, 3, 6, 5, layout="strided"), op(4, 3, 3, 2), None, one, none, one, 1),
        ],
        "convolution_backward_input": [
            (op(2, 4, 4, 4), op(4, 3, 3, 2), (2, 3, 6, 5), one, none, one, 1),
            (op(2, 6, 3, 3), op(6, 2, 3, 3), (2, 4, 7, 7), two, one, two, 2),
            (op(2, 8, 5, 5), op(8, 1, 3, 3), (2, 4, 5, 5), one, one, one, 4),
            (op(2, 8, 4, 3), op(8, 1, 3, 3), (2, 4, 7, 6), two, one, one, 4),
            (op(3, 6, 5, 5), op(6, 4, 1, 1), (3, 4, 5, 5), one, none, one, 1),
        ],
        "convolution_backward_weight": [
            (op(2, 4, 4, 4), op(2, 3, 6, 5), (4, 3, 3, 2), one, none, one, 1),
            (op(2, 6, 3, 3), op(2, 4, 7, 7), (6, 2, 3, 3), two, one, two, 2),
            (op(2, 8, 5, 5), op(2, 4, 5, 5), (8, 1, 3, 3), one, one, one, 4),
            (op(2, 8, 4, 3), op(2, 4, 7, 6), (8, 1, 3, 3), two, one, one, 4),
            (op(3, 6, 5, 5), op(3, 4, 5, 5), (6, 4, 1, 1), one, none, one, 1),
        ],
        "im2col": [(op(2, 3, 5, 6), (2, 3), one, one, two), (op(1, 2, 4, 4), two, one, none, one)],
        "col2im": [(op(2, 12, 20), (5, 6), two, one, none, one), (op(1, 8, 9), (4, 4), two, one, none, one)],
        "max_pool": [
            (op(2, 3, 6, 6), *window),
            (op(2, 3, 7, 8), three, two, one, one, True),
            (op(2, 3, 7, 8), two, one, none, two, False),
            (op(2, 3, 9), (3,), (2,), (1,), (1,), False),
            (op(1, 2, 4, 4, 4), (2, 2, 2), (2, 2, 2), (0, 0, 0), (1, 1, 1), False),
        ],
        "max_pool_indices": [(op(2, 3, 6, 6), *window), (op(2, 3, 7, 8), three, two, one, one, True)],
        "adaptive_max_pool_indices": [(op(2, 3, 7, 8), (3, 2)), (op(2, 3, 7), (4,))],
        "plane_gather": [
            (op(2, 3, 4, 4), index(2, 3, 2, 2, below=16)),
            (op(2, 3, 5, layout="strided"), index(2, 3, 7, below=5)),
        ],
        # Every place at most once: which of several stays has no derivative.
        "plane_scatter": [
            (op(2, 3, 1), index(2, 3, 1, below=6), (6,)),
            (op(1, 2, 1, 1), index(1, 2, 1, 1, below=4), two),
        ],
        "plane_scatter_add": [
            (op(2, 3, 2, 2), index(2, 3, 2, 2, below=16), (4, 4)),
            (op(2, 3, 7), index(2, 3, 7, below=5), (5,)),
        ],
        "avg_pool": [
            (op(2, 3, 6, 6), *average),
            (op(2, 3, 7, 8), three, two, one, True, False, None),
            (op(2, 3, 7, 8), three, two, one, False, True, 5),
            (op(2, 3, 9), (3,), (2,), (1,), False, True, None),
        ],
        "avg_pool_backward": [
            (op(2, 3, 3, 3), (2, 3, 6, 6), *average),
            (op(2, 3, 4, 5), (2, 3, 7, 8), three, two, one, True, False, None),
        ],
        "adaptive_avg_pool": [(op(2, 3, 7, 8), (3, 2)), (op(2, 3, 7), (9,))],
        "adaptive_avg_pool_backward": [(op(2, 3, 3, 2), (2, 3, 7, 8)), (op(2, 3, 4), (2, 3, 7))],
        "_resample": [
            (op(2, 3, 4, 5), index(22, below=4), op(22), (2, 2), (7, 4)),
            (op(1, 2, 5), index(9, below=5), op(9), (3,), (3,)),
            (op(1, 2, 3, 4, 5), index(13, below=3), op(13), (1, 0, 2), (3, 4, 5)),
        ],
        "_resample_backward": [
            (op(2, 3, 7, 4), index(22, below=4), op(22), (2, 2), (4, 5)),
            (op(1, 2, 3, 4, 5), index(13, below=3), op(13), (1, 0, 2), (3, 4, 6)),
        ],
        "group_norm": [
            (op(2, 6, 5), op(6), op(6), 2, 1e-5),
            (op(3, 6), op(6), op(6), 1, 1e-5),
            (op(3, 6), None, None, 1, 1e-3, False),
            (op(2, 4, 3, 2), None, op(4), 4, 1e-5),
            (op(3, 70), op(70), None, 1, 1e-5, False),
        ],
        "group_norm_backward": [
            (op(2, 6, 5), op(2, 6, 5), op(6), 2, 1e-5),
            (op(3, 6), op(3, 6), op(6), 1, 1e-5),
            (op(3, 6), op(3, 6), None, 1, 1e-3, False, True),
        ],
        "batch_norm_stats": [(op(4, 3, 5), 1e-5), (op(2, 3, 4, 4), 1e-3)],
        "batch_norm": [
            (op(4, 3, 5), op(3), op(3), op(3), op(3), False),
            (op(2, 3, 4, 4), None, op(3), op(3), op(3), False),
        ],
        "batch_norm_backward": [
            (op(4, 3, 5), op(4, 3, 5), op(3), op(3), op(3), False),
            (op(2, 3, 4, 4), op(2, 3, 4, 4), None, op(3), op(3), False),
        ],
        "attention": [
            (op(2, 5, 4), op(2, 6, 4), op(2, 6, 3), None, 0.5, False),
            (op(2, 5, 4), op(2, 6, 4), op(2, 6, 3), None, 0.5, True),
            (op(1, 40, 4), op(1, 40, 4), op(1, 40, 4), None, 0.5, True),
        ],
        "attention_backward": [
            (op(2, 5, 3), op(2, 5, 4), op(2, 6, 4), op(2, 6, 3), None, 0.5, False),
            (op(2, 5, 3), op(2, 5, 4), op(2, 6, 4), op(2, 6, 3), None, 0.5, True),
        ],
        "_recurrent": [
            (op(3, 2, 4), op(2, 4), None, op(4, 4), op(4), None, 0, False),
            (op(3, 2, 4), op(2, 4), None, op(4, 4), None, None, 1, True),
            (op(3, 2, 16), op(2, 4), op(2, 4), op(16, 4), op(16), None, 2, False),
            (op(3, 2, 12), op(2, 4), None, op(12, 4), op(12), None, 3, True),
        ],
        "_recurrent_backward": [
            (op(3, 2, 4), op(2, 2, 4), op(3, 2, 4), op(3, 2, 20), op(2, 4), op(2, 4), op(16, 4), None, 2, True),
            (op(3, 2, 4), op(1, 2, 4), op(3, 2, 4), op(3, 2, 16), op(2, 4), None, op(12, 4), None, 3, False),
            (op(3, 2, 4), op(1, 2, 4), op(3, 2, 4), op(3, 2, 0), op(2, 4), None, op(4, 4), None, 0, False),
        ],
        "_ctc_loss": [
            (op(5, 2, 4), index(2, 2, below=4), index(2, below=6), index(2, below=3), 0, False),
            (op(9, 3, 4, layout="transposed"), index(3, 4, below=4), index(3, below=10), index(3, below=5), 3, True),
        ],
        "_ctc_loss_backward": [
            (op(2), op(5, 2, 4), index(2, 2, below=4), index(2, below=6), index(2, below=3), 0, True),
        ],
        "_csr_matmul": [
            (crow(0, 2, 2, 5), crow(1, 3, 0, 1, 2), op(5), op(4, 6)),
            (crow(0, 1), crow(0), op(1), op(2, 1)),
            (crow(0, 3), crow(2, 0, 2), op(3, layout="strided"), op(3, 70, layout="transposed")),
            (crow(0), crow(), op(0), op(3, 2)),
        ],
        "_csr_sampled": [
            (crow(0, 2, 2, 5), crow(1, 3, 0, 1, 2), op(3, 6), op(4, 6)),
            (crow(0, 3), crow(2, 0, 2), op(1, 70, layout="transposed"), op(3, 70, layout="strided")),
            (crow(0), crow(), op(0, 2), op(3, 2)),
        ],
        "embedding": [
            (op(5, 4), index(3, 2, below=5)),
            (op(5, 4), index(6, below=5), 2),
            (op(5, 4), index(6, below=5, dtype="int32"), -1, True),
        ],
        "embedding_backward": [
            (op(3, 2, 4), index(3, 2, below=5), 5, -1, False),
            (op(6, 4), index(6, below=5), 5, 2, True),
        ],
    }
