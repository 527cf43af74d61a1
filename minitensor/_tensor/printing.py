"""How tensors print: PyTorch's format, read from no more elements than are shown."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

from minitensor import _C

__all__ = ["set_printoptions", "tensor_text"]


@dataclass(slots=True)
class _PrintOptions:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": _PrintOptions(),
    "short": _PrintOptions(precision=2, edgeitems=2),
    "full": _PrintOptions(threshold=math.inf),
}
_options = _PrintOptions()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Say how tensors print.

    `precision` is the number of digits after the point; above `threshold` elements the middle is left out and
    `edgeitems` stay at either end of each dimension; `linewidth` is in columns; `profile` is "default", "short" or
    "full"; `sci_mode` is scientific notation, always, never or, with None, where it reads better. What is None stays as
    it is, except `sci_mode`.
    """
    if profile is not None and profile not in _PROFILES:
        raise ValueError(f"set_printoptions: profile must be one of {', '.join(map(repr, _PROFILES))}, not {profile!r}")
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in given.items():
        if value is None:
            continue
        if name == "threshold" and isinstance(value, float) and value >= 0:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ValueError(f"set_printoptions: {name} must be an int that is not negative, not {value!r}")
    if profile is not None:
        base = _PROFILES[profile]
        given = {name: getattr(base, name) if value is None else value for name, value in given.items()}
    for name, value in given.items():
        if value is not None:
            setattr(_options, name, value)
    _options.sci_mode = sci_mode


