"""Prints what `torch` says of calls: `python words.py FILE`, where the file has the calls as JSON's keys.

Of each call the class and text of the error, the categories and first lines of the warnings, and how a result is
shown if it is no tensor. What PyTorch adds of its own sources ("Triggered internally at") is no part of it.
"""

import json
import sys
import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def zeros(*size, **more):
    """Zeros of a size."""
    return torch.zeros(size, **more)


def read_only(count):
    """An array that can't be written."""
    array = np.ones(count)
    array.setflags(write=False)
    return array


def backward_of_written(made):
    """Run backward through a value that was written since."""
    loss = (made * made).sum()
    made.add_(1)
    loss.backward()


def said(call, names):
    """What one call says."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = eval(call, names)
            shown = None if isinstance(result, torch.Tensor) else str(result)
        except Exception as error:
            shown = f"{type(error).__name__}: {error}"
    lines = [f"{one.category.__name__}: {str(one.message).split(' (Triggered')[0].splitlines()[0]}" for one in caught]
    return [shown, *lines]


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        calls = json.load(file)
    leaf = torch.ones(2, 2, requires_grad=True)
    names = {"torch": torch, "nn": nn, "F": F, "zeros": zeros, "read_only": read_only, "x": leaf}
    names.update(backward_of_written=backward_of_written, long=torch.int64)
    json.dump({call: said(call, names) for call in calls}, sys.stdout, indent=0)
