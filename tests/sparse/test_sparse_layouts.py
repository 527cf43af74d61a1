"""Sparse tensors are made of components, converted between layouts, shown, copied and saved."""

import copy
import io
import pickle

import numpy as np
import pytest
from sparse_cases import COMPRESSED, DENSE, INDICES, VALUES, as_layout, coo, random

import minitensor as mt


def test_components_are_what_was_given():
    s = coo()
    assert isinstance(s, mt.Tensor)
    assert type(s).__name__ == "Tensor"
    assert s.layout is mt.sparse_coo
    assert s.is_sparse
    assert not s.is_sparse_csr
    assert (s._nnz(), s.sparse_dim(), s.dense_dim(), s.shape, s.dtype) == (4, 2, 0, (2, 3), mt.float32)
    assert s._indices().tolist() == INDICES
    assert s._values().tolist() == VALUES
    assert not s.is_coalesced()
    assert s.numel() == 6
    assert s.stride() == (0, 0)
    assert not s.is_contiguous()
    for name in ("indices", "values"):
        with pytest.raises(RuntimeError, match=f"Cannot get {name} on an uncoalesced tensor"):
            getattr(s, name)()
    merged = s.coalesce()
    assert merged.is_coalesced()
    assert merged.coalesce() is merged
    assert merged.indices().tolist() == [[0, 1, 1], [2, 0, 2]]
    assert merged.values().tolist() == [9.0, 4.0, 5.0]
    assert s.to_dense().tolist() == merged.to_dense().tolist() == DENSE


def test_strided_tensors_say_what_they_are():
    x = mt.ones(2, 3)
    assert x.layout is mt.strided
    assert not x.is_sparse
    assert not x.is_sparse_csr
    assert (x.sparse_dim(), x.dense_dim()) == (0, 2)
    assert x.to_dense() is x
    for name in ("indices", "values", "coalesce", "is_coalesced", "crow_indices", "row_indices", "_nnz"):
        with pytest.raises(RuntimeError, match=f"{name} expected sparse .*tensor layout but got Strided"):
            getattr(x, name)()


def test_the_size_is_that_of_the_largest_indices():
    assert mt.sparse_coo_tensor([[0, 4], [2, 0]], [1, 2]).shape == (5, 3)
    assert mt.sparse_coo_tensor([[0, 4]], [[1.0, 2], [3, 4]]).shape == (5, 2)
    assert mt.sparse_csr_tensor([0, 1, 3], [2, 0, 4], [1.0, 2, 3]).shape == (2, 5)
    empty = mt.sparse_coo_tensor((2, 3), dtype=mt.float64)
    assert (empty.shape, empty._nnz(), empty.dtype, empty.is_coalesced()) == ((2, 3), 0, mt.float64, True)
    assert empty.to_dense().tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([[0, 1]], [1.0], (3,)), RuntimeError, "same nnz, but got nnz from indices: 2, nnz from values: 1"),
        (([[0, 1]], [1.0, 2], (3, 4)), RuntimeError, "len.size. = 2, sparse_dim = 1, dense_dim = 0"),
        (([[0, 1]], [[1.0], [2]], (3, 4)), RuntimeError, r"values has incorrect size, expected \[2, 4\], got \[2, 1\]"),
        (([[0, -1]], [1.0, 2]), RuntimeError, "found negative index -1 for dim 0"),
        (([0, 1], [1.0, 2], (3,)), RuntimeError, "indices must be sparse_dim x nnz"),
        (([[0, 1]], [1.0, 2], 3), TypeError, "argument 'size' must be a tuple of ints"),
        (([[0, 1]], [1.0, 2], (-3,)), RuntimeError, "negative size"),
    ],
)
def test_components_that_dont_fit_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        mt.sparse_coo_tensor(*arguments)


