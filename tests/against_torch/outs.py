"""`out=` of every dtype, shape and number: refused where PyTorch refuses it, and then untouched; else as there."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

import minitensor as mt
from tests.against_torch.convert import DTYPES, NotConvertible, to_ours
from tests.against_torch.expanded import shown_twice
from tests.against_torch.forms import Case, DifferenceError, compare


def given_outs(results: list[torch.Tensor], single: bool) -> Iterator[tuple[str, Any]]:
    """What is given as `out`, each with what it is called; PyTorch's tensors."""

    def with_one(place: int, made: torch.Tensor) -> Any:
        outs = [torch.zeros(t.shape, dtype=t.dtype) for t in results]
        outs[place] = made
        return outs[0] if single else tuple(outs)

    for place, result in enumerate(results):
        for dtype in DTYPES:
            yield f"{place} of {dtype}", with_one(place, torch.zeros(result.shape, dtype=dtype))
        yield f"{place} empty", with_one(place, torch.zeros(0, dtype=result.dtype))
        yield f"{place} larger", with_one(place, torch.zeros((*result.shape, 2), dtype=result.dtype))
        if result.is_floating_point() or result.is_complex():
            wanted = torch.zeros(result.shape, dtype=result.dtype, requires_grad=True)
            yield f"{place} that requires grad", with_one(place, wanted)
        try:
            yield f"{place} shown twice", with_one(place, shown_twice(torch.zeros_like(result)))
        except NotConvertible:
            continue
    outs = [torch.zeros_like(t) for t in results]
    yield "one more", (*outs, torch.zeros_like(outs[0]))
    yield "one less", tuple(outs[:-1])
    yield "a list", list(outs)
    yield "the first alone", outs[0]


def check_outs(op: OpInfo, function: Any, sample: SampleInput) -> list[str]:
    """What differs between all forms of `out` for one sample, here and there."""
    case = Case(op, sample)
    expected: Any = None

    def call() -> None:
        nonlocal expected
        x, args, kwargs = case.theirs()
        expected = op.op(x, *args, **kwargs)

    if _error(call):
        raise NotConvertible("a sample that PyTorch refuses")
    single = isinstance(expected, torch.Tensor)
    results = [expected] if single else list(expected) if isinstance(expected, (list, tuple)) else []
    if not results or any(not isinstance(t, torch.Tensor) or t.dtype not in DTYPES for t in results):
        raise NotConvertible("results that are no tensors of ours")
    if any(t.layout is not torch.strided for t in results):
        raise NotConvertible("a sparse result")
    found = []
    for name, out in given_outs(results, single):
        given = to_ours(out)
        x, args, kwargs = case.theirs()
        a, more, named = case.ours()
        before = [t.detach().clone() for t in _tensors(given)]
        here = _error(lambda a=a, more=more, named=named, given=given: function(a, *more, **named, out=given))
        there = _error(lambda x=x, args=args, kwargs=kwargs, out=out: op.op(x, *args, **kwargs, out=out))
        difference = _difference(case, here, there, _tensors(given), _tensors(out), before)
        if difference:
            found.append(f"{op.name}, out {name}: {difference}")
    return found


def _difference(
    case: Case, here: Exception | None, there: Exception | None, given: list[Any], out: list[Any], before: list[Any]
) -> str:
    if here is not None:
        if any(t.shape != was.shape or not t.equal(was) for t, was in zip(given, before, strict=True)):
            return f"written though refused: {here!r}"
        shared = "refers to a single memory location" in str(here)  # some of PyTorch's kernels don't look
        same = isinstance(there, (type(here), NotImplementedError)) or (shared and there is None)
        return "" if same else f"{here!r} here, {there!r} there"
    # Kernels that PyTorch lacks for a dtype are no rule of `out`.
    if isinstance(there, NotImplementedError):
        return ""
    if there is not None:
        return f"none here, {there!r} there"
    try:
        for place, (ours, theirs) in enumerate(zip(given, out, strict=True)):
            compare(ours, theirs, f"out {place}", values=False)
    except DifferenceError as error:
        return str(error)
    return ""


def _tensors(out: Any) -> list[Any]:
    return [t for t in (out if isinstance(out, (list, tuple)) else [out]) if isinstance(t, (mt.Tensor, torch.Tensor))]


def _error(call: Callable[[], Any]) -> Exception | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except Exception as error:
            return error
    return None
