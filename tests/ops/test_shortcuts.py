"""Plain calls that go straight to an op give what the functions do that they pass by."""

import sys

import numpy as np
import pytest

import minitensor as mt
from minitensor.nn import functional as F
from minitensor.ops import ROWS


def same(a, b):
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.numpy().tobytes() == b.numpy().tobytes()


def test_creation():
    for dtype in (mt.float32, mt.float64):
        mt.set_default_dtype(dtype)
        try:
            for sizes in (((),), (3,), (2, 0, 4)):
                size = sizes[0] if sizes == ((),) else sizes
                same(mt.zeros(*sizes), mt.zeros(size))
                same(mt.ones(*sizes), mt.ones(size=size))
            assert mt.zeros(2).dtype is dtype
        finally:
            mt.set_default_dtype(mt.float32)
    same(mt.arange(5), mt.arange(0, 5, 1))
    same(mt.arange(-2, 3), mt.arange(start=-2, end=3))
    assert mt.zeros(True).shape == (1,)
    with pytest.raises(RuntimeError, match="negative dimension"):
        mt.zeros(2, -1)


def test_elementwise_functions():
    x = mt.from_numpy(np.linspace(-9, 9, 24, dtype=np.float32).reshape(4, 6))
    same(F.gelu(x), F.gelu(x, approximate="none"))
    same(F.silu(x), F.silu(x, inplace=False))
    same(F.softmax(x, 1), F.softmax(x, dim=1))
    same(F.log_softmax(x, -2), F.log_softmax(x, dim=-2))
    same(mt.clamp(x, -1, 2.5), mt.clamp(x, min=-1, max=2.5))
    c = x > 0
    same(mt.where(c, x, -x), mt.where(c, x, other=-x))
    with pytest.raises(RuntimeError, match="boolean"):
        mt.where(x, x, x)
    with pytest.raises(TypeError, match="Tensor"):
        F.gelu(3.0)


def test_stack():
    a, b = mt.arange(6.0).view(2, 3), -mt.arange(6.0).view(2, 3)
    expected = np.stack([a.numpy(), b.numpy(), b.numpy()])
    for tensors in ((a, b, b), [a, b, b]):
        assert mt.stack(tensors).numpy().tolist() == mt.stack(tensors, dim=0).numpy().tolist() == expected.tolist()
    assert mt.stack((a, b.to(mt.float64))).dtype is mt.float64
    assert mt.stack((mt.tensor(1.0), mt.tensor(2.0))).tolist() == [1.0, 2.0]
    assert mt.stack((mt.zeros(0, 2), mt.zeros(0, 2))).shape == (2, 0, 2)
    for wrong, message in (((), "non-empty"), ((a, b[0]), "equal size"), ((a, mt.tensor(1.0)), "equal size")):
        with pytest.raises(RuntimeError, match=message):
            mt.stack(wrong)
    with pytest.raises(TypeError):
        mt.stack((a, 1.0))


def test_stack_is_differentiated_mapped_and_compiled():
    x = mt.arange(3.0).requires_grad_()
    (g,) = mt.autograd.grad((mt.stack((x, x * x)) * mt.tensor([[1.0], [10.0]])).sum(), x)
    assert g.tolist() == [1.0, 21.0, 41.0]
    rows = mt.arange(6.0).view(2, 3)
    assert mt.vmap(lambda r: mt.stack((r, -r)))(rows).tolist() == mt.stack((rows, -rows), dim=1).tolist()

    def program(x):
        return mt.stack((x.exp(), x + 1)).sum(0) + mt.where(x > 1, x, -x) + F.gelu(x)

    x = x.detach()
    same(mt.function(program, jit_compile=True)(x), program(x))


def random(*shape):
    return mt.from_numpy(np.random.default_rng(sum(shape)).standard_normal(shape, np.float32))


