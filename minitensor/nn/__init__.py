"""Neural network modules, their parameters, and the functions behind them."""

from minitensor.nn import functional, init
from minitensor.nn.activation import LogSoftmax, ReLU, Sigmoid, Softmax, Tanh
from minitensor.nn.container import ModuleList, Sequential
from minitensor.nn.linear import Flatten, Identity, Linear
from minitensor.nn.loss import CrossEntropyLoss, MSELoss, NLLLoss
from minitensor.nn.module import Module
from minitensor.nn.parameter import Parameter

__all__ = [
    "CrossEntropyLoss",
    "Flatten",
    "Identity",
    "Linear",
    "LogSoftmax",
    "MSELoss",
    "Module",
    "ModuleList",
    "NLLLoss",
    "Parameter",
    "ReLU",
    "Sequential",
    "Sigmoid",
    "Softmax",
    "Tanh",
    "functional",
    "init",
]


def __getattr__(name: str) -> object:
    """Say which function does what a class that is missing would do."""
    plain = name.lower()
    near = [n for n in functional.__all__ if n.replace("_", "") == plain]
    hint = f"; its function is here: minitensor.nn.functional.{near[0]}" if near and not name.startswith("_") else ""
    raise AttributeError(f"module 'minitensor.nn' has no attribute {name!r}{hint}")
