"""`torch.utils.tensorboard.summary`: values as TensorBoard's summaries."""

from __future__ import annotations

from typing import Any

from minitensor.utils.tensorboard import plugins, summaries
from minitensor.utils.tensorboard.plugins import custom_scalars, hparams
from minitensor.utils.tensorboard.summaries import scalar, text

__all__ = ["audio", "custom_scalars", "histogram", "hparams", "image", "pr_curve", "scalar", "text"]


def audio(tag: str, tensor: Any, sample_rate: int = 44100) -> Any:
    """Return sound of one channel, numbers in [-1, 1]."""
    return plugins.audio(tag, tensor, sample_rate)


def histogram(name: str, values: Any, bins: Any, max_bins: int | None = None) -> Any:
    """Return how many values lie between edges."""
    return summaries.histogram(name, values, bins, max_bins)


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Any:
    """Return a picture; several are put side by side."""
    return summaries.image(tag, tensor if rescale == 1 else summaries.numbers(tensor) * rescale, dataformats)


def pr_curve(tag: str, labels: Any, predictions: Any, num_thresholds: int = 127, weights: Any = None) -> Any:
    """Return precision and recall of predictions at evenly spaced thresholds."""
    return plugins.pr_curve(tag, labels, predictions, num_thresholds, weights)
