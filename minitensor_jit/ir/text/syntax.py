"""What the printer and the parser share: the type of each attribute, numbers and strings."""

from __future__ import annotations

import math
import re
from typing import Any, Final, cast

import numpy as np

from ..narrow import array_of, wide_array
from ..shape import BFLOAT16, Shape, dtype_of
from ..small_types import SMALL_FLOATS, SMALL_INTEGERS, integer_limits

__all__ = ["ATTRIBUTES", "RAW", "as_identifier", "escape", "is_identifier", "number", "parse_number", "unescape"]

# How an attribute's value is written: {1,2} | 3 | true | a name | %computation | {[0:2], [1:3:2]} | 0_1x2_0 |
# {{0,1},{2,3}} | "text" | text.
DIMS, INT, BOOL, NAME, NAMES, COMPUTATION, COMPUTATIONS, RANGES, PADDING, WINDOW, LABELS, GROUPS, STRING, RAW = (
    "dims", "int", "bool", "name", "names", "computation", "computations", "ranges", "padding", "window", "labels",
    "groups", "string", "raw",
)  # fmt: skip

ATTRIBUTES: Final[dict[str, str]] = {
    "dimensions": DIMS,
    "iota_dimension": INT,
    "index": INT,
    "direction": NAME,
    "type": NAME,
    "slice": RANGES,
    "padding": PADDING,
    "dynamic_slice_sizes": DIMS,
    "lhs_batch_dims": DIMS,
    "lhs_contracting_dims": DIMS,
    "rhs_batch_dims": DIMS,
    "rhs_contracting_dims": DIMS,
    "operand_precision": NAMES,
    "algorithm": NAME,
    "distribution": NAME,
    "offset_dims": DIMS,
    "collapsed_slice_dims": DIMS,
    "start_index_map": DIMS,
    "operand_batching_dims": DIMS,
    "start_indices_batching_dims": DIMS,
    "index_vector_dim": INT,
    "slice_sizes": DIMS,
    "update_window_dims": DIMS,
    "inserted_window_dims": DIMS,
    "scatter_dims_to_operand_dims": DIMS,
    "input_batching_dims": DIMS,
    "scatter_indices_batching_dims": DIMS,
    "indices_are_sorted": BOOL,
    "unique_indices": BOOL,
    "is_stable": BOOL,
    "kind": NAME,
    "calls": COMPUTATION,
    "to_apply": COMPUTATION,
    "condition": COMPUTATION,
    "body": COMPUTATION,
    "select": COMPUTATION,
    "scatter": COMPUTATION,
    "true_computation": COMPUTATION,
    "false_computation": COMPUTATION,
    "branch_computations": COMPUTATIONS,
    "called_computations": COMPUTATIONS,
    "window": WINDOW,
    "dim_labels": LABELS,
    "feature_group_count": INT,
    "batch_group_count": INT,
    "fft_type": NAME,
    "fft_length": DIMS,
    "left_side": BOOL,
    "lower": BOOL,
    "unit_diagonal": BOOL,
    "transpose_a": NAME,
    "k": INT,
    "largest": BOOL,
    "exponent_bits": INT,
    "mantissa_bits": INT,
    "channel_id": INT,
    "constrain_layout": BOOL,
    "replica_groups": GROUPS,
    "source_target_pairs": GROUPS,
    "use_global_device_ids": BOOL,
    "custom_call_target": STRING,
    "custom_call_has_side_effect": BOOL,
    "api_version": NAME,
    "schedule": NAME,
    "operand_layout_constraints": RAW,
    "output_to_operand_aliasing": RAW,
    "origin": RAW,
    "statistics": RAW,
    "parameter_replication": RAW,
    "result_accuracy": RAW,
    "backend_config": RAW,
    "frontend_attributes": RAW,
    "sharding": RAW,
    "control-predecessors": RAW,
}

_INTEGER_VIEW: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_QUIET: Final = {"f16": 0x7E00, "bf16": 0x7FC0, "f32": 0x7FC00000, "f64": 0x7FF8000000000000}
_QUIET.update({name: form.nan for name, form in SMALL_FLOATS.items() if form.special != "finite"} | {"f8e8m0fnu": 0xFF})
_MANTISSA: Final = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}
_MANTISSA.update({name: form.mantissa for name, form in SMALL_FLOATS.items()})


