"""The buffer assignment of a module for people to read: which array lies where, from which step to which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.shape import Shape
from ..runtime.buffer_assignment import Location
from .kernel_spec import Binding

__all__ = ["BufferUse", "buffer_text"]


@dataclass(frozen=True, slots=True)
class BufferUse:
    """One step: what it is called, and the arrays that it reads and writes."""

    name: str
    reads: Sequence[tuple[Binding, Shape]]
    writes: Sequence[tuple[Location, Shape]]


@dataclass(slots=True)
class _Life:
    """An array in scratch memory: its place, and the steps that write it first and read it last."""

    location: Location
    shape: Shape
    first: int
    last: int


def buffer_text(
    name: str,
    parameters: Sequence[Shape],
    results: Sequence[Shape],
    aliases: frozenset[tuple[int, int]],
    scratch_bytes: int,
    steps: Sequence[BufferUse],
) -> str:
    """Buffers, the arrays in scratch memory by their offset, and the steps in order."""
    sizes = [sum(shape.nbytes for shape in shapes) for shapes in (parameters, results)]
    lives = _lives(steps)
    needed = sum(life.shape.nbytes for life in lives)
    lines = [
        f"buffer assignment of {name}",
        f"  {sizes[0]:,} bytes of parameters, {sizes[1]:,} of results, {scratch_bytes:,} of scratch memory for "
        f"{len(lives):,} arrays of {needed:,} bytes",
        "",
        "buffers",
    ]
    for number, shape in enumerate(parameters):
        lines.append(f"  {number}: parameter {number}, {shape}, {shape.nbytes:,} bytes")
    for number, shape in enumerate(results):
        over = sorted(parameter for result, parameter in aliases if result == number)
        where = f", may lie over parameter {' or '.join(map(str, over))}" if over else ""
        lines.append(f"  {len(parameters) + number}: result {number}, {shape}, {shape.nbytes:,} bytes{where}")
    lines.append(f"  {len(parameters) + len(results)}: scratch memory, {scratch_bytes:,} bytes")
    if lives:
        lines += ["", "scratch memory"]
    for life in sorted(lives, key=lambda life: (life.location.offset, life.first)):
        begin = life.location.offset
        span = f"[{begin:,}, {begin + life.shape.nbytes:,})"
        lines.append(f"  {span}: {life.shape}, from step {life.first} to step {life.last}")
    lines += ["", "steps"]
    for number, step in enumerate(steps):
        reads = ", ".join(_binding(binding, parameters) for binding, _ in step.reads) or "nothing"
        writes = ", ".join(_binding(location, parameters) for location, _ in step.writes)
        lines.append(f"  {number}: {step.name} reads {reads}; writes {writes}")
    return "\n".join(lines) + "\n"


def _lives(steps: Sequence[BufferUse]) -> list[_Life]:
    lives: list[_Life] = []
    now: dict[Location, _Life] = {}
    for number, step in enumerate(steps):
        for binding, _ in step.reads:
            if isinstance(binding, Location) and binding in now:
                now[binding].last = number
        for location, shape in step.writes:
            if location.kind == "scratch":
                now[location] = _Life(location, shape, number, number)
                lives.append(now[location])
    return lives


def _binding(binding: Binding, parameters: Sequence[Shape]) -> str:
    if not isinstance(binding, Location):
        return f"constant {binding.name}"
    if binding.kind == "scratch":
        return f"scratch+{binding.offset:,}"
    if binding.kind == "result":
        return f"result {binding.slot - len(parameters)}"
    return f"parameter {binding.slot}" if binding.kind == "parameter" else "a constant"