def test_convolutions():
    x, w, b = random(2, 4, 9, 7), random(6, 2, 3, 2), random(6)
    for stride, padding, dilation in ((1, 0, 1), (2, 1, 1), ((1, 2), (2, 0), [2, 1])):
        plain = F.conv2d(x, w, b, stride, padding, dilation, 2)
        same(plain, F.conv2d(x, w, b, stride=stride, padding=padding, dilation=dilation, groups=2))
        same(
            F.conv2d(x, w, None, stride, padding, dilation, 2),
            F.conv2d(x, w, None, stride, padding, dilation, groups=2),
        )
    same(F.conv1d(x[..., 0], w[..., 0], None, 1, 0, 1, 2), F.conv1d(x[..., 0], w[..., 0], groups=2))
    same(F.conv2d(x[0], w, b, 1, 0, 1, 2), F.conv2d(x, w, b, 1, 0, 1, 2)[0])
    same(F.conv2d(x, w, b, 1, "valid", 1, 2), F.conv2d(x, w, b, 1, 0, 1, 2))
    same(mt.conv2d(x, random(3, 4, 2, 2)), F.conv2d(x, weight=random(3, 4, 2, 2)))
    z = mt.complex(random(1, 1, 4, 4), random(1, 1, 4, 4))
    same(F.conv2d(z, z), F.conv2d(z, weight=z))
    with pytest.raises(RuntimeError, match="channels"):
        F.conv2d(x, w)
    with pytest.raises(RuntimeError, match="Kernel size"):
        F.conv2d(x, random(3, 4, 20, 2))
    with pytest.raises(RuntimeError, match="stride"):
        F.conv2d(x, w, b, (1, 1, 1), 0, 1, 2)


def test_pooling():
    x = random(2, 3, 8, 9)
    for size, stride in ((2, None), (3, 2), ((2, 3), (1, 2))):
        same(F.max_pool2d(x, size, stride), F.max_pool2d(x, size, stride=stride))
        same(F.max_pool2d(x, size, stride, 1, 1, True), F.max_pool2d(x, size, stride, 1, ceil_mode=True))
        same(F.avg_pool2d(x, size, stride), F.avg_pool2d(x, size, stride=stride))
        same(
            F.avg_pool2d(x, size, stride, 1, True, False),
            F.avg_pool2d(x, size, stride, 1, True, count_include_pad=False),
        )
    same(F.max_pool2d(x, 2, []), F.max_pool2d(x, 2))
    same(F.max_pool2d(x[0], 2), F.max_pool2d(x, 2)[0])
    values, places = F.max_pool2d(x, 2, None, 0, 1, False, True)
    same(values, F.max_pool2d(x, 2))
    assert places.dtype is mt.int64
    x.requires_grad_()
    (g,) = mt.autograd.grad(F.max_pool2d(x, 2).sum(), x)
    assert g.sum().item() == F.max_pool2d(x.detach(), 2).numel()
    with mt.no_grad():
        same(F.max_pool2d(x, 2), values)


@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
def test_linear_and_losses():
    x, w, b, t = random(5, 4), random(3, 4), random(3), mt.tensor([0, 2, 1, 1, 0])
    for args in ((x, w), (x, w, None), (x, w, b), (x[0], w, b), (random(2, 5, 4), w, b), (x, w[0])):
        names = dict(zip(("weight", "bias"), args[1:], strict=False))
        same(F.linear(*args), F.linear(args[0], **names))
    for call in (lambda bias: F.linear(x, w, bias), lambda bias: F.linear(x, w, bias=bias)):
        with pytest.raises(RuntimeError, match="self and mat2 must have the same dtype, but got Double and Float"):
            call(b.to(mt.float64))
    logits = F.linear(x, w, b).requires_grad_()
    plain, named = F.cross_entropy(logits, t), F.cross_entropy(logits, target=t)
    same(plain.detach(), named.detach())
    same(mt.autograd.grad(plain, logits)[0], mt.autograd.grad(named, logits)[0])
    with pytest.raises(ValueError, match="batch_size"):
        F.cross_entropy(logits, t[:3])
    with pytest.raises(IndexError):
        F.cross_entropy(logits, t + 3)
    with pytest.raises(RuntimeError):
        F.linear(x, random(3, 5))


def test_layer_norm():
    w, b = random(6), random(6)
    for x in (random(4, 6), random(2, 4, 6), random(2, 6, 4).transpose(1, 2), random(6), random(0, 6)):
        for more in ((), (w,), (w, b), (None, b), (w, b, 0.5), (w, b, 1)):
            names = dict(zip(("weight", "bias", "eps"), more, strict=False))
            same(F.layer_norm(x, (6,), *more), F.layer_norm(x, normalized_shape=(6,), **names))
    same(F.layer_norm(random(2, 4, 6), (4, 6)), F.layer_norm(random(2, 4, 6), normalized_shape=(4, 6)))
    with pytest.raises(RuntimeError, match="normalized_shape"):
        F.layer_norm(random(4, 6), (5,))
    with pytest.raises(RuntimeError, match="weight"):
        F.layer_norm(random(4, 6), (6,), random(5))


