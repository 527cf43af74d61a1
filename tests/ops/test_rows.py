"""The table of ops is complete: every row has samples, and what can be compiled gives the same bits compiled."""

import types
from contextlib import nullcontext

import numpy as np
import pytest
from fuzz.programs import bits, compiler_failures, describe
from row_samples import DTYPES, FORMS, OTHER_DTYPES, build, calls, forms

import minitensor as mt
from minitensor.ops import ROWS

IN_PLACE_ONLY = {"fill", "copy"}
# What no call of a program refers to by itself: recording puts them in.
RECORDED_ONLY = {"_view_read", "_view_write", "_assign"}


def tensors(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def array(t):
    """The elements as NumPy has them; of bfloat16, the bits."""
    return (t.view(mt.int16) if t.dtype is mt.bfloat16 else t).numpy()


def accepted(row, dtypes=DTYPES, part=0, parts=1):
    """The calls that the op takes, with their eager results; of the pairs of dtype and form a part."""
    for dtype, form, arguments in calls(row, dtypes=dtypes, part=part, parts=parts):
        try:
            yield dtype, form, arguments, tensors(row.call(*arguments))
        except (RuntimeError, TypeError, NotImplementedError, ZeroDivisionError, IndexError):
            continue  # not for this dtype


def test_every_row_has_samples():
    missing = [
        row.name for row in ROWS.values() if forms(row) is None or (not forms(row) and row.name not in IN_PLACE_ONLY)
    ]
    assert missing == []
    assert set(FORMS) <= set(ROWS), "samples of ops that are not there"


@pytest.mark.parametrize("name", [n for n in ROWS if n not in IN_PLACE_ONLY])
@pytest.mark.at_once
def test_some_dtype_takes_every_form(name):
    row = ROWS[name]
    seen = {str(form) for _, form, _, _ in accepted(row)}
    assert [str(f) for f in forms(row) if str(f) not in seen] == []


def test_every_row_has_a_reason_or_a_lowering():
    for row in ROWS.values():
        assert row.kind == "view" or row.compilable or row.reason


@pytest.fixture
def misshapen(monkeypatch):
    """Results of lowerings that have another shape than the op's: alone, such a result has the right elements."""
    from minitensor_jit.lowering.lower import _ClusterLowering

    found = []
    whole = _ClusterLowering.lower

    def checked(self, node, call, **how):
        results = whole(self, node, call, **how)
        found.extend((str(x), wanted) for x, wanted in zip(results, call.results, strict=True) if x.dims != wanted[1])
        return results

    monkeypatch.setattr(_ClusterLowering, "lower", checked)
    return found


def compiled_like_eager(name, made, misshapen):
    """What the calls give, recorded together, has the bits of the eager results that are with them."""
    row = ROWS[name]
    got = []

    def program():
        with mt.jit_scope():
            for _, _, arguments, _ in made:
                got.append(more(row, tensors(row.call(*arguments))))

    with compiler_failures() as failures:
        report = mt.jit.explain(program)()
    assert failures == []
    assert misshapen == []
    for (dtype, form, _, expected), results in zip(made, got, strict=True):
        for a, t in zip(expected, results, strict=True):
            b = array(t)
            assert bits(a) == bits(b), f"{name}, {dtype}, {form}: {describe(a, b)}"
    return report


def more(row, results):
    """What only makes or moves elements is compiled together with something that computes."""
    alone = row.kind not in ("creation", "movement") and row.name not in ("cast", "clone", "_row_major")
    return results if alone else [*results, *(t + t for t in results)]


def with_results(name, dtypes, part, parts):
    row = ROWS[name]
    return [
        (dtype, form, arguments, [array(t).copy() for t in more(row, results)])
        for dtype, form, arguments, results in accepted(row, dtypes, part, parts)
    ]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", [n for n, row in ROWS.items() if row.compilable])
@pytest.mark.at_once
def test_compiled_is_eager(name, part, misshapen):
    report = compiled_like_eager(name, with_results(name, DTYPES, part, 2), misshapen)
    if name not in RECORDED_ONLY:
        assert report.to_json()["ops"]["compiled"] > 0, report.text()


@pytest.mark.parametrize("name", [n for n in ROWS if n not in IN_PLACE_ONLY])
def test_recorded_is_eager(name):
    """Also what is not compiled: it's recorded between the clusters, or runs at once."""
    row = ROWS[name]
    dtype = "float32"
    for seed, form in enumerate(forms(row)):
        if name in RECORDED_ONLY:
            continue
        arguments = build(form, dtype, "special", seed)
        mt.manual_seed(3)
        try:
            eager = tensors(row.call(*arguments))
        except (RuntimeError, TypeError, NotImplementedError):
            continue
        expected = [array(t).copy() for t in eager]
        mt.manual_seed(3)
        with mt.jit_scope():
            results = tensors(row.call(*arguments))
        for a, t in zip(expected, results, strict=True):
            assert bits(a) == bits(array(t)), f"{name}, {form}: {describe(a, array(t))}"
        assert {t._version for t in [*eager, *results]} <= {0}, f"{name}, {form}: a new result counts as written"


# Of many forms two thirds, others of the next dtype.
OTHER_PARTS = [
    pytest.param(name, part, marks=[pytest.mark.exhaustive] if part else [])
    for name, row in ROWS.items()
    if name not in IN_PLACE_ONLY | RECORDED_ONLY and row.kind != "random"
    for part in range(2 if len(forms(row) or ()) > 3 else 3)
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "part"), OTHER_PARTS)
@pytest.mark.at_once
def test_other_dtypes_are_eager(name, part, misshapen):
    """Types that are only stored, and complex numbers; what can't be compiled is recorded between the clusters."""
    compiled_like_eager(name, with_results(name, OTHER_DTYPES, part, 3), misshapen)


