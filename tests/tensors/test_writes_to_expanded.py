"""Every in-place method, function and `out=` form on tensors that show one place of memory several times."""

import inspect
import warnings

import pytest

import minitensor as mt

SHARED = "more than one element of the written-to tensor refers to a single memory location"

OTHER_MEANING = {
    "as_strided_", "detach_", "requires_grad_", "resize_", "resize_as_", "resize_as_sparse_", "set_",
    "share_memory_", "sparse_resize_", "sparse_resize_and_clear_",
    "squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_",
}  # fmt: skip
"""What the tensor is, not what its memory holds."""
WRITE = {
    "fill_", "fill_diagonal_", "index_fill_", "index_put_", "masked_fill_", "tril_", "triu_", "zero_",
}  # fmt: skip
"""What leaves the same whatever the order of its writes, as PyTorch has it too."""


def expanded(dtype=mt.float32):
    return mt.full((1, 3), 2, dtype=dtype).expand(3, 3)


def arguments(dtype=mt.float32):
    """Lists of arguments, after the tensor, of which every in-place form takes some."""
    one, places = mt.ones(3, 3, dtype=dtype), mt.tensor([0, 1, 2])
    many, mask = places.expand(3, 3), mt.eye(3, dtype=mt.bool)
    batch = mt.ones(2, 3, 3, dtype=dtype)
    return [
        (), (one,), (1,), (0.5,), (one, one), (one, 1), (0, 1), (mask, 1), (mask, one), (places, one[0]),
        (0, places, 1),
        (0, places, one), (0, many, one), (0, places, one, "mean"), (0, many, one, "sum"), ((places,), one), (2, 0, 1),
        (one[0], one[0]), (lambda a: a,), (one, lambda a, b: a), (one, one, lambda a, b, c: a), (one, 0.5), (0.5, True),
        (batch, batch), (2, one), (one, 0.5, 2.0), (one, places),
    ]  # fmt: skip


def fates(write, tensors):
    """What came of each way to call it that is a call at all: 'refused', and 'written' where it changed anything."""
    found = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for make, given in tensors:
            x = make()
            before = x.tolist()
            try:
                write(x, *given)
                if x.tolist() != before:
                    found.add("written")
            except Exception as error:
                if SHARED in str(error):
                    found.add("refused")
    return found


def every_case():
    for dtype in (mt.float32, mt.float64, mt.int64):
        for given in arguments(dtype):
            yield (lambda dtype=dtype: expanded(dtype)), given
    # what is added to products of matrices, of one and three dimensions
    yield (lambda: mt.ones(1).expand(3)), (mt.ones(3, 3), mt.ones(3))
    yield (lambda: mt.ones(1, 3, 3).expand(2, 3, 3)), (mt.ones(2, 3, 3), mt.ones(2, 3, 3))


METHODS = sorted(name for name in dir(mt.Tensor) if name.endswith("_") and not name.startswith("_"))
FUNCTIONS = sorted(name for name in dir(mt) if name.endswith("_") and not name.startswith("_"))


@pytest.mark.parametrize("recorded", [False, True], ids=["eager", "recorded"])
@pytest.mark.parametrize("name", sorted({*METHODS, *FUNCTIONS} - OTHER_MEANING))
def test_in_place_forms(name, recorded):
    for owner in (mt.Tensor, mt):
        write = getattr(owner, name, None)
        if write is None:
            continue
        if recorded:
            with mt.jit_scope():
                found = fates(write, every_case())
        else:
            found = fates(write, every_case())
        assert found == {"written" if name in WRITE else "refused"}


@pytest.mark.parametrize(
    "name", ["add", "mul", "sqrt", "lerp", "addcmul", "maximum", "pow", "clamp_min", "zero", "copy"]
)
def test_forms_for_lists_of_tensors(name):
    write = getattr(mt, f"_foreach_{name}_")
    x, more = expanded(), {"lerp": [[mt.ones(3, 3)], 0.5], "addcmul": [[mt.ones(3, 3)]] * 2, "zero": [], "sqrt": []}
    given = more.get(name, [[mt.ones(3, 3)]])
    if name == "zero":
        write([x])
        assert x.tolist() == [[0, 0, 0]] * 3
        return
    with pytest.raises(RuntimeError, match=SHARED):
        write([x], *given)
    assert x.tolist() == [[2, 2, 2]] * 3


def spaces():
    for prefix, space in (
        ("", mt), ("linalg.", mt.linalg), ("fft.", mt.fft), ("special.", mt.special), ("F.", mt.nn.functional),
    ):  # fmt: skip
        for name in sorted(set(dir(space))):
            function = getattr(space, name)
            if not name.startswith("__") and callable(function) and not isinstance(function, type):
                yield prefix + name, function


def takes_out(function):
    try:
        return "out" in inspect.signature(function).parameters
    except ValueError:
        return False


