"""Results of compiled functions that require grad or are views: replayed, and in nothing different from eager ones."""

import gc
import weakref

import numpy as np
import pytest

import minitensor as mt
from minitensor.nn import functional as F
from minitensor_jit.functions.arguments import flatten

OUTSIDE = mt.rand(4).requires_grad_()
CONSTANT = mt.rand(4)
MEAN, VARIANCE = mt.zeros(5), mt.ones(5)


def graph(tensor):
    """The gradient graph behind a tensor: names of nodes and how they hang together."""
    numbers, lines = {}, []

    def number(node):
        if node is None:
            return None
        if node not in numbers:
            numbers[node] = len(numbers)
            edges = [(number(following), index) for following, index in node.next_functions]
            lines.append((numbers[node], node.name(), edges))
        return numbers[node]

    number(tensor.grad_fn)
    return sorted(lines)


def told(tensor, arguments):
    """All that can be seen of a tensor."""
    owner = [
        k for k, a in enumerate(arguments) if a.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
    ]
    base = tensor._base
    return (
        tensor.dtype,
        tuple(tensor.shape),
        tensor.stride(),
        tensor.storage_offset(),
        tensor._version,
        tensor.requires_grad,
        tensor.is_leaf,
        tensor.output_nr,
        None if base is None else (tuple(base.shape), base.requires_grad, any(base is a for a in arguments)),
        owner,
        graph(tensor),
        tensor.detach().numpy().tobytes(),
    )


def compare(fn, make, times=4, hits=None, after=None):
    """Compiled calls beside eager ones: results, arguments, gradients and versions."""
    f = mt.function(fn, jit_compile=True)
    for k in range(times):
        seen = []
        for call in (f, fn):
            mt.manual_seed(k)
            OUTSIDE.grad = None
            arguments = make()
            MEAN.zero_()
            results = call(*arguments)
            results, _ = flatten(results)
            found = [told(r, arguments) for r in results]
            found += [(a._version, a.detach().numpy().tobytes()) for a in arguments]
            wanted = [r for r in results if r.requires_grad]
            if after is not None:
                found.append(after(results, arguments))
            elif wanted:
                total = sum((r * r.detach().cos()).sum() for r in wanted)
                leaves = [a for a in arguments if a.requires_grad]
                leaves += [OUTSIDE] if "OUTSIDE" in fn.__code__.co_names else []
                firsts = mt.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
                found += [None if g is None else g.detach().numpy().tobytes() for g in firsts]
                again = [g.sum() for g in firsts if g is not None and g.requires_grad]
                if again:
                    seconds = mt.autograd.grad(sum(again), leaves, allow_unused=True)
                    found += [None if g is None else g.numpy().tobytes() for g in seconds]
            seen.append(found)
        assert seen[0] == seen[1]
    assert f.hits == (times - 1 if hits is None else hits)
    return f


def wx():
    return mt.rand(4).requires_grad_(), mt.rand(4)


def matrices():
    return mt.rand(5, 4).requires_grad_(), mt.rand(6, 5)


def written(w, x):
    h = w * 2.5
    v = h[1:3]
    v.mul_(x[1:3])
    h.add_(1.5)
    return h.exp(), v


def layered(w, x):
    y = x
    for _ in range(3):
        y = mt.tanh(y @ w) @ w.T + y
    return F.cross_entropy(y, mt.tensor([0, 1, 2, 3, 4, 0])), y


def own_leaf(w, x):
    p = w.detach().requires_grad_()
    return (p * x).exp().sum(), p


