"""What the allocator hands out: its statistics, reuse, and what clusters do not write."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sanitizers import SANITIZED

import minitensor as mt

ROOT = Path(__file__).resolve().parents[2]


def delta(run):
    """Run, and return by how much the allocator's figures rose meanwhile; the peak counts from here."""
    mt.reset_peak_memory_stats()
    before = mt.allocator_stats()
    kept = run()
    after = mt.allocator_stats()
    del kept
    return {name: after[name] - before[name] for name in before}


def clustered(fn):
    """Return fn with its ops recorded and compiled."""

    def run():
        with mt.jit_scope():
            return fn()

    run().tolist() if fn().numel() < 100 else run()  # compiled here, not in what is measured
    return run


@pytest.mark.at_once(reason="it counts what is allocated at a call")
def test_a_fused_sum_allocates_only_its_result():
    n = 50_000_000
    x, y, z = mt.rand(n), mt.rand(n), mt.rand(n)
    rose = delta(clustered(lambda: (x + y * z).sum()))
    # One block of the smallest size, and never more than that at a time.
    assert rose["allocations"] == 1
    assert rose["allocated_bytes"] == rose["peak_allocated_bytes"] == 64


@pytest.mark.at_once(reason="it counts what is allocated at a call")
def test_dead_intermediates_are_never_written():
    x = mt.rand(1 << 20)

    def chain():
        t = x
        for _ in range(8):
            t = (t * 0.5 + x).tanh()
        return t

    rose = delta(clustered(chain))
    assert rose["allocations"] == 1
    assert rose["peak_allocated_bytes"] == 4 << 20


@pytest.mark.at_once(reason="it counts what is allocated at a call")
def test_intermediates_that_live_are_written():
    x = mt.rand(1 << 20)
    kept = []

    def keep():
        half = x * 0.5
        kept.append(half)
        return (half + x).tanh() - 1.0

    run = clustered(keep)
    kept.clear()
    rose = delta(run)
    assert rose["allocated_bytes"] == 8 << 20
    np.testing.assert_array_equal(kept[-1].numpy(), (x * 0.5).numpy())


def test_an_update_in_place_allocates_nothing():
    weight, gradient = mt.rand(1 << 20), mt.rand(1 << 20)

    def update():
        with mt.jit_scope():
            weight.sub_(gradient * 0.125 + gradient * 0.25 + weight * 0.5)

    update()
    rose = delta(update)
    assert rose["allocated_bytes"] == rose["peak_allocated_bytes"] == 0


def test_freed_memory_is_used_again():
    first = mt.empty(1 << 20)
    address = first.data_ptr()
    del first
    hits = mt.allocator_stats()["cache_hits"]
    assert mt.empty(1 << 20).data_ptr() == address
    assert mt.allocator_stats()["cache_hits"] == hits + 1


def test_alignment():
    assert all(mt.empty(n).data_ptr() % 64 == 0 for n in (1, 3, 17, 1000, 100_000))
    assert all(mt.empty(n).data_ptr() % (2 << 20) == 0 for n in (1 << 19, 1 << 20, (1 << 20) + 1))


