"""What a session runs: one function that calls the ops of some fetches on what is fed and kept."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitensor import _C
from minitensor._C import OutOfMemoryError
from minitensor._functions.offered import from_numpy, zeros
from minitensor.autograd import enable_grad, no_grad
from minitensor.compat.v1.errors import InvalidArgumentError, OpError, ResourceExhaustedError
from minitensor.compat.v1.framework.graph import Operation, Tensor, needed
from minitensor.compat.v1.framework.inference import REFUSALS, as_tensor
from minitensor.compat.v1.ops.variables import Variable
from minitensor.random import Generator

__all__ = ["Program", "Store"]


class Store:
    """What a session keeps: the tensors of variables, which of them have values, and generators."""

    def __init__(self) -> None:
        self.tensors: dict[Variable, _C.Tensor] = {}
        self.initialized: set[Variable] = set()
        self.generators: dict[Operation, Any] = {}

    def tensor(self, variable: Variable) -> _C.Tensor:
        """The tensor that holds the variable, always the same one."""
        found = self.tensors.get(variable)
        if found is None:
            made = zeros(variable.shape.as_list(), dtype=variable.dtype)
            found = self.tensors.setdefault(variable, made)
        return found

    def generator(self, op: Operation) -> Any:
        """The generator of an op with a seed of its own; None for the default one."""
        if op.held is None:
            return None
        found = self.generators.get(op)
        if found is None:
            found = self.generators.setdefault(op, Generator().manual_seed(int(op.held)))
        return found

    def load(self, variable: Variable, value: Any) -> None:
        """Give a variable a value of its shape; ValueError for another shape."""
        given = value if isinstance(value, _C.Tensor) else from_numpy(np.array(value))
        kept = self.tensor(variable)
        if given.shape != kept.shape:
            raise ValueError(f"variable {variable.name} has shape {tuple(kept.shape)}, the value {tuple(given.shape)}")
        with no_grad():
            kept.copy_(given)
        self.initialized.add(variable)


class Program:
    """The ops that some fetches need, in the order in which they were made."""

    def __init__(self, elements: Sequence[Tensor | Operation], fed: Sequence[Tensor], store: Store) -> None:
        self.store = store
        self.ops = needed(elements, fed)
        self.fetched = [element for element in elements if isinstance(element, Tensor)]
        self.missing = [op for op in self.ops if op.kind == "placeholder"]
        self.reads: list[Variable] = []
        self.writes: list[Variable] = []
        self._note_variables()
        self.ready = False
        self.function: Callable[..., tuple[_C.Tensor, ...]] = self._function(fed)

    def _note_variables(self) -> None:
        """Which variables must have a value before, and which have one afterwards."""
        for op in self.ops:
            if op.kind == "control":
                self.reads += [variable for variable in op.held.variables if variable not in self.writes]
            assigned = op.held[0] if op.type == "Assign" and op.kind == "writes" else None
            for tensor in op.inputs:
                variable = tensor.op.held if tensor.op.kind == "variable" else None
                if variable is not None and variable is not assigned and variable not in self.writes:
                    self.reads.append(variable)
            if assigned is not None and assigned not in self.writes:
                self.writes.append(assigned)
        for tensor in self.fetched:
            if tensor.op.kind == "variable" and tensor.op.held not in self.writes:
                self.reads.append(tensor.op.held)

    def _function(self, fed: Sequence[Tensor]) -> Callable[..., tuple[_C.Tensor, ...]]:
        store = self.store
        slots: dict[Tensor, int] = {tensor: place for place, tensor in enumerate(fed)}
        start: list[Any] = [None] * len(fed)
        backward = [op for op in self.ops if op.kind == "gradients"]
        wanted = {tensor for op in backward for tensor in op.held[1]}
        aliases: list[int] = []
        raw: dict[Tensor, int] = {}
        steps: list[_Step] = []
        for op in self.ops:
            if op.kind in ("variable", "constant"):
                tensor = op.outputs[0]
                slots[tensor] = len(start)
                start.append(store.tensor(op.held) if op.kind == "variable" else op.held)
                if op.kind == "variable":
                    raw[tensor] = len(start)
                    start.append(start[-1])
                    if tensor in wanted:
                        aliases.append(slots[tensor])
                continue
            if op.type == "NoOp":
                continue
            places = []
            for place, tensor in enumerate(op.inputs):
                slot = raw[tensor] if op.kind == "writes" and tensor in raw else slots[tensor]
                if tensor.op.kind == "constant" and op.host_call is None and place not in op.host_inputs:
                    start.append(as_tensor(start[slot]))
                    slot = len(start) - 1
                places.append(slot)
            named: dict[str, Any] = {}
            if op.kind == "random":
                named["generator"] = store.generator(op)
            elif op.kind == "control":
                named["store"] = store
            elif op.kind == "gradients":
                again = any(other is not op and op in needed(other.held[0], fed) for other in backward)
                named = {"create_graph": again, "retain_graph": len(backward) > 1}
            results = []
            for tensor in op.outputs:
                # One that is fed isn't replaced.
                results.append(-1 if tensor in slots else len(start))
                if tensor not in slots:
                    slots[tensor] = len(start)
                    start.append(None)
            leaves = [place for place, t in zip(results, op.outputs, strict=True) if t in wanted and place >= 0]
            steps.append(_Step(op, places, results, named, leaves, op.kind == "writes"))
        aliases += [place for place, tensor in enumerate(fed) if tensor in wanted]
        ends = [slots[tensor] for tensor in self.fetched]
        count = len(fed)
        groups = _grouped(steps)
        mode = enable_grad if backward else no_grad

        def run(*values: _C.Tensor) -> tuple[_C.Tensor, ...]:
            kept = [*values, *start[count:]]
            with mode():
                for place in aliases:
                    kept[place] = kept[place].detach().requires_grad_()
                for scope, members in groups:
                    if scope is None:
                        for step in members:
                            step.run(kept)
                    else:
                        with scope.entered():
                            for step in members:
                                step.run(kept)
            return tuple([as_tensor(kept[place]).detach() for place in ends])

        return run


class _Step:
    """An op with the places of what it takes and gives."""

    __slots__ = ("gives", "leaves", "named", "op", "takes", "writes")

    def __init__(
        self, op: Operation, takes: list[int], gives: list[int], named: dict[str, Any], leaves: list[int], writes: bool
    ) -> None:
        self.op = op
        self.takes = takes
        self.gives = gives
        self.named = named
        self.leaves = leaves
        self.writes = writes

    def run(self, kept: list[Any]) -> None:
        op = self.op
        operands = [kept[place] for place in self.takes]
        try:
            if self.writes:
                with no_grad():
                    result = op.call(*operands)
            else:
                result = op.call(*operands, **self.named)
        except OpError:
            raise
        except OutOfMemoryError as error:
            raise ResourceExhaustedError(None, op, str(error)) from error
        except REFUSALS as error:
            raise InvalidArgumentError(None, op, str(error)) from error
        gives = self.gives
        if isinstance(result, list | tuple):
            for place, each in zip(gives, result, strict=True):
                if place >= 0:
                    kept[place] = each
        elif gives[0] >= 0:
            kept[gives[0]] = result
        for place in self.leaves:
            value = kept[place]
            if isinstance(value, _C.Tensor) and not value.requires_grad:
                kept[place] = value.detach().requires_grad_()


def _grouped(steps: Sequence[_Step]) -> list[tuple[Any, list[_Step]]]:
    """Steps in a row that are in the same compilation scope."""
    found: list[tuple[Any, list[_Step]]] = []
    for step in steps:
        scope = step.op.jit_scope
        if not found or found[-1][0] is not scope:
            found.append((scope, []))
        found[-1][1].append(step)
    return found


class JitScope:
    """A compilation scope of the graph: the ops in it run in one of minitensor's."""

    def __init__(self, compile_ops: Any, separate_compiled_gradients: bool) -> None:
        self.compile_ops = compile_ops
        self.separate = separate_compiled_gradients

    def entered(self) -> contextlib.AbstractContextManager[Any]:
        """The scope for a run."""
        from minitensor_jit import jit_scope

        scope: contextlib.AbstractContextManager[Any] = jit_scope(
            self.compile_ops, separate_compiled_gradients=self.separate
        )
        return scope
