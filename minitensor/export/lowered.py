"""An exported program as HLO."""

from __future__ import annotations

from typing import Any

from minitensor._C import Tensor
from minitensor.utils import _pytree

__all__ = ["lowered"]


def lowered(program: Any) -> Any:
    """What `minitensor.function(...).lower(...)` gives for the graph, its lifted inputs and the example."""
    from minitensor_jit import function

    if program.example_inputs is None:
        raise RuntimeError("hlo: the program has no example inputs, whose sizes HLO needs")
    user = _pytree.tree_leaves(program.example_inputs)
    module = program.graph_module
    given = [x.detach() if isinstance(x, Tensor) else x for x in (*program.lifted(), *user)]
    numbers = [i for i, x in enumerate(given) if isinstance(x, Tensor)]

    def main(*tensors: Tensor) -> Any:
        values = list(given)
        for number, tensor in zip(numbers, tensors, strict=True):
            values[number] = tensor
        return module.forward(*values)

    main.__name__ = "main"
    return function(main, jit_compile=True).lower(*(given[number] for number in numbers))