@pytest.mark.skipif(SANITIZED, reason="a sanitizer keeps address space")
def test_huge_blocks_leave_no_addresses_behind():
    """In a process of one thread: others may begin meanwhile, and each reserves addresses for its stack."""
    program = """
import resource
import minitensor as mt

def pages():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0])

def one(n):
    mt.empty(n, dtype=mt.uint8).fill_(1)
    mt.empty_cache()

one(3 << 20)
before = pages()
for k in range(64):
    one((3 << 20) + 4096 * k)
grown = (pages() - before) * resource.getpagesize()
assert grown < 16 << 20, grown
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MT_NUM_THREADS": "1", "MT_JIT_FLAGS": ""},
    )
    assert done.returncode == 0, done.stderr


def test_empty_cache_gives_memory_back():
    held = mt.empty(1 << 22)
    del held
    mt.empty_cache()
    stats = mt.allocator_stats()
    assert stats["reserved_bytes"] == stats["allocated_bytes"]


def test_ops_leave_nothing_behind():
    x = mt.rand(100, requires_grad=True)

    def mix():
        y = (x * 2.0 + 1.0).tanh()
        y.sum().backward()
        x.grad = None
        with mt.jit_scope():
            z = (y.detach() * 3.0 - 1.0).exp() + 2.0
        return z[3:7].tolist()

    mix()
    gc.collect()
    before = mt.allocator_stats()["allocated_bytes"]
    for _ in range(2_000):
        mix()
    gc.collect()
    assert mt.allocator_stats()["allocated_bytes"] == before


@pytest.mark.at_once(reason="it counts what is allocated at a call")
def test_the_graph_is_freed_as_backward_goes():
    x = mt.rand(1 << 18, requires_grad=True)
    before = mt.allocator_stats()["allocated_bytes"]
    y = x
    for _ in range(20):
        y = (y * y).sigmoid()
    loss = y.sum()
    mt.reset_peak_memory_stats()
    forward = mt.allocator_stats()["allocated_bytes"] - before
    loss.backward()
    assert mt.allocator_stats()["peak_allocated_bytes"] - before - forward < 8 << 20
    del y, loss
    assert mt.allocator_stats()["allocated_bytes"] - before == 1 << 20  # the gradient


@pytest.mark.parametrize("size", [(1 << 40,), (1 << 31, 1 << 12)])
def test_too_large_for_memory(size):
    with pytest.raises(mt.OutOfMemoryError, match=r"cannot allocate .* MiB: tensors hold"):
        mt.empty(size)
    assert mt.ones(3).sum().item() == 3


def test_more_elements_than_can_be_counted():
    with pytest.raises(RuntimeError, match="overflow"):
        mt.zeros(1 << 40, 1 << 40)


@pytest.mark.skipif(SANITIZED, reason="a sanitizer needs all the address space")
def test_a_temporary_that_does_not_fit():
    """What a kernel allocates for itself runs out like a tensor, and leaves everything usable."""
    program = """
import resource
import minitensor as mt
x = mt.arange(20_000_000, dtype=mt.float32).flip(0)
mt.empty_cache()
size = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (size + (100 << 20), -1))
try:
    x.mode()
except mt.OutOfMemoryError as error:
    assert "cannot allocate memory" in str(error), error
else:
    raise AssertionError
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
assert x[-1000:].mode()[0].item() == 0
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        # Recorded, a call allocates nothing.
        env={**os.environ, "PYTHONPATH": str(ROOT), "MT_NUM_THREADS": "1", "MT_JIT_FLAGS": ""},
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.at_once(reason="it counts what is allocated at a call")
@pytest.mark.parametrize(
    ("function", "operands"),
    [
        (lambda x: x.cumprod(1), 1),
        (lambda x: x.cumprod(0), 1),
        (lambda x: x.repeat(2, 2), 1),
        (mt.maximum, 2),
        (lambda x, y: mt.nn.functional.smooth_l1_loss(x, y, reduction="none"), 2),
        (lambda x, y: x.index_put((mt.arange(1024),), y), 2),
    ],
    ids=["cumprod of rows", "cumprod of columns", "repeat", "maximum", "smooth_l1_loss", "index_put"],
)
def test_gradients_take_little_memory_besides_their_results(function, operands):
    n = 1024
    wanted = [mt.rand(n, n, requires_grad=True) for _ in range(operands)]
    out = function(*wanted)
    g = mt.ones_like(out)
    rose = delta(lambda: mt.autograd.grad(out, wanted, g, retain_graph=True))
    assert rose["peak_allocated_bytes"] <= (4 << 20) * operands + (1 << 20)


@pytest.mark.parametrize("size", [10, 1_000_000])
@pytest.mark.parametrize("kept", [0, 4, 3000])
def test_a_storage_that_is_made_shorter_is_no_danger_to_tensors(size, kept):
    x = mt.ones(size)
    tail, storage = x[size // 2 :], x.untyped_storage()
    held = mt._C.allocator_stats()["allocated_bytes"]
    storage.resize_(min(kept, 4 * size))
    assert storage.nbytes() == x.untyped_storage().nbytes() == min(kept, 4 * size)
    tail.add_(1)  # what is there is anybody's guess, but it is memory
    assert (tail + x[-1]).shape == tail.shape
    storage.resize_(4 * size)
    assert x[0].item() == (1 if kept >= 4 or size == 10 else 0)
    assert mt._C.allocator_stats()["allocated_bytes"] <= held + 8 * size
    storage.resize_(8 * size)
    assert storage.nbytes() == 8 * size
    del x, tail, storage
    assert mt._C.allocator_stats()["allocated_bytes"] < held
