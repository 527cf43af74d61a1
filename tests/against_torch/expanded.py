"""Writes to tensors that show one place of memory several times: refused where PyTorch refuses them, else equal."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

import minitensor as mt
from tests.against_torch.convert import DTYPES, NotConvertible, to_ours
from tests.against_torch.forms import Case, DifferenceError, compare, on_ours


def shown_twice(t: torch.Tensor) -> torch.Tensor:
    """A tensor of the same shape whose first dimension of several elements shows one of them.

    There is memory for all elements behind it: some of PyTorch's kernels write as if there were.
    """
    for dim, size in enumerate(t.shape):
        if size > 1 and t.numel():
            one = t.detach().narrow(dim, 0, 1)
            memory = torch.zeros(t.numel(), dtype=t.dtype)
            memory[: one.numel()] = one.flatten()
            return memory[: one.numel()].reshape(one.shape).expand(t.shape)
    raise NotConvertible("nothing to show twice")


def check_inplace(op: OpInfo, sample: SampleInput) -> None:
    """The in-place form on an expanded tensor."""
    name = getattr(op.inplace_variant, "__name__", "")
    method = on_ours(op.inplace_variant) or getattr(mt.Tensor, name, None)
    if method is None or not isinstance(sample.input, torch.Tensor) or sample.input.layout is not torch.strided:
        raise NotConvertible("no such form")
    case = Case(op, SampleInput(shown_twice(sample.input), args=tuple(sample.args), kwargs=dict(sample.kwargs)))
    given, args, kwargs = case.theirs()
    theirs = outcome(lambda: op.inplace_variant(given, *args, **kwargs))
    x, args, kwargs = case.ours()
    ours = outcome(lambda: method(x, *args, **kwargs))
    same_fate(ours, theirs)
    if not theirs[0]:
        compare(x, given, "the tensor afterwards", values=not case.random, tolerance=case.tolerance)


def check_out(op: OpInfo, function: Any, sample: SampleInput) -> None:
    """Each result in turn written to an expanded tensor."""
    case = Case(op, sample)
    x, args, kwargs = case.theirs()
    try:
        expected = op.op(x, *args, **kwargs)
    except Exception as error:
        raise NotConvertible(str(error)) from None
    single = isinstance(expected, torch.Tensor)
    results = [expected] if single else list(expected) if isinstance(expected, (list, tuple)) else []
    if not results or not all(isinstance(t, torch.Tensor) and t.dtype in DTYPES for t in results):
        raise NotConvertible("results that are no tensors of ours")
    for place, result in enumerate(results):
        if result.layout is not torch.strided or result.numel() < 2:
            continue
        outs = [torch.zeros_like(t) for t in results]
        outs[place] = shown_twice(outs[place])
        _check_one_out(case, op, function, outs, place, single)


def _check_one_out(case: Case, op: OpInfo, function: Any, outs: list[torch.Tensor], place: int, single: bool) -> None:
    ours_outs = to_ours(outs)
    x, args, kwargs = case.theirs()
    theirs = outcome(lambda: op.op(x, *args, **kwargs, out=outs[0] if single else tuple(outs)))
    a, more, named = case.ours()
    ours = outcome(lambda: function(a, *more, **named, out=ours_outs[0] if single else tuple(ours_outs)))
    same_fate(ours, theirs)
    if not theirs[0]:
        compare(ours_outs[place], outs[place], f"out {place}", values=not case.random, tolerance=case.tolerance)


def outcome(call: Callable[[], Any]) -> tuple[Exception | None, list[str]]:
    """What a call raised, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
        except NotConvertible:
            raise
        except Exception as error:
            return error, []
    return None, [str(w.message) for w in caught]


def same_fate(ours: tuple[Exception | None, list[str]], theirs: tuple[Exception | None, list[str]]) -> None:
    """Raise DifferenceError unless both calls wrote, or both refused, with the same warnings.

    Some of PyTorch's kernels look for such memory only on other paths, and leave in it what was written last, or write
    beyond it: what is refused here is no difference then.
    """
    (here, warned_here), (there, warned_there) = ours, theirs
    shared = "refers to a single memory location"
    if there is None and here is not None and shared in str(here):
        raise NotConvertible("what PyTorch leaves depends on the order of its writes")
    if (here is None) != (there is None):
        raise DifferenceError(f"{here!r} here, {there!r} there")
    said_here, said_there = ({w for w in said if "expanded" in w} for said in (warned_here, warned_there))
    if {w.split(" (Triggered")[0] for w in said_there} != said_here:
        raise DifferenceError(f"warns {said_here} here, {said_there} there")
