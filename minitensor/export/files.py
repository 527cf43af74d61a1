"""Files of exported programs: a zip with the graph as JSON, weights in the safetensors format, and HLO text.

    program.json       graph, signature, sizes and structures
    weights            parameters and buffers
    constants          other tensors
    example            the example inputs
    program.hlo        HLO for the example's sizes, if it can be compiled as a whole
    extra/NAME         more files

Loading runs no code of the file: nodes call minitensor's own functions, methods of Tensor and operators.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from typing import IO, Any

from minitensor import _C, nn
from minitensor._C import Tensor
from minitensor.export.nodes import decode, decode_graph, encode, encode_graph
from minitensor.export.program import ExportedProgram, InputTensor, ModuleCallEntry, ModuleCallSignature, ValueRanges
from minitensor.export.signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from minitensor.export.weights import pack, unpack
from minitensor.fx.graph_module import GraphModule
from minitensor.serialization.files import write_file
from minitensor.utils import _pytree

__all__ = ["load", "save", "to_bytes"]

_VERSION = 1
_KINDS: dict[str, Any] = {c.__name__: c for c in (TensorArgument, SymIntArgument, SymFloatArgument, ConstantArgument)}


def save(
    ep: ExportedProgram, f: str | os.PathLike[str] | IO[bytes], *, extra_files: dict[str, Any] | None = None,
    opset_version: dict[str, int] | None = None, pickle_protocol: int = 2,
) -> None:  # fmt: skip
    """Write a program to a path, atomically, or to a binary file, for `load`; the file needs no Python source.

    `extra_files` are more entries by name, text or bytes. TypeError for what is no program, RuntimeError for calls of
    functions that are not minitensor's.
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )
    data = to_bytes(ep, extra_files)
    if isinstance(f, (str, os.PathLike)):
        write_file(f, lambda file: file.write(data))
    else:
        f.write(data)


def to_bytes(ep: ExportedProgram, extra_files: dict[str, Any] | None = None) -> bytes:
    """The bytes of such a file."""
    about = _described(ep)
    weights, about["same_weights"] = _distinct(ep.state_dict)
    constants, about["same_constants"] = _distinct(ep.constants)
    try:
        hlo: str | None = ep.hlo()
    except (RuntimeError, ValueError):  # an op of it can't be compiled: `hlo` says which
        hlo = None
    example = None
    if ep.example_inputs is not None:
        leaves = _pytree.tree_leaves(ep.example_inputs)
        example = {str(i): x for i, x in enumerate(leaves) if isinstance(x, Tensor)}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:

        def write(name: str, data: bytes) -> None:
            file.writestr(zipfile.ZipInfo(name), data)  # of no date: the same program gives the same file

        write("program.json", json.dumps(about).encode())
        write("weights", pack(weights))
        write("constants", pack(constants))
        if example is not None:
            write("example", pack(example))
        if hlo is not None:
            write("program.hlo", hlo.encode())
        for name, value in (extra_files or {}).items():
            write(f"extra/{name}", value.encode() if isinstance(value, str) else bytes(value))
    return stream.getvalue()


