"""What goes wrong between processes: an error on every rank, that says who and which call, and nothing that hangs."""

import os
import signal
from datetime import timedelta

import pytest
from ranks import Died, init, run

import minitensor as mt
import minitensor.distributed as dist


def errors(found, kind=dist.DistBackendError):
    assert all(type(one) is kind for one in found), found
    return [str(one) for one in found]


def one_is_killed(rank, asynchronous):
    x = mt.ones(200_000)
    for _ in range(3):
        dist.all_reduce(x)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if asynchronous:
        dist.all_reduce(x, async_op=True).wait()
    else:
        dist.all_reduce(x)


@pytest.mark.parametrize(
    ("transport", "asynchronous"), [("shared_memory", False), ("shared_memory", True), ("tcp", False)]
)
def test_a_rank_that_is_killed(transport, asynchronous, tmp_path):
    found = run(3, one_is_killed, tmp_path, asynchronous, transport=transport)
    assert isinstance(found[1], Died)
    for text in errors([found[0], found[2]]):
        assert "all_reduce(SUM, float32[200000]) (call 4 of the group)" in text
        assert "rank 1 has died" in text or (transport == "tcp" and "has died or left the group" in text), text


def one_has_another(rank, call):
    dist.all_reduce(mt.ones(3))
    x = mt.ones(3)
    if rank == 2:
        if call == "shape":
            x = mt.ones(4)
        elif call == "dtype":
            x = mt.ones(3, dtype=mt.float64)
        elif call == "root":
            return dist.broadcast(x, 1)
        elif call == "collective":
            return dist.barrier()
    if call == "root":
        return dist.broadcast(x, 0)
    return dist.all_reduce(x)


@pytest.mark.parametrize(
    ("call", "theirs"),
    [
        ("shape", "all_reduce(SUM, float32[4])"),
        ("dtype", "all_reduce(SUM, float64[3])"),
        ("root", "broadcast(float32[3], from rank 1)"),
        ("collective", "barrier()"),
    ],
)
@pytest.mark.parametrize("transport", ["shared_memory", "tcp"])
def test_calls_that_do_not_go_together(call, theirs, transport, tmp_path):
    ours = "broadcast(float32[3], from rank 0)" if call == "root" else "all_reduce(SUM, float32[3])"
    for text in errors(run(3, one_has_another, tmp_path, call, transport=transport)):
        assert "don't go together" in text
        assert f"rank 2 called {theirs}" in text
        assert f"rank 0 called {ours}" in text


def sends_another_number(rank):
    out = [mt.empty(2), mt.empty(2)]
    dist.all_to_all(out, [mt.ones(2 + 3 * rank), mt.ones(2)])


def test_parts_of_another_length(tmp_path):
    first, second = errors(run(2, sends_another_number, tmp_path))
    assert "rank 1 called all_to_all(float32) and sends 20 bytes where rank 0 expects 8" in first
    assert "rank 0 called all_to_all(float32) and expects 8 bytes where rank 1 sends 20" in second


def one_stalls(rank, folder):
    told = dist.FileStore(f"{folder}/told")
    dist.barrier()
    if rank == 1:
        told.wait(["0", "2"])
        return
    dist.group.WORLD.set_timeout(timedelta(seconds=0.5))
    try:
        dist.all_reduce(mt.ones(3))
    finally:
        told.set(str(rank), "")


def test_a_rank_that_stalls(tmp_path):
    found = run(3, one_stalls, tmp_path, str(tmp_path))
    for text in errors([found[0], found[2]]):
        assert "all_reduce(SUM, float32[3]) (call 2 of the group): timed out after 0.5 s; not called yet" in text
        assert "1" in text.rpartition("by rank ")[2]


def one_leaves(rank):
    if rank == 0:
        return
    dist.all_gather_object([None] * 2, "x")


def test_a_rank_that_has_left(tmp_path):
    (text,) = errors(run(2, one_leaves, tmp_path)[1:])
    assert "all_gather(2 x int64[1]) (call 1 of the group): rank 0 has left the group" in text


def nobody_calls(rank):
    if rank == 0:
        dist.recv(mt.empty(3), 1)
    if rank == 1:
        dist.send(mt.ones(4), 0)
        dist.barrier()


def test_a_message_of_another_length(tmp_path):
    for text in errors(run(2, nobody_calls, tmp_path)):
        assert "recv(float32[3], from rank 1): rank 0 expects float32[3], rank 1 sent float32[4]" in text


def is_interrupted(rank, folder):
    told = dist.FileStore(f"{folder}/told")
    if rank == 1:
        told.wait(["interrupted"])
        try:
            dist.all_reduce(mt.ones(3))
        except dist.DistBackendError as error:
            return str(error)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1)
        dist.all_reduce(mt.ones(3))
    except KeyboardInterrupt:
        told.set("interrupted", "")
        return "interrupted"


def test_an_interrupt_ends_the_wait(tmp_path):
    found = run(2, is_interrupted, tmp_path, str(tmp_path))
    assert found[0] == "interrupted"
    assert "rank 0: the process was interrupted in a call" in found[1], found


def forks(rank):
    dist.all_reduce(mt.ones(3))
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        try:
            dist.all_reduce(mt.ones(3))
        except RuntimeError as error:
            os.write(write, f"{dist.get_rank()} {error}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    dist.all_reduce(x := mt.ones(3))
    return os.read(read, 1000).decode(), x.tolist()


@pytest.mark.parametrize("transport", ["shared_memory", "tcp"])
def test_a_forked_child_has_no_group(transport, tmp_path):
    for rank, (text, x) in enumerate(run(2, forks, tmp_path, transport=transport)):
        assert text.startswith(f"{rank} a process group that was made before a fork can't be used in the child")
        assert x == [2, 2, 2]


def has_another_token(rank, port, folder):
    told = dist.FileStore(f"{folder}/told")
    os.environ["MT_DISTRIBUTED_TOKEN"] = f"of rank {rank}"
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", port, 2, True, wait_for_workers=False)
        told.wait(["refused"])
        return store.num_keys()
    try:
        dist.TCPStore("127.0.0.1", port, 2, False)
    except dist.DistNetworkError as error:
        return str(error)
    finally:
        told.set("refused", "")


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_process_with_another_token_is_refused(tmp_path):
    keys, second = run(2, has_another_token, tmp_path, free_port(), str(tmp_path), begin=False)
    assert keys == 0
    assert "MT_DISTRIBUTED_TOKEN must be the same for all" in second


def does_not_come(rank, folder):
    if rank == 0:
        init(0, 2, folder, timeout=0.3)


def test_a_rank_that_does_not_come(tmp_path):
    (text,) = errors(run(2, does_not_come, tmp_path, str(tmp_path), begin=False)[:1], dist.DistStoreError)
    assert "machine/1" in text


def is_killed_at_random(rank, seed):
    x = mt.ones(30_000)
    works = []
    for step in range(1_000_000):
        if rank == 1 and step == 5:
            signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            signal.setitimer(signal.ITIMER_REAL, 0.0003 + 0.00137 * seed)
        works.append(dist.all_reduce(x.zero_(), async_op=True))
        if step % 3 == 0:
            for work in works:
                work.wait()
            works.clear()
            dist.broadcast(x, step % 3)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(50))
def test_a_rank_killed_at_some_moment(seed, tmp_path):
    transport = ("shared_memory", "tcp")[seed % 2]
    found = run(3, is_killed_at_random, tmp_path, seed, transport=transport)
    errors([found[0], found[2]])
    assert isinstance(found[1], Died)
