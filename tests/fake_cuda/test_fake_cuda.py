"""The stand-in for PyCUDA behaves as the driver does: order, errors, memory, lost contexts."""

import importlib
import struct
import sys
import threading

import numpy as np
import pytest
from ptx import PtxFault

from . import installed

PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 x, .param .u32 n, .param .f32 by)
{
  .reg .b64 %d<4>; .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .pred %p<2>;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
  ld.param.u32 %r4, [n]; setp.ge.u32 %p1, %r1, %r4; @%p1 ret;
  ld.param.u64 %d1, [x]; ld.param.f32 %f1, [by];
  mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2;
  ld.global.f32 %f2, [%d1]; add.f32 %f2, %f2, %f1; st.global.f32 [%d1], %f2; ret;
}
.visible .entry traps() { trap; }
.visible .entry shares() { .reg .b32 %r<2>; ret; }
"""


@pytest.fixture
def cuda():
    with installed(memory=1 << 20) as cuda:
        d = importlib.import_module("pycuda.driver")
        d.init()
        context = d.Device(0).retain_primary_context()
        context.push()
        yield cuda
        if cuda.gpus and not cuda.gpus[0].lost:
            d.Context.pop()


def array_on_gpu(d, array):
    block = d.mem_alloc(array.nbytes)
    d.memcpy_htod(block, array)
    return block


def back(d, block, like):
    out = np.empty_like(like)
    d.memcpy_dtoh(out, block)
    return out


def launch(function, block, n, by, stream=None):
    function._launch_kernel((-(-n // 64), 1, 1), (64, 1, 1), struct.pack("<QIf", int(block), n, by), 0, stream)


def test_it_is_only_there_while_installed(cuda):
    assert sys.modules["pycuda.driver"] is cuda.driver
    with installed():
        pass
    assert sys.modules["pycuda.driver"] is cuda.driver


def test_kernels_run_on_memory(cuda):
    d = cuda.driver
    x = np.arange(100, dtype=np.float32)
    block = array_on_gpu(d, x)
    launch(d.module_from_buffer(PTX.encode()).get_function("add"), block, 100, 2.5)
    np.testing.assert_array_equal(back(d, block, x), x + 2.5)
    assert cuda.gpus[0].launches["add"] == 1
    assert cuda.gpus[0].counts.global_bytes_read == 400


def test_prepared_calls(cuda):
    d = cuda.driver
    x = np.zeros(64, np.float32)
    block = array_on_gpu(d, x)
    function = d.module_from_buffer(PTX.encode()).get_function("add").prepare([np.uint64, "I", "f"])
    function.prepared_async_call((1, 1), (64, 1, 1), None, block, 64, 1.0)
    assert back(d, block, x).tolist() == [1] * 64


def test_streams_run_when_somebody_waits(cuda):
    d = cuda.driver
    x = d.pagelocked_empty(64, np.float32)
    x[:] = 1
    out = d.pagelocked_empty(64, np.float32)
    out[:] = -1
    block = d.mem_alloc(256)
    function = d.module_from_buffer(PTX.encode()).get_function("add")
    stream = d.Stream()
    d.memcpy_htod_async(block, x, stream)
    launch(function, block, 64, 1.0, stream)
    d.memcpy_dtoh_async(out, block, stream)
    assert out[0] == -1
    x[:] = 5  # page-locked memory is read when the copy runs
    assert not stream.is_done()
    stream.synchronize()
    assert stream.is_done()
    assert out.tolist() == [6] * 64


def test_other_memory_is_read_before_the_call_returns(cuda):
    d = cuda.driver
    x = np.ones(64, np.float32)
    block, stream = d.mem_alloc(256), d.Stream()
    d.memcpy_htod_async(block, x, stream)
    x[:] = 7
    out = np.zeros(64, np.float32)
    d.memcpy_dtoh_async(out, block, stream)
    assert out[0] == 1


def test_events_order_streams(cuda):
    d = cuda.driver
    block = array_on_gpu(d, np.zeros(64, np.float32))
    first, second, event = d.Stream(), d.Stream(), d.Event()
    d.memset_d32_async(block, 1, 64, first)
    event.record(first)
    second.wait_for_event(event)
    out = d.pagelocked_empty(64, np.uint32)
    d.memcpy_dtoh_async(out, block, second)
    assert not event.query()
    second.synchronize()
    assert out.tolist() == [1] * 64
    assert event.query()
    # Without an event nothing says which comes first.
    d.memset_d32_async(block, 2, 64, first)
    d.memcpy_dtoh_async(out, block, second)
    second.synchronize()
    assert out[0] == 1
    first.synchronize()
    assert back(d, block, out)[0] == 2


def test_the_default_stream_comes_after_the_others_and_before(cuda):
    d = cuda.driver
    block = array_on_gpu(d, np.zeros(64, np.uint32))
    stream = d.Stream()
    d.memset_d32_async(block, 3, 64, stream)
    assert back(d, block, np.zeros(64, np.uint32))[0] == 3
    d.memset_d32_async(block, 4, 64)
    out = d.pagelocked_empty(64, np.uint32)
    d.memcpy_dtoh_async(out, block, stream)
    stream.synchronize()
    assert out[0] == 4


def test_times(cuda):
    d = cuda.driver
    first, second = d.Event(), d.Event()
    first.record()
    d.memset_d8_async(d.mem_alloc(64), 0, 64)
    second.record()
    with pytest.raises(d.RuntimeError, match="device not ready"):
        first.time_till(second)
    second.synchronize()
    assert first.time_till(second) >= 0
    silent = d.Event(d.event_flags.DISABLE_TIMING).record().synchronize()
    with pytest.raises(d.LogicError, match="invalid resource handle"):
        first.time_till(silent)


def test_memory_ends(cuda):
    d = cuda.driver
    free, total = d.mem_get_info()
    assert (free, total) == (1 << 20, 1 << 20)
    block = d.mem_alloc(1 << 19)
    assert d.mem_get_info()[0] == 1 << 19
    with pytest.raises(d.MemoryError, match="cuMemAlloc failed: out of memory"):
        d.mem_alloc((1 << 19) + 1)
    block.free()
    d.mem_alloc(1 << 20)
    with pytest.raises(d.LogicError, match="invalid argument"):
        d.mem_alloc(0)


def test_planned_failures(cuda):
    d = cuda.driver
    cuda.fail("cuMemAlloc", skip=1)
    kept = d.mem_alloc(16)
    with pytest.raises(d.MemoryError):
        d.mem_alloc(16)
    assert int(d.mem_alloc(16)) != int(kept)
    cuda.fail("cuStreamCreate", "LAUNCH_OUT_OF_RESOURCES")
    with pytest.raises(d.LaunchError, match="too many resources"):
        d.Stream()


def test_pools_keep_blocks_and_give_back_what_is_needed(cuda):
    d, pool = cuda.driver, cuda.tools.DeviceMemoryPool()
    first = pool.allocate(1000)
    address = int(first)
    first.free()
    assert (pool.held_blocks, pool.active_blocks) == (1, 0)
    assert int(pool.allocate(1001)) == address  # of the same size class
    assert pool.alloc_size(pool.bin_number(1000)) == 1023
    big = pool.allocate(700_000)
    big.free()
    assert pool.held_blocks >= 1
    pool.allocate(900_000).free()  # only when the held block is given back is there room
    with pytest.raises(d.MemoryError, match="failed to free memory"):
        pool.allocate(1 << 20)
    with pytest.raises(d.LogicError):
        big.free()
    pool.free_held()
    assert d.mem_get_info()[0] > 1_000_000


def test_a_trap_loses_the_context(cuda):
    d = cuda.driver
    module = d.module_from_buffer(PTX.encode())
    stream, block = d.Stream(), d.mem_alloc(64)
    module.get_function("traps")._launch_kernel((1, 1, 1), (1, 1, 1), b"", 0, stream)
    with pytest.raises(d.LaunchError, match="cuStreamSynchronize failed: unspecified launch failure"):
        stream.synchronize()
    for call in (lambda: d.mem_alloc(4), lambda: d.memcpy_htod(block, bytes(4)), stream.is_done, d.Context.synchronize):
        with pytest.raises(d.LaunchError, match="unspecified launch failure"):
            call()
    # The other GPU is well.
    d.Device(1).retain_primary_context().push()
    d.mem_alloc(4)


def test_addresses_that_are_nobodys_lose_it_too(cuda):
    d = cuda.driver
    block = array_on_gpu(d, np.zeros(64, np.float32))
    function = d.module_from_buffer(PTX.encode()).get_function("add")
    launch(function, int(block), 65, 1.0)
    with pytest.raises(d.LogicError, match=r"an illegal memory access was encountered.*PTX line"):
        d.Context.synchronize()


def test_a_misaligned_address(cuda):
    d = cuda.driver
    block = array_on_gpu(d, np.zeros(64, np.float32))
    launch(d.module_from_buffer(PTX.encode()).get_function("add"), int(block) + 2, 1, 1.0)
    with pytest.raises(d.LogicError, match="misaligned address"):
        d.Context.synchronize()


def test_what_no_gpu_would_notice_is_no_error_of_the_driver(cuda):
    d = cuda.driver
    block = d.mem_alloc(64)
    launch(d.module_from_buffer(PTX.encode()).get_function("add"), block, 1, 1.0)
    with pytest.raises(PtxFault, match="uninitialized memory"):
        d.Context.synchronize()


def test_copies_are_checked(cuda):
    d = cuda.driver
    block = d.mem_alloc(64)
    with pytest.raises(d.LogicError, match="invalid argument"):
        d.memcpy_htod(int(block) + 32, bytes(64))
    with pytest.raises(d.LogicError, match="invalid argument"):
        d.memcpy_dtoh(bytearray(4), 0x1000)


def test_copies_between_gpus(cuda):
    d = cuda.driver
    x = np.arange(8, dtype=np.float32)
    here = array_on_gpu(d, x)
    d.Device(1).retain_primary_context().push()
    there = d.mem_alloc(32)
    d.memcpy_dtod_async(there, here, 32)
    np.testing.assert_array_equal(back(d, there, x), x)
    d.Context.pop()


def test_code_that_cannot_be_loaded(cuda):
    d = cuda.driver
    heard = []
    with pytest.raises(d.LogicError, match=r"a PTX JIT compilation failed.*line 5"):
        d.module_from_buffer(PTX.replace(".visible .entry add", "frob").encode(), [], lambda *a: heard.append(a))
    assert heard[0][0] is False
    assert "line 5" in heard[0][2]
    with pytest.raises(d.LogicError, match="unsupported toolchain"):
        d.module_from_buffer(PTX.replace("8.0", "9.9").encode())
    with pytest.raises(d.RuntimeError, match="no kernel image"):
        d.module_from_buffer(PTX.replace("sm_80", "sm_100").encode())
    with pytest.raises(d.LogicError, match="named symbol not found"):
        d.module_from_buffer(PTX.encode()).get_function("absent")


def test_cubins(cuda):
    d = cuda.driver
    cubin = d.link_ptx(PTX.encode())
    d.module_from_buffer(cubin).get_function("add")
    broken = cubin[:-9] + bytes([cubin[-9] ^ 1]) + cubin[-8:]
    for image in (broken, cubin[:100], b"\x7fELF something else"):
        with pytest.raises(d.LogicError, match="device kernel image is invalid"):
            d.module_from_buffer(image)


def test_launches_that_cannot_be(cuda):
    d = cuda.driver
    function = d.module_from_buffer(PTX.encode()).get_function("shares")
    for grid, block, shared in (((0,), (1,), 0), ((1,), (1025,), 0), ((1,), (32,), 50000), ((1, 70000), (1,), 0)):
        with pytest.raises(d.LogicError, match="cuLaunchKernel failed: invalid argument"):
            function._launch_kernel(grid, block, b"", shared, None)
    function.set_attribute(d.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000)
    function._launch_kernel((1,), (32,), b"", 60000, None)
    with pytest.raises(d.LogicError):
        function.set_attribute(d.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, 300000)


def test_devices(cuda):
    d = cuda.driver
    assert d.Device.count() == 2
    with pytest.raises(d.LogicError, match="invalid device ordinal"):
        d.Device(2)
    assert d.Device(0).compute_capability() == (9, 0)
    assert d.Device(0).warp_size == d.Device(0).get_attribute(d.device_attribute.WARP_SIZE) == 32
    d.Context.pop()
    with pytest.raises(d.LogicError, match="invalid device context"):
        d.mem_alloc(4)
    d.Device(0).retain_primary_context().push()


def test_no_gpu_and_no_driver():
    with installed(devices=0):
        d = importlib.import_module("pycuda.driver")
        with pytest.raises(d.LogicError, match="initialization error"):
            d.Device.count()
        with pytest.raises(d.RuntimeError, match="no CUDA-capable device"):
            d.init()


def test_threads_launch_at_once(cuda):
    d = cuda.driver
    context = d.Context.get_current()
    function = d.module_from_buffer(PTX.encode()).get_function("add")
    wrong = []

    def work(number):
        context.push()
        try:
            stream, array = d.Stream(), np.zeros(100, np.float32)
            block = array_on_gpu(d, array)
            for k in range(10):
                launch(function, block, 100, number, stream)
                if k % 3 == 0:
                    stream.synchronize()
            stream.synchronize()
            if (back(d, block, array) != 10 * number).any():
                wrong.append(number)
            block.free()
            del stream  # while its context is current
        except Exception as error:
            wrong.append(error)
        finally:
            d.Context.pop()  # a thread that ends with a context on its stack ends the process

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong
    assert cuda.gpus[0].launches["add"] == 40


@pytest.mark.parametrize("made", ["stream", "block"])
def test_what_is_collected_in_the_middle_of_a_call_waits_for_its_end(cuda, made):
    d = cuda.driver
    kept = [d.Stream() if made == "stream" else d.mem_alloc(8)]
    gpu = cuda.gpus[0]
    before = len(gpu.queues), gpu.memory.used

    def run():
        kept.clear()
        seen.append((len(gpu.queues), gpu.memory.used))

    seen = []
    gpu.finish(gpu.give("work", run, gpu.queues[0]), "work")
    assert seen == [before]
    assert (len(gpu.queues), gpu.memory.used) == (before[0] - (made == "stream"), before[1] - 512 * (made == "block"))


def test_threads_make_streams_while_others_give_work(cuda):
    d, gpu = cuda.driver, cuda.gpus[0]
    context = d.Context.get_current()
    wrong = []
    queue = gpu.queues[0]

    class Waiting(list):
        """In whose comprehension another thread makes a stream."""

        def __iter__(self):
            thread = threading.Thread(target=make)
            thread.start()
            thread.join(0.05)
            threads.append(thread)
            return super().__iter__()

    def make():
        context.push()
        try:
            d.Stream()
        except Exception as error:
            wrong.append(error)
        finally:
            d.Context.pop()

    threads = []
    first = d.Stream()
    first._queue.pending = Waiting()
    gpu.give("work", lambda: None, queue)
    for thread in threads:
        thread.join()
    assert threads
    assert not wrong
