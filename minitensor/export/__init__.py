"""Modules as programs without Python: exported from a run, called, saved and loaded, by PyTorch's names.

    program = export.export(module, (x,), dynamic_shapes={"x": {0: export.Dim("batch")}})
    export.save(program, "model.pt2")
    export.load("model.pt2").module()(x)

The graph (:mod:`minitensor.fx`) has the calls of minitensor's functions that the module made; a run of it gives the
bits of the module. `program.hlo()` is its HLO text. Files are minitensor's own: they hold no code, and PyTorch's
programs are not read.
"""

from __future__ import annotations

from typing import Any

from minitensor.export.dims import AdditionalInputs, Constraint, Dim, ShapesCollection, dims
from minitensor.export.errors import UserError
from minitensor.export.files import load, save
from minitensor.export.program import (
    CustomDecompTable,
    ExportedProgram,
    ModuleCallEntry,
    ModuleCallSignature,
    default_decompositions,
)
from minitensor.export.signature import ExportBackwardSignature, ExportGraphSignature
from minitensor.export.trace import draft_export, export
from minitensor.export.unflatten import FlatArgsAdapter, UnflattenedModule, unflatten

__all__ = [
    "AdditionalInputs", "Constraint", "CustomDecompTable", "Dim", "ExportBackwardSignature", "ExportGraphSignature",
    "ExportedProgram", "FlatArgsAdapter", "ModuleCallEntry", "ModuleCallSignature", "ShapesCollection",
    "UnflattenedModule", "UserError", "default_decompositions", "dims", "draft_export", "export", "load",
    "register_dataclass", "save", "unflatten",
]  # fmt: skip


def register_dataclass(cls: type[Any], *, serialized_type_name: str | None = None) -> None:
    """Let a dataclass be among the inputs and results of exported programs: its fields are looked into.

    AssertionError for what is no dataclass.
    """
    import dataclasses

    from minitensor.utils import _pytree

    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise AssertionError(f"Only dataclasses can be registered with this function: {cls}")
    _pytree.register_dataclass(cls)
