"""Attention whose scores a function of the user's changes or masks: `torch.nn.attention.flex_attention`.

The functions get indices as tensors without dimensions and are mapped over all of them by `vmap`, so that all scores
are made at once, (B, H, Q, K): memory is what plain attention takes.
"""

# ruff: noqa: N803  (PyTorch's names)

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from minitensor import _C, Tensor, nn
from minitensor._C import float32, float64, int32, int64
from minitensor._functions.offered import arange, logical_and, logical_or, ones, zeros, zeros_like
from minitensor._vmap import vmap

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

_DEFAULT_SPARSE_BLOCK_SIZE = 128
_Function: TypeAlias = Callable[..., Tensor]
_OVER_INDICES = ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None))


class AuxRequest(NamedTuple):
    """What :func:`flex_attention` should return besides."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for, each (B, H, Q) in float32: the logarithm of the sum of exponentials, the largest score."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Allow everything."""
    return batch.new_ones((), dtype=_C.bool)


def and_masks(*mask_mods: _Function) -> _Function:
    """The mask that allows what all of them allow. RuntimeError for what can't be called."""
    return _combined(mask_mods, ones, logical_and)


def or_masks(*mask_mods: _Function) -> _Function:
    """The mask that allows what one of them allows. RuntimeError for what can't be called."""
    return _combined(mask_mods, zeros, logical_or)


def _combined(mask_mods: tuple[_Function, ...], start: Any, combine: Any) -> _Function:
    if not all(callable(mod) for mod in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = start((), dtype=_C.bool, device=b.device)
        for mod in mask_mods:
            result = combine(result, mod(b, h, q_idx, kv_idx))
        return result

    return mask


def _mapped(function: _Function, sizes: tuple[int, ...], device: Any, scores: Tensor | None = None) -> Tensor:
    """A function of (score and) four indices, for all of them."""
    for dims in _OVER_INDICES:
        function = vmap(function, dims if scores is None else (0, *dims))
    indices = [arange(size, device=device) for size in sizes]
    return function(*indices) if scores is None else function(scores, *indices)


def create_mask(mod_fn: _Function, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None) -> Tensor:
    """Return a bool (B, H, Q_LEN, KV_LEN), 1 for a size that is None: where a mask allows, or a score isn't -inf."""
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    count = sum(
        p.default is p.empty and p.kind is not p.VAR_KEYWORD for p in inspect.signature(mod_fn).parameters.values()
    )
    if count == 5:
        return _mapped(mod_fn, sizes, device, zeros(sizes, device=device)) != -math.inf
    return _mapped(mod_fn, sizes, device).to(_C.bool).expand(sizes)


class BlockMask:
    """Which blocks of the scores a mask allows wholly or in part, with the mask itself.

    `kv_num_blocks`, int32 (B, H, blocks of queries), counts the blocks that are allowed in part, and the first so many
    of `kv_indices`, int32 (B, H, blocks of queries, blocks of keys), are these; `full_kv_...` are those wholly allowed.
    """

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int],
        mask_mod: _Function,
    ) -> None:
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.BLOCK_SIZE, self.mask_mod = BLOCK_SIZE, mask_mod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: _Function | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:
        """Make one of its parts; without `mask_mod` all in the blocks is allowed. RuntimeError for other ranks."""
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        lengths = seq_lengths or (kv_indices.shape[-2] * size[0], kv_indices.shape[-1] * size[1])
        return cls(lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, size, mask_mod or noop_mask)

    @property
    def shape(self) -> tuple[int, ...]:
        """The scores' shape: (B, H, queries, keys)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """How many scores there are."""
        return math.prod(self.shape)

    def to_dense(self) -> Tensor:
        """Return an int32 (B, H, blocks of queries, blocks of keys): 1 for those that are allowed, at least in part."""
        dense = _dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None:
            dense = dense | _dense(self.full_kv_num_blocks, self.full_kv_indices)
        return dense.to(int32)

    def sparsity(self) -> float:
        """Return the part of the blocks that is not allowed, in percent."""
        dense = self.to_dense()
        return 100 * (1 - dense.sum().item() / dense.numel())

    def to(self, device: Any) -> BlockMask:
        """The same on another device."""
        numbers, indices = self.kv_num_blocks.to(device), self.kv_indices.to(device)
        full = [None if part is None else part.to(device) for part in (self.full_kv_num_blocks, self.full_kv_indices)]
        return BlockMask(self.seq_lengths, numbers, indices, full[0], full[1], self.BLOCK_SIZE, self.mask_mod)

    def allowed(self) -> Tensor:
        """Return a bool of the scores' shape: what the blocks and the mask allow."""
        batch, heads, queries, keys = self.shape
        device = self.kv_indices.device
        mask = create_mask(self.mask_mod, batch, heads, queries, keys, device)
        mask = mask & self._spread(_dense(self.kv_num_blocks, self.kv_indices))
        if self.full_kv_num_blocks is not None:
            mask = mask | self._spread(_dense(self.full_kv_num_blocks, self.full_kv_indices))
        return mask

    def _spread(self, blocks: Tensor) -> Tensor:
        rows, columns = self.BLOCK_SIZE
        whole = blocks.repeat_interleave(rows, -2).repeat_interleave(columns, -1)
        return whole[..., : self.seq_lengths[0], : self.seq_lengths[1]]

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, BLOCK_SIZE={self.BLOCK_SIZE})"


