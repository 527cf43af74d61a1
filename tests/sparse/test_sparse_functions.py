"""What sparse tensors compute, against what the dense ones do."""

import numpy as np
import pytest
from sparse_cases import COMPRESSED, as_layout, coo, random

import minitensor as mt

LAYOUTS = (mt.sparse_coo, *COMPRESSED)


def close(made, wanted, **more):
    made = made.to_dense() if made.layout is not mt.strided else made
    np.testing.assert_allclose(made.detach().numpy(), wanted.detach().numpy(), rtol=1e-12, atol=1e-12, **more)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_products_with_dense_matrices(layout):
    dense, b, c = random(6, 9), random(9, 4, seed=1, part=1), random(5, 6, seed=2, part=1)
    s = as_layout(dense, layout)
    for made in (mt.sparse.mm(s, b), mt.mm(s, b), s @ b, s.matmul(b), mt.spmm(s, b), s.mm(b)):
        close(made, dense @ b)
    close(c @ s, c @ dense)
    close(mt.mm(c, s), c @ dense)
    close(mt.mv(s, b[:, 0]), dense @ b[:, 0])
    close(s @ b[:, 0], dense @ b[:, 0])
    close(c[0] @ s, c[0] @ dense)
    close(mt.addmm(mt.ones(4).double(), s, b, beta=2, alpha=3), 2 + 3 * (dense @ b))
    close(mt.sparse.addmm(mt.ones(6, 4).double(), s, b, alpha=0.5), 1 + 0.5 * (dense @ b))
    close(mt.nn.functional.linear(b.t(), s), mt.nn.functional.linear(b.t(), dense))
    with pytest.raises(RuntimeError, match=r"mat1 and mat2 shapes cannot be multiplied \(6x9 and 6x9\)"):
        s @ dense
    with pytest.raises(RuntimeError, match="expected m1 and m2 to have the same dtype"):
        s @ b.float()


@pytest.mark.parametrize("dtype", [mt.float16, mt.bfloat16, mt.float32, mt.int64, mt.int32, mt.complex128])
def test_products_in_other_dtypes(dtype):
    dense = mt.tensor([[0, 1, 2], [3, 0, 0]]).to(dtype)
    b = mt.tensor([[1, 2], [3, 4], [5, 6]]).to(dtype)
    made = dense.to_sparse_csr() @ b
    assert made.dtype is dtype
    assert made.tolist() == [[13, 16], [3, 6]]


def test_products_of_long_rows_and_of_none():
    for rows, cols, n in ((1, 200, 33), (3, 0, 2), (0, 3, 2), (4, 5, 0), (40, 300, 1), (7, 64, 129)):
        dense, b = random(rows, cols, part=0.7), random(cols, n, seed=1, part=1)
        close(dense.to_sparse() @ b, dense @ b)


def test_products_of_sparse_matrices():
    a, b = random(6, 5), random(5, 7, seed=1)
    made = mt.sparse.mm(a.to_sparse(), b.to_sparse())
    assert made.layout is mt.sparse_coo
    assert made.is_coalesced()
    close(made, a @ b)
    assert (a.to_sparse_csr() @ b.to_sparse_csr()).layout is mt.sparse_csr
    close(a.to_sparse_csr() @ b.to_sparse_csr(), a @ b)
    uncoalesced = mt.cat([a.to_sparse(), a.to_sparse()], 1)
    close(uncoalesced @ mt.cat([b, b]).to_sparse(), 2 * (a @ b))


def test_batches_of_products():
    a, b = random(3, 4, 5), random(3, 5, 2, seed=1, part=1)
    close(mt.bmm(a.to_sparse(), b), mt.bmm(a, b))
    close(a.to_sparse() @ b, a @ b)


def test_products_that_stay_sparse():
    a = random(5, 4, part=0.2)
    b = random(4, 3, seed=1, part=1)
    c = random(5, 3, seed=2)
    rows = mt.hspmm(a.to_sparse(), b)
    assert rows.sparse_dim() == 1
    assert rows.dense_dim() == 1
    close(rows, a @ b)
    close(mt.smm(a.to_sparse(), b), a @ b)
    close(mt.sspaddmm(c.to_sparse(), a.to_sparse(), b, beta=2, alpha=3), 2 * c + 3 * (a @ b))