def test_conversion():
    x = random(3)
    assert x.to(mt.float32) is x
    assert x.float() is x
    same(x.to(mt.float64), x.to(dtype=mt.float64))
    same(x.double(), x.to(mt.float64))
    same(x.to(mt.int32), x.int())
    with pytest.warns(UserWarning, match="imaginary"):
        mt.complex(x, x).to(mt.float32)
    with pytest.warns(UserWarning, match="imaginary"):
        mt.complex(x, x).float()


@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
def test_indexing_and_order():
    x, i = random(5, 3), mt.tensor([[0, 2], [1, -1]])
    expected = x.numpy()[i.numpy()]
    assert x[i].numpy().tolist() == x[i.to(mt.int32)].numpy().tolist() == expected.tolist()
    with pytest.raises(IndexError):
        x[i + 4]
    with pytest.raises(IndexError):
        mt.zeros(0, 2)[mt.tensor([0])]
    table = random(4, 2)
    same(F.embedding(i.abs(), table), table[i.abs()])
    with pytest.raises(RuntimeError, match="2-D"):
        F.embedding(i.abs(), table[0])
    j = mt.tensor([[1, 0, 2], [2, 2, 0]])
    same(x.gather(1, j), x.gather(dim=1, index=j))
    same(mt.gather(x, -2, j), mt.gather(x, dim=-2, index=j))
    for args in ((), (0,), (-1, True), (1, False, True)):
        plain, named = x.sort(*args), x.sort(**dict(zip(("dim", "descending", "stable"), args, strict=False)))
        same(plain.values, named.values)
        same(plain.indices, named.indices)


def test_split():
    x = random(5, 4)
    for size in (1, 2, 5, 7, 2**62):
        for dim in (0, 1, -1):
            for a, b in zip(x.split(size, dim), x.split(split_size=size, dim=dim), strict=True):
                same(a.contiguous(), b.contiguous())
    assert [part.shape[0] for part in x.split(2)] == [2, 2, 1]
    assert [part.shape[0] for part in x.split([4, 1])] == [4, 1]
    x.split(2)[1].fill_(7.0)
    assert x[2:4].tolist() == [[7.0] * 4] * 2
    for wrong, error in ((-1, RuntimeError), (0, RuntimeError)):
        with pytest.raises(error, match="split_size"):
            x.split(wrong)
    with pytest.raises(IndexError):
        x.split(2, 2)
    with pytest.raises(RuntimeError, match="at least a 1-dimensional"):
        mt.tensor(1.0).split(1)


def test_shortcuts_are_checked_when_they_are_made():
    exp, cat = mt.exp, mt.cat
    for pattern, target, after, message in (
        ("Q", exp, (), "unknown letter"),
        ("TT", exp, (), "more arguments"),
        ("i", exp, (), "another kind"),
        ("T", exp, (1.0,), "more arguments"),
        ("T", cat, (0,), "list of tensors"),
        ("TTTTTTTTT", exp, (), "too many letters"),
        ("~T", mt._C.inplace_form(exp), (), "begins with the tensor"),
        ("nT", mt._C.inplace_form(ROWS["add"].call), (), "begins with the tensor"),
    ):
        with pytest.raises(ValueError, match=message):
            mt._C.shortcut(pattern, target, (), after, None, False)
    with pytest.raises(TypeError):
        mt._C.shortcut("T", mt._C.split, 1, (), None, False)


def test_shortcuts_are_recorded():
    def program(x, w, b, i):
        image = F.max_pool2d(F.conv2d(x, w, b, 1, 1), 2)
        rows = F.layer_norm(image.reshape((-1, 4)), (4,))
        return F.linear(rows, rows[i], None).to(mt.float64) + mt.zeros(2).sum() + mt.arange(3).sum()

    args = random(2, 3, 8, 8), random(4, 3, 3, 3), random(4), mt.tensor([0, 3, 1])
    same(mt.function(program)(*args), program(*args))


def test_dropout():
    x = random(64, 8)
    for more in ((), (0.25,), (0.25, True), (0.25, True, False), (0.25, True, True), (0.0,), (1.0,), (0.5, False)):
        names = dict(zip(("p", "training", "inplace"), more, strict=False))
        mt.manual_seed(3)
        plain = F.dropout(x.clone(), *more)
        mt.manual_seed(3)
        same(plain, F.dropout(x.clone(), **names))
    same(F.dropout(x.double(), 1.0), x.double() * 0.0)
    for p in (-0.1, 1.1, 2):
        with pytest.raises(ValueError, match="between 0 and 1"):
            F.dropout(x, p)


