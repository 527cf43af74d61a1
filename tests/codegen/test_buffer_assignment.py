import random

from minitensor_jit.runtime.buffer_assignment import ALIGNMENT, BufferAssignment


def test_slots_are_aligned_and_reused():
    a = BufferAssignment()
    assert [a.allocate(k, n) for k, n in enumerate((1, 64, 65))] == [0, 64, 128]
    assert a.size == 256
    a.release(1)
    assert a.allocate(3, 10) == 64
    a.release_all([0, 3, "never allocated"])
    assert a.allocate(4, 128) == 0
    assert a.size == 256


def test_a_free_end_grows():
    a = BufferAssignment()
    a.allocate(0, 64)
    a.allocate(1, 64)
    a.release(1)
    assert a.allocate(2, 1000) == 64
    assert a.size == 64 + 1024


def test_live_slots_never_overlap():
    rng = random.Random(0)
    a, live, used = BufferAssignment(), {}, 0
    for key in range(2000):
        if live and rng.random() < 0.5:
            gone = rng.choice(list(live))
            a.release(gone)
            del live[gone]
        size = rng.randint(1, 5000)
        offset = a.allocate(key, size)
        assert offset % ALIGNMENT == 0
        assert offset + size <= a.size
        assert all(offset + size <= o or o + n <= offset for o, n in live.values())
        live[key] = (offset, size)
        used = max(used, sum(n for _, n in live.values()))
    assert a.size < 2 * used