def test_results_have_the_dtypes_that_inference_says():
    for name in ("add", "div", "sum", "mean", "exp", "eq"):
        for dtype in DTYPES:
            x = mt.ones(2, dtype=getattr(mt, dtype))
            meta = mt.empty(2, dtype=getattr(mt, dtype), device="meta")
            arguments = (x, x) if len(ROWS[name].operands) == 2 else (x,)
            try:
                real = ROWS[name].call(*arguments)
            except (RuntimeError, NotImplementedError):
                continue
            imagined = ROWS[name].call(*(meta for _ in arguments))
            assert (real.dtype, real.shape) == (imagined.dtype, imagined.shape), name
            assert np.dtype(real.dtype.name) == real.numpy().dtype


@pytest.mark.parametrize("name", [n for n in ROWS if n not in IN_PLACE_ONLY | RECORDED_ONLY])
def test_refused_calls_are_refused_when_they_are_recorded(name):
    """At the caller's line, not when the recording runs; only what depends on values is found then."""
    row = ROWS[name]

    def error(arguments, recorded):
        mt.manual_seed(3)
        with mt.jit_scope() if recorded else nullcontext():
            try:
                row.call(*arguments)
            except (ZeroDivisionError, IndexError):
                return None
            except (RuntimeError, TypeError, ValueError) as error:
                return f"{type(error).__name__}: {error}"
        return None

    for dtype in ("bool", "int16", "int64", "float16", "float32", "complex64"):
        for seed, form in enumerate(forms(row)):
            arguments = build(form, dtype, "positive", seed)
            eager = error(arguments, False)
            try:
                recorded = error(arguments, True)
            except (ZeroDivisionError, IndexError):
                continue
            assert eager == recorded, f"{name}, {dtype}, {form}"


def _plain(function):
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function.__code__


def _read_by(row):
    """What each gradient of a rule that is a tuple of lambdas reads of the rule's arguments; None of other rules."""
    code = _plain(row.vjp)
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    names = code.co_varnames[1 : 2 + len(row.operands)]
    if len(inner) != len(row.operands) or any(c.co_name != "<lambda>" for c in inner):
        return None
    if any(set(c.co_freevars) - set(code.co_varnames[: code.co_argcount]) for c in inner):
        return None  # something that is computed before
    return [set(c.co_freevars) & set(names) for c in inner]


def test_rules_say_what_each_gradient_reads():
    seen = 0
    for row in ROWS.values():
        if row.vjp is None or len(row.operands) < 2 or (read := _read_by(row)) is None:
            continue
        seen += 1
        names = [name for name in _plain(row.vjp).co_varnames[1 : 2 + len(row.operands)] if name[0] != "_"]
        given = [set(names) & set(r.split()) for r in row.reads] or [set(names)] * len(read)
        assert all(r <= g for r, g in zip(read, given, strict=True)), row.name
        assert set.union(*read) == set(names), row.name
        assert row.reads or all(r == set(names) for r in read), row.name
    assert seen > 25
