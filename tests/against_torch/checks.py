"""What is checked of each op: values in every form, errors, gradients of first and second order, compiled bits."""

from __future__ import annotations

import re
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

import minitensor as mt
from tests.against_torch.convert import DTYPES, NotConvertible, to_ours, to_theirs
from tests.against_torch.expanded import check_inplace, check_out
from tests.against_torch.forms import (
    Case,
    DifferenceError,
    MissingError,
    compare,
    described,
    like,
    on_ours,
    ours_for,
)

SECONDS = 60
"""How long one op may take for one dtype, of the processors' time: other programs don't count."""


THEIR_DEFECTS = {
    # The gradient of what is overwritten is kept and that of the rest dropped.
    "as_strided_scatter": {"grad", "gradgrad"},
}
"""Checks where PyTorch's own answer is wrong."""


CANCELS = {"cov"}
"""Ops where sums nearly cancel: with weights in float32 beside float64 the order of summation is seen."""


LIBRARY_LAYOUT = re.compile(
    r"linalg\..*|fft\..*|stft|cholesky|cholesky_inverse|cholesky_solve|geqrf|lu|lu_solve|ormqr|qr|svd|"
    r"triangular_solve|svd_lowrank|pca_lowrank"
)
"""Ops whose results lie in memory as PyTorch's libraries (LAPACK, FFT) happened to leave them."""