def test_reduced_products():
    a = mt.tensor([[1.0, 0, -2], [0, 0, 0], [0, 3, 4]])
    b = mt.tensor([[1.0, -1], [2, 0], [3, 5]])
    csr = a.to_sparse_csr()
    parts = a.unsqueeze(2) * b.unsqueeze(0)
    for name, wanted in (
        ("sum", parts.sum(1)),
        ("mean", mt.stack([parts[0].sum(0) / 2, mt.zeros(2), parts[2].sum(0) / 2])),
        ("amax", mt.tensor([[1.0, -1], [0, 0], [12, 20]])),
        ("amin", mt.tensor([[-6.0, -10], [0, 0], [6, 0]])),
    ):
        close(mt.sparse.mm(csr, b, name), wanted)
    with pytest.raises(RuntimeError, match="reduce argument must be either"):
        mt.sparse.mm(csr, b, "other")


def test_sampled_addmm():
    places = random(4, 5)
    a, b = random(4, 3, seed=1, part=1), random(3, 5, seed=2, part=1)
    made = mt.sparse.sampled_addmm(places.to_sparse_csr(), a, b, beta=2.0, alpha=0.5)
    assert made.layout is mt.sparse_csr
    close(made, (0.5 * (a @ b) + 2 * places) * (places != 0))
    with pytest.raises(RuntimeError, match="Expected input to have layout sparse_csr, but got Sparse"):
        mt.sparse.sampled_addmm(places.to_sparse(), a, b)


def test_diagonals():
    scipy = pytest.importorskip("scipy.sparse")
    diagonals, offsets = np.arange(1.0, 13).reshape(3, 4), [0, -1, 2]
    for shape in ((4, 4), (3, 5), (5, 3), (2, 2)):
        made = mt.sparse.spdiags(mt.tensor(diagonals), mt.tensor(offsets), shape, layout=mt.sparse_csr)
        wanted = scipy.spdiags(diagonals, offsets, *shape).toarray()
        np.testing.assert_array_equal(made.to_dense().numpy(), wanted)
    none = mt.sparse.spdiags(mt.ones(0, 3), mt.tensor([], dtype=mt.int64), (2, 3))
    assert (none._nnz(), none.to_dense().tolist()) == (0, [[0.0] * 3] * 2)
    with pytest.raises(RuntimeError, match="duplicate"):
        mt.sparse.spdiags(mt.ones(2, 3), mt.tensor([1, 1]), (3, 3))


def test_sums():
    dense = random(4, 5, 3)
    for s in (dense.to_sparse(), dense.to_sparse(2)):
        close(s.sum(), dense.sum())
        close(mt.sparse.sum(s), dense.sum())
        for dim in (0, 1, 2, -1, (0, 1), (0, 2), (1, 2), (0, 1, 2)):
            close(mt.sparse.sum(s, dim), dense.sum(dim))
            close(s.sum(dim), dense.sum(dim))
            close(s.sum(dim, keepdim=True), dense.sum(dim, keepdim=True))
    assert mt.tensor([1, 2]).to_sparse().sum(dtype=mt.float64).dtype is mt.float64
    csr = dense[0].to_sparse_csr()
    close(csr.sum(0, keepdim=True), dense[0].sum(0, keepdim=True))
    with pytest.raises(RuntimeError, match="keepdim=False is unsupported"):
        csr.sum(0)
    with pytest.raises(IndexError, match="Dimension out of range"):
        mt.sparse.sum(dense.to_sparse(), 3)


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("sparse_dims", [1, 2, 3])
def test_softmax(dim, sparse_dims):
    dense = random(4, 5, 3)
    s = dense.to_sparse(sparse_dims)
    there = mt.sparse_coo_tensor(s.indices(), mt.ones_like(s.values()), s.shape).to_dense() != 0
    absent = mt.where(there, dense, -mt.inf)
    for name in ("softmax", "log_softmax"):
        wanted = mt.where(there, getattr(mt, name)(absent, dim), 0.0)
        close(getattr(mt.sparse, name)(s, dim), wanted)


