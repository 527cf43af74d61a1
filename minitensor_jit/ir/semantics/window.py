"""Windows that slide over arrays, and the labels of a convolution's dimensions, with XLA's text for both."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["ConvolutionDims", "Window", "WindowDim"]


@dataclass(frozen=True, slots=True)
class WindowDim:
    """A window's extent and movement along one dimension; negative paddings crop."""

    size: int
    stride: int = 1
    low: int = 0
    high: int = 0
    base_dilation: int = 1
    window_dilation: int = 1
    reversal: bool = False

    def positions(self, extent: int) -> int:
        """How many places the window has on a dimension of this extent."""
        base = 0 if extent == 0 else (extent - 1) * self.base_dilation + 1
        window = 0 if self.size == 0 else (self.size - 1) * self.window_dilation + 1
        padded = self.low + base + self.high
        return 0 if padded < window or padded <= 0 else (padded - window) // self.stride + 1


# The fields of the text: name, how one dimension is written, and whether it may be left out where all are the default.
_FIELDS: Final = ("size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal")


@dataclass(frozen=True, slots=True)
class Window:
    """A window, one `WindowDim` a dimension: `{size=3x3 stride=2x2 pad=1_1x1_1}`."""

    dims: tuple[WindowDim, ...] = ()

    def valid(self) -> bool:
        """Whether sizes are not negative, and strides and dilations positive."""
        return all(d.size >= 0 and min(d.stride, d.base_dilation, d.window_dilation) >= 1 for d in self.dims)

    def positions(self, extents: Sequence[int]) -> tuple[int, ...]:
        """The number of places in each dimension."""
        return tuple(d.positions(n) for d, n in zip(self.dims, extents, strict=True))

    def __str__(self) -> str:
        dims = self.dims
        if not dims:
            return "{}"
        parts = ["size=" + "x".join(str(d.size) for d in dims)]
        if any(d.stride != 1 for d in dims):
            parts.append("stride=" + "x".join(str(d.stride) for d in dims))
        if any(d.low or d.high for d in dims):
            parts.append("pad=" + "x".join(f"{d.low}_{d.high}" for d in dims))
        if any(d.base_dilation != 1 for d in dims):
            parts.append("lhs_dilate=" + "x".join(str(d.base_dilation) for d in dims))
        if any(d.window_dilation != 1 for d in dims):
            parts.append("rhs_dilate=" + "x".join(str(d.window_dilation) for d in dims))
        if any(d.reversal for d in dims):
            parts.append("rhs_reversal=" + "x".join(str(int(d.reversal)) for d in dims))
        return "{" + " ".join(parts) + "}"

    @staticmethod
    def parse(text: str) -> Window:
        """The window that `text` describes; raises `ValueError` where it is none."""
        inner = text.strip()
        if not (inner.startswith("{") and inner.endswith("}")):
            raise ValueError(f"expected a window like {{size=2x2 stride=1x1}}, found {text!r}")
        fields: dict[str, list[str]] = {}
        for word in inner[1:-1].split():
            key, equals, value = word.partition("=")
            if not equals or key not in _FIELDS or key in fields:
                raise ValueError(f"unexpected {word!r} in a window; it has {', '.join(_FIELDS)}")
            fields[key] = value.split("x")
        sizes = fields.pop("size", [])
        columns: dict[str, list[list[int]]] = {}
        for key, values in (("size", sizes), *fields.items()):
            form = r"-?\d+_-?\d+" if key == "pad" else r"-?\d+"
            if len(values) != len(sizes) or not all(re.fullmatch(form, v) for v in values):
                raise ValueError(f"{key}={'x'.join(values)} does not fit a window of {len(sizes)} dimensions")
            columns[key] = [[int(n) for n in v.split("_")] for v in values]

        def column(key: str, default: int) -> list[int]:
            return [v[0] for v in columns[key]] if key in columns else [default] * len(sizes)

        pads = columns.get("pad", [[0, 0]] * len(sizes))
        rows = zip(
            column("size", 1), column("stride", 1), pads, column("lhs_dilate", 1), column("rhs_dilate", 1),
            column("rhs_reversal", 0), strict=True,
        )  # fmt: skip
        return Window(tuple(WindowDim(n, s, p[0], p[1], b, w, bool(r)) for n, s, p, b, w, r in rows))


@dataclass(frozen=True, slots=True)
class ConvolutionDims:
    """Which dimension is which: batch and feature of input and output, input and output feature of the kernel.

    The text has a letter for each dimension: `b01f_01io->b01f`.
    """

    lhs_batch: int
    lhs_feature: int
    lhs_spatial: tuple[int, ...]
    rhs_input: int
    rhs_output: int
    rhs_spatial: tuple[int, ...]
    out_batch: int
    out_feature: int
    out_spatial: tuple[int, ...]

    @property
    def rank(self) -> int:
        """The number of spatial dimensions."""
        return len(self.lhs_spatial)

    def __str__(self) -> str:
        def word(first: str, a: int, second: str, b: int, spatial: tuple[int, ...]) -> str:
            letters = {a: first, b: second, **{d: str(k) for k, d in enumerate(spatial)}}
            return "".join(letters[d] for d in range(len(spatial) + 2))

        lhs = word("b", self.lhs_batch, "f", self.lhs_feature, self.lhs_spatial)
        rhs = word("i", self.rhs_input, "o", self.rhs_output, self.rhs_spatial)
        return f"{lhs}_{rhs}->{word('b', self.out_batch, 'f', self.out_feature, self.out_spatial)}"

    @staticmethod
    def parse(text: str) -> ConvolutionDims:
        """The dimensions that `text` names; raises `ValueError` where a letter is missing or not known."""
        match = re.fullmatch(r"(\w+?)_(\w+)->(\w+)", text)
        if match is None:
            raise ValueError(f"expected dimension labels like b01f_01io->b01f, found {text!r}")
        rank = len(match[1]) - 2

        def read(word: str, first: str, second: str) -> tuple[int, int, tuple[int, ...]]:
            spatial = [str(k) for k in range(rank)]
            if sorted(word) != sorted([first, second, *spatial]):
                raise ValueError(f"{word!r} in {text!r} must have each of {first}{second}{''.join(spatial)} once")
            return word.index(first), word.index(second), tuple(word.index(s) for s in spatial)

        return ConvolutionDims(*read(match[1], "b", "f"), *read(match[2], "i", "o"), *read(match[3], "b", "f"))
