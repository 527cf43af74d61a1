"""Scaled dot-product attention."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor.ops.contraction import matmul
from minitensor.ops.formula import differentiate
from minitensor.ops.nn.softmax import softmax
from minitensor.ops.row import contraction

__all__: list[str] = []


def attention_scores(query: Any, key: Any, mask: Any, scale: float, causal: bool) -> Any:
    """Return `query key^T * scale` plus the mask, with minus infinity for keys that come after the query if causal."""
    scores = matmul(query * scale, key.mT)
    if mask is not None:
        scores = scores + mask
    if causal:
        later = scores.new_full(tuple(scores.shape[-2:]), 1.0).triu(1) != 0
        scores = scores.masked_fill(later, float("-inf"))
    return scores


def attention_weights(scores: Any) -> Any:
    """Return the softmax over the last dimension, zero where every score is minus infinity."""
    hidden = (scores == float("-inf")).all(dim=-1, keepdim=True)
    return softmax(scores.masked_fill(hidden, 0.0), -1).masked_fill(hidden, 0.0)


def _attention_vjp(g: Any, _out: Any, q: Any, k: Any, v: Any, mask: Any, scale: float, causal: bool) -> tuple[Any, ...]:
    return (*attention_backward(g, q, k, v, mask, scale, causal), None)


def _gradient(g: Any, q: Any, k: Any, v: Any, mask: Any, scale: float, causal: bool) -> tuple[Any, Any, Any]:
    p = attention_weights(attention_scores(q, k, mask, scale, causal))
    slopes = matmul(g, v.mT)
    slopes = p * (slopes - (slopes * p).sum(dim=-1, keepdim=True)) * scale
    return matmul(slopes, k), matmul(slopes.mT, q), matmul(p.mT, g)


def _backward_vjp(gs: Any, _out: Any, g: Any, q: Any, k: Any, v: Any, mask: Any, scale: float, causal: bool) -> Any:
    hidden = None if mask is None else mask.detach()
    return (*differentiate(lambda *t: _gradient(t[0], t[1], t[2], t[3], hidden, scale, causal), (g, q, k, v), gs), None)


_OPERANDS = "Tensor query, Tensor key, Tensor value, Tensor? mask"
attention = contraction(
    f"attention({_OPERANDS}, float scale, bool causal)",
    "softmax(query key^T * scale + mask) value for [B, L, E], [B, S, E], [B, S, V] and a mask [B, L, S], which has no "
    "gradient. A query that sees no key gets zeros.",
    autocast=("lower", "lower"), vjp=_attention_vjp, function=False, method=False,
)  # fmt: skip
attention_backward: _C.Op = contraction(
    f"attention_backward(Tensor grad, {_OPERANDS}, float scale, bool causal)",
    "The gradients of query, key and value.",
    vjp=_backward_vjp, function=False, method=False,
)  # fmt: skip
