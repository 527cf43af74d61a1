"""Stores, the ways to meet, and what is asked of groups that aren't there."""

import copy
import os
import pickle
import socket
import threading
import time
from datetime import timedelta

import pytest
from ranks import run

import minitensor as mt
import minitensor.distributed as dist
from minitensor.distributed.stores import tcp_store

SHORT = timedelta(seconds=0.05)


@pytest.fixture(params=["hash", "file", "tcp", "prefix"])
def store(request, tmp_path, monkeypatch):
    monkeypatch.setenv("MT_DISTRIBUTED_TOKEN", "of the test")
    if request.param == "file":
        yield dist.FileStore(str(tmp_path / "store"))
    elif request.param == "hash":
        yield dist.HashStore()
    else:
        made = dist.TCPStore("127.0.0.1", 0, 1, True)
        yield dist.PrefixStore("a", dist.PrefixStore("b", made)) if request.param == "prefix" else made
        made._close()


@pytest.mark.parametrize("way", [pickle.dumps, copy.copy, copy.deepcopy])
def test_stores_belong_to_their_process(store, way):
    with pytest.raises(TypeError, match=f"cannot pickle '{type(store).__name__}' object"):
        way(store)


def test_what_stores_do(store):
    store.set("key", "value")
    assert store.get("key") == b"value"
    store.append("key", b"\0s")
    assert store.get("key") == b"value\0s"
    assert (store.add("n", 3), store.add("n", -1), store.get("n")) == (3, 2, b"2")
    assert store.check(["key", "n"])
    assert not store.check(["key", "other"])
    assert store.compare_set("c", "", "first") == b"first"
    assert store.compare_set("c", "other", "second") == b"first"
    assert store.compare_set("c", "first", "second") == b"second"
    assert store.compare_set("not there", "x", "y") == b"x"
    store.multi_set(["m1", "m2"], ["1", "2"])
    assert store.multi_get(["m2", "m1"]) == [b"2", b"1"]
    assert store.delete_key("m1")
    assert not store.delete_key("m1")
    assert {"key", "n", "c", "m2"} <= set(store.list_keys())
    assert store.num_keys() >= 4
    store.queue_push("q", "a")
    store.queue_push("q", b"b")
    assert (store.queue_len("q"), store.queue_pop("q"), store.queue_pop("q", block=False)) == (2, b"a", b"b")
    with pytest.raises(dist.QueueEmptyError):
        store.queue_pop("q", block=False)
    with pytest.raises(dist.DistStoreError, match=r"keys: .*never"):
        store.wait(["key", "never"], SHORT)
    with pytest.raises(TypeError, match="str and bytes, not int"):
        store.set("key", 3)
    store.set_timeout(SHORT)
    with pytest.raises(dist.DistStoreError, match="wait timeout after 50ms"):
        store.get("never")
    assert store.get("key") == b"value\0s"  # an answer is never another question's


def test_a_value_that_comes_later(store):
    other = store
    while isinstance(other, dist.PrefixStore):
        other = other.underlying_store
    if isinstance(other, dist.TCPStore):  # a connection is one thread's
        other = other.clone()
    if isinstance(store, dist.PrefixStore):
        other = dist.PrefixStore("a", dist.PrefixStore("b", other))
    if isinstance(store, dist.FileStore):
        other = dist.FileStore(store.path)
    thread = threading.Thread(target=lambda: (time.sleep(0.05), other.set("late", "x")))
    thread.start()
    assert store.get("late") == b"x"
    thread.join()


def meets(rank, method, port):
    if method == "env":
        os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        dist.init_process_group()
    elif method == "tcp":
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}?world_size=2", rank=rank)
    else:
        store = dist.TCPStore("127.0.0.1", port, 2, rank == 0)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    assert dist.is_initialized()
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (rank, 2, "gloo")
    with pytest.raises(ValueError, match="twice"):
        dist.init_process_group("gloo")
    dist.all_reduce(x := mt.ones(2))
    dist.destroy_process_group()
    assert not dist.is_initialized()
    return x.tolist()