@pytest.mark.parametrize(
    ("crow", "col", "values", "size", "message"),
    [
        ([0, 1, 4], [2, 0, 2], [1.0, 2, 3], (2, 3), r"`crow_indices\[..., -1\] == nnz` is not satisfied"),
        ([1, 1, 3], [2, 0, 2], [1.0, 2, 3], (2, 3), r"`crow_indices\[..., 0\] == 0` is not satisfied"),
        ([0, 1, 3], [2, 0, 3], [1.0, 2, 3], (2, 3), "`0 <= col_indices < ncols` is not satisfied"),
        ([0, 1, 3], [2, 2, 0], [1.0, 2, 3], (2, 3), "are sorted and distinct along the last dimension"),
        ([0, 2, 1, 3], [0, 1, 2], [1.0, 2, 3], (3, 3), r"`0 <= crow_indices\[..., 1:\]"),
    ],
)
def test_indices_are_looked_at_where_that_is_asked_for(crow, col, values, size, message):
    mt.sparse_csr_tensor(crow, col, values, size)
    with pytest.raises(RuntimeError, match=message):
        mt.sparse_csr_tensor(crow, col, values, size, check_invariants=True)
    with mt.sparse.check_sparse_tensor_invariants(), pytest.raises(RuntimeError, match=message):
        mt.sparse_csr_tensor(crow, col, values, size)
    assert not mt.sparse.check_sparse_tensor_invariants.is_enabled()


def test_shapes_of_compressed_components_are_always_looked_at():
    for crow, col, values, size, message in (
        ([0, 1, 3], [2, 0], [1.0, 2, 3], (2, 3), "col_indices.shape"),
        ([0, 1, 3], [2, 0, 2], [1.0, 2, 3], (3, 3), "number of rows"),
        ([0, 1, 3], [2, 0, 2], [1.0, 2, 3], (2,), "tensor dimensionality must be sum"),
        ([0.0, 1, 3], [2.0, 0, 2], [1.0, 2, 3], (2, 3), "int32 or int64"),
    ):
        with pytest.raises(RuntimeError, match=message):
            mt.sparse_csr_tensor(crow, col, values, size)
    with pytest.raises(RuntimeError, match="expected sparse compressed tensor layout but got Sparse"):
        mt.sparse_compressed_tensor([0, 1], [0], [1.0], layout=mt.sparse_coo)
    with pytest.raises(RuntimeError, match=r"must be divisible with blocksize \[2, 2\]"):
        mt.sparse_bsr_tensor([0, 1], [0], mt.ones(1, 2, 2), (2, 3))


@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
def test_wrong_indices_are_an_error_where_elements_are_read():
    s = mt.sparse_coo_tensor(INDICES, VALUES, (2, 2))
    dense = mt.ones(2, 4)
    for read in (s.to_dense, s.coalesce, lambda: s @ dense, lambda: mt.ones(2, 2) + s, s.to_sparse_csr):
        with pytest.raises(RuntimeError, match="size is inconsistent with indices: for dim 1, size is 2"):
            read()
    for wrong in (
        mt.sparse_csr_tensor([0, 1, 9], [0, 1], [1.0, 2], (2, 2)),
        mt.sparse_csr_tensor([0, 1, 2], [0, 7], [1.0, 2], (2, 2)),
        mt.sparse_csc_tensor([0, 2, 1], [0], [1.0], (2, 2)),
    ):
        for read in (wrong.to_dense, lambda wrong=wrong: wrong @ dense, wrong.to_sparse_coo):
            with pytest.raises((RuntimeError, IndexError)):
                read()


@pytest.mark.parametrize("layout", [mt.sparse_coo, *COMPRESSED], ids=str)
@pytest.mark.parametrize("other", [mt.sparse_coo, *COMPRESSED], ids=str)
def test_every_layout_becomes_every_other(layout, other):
    dense = random(6, 9)
    s = as_layout(dense, layout)
    assert s.layout is layout
    assert s.to_dense().tolist() == dense.tolist()
    turned = as_layout(s, other)
    assert turned.layout is other
    assert turned.to_dense().tolist() == dense.tolist()


