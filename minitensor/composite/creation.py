"""Tensors made from numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from minitensor import _C
from minitensor._warning import warn_of_copy
from minitensor.composite.dims import ints_of, product, sizes_of
from minitensor.composite.layout import as_mapped, formatted, made_like, resize_, strided
from minitensor.composite.numbers import number
from minitensor.composite.registry import composite, shortcut
from minitensor.creation import with_requires_grad
from minitensor.ops import ROWS, creation, elementwise, movement

Tensor = _C.Tensor


def _made(
    result: Any, requires_grad: bool, layout: Any = None, pin_memory: bool | None = False, out: Any = None
) -> Any:
    """The result as the options that every creation function has want it."""
    if layout is not None and layout is not strided:
        raise RuntimeError(f"this build has strided tensors only, not {layout}")
    if pin_memory:
        result = result.pin_memory()
    if out is not None:
        _C.check_out("creation", out, (), {})
        result = _C.store_out("creation", result, out, "exact")
    return with_requires_grad(result, requires_grad)


def dtype_of(dtype: Any, out: Any) -> Any:
    """The dtype, which is that of `out` unless one is given."""
    if out is None:
        return dtype
    if not isinstance(out, Tensor):
        raise TypeError(f"argument 'out' must be Tensor, not {type(out).__name__}")
    if dtype is not None and dtype != out.dtype:
        given, there = _C.type_name(dtype), _C.type_name(out.dtype)
        raise RuntimeError(f"dtype {given} does not match dtype of out parameter ({there})")
    return out.dtype


def _default(dtype: Any) -> Any:
    return _C.get_default_dtype() if dtype is None else dtype


# ---- one value


def _filled(size: tuple[int, ...], value: Any, dtype: Any, device: Any, out: Any) -> Any:
    """A tensor of one value; what is stored in `out` needs no memory for more."""
    if out is None:
        return creation.full(size, value, dtype=dtype, device=device)
    one = creation.full((), value, dtype=dtype, device=device)
    return movement.as_strided(one, size, (0,) * len(size), 0)


@composite(method=False)
def empty(
    *args: Any, size: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """A tensor whose memory is not initialised."""
    made = _C.empty(sizes_of(args, size, "empty"), dtype_of(dtype, out), device)
    if memory_format is not None:
        made = formatted(made, memory_format)
    if out is not None:
        return resize_(out, sizes_of(args, size))
    return _made(made, requires_grad, layout, pin_memory)


@composite(method=False)
def full(
    size: Any, fill_value: Any, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of one value, whose kind of number gives the dtype if none is given."""
    dtype = dtype_of(dtype, out)
    if isinstance(size, int):
        raise TypeError("full(): argument 'size' (position 1) must be tuple of ints, not int")
    made = _filled(tuple(size), fill_value, dtype, device, out)
    return _made(made, requires_grad, layout, pin_memory, out)