def test_numbers_that_no_float_holds():
    """They are refused as they are by name."""
    huge = 10**400
    with pytest.raises(ValueError, match="between 0 and 1"):
        F.dropout(random(3), huge)
    with pytest.raises(OverflowError):
        F.layer_norm(random(2, 3), (3,), None, None, huge)


def test_sizes_one_by_one():
    x = random(6)
    same(x.view(2, 3), x.view((2, 3)))
    same(x.view(2, -1), x.view(size=(2, 3)))
    same(x[:1].expand(2, 3), x[:1].expand((2, 3)))
    with pytest.raises(TypeError, match="must be an int, not str"):
        x.view(2, "3")
    with pytest.raises(TypeError, match="multiple values"):
        x.expand(2, size=(2, 6))
    with pytest.raises(TypeError):
        x.view(2, 3.0)


def frames(function, *args):
    """The functions of Python that a call runs."""
    seen = []
    sys.setprofile(lambda frame, event, _: seen.append(frame.f_code.co_name) if event == "call" else None)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return seen


@pytest.mark.at_once(reason="a recording that is full runs in the middle of a call")
def test_plain_calls_run_no_python():
    """With None for what may be left out, too."""
    x, w, b = random(2, 6), random(3, 6), random(3)
    calls = [(F.linear, x, w), (F.linear, x, w, b), (F.linear, x, w, None)]
    for weight in (x[0], None):
        calls += [(F.layer_norm, x, (6,), weight, bias, 1e-5) for bias in (x[1], None)]
    for rank in (1, 2, 3):
        image, kernel = random(1, 2, *[3] * rank), random(4, 2, *[2] * rank)
        convolution = getattr(F, f"conv{rank}d")
        for more in ((), (None,), (None, 1), (None, 1, 0, 1, 1), (random(4), 2, 1, [2] * rank, 1)):
            calls.append((convolution, image, kernel, *more))
        average, maximum = getattr(F, f"avg_pool{rank}d"), getattr(F, f"max_pool{rank}d")
        for more in ((), (None,), (1,), (None, 0)):
            calls += [(average, image, 2, *more), (maximum, image, 2, *more)]
    calls += [(mt.Tensor.add_, x, 2), (mt.Tensor.sub_, x, x), (mt.Tensor.fill_, x, 1.5)]
    for function, *args in calls:
        assert frames(function, *args) == [], (function, args)
    # Where None stands for nothing, the function says so.
    for function, *args in [(F.linear, None, w), (F.gelu, None), (F.conv2d, None, w)]:
        with pytest.raises(TypeError):
            function(*args)


def in_place(name, *args, **keywords):
    """What a method in place leaves, gives and counts, and the gradient of what it overwrites."""
    leaf = mt.tensor([1.0, -2.0, 3.0], requires_grad=True)
    x = leaf * 2
    before = x._version
    made = getattr(x, name)(*args, **keywords)
    assert made is x
    assert x._version == before + 1
    (x * x).sum().backward()
    return x.tolist(), leaf.grad.tolist(), type(x.grad_fn).__name__


@pytest.mark.parametrize("name", ["add_", "sub_"])
@pytest.mark.parametrize("other", [2, 1.5, mt.tensor([1.0, 2.0, 3.0]), mt.tensor(4)])
def test_plain_calls_in_place_are_what_calls_with_a_factor_are(name, other):
    plain = in_place(name, other)
    assert plain == in_place(name, other, alpha=1)
    assert plain == in_place(name, other=other)
    sign = 1 if name == "add_" else -1
    others = other.tolist() if isinstance(other, mt.Tensor) else other
    others = others if isinstance(others, list) else [others] * 3
    want = [2 * x + sign * y for x, y in zip([1.0, -2.0, 3.0], others, strict=True)]
    assert plain[0] == want
    assert plain[1] == [4 * y for y in want]


def test_plain_calls_in_place_of_subclasses_and_modes_are_theirs():
    seen = []

    class Mine(mt.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            seen.append(function.__name__)
            return super().__torch_function__(function, types, args, kwargs or {})

    x = mt.ones(2).as_subclass(Mine)
    assert x.add_(mt.ones(2)) is x
    assert mt.ones(2).sub_(x).tolist() == [-1, -1]
    assert x.tolist() == [2, 2]
    assert seen[:2] == ["add_", "sub_"]
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        mt.ones(2, requires_grad=True).add_(1)
    with pytest.raises(RuntimeError, match="can't be cast"):
        mt.ones(2, dtype=mt.int64).sub_(0.5)
    with pytest.raises(TypeError):
        mt.ones(2).add_()