def number(value: Any) -> str:
    """One element of a literal, such that `parse_number` gives the same bits."""
    if isinstance(value, np.bool_):
        return "true" if value else "false"
    if isinstance(value, np.integer):
        return str(int(value))
    if isinstance(value, np.complexfloating):
        return f"({number(value.real)}, {number(value.imag)})"
    if isinstance(value, np.floating) or value.dtype.names is not None:
        name, size = dtype_of(value.dtype), value.dtype.itemsize
        if name in SMALL_INTEGERS:
            return str(int(wide_array(np.asarray(value))))
        bits = int(np.asarray(value).view(_INTEGER_VIEW[size]))
        if value.dtype == BFLOAT16:
            value = np.uint32(bits << 16).view(np.float32)
        elif value.dtype.names is not None:
            value = wide_array(np.asarray(value))[()]
        if value == 0 and np.signbit(value):
            return "-0.0"  # XLA reads "-0" as an integer, which has no sign then
        if np.isnan(value):
            sign = "-" if bits >> (8 * size - 1) else ""
            ones = (1 << _MANTISSA[name]) - 1
            return f"{sign}nan" if bits & ones == _QUIET[name] & ones else f"{sign}nan({bits & ones:#x})"
        if np.isinf(value):
            return "inf" if value > 0 else "-inf"
        # The shortest digits that read back to the same element.
        text = (
            np.format_float_positional(value, trim="-")
            if 1e-4 <= abs(float(value)) < 1e9 or value == 0
            else repr(value.item())
        )
        if "e" in text:
            text = np.format_float_scientific(value, trim="-")
        return text
    raise TypeError(f"a literal of {value.dtype} has no text form")


def parse_number(text: str, shape: Shape) -> np.generic:
    """The element that `text` denotes; raises `ValueError` where it is not one of the element type."""
    dtype = shape.numpy_dtype
    kind, size = shape.kind, shape.itemsize
    if kind == "b":
        if text in ("true", "1"):
            return np.bool_(True)
        if text in ("false", "0"):
            return np.bool_(False)
        raise ValueError(f"{text!r} is no pred")
    if kind in "iu":
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"{text!r} is no integer") from None
        low, high = integer_limits(shape.dtype)
        if not low <= value <= high:
            raise ValueError(f"{value} is out of range for {shape.dtype}")
        return dtype.type(value) if dtype.names is None else cast("np.generic", array_of(value, shape.dtype)[()])
    if kind != "f":
        raise ValueError(f"{text!r} is no {shape.dtype}")
    name = shape.dtype
    if match := re.fullmatch(r"(-?)nan(?:\((0x[0-9a-fA-F]+)\))?", text):
        bits = _QUIET[name]
        if match[2]:
            payload = int(match[2], 16)
            if not 0 < payload < 1 << _MANTISSA[name]:
                raise ValueError(f"NaN payload {match[2]} does not fit {name}")
            bits = (bits & ~((1 << _MANTISSA[name]) - 1)) | payload
        if match[1]:
            bits |= 1 << (8 * size - 1)
        quiet: np.generic = np.array([bits], _INTEGER_VIEW[size]).view(dtype)[0]
        return quiet
    try:
        exact = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is no number") from None
    with np.errstate(over="ignore"):
        if dtype.names is not None:
            element = cast("np.generic[Any]", array_of(exact, name)[()])
            infinite = not math.isfinite(float(wide_array(np.asarray(element))))
        else:
            element = dtype.type(text if text.lstrip("-+")[:1].isdigit() else exact)
            infinite = math.isinf(float(element))
    if infinite and "inf" not in text.lower():
        raise ValueError(f"{text} is out of range for {shape.dtype}")
    return element


_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")

_SIMPLE: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\", "'": "\\'"}
_BACK: Final = {text[1]: char for char, text in _SIMPLE.items()}


def escape(text: str) -> str:
    """C escapes, as in XLA's strings: octal for bytes that are not printable ASCII."""
    parts = []
    for char in text:
        if char in _SIMPLE:
            parts.append(_SIMPLE[char])
        elif " " <= char <= "~":
            parts.append(char)
        else:
            parts.extend(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogateescape"))
    return "".join(parts)


def unescape(text: str) -> str:
    """Undoes `escape`."""
    if "\\" not in text:
        return text
    out = bytearray()
    position = 0
    for match in re.finditer(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", text, re.DOTALL):
        out += text[position : match.start()].encode("utf-8", "surrogateescape")
        position = match.end()
        if match[1]:
            out.append(int(match[1], 8) & 0xFF)
        elif match[2]:
            out.append(int(match[2], 16))
        else:
            out += _BACK.get(match[3], match[3]).encode("utf-8", "surrogateescape")
    out += text[position:].encode("utf-8", "surrogateescape")
    return out.decode("utf-8", "surrogateescape")


def as_identifier(text: str) -> str:
    """The text with what XLA's lexer does not take in a name replaced, as in the name of a function `<lambda>`."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", text)
    return name if is_identifier(name) else f"_{name}"


def is_identifier(text: str) -> bool:
    """Whether XLA's lexer reads `text` as one name."""
    return _IDENTIFIER.fullmatch(text) is not None
