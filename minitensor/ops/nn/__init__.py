"""Rows of neural networks: activations, convolution, pooling, norms, recurrent layers, attention, embedding, losses."""

from minitensor.ops.nn import (
    activation,
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
    "activation",
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
