"""einsum and tensordot against NumPy, and what they refuse."""

import numpy as np
import pytest

import minitensor as mt

RNG = np.random.default_rng(4)
CASES = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ij,kj->ik", (2, 3), (4, 3)),
    ("ji,kj->ik", (3, 2), (4, 3)),
    ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)),
    ("bij,bjk->ki", (5, 2, 3), (5, 3, 4)),
    ("bij,jk->bk", (5, 2, 3), (3, 4)),
    ("...ij,...jk->...ik", (5, 2, 3), (3, 4)),
    ("...ij,jk", (5, 6, 2, 3), (3, 4)),
    ("i...,...i->...", (3, 4, 5), (5, 3)),
    ("ij->ji", (2, 3)),
    ("ba", (2, 3)),
    ("ij->", (2, 3)),
    ("ij->j", (2, 3)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("iij->j", (3, 3, 2)),
    ("iii->i", (3, 3, 3)),
    ("ijij->ij", (2, 3, 2, 3)),
    ("...ii->...i", (2, 3, 3)),
    ("i,j->ij", (2,), (3,)),
    ("i,i->", (3,), (3,)),
    ("i,i->i", (3,), (3,)),
    ("ij,ij->", (2, 3), (2, 3)),
    ("ij,j->ij", (2, 3), (3,)),
    (",i->i", (), (3,)),
    ("->", ()),
    (" i j , j k -> k i ", (2, 3), (3, 4)),
    ("ab,bc,cd->ad", (2, 30), (30, 3), (3, 20)),
    ("ab,bc,cd,da->", (2, 3), (3, 4), (4, 5), (5, 2)),
    ("a,b,c->cab", (2,), (3,), (4,)),
    ("ba,ba,bc->ac", (2, 3), (2, 3), (2, 4)),
    ("ij,ik,il->jkl", (2, 3), (2, 4), (2, 5)),
    ("Aa,aB->AB", (2, 3), (3, 4)),
    ("ij,jk->ik", (2, 0), (0, 4)),
    ("ij,jk->ik", (0, 3), (3, 4)),
    ("abc,cd,de,ef,fg->abg", (2, 3, 4), (4, 5), (5, 2), (2, 3), (3, 4)),
]


@pytest.mark.parametrize("dtype", ["float64", "int64", "complex128"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]} {c[1:]}")
def test_against_numpy(case, dtype):
    equation, *shapes = case
    arrays = [(RNG.normal(size=shape) * 3).astype(dtype) for shape in shapes]
    if dtype == "complex128":
        arrays = [a + 1j * RNG.normal(size=a.shape) for a in arrays]
    found = mt.einsum(equation, *(mt.tensor(a) for a in arrays))
    expected = np.einsum(equation.replace(" ", ""), *arrays)
    assert tuple(found.shape) == expected.shape
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10, atol=1e-10)


def test_sizes_of_one_broadcast():
    a, b = RNG.normal(size=(2, 3)), RNG.normal(size=(4, 1))
    found = mt.einsum("ij,kj->ik", mt.tensor(a), mt.tensor(b))
    np.testing.assert_allclose(found.numpy(), np.einsum("ij,k->ik", a, b[:, 0]))


def test_sublists():
    a, b = RNG.normal(size=(2, 3)), RNG.normal(size=(3, 4))
    x, y = mt.tensor(a), mt.tensor(b)
    np.testing.assert_allclose(mt.einsum(x, [0, 1], y, [1, 2], [2, 0]).numpy(), (a @ b).T)
    np.testing.assert_allclose(mt.einsum(x, [0, 1], y, [1, 2]).numpy(), a @ b)
    np.testing.assert_allclose(mt.einsum(x, [0, ...], [..., 0]).numpy(), a.T)
    np.testing.assert_allclose(mt.einsum("ij,jk", [x, y]).numpy(), a @ b)


