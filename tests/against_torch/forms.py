"""One sample of one op, in every form that PyTorch gives it, here and there."""

from __future__ import annotations

import types
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

import minitensor as mt
from tests.against_torch.convert import BACK, DTYPES, to_ours, to_theirs

# (relative, absolute): PyTorch's defaults for a comparison, wider for what sums many terms in another order.
TOLERANCES = {
    torch.float16: (2e-3, 1e-3),
    torch.bfloat16: (1.6e-2, 1e-2),
    torch.float32: (1.3e-5, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex64: (1.3e-5, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}


WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


def like(wide: Any, narrow: Any) -> Any:
    """Results in the dtypes of others."""
    if isinstance(wide, torch.Tensor) and isinstance(narrow, torch.Tensor):
        return wide.to(narrow.dtype)
    if isinstance(wide, (list, tuple)) and isinstance(narrow, (list, tuple)) and len(wide) == len(narrow):
        return tuple(like(w, n) for w, n in zip(wide, narrow, strict=True))
    return narrow


# Relative and absolute tolerance where PyTorch's own function is no more exact, also in float64.
INEXACT_THERE = {
    # Errors of 1e-7 near 5, where the two approximations that PyTorch uses meet; ours agree with mpmath.
    "special.bessel_j0": (1e-6, 1e-6),
    "special.bessel_y1": (1e-6, 1e-6),
}


class DifferenceError(Exception):
    """What differs."""


class MissingError(Exception):
    """A name or a form that is not here."""


def ours_of(name: str) -> Any:
    """Our function of that dotted name."""
    found: Any = mt
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise MissingError(f"minitensor.{name}") from None
    return found


def ours_for(op: OpInfo) -> Any:
    """What of ours does the same as the op's function of theirs."""
    rewritten = on_ours(op.op)
    if rewritten is not None:
        for part in (op.name, op.name.removesuffix("_"), f"{op.name}_"):
            if part in mt.__dict__ or hasattr(mt.Tensor, part.rpartition(".")[2]) or "." in part:
                return rewritten
    if type(op.op).__name__ == "method_descriptor" and hasattr(mt.Tensor, op.op.__name__):
        return getattr(mt.Tensor, op.op.__name__)
    return ours_of(op.name)


def on_ours(function: Any) -> Any:
    """A function that PyTorch's tests define, over minitensor instead; None for PyTorch's own functions."""
    if not isinstance(function, types.FunctionType) or not function.__module__.startswith("torch.testing"):
        return None
    names = {**function.__globals__, "torch": mt}
    made = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def compare(
    ours: Any, theirs: Any, what: str, values: bool = True, tolerance: tuple[float, float] | None = None
) -> None:
    """Raise DifferenceError unless the results agree in structure, dtype, shape and, if asked for, values."""
    if isinstance(theirs, (list, tuple)) and not isinstance(theirs, torch.Size):
        if not isinstance(ours, (list, tuple)) or len(ours) != len(theirs):
            raise DifferenceError(f"{what}: {_short(ours)} here, {len(theirs)} results there")
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            compare(a, b, f"{what}[{i}]", values, tolerance)
        return
    if not isinstance(theirs, torch.Tensor):
        converted = to_theirs(ours)
        both_nan = isinstance(theirs, float) and theirs != theirs and converted != converted
        if type(converted) is not type(theirs) or (values and not both_nan and converted != theirs):
            close = isinstance(theirs, float) and isinstance(converted, float) and abs(converted - theirs) <= 1e-5
            if not close:
                raise DifferenceError(f"{what}: {_short(ours)} here, {_short(theirs)} there")
        return
    if not isinstance(ours, mt.Tensor):
        raise DifferenceError(f"{what}: a {type(ours).__name__} here, a tensor there")
    if BACK[ours.dtype] != theirs.dtype:
        raise DifferenceError(f"{what}: {ours.dtype} here, {theirs.dtype} there")
    if tuple(ours.shape) != tuple(theirs.shape):
        raise DifferenceError(f"{what}: shape {tuple(ours.shape)} here, {tuple(theirs.shape)} there")
    if not values or theirs.device.type == "meta":
        return
    a, b = to_theirs(ours), theirs.detach().resolve_conj().resolve_neg()
    rtol, atol = tolerance or TOLERANCES.get(theirs.dtype, (0.0, 0.0))
    try:
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        raise DifferenceError(f"{what}: {' '.join(str(error).split())}") from None


def _short(thing: Any) -> str:
    text = " ".join(repr(thing).split())
    return text if len(text) < 80 else text[:77] + "..."


def described(sample: SampleInput) -> str:
    """The arguments in one line."""

    def of(thing: Any) -> str:
        if isinstance(thing, torch.Tensor):
            layout = "" if thing.is_contiguous() else f" strides {tuple(thing.stride())}"
            return f"{str(thing.dtype).removeprefix('torch.')}{list(thing.shape)}{layout}"
        if isinstance(thing, (list, tuple)):
            return "(" + ", ".join(of(x) for x in thing) + ")"
        return _short(thing)

    parts = [of(sample.input), *(of(a) for a in sample.args), *(f"{k}={of(v)}" for k, v in sample.kwargs.items())]
    return ", ".join(parts)


class Case:
    """An op with a sample: calls of both sides on equal arguments."""

    def __init__(self, op: OpInfo, sample: SampleInput) -> None:
        self.op, self.sample = op, sample
        self.random = _draws(op) or bool(sample.kwargs.get("dropout_p"))
        self.tolerance = INEXACT_THERE.get(op.name)

    def ours(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """Fresh arguments of ours."""
        seen: dict[int, Any] = {}
        s = self.sample
        return to_ours(s.input, seen), to_ours(tuple(s.args), seen), to_ours(dict(s.kwargs), seen)

    def theirs(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """Fresh arguments of theirs."""
        seen: dict[int, Any] = {}

        def copy(thing: Any) -> Any:
            if isinstance(thing, torch.Tensor):
                if id(thing) not in seen:
                    seen[id(thing)] = _copy(thing)
                return seen[id(thing)]
            if isinstance(thing, (list, tuple)) and not isinstance(thing, torch.Size):
                return type(thing)(copy(x) for x in thing)
            return thing

        s = self.sample
        return copy(s.input), copy(tuple(s.args)), {k: copy(v) for k, v in s.kwargs.items()}

    def wide(self) -> Any:
        """Their result computed in double precision from the same numbers, to judge where the two differ.

        None if the arguments have that precision already, or cannot be given in it.
        """
        widened = False

        def widen(thing: Any) -> Any:
            nonlocal widened
            if isinstance(thing, torch.Tensor):
                made = WIDE.get(thing.dtype)
                widened |= made is not None
                return thing.detach().clone() if made is None else thing.detach().to(made)
            if isinstance(thing, (list, tuple)) and not isinstance(thing, torch.Size):
                return type(thing)(widen(x) for x in thing)
            return thing

        s = self.sample
        x, args, kwargs = widen(s.input), widen(tuple(s.args)), {k: widen(v) for k, v in s.kwargs.items()}
        if not widened:
            return None
        try:
            return self.processed(self.op.op(x, *args, **kwargs))
        except Exception:
            return None

    def processed(self, result: Any) -> Any:
        """A result of theirs as the op's own tests compare it: free of arbitrary signs and phases."""
        return self.sample.output_process_fn_grad(result)

    def call_ours(self, function: Any) -> tuple[Any, Any]:
        """The result of ours, and the first argument afterwards."""
        x, args, kwargs = self.ours()
        return function(x, *args, **kwargs), x


def _copy(t: torch.Tensor) -> torch.Tensor:
    """The same tensor over a copy of its whole storage."""
    if t.layout is not torch.strided or t.device.type != "cpu" or t.is_conj() or t.is_neg():
        return t.detach().clone().requires_grad_(t.requires_grad)
    count = t.untyped_storage().nbytes() // t.element_size()
    whole = torch.as_strided(t.detach(), (count,), (1,), 0).clone()
    return torch.as_strided(whole, t.shape, t.stride(), t.storage_offset()).requires_grad_(t.requires_grad)


def _draws(op: OpInfo) -> bool:
    return op.name in RANDOM


# Random numbers and uninitialised memory: only dtype and shape can be compared.
RANDOM = {
    "bernoulli", "cauchy", "empty", "empty_like", "empty_permuted", "empty_strided", "exponential", "geometric",
    "log_normal", "multinomial", "new_empty", "new_empty_strided", "nn.functional.alpha_dropout",
    "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout", "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d", "nn.functional.rrelu", "nn.functional.multi_head_attention_forward",
    "normal", "pca_lowrank", "rand_like", "randint", "randint_like", "randn", "randn_like", "svd_lowrank", "uniform",
    "resize_", "resize_as_", "native_dropout_backward",
}  # fmt: skip

__all__ = [
    "DTYPES",
    "RANDOM",
    "Case",
    "DifferenceError",
    "MissingError",
    "compare",
    "described",
    "like",
    "on_ours",
    "ours_for",
]