class Outcome:
    """How often the checks of one op passed, and what failed first in each of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.passed: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.examples: dict[str, str] = {}

    def fail(self, check: str, text: str) -> None:
        self.failed[check] += 1
        self.examples.setdefault(check, text[:600])

    def to_json(self) -> dict[str, Any]:
        return {
            "op": self.name,
            "passed": dict(self.passed),
            "failed": dict(self.failed),
            "examples": self.examples,
        }


class _TooLongError(Exception):
    pass


def _alarm(*_: Any) -> None:
    raise _TooLongError


def dotted(op: OpInfo) -> str:
    """The public name of an op."""
    return op.name.removeprefix("_refs.").replace("torch.ops.aten.", "ops.aten.")


def dtypes_of(op: OpInfo, wanted: set[str]) -> Iterator[torch.dtype]:
    """The dtypes that the op takes on the CPU, and that are asked for."""
    for dtype in DTYPES:
        if str(dtype).removeprefix("torch.") in wanted and dtype in op.dtypes:
            yield dtype


def run(op: OpInfo, dtypes: set[str], checks: set[str], most: int) -> Outcome:
    """All checks of one op."""
    name = dotted(op)
    outcome = Outcome(f"{name}.{op.variant_test_name}" if op.variant_test_name else name)
    try:
        function = ours_for(op)
    except MissingError as error:
        outcome.fail("there", f"{error} is missing")
        return outcome
    outcome.passed["there"] += 1
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, _alarm)
    checks = checks - THEIR_DEFECTS.get(op.name, set())
    for dtype in dtypes_of(op, dtypes):
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.alarm(20 * SECONDS)  # what waits for ever uses no time of a processor
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _run_dtype(op, function, dtype, checks, most, outcome)
        except _TooLongError:
            outcome.fail("time", f"{dtype}: more than {SECONDS} s")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.alarm(0)
    if "errors" in checks:
        _errors(op, function, outcome)
    return outcome


def _samples(op: OpInfo, dtype: torch.dtype, requires_grad: bool, most: int) -> list[SampleInput]:
    torch.manual_seed(0)
    made: list[SampleInput] = []
    for sample in op.sample_inputs("cpu", dtype, requires_grad=requires_grad):
        made.append(sample.transform(_doubled) if op.name in CANCELS and dtype in _DOUBLE else sample)
        if len(made) >= most:
            break
    return made


_DOUBLE = {torch.float64, torch.complex128}


def _doubled(thing: Any) -> Any:
    return thing.double() if isinstance(thing, torch.Tensor) and thing.dtype is torch.float32 else thing


def _attempt(outcome: Outcome, check: str, dtype: Any, sample: SampleInput, body: Callable[[], None]) -> None:
    try:
        body()
    except NotConvertible:
        return
    except _TooLongError:
        raise
    except (DifferenceError, MissingError) as error:
        outcome.fail(check, f"{dtype}: ({described(sample)}): {error}")
    except Exception as error:  # whatever ours raised where theirs did not
        outcome.fail(check, f"{dtype}: ({described(sample)}): {type(error).__name__}: {error}")
    else:
        outcome.passed[check] += 1


def _run_dtype(op: OpInfo, function: Any, dtype: torch.dtype, checks: set[str], most: int, outcome: Outcome) -> None:
    for sample in _samples(op, dtype, False, most):
        for variant, chosen in (("values", sample), ("strided", sample.noncontiguous())):
            if variant not in checks:
                continue
            _attempt(outcome, variant, dtype, chosen, lambda s=chosen: _values(op, function, s))
        if "layout" in checks:
            for chosen in (sample, sample.transform(_permuted)):
                _attempt(outcome, "layout", dtype, chosen, lambda s=chosen: _layout(op, function, s))
        if "method" in checks and op.method_variant is not None:
            _attempt(outcome, "method", dtype, sample, lambda s=sample: _method(op, s))
        if "inplace" in checks and op.inplace_variant is not None and not sample.broadcasts_input:
            _attempt(outcome, "inplace", dtype, sample, lambda s=sample: _inplace(op, s))
        if "out" in checks and op.supports_out:
            _attempt(outcome, "out", dtype, sample, lambda s=sample: _out(op, function, s))
        if "expanded" in checks and op.inplace_variant is not None and not sample.broadcasts_input:
            _attempt(outcome, "expanded", dtype, sample, lambda s=sample: check_inplace(op, s))
        if "expanded" in checks and op.supports_out:
            _attempt(outcome, "expanded", dtype, sample, lambda s=sample: check_out(op, function, s))
        if "compiled" in checks:
            _attempt(outcome, "compiled", dtype, sample, lambda s=sample: _compiled(op, function, s))
    if dtype in (torch.float64, torch.complex128) and op.supports_autograd and {"grad", "gradgrad"} & checks:
        for sample in _samples(op, dtype, True, most):
            if "grad" in checks:
                _attempt(outcome, "grad", dtype, sample, lambda s=sample: _gradients(op, function, s, 1))
            if "gradgrad" in checks and op.supports_gradgrad:
                _attempt(outcome, "gradgrad", dtype, sample, lambda s=sample: _gradients(op, function, s, 2))


def _theirs(case: Case, function: Any) -> tuple[Any, Any]:
    """Their result and first argument afterwards; NotConvertible where PyTorch refuses its own sample."""
    x, args, kwargs = case.theirs()
    try:
        result = function(x, *args, **kwargs)
    except Exception as error:
        raise NotConvertible(str(error)) from None
    for t in _flat(result):
        if isinstance(t, torch.Tensor) and t.dtype not in DTYPES:
            raise NotConvertible(f"a result of dtype {t.dtype}")
    return result, x


def _values(op: OpInfo, function: Any, sample: SampleInput) -> None:
    case = Case(op, sample)
    theirs, x_theirs = _theirs(case, op.op)
    ours, x_ours = case.call_ours(function)
    _agree(case, ours, theirs)
    if isinstance(x_theirs, torch.Tensor):
        compare(x_ours, x_theirs, "the argument afterwards", values=not case.random)


def _permuted(thing: Any) -> Any:
    """A tensor with the same elements whose memory has its dimensions in the reverse order."""
    if not isinstance(thing, torch.Tensor) or thing.ndim < 2 or thing.layout is not torch.strided:
        return thing
    return thing.clone().permute(*reversed(range(thing.ndim))).contiguous().permute(*reversed(range(thing.ndim)))


def _layout(op: OpInfo, function: Any, sample: SampleInput) -> None:
    """The results' strides, and which of the arguments they share memory with."""
    if LIBRARY_LAYOUT.fullmatch(op.name):
        raise NotConvertible("PyTorch promises no layout")
    case = Case(op, sample)
    x, args, kwargs = case.theirs()
    try:
        theirs = op.op(x, *args, **kwargs)
    except Exception as error:
        raise NotConvertible(str(error)) from None
    if any(isinstance(t, torch.Tensor) and t.dtype not in DTYPES for t in _flat(theirs)):
        raise NotConvertible("a result of a dtype that is not here")
    theirs_in = [t for t in _flat([x, args, list(kwargs.values())]) if isinstance(t, torch.Tensor)]
    x, args, kwargs = case.ours()
    ours = function(x, *args, **kwargs)
    ours_in = [t for t in _flat([x, args, list(kwargs.values())]) if isinstance(t, mt.Tensor)]
    compare(ours, theirs, "result", values=False)
    for i, (a, b) in enumerate(zip(_flat(ours), _flat(theirs), strict=True)):
        if not isinstance(b, torch.Tensor) or b.layout is not torch.strided or b.device.type != "cpu":
            continue
        here, there = _visible_strides(a), _visible_strides(b)
        if here != there:
            raise DifferenceError(f"result {i} of shape {list(b.shape)}: strides {here} here, {there} there")
        if b.numel() and not b.is_conj():  # their conjugate is a view that conjugates when it is read
            here = [
                j for j, t in enumerate(ours_in) if t.untyped_storage().data_ptr() == a.untyped_storage().data_ptr()
            ]
            there = [
                j for j, t in enumerate(theirs_in) if t.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
            ]
            if here != there:
                raise DifferenceError(f"result {i} shares memory with arguments {here} here, {there} there")


