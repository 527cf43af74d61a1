"""Values as TensorBoard's summaries. The package `tensorboard` is imported by the first of them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

__all__ = ["histogram", "image", "numbers", "scalar", "text"]


def message(module: str) -> Any:
    """One of TensorBoard's modules; ImportError that says how to install it."""
    import importlib

    try:
        return importlib.import_module(f"tensorboard.{module}")
    except ModuleNotFoundError as error:
        raise ImportError("SummaryWriter needs the package tensorboard: pip install tensorboard") from error


def proto(module: str) -> Any:
    """One of its modules of messages."""
    return message(f"compat.proto.{module}")


def numbers(value: Any) -> Any:
    """A tensor, an array or a number as a NumPy array; NotImplementedError for anything else."""
    import numpy as np

    from minitensor import _C

    if isinstance(value, _C.Tensor):
        value = value.detach().cpu()
        return (value.float() if value.dtype == _C.bfloat16 else value).numpy()
    if not isinstance(value, np.ndarray) and not np.isscalar(value):
        raise NotImplementedError(f"Got {type(value)}, but numpy array or torch tensor are expected.")
    return np.asarray(value)


def scalar(tag: str, value: Any) -> Any:
    """One number. ValueError for more."""
    found = numbers(value)
    if found.size != 1:
        raise ValueError(f"add_scalar: '{tag}' must be one number, got an array of shape {found.shape}")
    summary = proto("summary_pb2").Summary
    return summary(value=[summary.Value(tag=tag, simple_value=float(found.reshape(-1)[0]))])


def default_edges() -> list[float]:
    """Edges that grow by a tenth from 1e-12 to 1e20, on both sides of 0."""
    edges, edge = [], 1e-12
    while edge < 1e20:
        edges.append(edge)
        edge *= 1.1
    return [-edge for edge in reversed(edges)] + [0.0] + edges


def histogram(tag: str, values: Any, bins: Any, max_bins: int | None) -> Any:
    """How many values lie between edges; `bins` as in NumPy, or "tensorflow". ValueError without values."""
    import numpy as np

    found = numbers(values).reshape(-1).astype(np.float64)
    if not found.size:
        raise ValueError("The input has no element.")
    counts, edges = np.histogram(found, default_edges() if bins == "tensorflow" else bins)
    if max_bins is not None and len(counts) > max_bins:
        step = len(counts) // max_bins
        padded = np.pad(counts, (0, -len(counts) % step))
        counts = padded.reshape(-1, step).sum(axis=1)
        edges = np.append(edges[:-1:step], edges[-1])
    # Empty ends say nothing, but for one bucket that says where the first begins.
    filled = np.flatnonzero(counts)
    first, last = (max(filled[0] - 1, 0), filled[-1]) if filled.size else (0, 0)
    summary = proto("summary_pb2")
    made = summary.HistogramProto(
        min=float(found.min()),
        max=float(found.max()),
        num=int(found.size),
        sum=float(found.sum()),
        sum_squares=float(found.dot(found)),
        bucket_limit=[float(edge) for edge in edges[first + 1 : last + 2]],
        bucket=[float(count) for count in counts[first : last + 1]],
    )
    return summary.Summary(value=[summary.Summary.Value(tag=tag, histo=made)])


def image(tag: str, value: Any, dataformats: str) -> Any:
    """A picture; several are put side by side. Numbers of floating point are in [0, 1], integers in [0, 255]."""
    import numpy as np

    pixels = numbers(value)
    wanted = dataformats.upper()
    if pixels.ndim != len(wanted) or len(set(wanted)) != len(wanted) or not set(wanted) <= set("NCHW"):
        raise ValueError(f"an image of shape {pixels.shape} does not have the dimensions '{dataformats}'")
    scaled = pixels if pixels.dtype == np.uint8 else np.clip(pixels.astype(np.float32) * 255.0, 0, 255)
    if np.issubdtype(pixels.dtype, np.integer) and pixels.dtype != np.uint8:
        scaled = np.clip(pixels, 0, 255)
    for missing in (name for name in "NHWC" if name not in wanted):
        scaled, wanted = scaled[..., None], wanted + missing
    rows = scaled.transpose([wanted.index(name) for name in "HNWC"]).astype(np.uint8)  # beside each other
    height, channels = rows.shape[0], rows.shape[3]
    flat = rows.reshape(height, -1, channels)
    if channels not in (1, 3, 4):
        raise ValueError(f"an image has 1, 3 or 4 channels, not {channels}")
    summary = proto("summary_pb2").Summary
    made = summary.Image(
        height=height, width=flat.shape[1], colorspace=channels, encoded_image_string=png(flat, channels)
    )
    return summary(value=[summary.Value(tag=tag, image=made)])


def png(pixels: Any, channels: int) -> bytes:
    """Bytes `[height, width, channels]` as a PNG file (ISO/IEC 15948): lines without a filter, in one chunk."""
    height, width = pixels.shape[:2]
    lines = b"".join(b"\0" + pixels[row].tobytes() for row in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    parts: Sequence[bytes] = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(lines)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def text(tag: str, value: str) -> Any:
    """A text, which TensorBoard reads as Markdown."""
    summary, tensor = proto("summary_pb2"), proto("tensor_pb2")
    shape, types = proto("tensor_shape_pb2"), proto("types_pb2")
    data = summary.SummaryMetadata.PluginData(plugin_name="text", content=b"")
    made = tensor.TensorProto(
        dtype=types.DT_STRING,
        string_val=[value.encode()],
        tensor_shape=shape.TensorShapeProto(dim=[shape.TensorShapeProto.Dim(size=1)]),
    )
    metadata = summary.SummaryMetadata(plugin_data=data)
    place = f"{tag}/text_summary"
    return summary.Summary(value=[summary.Summary.Value(tag=place, metadata=metadata, tensor=made)])
