"""Draws a module as a graph in Graphviz's DOT language: a box an instruction, a cluster a fusion."""

from __future__ import annotations

from ..module import Computation, Instruction, Module
from ..opcode import OPCODES
from .printer import short

__all__ = ["print_dot"]

_COLORS = {
    "source": "#eeeeee",
    "unary": "#fff3c4",
    "binary": "#fff3c4",
    "ternary": "#fff3c4",
    "elementwise": "#fff3c4",
    "movement": "#d5ecd4",
    "index": "#d5ecd4",
    "reduction": "#e3d4ec",
    "contraction": "#cfe2f3",
    "linalg": "#cfe2f3",
    "kernel": "#cfe2f3",
    "collective": "#fce5cd",
    "tuple": "#ffffff",
    "call": "#f4cccc",
}


def print_dot(module: Module) -> str:
    """The entry of a module, with the bodies of its fusions drawn inside."""
    lines = [
        f'digraph "{_text(module.name)}" {{',
        '  node [shape=box, style="filled,rounded", fontname="Helvetica", fontsize=10];',
        "  edge [arrowsize=0.6];",
    ]
    lines += _computation(module.entry, "e", "  ")
    return "\n".join([*lines, "}\n"])


def _text(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _computation(computation: Computation, prefix: str, indent: str) -> list[str]:
    lines: list[str] = []
    node = {i: f"{prefix}_{k}" for k, i in enumerate(computation.instructions)}
    end: dict[Instruction, str] = {}
    for i in computation.instructions:
        name = node[i]
        end[i] = name
        if i.opcode == "fusion":
            body: Computation = i.attrs["calls"]
            lines.append(f"{indent}subgraph cluster_{name} {{")
            lines.append(
                f'{indent}  label="{_text(i.name)} {i.attrs["kind"]}"; style="rounded,filled"; color="#f7f7f7";'
            )
            lines += _computation(body, name, indent + "  ")
            lines.append(f"{indent}}}")
            inner = {b: f"{name}_{k}" for k, b in enumerate(body.instructions)}
            for parameter, operand in zip(body.parameters, i.operands, strict=True):
                lines.append(f"{indent}{end[operand]} -> {inner[parameter]};")
            end[i] = inner[body.root]
            continue
        label = f"{i.name}\\n{i.opcode} {short(i.shape)}"
        if i.opcode == "constant" and i.literal is not None and i.literal.size == 1:
            label += f" = {i.literal.reshape(())[()]}"
        thick = ", penwidth=2" if i is computation.root else ""
        lines.append(f'{indent}{name} [label="{_text(label).replace(chr(92) * 2 + "n", chr(92) + "n")}", '
                     f'fillcolor="{_COLORS[OPCODES[i.opcode].kind]}"{thick}];')  # fmt: skip
        lines += [f"{indent}{end[o]} -> {name};" for o in i.operands]
    return lines
