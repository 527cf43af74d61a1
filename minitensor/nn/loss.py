"""Loss functions as modules."""

from __future__ import annotations

import minitensor as mt
from minitensor.nn import functional as F
from minitensor.nn.module import Module


class MSELoss(Module):
    """The squared difference; ``reduction`` is "mean", "sum" or "none"."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, input: mt.Tensor, target: mt.Tensor) -> mt.Tensor:
        """Return the loss."""
        return F.mse_loss(input, target, reduction=self.reduction)


class _ClassLoss(Module):
    """What the losses of a classification share."""

    weight: mt.Tensor | None

    def __init__(self, weight: mt.Tensor | None = None, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction = reduction


class NLLLoss(_ClassLoss):
    """The negative log-likelihood of the target classes; the input holds log-probabilities. See ``F.nll_loss``."""

    def forward(self, input: mt.Tensor, target: mt.Tensor) -> mt.Tensor:
        """Return the loss."""
        return F.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class CrossEntropyLoss(_ClassLoss):
    """The cross entropy of logits and target classes or probabilities. See ``F.cross_entropy``."""

    def __init__(
        self,
        weight: mt.Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction)
        self.label_smoothing = label_smoothing

    def forward(self, input: mt.Tensor, target: mt.Tensor) -> mt.Tensor:
        """Return the loss."""
        return F.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )
