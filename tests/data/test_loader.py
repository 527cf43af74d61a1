"""The loader: batches in order, workers, what they raise, their deaths, and what they leave behind."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import minitensor as mt
from minitensor.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    TensorDataset,
    get_worker_info,
)

pytestmark = pytest.mark.at_once(reason="processes have recordings of their own")


class Numbers(Dataset):
    def __init__(self, count=10):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return mt.tensor([index, index * index]), float(index)


class Stream(IterableDataset):
    def __init__(self, count=10):
        self.count = count

    def __iter__(self):
        info = get_worker_info()
        begin, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(begin, self.count, step))


class Acts(Dataset):
    """What a sample is, is what a function of its number gives."""

    def __init__(self, act, count=6):
        self.act, self.count = act, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.act(index)


def batches(loader):
    return [(x.tolist(), y.tolist(), x.dtype, y.dtype) for x, y in loader]


@pytest.mark.parametrize("options", [
    {}, {"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": 4, "shuffle": True},
    {"batch_sampler": BatchSampler(SequentialSampler(range(7)), 2, False)}, {"batch_size": 2, "prefetch_factor": 5},
    {"batch_size": 3, "persistent_workers": True},
    {"batch_size": 3, "multiprocessing_context": "spawn", "persistent_workers": True},
], ids=lambda options: "-".join(options) or "plain")  # fmt: skip
def test_workers_give_the_same_batches(options):
    def loader(workers, **more):
        generator = mt.Generator().manual_seed(3)
        of_workers = ("prefetch_factor", "persistent_workers", "multiprocessing_context")
        given = {k: v for k, v in options.items() if workers or k not in of_workers}
        return DataLoader(Numbers(), num_workers=workers, generator=generator, **given)

    alone, together = loader(0), loader(2)
    for _ in range(2):
        assert batches(together) == batches(alone)
    assert len(together) == len(alone)


def test_samples_without_batches():
    for workers in (0, 2):
        loader = DataLoader(Acts(np.float32), batch_size=None, num_workers=workers)
        assert [x.item() for x in loader] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_iterable_datasets(workers):
    found = [b.tolist() for b in DataLoader(Stream(), batch_size=3, num_workers=workers)]
    of = {
        0: [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]],
        1: [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]],
        2: [[0, 2, 4], [1, 3, 5], [6, 8], [7, 9]],
    }
    assert found == of[workers]
    full = [b.tolist() for b in DataLoader(Stream(), batch_size=3, num_workers=workers, drop_last=True)]
    assert full == [b for b in of[workers] if len(b) == 3]
    assert list(DataLoader(Stream(5), batch_size=None, num_workers=workers)) == list(range(5))


def test_iterable_datasets_with_persistent_workers():
    loader = DataLoader(Stream(7), batch_size=2, num_workers=2, persistent_workers=True)
    first = [b.tolist() for b in loader]
    assert first == [[0, 2], [1, 3], [4, 6], [5]]
    assert [b.tolist() for b in loader] == first


class Told(Stream):
    def __len__(self):
        return 2


def test_an_iterable_dataset_that_is_longer_than_it_says():
    loader = DataLoader(Told(4), batch_size=None)
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="was reported to be 2"):
        list(loader)


def whoami(index):
    info = get_worker_info()
    return info.id, info.num_workers, info.seed, os.getpid(), random.random(), np.random.rand(), mt.rand(1).item()


def listed(batch):
    return batch


def test_workers_know_themselves_and_have_seeds_of_their_own():
    assert get_worker_info() is None

    def run():
        generator = mt.Generator().manual_seed(11)
        loader = DataLoader(Acts(whoami), num_workers=2, collate_fn=listed, generator=generator)
        return [b[0] for b in loader]

    first, again = run(), run()
    assert [f[0] for f in first] == [0, 1, 0, 1, 0, 1]
    assert {f[1] for f in first} == {2}
    assert first[1][2] == first[0][2] + 1
    assert len({f[3] for f in first}) == 2
    assert os.getpid() not in {f[3] for f in first}
    for at in (2, 4, 5, 6):
        assert [f[at] for f in first] == [f[at] for f in again]
    assert len({f[6] for f in first}) == 6


_set = []


def test_persistent_workers_stay_and_others_do_not():
    def pids(loader):
        return {b[0][3] for b in loader}

    stays = DataLoader(Acts(whoami), num_workers=2, collate_fn=listed, persistent_workers=True)
    assert pids(stays) == pids(stays)
    goes = DataLoader(Acts(whoami), num_workers=2, collate_fn=listed)
    assert pids(goes).isdisjoint(pids(goes))


def test_a_function_begins_each_worker():
    loader = DataLoader(Acts(lambda i: _set[0] + i), num_workers=2, worker_init_fn=lambda n: _set.append(100 * n))
    assert [b.item() for b in loader] == [0, 101, 2, 103, 4, 105]
    assert _set == []


def test_what_a_worker_sends():
    def act(index):
        parameter = mt.nn.Parameter(mt.ones(2) * index)
        return {
            "empty": mt.empty(0, 3), "bool": mt.tensor([True, False]), "half": mt.ones(3, dtype=mt.bfloat16),
            "complex": mt.tensor(1 + 2j), "view": mt.arange(6).reshape(2, 3).t(), "array": np.arange(4.0) * index,
            "parameter": parameter, "text": "x" * 10000, "large": mt.full((300, 300), float(index)),
        }  # fmt: skip

    for index, found in enumerate(DataLoader(Acts(act, 3), batch_size=None, num_workers=1, collate_fn=listed)):
        expected = act(index)
        for key, value in expected.items():
            if isinstance(value, mt.Tensor):
                assert (found[key].dtype, found[key].tolist()) == (value.dtype, value.tolist()), key
                assert type(found[key]) is type(value)
                assert found[key].requires_grad == value.requires_grad
            else:
                assert np.array_equal(found[key], value), key
        found["large"].add_(1.0)
        assert found["large"][0, 0].item() == index + 1.0


def test_batches_outlive_their_workers():
    kept = [x for x, _ in DataLoader(Numbers(40), batch_size=4, num_workers=2)]
    assert mt.cat(kept)[:, 0].tolist() == list(range(40))


def fails(error):
    def act(index):
        if index == 3:
            raise error
        return index

    return act


class OddError(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


@pytest.mark.parametrize(
    ("error", "kind"), [(ValueError("so"), ValueError), (KeyError("so"), KeyError), (OddError(1, 2), RuntimeError)]
)
def test_what_a_worker_raises(error, kind):
    loader = DataLoader(Acts(fails(error)), num_workers=2)
    batches = iter(loader)
    assert [next(batches).item() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(kind) as caught:
        next(batches)
    text = str(caught.value)
    assert f"Caught {type(error).__name__} in DataLoader worker process 1.\nOriginal Traceback" in text
    assert "in act\n" in text


def test_what_begins_a_worker_may_raise():
    def begin(number):
        raise OSError("not today")

    with pytest.raises(OSError, match="in DataLoader worker process 0"):
        next(iter(DataLoader(Numbers(), num_workers=1, worker_init_fn=begin)))


def test_what_cannot_be_sent():
    with pytest.raises(Exception, match="in DataLoader worker process 0"):
        next(iter(DataLoader(Acts(lambda i: threading.Lock()), num_workers=1, collate_fn=listed)))
    act = lambda i: mt.ones(2, requires_grad=True) * 2  # noqa: E731
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        next(iter(DataLoader(Acts(act), num_workers=1, collate_fn=listed)))


def dies(how):
    def act(index):
        if index == 3:
            how()
        return index

    return act


@pytest.mark.parametrize(("how", "text"), [
    (lambda: os.kill(os.getpid(), signal.SIGKILL), "is killed by signal: Killed"),
    (lambda: os._exit(7), "exited unexpectedly with exit code 7"),
], ids=["killed", "exits"])  # fmt: skip
def test_a_worker_that_dies(how, text):
    before = sorted(os.listdir("/dev/shm"))
    loader = DataLoader(Acts(dies(how)), num_workers=2)
    batches = iter(loader)
    with pytest.raises(RuntimeError, match=text):
        list(batches)
    assert not any(p.is_alive() for p in batches._workers.processes)
    assert sorted(os.listdir("/dev/shm")) == before


def test_a_timeout():
    begun = time.monotonic()
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.1 seconds"):
        next(iter(DataLoader(Acts(lambda i: threading.Event().wait(0.7)), num_workers=1, timeout=0.1)))
    assert time.monotonic() > begun


def test_a_loop_that_is_left_ends_its_workers():
    batches = iter(DataLoader(Numbers(100), num_workers=2))
    next(batches)
    processes = batches._workers.processes
    assert all(p.is_alive() for p in processes)
    del batches
    assert not any(p.is_alive() for p in processes)


def test_batches_as_they_are_ready(tmp_path):
    gate = tmp_path / "gate"

    def act(index):
        while index == 0 and not gate.exists():
            time.sleep(0.001)
        return index

    loader = DataLoader(Acts(act, 8), num_workers=2, in_order=False)
    found = []
    for batch in loader:
        found.append(batch.item())
        if len(found) == 3:
            gate.touch()
    assert sorted(found) == list(range(8))
    assert 0 not in found[:3]


def test_descriptors_are_closed():
    def count():
        return len(os.listdir("/proc/self/fd"))

    list(DataLoader(Numbers(), num_workers=2))
    before = count()
    for _ in range(2):
        list(DataLoader(Numbers(), batch_size=2, num_workers=2))
    assert count() <= before


def test_long_lists_of_numbers():
    sampler = [list(range(begin, begin + 20000)) for begin in range(0, 400000, 20000)]
    loader = DataLoader(range(400000), batch_sampler=sampler, num_workers=1, collate_fn=sum, prefetch_factor=15)
    assert list(loader) == [sum(batch) for batch in sampler]


PROGRAM = """
import os, sys, threading
import minitensor as mt
from minitensor.utils.data import DataLoader
class Slow:
    def __len__(self): return 100
    def __getitem__(self, i):
        if i > 3: threading.Event().wait(20)
        return i
