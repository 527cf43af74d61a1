"""Automatic differentiation: gradients, gradient modes and custom functions."""

from minitensor.autograd.function import Function
from minitensor.autograd.gradients import backward, grad
from minitensor.autograd.modes import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["Function", "backward", "enable_grad", "grad", "inference_mode", "no_grad", "set_grad_enabled"]
