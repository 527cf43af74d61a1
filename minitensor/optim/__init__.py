"""Algorithms that update parameters from their gradients."""

from minitensor.optim import lr_scheduler, swa_utils
from minitensor.optim.adadelta import Adadelta
from minitensor.optim.adafactor import Adafactor
from minitensor.optim.adagrad import Adagrad
from minitensor.optim.adam import Adam, AdamW
from minitensor.optim.adamax import Adamax
from minitensor.optim.asgd import ASGD
from minitensor.optim.lbfgs import LBFGS
from minitensor.optim.muon import Muon
from minitensor.optim.nadam import NAdam
from minitensor.optim.optimizer import Optimizer
from minitensor.optim.radam import RAdam
from minitensor.optim.rmsprop import RMSprop
from minitensor.optim.rprop import Rprop
from minitensor.optim.sgd import SGD
from minitensor.optim.sparse_adam import SparseAdam
from minitensor.optim.swapping import swap_in_optimizer_params_and_state

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
    "swap_in_optimizer_params_and_state",
]
