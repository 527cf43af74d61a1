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
