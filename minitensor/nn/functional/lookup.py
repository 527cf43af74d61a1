"""Tables of vectors, and indices as vectors."""

from __future__ import annotations

import minitensor as mt
from minitensor.composite import composite
from minitensor.ops import ROWS

__all__ = ["embedding", "embedding_bag", "one_hot"]

_embedding = ROWS["embedding"].call


def _renormalize(weight: mt.Tensor, indices: mt.Tensor, max_norm: float, norm_type: float) -> None:
    """Scale down, in place, the rows that are used and whose norm is larger than `max_norm`."""
    from minitensor.nn.functional.distance import vector_norm

    with mt.no_grad():
        used = mt.zeros(weight.shape[0], dtype=weight.dtype).index_add(
            0, indices.reshape(-1), mt.ones(indices.numel(), dtype=weight.dtype)
        )
        norms = vector_norm(weight, norm_type, 1, keepdim=True)
        factor = mt.where((norms > max_norm) & (used.unsqueeze(1) > 0), max_norm / (norms + 1e-7), 1.0)
        weight.mul_(factor)


def _padding(padding_idx: int | None, rows: int) -> int:
    if padding_idx is None:
        return -1
    if (padding_idx > 0 and padding_idx >= rows) or (padding_idx < 0 and padding_idx < -rows):
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx if padding_idx >= 0 else rows + padding_idx


def embedding(
    input: mt.Tensor,
    weight: mt.Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> mt.Tensor:
    """Return the rows of ``weight`` that ``input`` names: ``[..., D]``.

    The row ``padding_idx`` gets no gradient. With ``max_norm`` the rows that are used are first scaled down, in place,
    to that ``norm_type``-norm at most. With ``scale_grad_by_freq`` a row's gradient is divided by how often it was
    named. Gradients are dense; ``sparse`` says that the caller would take others too.
    """
    if weight.dim() != 2:
        raise RuntimeError("'weight' must be 2-D")
    padding = _padding(padding_idx, weight.shape[0])
    if max_norm is not None:
        if weight.requires_grad and weight.is_leaf:
            _renormalize(weight.detach(), input, max_norm, norm_type)
        else:
            _renormalize(weight, input, max_norm, norm_type)
    return _embedding(weight, input, padding, scale_grad_by_freq)


@composite(name="embedding", method=False)
def _torch_embedding(
    weight: mt.Tensor,
    indices: mt.Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> mt.Tensor:
    """Return the rows of ``weight`` that ``indices`` name. See ``nn.functional.embedding``."""
    return _embedding(weight, indices, padding_idx, scale_grad_by_freq)


def embedding_bag(
    input: mt.Tensor,
    weight: mt.Tensor,
    offsets: mt.Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: mt.Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> mt.Tensor:
    """Return for each bag of indices the sum, mean or maximum of the rows that they name.

    ``input`` has a bag in each row, or is a vector of which ``offsets`` has the first index of each bag (with
    ``include_last_offset`` also the end of the last). ``per_sample_weights`` multiplies the rows of a sum. Indices
    equal to ``padding_idx`` are left out.
    """
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
                f"(got mode='{mode}'). Please open a feature request on GitHub."
            )
        if per_sample_weights.shape != input.shape:
            raise ValueError(
                f"embedding_bag: If per_sample_weights ({list(per_sample_weights.shape)}) is not None, then it must "
                f"have the same shape as the input ({list(input.shape)})"
            )
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets)}"
            )
        starts = [i * input.shape[1] for i in range(input.shape[0])]
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
        starts = [int(n) for n in offsets.tolist()]
        if starts and starts[0] != 0:
            raise RuntimeError(
                f"offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
                f"position 0. However, got {starts[0]}"
            )
        if starts and starts[-1] > input.numel():
            raise RuntimeError(
                f"offsets[-1] can not be greater than input's length, but got offsets[-1] of "
                f"{starts[-1]} and input's length of {input.numel()}"
            )
        if include_last_offset:
            starts = starts[:-1]
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    padding = _padding(padding_idx, weight.shape[0])
    if max_norm is not None:
        _renormalize(weight.detach(), input, max_norm, norm_type)
    rows = _embedding(weight, input, padding, scale_grad_by_freq)
    ends = [*starts[1:], input.numel()] if starts else []
    bags = mt.tensor(
        [b for b, (i, j) in enumerate(zip(starts, ends, strict=True)) for _ in range(j - i)], dtype=mt.int64
    )
    counted = mt.ones(input.numel(), dtype=weight.dtype)
    if padding >= 0:
        counted = (input != padding).to(weight.dtype)
    if mode == "max":
        return _bag_maximum(rows, bags, counted, len(starts))
    factors = counted if per_sample_weights is None else counted * per_sample_weights
    if per_sample_weights is not None or padding >= 0:
        rows = rows * factors.unsqueeze(1)
    result = mt.zeros(len(starts), weight.shape[1], dtype=weight.dtype).index_add(0, bags, rows)
    if mode == "mean":
        counts = mt.zeros(len(starts), dtype=weight.dtype).index_add(0, bags, counted)
        result = result / counts.clamp(min=1.0).unsqueeze(1)
    return result


def _bag_maximum(rows: mt.Tensor, bags: mt.Tensor, counted: mt.Tensor, count: int) -> mt.Tensor:
    results = []
    for bag in range(count):
        members = mt.nonzero((bags == bag) & (counted > 0)).reshape(-1)
        if members.numel() == 0:
            results.append(mt.zeros(rows.shape[1], dtype=rows.dtype))
        else:
            results.append(rows.index_select(0, members).max(0)[0])
    return mt.stack(results) if results else mt.zeros(0, rows.shape[1], dtype=rows.dtype)


def one_hot(tensor: mt.Tensor, num_classes: int = -1) -> mt.Tensor:
    """Return int64 rows ``[..., num_classes]`` that hold one 1, at the position that ``tensor`` names.

    By default ``num_classes`` is one more than the largest value.
    """
    if tensor.dtype != mt.int64:
        raise RuntimeError(f"one_hot is only applicable to index tensor of type LongTensor, got {tensor.dtype}")
    if tensor.numel() == 0 and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    if tensor.numel() and tensor.min().item() < 0:
        raise RuntimeError("Class values must be non-negative.")
    largest = int(tensor.max().item()) if tensor.numel() else -1
    if num_classes == -1:
        num_classes = largest + 1
    elif num_classes < 1:
        raise RuntimeError("num_classes should be positive")
    elif largest >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    return (tensor.unsqueeze(-1) == mt.arange(num_classes)).to(mt.int64)
