"""Selective checkpoints: a policy chooses which results are kept for the backward pass, and gradients stay the same."""

import functools
import pickle

import pytest

import minitensor as mt
from minitensor import nn
from minitensor.utils import checkpoint as c

aten = mt.ops.aten


def kept(choice, function, *args):
    contexts = functools.partial(c.create_selective_checkpoint_contexts, choice)
    return c.checkpoint(function, *args, use_reentrant=False, context_fn=contexts)


def layer_and_input():
    mt.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.2)
    return layer, mt.rand(2, 5, 8, requires_grad=True)


def gradients(call, layer, x):
    layer.zero_grad()
    x.grad = None
    mt.manual_seed(3)
    call(x).square().sum().backward()
    return [p.grad.tolist() for p in (*layer.parameters(), x)]


@pytest.mark.parametrize(
    "choice",
    [
        lambda ctx, op, *args: True,
        lambda ctx, op, *args: False,
        lambda ctx, op, *args: c.CheckpointPolicy.PREFER_SAVE if "mm" in str(op) else c.CheckpointPolicy.MUST_RECOMPUTE,
        [aten.mm.default, aten.addmm.default, aten.native_layer_norm.default],
        lambda ctx, op, *args: len(str(op)) % 2 == 0,
    ],
)
def test_gradients_are_those_without_it(choice):
    """Dropout's numbers too, whether they are kept or drawn again."""
    layer, x = layer_and_input()
    want = gradients(layer, layer, x)
    assert gradients(lambda value: kept(choice, layer, value), layer, x) == want


def test_what_is_kept_is_not_computed_again():
    """Custom ops count their calls; the policy is asked in the first run only."""
    calls, asked = [], []

    @mt.library.custom_op("selective::halved", mutates_args=())
    def halved(x: mt.Tensor) -> mt.Tensor:
        calls.append(0)
        return x / 2

    halved.register_autograd(lambda ctx, g: g / 2)
    try:
        for keep, runs in ((True, 1), (False, 2)):
            calls.clear()
            asked.clear()

            def policy(ctx, op, *args, keep=keep):
                asked.append((op, ctx.is_recompute, ctx.op_output.shape, len(args)))
                return keep

            x = mt.tensor([1.0, 2.0], requires_grad=True)
            kept(policy, lambda value: halved(value).exp().sin(), x).sum().backward()
            assert len(calls) == runs
            want = (x.detach() / 2).exp()
            assert mt.allclose(x.grad, want.cos() * want / 2)
            assert asked == [
                (mt.ops.selective.halved, False, (2,), 1),
                (aten.exp.default, False, (2,), 1),
                (aten.sin.default, False, (2,), 1),
            ]
    finally:
        mt.library.custom_ops.forget("selective::halved")


def test_compiled():
    def product(x):
        return (x @ x).sigmoid() @ x

    @mt.function
    def gradient(x):
        return mt.autograd.grad(kept([aten.mm.default], product, x).sum(), x)[0]

    x = mt.rand(5, 5, requires_grad=True)
    want = mt.autograd.grad(product(x).sum(), x)[0]
    for _ in range(3):
        assert mt.equal(gradient(x), want)


def test_temporaries_keep_what_was_kept():
    """A result that is kept is not the memory of a later one, although the program drops it."""
    x = mt.rand(64, requires_grad=True)
    data = mt.rand(64)

    def chain(value):
        return ((data + 1).exp() * 2 + 1) * value * value

    kept(lambda *args: True, chain, x).sum().backward()
    assert mt.equal(x.grad, 2 * x.detach() * ((data + 1).exp() * 2 + 1)) or mt.allclose(
        x.grad, 2 * x.detach() * ((data + 1).exp() * 2 + 1), rtol=1e-6
    )


