"""Parameters of functions that are bools, ints or floats by their annotations take nothing else, as in PyTorch."""

import inspect
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import minitensor as mt
import minitensor.nn.functional as F
from minitensor._functions import checked

_SPACES = {
    "": mt,
    "nn.functional.": F,
    "linalg.": mt.linalg,
    "fft.": mt.fft,
    "special.": mt.special,
    "Tensor.": mt.Tensor,
}
_FORM = type(mt.zeros)


def _functions():
    for space, module in _SPACES.items():
        for name in dir(module):
            found = getattr(module, name)
            if type(found) is _FORM and not name.startswith("_"):
                yield space + name, found


def _kind(annotation):
    return str(getattr(annotation, "__name__", annotation)).removesuffix(" | None")


def _parameters(kind):
    for _, function in _functions():
        for parameter in inspect.signature(function).parameters.values():
            given_by_name = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            if given_by_name and _kind(parameter.annotation) == kind:
                yield function, parameter.name


_WRONG = {
    "bool": [1, 0, 1.0, "a", [], np.bool_(True), mt.tensor(True)],
    "int": [True, 1.0, "a", 1j, [1], Decimal(1), np.float32(1), np.bool_(True), mt.ones((), requires_grad=True)],
    "float": ["a", 1j, [1.0], Decimal(1), Fraction(1, 2), mt.ones((), requires_grad=True)],
}


@pytest.mark.parametrize(("kind", "at_least"), [("bool", 250), ("int", 200), ("float", 120)])
def test_nothing_else_is_taken(kind, at_least):
    count = 0
    for function, parameter in _parameters(kind):
        if checked.takes_anything(function, parameter):
            continue
        count += 1
        for wrong in _WRONG[kind]:
            # The kinds come before what else may be wrong with a call, such as arguments that are missing.
            with pytest.raises(TypeError, match=f"argument '{parameter}' must be {kind}, not "):
                function(**{parameter: wrong})
    assert count > at_least


def test_arguments_by_place_and_by_other_names():
    x = mt.ones(2, 2)
    for call, said in [
        (lambda: mt.isclose(x, x, 0.1, 0.1, 1), "isclose(): argument 'equal_nan' (position 5) must be bool, not int"),
        (lambda: mt.nanmean(x, 0, keepdims=1), "nanmean(): argument 'keepdim' must be bool, not int"),
        (lambda: x.nanmean(0, 1), "nanmean(): argument 'keepdim' (position 3) must be bool, not int"),
        (lambda: mt.logsumexp(x, 0, 1, out=x), "logsumexp(): argument 'keepdim' (position 3) must be bool, not int"),
        (
            lambda: x.renorm_(Decimal(2), 0, 1),
            "renorm_(): argument 'p' (position 2) must be float, not decimal.Decimal",
        ),
        (lambda: x.std(keepdim=1), "std(): argument 'keepdim' must be bool, not int"),
        (lambda: x.var(0, 1), "var(): argument 'unbiased' must be bool, not int"),
        (lambda: x.std(keepdims=1), "std(): argument 'keepdim' must be bool, not int"),
        (lambda: mt.var_mean(x, 0, correction=1j), "var_mean(): argument 'correction' must be float, not complex"),
        (lambda: F.dropout(x, training=1), "dropout(): argument 'training' must be bool, not int"),
        (lambda: x.to(copy=1), "to(): argument 'copy' must be bool, not int"),
        (lambda: mt.unique(x, sorted=1), "unique(): argument 'sorted' must be bool, not int"),
        (lambda: mt.diag(x, True), "diag(): argument 'diagonal' (position 2) must be int, not bool"),
    ]:
        with pytest.raises(TypeError, match=re.escape(said)):
            call()


def test_what_is_taken():
    x = mt.tensor([[1.0, 2.0], [3.0, 5.0]])
    for p in (2, 2.0, np.float32(2), np.int64(2), True, mt.tensor(2), mt.tensor(2.0)):
        assert mt.dist(x, x + 1, p).item() == pytest.approx(4.0 if p is True else 2.0)
    for k in (1, np.int64(1), mt.tensor(1)):
        assert mt.rot90(x, k).tolist() == [[2.0, 5.0], [1.0, 3.0]]
    assert not mt.ones(1, requires_grad=None).requires_grad
    assert mt.logit(mt.tensor([0.5]), None).tolist() == [0.0]
    # PyTorch's functions of Python only ask whether these are true.
    assert F.relu(x.clone(), inplace=1).tolist() == x.tolist()
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert F.mse_loss(x, x + 1, size_average=0).item() == 4.0
    assert F.interpolate(mt.ones(1, 1, 4, 4), 2, mode="bilinear", antialias=1).shape == (1, 1, 2, 2)
    assert isinstance(F.max_pool2d(x[None], 2, return_indices=1), tuple)
    # And compute with these, also where somebody learns them.
    tau = mt.tensor(2.0, requires_grad=True)
    F.gumbel_softmax(x, tau=tau)[0, 0].backward()
    assert tau.grad is not None


class _Index:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


