"""Operands that share memory with what is written, to the element and to the byte; views that need no copy."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import minitensor as mt

COUNT = 100_000  # more than kernels read at once


@pytest.mark.parametrize("apart", [COUNT - 1, 1 - COUNT, COUNT, 1])
@pytest.mark.parametrize("step", [1, 2])
def test_one_shared_element_is_enough(apart: int, step: int) -> None:
    """What is read is what was there, also where it is the last element read and the first one written."""
    first = 2 * COUNT
    for write in [
        lambda out, operand: mt.add(operand, 1, out=out),
        lambda out, operand: out.copy_(operand).add_(1),
        lambda out, operand: out.zero_().add_(operand).add_(1) if abs(apart) >= COUNT else out.copy_(operand).add_(1),
    ]:
        memory = mt.arange(10 * COUNT)
        out, operand = (memory[at * step : (at + COUNT) * step - step + 1 : step] for at in (first + apart, first))
        expected = operand.clone() + 1
        write(out, operand)
        assert mt.equal(out, expected)


@pytest.mark.parametrize("shift", range(-4, 5))
def test_writes_in_place_read_what_was_there_before(shift: int) -> None:
    memory = mt.arange(64.0)
    destination, source = memory[8:13], memory[8 + shift : 13 + shift]
    expected = [8 + i + 8 + shift + i for i in range(5)]
    destination.add_(source)
    assert destination.tolist() == expected
    flipped = mt.arange(9.0)
    flipped[0:5].copy_(flipped[4:9].flip(0))
    assert flipped.tolist() == [8, 7, 6, 5, 4, 5, 6, 7, 8]


def test_views_of_different_item_sizes_overlap_in_bytes() -> None:
    count = 1 << 16
    narrow = mt.arange(2 * count, dtype=mt.int32)
    wide = narrow.view(mt.int64)
    # Elements count/2 .. count of one and count .. 3/2 count of the other: the same bytes begin there.
    destination, source = wide[count // 2 :], narrow[count : count + count // 2]
    expected = source.to(mt.int64)
    destination.copy_(source)
    assert mt.equal(destination, expected)
    expected = destination.to(mt.int32) + 1
    mt.add(destination.to(mt.int32), 1, out=source)
    assert mt.equal(source, expected)
    expected = -narrow[count : count + count // 2].to(mt.int64)
    mt.mul(narrow[count : count + count // 2], -1, out=destination)
    assert mt.equal(destination, expected)


@pytest.mark.parametrize("name", ["minitensor", "torch"])
def test_dimensions_of_one_never_need_a_copy(name: str) -> None:
    lib: Any = mt if name == "minitensor" else pytest.importorskip("torch")
    memory = lib.arange(6.0)
    for sizes, dims in [((1, 2, 3), (0, 1)), ((2, 1, 3), (0, 1)), ((2, 3, 1), (1, 2)), ((1, 6, 1), (0, 2))]:
        moved = memory.view(*sizes).transpose(*dims)
        for shape in [(6,), (2, 3), (3, 2), (1, 6, 1), (6, 1)]:
            seen = moved.view(*shape)
            assert seen.data_ptr() == memory.data_ptr()
            assert seen.reshape(-1).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    with pytest.raises(RuntimeError):
        memory.view(2, 3).t().view(6)


@pytest.mark.parametrize("name", ["minitensor", "torch"])
def test_a_mode_holds_while_a_generators_own_code_runs(name: str) -> None:
    lib: Any = mt if name == "minitensor" else pytest.importorskip("torch")
    seen: list[Any] = []

    @lib.no_grad()
    def steps() -> Iterator[bool]:
        try:
            got = yield lib.is_grad_enabled()
            seen.append(("sent", got, lib.is_grad_enabled()))
            yield lib.is_grad_enabled()
        except KeyError:
            seen.append(("thrown", lib.is_grad_enabled()))
            yield lib.is_grad_enabled()
        finally:
            seen.append(("end", lib.is_grad_enabled()))

    generator: Any = steps()
    assert next(generator) is False
    assert lib.is_grad_enabled()
    assert generator.send("value") is False
    assert lib.is_grad_enabled()
    assert generator.throw(KeyError("k")) is False
    assert lib.is_grad_enabled()
    with pytest.raises(StopIteration):
        next(generator)
    assert lib.is_grad_enabled()
    assert seen == [("sent", "value", False), ("thrown", False), ("end", False)]

    seen.clear()
    closed: Any = steps()
    next(closed)
    closed.close()
    assert seen == [("end", False)]
    assert lib.is_grad_enabled()
    with lib.no_grad():
        enabled = lib.enable_grad()(lambda: iter([lib.is_grad_enabled()]))
        assert list(enabled()) == [True]
        assert not lib.is_grad_enabled()


def test_memory_that_no_address_reaches_is_refused() -> None:
    far = np.lib.stride_tricks.as_strided(np.zeros(3), shape=(3,), strides=(2**62,))
    for take in (mt.from_numpy, mt.from_dlpack):
        with pytest.raises((RuntimeError, ValueError), match="reach beyond 64 bits"):
            take(far)


@pytest.mark.parametrize("name", ["minitensor", "torch"])
def test_other_contents_count_as_a_write(name: str) -> None:
    lib: Any = mt if name == "minitensor" else pytest.importorskip("torch")
    for change in [
        lambda x: x.set_(lib.zeros(3)),
        lambda x: x.set_(lib.zeros(3).untyped_storage()),
        lambda x: x.set_(lib.zeros(3), 0, (3,)),
        lambda x: x.set_(),
        lambda x: x.resize_(1),
    ]:
        x, w = lib.ones(3), lib.ones(3, requires_grad=True)
        product = x * w
        change(x)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.sum().backward()
        assert w.grad is None
    leaf = lib.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf.set_(lib.zeros(3))
    with lib.no_grad():
        assert leaf.set_(lib.zeros(3)) is leaf
    assert leaf.tolist() == [0.0] * 3


@pytest.mark.parametrize("grad", [False, True])
def test_recorded_copies_of_reinterpreted_memory_are_there_when_it_is_written(grad: bool) -> None:
    def run() -> list[object]:
        narrow = mt.arange(16, dtype=mt.float32)
        wide = narrow.view(mt.float64)
        wide[1:5].copy_(narrow[3:7])
        narrow[0:4].add_(narrow[2:6])
        weight = mt.ones(4, requires_grad=grad)
        part = narrow[8:12]
        part.mul_(weight * 2)
        part.mul_(part[0].detach().clone()).mul_(weight)
        if grad:
            part.sum().backward()
        return [narrow.tolist(), wide.tolist(), weight.grad.tolist() if weight.grad is not None else None]

    expected = run()
    with mt.jit_scope():
        assert run() == expected


@pytest.mark.parametrize(("rank", "sizes", "strides"), [(2, range(1, 6), range(7)), (3, range(1, 4), range(5))])
def test_every_small_window_is_written_unless_it_shows_a_place_twice(rank: int, sizes: range, strides: range) -> None:
    """Also where strides interleave, as of 4 and 3 elements that are 2 and 3 apart: which places, NumPy says."""
    shared = 0
    for shape in itertools.product(sizes, repeat=rank):
        for steps in itertools.product(strides, repeat=rank):
            along = [np.arange(n) * step for n, step in zip(shape, steps, strict=True)]
            places = sum(np.ix_(*along))
            expected = np.zeros(64)
            expected[places] = 1
            memory = mt.zeros(64)
            window = memory.as_strided(shape, steps)
            if len(np.unique(places)) < places.size:
                shared += 1
                with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to"):
                    window.add_(1)
            else:
                window.add_(1)
                assert np.array_equal(memory.numpy(), expected), (shape, steps)
    assert shared > 100
