"""The few ops that compute with floats of eight bits, as PyTorch's do on the CPU: in float32, rounded once."""

import pytest

import minitensor as mt
from minitensor import nn
from minitensor.nn.functional import ScalingType

NAMES = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
ALL = (*NAMES, "float8_e8m0fnu")
SUMS = ("sum", "mean", "prod", "nansum", "cumsum", "cumprod")
F = nn.functional


def numbers(name, *shape, seed=0):
    made = mt.randn(*shape, generator=mt.Generator().manual_seed(seed))
    return (made.abs() if name == "float8_e8m0fnu" else made).to(getattr(mt, name))


def same(a, b):
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    wide = [one.view(mt.uint8) if "float8" in one.dtype.name else one for one in (a, b)]
    assert mt.equal(*wide)


@pytest.mark.parametrize("name", ALL)
def test_products_of_elements(name):
    a, b = numbers(name, 4, 6), numbers(name, 4, 6, seed=1)
    wanted = (a.float() * b.float()).to(a.dtype)
    for made in (a * b, mt.mul(a, b), a.clone().mul_(b), a.t().contiguous().t() * b):
        same(made, wanted)
    same(a * b[0], (a.float() * b[0].float()).to(a.dtype))
    same(mt.outer(a[0], b[0]), mt.outer(a[0].float(), b[0].float()).to(a.dtype))
    x = a.clone()
    y = x[1:]
    y.mul_(b[1:])
    same(x[1:], wanted[1:])
    for refused in (lambda: a * 2, lambda: a * True, lambda: a.mul_(2), lambda: a + b, lambda: a / b, lambda: a - b):
        with pytest.raises(NotImplementedError, match="not implemented for"):
            refused()
    with pytest.raises(RuntimeError, match="Promotion for Float8 Types is not supported"):
        a * b.float()


@pytest.mark.parametrize("name", NAMES)
def test_products_of_matrices(name):
    a, b, c = numbers(name, 5, 300), numbers(name, 300, 6, seed=1), numbers(name, 6, seed=2)
    wide = a.float() @ b.float()
    same(a @ b, wide.to(a.dtype))
    same(a.t().contiguous().t() @ b, wide.to(a.dtype))
    same(mt.mm(a, b), wide.to(a.dtype))
    same(mt.addmm(c, a, b), (wide + c.float()).to(a.dtype))
    same(F.linear(a, b.t()), wide.to(a.dtype))
    same(F.linear(a, b.t(), c), (wide + c.float()).to(a.dtype))
    for refused in (lambda: a[0] @ a[0], lambda: a @ b[:, 0], lambda: a[None] @ b[None]):
        with pytest.raises(NotImplementedError, match="not implemented for"):
            refused()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("of", SUMS)
def test_sums_in_another_dtype(name, of):
    x = numbers(name, 5, 7)
    for kind in (mt.float32, mt.float64, mt.bfloat16, mt.int32):
        if kind is mt.int32 and of in ("mean", "nansum"):
            continue
        same(getattr(mt, of)(x, 0, dtype=kind), getattr(mt, of)(x.to(kind), 0, dtype=kind))
    if of in ("sum", "mean", "prod"):
        same(getattr(x, of)(dtype=mt.float32), getattr(x.float(), of)())
    with pytest.raises(NotImplementedError, match="not implemented for"):
        getattr(mt, of)(x, 0)


@pytest.mark.parametrize("name", ALL)
def test_tests(name):
    codes = mt.arange(256, dtype=mt.uint8).view(getattr(mt, name))
    for of in ("isfinite", "isinf", "isnan"):
        assert getattr(codes, of)().tolist() == getattr(codes.double(), of)().tolist()


def test_gradients():
    x = mt.tensor([[1.0, 2.0], [3.0, 4.0]]).requires_grad_()
    b = mt.tensor([[1.0, 0.5], [2.0, -1.0]], dtype=mt.float8_e5m2)
    (x.to(b.dtype) * b).float().sum().backward()
    assert x.grad.tolist() == b.tolist()
    x.grad = None
    (x.to(b.dtype) @ b).float().sum().backward()
    assert x.grad.tolist() == [[1.5, 1.0], [1.5, 1.0]]
    x.grad = None
    x.to(mt.float8_e4m3fn).sum(0, dtype=mt.float32).sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_recorded_code():
    def f(x):
        y = x.to(mt.float8_e4m3fn)
        return (y @ y).float() + y.sum(0, dtype=mt.float32) + (y * y).float()

    x = mt.randn(4, 4, generator=mt.Generator().manual_seed(0))
    wanted = f(x)
    assert mt.equal(mt.function(f)(x), wanted)
    with mt.jit.options(auto_jit=2, cpu_global_jit=True), mt.jit.jit_scope():
        assert mt.equal(f(x + 0), wanted)