def test_elementwise():
    a, b = random(4, 5), random(4, 5, seed=1)
    for layout in (mt.sparse_coo, mt.sparse_csr, mt.sparse_csc):
        s, t = as_layout(a, layout), as_layout(b, layout)
        for made, wanted in (
            (s + t, a + b), (s - t, a - b), (s * t, a * b), (s * 2, 2 * a), (2.5 * s, 2.5 * a), (s / 4, a / 4),
            (-s, -a),
            (mt.add(s, t, alpha=3), a + 3 * b), (abs(s), abs(a)), (s * b, a * b), (b * s, a * b), (b + s, a + b),
            (b - s, b - a), (s**2, a**2), (mt.sin(s), mt.sin(a)), (s.relu(), a.relu()), (s.sign(), a.sign()),
            (mt.tanh(s), mt.tanh(a)), (s * mt.tensor(3.0).double(), 3 * a), (s // 0.3, a // 0.3),
            (mt.nn.functional.relu(s), a.relu()),
        ):  # fmt: skip
            close(made, wanted)
    s = coo()
    close(s.sqrt(), s.to_dense().sqrt())  # of the sums
    close(s * mt.tensor([1.0, 2, 3]), s.to_dense() * mt.tensor([1.0, 2, 3]))
    with pytest.raises(RuntimeError, match=r"add\(sparse, dense\) is not supported. Use add\(dense, sparse\) instead."):
        s + 1
    with pytest.raises(RuntimeError, match="same size"):
        s + mt.eye(2).to_sparse()
    with pytest.raises(RuntimeError, match="Sparse division requires a scalar or zero-dim dense tensor divisor"):
        s / s.to_dense()
    with pytest.raises(RuntimeError, match="cannot raise to zeroth power"):
        s**0


def test_in_place():
    a, b = random(4, 5), random(4, 5, seed=1)
    s = a.to_sparse()
    same = s
    s.add_(b.to_sparse()).mul_(2)
    s += b.to_sparse()
    s /= 2
    assert s is same
    close(s, ((a + b) * 2 + b) / 2)
    d = a.clone()
    d.add_(b.to_sparse(), alpha=-2)
    close(d, a - 2 * b)
    turned = mt.zeros(5, 4).double().t()
    turned += b.to_sparse()
    close(turned, b)
    values = s._values()
    s.neg_()
    assert values.tolist() == s._values().tolist()


def test_shapes():
    dense = random(3, 4, 5)
    for s in (dense.to_sparse(), dense.to_sparse(2)):
        close(s.transpose(0, 1), dense.transpose(0, 1))
        close(s.unsqueeze(1), dense.unsqueeze(1))
        close(s.unsqueeze(-1), dense.unsqueeze(-1))
        close(s.unsqueeze(1).squeeze(1), dense)
        close(mt.cat([s, s * 2]), mt.cat([dense, 2 * dense]))
        close(mt.cat([s, s], 2), mt.cat([dense, dense], 2))
        close(mt.stack([s, s]), mt.stack([dense, dense]))
        for dim in range(3):
            close(s.select(dim, 1), dense.select(dim, 1))
            close(s.narrow_copy(dim, 1, 2), dense.narrow(dim, 1, 2))
            index = mt.tensor([2, 0, 2, 1])
            close(s.index_select(dim, index), dense.index_select(dim, index))
        for key in (1, (1, 2), (slice(None), 2), slice(1, 3), (slice(0, 2), slice(1, 3)), (..., 1), None, [0, 2]):
            close(s[key], dense[key])
        close(s[:, [0, 2], 1], dense[:, :, 1][:, [0, 2]])
        assert [row.shape for row in s] == [(4, 5)] * 3
    close(dense.to_sparse().permute(2, 0, 1), dense.permute(2, 0, 1))
    with pytest.raises(RuntimeError, match="sparse dimensions can't be swapped with dense ones"):
        dense.to_sparse(2).transpose(0, 2)
    matrix = dense[0]
    assert matrix.to_sparse_csr().t().layout is mt.sparse_csc
    for layout in LAYOUTS:
        whole = random(4, 6)
        close(as_layout(whole, layout).t(), whole.t())
        close(as_layout(whole, layout).t() @ whole, whole.t() @ whole)
    with pytest.raises(IndexError, match="out of range"):
        dense.to_sparse().select(0, 3)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_what_doesnt_know_sparse_tensors_says_so(layout):
    s = as_layout(random(6, 6), layout)
    name = repr(layout)
    for function in (
        mt.exp, mt.cos, mt.sort, mt.linalg.inv, mt.nn.functional.gelu, mt.logsumexp, lambda x: x.view(36),
        lambda x: mt.where(x, 1, 2), lambda x: mt.nn.functional.conv1d(x, x), lambda x: x == x, lambda x: x.max(),
        lambda x: mt.einsum("ij,jk", x, x), lambda x: x.as_strided((2,), (1,)), lambda x: x.__setitem__(0, 1),
        mt.ones_like, lambda x: x.nonzero(), lambda x: mt.ones(6, 6).double().index_add_(0, mt.arange(6), x),
    ):  # fmt: skip
        with pytest.raises(NotImplementedError, match=f"is not implemented for tensors of layout {name}"):
            function(s)
    for function in (mt.Tensor.data_ptr, mt.Tensor.untyped_storage, memoryview, mt.Tensor.tolist, mt.Tensor.item):
        with pytest.raises(RuntimeError, match=r"storage|sparse|converted to Scalar"):
            function(s)
    with pytest.raises(TypeError, match="to_dense"):
        s.numpy()
    # Also where nobody takes calls over.
    with mt._C.DisableTorchFunctionSubclass():
        for function in (mt.exp, mt.sort, lambda x: x.view(36)):
            with pytest.raises(NotImplementedError, match=f"not implemented for tensors of layout {name}"):
                function(s)
        for function in (mt.Tensor.data_ptr, mt.Tensor.tolist, lambda x: x.fill_(1), lambda x: x.resize_(3)):
            with pytest.raises(RuntimeError, match="storage of a tensor in a sparse layout"):
                function(s)
    with pytest.raises(RuntimeError, match=r"vmap doesn't map|movedim"):
        mt.vmap(mt.sin)(s)


@pytest.mark.filterwarnings("ignore")
def test_every_function_takes_sparse_tensors_or_refuses_them():
    s, dense = coo(), mt.rand(2, 3)
    csr, blocks = s.to_sparse_csr(), mt.eye(4).to_sparse_bsr((2, 2))
    functions = [f for several in mt.overrides.get_overridable_functions().values() for f in several]
    functions += [row.call for row in mt.ops.ROWS.values()]
    given = (
        (s,), (csr,), (blocks,), (s, s), (dense, s), (s, dense), (s, 1), ([s, s],), ([dense, s],), (s, 0, 1),
        (s, 0, mt.tensor([0, 1])), (dense, 0, s), (dense, dense, s), (csr, dense.t()), (s, (0,)),
    )  # fmt: skip
    refusals = (TypeError, RuntimeError, ValueError, IndexError, BufferError)
    taken = 0
    for function in functions:
        for args in given:
            fresh = [x.clone() if isinstance(x, mt.Tensor) else x for x in args]
            for nobody_asked in (False, True):
                try:
                    if nobody_asked:
                        with mt._C.DisableTorchFunctionSubclass():
                            made = function(*fresh)
                    else:
                        made = function(*fresh)
                    repr(made)
                    taken += 1
                except refusals:
                    continue
                except AttributeError as error:
                    assert isinstance(error.obj, list), (function, args)  # noqa: PT017  (an attribute of a list)
    assert taken > 500


def test_threads_and_instruction_sets_give_the_same_bits():
    dense, b = random(500, 300, part=0.1, dtype="float32"), random(300, 37, seed=1, part=1, dtype="float32")
    s = dense.to_sparse_csr()
    before = mt.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 3):
            mt.set_num_threads(threads)
            found.append((s @ b).numpy().tobytes())
    finally:
        mt.set_num_threads(before)
    assert len(set(found)) == 1
    # In the order of a row's elements, each product rounded before it is added.
    wanted = np.zeros((500, 37), np.float32)
    crow, col, values = (x.numpy() for x in (s.crow_indices(), s.col_indices(), s.values()))
    for row in range(500):
        for e in range(crow[row], crow[row + 1]):
            wanted[row] += values[e] * b.numpy()[col[e]]
    assert (s @ b).numpy().tobytes() == wanted.tobytes()


