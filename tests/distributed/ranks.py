"""The processes of a test: forked, so that they have what it has, and begun in a group."""

import os
import pickle
import selectors
import signal
import time
import traceback
import warnings
from datetime import timedelta

import pytest
from sanitizers import TSAN

import minitensor.distributed as dist

__all__ = ["Died", "init", "run"]

PATIENCE = 150


class Died:
    """What a process gives that ended otherwise than by returning."""

    def __init__(self, status, text=""):
        self.status = status
        self.text = text

    def __repr__(self):
        return f"Died({self.status}): {self.text}"


def init(rank, size, folder, timeout=20.0):
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size, timeout=timedelta(seconds=timeout)
    )


def run(size, work, folder, *arguments, transport=None, begin=True, timeout=20.0):
    """`work(rank, *arguments)` in each of `size` processes; the results, or `Died` or the exception in their place."""
    if TSAN:
        pytest.skip("ThreadSanitizer doesn't follow forks of processes with threads")
    children, pipes = [], {}
    with warnings.catch_warnings():
        for category in (DeprecationWarning, RuntimeWarning):
            warnings.filterwarnings("ignore", r".*fork\(\)", category)
        for rank in range(size):
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                _be(rank, size, work, folder, arguments, write, transport, begin, timeout)
            os.close(write)
            children.append(child)
            pipes[read] = rank
    found = [b""] * size
    end = time.monotonic() + PATIENCE
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while pipes and time.monotonic() < end:
            for key, _ in selector.select(1):
                if chunk := os.read(key.fd, 1 << 16):
                    found[pipes[key.fd]] += chunk
                else:
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    del pipes[key.fd]
    hung = list(pipes.values())
    for rank in hung:
        os.kill(children[rank], signal.SIGABRT)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert not hung, f"ranks {hung} hung; standard error says where"
    return [
        pickle.loads(data) if data else Died(status) for data, status in zip(found, statuses, strict=True)
    ]  # fmt: skip


def _be(rank, size, work, folder, arguments, pipe, transport, begin, timeout):
    try:
        if transport is not None:
            os.environ["MT_DISTRIBUTED_TRANSPORT"] = transport
        os.environ["MT_DISTRIBUTED_TOKEN"] = "of the test"
        try:
            if begin:
                init(rank, size, folder, timeout)
            result = work(rank, *arguments)
            if begin and dist.is_initialized():
                dist.destroy_process_group()
        except Exception as error:
            result = error
            result.__traceback__ = None
            result.shown = traceback.format_exc()
        data = pickle.dumps(result)
        while data:
            data = data[os.write(pipe, data) :]
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)
