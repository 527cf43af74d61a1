"""Every op of PyTorch's own tests that takes `out=`, with tensors of every dtype and shape there, and other numbers."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest")

STACKED = dict.fromkeys(("cat", "stack", "hstack", "vstack", "dstack", "column_stack"), "class")
REAL = dict.fromkeys(("fft.hfft", "fft.hfft2", "fft.hfftn", "fft.irfft", "fft.irfft2", "fft.irfftn"), "written")
KNOWN: dict[str, str] = {
    **STACKED,  # PyTorch's TypeError for a dtype that the result can't be cast to
    "split_with_sizes_copy": "class refused",  # PyTorch's RuntimeError for another number of outs
    "unbind_copy": "class refused",
    "max": "class",  # another number of outs makes PyTorch take another form
    "min": "class",
    # PyTorch converts the input first, whatever the dtype of `out`.
    "cumsum": "refused",
    "cumprod": "refused",
    "mean": "refused",
    "nansum": "refused",
    "lu": "refused",
    "diff": "refused",  # of no differences
    "argsort": "class refused",  # PyTorch's takes `out` with stable=False too, if that is given
    "lerp": "written",  # cast here; PyTorch's casts with weights that are tensors only
    "inner": "refused",  # unless both have one dimension
    "linalg.matrix_power": "refused",  # for some powers
    # PyTorch doesn't look whether these want a gradient.
    "histc": "refused",
    "linalg.lstsq": "refused",
    "linalg.lu": "refused",
    "lu_unpack": "refused",
    "native_batch_norm": "refused written",
    # Cast here; PyTorch wants a bool or uint8.
    "any": "written",
    "all": "written",
    **REAL,  # PyTorch wants a real one
    "fft.ifft": "written",
    "fft.ihfft": "written",
    "fft.ihfftn": "written contents refused",  # it leaves an empty `out`, and takes one with a gradient
    "nonzero": "written",  # with as_tuple
    # PyTorch doesn't resize what has as many elements.
    "linspace": "contents",
    "logspace": "contents",
}
"""What differs, and how: another class of error; refused here only; written here only; or other contents."""

PARTS = 6


def kind(difference):
    if ": none here, " in difference:
        return "written"
    if not difference.endswith(" there") or "Error(" not in difference:
        return "contents"
    return "refused" if difference.endswith(", None there") else "class"


pytestmark = [pytest.mark.torch, pytest.mark.sampled(4)]


@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_what_is_refused_and_what_is_written(part):
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    from tests.against_torch.checks import _samples
    from tests.against_torch.convert import NotConvertible
    from tests.against_torch.forms import MissingError, ours_for
    from tests.against_torch.outs import check_outs

    differ, count = {}, 0
    for k, op in enumerate(op_db[part::PARTS]):
        if not op.supports_out and op.name not in {"argsort", "isfinite", "var_mean", "count_nonzero", "flip", "roll"}:
            continue
        try:
            function = ours_for(op)
        except MissingError:
            continue
        dtypes = [d for d in (torch.float32, torch.int64, torch.complex64, torch.bool) if d in op.dtypes]
        for dtype in dtypes[k % 2 :][:1] or dtypes:
            for sample in _samples(op, dtype, False, 5)[1::3]:
                try:
                    found = check_outs(op, function, sample)
                except NotConvertible:
                    continue
                count += 1
                unknown = [one for one in found if kind(one) not in KNOWN.get(op.name, "").split()]
                if unknown:
                    differ.setdefault(op.name, unknown)
    assert differ == {}
    assert count > 20