PROGRAMS = {
    "a loss": (lambda w, x: (w * x).sum(), wx),
    "shared parts": (lambda w, x: (h := (w * x).tanh(), h * h, h.sum())[:3], wx),
    "an intermediate is a result": (lambda w, x: (h := w.exp(), h * x), wx),
    "a parameter from outside": (lambda w, x: (w * OUTSIDE).sin() * CONSTANT + x, wx),
    "only from outside": (lambda x: (x * OUTSIDE).sum(), lambda: (mt.rand(4),)),
    "layers": (layered, matrices),
    "dropout": (lambda w, x: F.dropout(w * x, 0.5) * w, wx),
    "views of results": (lambda w, x: (h := w * x, h[1:], h.view(2, 2).T), wx),
    "a view of a result alone": (lambda w, x: (x * 2)[1:3], wx),
    "views of arguments": (lambda w, x: (x[1:], x.view(2, 2), w[::2], w.expand(3, 4)), wx),
    "a view alone": (lambda x: x[1:3], lambda: (mt.rand(4),)),
    "a view of an argument that is written": (lambda w, x: (x.add_(1.5), x[1:])[1], wx),
    "a view and a computation": (lambda w, x: (x.reshape(2, 2), w * x), wx),
    "written in place": (written, wx),
    "without gradients": (lambda w, x: (w.detach() * x, w.detach()), wx),
    "a leaf of its own": (own_leaf, wx),
    "a non-leaf argument": (
        lambda h, x: (h * x, h.sum()),
        lambda: (mt.rand(4).requires_grad_() * 2.5, mt.rand(4)),
    ),
    "several results of one op": (lambda w, x: tuple((w * x).view(2, 2).max(1)), wx),
    "parts": (lambda w, x: (w * x).split(2), wx),
    "integers beside": (lambda w, x: ((w * x).sum(), (x * 10).long(), x.argmax()), wx),
    "a view argument": (lambda x: (x * 2, x[1:]), lambda: (mt.rand(8)[2:6],)),
    "nested results": (lambda w, x: (w * x, (x * 2, x + w)), wx),
    "a batch norm": (
        lambda w, x: F.batch_norm(x, MEAN, VARIANCE, w, training=True),
        lambda: (mt.rand(5).requires_grad_(), mt.rand(6, 5)),
    ),
    "a convolution": (
        lambda w, x: F.max_pool2d(F.relu(F.conv2d(x, w, padding=1)), 2),
        lambda: (mt.rand(3, 2, 3, 3).requires_grad_(), mt.rand(2, 2, 8, 8)),
    ),
    "indices": (lambda w, x: (w[mt.tensor([1, 2, 1])], mt.where(x > 0.5, w, x)), wx),
    "joined": (lambda w, x: mt.cat([w, x, w * 2]).flip(0), wx),
    "complex numbers": (lambda w, x: (mt.complex(w, x) * (1 + 2j)).abs(), wx),
    "gradients inside": (lambda w, x: mt.autograd.grad((w * w * x).sum(), w, create_graph=True)[0] * x, wx),
    "a custom order of memory": (lambda w, x: (w.T * 2, w.T @ w), lambda: (mt.rand(3, 5).requires_grad_(), mt.rand(2))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_eager_calls(name):
    fn, make = PROGRAMS[name]
    compare(fn, make)


def test_backward_accumulates_into_arguments_and_parameters():
    def fn(w, x):
        return ((w * x + OUTSIDE) ** 2).sum()

    def after(results, arguments):
        w, x = arguments
        results[0].backward(retain_graph=True)
        results[0].backward()
        with pytest.raises(RuntimeError, match="a second time"):
            results[0].backward()
        return w.grad.tolist(), OUTSIDE.grad.tolist(), x.grad

    compare(fn, wx, after=after)


def test_a_saved_tensor_that_is_written_afterwards_is_noticed():
    def after(results, arguments):
        with mt.no_grad():
            arguments[1].add_(1)
        with pytest.raises(RuntimeError) as error:
            results[0].sum().backward()
        return str(error.value)

    compare(lambda w, x: w * x, wx, after=after)

    def write_result(results, arguments):
        with mt.no_grad():
            results[0].mul_(2)
        with pytest.raises(RuntimeError) as error:
            results[0].sum().backward()
        return str(error.value)

    compare(lambda w, x: w.exp(), wx, after=write_result)


def test_writes_through_views_are_seen_on_both_sides():
    def after(results, arguments):
        view, x = results[0], arguments[1]
        view.add_(1)
        x.mul_(2)
        return view.tolist(), x.tolist(), view._version, x._version

    compare(lambda w, x: (x[1:], x * 2), wx, after=after)

    def with_gradient(results, arguments):
        h, view = results
        view.mul_(OUTSIDE[:2])
        h.sum().backward()
        return h.tolist(), view.tolist(), arguments[0].grad.tolist(), OUTSIDE.grad.tolist(), graph(h), graph(view)

    def fn(w, x):
        h = w * x
        return h, h[1:3]

    compare(fn, wx, after=with_gradient)


def test_hooks_on_results_and_kept_gradients():
    def after(results, arguments):
        seen = []
        results[0].register_hook(lambda g: seen.append(g.tolist()))
        results[1].retain_grad()
        (results[0].sum() + results[1].sum()).backward()
        return seen, results[1].grad.tolist(), arguments[0].grad.tolist()

    compare(lambda w, x: (h := w * x, h * 3), wx, after=after)


def test_a_parameter_that_no_longer_wants_a_gradient_is_noticed():
    p = mt.rand(4).requires_grad_()
    f = mt.function(lambda x: x * p, jit_compile=True)
    x = mt.rand(4)
    assert [f(x).requires_grad for _ in range(2)] == [True, True]
    assert f.hits == 1
    p.requires_grad_(False)
    assert not f(x).requires_grad
    p.requires_grad_()
    assert f(x).requires_grad


def test_nothing_of_a_call_is_kept():
    f = mt.function(lambda w, x: ((w * x).exp() * w).sum(), jit_compile=True)
    for _ in range(3):
        w, x = mt.rand(100).requires_grad_(), mt.rand(100)
        y = f(w, x)
        y.backward()
        references = [weakref.ref(t) for t in (w, x, y)]
        del w, x, y
        gc.collect()
        assert [r() for r in references] == [None] * 3
    assert f.hits == 2


class Doubled(mt.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


KEPT = []
EARLIER = (mt.rand(4).requires_grad_() * 2).exp()


def hooked(w, x):
    h = w * x
    h.register_hook(lambda g: g * 2)
    return h.sum()


@pytest.mark.parametrize(
    ("fn", "why"),
    [
        (lambda w, x: Doubled.apply(w * x).sum(), "a function of the user's own is in the history of a result"),
        (lambda w, x: (h := w * x, KEPT.append(h), h.exp())[2], "it changes a list ("),
        (lambda w, x: (h := w * x, KEPT.append(h.detach()), h.exp())[2], "it changes a list ("),
        (hooked, "a node in the history of a result has hooks"),
        (lambda w, x: x * EARLIER, "gradients run on through the history of a tensor from outside"),
    ],
)
def test_what_cannot_be_made_again_is_recorded_and_explained(fn, why):
    f = mt.function(fn, jit_compile=True)
    w, x = wx()
    for _ in range(3):
        KEPT.clear()
        assert f(w, x).requires_grad
    assert f.hits == 0
    (entry,) = mt.jit.explain(f)(w, x).to_json()["flushes"]
    assert entry["reason"].startswith(f"the end of a function that is recorded at every call: {why}")


def test_hooks_for_saved_tensors_see_those_of_every_call():
    f = mt.function(lambda w, x: (w * x).sum(), jit_compile=True)
    w, x = wx()
    for _ in range(2):
        f(w, x)
    packed = []
    with mt.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        f(w, x).backward()
    assert packed
    np.testing.assert_array_equal(w.grad.numpy(), x.numpy())
    assert f.hits == 1
    f(w, x)
    assert f.hits == 2


def test_versions_count_every_write():
    def fn(x):
        x.add_(1)
        x.mul_(2)
        y = x * 3
        y.sub_(1)
        y.add_(2)
        return y

    x, expected = mt.rand(4), None
    f = mt.function(fn, jit_compile=True)
    versions = []
    for _ in range(3):
        y = f(x)
        versions.append((x._version, y._version))
    expected = [(2, 2), (4, 2), (6, 2)]
    assert versions == expected
    assert f.hits == 2


WRITTEN = {
    "itself": lambda t: t, "data": lambda t: t.data, "detached": lambda t: t.detach(), "view": lambda t: t.view(4),
    "data of a view": lambda t: t.view(2, 2).data.view(4),
}  # fmt: skip


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("name", WRITTEN)
def test_versions_count_the_writes_to_an_argument_where_eager_ones_do(name, place):
    """`data` has a counter of its own, though its memory is another's."""

    def fn(*args):
        x, y = args[place], args[1 - place]
        x.add_(y)
        x.mul_(2)
        return x * 1

    kept = []
    for f in (fn, mt.function(fn, jit_compile=True)):
        whole = mt.arange(4.0)
        whole.add_(0)
        x, y = WRITTEN[name](whole), mt.ones(4)
        args = (x, y) if place == 0 else (y, x)
        seen = []
        for _ in range(4):
            f(*args)
            seen.append((x._version, whole._version, y._version, x.tolist()))
        kept.append(seen)
    assert kept[0] == kept[1]
    own = "data" in name
    assert [one[:3] for one in kept[0]] == [(2 * k + (not own), 1 if own else 2 * k + 1, 0) for k in range(1, 5)]


def _is_wanted(c):
    c.requires_grad_()
    return c


def _gets_a_history(c):
    v = mt.full((3,), 2.0).requires_grad_()
    c.mul_(v)
    return v


def _gets_one_through_a_view(c):
    v = mt.full((2,), 2.0).requires_grad_()
    c[1:].mul_(v)
    return v


@pytest.mark.parametrize("change", [_is_wanted, _gets_a_history, _gets_one_through_a_view])
@pytest.mark.parametrize("reads", [lambda x, c: x * c, lambda x, c: x + c[0:2].sum(), lambda x, c: c[1:]])
def test_tensors_from_outside_that_want_gradients_later(change, reads):
    results = []
    for wrap in (lambda fn: fn, lambda fn: mt.function(fn, jit_compile=True)):
        c, x = mt.arange(1.0, 4.0), mt.arange(3.0)
        f = wrap(lambda x: reads(x, c))  # noqa: B023
        assert not f(x).requires_grad
        assert not f(x).requires_grad
        leaf = change(c)
        y = f(x)
        y.sum().backward()
        with mt.no_grad():
            off = f(x).requires_grad  # of a view of what wants gradients it's true
        assert off == (f(x)._base is not None)
        results.append((y.tolist(), leaf.grad.tolist(), off))
    assert results[0] == results[1]


def test_gradients_of_tensors_from_outside_may_be_turned_off_and_on():
    """Both kinds of program stay."""
    w, x = mt.ones(3), mt.arange(3.0)
    f = mt.function(lambda x: x * w, jit_compile=True)
    for k in range(8):
        w.requires_grad_(k % 2 == 1)
        assert f(x).requires_grad == (k % 2 == 1)
    assert (f.programs, f.hits) == (2, 6)


SHAPES = {
    "t_": lambda t: t.t_(),
    "transpose_": lambda t: t.transpose_(0, 1),
    "unsqueeze_": lambda t: t.unsqueeze_(0),
    "resize_": lambda t: t.resize_(t.numel()),
    "as_strided_": lambda t: t.as_strided_((2, 2), (1, 2)),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("written", [False, True])
def test_shapes_of_arguments_that_the_function_changes_in_place(name, written):
    def fn(x):
        if written:
            x.add_(1)
        return SHAPES[name](x) * 2

    kept = []
    for f in (fn, mt.function(fn, jit_compile=True)):
        x = mt.arange(9.0).reshape(3, 3).clone()
        seen = []
        for _ in range(4):
            y = f(x)
            seen.append((y.tolist(), tuple(x.shape), x.stride(), x.tolist(), x._version))
        kept.append(seen)
    assert kept[0] == kept[1]


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_of_tensors_from_outside_that_change_between_calls(name):
    kept = []
    for wrap in (lambda fn: fn, lambda fn: mt.function(fn, jit_compile=True)):
        c = mt.arange(9.0).reshape(3, 3).clone()
        f = wrap(lambda x: (c * x).sum(0))  # noqa: B023
        seen = [f(2).tolist(), f(2).tolist()]
        SHAPES[name](c)
        seen += [f(2).tolist(), f(2).tolist()]
        kept.append(seen)
    assert kept[0] == kept[1]


def test_tensors_that_the_function_makes_may_change_their_shape():
    f = mt.function(lambda x: (x * 2).t_().unsqueeze_(0), jit_compile=True)
    for _ in range(3):
        x = mt.rand(2, 3)
        np.testing.assert_array_equal(f(x).numpy(), (x * 2).t()[None].numpy())
    assert f.hits == 2


def test_steps_by_data_leave_programs_as_they_are():
    """`w.data -= g` sets the data to what it is."""
    w = mt.ones(3).requires_grad_()
    f = mt.function(lambda x: (x * w).sum(), jit_compile=True)
    for k in range(4):
        assert f(mt.ones(3)).item() == 3 * (1 - 0.25 * k)
        w.data -= 0.25
    assert f.hits == 3


class State:
    pass


def test_tensors_from_outside_that_others_take_the_place_of():
    """By a global, an attribute, an item and a cell."""
    global OUTSIDE
    before, state, items, cell = OUTSIDE, State(), [mt.zeros(3)], mt.zeros(3)
    state.value = mt.zeros(3)
    OUTSIDE = mt.zeros(3)

    def read(x):
        return x + OUTSIDE + state.value * 10 + items[0] * 100 + cell * 1000

    f = mt.function(read, jit_compile=True)
    try:
        for k in range(1, 5):
            assert f(mt.ones(3)).tolist() == f(mt.ones(3)).tolist() == read(mt.ones(3)).tolist()
            assert (f.programs, f.hits) == (1, k)
            if k == 1:
                OUTSIDE = mt.ones(3)
            elif k == 2:
                state.value = mt.ones(3)
            elif k == 3:
                items[0] = mt.ones(3)
            else:
                cell = mt.ones(3)
        assert f(mt.ones(3)).tolist() == [1112] * 3
    finally:
        OUTSIDE = before


def test_states_that_a_loop_hands_on_by_a_global_are_not_kept():
    state = State()
    state.h = mt.zeros(3)
    f = mt.function(lambda x: mt.tanh(x + state.h), jit_compile=True)
    expected, seen = mt.zeros(3), []
    for k in range(6):
        x = mt.full((3,), k)
        seen.append(weakref.ref(state.h))
        state.h, expected = f(x), mt.tanh(x + expected)
        assert state.h.tolist() == expected.tolist()
    gc.collect()
    assert f.programs == 1
    assert not any(one() for one in seen[:-1])
