"""vmap over some of the arguments, others being the same for every example: what is written then is mapped too."""

import itertools

import numpy as np
import pytest

import minitensor as mt
from minitensor import vmap
from minitensor.nn import functional

CALLS = {
    "index_put": lambda x, i, v: x.index_put((i,), v),
    "index_put, accumulated": lambda x, i, v: x.index_put((i * 0,), v, accumulate=True),
    "index_fill": lambda x, i, v: x.index_fill(0, i, v[0]),
    "index_fill by a number": lambda x, i, v: x.index_fill(0, i, 5.0) * v[0],
    "index_copy": lambda x, i, v: x.index_copy(0, i, v),
    "select_scatter": lambda x, i, v: x.select_scatter(v[0], 0, 1) * i[0],
    "slice_scatter": lambda x, i, v: x.slice_scatter(v, 0, 1, 3) * i[0],
    "diagonal_scatter": lambda x, i, v: x.reshape(2, 2).diagonal_scatter(v) * i[0],
    "as_strided_scatter": lambda x, i, v: x.as_strided_scatter(v, (2,), (2,)) * i[0],
    "fill": lambda x, i, v: mt.fill(x, v[0]) * i[0] + x,
    "diag": lambda x, i, v: x.diag() * v[0] * i[0],
    "gather less": lambda x, i, v: x.reshape(2, 2).gather(1, i.reshape(1, 2) % 2) * v[0],
    "median": lambda x, i, v: x.median() * v[0] * i[0],
    "quantile": lambda x, i, v: x.quantile(v.sigmoid()) * i[0],
    "binary_cross_entropy": lambda x, i, v: functional.binary_cross_entropy(v.sigmoid(), x[:2].sigmoid()) * i[0],
    "det": lambda x, i, v: mt.linalg.det(x.reshape(2, 2) + 3 * mt.eye(2, dtype=x.dtype)) * v[0] * i[0],
    "det of what may be singular": lambda x, i, v: mt.linalg.det((x * i[0]).expand(4, 4)) * v[0],
}


def slices():
    rng = np.random.default_rng(0)
    x, v = (mt.tensor(rng.normal(size=(2, n))) for n in (4, 2))
    return x, mt.tensor([[1, 2], [3, 0]]), v


def gradient_of(call):
    def gradients(x, i, v):
        return mt.cat(mt.func.grad(lambda x, v: (call(x, i, v) ** 2).sum(), (0, 1))(x, v))

    return gradients


@pytest.mark.parametrize("form", ["values", "gradients", "nested"])
@pytest.mark.parametrize("name", CALLS)
def test_each_choice_of_arguments(name, form):
    function = gradient_of(CALLS[name]) if form == "gradients" else CALLS[name]
    given = slices()
    for mapped in itertools.product((True, False), repeat=3):
        if not any(mapped):
            continue
        wanted = [function(*(t[k if m else 0] for t, m in zip(given, mapped, strict=True))) for k in range(2)]
        arguments = [t if m else t[0] for t, m in zip(given, mapped, strict=True)]
        outer = tuple(0 if m else None for m in mapped)
        if form == "nested" and not all(mapped):  # what the outer one doesn't map the inner one does, twice the same
            inner = tuple(None if m else 0 for m in mapped)
            both = vmap(vmap(function, in_dims=inner), in_dims=outer)
            arguments = [t if m else mt.stack([t, t]) for t, m in zip(arguments, mapped, strict=True)]
            wanted = [mt.stack([w, w]) for w in wanted]
        else:
            both = vmap(function, in_dims=outer)
        np.testing.assert_allclose(both(*arguments).numpy(), mt.stack(wanted).numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "write", [lambda y, x: y.copy_(x), lambda y, x: y.fill_(x[0]), lambda y, x: y.__setitem__(0, x[0])]
)
def test_writes_of_slices_to_what_is_not_mapped_are_refused(write):
    with pytest.raises(RuntimeError, match="Please try to use out-of-place operators"):
        vmap(lambda x: write(mt.zeros(2), x))(mt.ones(3, 2))


@pytest.mark.parametrize("read", [lambda x: x[0].item(), lambda x: x.tolist(), lambda x: x if x[0] > 0 else -x])
def test_reads_of_values_say_that_there_is_none(read):
    with pytest.raises(RuntimeError, match="vmap maps has no value of its own"):
        vmap(read)(mt.ones(3, 2))


def test_a_slice_prints_what_is_behind_it():
    seen = []
    vmap(lambda x: seen.append(repr(x)) or x)(mt.ones(2, 1))
    assert seen == ["BatchedTensor(lvl=1, bdim=0, value=\n    tensor([[1.],\n            [1.]])\n)"]
    assert mt.equal(vmap(lambda x: mt.asarray(x, copy=True))(mt.ones(2, 1)), mt.ones(2, 1))
