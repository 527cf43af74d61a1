"""Semi-structured matrices: two of four neighbours in a row are zero."""

import copy
import io
import pickle

import pytest

import minitensor as mt
from minitensor import nn, sparse
from minitensor.sparse import semi_structured_codes as codes

CUTLASS, CUSPARSELT = sparse.SparseSemiStructuredTensorCUTLASS, sparse.SparseSemiStructuredTensorCUSPARSELT
DTYPES = {
    CUTLASS: ["int8", "float16", "bfloat16", "float32"],
    CUSPARSELT: ["int8", "float16", "bfloat16", "float8_e4m3fn"],
}
BOTH = [(kind, dtype) for kind, dtypes in DTYPES.items() for dtype in dtypes]
pytestmark = pytest.mark.filterwarnings("ignore:SparseSemiStructuredTensor is a prototype")


def dense_of(dtype, rows=64, columns=128, seed=0):
    """A matrix of small whole numbers of which at least two of four, of float32 one of two, are zero."""
    generator = mt.Generator().manual_seed(seed)
    numbers = mt.randint(-4, 5, (rows, columns), generator=generator)
    group, most = (2, 1) if dtype == "float32" else (4, 2)
    ranks = mt.rand(rows, columns // group, group, generator=generator).argsort(-1).argsort(-1)
    return (numbers * (ranks < most).view(rows, columns)).to(getattr(mt, dtype))


def as_numbers(tensor):
    return tensor.float().tolist()


@pytest.mark.parametrize(("kind", "dtype"), BOTH)
def test_there_and_back(kind, dtype):
    dense = dense_of(dtype)
    packed = kind.from_dense(dense)
    assert type(packed) is kind
    assert (packed.shape, packed.dtype, packed.device) == (dense.shape, dense.dtype, dense.device)
    assert repr(packed) == f"{kind.__name__}(shape={dense.shape})"
    assert as_numbers(packed.to_dense()) == as_numbers(dense)
    assert packed.values().shape == (64, 64)
    parts = [packed.packed, packed.meta]
    size = sum(part.numel() * part.element_size() for part in parts if part is not None)
    bits = 4 if dtype == "float32" else 2  # of the place of each number that is kept
    assert size * 8 == 64 * 64 * (dense.element_size() * 8 + bits)
    assert (packed.packed_t, packed.meta_t, packed.compressed_swizzled_bitmask) == (None, None, None)
    assert as_numbers(packed.t().t().to_dense()) == as_numbers(dense)
    assert as_numbers(packed.t().to_dense()) == as_numbers(dense.t())


@pytest.mark.parametrize("dtype", DTYPES[CUTLASS])
@pytest.mark.parametrize("full", [False, True], ids=["half", "full"])
def test_parts_are_pytorchs(dtype, full):
    """Of matrices with too many numbers, too: the same ones are left out."""
    torch = pytest.importorskip("torch")
    from torch.sparse._semi_structured_conversions import sparse_semi_structured_from_dense_cutlass

    if full:
        dense = mt.randint(-1, 2, (64, 256), generator=mt.Generator().manual_seed(3)).to(getattr(mt, dtype))
    else:
        dense = dense_of(dtype, columns=256)
    packed = CUTLASS.from_dense(dense)
    theirs = torch.tensor(dense.tolist(), dtype=getattr(torch, dtype))
    values, meta = sparse_semi_structured_from_dense_cutlass(theirs)
    assert packed.values().tolist() == values.tolist()
    assert packed.indices().tolist() == meta.tolist()
    assert packed.indices().dtype.name == str(meta.dtype).removeprefix("torch.")


def test_pruning_is_pytorchs():
    torch = pytest.importorskip("torch")
    from torch.sparse._semi_structured_conversions import _sparse_semi_structured_tile

    dense = mt.randint(-3, 4, (32, 64), generator=mt.Generator().manual_seed(1)).to(mt.float32)
    theirs = _sparse_semi_structured_tile(torch.tensor(dense.tolist()))
    assert codes.pruned(dense).tolist() == theirs.tolist()


def test_pruned_matrices_are_packed_both_ways():
    dense = mt.randn(64, 64, generator=mt.Generator().manual_seed(1)).half()
    for kind in (CUTLASS, CUSPARSELT):
        packed = kind.prune_dense_static_sort(dense)
        kept = packed.to_dense()
        tiles = (kept != 0).view(16, 4, 16, 4)
        assert int(tiles.sum(1).max()) == int(tiles.sum(3).max()) == 2
        assert mt.equal(packed.t().to_dense(), kept.t())
        assert mt.equal(kept, codes.pruned(dense))
        assert mt.equal(kind._unpack(packed.packed_t, packed.meta_t, 64), kept.t())
        bits = packed.compressed_swizzled_bitmask
        assert (bits.shape, bits.dtype) == ((8, 8, 4, 2), mt.uint8)
        tile = (kept[:4, 4:8] != 0).flatten().tolist()  # the second of the four of the first block
        assert bits[0, 0, 1].tolist() == [sum(b << i for i, b in enumerate(tile[at : at + 8])) for at in (0, 8)]


@pytest.mark.parametrize(("kind", "dtype"), [one for one in BOTH if one[1] != "float8_e4m3fn"])
def test_products(kind, dtype):
    dense = dense_of(dtype)
    packed = kind.from_dense(dense)
    x = dense_of(dtype, 128, 32, seed=1)
    bias = mt.arange(64).to(dense.dtype)
    assert mt.equal(mt.mm(packed, x), dense @ x)
    assert mt.equal(packed @ x, dense @ x)
    y = x.t().contiguous()
    assert mt.equal(y @ packed.t(), y @ dense.t())
    assert mt.equal(mt.addmm(bias, y, packed.t()), (y @ dense.t()) + bias)
    if dense.dtype.is_floating_point:
        expected = nn.functional.linear(y.view(4, 8, 128), dense, bias)
        assert mt.equal(nn.functional.linear(y.view(4, 8, 128), packed, bias), expected)
        assert mt.equal(nn.functional.linear(y, packed), y @ dense.t())
    with pytest.raises(NotImplementedError, match="operation is not supported"):
        packed.t() @ mt.zeros(64, 2, dtype=dense.dtype)
    with pytest.raises(NotImplementedError, match="operation is not supported"):
        mt.zeros(2, 64, dtype=dense.dtype) @ packed
    with pytest.raises(ValueError, match="is not supported"):
        packed @ packed
    with pytest.raises(NotImplementedError, match="one dtype"):
        packed @ x.double()
    with pytest.raises(NotImplementedError, match="Broadcasting"):
        packed @ x[None]


def test_what_is_packed_both_ways_is_multiplied_both_ways():
    packed = CUTLASS.prune_dense_static_sort(mt.randn(64, 64, generator=mt.Generator().manual_seed(2)).half())
    dense = packed.to_dense()
    x = mt.randn(64, 8).half()
    assert mt.equal(packed.t() @ x, dense.t().contiguous() @ x)
    assert mt.equal(x.t() @ packed, x.t() @ dense)


def test_linear_layers(monkeypatch):
    monkeypatch.setattr(sparse.SparseSemiStructuredTensor, "_FORCE_CUTLASS", True)
    layer = nn.Linear(64, 32)
    with mt.no_grad():
        layer.weight.copy_(dense_of("float32", 32, 64))
    x = mt.randn(5, 64, requires_grad=True)
    expected = layer(x)
    expected.square().sum().backward()
    gradients = x.grad.clone(), layer.weight.grad, layer.bias.grad.clone()
    x.grad = layer.bias.grad = None
    layer.weight = nn.Parameter(sparse.to_sparse_semi_structured(layer.weight))
    assert isinstance(layer.weight, nn.Parameter)
    assert isinstance(layer.weight, CUTLASS)
    assert layer.weight.requires_grad
    assert dict(layer.named_parameters())["weight"] is layer.weight
    out = layer(x)
    assert mt.equal(out, expected)
    out.square().sum().backward()
    for got, wanted in zip((x.grad, layer.weight.grad, layer.bias.grad), gradients, strict=True):
        assert mt.equal(got, wanted)
    for again in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert isinstance(again.weight, nn.Parameter)
        assert mt.equal(again(x), expected)
    file = io.BytesIO()
    mt.save(layer.state_dict(), file)
    file.seek(0)
    loaded = mt.load(file, weights_only=False)
    assert type(loaded["weight"]) is CUTLASS
    assert mt.equal(loaded["weight"].to_dense(), layer.weight.to_dense())
    with mt.inference_mode():
        assert mt.equal(layer(x), expected)


def test_copies():
    packed = CUTLASS.from_dense(dense_of("float16"))
    for made in (packed.clone(), copy.deepcopy(packed)):
        made.packed.zero_()
        assert int((packed.to_dense() != 0).sum()) > 0
        assert int((made.to_dense() != 0).sum()) == 0
    assert packed.detach().packed.data_ptr() == packed.packed.data_ptr()
    assert packed.view(64, 128) is packed
    assert packed.to("cpu") is packed
    assert mt.equal(packed.to(mt.float32), packed.to_dense().float())
    assert mt.equal(packed.to_dense(mt.float32), packed.to_dense().float())


def test_functions_save_them():
    class Product(mt.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(weight)
            return x @ weight.t()

        @staticmethod
        def backward(ctx, gradient):
            (weight,) = ctx.saved_tensors
            return gradient @ weight.to_dense(), None

    packed = CUTLASS.from_dense(dense_of("float32"))
    x = mt.randn(3, 128, requires_grad=True)
    Product.apply(x, packed).sum().backward()
    assert mt.equal(x.grad, mt.ones(3, 64) @ packed.to_dense())


def test_errors():
    with pytest.raises(RuntimeError, match="dim = 1 is not supported"):
        CUTLASS.from_dense(mt.zeros(32))
    with pytest.raises(RuntimeError, match="not contiguous"):
        CUTLASS.from_dense(mt.zeros(64, 64).t()[:, ::2])
    with pytest.raises(RuntimeError, match="float64 is not a supported dtype"):
        CUTLASS.from_dense(mt.zeros(64, 64, dtype=mt.float64))
    with pytest.raises(RuntimeError, match=r"multiple of \(32, 32\)"):
        CUTLASS.from_dense(mt.zeros(48, 64))
    with pytest.raises(RuntimeError, match="float32 is not a supported dtype"):
        sparse.to_sparse_semi_structured(mt.zeros(64, 64))
    with pytest.raises(ValueError, match="At least one of packed or packed_t"):
        CUTLASS((32, 32), None, None, None, None, None)
    with pytest.raises(RuntimeError, match="takes float16 and bfloat16, not"):
        CUTLASS.prune_dense_static_sort(mt.zeros(64, 64))
    packed = sparse.to_sparse_semi_structured(dense_of("float16"))
    for call in (lambda: packed + 1, lambda: packed.sum(), lambda: packed[0], lambda: packed.reshape(-1)):
        with pytest.raises(NotImplementedError, match="only supports a specific set of operations"):
            call()
    with pytest.raises(NotImplementedError, match="its own shape only"):
        packed.view(-1)
    eighths = sparse.to_sparse_semi_structured(dense_of("float8_e4m3fn"))
    with pytest.raises(NotImplementedError, match="not supported for float8_e4m3fn"):
        eighths @ mt.zeros(128, 2).to(mt.float8_e4m3fn)
    with pytest.warns(FutureWarning, match="transposed is deprecated"):
        sparse.to_sparse_semi_structured(dense_of("float16"), transposed=True)