@pytest.mark.parametrize("layout", COMPRESSED, ids=str)
def test_compressed_layouts_have_batches_and_dense_dimensions(layout):
    rng = np.random.default_rng(1)
    there = rng.random((4, 6)) < 0.5
    array = rng.normal(size=(2, 4, 6, 3)) * there[None, :, :, None]
    blocks = (2, 3) if layout in (mt.sparse_bsr, mt.sparse_bsc) else None
    s = mt.tensor(array).to_sparse(layout=layout, dense_dim=1, blocksize=blocks)
    assert (s.sparse_dim(), s.dense_dim(), s.shape) == (2, 1, (2, 4, 6, 3))
    np.testing.assert_array_equal(s.to_dense().numpy(), array)
    np.testing.assert_array_equal(s.to_sparse_coo().to_dense().numpy(), array)


def test_components_agree_with_scipy():
    sparse = pytest.importorskip("scipy.sparse")
    dense = random(7, 5)
    for ours, theirs in (
        (dense.to_sparse_csr(), sparse.csr_matrix(dense.numpy())),
        (dense.to_sparse_csc(), sparse.csc_matrix(dense.numpy())),
    ):
        first = ours.crow_indices() if ours.layout is mt.sparse_csr else ours.ccol_indices()
        second = ours.col_indices() if ours.layout is mt.sparse_csr else ours.row_indices()
        np.testing.assert_array_equal(first.numpy(), theirs.indptr)
        np.testing.assert_array_equal(second.numpy(), theirs.indices)
        np.testing.assert_array_equal(ours.values().numpy(), theirs.data)


def test_dense_dimensions_that_are_too_many():
    with pytest.raises(RuntimeError, match=r"dense dimensions \(=3\) must be at most .* minus 2 \(=2\)"):
        mt.ones(2, 2, 2, 2).to_sparse_csr(dense_dim=3)


def test_dense_dimensions_of_coo():
    dense = mt.tensor([[0.0, 0, 0], [1, 0, 2]])
    s = dense.to_sparse(1)
    assert (s.sparse_dim(), s.dense_dim(), s._nnz()) == (1, 1, 1)
    assert s.values().tolist() == [[1.0, 0.0, 2.0]]
    assert s.to_dense().tolist() == dense.tolist()
    assert mt.tensor(5.0).to_sparse().to_dense().item() == 5.0
    with pytest.raises(RuntimeError, match="sparse_dim argument must be in"):
        dense.to_sparse(3)
    with pytest.raises(RuntimeError, match="conversion requires blocksize"):
        dense.to_sparse(layout=mt.sparse_bsr)


def test_blocks_may_get_another_size():
    dense = random(4, 6)
    for s in (dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_bsr((2, 3)), dense.to_sparse_bsc((2, 2))):
        made = s.to_sparse_bsr((4, 2))
        assert made.values().shape[1:] == (4, 2)
        assert made.to_dense().tolist() == dense.tolist()


@pytest.mark.parametrize("dtype", [mt.bool, mt.uint8, mt.int32, mt.int64, mt.float16, mt.bfloat16, mt.complex64])
def test_every_dtype_is_kept(dtype):
    dense = mt.tensor([[0, 1, 1], [1, 0, 0]]).to(dtype)
    s = dense.to_sparse()
    assert s.dtype is dtype
    assert s.to_dense().tolist() == dense.tolist()
    wide = mt.complex128 if dtype is mt.complex64 else mt.float64
    assert s.to(wide).to_dense().tolist() == dense.to(wide).tolist()
    twice = mt.sparse_coo_tensor([[0, 0]], mt.tensor([1, 1]).to(dtype), (2,)).coalesce()
    assert twice.values().tolist() == [True if dtype is mt.bool else 2]