@pytest.mark.parametrize("whole", [np.int64, _Index])
def test_whole_numbers_of_others(whole):
    one, two = whole(1), whole(2)
    x, image = mt.arange(12.0).reshape(3, 4), mt.ones(1, 2, 4, 4)
    for call, expected in [
        (lambda: x.narrow(0, one, one), [[4.0, 5.0, 6.0, 7.0]]),
        (lambda: x[:1, :1].repeat(one, two), [[0.0, 0.0]]),
        (lambda: mt.tile(x[:1, :1], (two,)), [[0.0, 0.0]]),
        (lambda: x.tensor_split(one)[0], x.tolist()),
        (lambda: x.hsplit(two)[0].shape, [3, 2]),
        (lambda: x[0, :2].repeat_interleave(two), [0.0, 0.0, 1.0, 1.0]),
        (lambda: x[0].unflatten(0, (two, -1)), [[0.0, 1.0], [2.0, 3.0]]),
        (lambda: F.layer_norm(x[:, :1], [one]), [[0.0]] * 3),
        (lambda: mt.nn.LayerNorm(two).normalized_shape, [2]),
        (lambda: mt.nn.Linear(one, two)(x[:, :1]).shape, [3, 2]),
        (lambda: F.max_pool2d(image, two).shape, [1, 2, 2, 2]),
        (lambda: mt.nn.AvgPool2d(two)(image).shape, [1, 2, 2, 2]),
        (lambda: F.conv2d(image, mt.ones(1, 2, 1, 1), stride=two).shape, [1, 1, 2, 2]),
        (lambda: F.adaptive_max_pool2d(image, two).shape, [1, 2, 2, 2]),
        (lambda: F.unfold(image, two).shape, [1, 8, 9]),
        (lambda: F.local_response_norm(image, one, alpha=0.0).shape, [1, 2, 4, 4]),
        (lambda: mt.fft.fft(x, one).shape, [3, 1]),
        (lambda: mt.fft.fftshift(x, one)[0], [2.0, 3.0, 0.0, 1.0]),
        (lambda: mt.linalg.norm(x[:, :1], dim=one), [0.0, 4.0, 8.0]),
        (lambda: mt.gradient(x, dim=one)[0][0], [1.0] * 4),
        (lambda: mt.nonzero_static(x[0], size=one), [[1]]),
        (lambda: mt.multinomial(mt.tensor([0.0, 1.0]), one), [1]),
        (lambda: mt.broadcast_shapes(one, 2), [2]),
    ]:
        found = call()
        assert (found.tolist() if isinstance(found, mt.Tensor) else list(found)) == expected


def test_orders_that_are_words():
    x = mt.eye(2) * 2
    assert mt.linalg.cond(x, "fro").item() == pytest.approx(2.0)
    assert mt.linalg.cond(x, "nuc").item() == pytest.approx(4.0)


def test_numpys_floats():
    x = mt.tensor([[1.0, 2.0, 4.0]])
    assert x.quantile(np.float32(0.5)).item() == 2.0
    assert x.scatter(1, mt.tensor([[0]]), np.float32(3)).tolist() == [[3.0, 2.0, 4.0]]
    assert F.fractional_max_pool2d(mt.ones(1, 1, 4, 4), 2, output_ratio=np.float32(0.5)).shape == (1, 1, 2, 2)
    assert F.normalize(x, None, 0).tolist() == [[1.0, 1.0, 1.0]]


def test_bools_are_no_ints_of_composed_functions():
    x = mt.ones(2, 2)
    for call in (
        lambda: x.narrow(0, True, 1),
        lambda: x.tensor_split(True),
        lambda: F.max_pool2d(x[None], True),
        lambda: x.max(True),
        lambda: x.repeat_interleave(True),
    ):
        with pytest.raises(TypeError, match="bool"):
            call()


def test_numbers_that_are_none():
    x = mt.ones(2, 2)
    for call in (
        lambda n: x.norm(n),
        lambda n: F.normalize(x, n),
        lambda n: mt.cdist(x, x, n),
        lambda n: x.clone().uniform_(**{"from": n}, to=2),
        lambda n: x.clone().normal_(n),
        lambda n: mt.normal(n, 1.0, (2,)),
        lambda n: mt.histc(x, 2, 0, n),
        lambda n: x.var(correction=n),
        lambda n: x.clone().geometric_(n),
        lambda n: mt.addmm(x, x, x, beta=n),
        lambda n: mt.full((2,), n),
    ):
        for wrong in (Decimal(1), Fraction(1, 2), "a"):
            with pytest.raises((TypeError, RuntimeError)):
                call(wrong)


@pytest.mark.torch
def test_annotations_are_pytorchs_schemas():
    torch = pytest.importorskip("torch")
    schemas = {}
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::"):
            known = schemas.setdefault(schema.name.removeprefix("aten::"), {})
            for argument in schema.arguments:
                known.setdefault(argument.name, set()).add(str(argument.type))
    count = 0
    for name, function in _functions():
        space, _, short = name.rpartition(".")
        theirs = torch
        for part in name.split("."):
            theirs = getattr(theirs, part, None)
        if inspect.isfunction(theirs):
            continue  # which looks at its arguments itself, or doesn't
        prefix = "" if space in ("", "nn.functional", "Tensor") else f"{space}_"
        kinds = {p.name: _kind(p.annotation) for p in inspect.signature(function).parameters.values()}
        for argument, types in schemas.get(prefix + short, {}).items():
            if types <= {"bool", "Optional[bool]"} and argument in kinds:
                count += 1
                assert kinds[argument] == "bool", f"{name}: {argument}"
    assert count > 120