def _dense(count: Tensor, indices: Any) -> Tensor:
    """Where a block is among the first so many."""
    columns = indices.shape[-1]
    listed = arange(columns, device=indices.device) < count.unsqueeze(-1)
    return zeros_like(listed).scatter(-1, indices.to(int64), listed)


def _listed(blocks: Tensor) -> tuple[Tensor, Tensor]:
    order = blocks.to(int32).argsort(dim=-1, descending=True, stable=True)
    return blocks.sum(-1).to(int32), order.to(int32)


def create_block_mask(
    mask_mod: _Function,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
) -> BlockMask:
    """Return the blocks of the mask `mask_mod(b, h, q_idx, kv_idx)`; None for B or H if it is the same for all."""
    rows, columns = size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    mask = nn.functional.pad(mask, (0, -KV_LEN % columns, 0, -Q_LEN % rows))
    counts = mask.unflatten(-1, (-1, columns)).unflatten(-3, (-1, rows)).sum((-1, -3))
    full = counts == rows * columns
    if not separate_full_blocks:
        return BlockMask((Q_LEN, KV_LEN), *_listed(counts > 0), None, None, size, mask_mod)
    return BlockMask((Q_LEN, KV_LEN), *_listed((counts > 0) & ~full), *_listed(full), size, mask_mod)


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: _Function | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Return softmax(score_mod(query key^T scale)) value, where `block_mask` allows it.

    Args:
        query: (B, H, Q, E).
        key: (B, Hk, K, E); H and Hk are the same, or Hk divides H with `enable_gqa`.
        value: (B, Hk, K, Ev).
        score_mod: a function (score, b, h, q_idx, kv_idx) of tensors without dimensions.
        block_mask: from :func:`create_block_mask`.
        scale: 1 / sqrt(E) if None.
        enable_gqa: let groups of heads share keys and values.
        return_lse: return the logarithm of the sum of exponentials too, (B, H, Q).
        kernel_options: what PyTorch's kernels are told; nothing here.
        return_aux: what to return besides, as an :class:`AuxOutput`.

    Returns:
        (B, H, Q, Ev) of query's dtype. A query that may look at nothing gives zeros.

    Raises:
        ValueError: for tensors of other than 4 dimensions, or heads that differ without `enable_gqa`.
    """
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.dim() != 4:
            raise ValueError(f"Expected {name} to be 4-D, but got {tensor.dim()}-D of shape {tuple(tensor.shape)}")
    batch, heads, queries, width = query.shape
    groups, keys = key.shape[1:3]
    if groups != heads:
        if not enable_gqa or heads % groups:
            raise ValueError(
                f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={groups}. "
                "Try setting enable_gqa=True for GQA."
            )
        key, value = (x.repeat_interleave(heads // groups, 1) for x in (key, value))
    factor = 1 / math.sqrt(width) if scale is None else scale
    wide = float64 if query.dtype is float64 else float32
    scores = (query.to(wide) @ key.to(wide).transpose(-2, -1)) * factor
    if score_mod is not None:
        scores = _mapped(score_mod, (batch, heads, queries, keys), query.device, scores).to(wide)
    if block_mask is not None:
        scores = scores.masked_fill(~block_mask.allowed(), -math.inf)
    lse = scores.logsumexp(-1)
    weights = (scores - lse.masked_fill(lse == -math.inf, 0.0).unsqueeze(-1)).exp()
    out = (weights @ value.to(wide)).to(query.dtype)
    if return_aux is not None:
        return out, AuxOutput(lse if return_aux.lse else None, scores.amax(-1) if return_aux.max_scores else None)
    return (out, lse) if return_lse else out