def test_errors():
    x = mt.rand(3, 3, requires_grad=True)
    for wrong, error, text in (
        ([aten.mm], ValueError, r"change it to `torch\.ops\.aten\.mm\.default`"),
        ([mt.mm], ValueError, "to be an OpOverload"),
        (3, TypeError, "either a function or a list of ops"),
    ):
        with pytest.raises(error, match=text):
            c.create_selective_checkpoint_contexts(wrong)

    def writes(value):
        product = mt.mm(value, value)
        waves = product.sin()
        product.detach().add_(1)
        return waves * product.cos()

    with pytest.raises(RuntimeError, match="has been mutated"):
        kept([aten.mm.default], writes, x).sum().backward()
    out = kept([aten.mm.default], lambda value: mt.mm(value, value).sin(), x).sum()
    out.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="backward an extra time"):
        out.backward()
    runs = []

    def changes(value):
        runs.append(0)
        return (value.exp() if len(runs) == 1 else value.cosh()).sin()

    with pytest.raises(RuntimeError, match=r"aten\.cosh\.default encountered during backward"):
        kept(lambda *args: False, changes, x).sum().backward()

    def raises(*args):
        raise KeyError("policy")

    with pytest.raises(KeyError, match="policy"):
        kept(raises, mt.exp, x)
    assert mt._C.call_watcher() is None
    with pytest.raises(TypeError, match="not callable"):
        mt._C.watch_calls(3)


def test_names_of_ops():
    x = mt.rand(2, 2)
    assert str(aten.mm.default) == "aten.mm.default"
    assert repr(aten.add.Tensor) == "<OpOverload(op='aten.add', overload='Tensor')>"
    assert aten.add.Tensor.name() == "aten::add.Tensor"
    assert aten.sum.overloads() == ["default", "dim_IntList"]
    assert mt.equal(aten.mm.default(x, x), x @ x)
    assert mt.equal(aten.add(x, 1), x + 1)
    assert pickle.loads(pickle.dumps(aten.mm.default)) is aten.mm.default
    assert aten.detach.default in c.SAC_IGNORED_OPS
    with pytest.raises(AttributeError, match="'aten' object has no attribute 'nope'"):
        _ = aten.nope
    with pytest.raises(AttributeError, match="no overload name 'Tensor'"):
        _ = aten.mm.Tensor
    with pytest.raises(NotImplementedError, match="call softmax"):
        aten._softmax(x, 0, False)


@pytest.mark.torch
def test_as_pytorch():
    """The ops that a policy sees, but for views, and gradients."""
    torch = pytest.importorskip("torch")
    from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

    seen, found = {}, {}
    for lib, call, make in (
        (mt, c.checkpoint, c.create_selective_checkpoint_contexts),
        (torch, checkpoint, create_selective_checkpoint_contexts),
    ):
        names = seen.setdefault(lib, [])

        def policy(ctx, op, *args, names=names, **kwargs):
            names.append(str(op))
            return "mm" in str(op)

        def function(x, w, lib=lib):
            y = lib.nn.functional.linear(x, w, w[0]).relu() * 2 + lib.matmul(x.view(2, 2, 4), w).view(4, 4)
            return (y.softmax(-1) @ w).pow(2).mean(1) - lib.bmm(x.view(2, 2, 4), w.view(2, 4, 2)).sum()

        x, w = (lib.arange(16.0).view(4, 4).div(d).sin().requires_grad_() for d in (3, 5))
        contexts = functools.partial(make, policy)
        call(function, x, w, use_reentrant=False, context_fn=contexts).sum().backward()
        found[lib] = (x.grad.tolist(), w.grad.tolist())
    views = ("aten.t.default", "aten.view.default", "aten.select.int", "aten._unsafe_view.default")
    assert seen[mt] == [name for name in seen[torch] if name not in views]
    for ours, theirs in zip(found[mt], found[torch], strict=True):
        assert mt.allclose(mt.tensor(ours), mt.tensor(theirs), rtol=1e-5, atol=1e-6)