def _visible_strides(t: Any) -> tuple[int | None, ...]:
    """The strides that can be seen: those of dimensions with several elements."""
    return tuple(stride if size > 1 and t.numel() else None for size, stride in zip(t.shape, t.stride(), strict=True))


# Its poles: a large number there, from a sine that is not quite zero.
_WITH_POLES = {"polygamma", "special.polygamma"}


def _without_poles(ours: Any, theirs: Any) -> Any:
    """Their result with infinities where ours has them and theirs is only large."""
    infinite = to_theirs(ours).isinf() & (theirs.abs() > 1e11)
    return torch.where(infinite, to_theirs(ours), theirs)


# Where the dimension stands among the arguments of ops that say which of equal elements they took: any is right.
_TIES = {"kthvalue": 1, "topk": 1, "mode": 0, "sort": 0, "median": 0, "nanmedian": 0}


def _agree_but_for_ties(case: Case, ours: Any, theirs: Any) -> bool:
    """Compare the values alone if the indices given here lead to them."""
    op, s = case.op.name, case.sample
    if op == "argsort" and isinstance(s.input, torch.Tensor) and s.input.ndim and not s.kwargs.get("stable"):
        dim = s.kwargs.get("dim", s.args[0] if s.args else -1)
        by_ours, by_theirs = (torch.gather(s.input, dim, i) for i in (to_theirs(ours), theirs))
        compare(to_ours(by_ours), by_theirs, "the elements in that order")
        return True
    if op not in _TIES or not isinstance(theirs, tuple) or not isinstance(s.input, torch.Tensor) or s.input.ndim == 0:
        return False
    place = _TIES[op]
    dim = s.kwargs.get("dim", s.args[place] if len(s.args) > place else -1)
    values, indices = to_theirs(ours[0]), to_theirs(ours[1])
    if values.ndim != s.input.ndim:
        values, indices = values.unsqueeze(dim), indices.unsqueeze(dim)
    if not torch.equal(torch.nan_to_num(torch.gather(s.input, dim, indices)), torch.nan_to_num(values)):
        raise DifferenceError("the indices don't lead to the values")
    compare(ours[0], theirs[0], "result[0]")
    return True


def _agree(case: Case, ours: Any, theirs: Any) -> None:
    compare(ours, theirs, "result", values=False)
    if case.op.name in _WITH_POLES:
        theirs = _without_poles(ours, theirs)
    if case.random or _agree_but_for_ties(case, ours, theirs):
        return
    try:
        processed = case.processed(theirs)
        ours = to_ours(case.processed(to_theirs(ours)))
        theirs = processed
    except Exception:
        pass  # made for results that require gradients
    try:
        compare(ours, theirs, "result", tolerance=case.tolerance)
    except DifferenceError:
        wide = case.wide()
        if wide is None:
            raise
        compare(ours, like(wide, theirs), "result")


