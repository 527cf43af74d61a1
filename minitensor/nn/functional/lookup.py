"""Tables of vectors, and indices as vectors."""

from __future__ import annotations

from minitensor import _C
from minitensor._C import Tensor, bfloat16, float16, float32, int64
from minitensor._functions import offered
from minitensor._functions.offered import arange, cat, full, gather, searchsorted, where
from minitensor.autograd import no_grad
from minitensor.composite import composite
from minitensor.composite.numbers import number, whole
from minitensor.composite.registry import grad_fn, shortcut
from minitensor.ops import ROWS
from minitensor.ops.checks import refuse_where

__all__ = ["embedding", "embedding_bag", "one_hot"]

_embedding = ROWS["embedding"].call


def _renormalize(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale down, in place, the rows that are used and whose norm is larger than `max_norm`."""
    from minitensor.nn.functional.distance import vector_norm

    max_norm = number(max_norm, "embedding_renorm_", "max_norm")
    norm_type = number(norm_type, "embedding_renorm_", "norm_type")
    with no_grad():
        used = offered.zeros(weight.shape[0], dtype=weight.dtype, device=weight.device).index_add(
            0, indices.reshape(-1), offered.ones(indices.numel(), dtype=weight.dtype, device=weight.device)
        )
        norms = vector_norm(weight, norm_type, 1, keepdim=True)
        factor = where((norms > max_norm) & (used.unsqueeze(1) > 0), max_norm / (norms + 1e-7), 1.0)
        weight.mul_(factor)


def _padding(padding_idx: int | None, rows: int) -> int:
    if padding_idx is None:
        return -1
    if (padding_idx > 0 and padding_idx >= rows) or (padding_idx < 0 and padding_idx < -rows):
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx if padding_idx >= 0 else rows + padding_idx


@shortcut("T2", _embedding, after=(-1, False), order=(1, 0))
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the rows of ``weight`` that ``input`` names: ``[..., D]``.

    The row ``padding_idx`` gets no gradient. With ``max_norm`` the rows that are used are first scaled down, in place,
    to that ``norm_type``-norm at most. With ``scale_grad_by_freq`` a row's gradient is divided by how often it was
    named. With ``sparse`` the gradient of ``weight`` is a sparse tensor of the rows that were named.
    """
    if weight.dim() != 2:
        raise RuntimeError("'weight' must be 2-D")
    padding = _padding(padding_idx, weight.shape[0])
    if max_norm is not None:
        if weight.requires_grad and weight.is_leaf:
            _renormalize(weight.detach(), input, max_norm, norm_type)
        else:
            _renormalize(weight, input, max_norm, norm_type)
    return _looked_up(weight, input, padding, scale_grad_by_freq, sparse)


def _looked_up(weight: Tensor, indices: Tensor, padding: int, scale_grad_by_freq: bool, sparse: bool) -> Tensor:
    if sparse and _C.is_recorded(weight):
        from minitensor.sparse import lookups

        return lookups.embedding(weight, indices, padding, scale_grad_by_freq)  # type: ignore[no-any-return]
    return _embedding(weight, indices, padding, scale_grad_by_freq)


@composite(name="embedding", method=False)
def _torch_embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the rows of ``weight`` that ``indices`` name. See ``nn.functional.embedding``."""
    return _looked_up(weight, indices, padding_idx, scale_grad_by_freq, sparse)


@grad_fn("EmbeddingBagBackward0")
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return for each bag of indices the sum, mean or maximum of the rows that they name.

    ``input`` has a bag in each row, or is a vector of which ``offsets`` has the first index of each bag (with
    ``include_last_offset`` also the end of the last). ``per_sample_weights`` multiplies the rows of a sum. Indices
    equal to ``padding_idx`` are left out. With ``sparse`` the gradient of ``weight`` is a sparse tensor.
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
        starts = arange(input.shape[0], device=input.device) * input.shape[1]
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
        if include_last_offset:
            input, per_sample_weights = _in_bags(input, per_sample_weights, offsets)
        starts = _bag_starts(offsets, input.numel(), include_last_offset)
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    padding = _padding(padding_idx, weight.shape[0])
    if max_norm is not None:
        _renormalize(weight.detach(), input, max_norm, norm_type)
    rows = _looked_up(weight, input, padding, scale_grad_by_freq, sparse)
    count = starts.numel()
    bags = _bag_of_each(starts, input.numel())
    counted = input != padding if padding >= 0 else None
    if mode == "max":
        return _bag_maximum(rows, starts, counted)[0]
    factors = per_sample_weights
    if counted is not None:
        factors = counted.to(weight.dtype) if factors is None else factors * counted
    if weight.dtype in (float16, bfloat16):
        rows = rows.to(float32)  # rounded once, at the end
    rows = rows if factors is None else rows * factors.unsqueeze(1)
    result = rows.new_zeros((count, weight.shape[1])).index_add(0, bags, rows)
    if mode == "mean":
        result = result / _bag_sizes(bags, count, counted).clamp(min=1).unsqueeze(1)
    return result.to(weight.dtype)


def _in_bags(indices: Tensor, weights: Tensor | None, offsets: Tensor) -> tuple[Tensor, Tensor | None]:
    """Drop what is behind the end of the last bag."""
    end = int(offsets[-1].item()) if offsets.numel() else 0
    if not 0 <= end < indices.numel():
        return indices, weights
    return indices[:end], None if weights is None else weights[:end]


def _bag_starts(offsets: Tensor, count: int, include_last_offset: bool) -> Tensor:
    starts = offsets.to(int64)
    if starts.numel():
        first, last = (int(n) for n in (starts[0].item(), starts[-1].item()))
        if first != 0:
            raise RuntimeError(
                f"offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
                f"However, got {first}"
            )
        if last > count:
            raise RuntimeError(
                f"offsets[-1] can not be greater than input's length, but got offsets[-1] of {last} and input's "
                f"length of {count}"
            )
        if bool((starts[1:] < starts[:-1]).any()):
            raise RuntimeError("offsets must not decrease: each is where a bag begins")
    elif include_last_offset:
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    return starts[:-1] if include_last_offset else starts


def _bag_of_each(starts: Tensor, count: int) -> Tensor:
    """Return the bag of each index: the last that begins at it or before."""
    return searchsorted(starts, arange(count, device=starts.device), right=True) - 1


def _bag_sizes(bags: Tensor, count: int, counted: Tensor | None) -> Tensor:
    ones = offered.ones(bags.numel(), dtype=int64, device=bags.device) if counted is None else counted.to(int64)
    return offered.zeros(count, dtype=int64, device=bags.device).index_add(0, bags, ones)


def _bag_maximum(rows: Tensor, starts: Tensor, counted: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the largest elements of each bag's rows, and in which row they are; zeros for a bag of none."""
    count, total = starts.numel(), rows.shape[0]
    if count == 0 or total == 0:
        nothing = rows.new_zeros((count, rows.shape[1])) + rows.sum() * 0
        return nothing, offered.zeros(count, rows.shape[1], dtype=int64, device=rows.device)
    ends = cat([starts[1:], full((1,), total, dtype=int64, device=starts.device)])
    longest = max(int((ends - starts).max().item()), 1)
    places = starts.unsqueeze(1) + arange(longest, device=starts.device)
    members = places < ends.unsqueeze(1)
    places = places.clamp(max=total - 1)
    if counted is not None:
        members = members & counted[places]
    table = where(members.unsqueeze(2), rows[places], float("-inf"))
    values, order = table.max(1)
    empty = ~members.any(1, keepdim=True)
    return where(empty, 0.0, values), gather(places, 1, order)


@composite(name="embedding_bag", method=False)
def _torch_embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return bags of rows, the bag of each index, the sizes of the bags, and which rows hold a bag's maxima.

    See ``nn.functional.embedding_bag``; ``mode`` is 0 for the sum, 1 for the mean, 2 for the maximum. What a sum has
    no use for is empty or zeros, as in PyTorch.
    """
    name = ("sum", "mean", "max")[mode]
    result = embedding_bag(
        indices, weight, offsets, None, 2, scale_grad_by_freq, name, sparse, per_sample_weights, include_last_offset,
        padding_idx,
    )  # fmt: skip
    if include_last_offset:
        indices, _ = _in_bags(indices, None, offsets)
    starts = _bag_starts(offsets, indices.numel(), include_last_offset)
    count = starts.numel()
    padding = _padding(padding_idx, weight.shape[0])
    counted = indices != padding if padding >= 0 else None
    bags = _bag_of_each(starts, indices.numel())
    if mode == 0:
        zeros = offered.zeros(offsets.numel(), dtype=indices.dtype, device=indices.device)
        return result, (bags if padding >= 0 else bags[:0]).to(indices.dtype), zeros, zeros.clone()
    sizes = _bag_sizes(bags, count, counted).to(indices.dtype)
    if mode == 1:
        return result, bags.to(indices.dtype), sizes, sizes.clone()
    with no_grad():
        places = _bag_maximum(_embedding(weight, indices, -1, False), starts, counted)[1]
        chosen = where((sizes > 0).unsqueeze(1), indices[places], 0) if indices.numel() else places
    return result, bags.to(indices.dtype), sizes, chosen


@composite(method=False)
def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scale down, in place, the rows of ``input`` that ``indices`` name to that ``norm_type``-norm at most."""
    _renormalize(input.detach(), indices, max_norm, norm_type)
    return input


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Return int64 rows ``[..., num_classes]`` that hold one 1, at the position that ``tensor`` names.

    By default ``num_classes`` is one more than the largest value.
    """
    if tensor.dtype != int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    num_classes = whole(num_classes, "one_hot", "num_classes")
    if _C.vmap_level(tensor):  # whose values nobody can read
        if num_classes < 1:
            raise RuntimeError("one_hot: num_classes must be given inside of vmap")
        return (tensor.unsqueeze(-1) == arange(num_classes, device=tensor.device)).to(int64)
    if tensor.numel() == 0 and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    refuse_where(tensor < 0, "Class values must be non-negative.")
    if num_classes == -1:
        num_classes = int(tensor.max().item()) + 1
    elif num_classes < 1:
        raise RuntimeError("num_classes should be positive")
    else:
        refuse_where(tensor >= num_classes, "Class values must be smaller than num_classes.")
    rows = offered.zeros((*tensor.shape, num_classes), dtype=int64, device=tensor.device)
    return rows.scatter_(-1, tensor.unsqueeze(-1), 1)