def test_recorded_programs_give_the_same_bits():
    i, v, b = mt.tensor(coo()._indices().tolist()), mt.tensor([3.0, 4, 5, 6]), mt.rand(3, 4)
    s = coo()

    def program(v, b):
        t = mt.sparse_coo_tensor(i, mt.tanh(v) * 2, (2, 3))
        leaf = mt.sparse_coo_tensor(i, v.detach() * 2, (2, 3)).requires_grad_()
        out = mt.sparse.mm(leaf, b) * 3 + mt.sparse.mm(s, b)
        out.sum().backward()
        return out, (t * 2).coalesce().to_dense(), leaf.grad.to_dense(), mt.sparse.softmax(t, 1).to_dense()

    eager = [x.detach().numpy().tobytes() for x in program(v, b)]
    with mt.jit_scope():
        recorded = program(v, b)
    assert [x.detach().numpy().tobytes() for x in recorded] == eager
    compiled = mt.function(program)
    for _ in range(3):
        assert [x.detach().numpy().tobytes() for x in compiled(v, b)] == eager


def test_compiled_functions_take_and_give_sparse_tensors():
    b = mt.rand(3, 4)
    product = mt.function(lambda s, b: mt.sparse.mm(s, b) + 1)
    same = mt.function(lambda s: s)
    twice = mt.function(lambda v: mt.sparse_coo_tensor(mt.tensor([[0, 1]]), v * 2, (3,)))
    for scale in (1.0, 2.0, 3.0):
        s = coo() * scale
        assert product(s, b).tolist() == (mt.sparse.mm(s, b) + 1).tolist()
        assert same(s).to_dense().tolist() == s.to_dense().tolist()
        assert twice(mt.tensor([1.0, scale])).to_dense().tolist() == [2.0, 2 * scale, 0.0]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_norms_and_powers(layout):
    dense = random(6, 9)
    s, array = as_layout(dense, layout), dense.numpy()
    there = np.abs(array[array != 0])
    for p, wanted in [
        ("fro", (there**2).sum() ** 0.5), (2, (there**2).sum() ** 0.5), (1, there.sum()),
        (3.0, (there**3).sum() ** (1 / 3)), (float("inf"), there.max()), (0, len(there)),
    ]:  # fmt: skip
        np.testing.assert_allclose([s.norm(p).item(), mt.norm(s, p).item()], wanted, rtol=1e-12)
    np.testing.assert_allclose([s.norm().item(), mt.native_norm(s).item()], np.linalg.norm(array), rtol=1e-12)
    assert s.float().norm(1, dtype=mt.float64).dtype is mt.float64
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        s.norm("nuc")
    with pytest.raises(NotImplementedError, match="norm with dim"):
        s.norm(2, 0)
    close(s**2, dense**2)
    with pytest.raises(RuntimeError, match="zeroth power"):
        s**0
    assert s.any().item()
    assert not as_layout(mt.zeros(6, 9), layout).any().item()


