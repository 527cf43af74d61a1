"""What PyTorch's profiler calls ops, for programs that import this package under its name.

PyTorch shows each function with those it is made of; here there is one event for a kernel, under the name of the one
of these that is nearest to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["aten_name"]

# Ops that have another name there; others are called as they are, without a leading underscore.
_NAMES = {
    "_addmm": "addmm", "_clamp_tensor": "clamp", "_gelu_tanh": "gelu", "_gelu_tanh_backward": "gelu_backward",
    "_index_put": "index_put_", "_linalg_cholesky": "linalg_cholesky_ex", "_linalg_det": "_linalg_det",
    "_linalg_eigh": "_linalg_eigh", "_linalg_inv": "linalg_inv_ex", "_linalg_lu_factor": "linalg_lu_factor_ex",
    "_linalg_slogdet": "_linalg_slogdet", "_linalg_solve": "_linalg_solve_ex", "_linalg_svd": "_linalg_svd",
    "_log_softmax_backward": "_log_softmax_backward_data", "_logits_loss": "binary_cross_entropy_with_logits",
    "_mt19937_bernoulli": "bernoulli_", "_mt19937_exponential": "exponential_", "_mt19937_integers": "random_",
    "_mt19937_log_normal": "log_normal_", "_mt19937_multinomial": "multinomial", "_mt19937_normal": "normal_",
    "_mt19937_permutation": "randperm", "_mt19937_uniform": "uniform_", "_recurrent": "mkldnn_rnn_layer",
    "_recurrent_backward": "mkldnn_rnn_layer_backward", "_relu_backward": "threshold_backward",
    "_resample": "upsample", "_resample_backward": "upsample_backward", "_row_major": "clone",
    "_smooth_l1": "smooth_l1_loss", "_smooth_l1_backward": "smooth_l1_loss_backward",
    "_softmax_backward": "_softmax_backward_data", "_squared_difference": "mse_loss",
    "_squared_difference_backward": "mse_loss_backward", "_view_dtype": "view",
    "attention": "scaled_dot_product_attention", "attention_backward": "scaled_dot_product_attention_backward",
    "batch_norm": "native_batch_norm",
    "batch_norm_backward": "native_batch_norm_backward", "batch_norm_stats": "native_batch_norm", "cast": "_to_copy",
    "convolution_backward_input": "convolution_backward", "convolution_backward_weight": "convolution_backward",
    "copy": "copy_", "embedding_backward": "embedding_dense_backward", "fill": "fill_", "full": "fill_",
    "group_norm": "native_group_norm", "group_norm_backward": "native_group_norm_backward",
    "log_softmax": "_log_softmax", "max_dim": "max", "min_dim": "min", "nll_loss": "nll_loss_forward",
    "nll_loss_mean": "nll_loss_forward", "nll_loss_mean_backward": "nll_loss_backward",
    "norm1": "linalg_vector_norm", "norm2": "linalg_vector_norm", "plane_gather": "gather",
    "plane_scatter_add": "max_pool2d_with_indices_backward", "softmax": "_softmax",
}  # fmt: skip
# These have one name for each number of dimensions, which stands before what follows the stroke.
_POOLS = {
    "adaptive_avg_pool": "_adaptive_avg_pool|", "adaptive_avg_pool_backward": "_adaptive_avg_pool|_backward",
    "adaptive_max_pool_indices": "adaptive_max_pool|", "avg_pool": "avg_pool|",
    "avg_pool_backward": "avg_pool|_backward",
    "max_pool": "max_pool|", "max_pool_indices": "max_pool|_with_indices",
}  # fmt: skip


def _product(shapes: Sequence[Any]) -> str:
    ranks = tuple(len(shape) for shape in shapes[:2])
    names: dict[tuple[int, ...], str] = {(1, 1): "dot", (2, 1): "mv", (2, 2): "mm", (3, 3): "bmm"}
    return names.get(ranks, "matmul")


def aten_name(op: str, shapes: Sequence[Any]) -> str:
    """The name of an op that was called with operands of these shapes."""
    if op == "_JitLaunch":
        return op
    if op == "matmul":
        name = _product(shapes)
    elif op in _POOLS:
        name = _POOLS[op].replace("|", f"{max(len(shapes[0]) - 2, 1)}d" if shapes else "2d")
    else:
        name = _NAMES.get(op, op.removeprefix("_"))
    return f"aten::{name}"
