"""Prints modules in XLA's text, which XLA's own parser accepts and `parser.py` reads back."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..module import Computation, Instruction, Metadata, Module
from ..opcode import CUSTOM_CALLS
from ..semantics.collective import print_groups
from ..shape import AnyShape, TupleShape
from .syntax import ATTRIBUTES, escape, number

__all__ = ["print_computation", "print_instruction", "print_module"]


_OPCODE: Final = {**dict.fromkeys(CUSTOM_CALLS.values(), "custom-call"), "bitcast-reinterpret": "bitcast-convert"}


def print_module(module: Module, *, metadata: bool = True) -> str:
    """The text of a whole module."""
    entry = module.entry
    takes = ", ".join(str(p.shape) for p in entry.parameters)
    parts = [f"HloModule {module.name}, entry_computation_layout={{({takes})->{entry.root.shape}}}\n"]
    for computation in module.computations:
        prefix = "ENTRY " if computation is entry else ""
        parts.append(prefix + print_computation(computation, metadata=metadata))
    return "\n".join(parts)


def print_computation(computation: Computation, *, metadata: bool = True) -> str:
    """The text of one computation, without ENTRY."""
    lines = [f"{computation.name} {{"]
    for instruction in computation.instructions:
        prefix = "  ROOT " if instruction is computation.root else "  "
        lines.append(prefix + print_instruction(instruction, metadata=metadata))
    lines.append("}\n")
    return "\n".join(lines)


def print_instruction(instruction: Instruction, *, metadata: bool = True) -> str:
    """One line: `name = shape opcode(operands), attributes`."""
    opcode = instruction.opcode
    if opcode == "parameter":
        inside = str(instruction.parameter_number)
    elif opcode == "constant":
        inside = _literal(instruction)
    else:
        inside = _operands(instruction)
    text = f"{instruction.name} = {instruction.shape} {_OPCODE.get(opcode, opcode)}({inside})"
    for key, value in instruction.attrs.items():
        text += f", {key}={_attribute(key, value)}"
    if metadata and instruction.metadata is not None:
        text += f", metadata={_metadata(instruction.metadata)}"
    return text


def _operands(instruction: Instruction) -> str:
    names = [o.name for o in instruction.operands]
    if len(names) <= 5:
        return ", ".join(names)
    return ", ".join(f"/*index={i}*/{n}" if i and i % 5 == 0 else n for i, n in enumerate(names))


def _literal(instruction: Instruction) -> str:
    literal = instruction.literal
    if literal is None:
        return "?"  # the verifier reports it; a dump of a broken module must still print

    def nested(array: np.ndarray[Any, Any]) -> str:
        if array.ndim == 0:
            return number(array[()])
        if array.ndim == 1:
            return "{" + ", ".join([number(x) for x in array]) + "}"
        return "{ " + ", ".join([nested(row) for row in array]) + " }"

    return nested(literal)


def _attribute(key: str, value: Any) -> str:
    form = ATTRIBUTES.get(key, "raw")
    if form == "dims":
        return "{" + ",".join(map(str, value)) + "}"
    if form == "string":
        return f'"{escape(value)}"'
    if form == "bool":
        return "true" if value else "false"
    if form == "names":
        return "{" + ",".join(value) + "}"
    if form == "computation":
        return str(value.name)
    if form == "computations":
        return "{" + ", ".join(c.name for c in value) + "}"
    if form == "ranges":
        return "{" + ", ".join(f"[{a}:{b}]" if s == 1 else f"[{a}:{b}:{s}]" for a, b, s in value) + "}"
    if form == "groups":
        return print_groups(value)
    if form == "padding":
        return "x".join(f"{low}_{high}" if not inner else f"{low}_{high}_{inner}" for low, high, inner in value)
    if key == "backend_config" and not str(value).startswith("{"):
        return f'"{escape(value)}"'
    return str(value)


def _metadata(metadata: Metadata) -> str:
    parts = []
    for key in ("op_type", "op_name", "source_file"):
        if text := getattr(metadata, key):
            parts.append(f'{key}="{escape(text)}"')
    if metadata.source_line:
        parts.append(f"source_line={metadata.source_line}")
    return "{" + " ".join(parts) + "}"


def short(shape: AnyShape) -> str:
    """A shape without its layout, for messages."""
    if isinstance(shape, TupleShape):
        return "(" + ", ".join(short(e) for e in shape.elements) + ")"
    return f"{shape.dtype}[{','.join(map(str, shape.dims))}]"
