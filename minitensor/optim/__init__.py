"""Algorithms that update parameters from their gradients."""

from minitensor.optim.adam import Adam, AdamW
from minitensor.optim.optimizer import Optimizer
from minitensor.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]
