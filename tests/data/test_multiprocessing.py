"""Tensors in shared memory, and their way through queues."""

import os
import signal

import pytest

import minitensor as mt
from minitensor import multiprocessing as mp

pytestmark = pytest.mark.at_once(reason="processes have recordings of their own")


def adds(queue, back):
    tensor = queue.get()
    tensor += 1
    back.put((tensor.sum().item(), tensor.is_shared(), type(tensor).__name__, tensor.requires_grad))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_queue_sends_memory(method):
    context = mp.get_context(method)
    queue, back = context.Queue(), context.Queue()
    process = context.Process(target=adds, args=(queue, back))
    process.start()
    tensor = mt.arange(6.0).reshape(2, 3).t()
    queue.put(tensor)
    assert back.get(timeout=60) == (21.0, True, "Tensor", False)
    process.join()
    assert process.exitcode == 0
    assert tensor.is_shared()
    assert tensor.tolist() == [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]


def doubles(tensors):
    with mt.no_grad():
        for tensor in tensors:
            tensor.mul_(2)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_shared_parameters(method):
    module = mt.nn.Linear(2, 2)
    with mt.no_grad():
        for p in module.parameters():
            p.fill_(1.5)
    module.share_memory()
    assert all(p.is_shared() and p.requires_grad for p in module.parameters())
    process = mp.get_context(method).Process(target=doubles, args=(list(module.parameters()),))
    process.start()
    process.join()
    assert module.weight.tolist() == [[3.0, 3.0], [3.0, 3.0]]


def test_sharing():
    tensor = mt.arange(5)
    assert not tensor.is_shared()
    assert tensor.share_memory_() is tensor
    assert tensor.is_shared()
    assert tensor[2:].is_shared()
    assert not tensor.clone().is_shared()
    address = tensor.data_ptr()
    assert tensor.share_memory_().data_ptr() == address
    assert tensor.tolist() == [0, 1, 2, 3, 4]
    empty = mt.empty(0, 3).share_memory_()
    assert (empty.is_shared(), tuple(empty.shape)) == (True, (0, 3))


def test_memory_goes_with_its_last_tensor():
    def count():
        return len(os.listdir("/proc/self/fd"))

    before = count()
    tensor = mt.ones(1000).share_memory_()
    part = tensor[:10]
    assert count() > before
    del tensor
    assert part.tolist() == [1.0] * 10
    del part
    assert count() == before


def test_two_tensors_over_one_memory_arrive_so():
    first, second = mp.Pipe()
    base = mt.arange(6).share_memory_()
    first.send((base, base[3:], mt.nn.Parameter(mt.ones(2))))
    whole, part, parameter = second.recv()
    whole[3] = 70
    assert part.tolist() == [70, 4, 5]
    assert base[3].item() == 70
    assert isinstance(parameter, mt.nn.Parameter)
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        first.send(mt.ones(2, requires_grad=True) * 2)


def test_names_of_strategies():
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    mp.set_sharing_strategy("file_system")
    assert mp.get_sharing_strategy() == "file_system"
    mp.set_sharing_strategy("file_descriptor")
    with pytest.raises(AssertionError):
        mp.set_sharing_strategy("other")
    assert mp.Process is not None
    assert mp.cpu_count() > 0


def writes(number, tensor, factor):
    tensor[number] = factor * (number + 1)


def acts(number, how):
    if number != 1:
        return
    if how == "raises":
        raise ValueError("so it is")
    if how == "exits":
        os._exit(5)
    os.kill(os.getpid(), signal.SIGKILL)


def test_several_processes():
    tensor = mt.zeros(2).share_memory_()
    assert mp.spawn(writes, (tensor, 3.0), nprocs=1) is None
    assert tensor.tolist() == [3.0, 0.0]
    assert mp.start_processes(writes, (tensor, 5.0), nprocs=2, start_method="fork") is None
    assert tensor.tolist() == [5.0, 10.0]
    with pytest.raises(mp.ProcessRaisedException, match="-- Process 1 terminated with the following error:") as caught:
        mp.start_processes(acts, ("raises",), nprocs=2, start_method="fork")
    assert "ValueError: so it is" in str(caught.value)
    assert caught.value.error_index == 1
    with pytest.raises(mp.ProcessExitedException, match="process 1 terminated with exit code 5") as exited:
        mp.start_processes(acts, ("exits",), nprocs=2, start_method="fork")
    assert exited.value.exit_code == 5
    with pytest.raises(mp.ProcessExitedException, match="process 1 terminated with signal SIGKILL") as killed:
        mp.start_processes(acts, ("dies",), nprocs=2, start_method="fork")
    assert killed.value.signal_name == "SIGKILL"
    context = mp.start_processes(acts, ("nothing",), nprocs=1, join=False, start_method="fork")
    assert len(context.pids()) == 1
    assert context.join()
