"""The types of several results with names: PyTorch's, by name, fields, text and pickle."""

import copy
import pickle

import pytest
from torch_api.test_as_torch import aliased

import minitensor as mt
from minitensor.utils import _pytree

CALLS = {
    "aminmax": lambda lib, x: x.aminmax(),
    "cummax": lambda lib, x: x.cummax(0),
    "cummin": lambda lib, x: lib.cummin(x, 1),
    "frexp": lambda lib, x: lib.frexp(x),
    "geqrf": lambda lib, x: lib.geqrf(x),
    "histogram": lambda lib, x: lib.histogram(x, 3),
    "histogramdd": lambda lib, x: lib.histogramdd(x[:, :2], [2, 2]),
    "kthvalue": lambda lib, x: x.kthvalue(2),
    "linalg_cholesky_ex": lambda lib, x: lib.linalg.cholesky_ex(x),
    "linalg_eig": lambda lib, x: lib.linalg.eig(x),
    "linalg_eigh": lambda lib, x: lib.linalg.eigh(x),
    "linalg_inv_ex": lambda lib, x: lib.linalg.inv_ex(x),
    "linalg_ldl_factor": lambda lib, x: lib.linalg.ldl_factor(x),
    "linalg_ldl_factor_ex": lambda lib, x: lib.linalg.ldl_factor_ex(x),
    "linalg_lstsq": lambda lib, x: lib.linalg.lstsq(x, x),
    "linalg_lu": lambda lib, x: lib.linalg.lu(x),
    "linalg_lu_factor": lambda lib, x: lib.linalg.lu_factor(x),
    "linalg_lu_factor_ex": lambda lib, x: lib.linalg.lu_factor_ex(x),
    "linalg_qr": lambda lib, x: lib.linalg.qr(x),
    "linalg_slogdet": lambda lib, x: lib.linalg.slogdet(x),
    "linalg_solve_ex": lambda lib, x: lib.linalg.solve_ex(x, x),
    "linalg_svd": lambda lib, x: lib.linalg.svd(x),
    "lu_unpack": lambda lib, x: lib.lu_unpack(*lib.linalg.lu_factor(x)),
    "max": lambda lib, x: lib.max(x, 0),
    "median": lambda lib, x: x.median(1),
    "min": lambda lib, x: x.min(dim=1, keepdim=True),
    "mode": lambda lib, x: x.mode(0),
    "nanmedian": lambda lib, x: lib.nanmedian(x, 0),
    "qr": lambda lib, x: lib.qr(x),
    "slogdet": lambda lib, x: x.slogdet(),
    "sort": lambda lib, x: x.sort(descending=True),
    "svd": lambda lib, x: x.svd(),
    "topk": lambda lib, x: x.topk(2),
    "triangular_solve": lambda lib, x: lib.triangular_solve(x, x),
}
VALUES = [[4.0, 1.0, 0.5], [1.0, 5.0, 0.25], [0.5, 0.25, 6.0]]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore")  # PyTorch's, of functions that it calls old
def test_a_result_of_each_type(name):
    result = CALLS[name](mt, mt.tensor(VALUES))
    kind = type(result)
    assert kind is getattr(mt.return_types, name)
    assert (kind.__module__, kind.__name__) == ("minitensor.return_types", name)
    assert repr(result) == "".join(
        [
            f"minitensor.return_types.{name}(\n",
            ",\n".join(f"{f}={getattr(result, f)!r}" for f in kind.__match_args__),
            ")",
        ]
    )
    for other in (pickle.loads(pickle.dumps(result)), copy.copy(result), copy.deepcopy(result)):
        assert type(other) is kind
        assert repr(other) == repr(result)
    leaves, spec = _pytree.tree_flatten(result)
    assert type(_pytree.tree_unflatten(leaves, spec)) is kind


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore")
def test_fields_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    ours, theirs = CALLS[name](mt, mt.tensor(VALUES)), CALLS[name](torch, torch.tensor(VALUES))
    assert type(theirs) is getattr(torch.return_types, name)
    for attribute in (
        "__name__",
        "__qualname__",
        "__match_args__",
        "n_fields",
        "n_sequence_fields",
        "n_unnamed_fields",
    ):
        assert getattr(type(ours), attribute) == getattr(type(theirs), attribute)


def test_all_types_are_pytorchs():
    torch = pytest.importorskip("torch")
    theirs = {kind.__name__: kind.__match_args__ for kind in torch.return_types.all_return_types}
    assert {kind.__name__: kind.__match_args__ for kind in mt.return_types.all_return_types} == theirs
    assert set(dir(mt.return_types)) == {*theirs, "all_return_types"}
    assert {name.removesuffix("_out") for name in theirs} == set(CALLS)


def test_results_stored_in_given_tensors_have_a_type_of_their_own():
    x = mt.tensor(VALUES)
    values, indices = mt.empty(3), mt.empty(3, dtype=mt.int64)
    stored = mt.max(x, 0, out=(values, indices))
    assert type(stored) is mt.return_types.max_out
    assert stored.values is values
    assert stored.indices is indices
    composed = mt.sort(x, 0, out=(mt.empty(3, 3), mt.empty(3, 3, dtype=mt.int64)))
    assert type(composed) is mt.return_types.sort_out
    assert repr(composed).startswith("minitensor.return_types.sort_out(\nvalues=")


def test_a_name_that_is_none():
    with pytest.raises(AttributeError, match="no attribute 'argmax'"):
        mt.return_types.argmax  # noqa: B018


ALIASED = """
import pickle, torch
from minitensor import _C
before = torch.return_types.topk
found = torch.max(torch.eye(2), 0)
print(found)
print(type(found), type(found).__module__, pickle.loads(pickle.dumps(found)) is not found, before)
print(torch.utils._pytree.tree_map(lambda x: x + 1, found))
try:
    type(found)([1])
except TypeError as error:
    print(error)
_C.set_shown_package("minitensor")
print(type(found), torch.return_types.max is type(found))
"""


def test_under_pytorchs_name(tmp_path):
    assert aliased(tmp_path, ALIASED).stdout.splitlines() == [
        "torch.return_types.max(",
        "values=tensor([1., 1.]),",
        "indices=tensor([0, 1]))",
        "<class 'torch.return_types.max'> torch.return_types True <class 'torch.return_types.topk'>",
        "torch.return_types.max(",
        "values=tensor([2., 2.]),",
        "indices=tensor([1, 2]))",
        "torch.return_types.max() takes a 2-sequence (1-sequence given)",
        "<class 'minitensor.return_types.max'> True",
    ]


def test_lobpcg_starts_from_pytorchs_numbers():
    torch = pytest.importorskip("torch")

    def after(lib):
        lib.manual_seed(0)
        lib.lobpcg(lib.eye(6) * lib.arange(1.0, 7.0), 2)
        return lib.rand(3).tolist()

    mt.random.use("torch")
    try:
        assert after(mt) == after(torch)
    finally:
        mt.random.use("philox")