def test_text():
    s = coo()
    assert repr(s) == (
        "tensor(indices=tensor([[0, 1, 1, 0],\n                       [2, 0, 2, 2]]),\n"
        "       values=tensor([3., 4., 5., 6.]),\n       size=(2, 3), nnz=4, layout=minitensor.sparse_coo)"
    )
    assert repr(mt.sparse_coo_tensor((2, 3))) == (
        "tensor(indices=tensor([], size=(2, 0)),\n       values=tensor([], size=(0,)),\n"
        "       size=(2, 3), nnz=0, layout=minitensor.sparse_coo)"
    )
    assert repr(s.to_sparse_csr()) == (
        "tensor(crow_indices=tensor([0, 1, 3]),\n       col_indices=tensor([2, 0, 2]),\n"
        "       values=tensor([9., 4., 5.]), size=(2, 3), nnz=3,\n       layout=minitensor.sparse_csr)"
    )
    assert "requires_grad=True" in repr(coo(requires_grad=True))
    assert "grad_fn=<" in repr(coo(requires_grad=True) * 2)
    assert f"{s}" == str(s) == repr(s)
    assert s.type() == "minitensor.sparse.FloatTensor"


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Sparse")
def test_text_and_components_are_pytorchs():
    torch = pytest.importorskip("torch")

    for lib in (mt, torch):
        lib.manual_seed(0)
    array = random(4, 6, dtype="float32").numpy()
    for make in (
        lambda lib: lib.tensor(array).to_sparse(),
        lambda lib: lib.tensor(array).to_sparse_csr(),
        lambda lib: lib.tensor(array).to_sparse_csc(),
        lambda lib: lib.tensor(array).to_sparse_bsr((2, 3)),
        lambda lib: lib.tensor(array).to_sparse_bsc((2, 2)),
        lambda lib: lib.tensor(array).to_sparse(1),
        lambda lib: lib.tensor(array).to_sparse().t(),
        lambda lib: lib.tensor(array).to_sparse().t().coalesce(),
        lambda lib: lib.zeros(2, 3, dtype=lib.int32).to_sparse(),
    ):
        ours, theirs = repr(make(mt)), repr(make(torch))
        assert ours.replace("minitensor.", "torch.").split() == theirs.split()


@pytest.mark.parametrize("layout", [mt.sparse_coo, *COMPRESSED], ids=str)
def test_copies_and_files(layout):
    s = as_layout(random(4, 6), layout)

    def same(other):
        assert other.layout is layout
        assert other.to_dense().tolist() == s.to_dense().tolist()
        return other

    for made in (copy.copy(s), copy.deepcopy(s), pickle.loads(pickle.dumps(s)), s.clone(), s.detach()):
        same(made)
    if layout is mt.sparse_coo:
        assert pickle.loads(pickle.dumps(s)).is_coalesced()
    apart = copy.deepcopy(s)
    apart.zero_()
    assert s.to_dense().count_nonzero() > 0 == apart.to_dense().count_nonzero()
    file = io.BytesIO()
    mt.save({"s": s, "x": mt.ones(2)}, file)
    file.seek(0)
    same(mt.load(file)["s"])


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_bsc"])
def test_pytorch_reads_what_was_saved_and_the_other_way(layout):
    torch = pytest.importorskip("torch")

    array = random(4, 6, dtype="float32").numpy()
    blocks = {"blocksize": (2, 3)} if layout == "sparse_bsc" else {}
    for writer, reader in ((mt, torch), (torch, mt)):
        file = io.BytesIO()
        writer.save(writer.tensor(array).to_sparse(layout=getattr(writer, layout), **blocks), file)
        file.seek(0)
        read = reader.load(file)
        assert read.layout is getattr(reader, layout)
        np.testing.assert_array_equal(read.to_dense().numpy(), array)


def test_files_with_wrong_indices_are_refused():
    file = io.BytesIO()
    mt.save(mt.sparse_coo_tensor([[5]], [1.0], (2,)), file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="size is inconsistent with indices"):
        mt.load(file)


