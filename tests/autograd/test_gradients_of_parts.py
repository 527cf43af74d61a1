"""Gradients of slices, rows and pieces go to their places in the whole's gradient, whoever else looks at that."""

import gc
import weakref

import numpy as np
import pytest
from recording import recorded

import minitensor as mt


def matrix():
    return mt.arange(24.0, dtype=mt.float64).reshape(6, 4) / 7 - 1


PARTS = {
    "chunks": lambda y: [a * (k + 1) for k, a in enumerate(y.chunk(3, 0))],
    "pieces": lambda y: [a.exp() for a in y.split([1, 2, 1], 1)],
    "rows": lambda y: [a * a for a in y.unbind(0)],
    "overlapping": lambda y: [y[:4] * 2, y[1:5] * 3, y[3] * y[4], y[2:3].sin()],
    "steps": lambda y: [y[::2].cos(), y[1::2, ::3] * 5],
    "elements": lambda y: [y[0, 0] * 2, y[-1, -1] * 3, y[0, 0] * y[2, 1]],
    "parts of parts": lambda y: [y[1:5][1:3].exp(), y[1:5, 1:][:, 0] * 2, y[0][1:]],
    "the whole too": lambda y: [y[0] * 2, y * y, y[1] * 3],
    "transposed": lambda y: [y.t()[1] * 2, y.t()[2:] * 4, y[0]],
}


@pytest.mark.parametrize(
    "options", [None, {}, {"auto_jit": 2, "cpu_global_jit": True}], ids=["eager", "recorded", "jit"]
)
@pytest.mark.parametrize("name", PARTS)
def test_the_gradient_of_the_parts(name, options):
    """The parts cut out by products with matrices of zeros and ones have the same one."""

    def gradients(cut):
        x = matrix().requires_grad_()
        y = x * 1.5  # not a leaf
        loss = sum((part.sum() * (k + 1) for k, part in enumerate(PARTS[name](cut(y)))), mt.zeros((), dtype=mt.float64))
        loss.backward()
        return x.grad.numpy().copy()

    class Selected:
        """`y`, indexed by sums over all of its elements."""

        def __init__(self, y):
            self.y, self.positions = y, np.arange(y.numel()).reshape(y.shape)

        def taken(self, positions):
            chosen = np.zeros((positions.size, self.y.numel()))
            chosen[np.arange(positions.size), positions.ravel()] = 1
            values = (mt.from_numpy(chosen) * self.y.reshape(1, -1)).sum(1)
            return Taken(values.reshape(positions.shape), positions, self)

    class Taken:
        def __init__(self, value, positions, source):
            self.value, self.positions, self.source = value, positions, source

        def __getitem__(self, key):
            return self.source.taken(self.positions[key])

        def __getattr__(self, method):
            if method == "t":
                return lambda: self.source.taken(self.positions.T)
            if method in ("chunk", "split", "unbind"):

                def pieces(*given):
                    positions = mt.from_numpy(self.positions)
                    return [self.source.taken(p.numpy()) for p in getattr(positions, method)(*given)]

                return pieces
            return getattr(self.value, method)

        def __mul__(self, other):
            return self.value * (other.value if isinstance(other, Taken) else other)

    def selected(y):
        whole = Selected(y)
        return whole.taken(whole.positions)

    if options is None:
        found = gradients(lambda y: y)
    else:
        with recorded(**options):
            found = gradients(lambda y: y)
        assert found.tobytes() == gradients(lambda y: y).tobytes()
    np.testing.assert_allclose(found, gradients(selected), rtol=1e-13, atol=1e-15)


def test_gradients_that_others_hold_are_left_alone():
    x = matrix().requires_grad_()
    y = x * 1
    of_y, of_row = mt.ones(6, 4, dtype=mt.float64), mt.ones(4, dtype=mt.float64)
    mt.autograd.backward([y, y[0], y[1:3]], [of_y, of_row, of_y[1:3]])
    assert of_y.tolist() == [[1] * 4] * 6
    assert x.grad.sum(1).tolist() == [8, 8, 8, 4, 4, 4]

    seen = []
    x.grad = None
    y = x * 1
    y.register_hook(seen.append)
    y.retain_grad()
    z = y * 1
    (z[0].sum() + z[2:4].sum() + (y[5] * 2).sum() + y[4].sum()).backward()
    assert len(seen) == 1
    assert seen[0].tolist() == y.grad.tolist() == x.grad.tolist()
    assert x.grad.sum(1).tolist() == [4, 0, 4, 4, 4, 8]