def _method(op: OpInfo, sample: SampleInput) -> None:
    case = Case(op, sample)
    theirs, _ = _theirs(case, op.method_variant)
    name = getattr(op.method_variant, "__name__", op.name.rpartition(".")[2])
    method = on_ours(op.method_variant) or getattr(mt.Tensor, name, None)
    if method is None:
        raise MissingError(f"Tensor.{name}")
    ours, _ = case.call_ours(method)
    _agree(case, ours, theirs)


def _inplace(op: OpInfo, sample: SampleInput) -> None:
    case = Case(op, sample)
    theirs, _ = _theirs(case, op.inplace_variant)
    name = getattr(op.inplace_variant, "__name__", None)
    if name is None:
        raise NotConvertible("a form without a name")
    method = on_ours(op.inplace_variant) or getattr(mt.Tensor, name, None)
    if method is None:
        raise MissingError(f"Tensor.{name}")
    ours, x = case.call_ours(method)
    if isinstance(ours, mt.Tensor) and ours is not x:
        raise DifferenceError("the in-place form returned another tensor")
    _agree(case, ours, theirs)


def _out(op: OpInfo, function: Any, sample: SampleInput) -> None:
    case = Case(op, sample)
    expected, _ = _theirs(case, op.op)
    single = isinstance(expected, torch.Tensor)
    if not single and not isinstance(expected, (list, tuple)):
        raise NotConvertible("a result that is no tensor")
    shapes = [expected] if single else list(expected)
    if not all(isinstance(t, torch.Tensor) for t in shapes):
        raise NotConvertible("results that are no tensors")
    x, args, kwargs = case.theirs()
    theirs_out = [torch.empty_like(t) for t in shapes]
    try:
        op.op(x, *args, **kwargs, out=theirs_out[0] if single else tuple(theirs_out))
    except Exception as error:
        raise NotConvertible(str(error)) from None
    for fill in ("of the right shape", "empty"):
        x, args, kwargs = case.ours()
        outs = [mt.empty(tuple(t.shape) if fill != "empty" else (0,), dtype=DTYPES[t.dtype]) for t in shapes]
        function(x, *args, **kwargs, out=outs[0] if single else tuple(outs))
        _agree(case, outs[0] if single else tuple(outs), expected if single else tuple(expected))


def _compiled(op: OpInfo, function: Any, sample: SampleInput) -> None:
    case = Case(op, sample)
    mt.manual_seed(7)
    try:
        eager, _ = case.call_ours(function)
    except Exception:
        _theirs(case, op.op)  # is it a result of a dtype that is not here?
        raise
    x, args, kwargs = case.ours()
    mt.manual_seed(7)
    with mt.jit_scope():
        recorded = function(x, *args, **kwargs)
    for i, (a, b) in enumerate(zip(_flat(eager), _flat(recorded), strict=True)):
        if not isinstance(a, mt.Tensor) or op.name.startswith(("empty", "new_empty", "resize")):
            continue
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            raise DifferenceError(f"result {i}: {a.dtype}{list(a.shape)} eager, {b.dtype}{list(b.shape)} recorded")
        if not torch.equal(_bits(a), _bits(b)):
            raise DifferenceError(f"result {i}: bits differ: {a} eager, {b} recorded")


def _bits(t: mt.Tensor) -> torch.Tensor:
    return to_theirs(t).contiguous().reshape(-1).view(torch.uint8) if t.numel() else torch.empty(0)


def _flat(thing: Any) -> list[Any]:
    if isinstance(thing, (list, tuple)):
        return [y for x in thing for y in _flat(x)]
    return [thing]


def _floats(things: list[Any], kind: Any) -> list[Any]:
    return [t for t in things if isinstance(t, kind) and t.requires_grad]