@pytest.mark.parametrize("name", NAMES)
def test_scaled_products(name):
    a, b = numbers(name, 16, 32), numbers(name, 8, 32, seed=1).t()
    one, other = mt.tensor(1.7), mt.tensor(0.3)
    wide = (a.double() @ b.double()) * one.double() * other.double()
    for out in (mt.float32, mt.bfloat16, mt.float16, mt.float64):
        made = mt._scaled_mm(a, b, one, other, out_dtype=out)
        assert made.dtype is out
        mt.testing.assert_close(made.double(), wide, rtol=2e-2 if out is mt.bfloat16 else 2e-3, atol=1e-2)
    mt.testing.assert_close(mt._scaled_mm(a, b, one, other, out_dtype=mt.float32).double(), wide, rtol=1e-5, atol=1e-5)
    assert mt._scaled_mm(a, b, one, other).dtype is a.dtype
    rows, columns = mt.rand(16, 1), mt.rand(1, 8)
    bias = mt.arange(8.0)
    made = mt._scaled_mm(a, b, rows, columns, bias=bias, out_dtype=mt.float32)
    wanted = (a.double() @ b.double()) * rows * columns + bias
    mt.testing.assert_close(made.double(), wanted, rtol=1e-5, atol=1e-5)
    named = F.scaled_mm(a, b, one, ScalingType.TensorWise, other, ScalingType.TensorWise)
    same(named, mt._scaled_mm(a, b, one, other, out_dtype=mt.bfloat16))
    row, column = rows.flatten(), columns.flatten()
    named = F.scaled_mm(
        a, b, [row], [ScalingType.RowWise], [column], [ScalingType.RowWise], bias=bias, output_dtype=mt.float32
    )
    same(named, made)


def test_scaled_products_that_do_not_fit():
    a, b, one = numbers("float8_e4m3fn", 16, 32), numbers("float8_e4m3fn", 32, 8), mt.tensor(1.0)
    with pytest.raises(RuntimeError, match=r"shapes cannot be multiplied \(16x32 and 5x8\)"):
        mt._scaled_mm(a, b[:5], one, one)
    with pytest.raises(RuntimeError, match="mat1 must be a matrix"):
        mt._scaled_mm(a[0], b, one, one)
    with pytest.raises(RuntimeError, match="Bias must be size 8 but got 9"):
        mt._scaled_mm(a, b, one, one, bias=mt.ones(9))
    for wrong in ((a.float(), b.float(), one, one), (a, b, one.double(), one), (a, b, mt.ones(3), one)):
        with pytest.raises(ValueError, match="Invalid scaling configuration"):
            mt._scaled_mm(*wrong)
    with pytest.raises(ValueError, match="both scales are TensorWise, or both RowWise"):
        F.scaled_mm(a, b, one, ScalingType.TensorWise, one, ScalingType.RowWise)
    with pytest.raises(NotImplementedError, match="scales of blocks"):
        F.scaled_mm(a, b, one, ScalingType.BlockWise1x32, one, ScalingType.BlockWise1x32)
    with pytest.raises(NotImplementedError, match="scale_a has 2 parts"):
        F.scaled_mm(a, b, [one, one], ScalingType.TensorWise, one, ScalingType.TensorWise)


@pytest.mark.torch
@pytest.mark.parametrize("name", NAMES)
def test_arithmetic_against_pytorch(name):
    torch = pytest.importorskip("torch")

    def both(tensor):
        return tensor, torch.tensor(tensor.float().tolist()).to(getattr(torch, name))

    def agree(ours, theirs):
        assert ours.dtype.name == str(theirs.dtype).removeprefix("torch.")
        assert ours.double().tolist() == theirs.double().tolist()

    (a, ta), (b, tb) = both(numbers(name, 6, 200)), both(numbers(name, 200, 5, seed=1))
    (c, tc), (d, td) = both(numbers(name, 5, seed=2)), both(numbers(name, 6, 200, seed=3))
    agree(a * d, ta * td)
    agree(a @ b, ta @ tb)
    agree(mt.addmm(c, a, b), torch.addmm(tc, ta, tb))
    agree(F.linear(a, b.t(), c), torch.nn.functional.linear(ta, tb.t(), tc))
    for of in ("sum", "prod", "cumsum", "cumprod"):
        agree(getattr(mt, of)(a, 0, dtype=mt.float64), getattr(torch, of)(ta, 0, dtype=torch.float64))
        agree(getattr(mt, of)(a, 0, dtype=mt.int32), getattr(torch, of)(ta, 0, dtype=torch.int32))
    s, t = mt.tensor(2.0), torch.tensor(2.0)
    kinds = (("float32", mt.float32, torch.float32), ("bfloat16", mt.bfloat16, torch.bfloat16))
    for _, out, theirs in kinds:
        agree(mt._scaled_mm(a[:, :192], b[:192], s, s, out_dtype=out),
              torch._scaled_mm(ta[:, :192], tb[:192], t, t, out_dtype=theirs))  # fmt: skip
