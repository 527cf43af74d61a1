"""The methods that take an index: PyTorch's order of arguments, as a method, as a function, in place and compiled."""

import numpy as np
import pytest

import minitensor as mt

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
PLACES = np.array([[0, 2, 1, 2], [2, 0, 0, 1]])
ROWS = np.array([2, 0])
SOURCE = np.arange(8, dtype=np.float32).reshape(2, 4) / 4


def expected(name):
    out = X.copy()
    if name == "gather":
        return np.take_along_axis(X, PLACES, 0)
    if name == "index_select":
        return X[ROWS]
    if name == "scatter_add":
        for i, j in np.ndindex(*PLACES.shape):
            out[PLACES[i, j], j] += SOURCE[i, j]
    if name == "index_add":
        out[ROWS] += 2 * SOURCE
    if name == "index_copy":
        out[ROWS] = SOURCE
    return out


ARGUMENTS = {
    "gather": lambda: ((0, mt.tensor(PLACES)), {}),
    "index_select": lambda: ((0, mt.tensor(ROWS)), {}),
    "scatter_add": lambda: ((0, mt.tensor(PLACES), mt.tensor(SOURCE)), {}),
    "index_add": lambda: ((0, mt.tensor(ROWS), mt.tensor(SOURCE)), {"alpha": 2}),
    "index_copy": lambda: ((0, mt.tensor(ROWS), mt.tensor(SOURCE)), {}),
}


def test_index_put_takes_numbers_as_tensors():
    x = mt.arange(6.0).reshape(2, 3)
    assert x.index_put((mt.tensor(1),), mt.arange(3.0), accumulate=True).tolist() == [[0, 1, 2], [3, 5, 7]]
    assert x.index_put((mt.tensor(1), mt.tensor(0)), mt.tensor(4.0)).tolist() == [[0, 1, 2], [4, 4, 5]]
    with pytest.raises(IndexError, match="at least one index tensor"):
        x.index_put((), mt.tensor(4.0))


def test_put_replaces_unless_it_is_to_add():
    x, places, source = mt.arange(6.0).reshape(2, 3), mt.tensor([4, 0]), mt.tensor([10.0, 20.0])
    replaced, added = [[20, 1, 2], [3, 10, 5]], [[20, 1, 2], [3, 14, 5]]
    assert mt.put(x, places, source).tolist() == x.put(places, source).tolist() == replaced
    assert mt.put(x, places, source, True).tolist() == x.put(places, source, accumulate=True).tolist() == added
    assert x.clone().put_(places, source).tolist() == replaced


def test_index_fill_keeps_the_order_of_dimensions():
    assert mt.zeros(3, 5).T.index_fill(0, mt.tensor([1]), 2.0).stride() == (1, 5)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_forms(name):
    args, more = ARGUMENTS[name]()
    want = expected(name)
    np.testing.assert_array_equal(getattr(mt.tensor(X), name)(*args, **more).numpy(), want)
    np.testing.assert_array_equal(getattr(mt, name)(mt.tensor(X), *args, **more).numpy(), want)
    with mt.jit_scope():
        compiled = getattr(mt.tensor(X), name)(*args, **more)
    np.testing.assert_array_equal(compiled.numpy(), want)
    if hasattr(mt.Tensor, f"{name}_"):
        x = mt.tensor(X)
        assert getattr(x, f"{name}_")(*args, **more) is x
        np.testing.assert_array_equal(x.numpy(), want)


@pytest.mark.parametrize("name", ["gather", "index_select", "scatter_add", "index_add", "index_copy"])
def test_keywords(name):
    args, more = ARGUMENTS[name]()
    names = ["dim", "index", "src" if name == "scatter_add" else "source"]
    by_name = dict(zip(names, args, strict=False))
    np.testing.assert_array_equal(getattr(mt.tensor(X), name)(**by_name, **more).numpy(), expected(name))


def test_gradients():
    x = mt.tensor(X, requires_grad=True)
    x.gather(1, mt.tensor([[0, 0, 3], [1, 1, 1], [2, 0, 2]])).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[2, 0, 0, 1], [0, 3, 0, 0], [1, 0, 2, 0]])


def test_sort():
    found = mt.tensor([3.0, 1.0, 2.0]).sort(descending=True)
    assert found.values.tolist() == [3.0, 2.0, 1.0]
    assert found.indices.tolist() == [0, 2, 1]
    assert mt.sort(mt.tensor([2, 1])).values.tolist() == [1, 2]


def test_unique():
    x = mt.tensor([3, 1, 3])
    assert x.unique().tolist() == [1, 3]
    values, counts = mt.unique(x, return_counts=True)
    assert values.tolist() == [1, 3]
    assert counts.tolist() == [1, 2]


@pytest.mark.parametrize(("dim", "keepdim"), [(None, False), (0, False), (1, True), ((0, 1), False)])
@pytest.mark.parametrize("correction", [0, 1])
def test_var_and_std(dim, keepdim, correction):
    x = mt.tensor(X)
    want = np.var(X.astype(np.float64), axis=dim, ddof=correction, keepdims=keepdim)
    np.testing.assert_allclose(x.var(dim, correction=correction, keepdim=keepdim).numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(mt.std(x, dim, correction=correction, keepdim=keepdim).numpy(), want**0.5, rtol=1e-6)


def test_var_of_one_element_is_nan():
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert mt.tensor([1.0]).var().isnan().item()


def test_to_takes_copy_by_place():
    x = mt.ones(2)
    assert x.to(mt.float32) is x
    assert x.to(mt.float32, False, True) is not x


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.at_once
def test_places_along_a_dimension_are_numbers_of_elements(dim):
    """One number a place in the compiled program, not a vector of one for each dimension."""
    mt.manual_seed(dim)
    x, y = mt.randn(5, 6, 7), mt.randn(3, 4, 2)
    i = mt.randint(0, x.shape[dim], (3, 4, 2))
    programs = {
        "gather": lambda x, i, y: x.gather(dim, i) * 2,
        "scatter": lambda x, i, y: x.scatter_add(dim, i, y),
    }
    for opcode, program in programs.items():
        f = mt.function(program, jit_compile=True)
        assert mt.equal(f(x, i, y), program(x, i, y))
        text = f.lower(x, i, y).as_text("hlo")
        assert f" {opcode}(" in text
        assert "concatenate" not in text
