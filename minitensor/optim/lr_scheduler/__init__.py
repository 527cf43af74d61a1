"""Schedulers of learning rates."""

from minitensor.optim.lr_scheduler.base import EPOCH_DEPRECATION_WARNING, LRScheduler, _LRScheduler
from minitensor.optim.lr_scheduler.cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from minitensor.optim.lr_scheduler.cyclic import CyclicLR, OneCycleLR
from minitensor.optim.lr_scheduler.factors import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from minitensor.optim.lr_scheduler.plateau import ReduceLROnPlateau
from minitensor.optim.lr_scheduler.several import ChainedScheduler, SequentialLR
from minitensor.optim.optimizer import Optimizer

__all__ = [
    "EPOCH_DEPRECATION_WARNING",
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "Optimizer",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
    "_LRScheduler",
]