def _distinct(tensors: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Each tensor once, and the other names of those."""
    first: dict[int, str] = {}
    found: dict[str, Tensor] = {}
    same: dict[str, str] = {}
    for name, tensor in tensors.items():
        if (known := first.setdefault(id(tensor), name)) != name:
            same[name] = known
        else:
            found[name] = tensor
    return found, same


def _described(ep: ExportedProgram) -> dict[str, Any]:
    spec = ep.call_spec
    signature = ep.module_call_graph[0].signature
    return {
        "version": _VERSION,
        "nodes": encode_graph(ep.graph),
        "inputs": [[s.kind.name, _argument(s.arg), s.target, s.persistent] for s in ep.graph_signature.input_specs],
        "outputs": [[s.kind.name, _argument(s.arg), s.target] for s in ep.graph_signature.output_specs],
        "sizes": [
            [i.name, None if i.dtype is None else i.dtype.name, [s if isinstance(s, int) else list(s) for s in i.sizes],
             encode(i.value)] for i in ep._inputs
        ],
        "ranges": {name: [r.lower, r.upper] for name, r in ep.range_constraints.items()},
        "in_spec": _pytree.treespec_dumps(spec.in_spec),
        "out_spec": _pytree.treespec_dumps(spec.out_spec),
        "modules": [entry.fqn for entry in ep.module_call_graph[1:]],
        "parameters_of_forward": None if signature is None else signature.forward_arg_names,
        "requires_grad": [n for n, t in ep.state_dict.items() if t.requires_grad],
        "parameters": [n for n, t in ep.state_dict.items() if isinstance(t, nn.Parameter)],
    }  # fmt: skip


def _argument(arg: Any) -> list[Any]:
    return [type(arg).__name__, arg.name, encode(getattr(arg, "value", None))]


def _of_argument(given: list[Any]) -> Any:
    kind, name, value = given
    return ConstantArgument(name, decode(value)) if kind == "ConstantArgument" else _KINDS[kind](name)


def load(
    f: str | os.PathLike[str] | IO[bytes], *, extra_files: dict[str, Any] | None = None,
    expected_opset_version: dict[str, int] | None = None,
) -> ExportedProgram:  # fmt: skip
    """Read what `save` has written. No code of the file runs, whatever it holds.

    The keys of `extra_files` get the entries of those names, as text. RuntimeError for other files, among them
    PyTorch's `.pt2`, damaged ones, and programs that call what is not here.
    """
    shown = os.fspath(f) if isinstance(f, (str, os.PathLike)) else str(getattr(f, "name", "the file"))
    try:
        with zipfile.ZipFile(f if isinstance(f, (str, os.PathLike)) else _seekable(f)) as file:
            names = set(file.namelist())
            if "program.json" not in names:
                theirs = any(name.endswith(("archive_format", "serialized_exported_program.json")) for name in names)
                kind = "a program of PyTorch's" if theirs else "a zip of another kind"
                raise RuntimeError(
                    f"{shown} is {kind}: minitensor.export.load reads what minitensor.export.save writes"
                )
            for name in extra_files or ():
                entry = f"extra/{name}"
                extra_files[name] = file.read(entry).decode() if entry in names else ""  # type: ignore[index]
            example = file.read("example") if "example" in names else None
            about = json.loads(file.read("program.json"))
            return _made(about, file.read("weights"), file.read("constants"), example)
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, TypeError, IndexError) as error:
        raise RuntimeError(f"{shown} is no exported program, or is damaged: {error}") from None


def _seekable(file: Any) -> Any:
    return file if file.seekable() else io.BytesIO(file.read())


def _made(about: dict[str, Any], weights: bytes, constants: bytes, example: bytes | None) -> ExportedProgram:
    if about["version"] != _VERSION:
        raise RuntimeError(f"the program has version {about['version']} of the format; this one reads {_VERSION}")
    state: dict[str, Any] = unpack(weights)
    wants, parameters = set(about["requires_grad"]), set(about["parameters"])
    for name, tensor in state.items():
        state[name] = nn.Parameter(tensor, name in wants) if name in parameters else tensor
    state.update({name: state[other] for name, other in about["same_weights"].items()})
    held = unpack(constants)
    held.update({name: held[other] for name, other in about["same_constants"].items()})
    inputs = [InputSpec(InputKind[k], _of_argument(a), t, p) for k, a, t, p in about["inputs"]]
    outputs = [OutputSpec(OutputKind[k], _of_argument(a), t) for k, a, t in about["outputs"]]
    infos = [
        InputTensor(
            name, None if dtype is None else getattr(_C, dtype), [s if isinstance(s, int) else tuple(s) for s in sizes],
            decode(value),
        )
        for name, dtype, sizes, value in about["sizes"]
    ]  # fmt: skip
    ranges = {name: ValueRanges(low, high) for name, (low, high) in about["ranges"].items()}
    in_spec, out_spec = (_pytree.treespec_loads(about[name]) for name in ("in_spec", "out_spec"))
    whole = ModuleCallSignature([], [], in_spec, out_spec, about["parameters_of_forward"])
    calls = [ModuleCallEntry("", whole), *(ModuleCallEntry(path) for path in about["modules"])]
    found = None
    if example is not None:
        tensors = unpack(example)
        leaves = [tensors[str(i)] if info.dtype is not None else info.value for i, info in enumerate(infos)]
        found = _pytree.tree_unflatten(leaves, in_spec)
    graph = decode_graph(about["nodes"])
    made = ExportedProgram(
        GraphModule({}, graph), ExportGraphSignature(inputs, outputs), state, held, infos, ranges, calls, found
    )
    made.validate()
    return made