@composite(method=False)
@shortcut("*", creation.full, after=(0.0,))
def zeros(
    *args: Any, size: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of zeros, of shape ``sizes``: numbers, or one sequence of them.

    In the default dtype unless another is given. Raises RuntimeError for a negative size.
    """
    dtype = _default(dtype_of(dtype, out))
    made = _filled(sizes_of(args, size, "zeros"), 0, dtype, device, out)
    if requires_grad is not False or out is not None or layout is not None or pin_memory:
        return _made(made, requires_grad, layout, pin_memory, out)
    return made


@composite(method=False)
@shortcut("*", creation.full, after=(1.0,))
def ones(
    *args: Any, size: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of ones."""
    dtype = _default(dtype_of(dtype, out))
    made = _filled(sizes_of(args, size, "ones"), 1, dtype, device, out)
    if requires_grad is not False or out is not None or layout is not None or pin_memory:
        return _made(made, requires_grad, layout, pin_memory, out)
    return made


def _like(input: Any, value: Any, dtype: Any, device: Any, memory_format: Any) -> Any:
    dtype, device = input.dtype if dtype is None else dtype, input.device if device is None else device

    def make(shape: tuple[int, ...]) -> Any:
        if value is None:
            return _C.empty(shape, dtype, device)
        return creation.full(shape, value, dtype=dtype, device=device)

    return made_like(input, memory_format, make)


@composite(method=False)
def empty_like(
    input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """A tensor of input's shape and dtype whose memory is not initialised."""
    return _made(_like(input, None, dtype, device, memory_format), requires_grad, layout, pin_memory)


@composite(method=False)
def full_like(
    input: Any, fill_value: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """A tensor of one value with input's shape and dtype."""
    return _made(_like(input, fill_value, dtype, device, memory_format), requires_grad, layout, pin_memory)


@composite(method=False)
def zeros_like(
    input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Zeros with input's shape and dtype."""
    return _made(_like(input, 0, dtype, device, memory_format), requires_grad, layout, pin_memory)


@composite(method=False)
def ones_like(
    input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Ones with input's shape and dtype."""
    return _made(_like(input, 1, dtype, device, memory_format), requires_grad, layout, pin_memory)


@composite(method=False)
def scalar_tensor(
    s: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor without dimensions, of the default dtype if none is given."""
    return _made(creation.full((), s, dtype=_default(dtype), device=device), requires_grad, layout, pin_memory)


def _strided_empty(size: Sequence[int], stride: Sequence[int], dtype: Any, device: Any) -> Any:
    size, stride, dtype = tuple(size), tuple(stride), _default(dtype)
    if len(size) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})"
        )
    for n in size:
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(size)}")
    count = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if product(size) else 0
    return movement.as_strided(_C.empty((count,), dtype, device), size, stride, 0)


@composite(method=False)
def empty_strided(
    size: Sequence[int], stride: Sequence[int], *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of the given strides whose memory is not initialised."""
    return _made(_strided_empty(size, stride, dtype, device), requires_grad, layout, pin_memory)


@composite(method=False)
def empty_permuted(
    size: Sequence[int], physical_layout: Sequence[int], *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A dense tensor, not initialised, whose dimensions lie in memory in the given order, the outermost first."""
    size, order = tuple(size), tuple(physical_layout)
    if len(size) != len(order):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = "
            f"{len(size)} is not equal to len(physical_layout) = {len(order)}"
        )
    stride, step = [0] * len(size), 1
    for d in reversed(order):
        if not 0 <= d < len(size):
            raise RuntimeError(f"Dimension out of range (expected to be between 0 and {len(size) - 1}, but got {d})")
        if order.count(d) > 1:
            raise RuntimeError("Duplicate dim not allowed")
        stride[d] = step
        step *= size[d] if size[d] > 1 else 1
    return _made(_strided_empty(size, stride, dtype, device), requires_grad, layout, pin_memory)


# ---- with another tensor's dtype


@composite(function=False)
def new_full(
    input: Any, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of one value with this tensor's dtype."""
    size = tuple(ints_of(size))
    made = creation.full(size, fill_value, dtype=dtype or input.dtype, device=device or input.device)
    return _made(as_mapped(made, input), requires_grad, layout, pin_memory)


@composite(function=False)
def new_zeros(input: Any, *args: Any, size: Any = None, **more: Any) -> Tensor:
    """Zeros with this tensor's dtype."""
    return new_full(input, sizes_of(args, size, "new_zeros"), 0, **more)


@composite(function=False)
def new_ones(input: Any, *args: Any, size: Any = None, **more: Any) -> Tensor:
    """Ones with this tensor's dtype."""
    return new_full(input, sizes_of(args, size, "new_ones"), 1, **more)


@composite(function=False)
def new_empty(
    input: Any, *args: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Uninitialised memory with this tensor's dtype."""
    made = _C.empty(sizes_of(args, size, "new_empty"), dtype or input.dtype, device or input.device)
    return _made(as_mapped(made, input), requires_grad, layout, pin_memory)


@composite(function=False)
def new_empty_strided(
    input: Any, size: Sequence[int], stride: Sequence[int], *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Uninitialised memory of the given strides with this tensor's dtype."""
    made = _strided_empty(size, stride, dtype or input.dtype, device or input.device)
    return _made(as_mapped(made, input), requires_grad, layout, pin_memory)


@composite(function=False)
def new_tensor(
    input: Any, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None,
    pin_memory: bool = False,
) -> Any:  # fmt: skip
    """A tensor of data with this tensor's dtype."""
    if isinstance(data, Tensor):
        warn_of_copy("tensor.new_tensor")
    made = _C.tensor_from_data(data, dtype or input.dtype, device, True)
    return _made(made, requires_grad, layout, pin_memory)


# ---- ranges


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) else value


def _whole_bounds(bounds: list[Any], dtype: Any) -> list[int]:
    """The bounds of a range of integers. Only int64 is counted from the cut bounds, others from those given."""
    start, end, step = bounds
    first, last, by = int(start), int(end), int(step)
    if dtype is not _C.int64 and by and not isinstance(end - start + step, int):
        last = first + math.ceil((end - start) / step) * by
    return [first, last, by]


@composite(method=False)
@shortcut("i", creation.arange, before=(0,), after=(1,))
@shortcut("ii", creation.arange, after=(1,))
def arange(
    *args: Any, start: Any = None, end: Any = None, step: Any = None, out: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Values from start (0 if only one bound is given) up to, not including, end.

    Given as end, as start and end, or as start, end and step; int64 if all are integers, otherwise of the default
    dtype. RuntimeError if the step is 0 or leads away from the end.
    """
    if len(args) > 3:
        raise TypeError(f"arange() takes from 1 to 3 positional arguments but {len(args)} were given")
    if len(args) == 1 and start is None and end is None:
        end = args[0]
    elif len(args) == 1 and end is not None:
        start = args[0]
    elif args:
        start, end, step = (*args[:2], args[2] if len(args) > 2 else step)
    if end is None:
        raise TypeError("arange() missing required argument 'end'")
    given = {"start": 0 if start is None else start, "end": end, "step": 1 if step is None else step}
    bounds = [number(x, "arange", name) for name, x in given.items()]
    dtype = dtype_of(dtype, out)
    if dtype is _C.int64:  # all of them are taken as integers; of the narrower dtypes only the values are
        if 0 < abs(bounds[2]) < 1:
            raise ValueError("step must be nonzero")
        if all(math.isfinite(x) for x in bounds):
            bounds = _whole_bounds(bounds, dtype)
    return _made(creation.arange(*bounds, dtype=dtype, device=device), requires_grad, layout, pin_memory, out)


@composite(method=False, name="range")
def _range(
    start: Any = 0, end: Any = None, step: Any = 1, *, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Values from start to end, which is included, of the default dtype. Deprecated in favour of `arange`."""
    if end is None:
        start, end = 0, start
    start, end, step = (number(x, "range", name) for name, x in (("start", start), ("end", end), ("step", step)))
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    dtype = _default(dtype_of(dtype, out))
    count = int((end - start) / step) + 1
    made = (creation.arange(0, count, dtype=_C.float64, device=device) * step + start).to(dtype)
    return _made(made, requires_grad, layout, pin_memory, out)


@composite(method=False)
def linspace(
    start: Any, end: Any, steps: int, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """`steps` evenly spaced values from start to end, both included."""
    dtype = dtype_of(dtype, out)
    made = _evenly(_number(start), _number(end), steps, dtype, device)
    return _made(made, requires_grad, layout, pin_memory, out)


def _numbers_dtype(dtype: Any, *numbers: Any) -> Any:
    """The dtype asked for, or that of complex numbers if one is."""
    return (
        _C.get_default_dtype().to_complex() if dtype is None and any(isinstance(n, complex) for n in numbers) else dtype
    )


def _ends(start: Any, end: Any, dtype: Any) -> tuple[Any, Any]:
    """The ends as PyTorch has them: of integers they are integers, before the steps between them are."""
    if dtype is None or dtype.is_floating_point or dtype.is_complex:
        return start, end
    return tuple(int(n) if isinstance(n, float) and math.isfinite(n) else n for n in (start, end))  # type: ignore[return-value]


def _evenly(start: Any, end: Any, steps: int, dtype: Any, device: Any) -> Any:
    """Evenly spaced values; of complex numbers both parts are."""
    bounds = (start, end)
    dtype = _numbers_dtype(dtype, *bounds)
    if dtype is None or not dtype.is_complex:
        start, end = _ends(start, end, dtype)
        return creation.linspace(start, end, steps, dtype=dtype, device=device)
    parts = [
        creation.linspace(*(float(getattr(n, part)) for n in bounds), steps, dtype=dtype.to_real(), device=device)
        for part in ("real", "imag")
    ]
    return ROWS["complex"].call(*parts)


@composite(method=False)
def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """`steps` values from base**start to base**end whose exponents are evenly spaced."""
    start, end, base = _number(start), _number(end), number(base, "logspace", "base")
    dtype = _default(_numbers_dtype(dtype_of(dtype, out), start, end, base))
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    start, end = _ends(start, end, dtype)
    exponents = _evenly(start, end, steps, _C.complex128 if dtype.is_complex else _C.float64, device)
    made = elementwise.pow(base if isinstance(base, complex) else float(base), exponents).to(dtype)
    return _made(made, requires_grad, layout, pin_memory, out)


@composite(method=False)
def eye(
    n: int, m: int | None = None, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A matrix with ones on the diagonal."""
    dtype = dtype_of(dtype, out)
    return _made(creation.eye(n, m, dtype=dtype, device=device), requires_grad, layout, pin_memory, out)


# ---- windows


def _window(name: str, doc: str, shape: Callable[..., Any], **defaults: float) -> None:
    def window(
        window_length: int, periodic: bool | None = None, *args: float, dtype: Any = None, layout: Any = None,
        device: Any = None, requires_grad: bool = False, pin_memory: bool = False, **more: float,
    ) -> Tensor:  # fmt: skip
        # PyTorch has no form with numbers and without `periodic`.
        if len(args) > len(defaults) or not set(more) <= set(defaults) or (more and periodic is None):
            raise TypeError(
                f"{name}() takes a length, periodic{''.join(f', {d}' for d in defaults)} and tensor options"
            )
        given = {**defaults, **dict(zip(defaults, args, strict=False)), **more}
        dtype = _default(dtype)
        if not dtype.is_floating_point:
            raise RuntimeError(f"{name} expects floating point dtypes, got: {dtype}")
        if window_length < 0:
            raise RuntimeError(f"{name} requires non-negative window_length, got window_length={window_length}")
        if window_length <= 1:
            made = creation.full((window_length,), 1, dtype=dtype, device=device)
        else:
            # A periodic window is a symmetric one that is longer by one, without the last value.
            last = window_length if periodic or periodic is None else window_length - 1
            places = creation.arange(0, window_length, 1, dtype=_C.float64, device=device)
            made = shape(places, last, **given).to(dtype)
        return _made(made, requires_grad, layout, pin_memory)

    window.__name__ = name
    window.__doc__ = f"{doc}\n\nOf `window_length` values; `periodic` ones repeat after them, others end as they begin."
    composite(method=False)(window)


def _cosines(places: Any, last: int, *weights: float) -> Any:
    total = weights[0]
    for k, weight in enumerate(weights[1:], 1):
        total = total + (places * (2 * math.pi * k / last)).cos() * weight
    return total


def _kaiser(places: Any, last: int, beta: float) -> Any:
    i0 = ROWS["i0"].call
    ratio = places * (2 / last) - 1
    inside = (1 - ratio * ratio).clamp(min=0)
    return i0(inside.sqrt() * beta) / i0(creation.full((), float(beta), dtype=_C.float64))


_window("bartlett_window", "A triangle: 1 - |2n/N - 1|.", lambda n, last: 1 - (n * (2 / last) - 1).abs())
_window("hann_window", "0.5 - 0.5 cos(2 pi n / N).", lambda n, last: _cosines(n, last, 0.5, -0.5))
_window(
    "hamming_window",
    "alpha - beta cos(2 pi n / N).",
    lambda n, last, alpha, beta: _cosines(n, last, alpha, -beta),
    alpha=0.54,
    beta=0.46,
)
_window(
    "blackman_window",
    "0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N).",
    lambda n, last: _cosines(n, last, 0.42, -0.5, 0.08),
)
_window("kaiser_window", "I0(beta sqrt(1 - (2n/N - 1)^2)) / I0(beta).", _kaiser, beta=12.0)