def operands():
    """Lists of arguments of which every function that takes `out=` takes some with a result of several elements."""
    for dtype in (mt.float32, mt.int64, mt.complex64):
        square = (mt.eye(3) * 4 + mt.arange(9.0).reshape(3, 3) / 8).to(dtype)
        symmetric = square + square.mH
        mask = mt.eye(3, dtype=mt.bool)
        v, places, image = square[0], mt.tensor([0, 1, 2]), mt.ones(1, 2, 4, 4, dtype=dtype)
        volume, many = mt.ones(1, 2, 4, 4, 4, dtype=dtype), mt.tensor([0, 1, 2]).expand(3, 3)
        lu, pivots = mt.linalg.lu_factor(square) if dtype is not mt.int64 else (square, places)
        yield from [
            (square,), (symmetric,), (v,), (square, square), (v, v), (square, v), (v, square), (square, 1), (square, 0),
            (2, square), (1, symmetric), (square, square, square), (v, square, v), (v, v, v), (square, v, v),
            (square, square, 1), (image[0], image[0], image[0]), (image[0, :, :3, :3],) * 3, (image[0], image[0]),
            (square, 0, 1), (square, 1, 0), (square, 2, 0, 1), (square, 0, places), (square, places, 0, square),
            (square, 0, places, square), (square, 0, many, square), (square, 0, many), (square, many, 0),
            (square, many), (square, many, square), (square, 0, many, square, "sum"),
            (square, 0, places, square, "mean"), ([square, square],), ([v, v],), ((square, square), 1), (3,), (4, 3),
            ((2, 3),), ((2, 3), 2), (0, 5), (0, 5, 1), (0, 1, 5), (0.0, 1.0, 5), (1, 10, 5), (5, (3,)), (v, 2), (v, 1),
            (square, 0.5), (square, [0.25, 0.5]), (square, mask), (mask, square, square), (square, v, 1),
            (v, 3, 0, 3), (v, 4), (square, (3, 3)), (square, [2, 1]), (square, (0, 1)), (square, (1, 0)),
            (square, (3, 3), (3, 1)), (square, 0, 0, 2), (square, 0, 2), (square, 0, 0), (square, 0, 3),
            (square, [1, 1, 1], 0), (square, 2, 1, 1), (image, 2), (volume, 2), (image, (2, 2)), (volume, (2, 2, 2)),
            (image[0], 2), (volume[:, :, 0], 2), (lu, pivots), (square, lu, pivots), (places, v), (v, v, places),
            (square, places), (square, mask), (image, image), (v, v, 2), (square, 2), (square, 1, 2),
            (square, square, v), (square, square, square, 1), (square, v, square), (mt.float64,), (square.real,),
            (square.real, square.real) if dtype.is_complex else (square, mt.float64), (square, 1, 0, 1),
            (places, places), (places, 2), (square, (places,), square[0]),
            (mt.ones(2, 2, 2, 2, dtype=dtype),),
            (mt.ones(2, 2, 2, 2, dtype=dtype), mt.ones(2, 2, dtype=dtype)),
            (square, image[0, :, :3, :3], volume[0, :, :3, :3, 0]),
            (square, {"dim": 0}), (square, {"size": 2}), (square, {"stable": True}), (square, square, {"upper": True}),
            (square, 1, 2, 1), (image, v[:2], v[:2], None, None, True, 0.1, 1e-5), (lu, pivots, square),
        ]  # fmt: skip


def written_to(function, given):
    """Fates of the results, each in turn given memory that shows places several times; none if it's no call."""
    named = given[-1] if isinstance(given[-1], dict) else {}
    given = given[: len(given) - bool(named)]
    try:
        result = function(*given, **named)
    except Exception:
        return
    results = [result] if isinstance(result, mt.Tensor) else list(result) if isinstance(result, (tuple, list)) else []
    if not results or not all(isinstance(r, mt.Tensor) for r in results):
        return
    for place, shown in enumerate(results):
        if shown.numel() < 2:
            continue
        outs = [mt.empty_like(r) for r in results]
        dim = next(d for d, n in enumerate(shown.shape) if n > 1)
        base = mt.empty_like(shown.narrow(dim, 0, 1)).fill_(5)
        outs[place] = base.expand(shown.shape)
        try:
            function(*given, **named, out=outs[0] if isinstance(result, mt.Tensor) else tuple(outs))
        except Exception as error:
            if SHARED in str(error):
                yield "refused"
        else:
            yield "written" if (base != 5).any() else "untouched"


NO_MORE = {"lstsq", "matrix_rank", "solve", "symeig"}
"""Names that only say which of `linalg` took their place."""
NUMBERS = {"dot", "vdot"}
"""What gives one element, which can't be shown twice."""
SPARSE = {"hsmm", "hspmm", "saddmm", "sspaddmm"}
"""What has sparse operands, which refuse `out`."""
CREATED = {"empty", "full", "ones", "zeros"}
"""What writes one value everywhere, or none."""


@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
@pytest.mark.filterwarnings("ignore")
def test_out_forms():
    unreached, wrong, count = [], [], 0
    for name, function in spaces():
        signed = takes_out(function)
        if not signed and type(function).__name__ != "Op":
            continue
        # Anew for each: some write to their arguments.
        found = {fate for given in operands() for fate in written_to(function, given)}
        if signed and not found:
            unreached.append(name)
        elif found != {"refused"} and found and name not in CREATED:
            wrong.append((name, found))
        count += bool(found)
    assert not wrong
    assert set(unreached) == NO_MORE | NUMBERS | SPARSE
    assert count > 200