@pytest.mark.parametrize("method", ["env", "tcp", "store"])
def test_ways_to_meet(method, tmp_path):
    from test_lost_ranks import free_port

    assert run(2, meets, tmp_path, method, free_port(), begin=False) == [[2, 2]] * 2


def test_a_group_alone(tmp_path):
    (found,) = run(1, lambda rank: dist.all_reduce(x := mt.ones(2)) or x.tolist(), tmp_path)
    assert found == [1, 1]


def test_what_is_asked_without_a_group(monkeypatch):
    assert dist.is_available()
    assert not dist.is_initialized()
    for call in (dist.get_rank, dist.get_world_size, lambda: dist.all_reduce(mt.ones(1)), dist.barrier):
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            call()
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="environment variable RANK expected, but not set"):
        dist.init_process_group("gloo")
    with pytest.raises(RuntimeError, match="doesn't have NCCL built in"):
        dist.init_process_group("nccl")
    with pytest.raises(RuntimeError, match="No rendezvous handler for udp://"):
        dist.init_process_group("gloo", init_method="udp://x")
    with pytest.raises(ValueError, match="rank 2 is not in 0"):
        dist.init_process_group("gloo", init_method="tcp://127.0.0.1:1", rank=2, world_size=2)
    with pytest.raises(AssertionError, match="both init_method and store"):
        dist.init_process_group("gloo", init_method="env://", store=dist.HashStore())


def wrong_arguments(rank):
    told = []
    for call in (
        lambda: dist.all_reduce([mt.ones(1)]),
        lambda: dist.all_gather(mt.ones(2), mt.ones(1)),
        lambda: dist.all_gather([mt.ones(1)], mt.ones(1)),
        lambda: dist.all_gather_into_tensor(mt.ones(3), mt.ones(1)),
        lambda: dist.broadcast(mt.ones(1), 2),
        lambda: dist.broadcast(mt.ones(1)),
        lambda: dist.send(mt.ones(1), rank),
        lambda: dist.all_reduce(mt.ones(1), dist.ReduceOp.BAND),
        lambda: dist.all_reduce(mt.ones(1), "sum"),
        lambda: dist.gather(mt.ones(1), None if rank == 0 else [mt.ones(1)] * 2),
        lambda: dist.new_group([0, 2]),
        lambda: dist.new_group([0, 0]),
        lambda: dist.reduce_scatter_tensor(mt.ones(2), mt.ones(3)),
        lambda: dist.all_to_all_single(mt.ones(2), mt.ones(2), [1, 2], [1, 1]),
    ):
        try:
            call()
            told.append(None)
        except (ValueError, TypeError, RuntimeError) as error:
            told.append(f"{type(error).__name__}: {error}")
    dist.all_reduce(x := mt.ones(1))  # nothing was begun
    return told, x.item()


def test_arguments_that_are_wrong(tmp_path):
    for told, x in run(2, wrong_arguments, tmp_path):
        assert x == 2
        kinds = [text and text.partition(":")[0] for text in told]
        assert kinds == [
            "TypeError",
            "TypeError",
            *["ValueError"] * 6,
            "TypeError",
            *["ValueError"] * 4,
            "RuntimeError",
        ]


def mesh(rank):
    made = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    dist.all_reduce(x := mt.tensor([float(rank)]), group=made["tp"].get_group())
    dist.all_reduce(y := mt.tensor([float(rank)]), group=made.get_group("dp"))
    return x.item(), y.item(), made.get_coordinate(), made["dp"].size()


def test_a_mesh(tmp_path):
    assert run(4, mesh, tmp_path) == [(1, 2, [0, 0], 2), (1, 4, [0, 1], 2), (5, 2, [1, 0], 2), (5, 4, [1, 1], 2)]


def test_who_comes_when_the_server_has_ended_is_turned_away(monkeypatch):
    """The server's descriptors may be other files' then: nothing is written to them."""
    server = tcp_store._Server(socket.create_server(("127.0.0.1", 0)))
    server.close()
    monkeypatch.setattr(tcp_store, "accepted", lambda end: None)
    here, there = socket.socketpair()
    with there:
        server._admit(here)
        assert here.fileno() == -1
        assert there.recv(1) == b""
    server.closing = False  # as where the thread ends between the two halves of close()
    server.close()
