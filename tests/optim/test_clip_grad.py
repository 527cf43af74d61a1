"""Clipping of gradients: what PyTorch does, and one program with the step that it is a part of."""

import math
import warnings

import numpy as np
import pytest

import minitensor as mt
import minitensor.nn.functional as F
from minitensor.nn import utils


def parameters(library, *gradients):
    made = []
    for gradient in gradients:
        dtype, values = gradient if isinstance(gradient, tuple) else ("float32", gradient)
        p = library.nn.Parameter(library.zeros(3, dtype=getattr(library, dtype)))
        p.grad = None if values is None else library.tensor(values, dtype=getattr(library, dtype))
        made.append(p)
    return made


def plain(value):
    return None if value is None else (str(value.dtype).partition(".")[2], value.double().tolist())


GRADIENTS = [
    [[1.0, -2.0, 3.0], [0.0, 2.0, 3.0]],
    [[1.0, -2.0, 3.0], None, [0.5, 0.25, -4.0]],
    [[0.01, 0.02, 0.0]],
    [[math.nan, 1.0, 2.0], [1.0, 2.0, 3.0]],
    [[math.inf, 1.0, 2.0], [1.0, 2.0, 3.0]],
    [("float64", [1.0, -2.0, 3.0]), [4.0, 5.0, 6.0], ("bfloat16", [1.0, 2.0, 3.0])],
    [None],
    [],
]
NORMS = [2.0, 1, 0, 3, 0.5, -1, math.inf, "inf", -math.inf, "2"]


@pytest.mark.parametrize("foreach", [None, True, False])
@pytest.mark.parametrize("gradients", GRADIENTS, ids=range(len(GRADIENTS)))
def test_against_pytorch(gradients, foreach):
    torch = pytest.importorskip("torch")

    def close(ours, theirs):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert plain(ours)[0] == plain(theirs)[0]
            tolerance = 2**-7 if "bfloat16" in str(theirs.dtype) else 3e-7
            np.testing.assert_allclose(plain(ours)[1], plain(theirs)[1], rtol=tolerance, atol=1e-9)

    for norm_type in NORMS:
        mine, other = parameters(mt, *gradients), parameters(torch, *gradients)
        close(
            utils.clip_grad_norm_(mine, 0.7, norm_type, foreach=foreach),
            torch.nn.utils.clip_grad_norm_(other, 0.7, norm_type, foreach=foreach),
        )
        for p, q in zip(mine, other, strict=True):
            close(p.grad, q.grad)
    if any(g is not None for g in gradients):  # PyTorch's fails without gradients
        mine, other = parameters(mt, *gradients), parameters(torch, *gradients)
        assert utils.clip_grad_value_(mine, "1.5", foreach=foreach) is None
        torch.nn.utils.clip_grad_value_(other, "1.5", foreach=foreach)
        for p, q in zip(mine, other, strict=True):
            close(p.grad, q.grad)


def test_the_norm_is_that_of_one_vector():
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in ((3, 4), (5,), (), (2, 1, 3))]
    tensors = [mt.from_numpy(np.array(a)) for a in arrays]
    joined = np.concatenate([a.ravel() for a in arrays])
    for order in (1.0, 2.0, 2.5, math.inf):
        assert utils.get_total_norm(tensors, order).item() == pytest.approx(np.linalg.norm(joined, order), rel=1e-14)
    one = mt.ones(2, 3, requires_grad=True)
    assert utils.get_total_norm(one).item() == pytest.approx(math.sqrt(6))
    assert not utils.get_total_norm([one]).requires_grad


def test_gradients_are_scaled_where_they_lie():
    (p,) = parameters(mt, [3.0, 0.0, 4.0])
    gradient, view = p.grad, p.grad[2:]
    assert utils.clip_grad_norm_(p, 1.0).item() == 5.0
    assert p.grad is gradient
    assert view.item() == np.float32(4.0) * np.float32(np.float32(1.0) / np.float32(5.0 + 1e-6))
    assert utils.clip_grads_with_norm_(p, 1.0, mt.tensor(0.25)) is None  # not more than it was
    assert view.item() == np.float32(4.0) * np.float32(np.float32(1.0) / np.float32(5.0 + 1e-6))
    utils.clip_grads_with_norm_([p], 1.0, mt.tensor(1e6))
    assert abs(view.item()) < 1e-5
    utils.clip_grad_value_(parameters(mt, None), 1.0)
    utils.clip_grads_with_norm_([], 1.0, mt.tensor(2.0))


def test_what_is_not_finite():
    broken = parameters(mt, [1.0, 2.0, 3.0], [math.inf, 0.0, 0.0])
    before = [p.grad.tolist() for p in broken]
    with pytest.raises(RuntimeError, match=r"total norm of order 2.0 for gradients from `parameters` is non-finite"):
        utils.clip_grad_norm_(broken, 1.0, error_if_nonfinite=True)
    assert [p.grad.tolist() for p in broken] == before
    with pytest.raises(RuntimeError, match="order inf"):
        utils.get_total_norm([mt.tensor([math.nan])], math.inf, error_if_nonfinite=True)
    assert utils.clip_grad_norm_(broken, 1.0).item() == math.inf
    assert broken[0].grad.tolist() == [0.0] * 3