def test_second_derivatives_of_parts():
    x = matrix().requires_grad_()
    a, b, c = x.chunk(3)
    (g,) = mt.autograd.grad((a * b * c).sum() + (a**3).sum(), x, create_graph=True)
    (h,) = mt.autograd.grad(g.sum(), x)
    a, b, c = (part.detach() for part in (a, b, c))
    assert mt.allclose(h, mt.cat([b + c + 6 * a, a + c, a + b]))


@pytest.mark.at_once(reason="it counts what is allocated at a call")
def test_the_parts_gradients_need_no_memory_of_their_own():
    x = mt.ones(64, 20_000, requires_grad=True)
    y = x * 1
    loss = sum(row.sum() for row in y.unbind(0))
    mt.reset_peak_memory_stats()
    before = mt.allocator_stats()["allocated_bytes"]
    loss.backward()
    assert x.grad.sum().item() == 64 * 20_000
    # The whole's gradient, that of x and a few rows.
    assert mt.allocator_stats()["peak_allocated_bytes"] - before < 3 * x.numel() * 4


@pytest.mark.parametrize("name", ["exp_", "sqrt_", "tanh_", "sigmoid_"])
def test_second_derivatives_of_a_write_to_a_part_that_keeps_its_result(name):
    """The formula reads the result, whose history is that of the write; both run in one pass, and read what it kept."""
    results = []
    for in_place in (True, False):
        x = mt.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=mt.float64, requires_grad=True)
        if in_place:
            y = x * 1
            getattr(y[0], name)()
        else:
            y = mt.cat([getattr(x[:1], name[:-1])(), x[1:]])
        (first,) = mt.autograd.grad((y * y).sum(), x, create_graph=True)
        (second,) = mt.autograd.grad((first * first).sum(), x)
        results.append((first.tolist(), second.tolist()))
    for written, made in zip(*results, strict=True):
        np.testing.assert_allclose(written, made, rtol=1e-13)


@pytest.mark.parametrize("retain", [True, False])
def test_what_a_write_to_a_part_kept_is_freed_at_the_end_of_the_pass(retain):
    x = mt.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=mt.float64, requires_grad=True)
    y = x * 1
    y[0].exp_()
    loss = (y * y).sum()
    (first,) = mt.autograd.grad(loss, x, create_graph=True)
    again = mt.autograd.grad((first * first).sum(), x, retain_graph=retain)
    if retain:
        assert mt.autograd.grad((first * first).sum(), x)[0].tolist() == again[0].tolist()
    with pytest.raises(RuntimeError, match="second time"):
        mt.autograd.grad(loss, x)


@pytest.mark.parametrize("name", ["mul_", "div_", "hypot_"])
def test_a_part_is_written_by_another(name):
    """Both show one tensor. The gradients are those of two tensors, and nothing holds on to the graph."""
    x = mt.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=mt.float64, requires_grad=True)
    y = x * 1
    other = y[1]
    getattr(y[0], name)(other)
    made = mt.stack([getattr(x[0], name[:-1])(x[1]), x[1]])
    for seen in (y, made):
        first = mt.autograd.grad((seen * seen).sum(), x, create_graph=True)[0]
        second = mt.autograd.grad((first * first).sum(), x)[0]
        if seen is y:
            expected = first.tolist(), second.tolist()
    np.testing.assert_allclose(first.tolist(), expected[0], rtol=1e-13)
    np.testing.assert_allclose(second.tolist(), expected[1], rtol=1e-13)


class _Noticed:
    """What a leaf holds, to see when it is gone."""


@pytest.mark.parametrize("size", [0, 3])
@pytest.mark.parametrize("whole", [False, True])
def test_a_graph_of_a_part_that_is_written_by_another_is_freed(size, whole):
    x = mt.ones(2, size, requires_grad=True)
    x.noticed = _Noticed()
    gone = weakref.ref(x.noticed)
    y = x * 1
    if whole:
        y[0].hypot_(y[0])  # of no elements none overlap
    else:
        y[0].mul_(y[1])
    (y * y).sum().backward()
    assert x.grad.shape == (2, size)
    y = x * 1
    y[0].mul_(y[1])
    del x, y
    gc.collect()
    assert gone() is None
