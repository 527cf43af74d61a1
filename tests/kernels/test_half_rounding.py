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