def test_modules_keep_sparse_parameters_and_buffers():
    module = mt.nn.Module()
    module.weight = mt.nn.Parameter(mt.eye(3).to_sparse())
    module.register_buffer("graph", mt.eye(2).to_sparse_csr())
    assert isinstance(module.weight, mt.nn.Parameter)
    assert module.weight.requires_grad
    assert repr(module.weight).startswith("Parameter containing:\ntensor(indices=")
    other = copy.deepcopy(module)
    other.weight.data.mul_(3)
    file = io.BytesIO()
    mt.save(other.state_dict(), file)
    file.seek(0)
    module.load_state_dict(mt.load(file))
    assert module.weight.to_dense().tolist() == (3 * mt.eye(3)).tolist()
    module.double()
    assert module.weight.dtype is module.graph.dtype is mt.float64


def test_sparse_mask():
    dense = mt.arange(6.0).reshape(2, 3)
    masked = dense.sparse_mask(coo())
    assert masked._values().tolist() == [2.0, 3.0, 5.0, 2.0]
    csr = dense.sparse_mask(coo().to_sparse_csr())
    assert csr.layout is mt.sparse_csr
    assert csr.values().tolist() == [2.0, 3.0, 5.0]
    sparse = mt.tensor([[0.0, 7, 0], [8, 0, 0]]).to_sparse().sparse_mask(coo().coalesce())
    assert sparse.values().tolist() == [0.0, 8.0, 0.0]
    with pytest.raises(RuntimeError, match="incompatible sizes"):
        mt.ones(3, 2).sparse_mask(coo())


def test_sizes_change_in_place():
    s = mt.sparse_coo_tensor([[1]], [2.0], (3,))
    assert s.sparse_resize_((5,), 1, 0) is s
    assert s.to_dense().tolist() == [0, 2, 0, 0, 0]
    with pytest.raises(RuntimeError, match="shrinking"):
        s.sparse_resize_((2,), 1, 0)
    s.sparse_resize_and_clear_((2, 2), 1, 1)
    assert s.shape == (2, 2)
    assert s._nnz() == 0
    like = mt.zeros_like(coo())
    assert like.layout is mt.sparse_coo
    assert like.shape == (2, 3)
    assert like._nnz() == 0
    assert mt.empty_like(coo().to_sparse_csr()).shape == (2, 3)
    for make in (mt.zeros_like, mt.empty_like):
        assert not make(coo()).requires_grad
        assert make(coo(), requires_grad=True).requires_grad
    s = coo()
    s.copy_(mt.eye(2, 3).to_sparse())
    assert s.to_dense().tolist() == mt.eye(2, 3).tolist()


def test_assert_close_compares_components():
    s, same = coo(), coo()
    close = mt.testing.assert_close
    close(s, same)
    close(s, s.coalesce())
    close(s.to_sparse_csr(), s.to_sparse_csr())
    close(s, s.to_dense(), check_layout=False)
    for other, message in (
        (s * 2, "Sparse COO values are not close!\n\nMismatched elements: 4 / 4"),
        (mt.ones(2, 3).to_sparse(), "The number of specified values in sparse COO tensors does not match: 3 != 6"),
        (s.to_dense(), "The values for attribute 'layout' do not match"),
        (s.to_sparse_csr(), "The values for attribute 'layout' do not match"),
        (s.double(), "The values for attribute 'dtype' do not match"),
    ):
        with pytest.raises(AssertionError, match=message):
            close(s, other)
    moved = mt.tensor([[3.0, 0, 9], [4, 0, 0]]).to_sparse_csr()
    with pytest.raises(AssertionError, match="Sparse CSR crow_indices are not equal"):
        close(s.to_sparse_csr(), moved)


def test_an_empty_one_by_its_size():
    made = mt.sparse_coo_tensor(size=(5, 3))
    assert (made.shape, made._nnz(), made.dtype) == ((5, 3), 0, mt.float32)
    for given in ({}, {"values": mt.ones(1)}, {"indices": [[0]], "size": (1,)}):
        with pytest.raises(TypeError, match="takes a size, or indices and values"):
            mt.sparse_coo_tensor(**given)