def tensor_text(tensor: Any) -> str:
    """The text of a tensor: its elements, then what they don't say of it."""
    from minitensor.nn import Parameter

    if level := _C.vmap_level(tensor):  # which has no value of its own
        behind = tensor_text(_C.vmap_unwrap(tensor, level)[0])
        return f"BatchedTensor(lvl={level}, bdim=0, value=\n" + textwrap.indent(behind, "    ") + "\n)"
    plain = type(tensor) in (_C.Tensor, Parameter)
    prefix = "tensor(" if plain else f"{type(tensor).__name__}("
    shape = tuple(tensor.shape)
    is_default = tensor.dtype is _C.get_default_dtype()
    device = [] if tensor.device.type == "cpu" else [f"device='{tensor.device}'"]
    size = [f"size={shape}"]
    dtype = [f"dtype={tensor.dtype}"]
    if tensor.device.type == "meta":
        text = "..."
        suffixes = [*device, *size, *([] if is_default else dtype)]
    elif tensor.numel() == 0:
        # The elements can't show the dtype, and the brackets show one shape only.
        text = "[]"
        suffixes = [*device, *(size if len(shape) != 1 else []), *([] if is_default else dtype)]
    else:
        text = _elements_text(tensor, len(prefix))
        shown = is_default or tensor.dtype in (_C.int64, _C.bool, _C.get_default_dtype().to_complex())
        suffixes = [*device, *([] if _options.edgeitems else size), *([] if shown else dtype)]
    try:
        node = None if tensor.grad_fn is None else type(tensor.grad_fn).__name__
    except RuntimeError:  # a view that was written where its history can't follow
        node = "Invalid"
    if node is not None:
        suffixes.append(f"grad_fn=<{node}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    text = _with_suffixes(prefix + text, suffixes, len(prefix))
    return f"Parameter({text})" if isinstance(tensor, Parameter) and not plain else text


def _with_suffixes(text: str, suffixes: list[str], indent: int, own_line: bool = False) -> str:
    # PyTorch counts one column too many for the first line, and breaks lines accordingly.
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if own_line or column + len(suffix) + 2 > _options.linewidth:
            text += ",\n" + " " * indent + suffix
            column = indent + len(suffix)
            own_line = False
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    return text + ")"


# What is shown: a number, or a list of such with an Ellipsis where some are left out.
_Shown = Any


def _elements_text(tensor: Any, indent: int) -> str:
    detached = tensor.detach()
    edge = _options.edgeitems if detached.numel() > _options.threshold else None
    shown = detached.tolist() if edge is None else _edges(detached, edge)
    numbers: _Format
    if detached.is_complex():
        numbers = _ComplexFormat(shown)
    else:
        numbers = _FloatFormat(shown) if detached.is_floating_point() else _Format(shown)
    return _layout(shown, detached.ndim, indent, numbers)


def _edges(view: Any, edge: int) -> _Shown:
    """The elements at both ends of every dimension that is long enough to be cut."""
    if view.ndim == 0:
        return view.item()
    length = view.shape[0]
    cut = length > 2 * edge
    if view.ndim == 1:
        if not cut:
            return view.tolist()
        first, last = view.narrow(0, 0, edge), view.narrow(0, length - edge, edge)
        return [*first.tolist(), ..., *last.tolist()]
    places = [*range(edge), *range(length - edge, length)] if cut else range(length)
    rows = [_edges(view.select(0, i), edge) for i in places]
    if cut:
        rows.insert(edge, ...)
    return rows


def _numbers(shown: _Shown) -> Iterator[Any]:
    if isinstance(shown, list):
        for item in shown:
            yield from _numbers(item)
    elif shown is not ...:
        yield shown


class _Format:
    """How integers and bools are written: as Python does, to the width of the longest."""

    def __init__(self, shown: _Shown) -> None:
        self.width = max([1, *(len(self.digits(number)) for number in self.counted(shown))])

    def counted(self, shown: _Shown) -> Iterator[Any]:
        """The numbers whose lengths decide the width."""
        return _numbers(shown)

    def digits(self, number: Any) -> str:
        """The number without padding."""
        return str(number)

    def text(self, number: Any) -> str:
        """The number, to the common width."""
        return self.digits(number).rjust(self.width)


class _FloatFormat(_Format):
    """How floats are written: all with the same digits, whole numbers as `1.`, or all in scientific notation.

    Zeros, infinities and NaN have no say, neither in the notation nor in the width.
    """

    def __init__(self, shown: _Shown) -> None:
        magnitudes = [abs(number) for number in self.counted(shown)]
        self._whole = all(number.is_integer() for number in magnitudes)
        self._scientific = False
        if magnitudes:
            low, high = min(magnitudes), max(magnitudes)
            self._scientific = high / low > 1e3 or high > 1e8 or low < 1e-4
            if _options.sci_mode is not None:
                self._scientific = _options.sci_mode
        super().__init__(shown)

    def counted(self, shown: _Shown) -> Iterator[float]:
        return (number for number in _numbers(shown) if number != 0 and math.isfinite(number))

    def digits(self, number: float) -> str:
        if self._scientific:
            return f"{number:.{_options.precision}e}"
        if not self._whole:
            return f"{number:.{_options.precision}f}"
        return f"{number:.0f}." if math.isfinite(number) else f"{number:.0f}"


class _ComplexFormat(_Format):
    """How complex numbers are written: `1.+2.j`, the parts in formats of their own."""

    def __init__(self, shown: _Shown) -> None:
        self._parts = [_FloatFormat([part(number) for number in _numbers(shown)]) for part in (_real, _imaginary)]
        self.width = self._parts[0].width + self._parts[1].width + 1

    def text(self, number: Any) -> str:
        """The number: the real part to its width, the imaginary part with its sign."""
        real, imaginary = self._parts[0].text(number.real), self._parts[1].text(number.imag).lstrip()
        return f"{real}{imaginary if imaginary[0] == '-' else '+' + imaginary}j"


def _real(number: complex) -> float:
    return number.real


def _imaginary(number: complex) -> float:
    return number.imag


def _layout(shown: _Shown, rank: int, indent: int, numbers: _Format) -> str:
    if rank == 0:
        return numbers.text(shown)
    if rank > 1:
        parts = [_row_text(item, rank - 1, indent + 1, numbers) for item in shown]
        return "[" + ("," + "\n" * (rank - 1) + " " * (indent + 1)).join(parts) + "]"
    words = [numbers.text(item) if item is not ... else " ..." for item in shown]
    if words == [" ..."]:
        return "[...]"
    count = max(1, (_options.linewidth - indent) // (numbers.width + 2))
    lines = [", ".join(words[i : i + count]) for i in range(0, len(words), count)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _row_text(item: _Shown | EllipsisType, rank: int, indent: int, numbers: _Format) -> str:
    return "..." if item is ... else _layout(item, rank, indent, numbers)
