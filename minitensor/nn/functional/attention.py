"""Attention."""

from __future__ import annotations

import math
from typing import Any

from minitensor import _C
from minitensor._C import Tensor, bfloat16, float16, float32
from minitensor._functions import offered
from minitensor._functions.offered import broadcast_shapes, cat, full, matmul, softmax, where
from minitensor._warning import warn
from minitensor.composite.numbers import number
from minitensor.composite.registry import autocast, one_node
from minitensor.ops import ROWS
from minitensor.ops.nn.attention import attention_scores, attention_weights

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]

_attention = ROWS["attention"].call


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Any) -> None:
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(
            f"Expected query, key, and value to have the same dtype, but got query.dtype: {query.dtype} key.dtype: "
            f"{key.dtype} and value.dtype: {value.dtype} instead."
        )
    if query.dim() < 2 or key.dim() < 2 or value.dim() < 2:
        raise RuntimeError(
            f"Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {query.dim()} "
            f"key.dim: {key.dim()} and value.dim: {value.dim()} instead."
        )
    if mask is not None and mask.dtype != _C.bool and mask.dtype != query.dtype:
        raise RuntimeError(
            f"Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
            f"{mask.dtype} and  query.dtype: {query.dtype} instead."
        )


@autocast("lower", "lower")
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return ``softmax(query @ key.mT * scale + mask) @ value``, for ``[..., L, E]``, ``[..., S, E]``, ``[..., S, V]``.

    ``scale`` is ``1 / sqrt(E)`` by default. A mask of bools says which keys a query sees, one of numbers is added;
    ``is_causal`` lets the i-th query see the keys up to the i-th, of those that the mask lets it see. A query that sees
    no key gets zeros. With ``enable_gqa`` each head of key and value serves several of query. ``dropout_p`` drops
    weights, always.
    """
    _check(query, key, value, attn_mask)
    dropout_p = number(dropout_p, "scaled_dot_product_attention", "dropout_p")
    if dropout_p > 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p:g}")
    if enable_gqa:
        if key.dim() < 3 or query.shape[-3] % key.shape[-3] or query.shape[-3] % value.shape[-3]:
            raise RuntimeError("Number of heads in key and value must divide the number of heads in query")
        key = _spread_heads(key, query.shape[-3] // key.shape[-3])
        value = _spread_heads(value, query.shape[-3] // value.shape[-3])
    if scale is None:
        scale = 1.0 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0
    mask = attn_mask
    if mask is not None and mask.dtype == _C.bool:
        mask = where(mask, 0.0, full((), float("-inf"), dtype=query.dtype))
    if dropout_p > 0.0 or (mask is not None and (mask.requires_grad or _C.is_recorded(mask))):
        # Scores and weights are in float32, whatever the operands are stored in.
        dtype, wide = query.dtype, float32 if query.dtype in (float16, bfloat16) else query.dtype
        query, key, value = (t.to(wide) for t in (query, key, value))
        mask = None if mask is None else mask.to(wide)
        return matmul(_weights(query, key, mask, dropout_p, is_causal, scale), value).to(dtype)
    lead = tuple(query.shape[:-2])
    if not tuple(key.shape[:-2]) == tuple(value.shape[:-2]) == lead:
        lead = tuple(broadcast_shapes(lead, key.shape[:-2], value.shape[:-2]))
        query, key, value = (t.expand((*lead, *t.shape[-2:])) for t in (query, key, value))
    batch = 1
    for n in lead:
        batch *= n
    if mask is not None:
        mask = mask.expand((*lead, query.shape[-2], key.shape[-2])).reshape((batch, query.shape[-2], key.shape[-2]))
    q, k, v = (t if t.dim() == 3 else t.reshape((batch, *t.shape[-2:])) for t in (query, key, value))
    if query.dim() == 4:
        return _flash(q, k, v, mask, scale, is_causal, lead)
    return _attended(q, k, v, mask, scale, is_causal, lead)


def _attended(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, is_causal: bool, lead: tuple[int, ...]
) -> Tensor:
    result: Tensor = _attention(q, k, v, mask, scale, is_causal)
    return result if len(lead) == 1 else result.reshape((*lead, *result.shape[-2:]))


_flash = one_node("ScaledDotProductFlashAttentionForCpuBackward0")(_attended)


def _weights(
    query: Tensor, key: Tensor, mask: Tensor | None, dropout_p: float, is_causal: bool, scale: float
) -> Tensor:
    from minitensor.nn.functional.dropout import dropout

    weights: Tensor = attention_weights(attention_scores(query, key, mask, scale, is_causal))
    return dropout(weights, dropout_p) if dropout_p > 0.0 else weights


def _spread_heads(t: Tensor, times: int) -> Tensor:
    if times == 1:
        return t
    *lead, heads, length, width = t.shape
    spread = t.unsqueeze(-3).expand((*lead, heads, times, length, width))
    return spread.reshape((*lead, heads * times, length, width))


def _canonical_mask(mask: Tensor | None, name: str, dtype: Any, other: Tensor | None = None) -> Tensor | None:
    """Return a mask of numbers; True hides."""
    if mask is None:
        return None
    if mask.dtype != _C.bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if other is not None and other.dtype != mask.dtype:
        warn(f"Support for mismatched {name} and key_padding_mask is deprecated. Use same type for both instead.")
    if mask.dtype == _C.bool:
        return where(mask, float("-inf"), offered.zeros((), dtype=dtype))
    return mask


def _shape_check(query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Any, attn_mask: Any, heads: int) -> bool:
    """Return whether there is a batch; throws for shapes that do not fit together."""
    batched: bool = query.dim() == 3
    if not batched and query.dim() != 2:
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor"
        )
    wanted = 3 if batched else 2
    form = "batched (3-D)" if batched else "unbatched (2-D)"
    if key.dim() != wanted or value.dim() != wanted:
        raise AssertionError(
            f"For {form} `query`, expected `key` and `value` to be {wanted}-D but found {key.dim()}-D and "
            f"{value.dim()}-D tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != wanted - 1:
        raise AssertionError(
            f"For {form} `query`, expected `key_padding_mask` to be `None` or {wanted - 1}-D but found "
            f"{key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None:
        if attn_mask.dim() not in (2, 3):
            raise AssertionError(
                f"For {form} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D "
                "tensor instead"
            )
        if not batched and attn_mask.dim() == 3:
            expected = (heads, query.shape[0], key.shape[0])
            if tuple(attn_mask.shape) != expected:
                raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}")
    return batched


def _projected(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return query, key and value times their third of one weight each."""
    from minitensor.nn.functional.products import linear

    width = query.shape[-1]
    if query is key and key is value:
        both = linear(query, weight, bias)
        return (
            both.narrow(-1, 0, width),
            both.narrow(-1, width, width),
            both.narrow(-1, 2 * width, width),
        )
    parts = [weight.narrow(0, i * width, width) for i in range(3)]
    shifts: list[Any] = [None] * 3 if bias is None else [bias.narrow(0, i * width, width) for i in range(3)]
    q, k, v = (linear(t, w, b) for t, w, b in zip((query, key, value), parts, shifts, strict=True))
    return q, k, v


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return multi-head attention and, if ``need_weights``, its weights, averaged over the heads or one for each.

    ``query`` is ``[L, N, E]`` or ``[L, E]``, ``key`` and ``value`` ``[S, N, ...]`` or ``[S, ...]``. Vaswani and others,
    "Attention Is All You Need" (2017). ``key_padding_mask`` ``[N, S]`` and ``attn_mask`` ``[L, S]`` or
    ``[N * heads, L, S]`` hide where they are True, or are added.
    """
    from minitensor.nn.functional.dropout import dropout
    from minitensor.nn.functional.products import linear

    batched = _shape_check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        same_kv, same_qk = key is value, query is key
        query = query.unsqueeze(1)
        key = query if same_qk else key.unsqueeze(1)
        value = key if same_kv else value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    length, count, width = query.shape
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. Use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    key_padding_mask = _canonical_mask(key_padding_mask, "key_padding_mask", query.dtype)
    attn_mask = _canonical_mask(attn_mask, "attn_mask", query.dtype)
    if width != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}")
    depth = width // num_heads
    if depth * num_heads != width:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        if tuple(key.shape[:2]) != tuple(value.shape[:2]):
            raise AssertionError(
                f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
            )
    elif key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")

    if use_separate_proj_weight:
        if q_proj_weight is None or k_proj_weight is None or v_proj_weight is None:
            raise AssertionError(
                "use_separate_proj_weight is True but q_proj_weight, k_proj_weight or v_proj_weight is None"
            )
        shifts: list[Any] = (
            [None] * 3 if in_proj_bias is None else [in_proj_bias.narrow(0, i * width, width) for i in range(3)]
        )
        q = linear(query, q_proj_weight, shifts[0])
        k = linear(key, k_proj_weight, shifts[1])
        v = linear(value, v_proj_weight, shifts[2])
    else:
        if in_proj_weight is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        q, k, v = _projected(query, key, value, in_proj_weight, in_proj_bias)

    if attn_mask is not None:
        expected = (length, key.shape[0]) if attn_mask.dim() == 2 else (count * num_heads, length, key.shape[0])
        if tuple(attn_mask.shape) != expected:
            raise RuntimeError(
                f"The shape of the {attn_mask.dim()}D attn_mask is {attn_mask.shape}, but should be {expected}."
            )
        if attn_mask.dim() == 2:
            attn_mask = attn_mask.unsqueeze(0)
    if (bias_k is None) != (bias_v is None):
        raise AssertionError("bias_k and bias_v must both be given or both be None")
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("bias cannot be added to static key or static value.")
        k = cat([k, bias_k.expand((1, count, bias_k.shape[-1]))])
        v = cat([v, bias_v.expand((1, count, bias_v.shape[-1]))])
        attn_mask, key_padding_mask = _one_more(attn_mask), _one_more(key_padding_mask)

    q = q.reshape((length, count * num_heads, depth)).transpose(0, 1)
    k = static_k if static_k is not None else k.reshape((k.shape[0], count * num_heads, depth)).transpose(0, 1)
    v = static_v if static_v is not None else v.reshape((v.shape[0], count * num_heads, depth)).transpose(0, 1)
    if add_zero_attn:
        zeros = offered.zeros(count * num_heads, 1, depth, dtype=k.dtype, device=k.device)
        k, v = cat([k, zeros], 1), cat([v, zeros], 1)
        attn_mask, key_padding_mask = _one_more(attn_mask), _one_more(key_padding_mask)
    source = k.shape[1]
    if key_padding_mask is not None:
        if tuple(key_padding_mask.shape) != (count, source):
            raise AssertionError(
                f"expecting key_padding_mask shape of {(count, source)}, but got {key_padding_mask.shape}"
            )
        hidden = key_padding_mask.reshape((count, 1, 1, source)).expand((count, num_heads, 1, source))
        hidden = hidden.reshape((count * num_heads, 1, source))
        attn_mask = hidden if attn_mask is None else attn_mask + hidden
    if not training:
        dropout_p = 0.0

    scale = 1.0 / math.sqrt(depth)
    if need_weights:
        scores = attention_scores(q, k, attn_mask, scale, False)
        weights = softmax(scores, -1)
        used = dropout(weights, dropout_p) if dropout_p > 0.0 else weights
        result = matmul(used, v)
    else:
        result = scaled_dot_product_attention(q, k, v, attn_mask, dropout_p)
    result = result.transpose(0, 1).reshape((length * count, width))
    result = linear(result, out_proj_weight, out_proj_bias).reshape((length, count, width))
    if not batched:
        result = result.squeeze(1)
    if not need_weights:
        return result, None
    weights = weights.reshape((count, num_heads, length, source))
    if average_attn_weights:
        weights = weights.mean(1)
    return result, weights if batched else weights.squeeze(0)


def _one_more(mask: Tensor | None) -> Tensor | None:
    """Return a mask for one key more, which is not hidden."""
    if mask is None:
        return None
    return cat([mask, offered.zeros(*mask.shape[:-1], 1, dtype=mask.dtype, device=mask.device)], -1)
