"""What compiled code has Python compute: custom-calls, and linear algebra and transforms that NumPy has.

The text of a call is a module of the one instruction, whose operands are parameters: the evaluator computes it, but for
what processes exchange (`exchange.py`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minitensor import _C

from ..ir.evaluate.evaluator import evaluate
from ..ir.module import Module
from ..ir.shape import Shape, leaves
from ..ir.text.parser import parse_module
from .exchange import exchange_of

__all__ = ["run"]


@lru_cache(maxsize=256)
def _prepared(text: str) -> tuple[Any, Callable[[Any], object]]:
    """The type of the array of addresses, and what is called with it."""
    module = parse_module(text)
    inputs = [p.array_shape for p in module.entry.parameters]
    outputs = leaves(module.entry.root.shape)
    exchange = exchange_of(module.entry.root)
    evaluated = partial(_evaluate, module, inputs, outputs)
    return ctypes.c_void_p * (len(inputs) + len(outputs)), evaluated if exchange is None else exchange


def run(text: str, address: int) -> None:
    """Computes the module from the arrays whose addresses are at `address`, and writes its results to what follows."""
    pointers, compute = _prepared(text)
    compute(pointers.from_address(address))


def _evaluate(module: Module, inputs: list[Shape], outputs: list[Shape], pointers: Any) -> None:
    arrays = [_array(at, shape) for at, shape in zip(pointers, [*inputs, *outputs], strict=True)]
    results = evaluate(module, [a.copy() for a in arrays[: len(inputs)]])
    for target, result, shape in zip(arrays[len(inputs) :], results, outputs, strict=True):
        if np.shape(result) != shape.dims or np.asarray(result).dtype != shape.numpy_dtype:
            made = f"{np.asarray(result).dtype}{list(np.shape(result))}"
            raise TypeError(f"{module.entry.root.name} gave {made}, its shape is {shape}")
        target[...] = result


def _array(address: int | None, shape: Shape) -> NDArray[Any]:
    if not shape.nbytes or address is None:
        return np.empty(shape.dims, shape.numpy_dtype)
    memory = memoryview((ctypes.c_char * shape.nbytes).from_address(address)).cast("B")
    return np.frombuffer(memory, np.uint8).view(shape.numpy_dtype).reshape(shape.dims)


_C.set_host_call(run)