def test_the_order_is_the_cheapest():
    """A chain that would need 10^9 multiplications from the left is one of vectors from the right."""
    from minitensor.composite.linalg.einsum import _next_pair

    sizes = {"a": 1000, "b": 1000, "c": 1000, "d": 1}
    assert _next_pair([["a", "b"], ["b", "c"], ["c", "d"]], ["a", "d"], sizes) == (1, 2)
    many = [[chr(97 + i), chr(98 + i)] for i in range(12)]
    i, j = _next_pair(many, ["a"], {chr(97 + i): 2 + i for i in range(13)})
    assert 0 <= i < j < 12


@pytest.mark.parametrize(
    ("equation", "shapes", "says"),
    [
        ("ij,jk->ik", [(2, 3), (2, 3)], "subscript j has size 2 for operand 1 which does not broadcast"),
        (
            "ij",
            [(2, 3, 4)],
            r"number of subscripts in the equation \(2\) does not match the number of dimensions \(3\)",
        ),
        ("ij,jk", [(2, 3)], "fewer operands were provided than specified"),
        ("ij", [(2, 3), (3, 4)], "more operands were provided than specified"),
        ("i$", [(2, 3)], "invalid subscript given at index 1"),
        ("ij->k", [(2, 3)], "output subscript k does not appear in the equation for any input operand"),
        ("ij->ii", [(2, 3)], "output subscript i appears more than once in the output"),
        ("ii->i", [(2, 3)], "subscript i is repeated for operand 0 but the sizes don't match, 3 != 2"),
        ("i.j", [(2, 3)], "found '.' for operand 0 that is not part of any ellipsis"),
        ("...i...", [(2, 3)], "found '.' for operand 0 for which an ellipsis was already found"),
        ("ij->i..", [(2, 3)], r"found '.' for output that is not part of any ellipsis \(...\)"),
    ],
)
def test_refusals(equation, shapes, says):
    with pytest.raises(RuntimeError, match=says):
        mt.einsum(equation, *(mt.ones(*shape) for shape in shapes))


def test_nothing_to_do():
    with pytest.raises(ValueError, match="must specify the equation string and at least one operand"):
        mt.einsum("ij")
    with pytest.raises(ValueError, match="not within the valid range"):
        mt.einsum(mt.ones(2, 3), [0, 60])


def test_gradients():
    x = mt.tensor(RNG.normal(size=(2, 3)), requires_grad=True)
    y = mt.tensor(RNG.normal(size=(3, 4)), requires_grad=True)
    mt.einsum("ij,jk->", x, y).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.tile(y.detach().numpy().sum(1), (2, 1)))
    np.testing.assert_allclose(y.grad.numpy(), np.tile(x.detach().numpy().sum(0)[:, None], (1, 4)))


@pytest.mark.parametrize("dims", [0, 1, 2, ([0], [1]), ([1, 0], [0, 1]), ((-1,), (0,))])
def test_tensordot(dims):
    a, b = RNG.normal(size=(3, 3)), RNG.normal(size=(3, 3))
    found = mt.tensordot(mt.tensor(a), mt.tensor(b), dims)
    np.testing.assert_allclose(found.numpy(), np.tensordot(a, b, dims))
    if isinstance(dims, tuple):
        same = mt.tensordot(mt.tensor(a), mt.tensor(b), mt.tensor(dims))
        np.testing.assert_allclose(same.numpy(), found.numpy())


def test_tensordot_refusals():
    a, b = mt.ones(2, 3), mt.ones(3, 4)
    for dims, says in (
        (2, "contracted dimensions need to match, but first has size 2 in dim -2 and second has size 3 in dim 0"),
        (-1, "tensordot expects dims >= 0, but got dims=-1"),
        (5, "tensordot expects dims < ndim_a or ndim_b, but got dims=5"),
        (([1], [0, 1]), "both dimension lists should have same length"),
        ("x", "tensordot expects dims to be int or tuple"),
    ):
        with pytest.raises(RuntimeError, match=says):
            mt.tensordot(a, b, dims)
