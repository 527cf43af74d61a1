"""`assert_close`."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minitensor import _C
from minitensor._C import Tensor, bfloat16, complex128, float16, float32, float64, int64
from minitensor._functions.offered import as_tensor, isclose, promote_types, tensor
from minitensor._warning import warn
from minitensor.composite.layout import sparse_coo, strided

__all__ = ["assert_allclose", "assert_close"]

# Relative and absolute tolerances by dtype, as PyTorch's documentation lists them; any other dtype must be equal.
_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


class _Options:
    """What one call of assert_close asks for."""

    def __init__(self, rtol: float | None, atol: float | None, **switches: bool) -> None:
        if (rtol is None) != (atol is None):
            which = ("rtol", "atol") if atol is None else ("atol", "rtol")
            raise ValueError(
                f"Both 'rtol' and 'atol' must be either specified or unspecified, but got {which[0]} without {which[1]}"
            )
        self.rtol, self.atol = rtol, atol
        self.allow_subclasses = switches["allow_subclasses"]
        self.equal_nan = switches["equal_nan"]
        self.check_device, self.check_dtype = switches["check_device"], switches["check_dtype"]
        self.check_layout, self.check_stride = switches["check_layout"], switches["check_stride"]

    def tolerances(self, *dtypes: Any) -> tuple[float, float]:
        """The tolerances for a pair of these dtypes: the larger where they differ."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        pairs = [_TOLERANCES.get(d.name, (0.0, 0.0)) for d in dtypes]
        return max(p[0] for p in pairs), max(p[1] for p in pairs)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere.

    Tensors, numbers, and sequences and mappings of them are compared; shapes must be equal, as must be dtypes, devices
    and (if asked for) strides. Without `rtol` and `atol` both follow from the dtype. `msg` replaces the message, or
    makes it from the generated one.
    """
    options = _Options(
        rtol, atol, allow_subclasses=allow_subclasses, equal_nan=equal_nan, check_device=check_device,
        check_dtype=check_dtype, check_layout=check_layout, check_stride=check_stride,
    )  # fmt: skip
    try:
        _compare(actual, expected, options, [])
    except AssertionError as error:
        text = str(error)
        raise AssertionError(msg(text) if callable(msg) else msg if msg is not None else text) from None


_OLD_TOLERANCES = {"float16": (1e-3, 1e-3), "float32": (1e-4, 1e-5), "float64": (1e-5, 1e-8)}


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = True,
    msg: str = "",
) -> None:  # fmt: skip
    """Compare as :func:`assert_close` does, in whatever dtypes and with wider tolerances; an older name."""
    warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. Please "
        "use `torch.testing.assert_close()` instead.",
        FutureWarning,
    )
    actual = actual if isinstance(actual, Tensor) else tensor(actual)
    expected = expected if isinstance(expected, Tensor) else tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        pairs = [_OLD_TOLERANCES.get(t.dtype.name, (0.0, 0.0)) for t in (actual, expected)]
        rtol, atol = (max(values) for values in zip(*pairs, strict=True))
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)


def _compare(actual: Any, expected: Any, options: _Options, path: list[Any]) -> None:
    if _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            _fail(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", path)
        for i, (a, b) in enumerate(zip(actual, expected, strict=True)):
            _compare(a, b, options, [*path, i])
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if set(actual) != set(expected):
            _fail(
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(set(expected) - set(actual), key=str)}\n"
                f"Additional keys in the actual mapping: {sorted(set(actual) - set(expected), key=str)}",
                path,
            )
        for key in actual:
            _compare(actual[key], expected[key], options, [*path, key])
    elif isinstance(actual, numbers.Number) and isinstance(expected, numbers.Number):
        _compare_numbers(actual, expected, options, path)
    elif actual is None or expected is None:
        if actual is not expected:
            _fail(f"None mismatch: {actual} is not {expected}", path)
    else:
        _compare_tensors(_tensor(actual, options), _tensor(expected, options), options, path)


def _is_sequence(thing: Any) -> bool:
    return isinstance(thing, Sequence) and not isinstance(thing, (str, bytes, Tensor))


def _tensor(thing: Any, options: _Options) -> Any:
    if isinstance(thing, Tensor):
        if not options.allow_subclasses and type(thing) is not Tensor:
            raise TypeError(f"allow_subclasses is False and got a {type(thing).__name__}")
        return thing.detach()
    try:
        return as_tensor(thing)
    except Exception:
        raise TypeError(f"No comparison pair was able to handle inputs of type {type(thing)}.") from None


def _fail(message: str, path: list[Any]) -> None:
    where = "".join(f"[{key!r}]" if isinstance(key, str) else f"[{key}]" for key in path)
    raise AssertionError(message + (f"\n\nThe failure occurred for item {where}" if path else ""))


def _compare_numbers(actual: Any, expected: Any, options: _Options, path: list[Any]) -> None:
    floating = [complex128 if isinstance(n, complex) else float64 for n in (actual, expected)
                if isinstance(n, (float, complex))]  # fmt: skip
    rtol, atol = options.tolerances(*floating) if floating else (options.rtol or 0.0, options.atol or 0.0)
    if actual == expected or (options.equal_nan and actual != actual and expected != expected):
        return
    difference = abs(actual - expected)
    if math.isfinite(difference) and difference <= atol + rtol * abs(expected):
        return
    if rtol == 0 and atol == 0:
        _fail(
            "Scalars are not equal!\n\n"
            f"Expected {expected} but got {actual}.\nAbsolute difference: {difference}\n"
            f"Relative difference: {_ratio(difference, abs(expected))}",
            path,
        )
    _fail(
        "Scalars are not close!\n\n"
        f"Expected {expected} but got {actual}.\n"
        f"Absolute difference: {difference} (up to {atol} allowed)\n"
        f"Relative difference: {_ratio(difference, abs(expected))} (up to {rtol} allowed)",
        path,
    )


def _ratio(difference: float, magnitude: float) -> float:
    return difference / magnitude if magnitude else math.inf


def _compare_tensors(actual: Any, expected: Any, options: _Options, path: list[Any]) -> None:
    if sparse_coo is actual.layout is expected.layout and actual.is_coalesced() != expected.is_coalesced():
        actual, expected = actual.coalesce(), expected.coalesce()

    def differ(what: str, a: Any, b: Any) -> None:
        if a != b:
            _fail(f"The values for attribute '{what}' do not match: {a} != {b}.", path)

    differ("shape", actual.shape, expected.shape)
    if actual.layout is not strided or expected.layout is not strided:
        if options.check_layout:
            differ("layout", actual.layout, expected.layout)
        if actual.layout is expected.layout:
            _compare_components(actual, expected, options, path)
            return
        actual, expected = actual.to_dense(), expected.to_dense()
    if options.check_device:
        differ("device", actual.device, expected.device)
    if options.check_dtype:
        differ("dtype", actual.dtype, expected.dtype)
    if options.check_stride:
        differ("stride()", actual.stride(), expected.stride())
    if "meta" in (actual.device.type, expected.device.type):
        return
    rtol, atol = options.tolerances(actual.dtype, expected.dtype)
    actual, expected = actual.to(device="cpu"), expected.to(device="cpu")
    if actual.dtype is not expected.dtype:
        dtype = promote_types(actual.dtype, expected.dtype)
        actual, expected = actual.to(dtype), expected.to(dtype)
    if actual.dtype in (float16, bfloat16):
        actual, expected = actual.to(float32), expected.to(float32)
    wrong = ~isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=options.equal_nan)
    if actual.numel() and bool(wrong.any()):
        _fail(_described(actual, expected, wrong, rtol, atol), path)


def _compare_components(actual: Any, expected: Any, options: _Options, path: list[Any]) -> None:
    """Sparse tensors of one layout: where elements are, exactly, and the elements."""
    kind = "COO" if actual.layout is sparse_coo else actual.layout._name[-3:].upper()
    if actual._nnz() != expected._nnz():
        _fail(
            f"The number of specified values in sparse {kind} tensors does not match: {actual._nnz()} != "
            f"{expected._nnz()}",
            path,
        )
    names = ("indices",) if kind == "COO" else ("crow_indices", "col_indices")
    names = ("ccol_indices", "row_indices") if kind in ("CSC", "BSC") else names
    for name in (*names, "values"):
        # As they are: `values()` and `indices()` are those of coalesced tensors.
        method = f"_{name}" if kind == "COO" else name
        try:
            _compare_tensors(getattr(actual, method)(), getattr(expected, method)(), options, [])
        except AssertionError as error:
            _fail(str(error).replace("Tensor-likes", f"Sparse {kind} {name}"), path)


def _described(actual: Any, expected: Any, wrong: Any, rtol: float, atol: float) -> str:
    count, total = int(wrong.sum()), wrong.numel()
    exact = rtol == 0 and atol == 0
    wide = complex128 if actual.is_complex() else float64 if actual.is_floating_point() else int64
    a, b = actual.to(wide), expected.to(wide)
    if actual.dtype is _C.bool:
        a, b = a.to(int64), b.to(int64)
    absolute = (a - b).abs()
    relative = absolute / b.abs()
    lines = [f"Tensor-likes are not {'equal' if exact else 'close'}!", ""]
    if total > 1:
        lines.append(f"Mismatched elements: {count} / {total} ({count / total:.1%})")
    for what, difference, allowed in (("absolute", absolute, atol), ("relative", relative, rtol)):
        worst, place = _worst(difference, wrong)
        at = f" at index {place}" if total > 1 else ""
        limit = "" if exact else f" (up to {allowed} allowed)"
        lines.append(f"Greatest {what} difference: {worst}{at}{limit}")
    return "\n".join(lines)


def _worst(difference: Any, wrong: Any) -> tuple[Any, tuple[int, ...]]:
    """The largest difference among the wrong elements, and its place."""
    import numpy as np

    values = difference.cpu().numpy().astype(np.float64)
    values = np.where(wrong.cpu().numpy(), np.where(np.isnan(values), np.inf, values), -1.0)
    place = np.unravel_index(int(values.argmax()), values.shape)
    worst = difference[tuple(int(i) for i in place)].item() if values.shape else difference.item()
    return worst, tuple(int(i) for i in place)
