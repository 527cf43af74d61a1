"""`mt.cuda`: GPUs, memory, streams and events."""

import re

import numpy as np
import pytest

import minitensor as mt


def test_gpus():
    assert mt.cuda.is_available()
    assert mt.cuda.unavailable_reason() is None
    assert mt.cuda.device_count() >= 1
    assert mt.cuda.current_device() == 0
    assert mt.cuda.get_device_name(0) == mt.cuda.get_device_properties("cuda:0").name
    major, minor = mt.cuda.get_device_capability()
    properties = mt.cuda.get_device_properties(0)
    assert (properties.major, properties.minor) == (major, minor)
    assert properties.total_memory > 0
    assert properties.multi_processor_count > 0
    assert properties.warp_size == 32
    assert repr(properties).startswith("_CudaDeviceProperties(name='")
    assert mt.cuda.is_bf16_supported()
    assert "sm_90" in mt.cuda.get_arch_list()
    assert mt.accelerator.is_available()
    assert mt.accelerator.current_accelerator().type == "cuda"
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        mt.cuda.get_device_name("cpu")
    with mt.cuda.device(-1), mt.cuda.device_of(mt.ones(1)):
        assert mt.cuda.current_device() == 0


def test_memory_is_counted():
    mt.cuda.empty_cache()
    before = mt.cuda.memory_allocated()
    mt.cuda.reset_peak_memory_stats()
    x = mt.empty(1000, 1000, device="cuda")
    assert mt.cuda.memory_allocated() - before == 4 << 20
    y = mt.empty(1000, 1000, device="cuda")
    del y
    assert mt.cuda.memory_allocated() - before == 4 << 20
    assert mt.cuda.max_memory_allocated() - before == 8 << 20
    assert mt.cuda.memory_reserved() >= mt.cuda.memory_allocated()
    reserved = mt.cuda.memory_reserved()
    mt.cuda.empty_cache()
    assert reserved - mt.cuda.memory_reserved() >= 4 << 20
    stats = mt.cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == mt.cuda.memory_allocated()
    assert stats["num_alloc_retries"] >= stats["num_ooms"]
    text = mt.cuda.memory_summary()
    assert re.search(r"in tensors +[0-9.]+ MiB", text)
    assert "4.00 MiB" in text
    free, total = mt.cuda.mem_get_info()
    assert 0 < free < total
    address = x.data_ptr()
    del x
    assert mt.empty(1000, 1000, device="cuda").data_ptr() == address


def test_streams_run_beside_each_other_and_wait_for_events():
    x = mt.arange(1000.0).cuda()
    s = mt.cuda.Stream()
    assert s.device == mt.device("cuda:0")
    assert s.query()
    event = mt.cuda.Event()
    with mt.cuda.stream(s):
        assert mt.cuda.current_stream() == s
        s.wait_stream(mt.cuda.default_stream())
        y = x * 2.0
        event.record()
    assert mt.cuda.current_stream() == mt.cuda.default_stream()
    x.record_stream(s)
    event.wait()
    z = y + 1.0
    y.record_stream(mt.cuda.current_stream())
    address = y.data_ptr()
    del y
    np.testing.assert_array_equal(z.cpu().numpy(), np.arange(1000) * 2.0 + 1.0)
    event.synchronize()
    assert event.query()
    s.synchronize()
    mt.cuda.synchronize()
    assert address
    assert "cuda_stream=0x" in repr(s)


def test_memory_of_one_stream_is_not_given_to_another():
    s = mt.cuda.Stream()
    mt.cuda.empty_cache()
    x = mt.empty(5000, device="cuda")
    address = x.data_ptr()
    del x
    with mt.cuda.stream(s):
        assert mt.empty(5000, device="cuda").data_ptr() != address
    assert mt.empty(5000, device="cuda").data_ptr() == address


def test_events_measure_time():
    start, end = mt.cuda.Event(enable_timing=True), mt.cuda.Event(enable_timing=True)
    with pytest.raises(RuntimeError, match="Both events must be recorded"):
        start.elapsed_time(end)
    start.record()
    x = mt.ones(100, device="cuda") * 3
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) >= 0.0
    assert x.sum().item() == 300.0
    with pytest.raises(ValueError, match="enable_timing=True"):
        start.elapsed_time(_recorded())


def test_streams_and_events_without_a_kind_of_device_are_of_the_gpu_in_use():
    s, start, end = mt.Stream(), mt.Event(enable_timing=True), mt.Event("cuda", enable_timing=True)
    assert s.device == start.device == end.device == mt.device("cuda:0")
    assert (s.device_type, s.device_index, s.is_capturing()) == (1, 0, False)
    assert s != mt.Stream()
    assert mt.Stream(1).device == mt.device("cuda:1")
    assert f"stream_id={s.stream_id}" in repr(s)
    x = mt.arange(1000.0).cuda()
    before = mt.accelerator.current_stream()
    with s as entered:
        assert entered is s
        assert mt.accelerator.current_stream() == s
        s.wait_stream(before)
        start.record()
        y = x * 2.0
        end.record(s)
    assert mt.accelerator.current_stream() == before != s
    assert start.event_id
    before.wait_event(end)
    assert (y + 1.0).sum().item() == 1000.0 * 999.0 + 1000.0
    end.synchronize()
    assert end.query()
    assert start.elapsed_time(end) >= 0.0
    with pytest.raises(ValueError, match="must be recorded"):
        start.elapsed_time(mt.Event(enable_timing=True))
    mt.accelerator.set_stream(s)
    assert mt.cuda.current_stream().stream_id == s.stream_id == mt.accelerator.current_stream().stream_id
    mt.accelerator.set_stream(before)
    with mt.accelerator.device_index(1):
        assert mt.cuda.current_device() == 1
    assert mt.cuda.current_device() == 0
    with pytest.raises(RuntimeError, match="not one of an accelerator"):
        mt.accelerator.set_stream(mt.Stream("cpu"))


def _recorded():
    event = mt.cuda.Event()
    event.record()
    return event


def test_gradients_go_back_to_where_each_operand_is():
    leaf = mt.arange(3.0).requires_grad_()
    middle = leaf * 2
    seen = []
    middle.register_hook(lambda g: seen.append((str(g.device), g.tolist())))
    number = mt.tensor(3.0, requires_grad=True)
    scale = number * 1
    scale.register_hook(lambda g: seen.append((str(g.device), g.tolist())))
    moved = middle.cuda()
    (moved * moved * scale).sum().backward()
    assert sorted(seen, key=str) == [("cpu", 20.0), ("cpu", [0.0, 12.0, 24.0])]
    assert str(leaf.grad.device) == "cpu"
    assert leaf.grad.tolist() == [0.0, 24.0, 48.0]
    out = mt.zeros(3, device="cuda")
    source = mt.ones(3, requires_grad=True)
    out.copy_(source * 2)
    (out * 5).sum().backward()
    assert str(source.grad.device) == "cpu"
    assert source.grad.tolist() == [10.0] * 3