def _gradients(op: OpInfo, function: Any, sample: SampleInput, order: int) -> None:
    case = Case(op, sample)
    if case.random:
        raise NotConvertible("random")
    x, args, kwargs = case.theirs()
    try:
        theirs_out = _flat(case.processed(op.op(x, *args, **kwargs)))
    except Exception as error:
        raise NotConvertible(str(error)) from None
    theirs_in = _floats(_flat([x, args, list(kwargs.values())]), torch.Tensor)
    theirs_out = _floats(theirs_out, torch.Tensor)
    if not theirs_in or not theirs_out:
        raise NotConvertible("nothing to differentiate")
    x, args, kwargs = case.ours()
    ours_out = function(x, *args, **kwargs)
    try:
        process = case.sample.output_process_fn_grad
        ours_out = (on_ours(process) or process)(ours_out)
    except Exception as error:
        raise NotConvertible(f"results are processed by what is PyTorch's own: {error}") from None
    ours_out = _floats(_flat(ours_out), mt.Tensor)
    ours_in = _floats(_flat([x, args, list(kwargs.values())]), mt.Tensor)
    if len(ours_out) != len(theirs_out):
        raise DifferenceError(f"{len(ours_out)} results require gradients here, {len(theirs_out)} there")
    torch.manual_seed(1)
    weights = [torch.randn_like(t) for t in theirs_out]
    try:
        expected = torch.autograd.grad(theirs_out, theirs_in, weights, create_graph=order > 1, allow_unused=True)
    except RuntimeError as error:
        raise NotConvertible(str(error)) from None
    got = mt.autograd.grad(ours_out, ours_in, [to_ours(w) for w in weights], create_graph=order > 1, allow_unused=True)
    _compare_gradients(got, expected, "gradient")
    if order == 1:
        return
    pairs = [(g, e) for g, e in zip(got, expected, strict=True) if e is not None and e.requires_grad]
    if not pairs:
        raise NotConvertible("no second order")
    weights = [torch.randn_like(e) for _, e in pairs]
    try:
        expected = torch.autograd.grad([e for _, e in pairs], theirs_in, weights, allow_unused=True)
    except RuntimeError as error:
        raise NotConvertible(str(error)) from None
    # A node of theirs says that all its gradients can be differentiated, also one that depends on nothing.
    ours = [(g, w) for (g, _), w in zip(pairs, weights, strict=True) if g is not None and g.requires_grad]
    if ours:
        got = mt.autograd.grad([g for g, _ in ours], ours_in, [to_ours(w) for _, w in ours], allow_unused=True)
    else:
        got = [None] * len(ours_in)
    _compare_gradients(got, expected, "second gradient")


def _compare_gradients(got: Any, expected: Any, what: str) -> None:
    for i, (g, e) in enumerate(zip(got, expected, strict=True)):
        if g is None or e is None:
            other = e if g is None else to_theirs(g)
            if other is not None and other.any():
                raise DifferenceError(f"{what} {i} is {'None here' if g is None else 'None there'}")
            continue
        compare(g, e, f"{what} {i}")


def _errors(op: OpInfo, function: Any, outcome: Outcome) -> None:
    if op.error_inputs_func is None:
        return
    try:
        inputs = list(op.error_inputs("cpu"))
    except Exception:
        return
    for error_input in inputs:
        sample = error_input.sample_input
        try:
            case = Case(op, sample)
            x, args, kwargs = case.theirs()
            try:
                op.op(x, *args, **kwargs)
                continue  # PyTorch takes it after all
            except Exception as error:
                theirs = error
                if "internal assert" in str(error).lower() or "report an enhancement request" in str(error):
                    continue
        except NotConvertible:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                x, args, kwargs = case.ours()
                function(x, *args, **kwargs)
        except NotConvertible:
            continue
        except Exception as error:
            if _same_class(error, theirs):
                outcome.passed["errors"] += 1
            else:
                here, there = f"{type(error).__name__}: {error}", f"{type(theirs).__name__}: {theirs}"
                outcome.fail("errors", f"({described(sample)}): {here} here, {there} there")
        else:
            outcome.fail("errors", f"({described(sample)}): accepted here, {type(theirs).__name__}: {theirs} there")


def _same_class(ours: Exception, theirs: Exception) -> bool:
    name = type(theirs).__name__
    return any(cls.__name__ == name for cls in type(ours).__mro__)
