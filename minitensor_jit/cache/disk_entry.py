"""An executable as the bytes of an entry of the cache on disk, and back."""

from __future__ import annotations

import hashlib
import json
import pickle
import struct
import time
from dataclasses import replace
from functools import partial
from typing import Any

from minitensor import _C
from minitensor_jit.ir.library import ELEMENTWISE_PREFIX
from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.size import Size, SizeContext, active, value_of
from minitensor_jit.ir.size_json import size_from_json, size_to_json
from minitensor_jit.runtime.executable import AnyExecutable, Executable, Interface
from minitensor_jit.runtime.loaded_code import LoadedCode

__all__ = ["OtherSizes", "decode", "encode"]

_MAGIC = b"minitensor object code 3\n"
_ALIAS = struct.Struct("<II")
"""The numbers of a result and a parameter that may share memory."""
_HEADER = struct.Struct("<Q")
_DIGEST = hashlib.sha256().digest_size


class OtherSizes(ValueError):  # noqa: N818  (nothing is wrong)
    """An entry is code for all sizes of a dimension but those at hand."""


def encode(key: str, executable: AnyExecutable) -> bytes:
    """An executable as the bytes of an entry."""
    if not isinstance(executable, Executable):
        program = pickle.dumps(executable.program)
        return _entry({"key": key, "program_bytes": len(program)}, program + executable.cubin)
    context = active.get() or SizeContext(())
    # One for each pair of a parameter and a result of its size: as numbers in JSON they'd take longest to read.
    aliases = b"".join(_ALIAS.pack(*pair) for pair in sorted(executable.aliases))
    before = b"".join(_ALIAS.pack(*pair) for pair in sorted(executable.read_before))
    shapes = json.dumps(
        [
            [(shape.dtype, list(map(size_to_json, shape.dims))) for shape in some]
            for some in (executable.parameter_shapes, executable.result_shapes)
        ]
    ).encode()
    return _entry(
        {
            "key": key,
            "scratch_bytes": size_to_json(executable.scratch_bytes),
            "guards": [(size_to_json(n), answer) for n, answer in context.guards],
            "shape_bytes": len(shapes),
            "alias_bytes": len(aliases),
            "before_bytes": len(before),
            "imports": list(executable.imports),
            "kernels": executable.kernels,
            "instructions": dict(executable.instructions),
        },
        shapes + aliases + before + executable.object_code,
    )


def _entry(header: dict[str, Any], code: bytes) -> bytes:
    text = json.dumps(header).encode()
    body = _HEADER.pack(len(text)) + text + code
    return _MAGIC + hashlib.sha256(body).digest() + body


def decode(data: bytes, key: str, name: str) -> AnyExecutable:
    """The executable of an entry with that key; ValueError for one that is damaged or for something else."""
    start = len(_MAGIC) + _DIGEST
    body = memoryview(data)[start:]
    if data[: len(_MAGIC)] != _MAGIC or hashlib.sha256(body).digest() != data[len(_MAGIC) : start]:
        raise ValueError("its checksum is wrong")
    (length,) = _HEADER.unpack_from(body)
    header: dict[str, Any] = json.loads(bytes(body[_HEADER.size : _HEADER.size + length]))
    if header["key"] != key:
        raise ValueError("it is the entry of another key")
    rest = body[_HEADER.size + length :]
    if "program_bytes" in header:
        # Imported here: programs for the CPU need nothing of it.
        from minitensor_jit.runtime.cuda.executable import GpuExecutable

        split = int(header["program_bytes"])
        return GpuExecutable(replace(pickle.loads(rest[:split]), name=name), bytes(rest[split:]))
    context = active.get() or SizeContext(())
    for kept, answer in header["guards"]:
        n = size_from_json(kept, context)
        if (value_of(n, context.hints) > 0) is not answer:
            raise OtherSizes(f"{n} > 0 is {answer} in it")
        if isinstance(n, Size):
            context.guards[n, answer] = None
    parts = [int(header[name]) for name in ("shape_bytes", "alias_bytes", "before_bytes")]
    described = sum(parts)
    interface = partial(_interface, bytes(rest[:described]), parts[0], parts[0] + parts[1], context)
    code = bytes(rest[described:])
    started = time.perf_counter()
    loaded = LoadedCode(code, "entry", {symbol: _address(symbol) for symbol in header["imports"]})
    return Executable(
        name=name,
        interface=interface,
        scratch_bytes=size_from_json(header["scratch_bytes"], context),
        object_code=code,
        code=loaded,
        imports=tuple(header["imports"]),
        kernels=header["kernels"],
        instructions=header["instructions"],
        compile_seconds={"load": time.perf_counter() - started},
    )


def _interface(described: bytes, aliases: int, before: int, context: SizeContext) -> Interface:
    parameters, results = (_shapes(kept, context) for kept in json.loads(described[:aliases]))
    pairs = (described[aliases:before], described[before:])
    return Interface(parameters, results, *(frozenset(_ALIAS.iter_unpack(some)) for some in pairs))


def _shapes(kept: list[tuple[str, list[Any]]], context: SizeContext) -> list[Shape]:
    return [Shape(dtype, tuple(size_from_json(n, context) for n in dims)) for dtype, dims in kept]


def _address(symbol: str) -> int:
    """Where a loop of the core is in this process."""
    name, _, dtype = symbol.removeprefix(ELEMENTWISE_PREFIX).rpartition(".")
    loop = _C.elementwise_loop(name, dtype)
    if loop is None:
        raise ValueError(f"the core has no {symbol}")
    return loop[0]
