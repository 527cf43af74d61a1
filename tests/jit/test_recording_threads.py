"""Recording on several threads, and finalizers that compute while something is recorded."""

import gc
import threading
import weakref

from recording import recorded

import minitensor as mt

# ---- threads


def test_threads_record_at_once():
    results = {}

    def work(number):
        with recorded():
            x = mt.full((100,), number)
            for _ in range(50):
                x = x + 1
                if number % 2:
                    x.sum().item()
            results[number] = x

    workers = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert {n: x[0].item() for n, x in results.items()} == {n: n + 50 for n in range(6)}


def test_a_value_that_another_thread_recorded():
    made, done = threading.Event(), threading.Event()
    box = []

    def work():
        with recorded():
            box.append(mt.ones(4) * 3)
            assert box[0]._is_pending
            made.set()
            done.wait(30)

    worker = threading.Thread(target=work)
    worker.start()
    made.wait(30)
    try:
        with recorded():
            y = box[0] + 1
        assert y.tolist() == [4] * 4
    finally:
        done.set()
        worker.join()


def test_memory_that_another_thread_changes():
    x = mt.ones(4)
    recorded_read, changed = threading.Event(), threading.Event()
    box = []

    def work():
        with recorded():
            box.append(x * 3)
            recorded_read.set()
            changed.wait(30)

    worker = threading.Thread(target=work)
    worker.start()
    recorded_read.wait(30)
    x.add_(10)
    changed.set()
    worker.join()
    assert box[0].tolist() == [3] * 4
    assert x.tolist() == [11] * 4


def test_recording_belongs_to_a_thread():
    seen = []
    with recorded():
        worker = threading.Thread(target=lambda: seen.append((mt.ones(2) + 1)._is_pending))
        worker.start()
        worker.join()
    assert seen == [False]


# ---- finalizers


def test_finalizers_that_compute():
    log = []

    class Cycle:
        def __init__(self, x):
            self.me, self.x = self, x

        def __del__(self):
            log.append((self.x + 1).sum().item())

    gc.collect()
    thresholds = gc.get_threshold()
    gc.set_threshold(5)
    try:
        with recorded():
            y = mt.zeros(3)
            for _ in range(300):
                Cycle(y)
                y = y + 1
    finally:
        gc.set_threshold(*thresholds)
    gc.collect()
    assert y.tolist() == [300] * 3
    assert len(log) == 300


def test_recorded_tensors_are_freed():
    with recorded():
        x = mt.ones(3) + 1
        alive = weakref.ref(x)
        del x
        assert alive() is None
