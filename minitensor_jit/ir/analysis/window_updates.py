"""Updates of a window of an array, which may be written over it: then only the window is written."""

from __future__ import annotations

from ..module import Instruction

__all__ = ["begins_as_parameter", "through_reshapes", "updated_operand"]


def through_reshapes(x: Instruction) -> Instruction:
    """The array that `x` shows in other dimensions."""
    while x.opcode == "reshape":
        x = x.operands[0]
    return x


def begins_as_parameter(update: Instruction) -> bool:
    """Whether a dynamic-update-slice replaces less than half of a parameter, or of such an update of one."""
    x = update
    while x.opcode == "dynamic-update-slice":
        if 2 * x.operands[1].array_shape.size > x.array_shape.size:
            return False
        x = through_reshapes(x.operands[0])
    return x.opcode == "parameter" and x is not update


def updated_operand(i: Instruction) -> Instruction | None:
    """The operand that an instruction, or a fusion, gives back with another window; None if it does something else."""
    if i.opcode in ("dynamic-update-slice", "scatter"):
        return i.operands[0] if not i.is_tuple else None
    if i.opcode != "fusion":
        return None
    root = i.attrs["calls"].root
    if root.opcode != "dynamic-update-slice":
        return None
    array = through_reshapes(root.operands[0])
    return i.operands[array.parameter_number] if array.parameter_number is not None else None
