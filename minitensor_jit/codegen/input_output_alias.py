"""Input-output aliasing: which results of a module may lie over which of its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from ..ir.module import Instruction
from ..ir.shape import Shape
from ..runtime.buffer_assignment import Location
from .schedule import AnyStep, KernelStep, Schedule, Value
from .window_update import WindowUpdate

__all__ = ["input_output_aliases", "replaced_in"]

_Pairs = frozenset[tuple[int, int]]  # (result, parameter)


def input_output_aliases(
    parameters: Sequence[Instruction],
    schedule: Schedule,
    copies: Sequence[tuple[int, Value]],
    shapes: Sequence[Shape],
    locations: Mapping[Value, Location],
    begun: Mapping[int, int],
    read_beside: Mapping[int, Set[Value]],
    first_written: Mapping[Value, int],
) -> tuple[_Pairs, _Pairs]:
    """Which results may be written over which parameters: nothing may read the parameter afterwards.

    And which parameters have been read when the first window is replaced that gives a result. Results have `shapes`,
    and those in `copies` are copied at the end. `begun` is the first step of those that are launched with a step,
    `read_beside` what these read. Of what is written in parts `first_written` is the step that makes the first one.
    """
    steps, copied = schedule.steps, {value for _, value in copies}
    maker = {output: (k, m) for k, step in enumerate(steps) for m, output in enumerate(step.outputs)}
    last_read = {value: k for k, step in enumerate(steps) for value in step.operands}
    left_over = {n for n, _ in copies}
    fitting: dict[int, list[tuple[int, int, int | None]]] = {}  # by bytes: the result, its step, which output or a part
    windows: list[tuple[int, int]] = []  # the result, the first step that is launched with its first update
    for n, result in enumerate(schedule.results):
        if n in left_over:
            continue
        k, m = maker[result]
        replaced, first = replaced_in(steps[k], result), result
        while replaced in maker and locations.get(replaced) == locations[result]:
            first = replaced
            k, m = maker[first]
            replaced = replaced_in(steps[k], first)
        in_parts = first in first_written
        k = first_written.get(first, k)
        if replaced_in(steps[maker[result][0]], result) is not None:
            windows.append((n, begun.get(k, k)))
        fitting.setdefault(shapes[n].nbytes, []).append((n, k, None if in_parts else m))
    found: set[tuple[int, int]] = set()
    earlier: set[tuple[int, int]] = set()
    for parameter in parameters:
        value: Value = (parameter, 0)
        number = parameter.parameter_number
        if value in copied or number is None:
            continue
        earlier.update((n, number) for n, k in windows if last_read.get(value, -1) < k)
        for n, k, output in fitting.get(parameter.array_shape.nbytes, ()):
            if output is None:
                may = last_read.get(value, -1) < begun.get(k, k)
            else:
                alone = value not in read_beside.get(k, ())
                may = last_read.get(value, -1) <= k and alone and steps[k].in_place(output, value)
            if may:
                found.add((n, number))
    return frozenset(found), frozenset(earlier)


def replaced_in(step: AnyStep | None, value: Value) -> Value | None:
    """What a step replaces a window in, to give a value; None if it does something else."""
    if not isinstance(step, KernelStep) or len(step.outputs) != 1 or not isinstance(step.plan, WindowUpdate):
        return None
    number = step.plan.source.parameter_number
    return None if number is None else step.operands[number]
