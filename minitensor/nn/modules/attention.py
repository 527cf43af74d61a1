"""Multi-head attention."""

from __future__ import annotations

from typing import Any

from minitensor._C import Tensor
from minitensor._functions.offered import empty
from minitensor.nn import functional as F
from minitensor.nn import init
from minitensor.nn.modules.linear import NonDynamicallyQuantizableLinear
from minitensor.nn.modules.module import Module
from minitensor.nn.parameter import Parameter

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention of ``num_heads`` heads: Vaswani and others, "Attention Is All You Need" (2017).

    Queries, keys and values are ``[L, N, E]``, ``[N, L, E]`` with ``batch_first``, or ``[L, E]``. See
    ``F.multi_head_attention_forward``.
    """

    in_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} "
                "instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def made(name: str, *shape: int, wanted: bool) -> None:
            self.register_parameter(name, Parameter(empty(shape, device=device, dtype=dtype)) if wanted else None)

        # What there is of these is drawn in the order in which it stands here.
        same = self._qkv_same_embed_dim
        if same:
            made("in_proj_weight", 3 * embed_dim, embed_dim, wanted=True)
        made("q_proj_weight", embed_dim, embed_dim, wanted=not same)
        made("k_proj_weight", embed_dim, self.kdim, wanted=not same)
        made("v_proj_weight", embed_dim, self.vdim, wanted=not same)
        if not same:
            self.register_parameter("in_proj_weight", None)
        made("in_proj_bias", 3 * embed_dim, wanted=bias)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        if add_bias_kv:
            made("bias_k", 1, 1, embed_dim, wanted=True)
            made("bias_v", 1, 1, embed_dim, wanted=True)
        else:
            self.__dict__.update(bias_k=None, bias_v=None)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.constant_(bias, 0.0)
        for row in (self.bias_k, self.bias_v):
            if row is not None:
                init.xavier_normal_(row)

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the attention, and its weights if ``need_weights``."""
        turned = self.batch_first and query.dim() == 3
        if turned:
            same_key, same_value = key is query, value is key
            query = query.transpose(1, 0)
            key = query if same_key else key.transpose(1, 0)
            value = key if same_value else value.transpose(1, 0)
        result, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (result.transpose(1, 0) if turned else result), weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Return both masks as one, and its kind: 1 for keys alone ``[N, S]``, 2 for ``[N, heads, L, S]``."""
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        count, length, _ = query.shape
        shape = (count, self.num_heads, length, length)
        if attn_mask.dim() == 3:
            merged = attn_mask.reshape((count, -1, length, length))
        else:
            merged = attn_mask.reshape((1, 1, length, length)).expand(shape)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.reshape((count, 1, 1, length)).expand((-1, self.num_heads, -1, -1))
        return merged, 2