def test_norms_and_powers_of_repeated_places():
    s = mt.sparse_coo_tensor([[0, 0, 1]], [1.0, 2.0, -2.0], (3,))
    assert [s.norm(1).item(), s.norm(2).item()] == pytest.approx([5.0, 13.0**0.5])
    assert (s**2).to_dense().tolist() == [9.0, 4.0, 0.0]
    assert not mt.sparse_coo_tensor([[0, 0]], [1.0, -1.0], (2,)).any().item()


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Sparse")
def test_results_are_pytorchs():
    torch = pytest.importorskip("torch")

    array = random(4, 6, dtype="float32").numpy()
    right = random(6, 3, seed=1, part=1, dtype="float32").numpy()
    programs = (
        lambda lib, s, d: s + s.t().t(), lambda lib, s, d: lib.sparse.mm(s, d), lambda lib, s, d: lib.hspmm(s, d),
        lambda lib, s, d: lib.sparse.sum(s, 0), lambda lib, s, d: s[1], lambda lib, s, d: lib.cat([s, s], 1),
        lambda lib, s, d: s.index_select(1, lib.tensor([3, 1])), lambda lib, s, d: lib.sparse.softmax(s, 1),
        lambda lib, s, d: lib.sparse.mm(s, s.t()), lambda lib, s, d: s * s, lambda lib, s, d: s.sum(1),
        lambda lib, s, d: s.to_sparse_csr() * 2, lambda lib, s, d: s.unsqueeze(0),
        lambda lib, s, d: s.sqrt().nan_to_num(),
    )  # fmt: skip
    for number, program in enumerate(programs):
        ours = program(mt, mt.tensor(array).to_sparse(), mt.tensor(right))
        theirs = program(torch, torch.tensor(array).to_sparse(), torch.tensor(right))
        assert repr(ours.layout).split(".")[1] == str(theirs.layout).split(".")[1], number
        if theirs.layout is torch.sparse_coo:
            assert (ours.sparse_dim(), ours.dense_dim()) == (theirs.sparse_dim(), theirs.dense_dim()), number
            ours, theirs = ours.coalesce(), theirs.coalesce()
            np.testing.assert_array_equal(ours.indices().numpy(), theirs.indices().numpy())
        np.testing.assert_allclose(ours.to_dense().numpy(), theirs.to_dense().numpy(), rtol=1e-6, atol=1e-6)