if __name__ == "__main__":
    batches = iter(DataLoader(Slow(), num_workers=2))
    print(next(batches).item(), *[p.pid for p in batches._workers.processes], flush=True)
    list(batches)
"""


def gone(pid):
    for _ in range(2000):
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "killed"])
def test_workers_end_with_their_program(how, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(mt.__file__))}
    program = subprocess.Popen(
        [sys.executable, "program.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env=env,
    )  # fmt: skip
    first, *pids = program.stdout.readline().split()
    assert (first, len(pids)) == ("0", 2)
    if how == signal.SIGINT:
        os.killpg(program.pid, how)
        _, text = program.communicate(timeout=60)
        assert text.strip().endswith("KeyboardInterrupt")
    else:
        program.send_signal(how)
        program.wait(60)
        os.killpg(program.pid, signal.SIGINT)  # those in the middle of a sample
        program.communicate(timeout=60)
    assert all(gone(pid) for pid in pids)


BAD = [
    ({"num_workers": -1}, "a"), ({"timeout": -1}, "a"), ({"prefetch_factor": 2}, "a"),
    ({"num_workers": 1, "prefetch_factor": -1}, "a"), ({"persistent_workers": True}, "a"),
    ({"sampler": [1], "shuffle": True}, "a"), ({"batch_sampler": [[1]], "shuffle": True}, "a"),
    ({"batch_sampler": [[1]], "batch_size": 2}, "a"), ({"batch_size": None, "drop_last": True}, "a"),
    ({"shuffle": True}, "b"), ({"sampler": [1]}, "b"), ({"batch_sampler": [[1]]}, "b"),
    ({"multiprocessing_context": "fork"}, "a"), ({"num_workers": 1, "multiprocessing_context": "x"}, "a"),
    ({"num_workers": 1, "multiprocessing_context": 3}, "a"), ({"batch_size": 0}, "a"), ({"drop_last": 3}, "a"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "of"), BAD, ids=str)
def test_bad_options(options, of):
    lib = pytest.importorskip("torch")
    found = []
    for data in (mt.utils.data, lib.utils.data):
        stream = type("Stream", (data.IterableDataset,), {"__iter__": lambda self: iter(())})
        with pytest.raises(Exception) as caught:  # noqa: PT011  (compared)
            data.DataLoader(range(4) if of == "a" else stream(), **options)
        found.append((caught.type, str(caught.value)))
    assert found[0] == found[1]


def test_what_may_not_change():
    loader = DataLoader(Numbers())
    for name in ("batch_size", "sampler", "dataset"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader is initialized"):
            setattr(loader, name, 3)
    with pytest.raises(NotImplementedError):
        iter(loader).__getstate__()


def test_too_many_workers():
    lib = pytest.importorskip("torch")
    texts = []
    for data in (mt.utils.data, lib.utils.data):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            data.DataLoader(range(4), num_workers=9999)
        texts.append([str(w.message) for w in caught])
        assert caught[0].filename == __file__ or data is not mt.utils.data
    assert texts[0] == texts[1]


def test_training_by_batches():
    mt.manual_seed(0)
    x = mt.randn(64, 3)
    data = TensorDataset(x, x @ mt.tensor([[1.0], [-2.0], [0.5]]))
    losses = []
    for workers in (0, 2):
        mt.manual_seed(1)
        model = mt.nn.Linear(3, 1)
        optimizer = mt.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(
            data, batch_size=16, shuffle=True, num_workers=workers, generator=mt.Generator().manual_seed(2)
        )
        for _ in range(2):
            for inputs, targets in loader:
                optimizer.zero_grad()
                loss = mt.nn.functional.mse_loss(model(inputs), targets)
                loss.backward()
                optimizer.step()
        losses.append(loss.item())
    assert losses[0] == losses[1]
