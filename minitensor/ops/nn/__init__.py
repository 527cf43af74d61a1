"""Rows of neural networks: convolution, pooling, normalisation, recurrent layers, attention, embedding, losses."""

from minitensor.ops.nn import (
    attention,
    convolution,
    ctc,
    embedding,
    fused_gradients,
    normalization,
    pooling,
    recurrent,
    softmax,
)

__all__ = [
    "attention",
    "convolution",
    "ctc",
    "embedding",
    "fused_gradients",
    "normalization",
    "pooling",
    "recurrent",
    "softmax",
]
