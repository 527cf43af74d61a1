"""Reads IDX files, the format of the MNIST digits: plain or compressed with gzip.

A file is a magic number (two zero bytes, a code for the element type, the number of dimensions), each dimension as a
big-endian 32-bit integer, and the elements. A file that deviates in anything raises :class:`IdxError`.
"""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np

UNSIGNED_BYTE = 0x08
TYPE_NAMES = {
    UNSIGNED_BYTE: "unsigned byte",
    0x09: "signed byte",
    0x0B: "short",
    0x0C: "int",
    0x0D: "float",
    0x0E: "double",
}


class IdxError(ValueError):
    """A file that is not what it should be; the message names the file, what was expected and what was found."""

    def __init__(self, path: Path, expected: str, found: str) -> None:
        super().__init__(f"{path}: expected {expected}, found {found}")


def read_idx(path: Path, ndim: int) -> np.ndarray:
    """Read a file of unsigned bytes with ``ndim`` dimensions."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        try:
            return _read(file, path, ndim)
        except (gzip.BadGzipFile, zlib.error) as error:
            raise IdxError(path, "gzip data", f"a broken file ({error})") from None
        except EOFError:
            raise IdxError(path, "gzip data", "a file that ends in the middle of it") from None


def _read(file: BinaryIO, path: Path, ndim: int) -> np.ndarray:
    magic = file.read(4)
    if len(magic) < 4:
        raise IdxError(path, "a magic number of 4 bytes", f"{len(magic)} bytes")
    if magic[:2] != b"\0\0":
        raise IdxError(path, "a magic number that starts with two zero bytes", f"0x{magic.hex()}")
    if magic[2] != UNSIGNED_BYTE:
        name = TYPE_NAMES.get(magic[2], "no known type")
        raise IdxError(path, f"type code 0x{UNSIGNED_BYTE:02x} (unsigned byte)", f"0x{magic[2]:02x} ({name})")
    if magic[3] != ndim:
        raise IdxError(path, f"{ndim} dimension{'s' * (ndim != 1)}", str(magic[3]))
    header = file.read(4 * ndim)
    if len(header) < 4 * ndim:
        raise IdxError(path, f"{4 * ndim} bytes of dimensions", f"{len(header)} bytes")
    shape = struct.unpack(f">{ndim}I", header)

    # In pieces: the header of a broken file may promise more than there is memory for.
    size = math.prod(shape)
    data = bytearray()
    while len(data) < size and (piece := file.read(min(size - len(data), 1 << 20))):
        data += piece
    if len(data) < size:
        raise IdxError(path, f"{size} bytes of data for shape {shape}", f"{len(data)}")
    if file.read(1):
        raise IdxError(path, f"the end of the file after {size} bytes of data for shape {shape}", "more bytes")
    return np.frombuffer(data, np.uint8).reshape(shape)


def read_mnist(data_dir: Path, part: str, classes: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Read the images ``[n, height, width]`` and the labels ``[n]`` of ``part``, which is "train" or "t10k"."""
    images_path = _find(data_dir, f"{part}-images-idx3-ubyte")
    labels_path = _find(data_dir, f"{part}-labels-idx1-ubyte")
    images = read_idx(images_path, 3)
    labels = read_idx(labels_path, 1)
    if images.size == 0:
        raise IdxError(images_path, "at least one image of at least one pixel", f"shape {images.shape}")
    if len(labels) != len(images):
        raise IdxError(labels_path, f"{len(images)} labels, one for each image of {images_path.name}", f"{len(labels)}")
    if labels.max() >= classes:
        position = int(np.argmax(labels >= classes))
        raise IdxError(labels_path, f"labels from 0 to {classes - 1}", f"{labels[position]} at position {position}")
    return images, labels


def _find(data_dir: Path, name: str) -> Path:
    for path in (data_dir / name, data_dir / f"{name}.gz"):
        if path.is_file():
            return path
    raise IdxError(data_dir, f"a folder with the file {name} or {name}.gz", "neither")