def test_wrong_arguments():
    some = parameters(mt, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="could not convert string to float"):
        utils.clip_grad_norm_(some, "a")
    with pytest.raises(TypeError, match="not iterable"):
        utils.clip_grad_norm_(3, 1.0)
    with pytest.raises(AttributeError, match="grad"):
        utils.clip_grad_norm_([3], 1.0)
    with pytest.raises(RuntimeError, match="foreach=True was passed, but can't use the foreach API on meta tensors"):
        utils.get_total_norm([mt.ones(2, device="meta")], foreach=True)
    with pytest.raises(RuntimeError, match="floating point or complex"):
        utils.get_total_norm([mt.ones(2, dtype=mt.int64)])
    with pytest.warns(UserWarning, match="is an empty generator"):
        assert utils.clip_grad_norm_((p for p in []), 1.0).item() == 0.0
    with pytest.warns(FutureWarning, match="deprecated in favor of `minitensor.nn.utils.clip_grad_norm_`"):
        utils.clip_grad_norm(some, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert utils.clip_grad_norm_([], 1.0).item() == 0.0


# ---- in a step that is one program


class Step:
    def __init__(self, kind):
        mt.manual_seed(7)
        self.model = mt.nn.Sequential(mt.nn.Linear(6, 5), mt.nn.ReLU(), mt.nn.Linear(5, 3))
        self.params = list(self.model.parameters())
        self.opt = kind(self.params, lr=0.1)
        self.x, self.y = mt.rand(4, 6), mt.tensor([0, 2, 1, 1])

    def backward(self, scale=1.0, rows=slice(None)):
        loss = F.cross_entropy(self.model(self.x[rows]), self.y[rows]) * scale
        loss.backward()
        return loss

    def seen(self):
        state = [t.tolist() for s in self.opt.state.values() for t in s.values() if isinstance(t, mt.Tensor)]
        return [(p.tolist(), None if p.grad is None else p.grad.tolist()) for p in self.params], state


def by_norm(s):
    s.opt.zero_grad()
    loss = s.backward()
    total = utils.clip_grad_norm_(s.model.parameters(), 0.05)
    s.opt.step()
    return loss, total


def by_largest(s):
    s.opt.zero_grad(set_to_none=False)
    loss = s.backward()
    total = utils.clip_grad_norm_(s.params, 0.05, norm_type="inf", foreach=False)
    s.opt.step()
    return loss, total


def by_value(s):
    s.model.zero_grad()
    loss = s.backward()
    utils.clip_grad_value_(s.params, 0.01)
    s.opt.step()
    return (loss,)


def accumulated(s):
    s.opt.zero_grad()
    losses = [s.backward(0.5, slice(part, part + 2)) for part in (0, 2)]
    total = utils.clip_grad_norm_(s.params, 0.05)
    s.opt.step()
    return (*losses, total)


def scaled(s):
    """The gradients of a loss times 1024, and zero where one of them is not finite."""
    s.opt.zero_grad()
    loss = s.backward(1024.0)
    finite = mt.stack([p.grad.isfinite().all() for p in s.params]).all()
    for p in s.params:
        p.grad = mt.where(finite, p.grad / 1024.0, 0.0)
    total = utils.clip_grad_norm_(s.params, 0.05)
    s.opt.step()
    return loss, total


def twice(s):
    found = ()
    for _ in range(2):
        found = by_norm(s)
    return found


@pytest.mark.at_once(reason="it compiles by itself")
@pytest.mark.parametrize("kind", [mt.optim.SGD, mt.optim.Adam])
@pytest.mark.parametrize("body", [by_norm, by_largest, by_value, accumulated, scaled, twice], ids=lambda b: b.__name__)
def test_a_step_that_clips_is_one_program(body, kind):
    eager, compiled = Step(kind), Step(kind)
    step = mt.function(lambda: body(compiled), jit_compile=True)
    for call in range(6):
        for s in (eager, compiled):
            s.x.fill_(math.inf if call == 3 else 0.1 * call)
        expected, found = body(eager), step()
        assert repr([t.tolist() for t in found]) == repr([t.tolist() for t in expected])
        assert repr(compiled.seen()) == repr(eager.seen())
    assert step.hits >= 4, mt.jit.explain(step)()


@pytest.mark.at_once(reason="it compiles by itself")
def test_an_error_for_what_is_not_finite_needs_a_look():
    s = Step(mt.optim.SGD)

    def body():
        s.opt.zero_grad()
        loss = s.backward()
        utils.clip_grad_norm_(s.params, 0.05, error_if_nonfinite=True)
        s.opt.step()
        return loss

    with pytest.raises(mt.jit.InvalidArgumentError, match=r"bool\(\) can.t be compiled.*test_clip_grad.py"):
        mt.function(body, jit_compile=True)()
    best_effort = mt.function(body)
    best_effort()
    s.x.fill_(math.inf)
    with pytest.raises(RuntimeError, match="non-finite"):
        best_effort()
