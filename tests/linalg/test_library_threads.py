"""Small matrices are computed on one thread of the library's, which then has its threads again."""

import threading

import numpy as np
import pytest

import minitensor as mt
from minitensor.ops.library.threads import for_matrices, pools

POOLS = pools()


def threads():
    return [pool.get() for pool in POOLS]


@pytest.fixture
def two():
    """Two threads in the libraries, and in minitensor."""
    before, own = threads(), mt.get_num_threads()
    for pool in POOLS:
        pool.put(2)
    mt.set_num_threads(2)
    yield [2] * len(POOLS)
    mt.set_num_threads(own)
    for pool, count in zip(POOLS, before, strict=True):
        pool.put(count)


def test_the_library_of_numpys_wheel_is_found():
    with open("/proc/self/maps") as maps:
        loaded = any("/numpy.libs/" in line and "openblas" in line for line in maps)
    assert POOLS or not loaded


@pytest.mark.skipif(not POOLS, reason="NumPy is not built with OpenBLAS")
@pytest.mark.parametrize(("n", "own", "expected"), [(8, 2, 1), (256, 2, 1), (257, 2, 2), (257, 1, 1)])
def test_how_many_threads_a_matrix_gets(monkeypatch, two, n, own, expected):
    mt.set_num_threads(own)
    seen = []
    plain = np.linalg.eigvalsh
    monkeypatch.setattr(np.linalg, "eigvalsh", lambda *given: seen.append(threads()) or plain(*given))
    values = mt.linalg.eigvalsh(mt.eye(n))
    assert values.tolist() == [1.0] * n
    assert seen == [[expected] * len(POOLS)]
    assert threads() == two


@pytest.mark.skipif(not POOLS, reason="NumPy is not built with OpenBLAS")
def test_calls_within_each_other_and_errors(two):
    inside, go = threading.Event(), threading.Event()

    def other():
        with for_matrices(3):
            inside.set()
            go.wait()

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(60)
    with pytest.raises(ValueError, match="here"), for_matrices(3):
        raise ValueError("here")
    assert threads() == [1] * len(POOLS)
    go.set()
    thread.join()
    assert threads() == two
