"""Automatic differentiation: gradients, gradient modes, custom functions, and a look at the graph."""

from minitensor.autograd import anomaly_mode, forward_ad, functional, graph
from minitensor.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from minitensor.autograd.function import Function
from minitensor.autograd.gradcheck import gradcheck, gradgradcheck
from minitensor.autograd.gradients import backward, grad
from minitensor.autograd.modes import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = [
    "Function",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]
