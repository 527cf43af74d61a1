"""Functions of float16 and bfloat16 that compute in float32 and round once, at the end."""

import pytest

import minitensor as mt
from minitensor.nn import functional as F

HALVES = [mt.float16, mt.bfloat16]


def _attention(query, key, value, mask):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask.requires_grad_())


# A function, and its operands' shapes. The last product is large with few rows, and has a path of its own.
CASES = {
    "linear": (F.linear, [(8, 64), (32, 64), (32,)]),
    "linear of batches": (F.linear, [(2, 5, 64), (32, 64), (32,)]),
    "linear of a vector": (F.linear, [(64,), (32, 64), (32,)]),
    "linear, one bias": (F.linear, [(8, 64), (32, 64), (1,)]),
    "linear, several blocks": (F.linear, [(70, 1100), (90, 1100), (90,)]),
    "linear, few rows": (F.linear, [(3, 600), (200, 600), (200,)]),
    "linear, few columns": (F.linear, [(200, 600), (3, 600), (3,)]),
    "addmm": (mt.addmm, [(32,), (8, 64), (64, 32)]),
    "addmm, scaled": (lambda c, a, b: mt.addmm(c, a, b, beta=0.7, alpha=0.3), [(8, 32), (8, 64), (64, 32)]),
    "addmv": (mt.addmv, [(8,), (8, 64), (64,)]),
    "addbmm": (mt.addbmm, [(8, 5), (3, 8, 64), (3, 64, 5)]),
    "baddbmm": (mt.baddbmm, [(3, 8, 5), (3, 8, 64), (3, 64, 5)]),
    "addcmul": (lambda x, y, z: mt.addcmul(x, y, z, value=0.3), [(300,)] * 3),
    "glu": (F.glu, [(9, 64)]),
    "huber_loss": (lambda x, y: F.huber_loss(x, y, "none", 0.7), [(9, 64)] * 2),
    "attention with a trained mask": (_attention, [(2, 3, 16, 32)] * 3 + [(16, 16)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (64,), w, b), [(9, 64), (64,), (64,)]),
    "conv2d": (F.conv2d, [(2, 3, 9, 9), (4, 3, 3, 3), (4,)]),
}


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_rounds_once(case, dtype):
    function, shapes = CASES[case]
    mt.manual_seed(3)
    operands = [mt.randn(*shape).to(dtype) for shape in shapes]
    wide = [t.to(mt.float32) for t in operands]
    expected = function(*wide).to(dtype)
    assert mt.equal(function(*operands), expected)
    compiled = mt.function(function, jit_compile=True)
    assert mt.equal(compiled(*operands), expected)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize(
    "shapes", [[(8, 64), (32, 64), (32,)], [(3, 600), (200, 600), (200,)], [(64,), (32, 64), (32,)]]
)
def test_gradients_of_linear_are_those_of_a_product_and_a_sum(shapes, dtype):
    def gradients(function):
        mt.manual_seed(4)
        operands = [mt.randn(*shape).to(dtype).requires_grad_() for shape in shapes]
        result = function(*operands)
        return mt.autograd.grad(result, operands, mt.randn(*result.shape).to(dtype))

    fused, apart = gradients(F.linear), gradients(lambda x, w, b: x @ w.t() + b)
    assert all(mt.equal(one, other) for one, other in zip(fused, apart, strict=True))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_linear_equals_pytorch(dtype):
    torch = pytest.importorskip("torch")
    mt.manual_seed(5)
    operands = [mt.randint(-4, 5, shape).to(mt.float32) / 8 for shape in ((16, 48), (24, 48), (24,))]
    ours = F.linear(*(t.to(dtype) for t in operands))
    narrow = getattr(torch, str(dtype).split(".")[-1])
    theirs = torch.nn.functional.linear(*(torch.from_numpy(t.numpy()).to(narrow) for t in operands))
    assert (ours.to(mt.float32).numpy() == theirs.float().numpy()).all()


def _sums(x, y, number, alpha):
    """Sums and differences of halves with numbers, and with multiples."""
    return [
        x + number, number + x, x - number, number - x, x + mt.tensor(number),
        mt.add(x, y, alpha=alpha), mt.sub(x, y, alpha=alpha), mt.rsub(x, y, alpha=alpha),
        x.clone().add_(y, alpha=alpha), x.clone().sub_(y, alpha=alpha),
        mt.add(x, number, alpha=alpha), mt._foreach_add([x], number)[0],
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize(("number", "alpha"), [(0.1, 0.3), (-1.7, 3), (3.14159, -0.007)])
def test_sums_round_their_numbers_to_the_type_and_then_once(number, alpha, dtype):
    mt.manual_seed(5)
    x, y = (mt.randn(4000).to(dtype) for _ in range(2))
    round_to = lambda value: mt.tensor(value).to(dtype).item()  # noqa: E731
    expected = [t.to(dtype) for t in _sums(x.float(), y.float(), round_to(number), round_to(alpha))]
    compiled = mt.function(lambda x, y: _sums(x, y, number, alpha), jit_compile=True)
    with mt.jit_scope():
        recorded = _sums(x, y, number, alpha)
    for results in (_sums(x, y, number, alpha), compiled(x, y), recorded):
        assert all(mt.equal(a, b) for a, b in zip(results, expected, strict=True))


@pytest.mark.torch
def test_sums_of_halves_are_pytorchs():
    torch = pytest.importorskip("torch")
    bits = torch.arange(-32768, 32768, dtype=torch.int32).to(torch.int16)
    other = bits[torch.randperm(65536, generator=torch.Generator().manual_seed(6))]
    for name in ("float16", "bfloat16"):
        x, y = (t.view(getattr(torch, name)) for t in (bits, other))
        ours = [mt.from_numpy(t.numpy()).view(getattr(mt, name)) for t in (bits, other)]
        # Where a product is too large for float32 PyTorch's result goes by its place, in a vector or behind the last.
        usual = (x.float().abs() < 1e37) & (y.float().abs() < 1e37)
        for number, alpha in ((0.1, 0.3), (-1.7, 3)):
            calls = (
                lambda m, x, y, n=number: x + n, lambda m, x, y, n=number: n - x,
                lambda m, x, y, a=alpha: m.add(x, y, alpha=a), lambda m, x, y, a=alpha: m.rsub(x, y, alpha=a),
                lambda m, x, y, a=alpha: m._foreach_sub([x], [y], alpha=a)[0],
            )  # fmt: skip
            for place, call in enumerate(calls):
                expected, found = call(torch, x, y)[usual].view(torch.int16), call(mt, *ours)
                found = torch.from_numpy(found.view(mt.int16).numpy())[usual]
                assert torch.equal(expected, found), (name, number, alpha, place)


@pytest.mark.parametrize(("dtype", "name", "most"), [(mt.float16, "Half", 65504), (mt.bfloat16, "BFloat16", 3.3e38)])
def test_a_multiple_too_large_for_the_type_is_refused(dtype, name, most):
    x = mt.ones(2, dtype=dtype)
    assert mt.add(x, x, alpha=most).isfinite().all()
    assert mt.add(x, x, alpha=float("inf")).isinf().all()
    for call in (mt.add, mt.sub, mt.rsub, mt.Tensor.add_):
        with pytest.raises(RuntimeError, match=f"^value cannot be converted to type c10::{name} without overflow$"):
            call(x, x, alpha=most * 1.1)
