"""Profiles by the driver's records, on a stand-in for CUPTI's package."""

import sys

import numpy as np
import pytest
from fake_cuda.cupti import ActivityKind, installed_cupti

import minitensor as mt
from minitensor._jit.entry_points import collect_step_stats
from minitensor_jit.runtime.cuda import profile

GPU = "/job:localhost/replica:0/task:0/device:GPU:0"


@pytest.fixture
def cupti(planned):
    with installed_cupti() as module:
        yield module


def taken(work):
    """The lanes of a profile, as (name, start, duration in microseconds) of what is in them."""
    with collect_step_stats() as stats:
        work()
    return {
        device.device: [(node.node_name, node.start_us, node.duration_us) for node in device.node_stats]
        for device in stats.dev_stats[1:]
    }


def test_kernels_and_copies_are_in_the_lanes(cupti):
    x = mt.randn(8, 8)
    x.cuda()
    values = []
    lanes = taken(lambda: values.append((x.cuda() * 2.0).sum().item()))
    np.testing.assert_allclose(values[0], x.sum().item() * 2, rtol=1e-5)
    assert profile.why_by_events == ""
    assert list(lanes) == [f"{GPU}/memcpy", f"{GPU}/stream:0"]
    assert [name for name, *_ in lanes[f"{GPU}/memcpy"]][:: len(lanes[f"{GPU}/memcpy"]) - 1] == [
        "MEMCPYHtoD", "MEMCPYDtoH"
    ]  # fmt: skip
    assert len(lanes[f"{GPU}/stream:0"]) >= 2
    assert not cupti.enabled
    assert cupti.requests >= 1


def test_times_are_those_of_the_hosts_clock(cupti):
    import time

    x = mt.randn(64, 64).cuda()
    before = time.monotonic_ns() / 1000
    lanes = taken(lambda: (x @ x).sum().item())
    after = time.monotonic_ns() / 1000
    kernels = lanes[f"{GPU}/stream:0"]
    assert kernels
    for _, start, duration in kernels:
        assert before <= start <= start + duration <= after
        assert duration > 0


def test_no_events_are_made(cupti, planned):
    x = mt.randn(8, 8).cuda()
    (x + 1).cpu()
    before = planned.gpus[0].log.count("event")
    with collect_step_stats():
        (x + 1).sum().item()
    by_records = planned.gpus[0].log.count("event") - before
    sys.modules["cupti.cupti"] = sys.modules["cupti"] = None  # as where the package is missing
    before = planned.gpus[0].log.count("event")
    lanes = taken(lambda: (x + 1).sum().item())
    assert planned.gpus[0].log.count("event") - before > by_records
    assert "cupti-python can't be used" in profile.why_by_events
    assert f"{GPU}/stream:0" in lanes


@pytest.mark.parametrize("kind", [ActivityKind.CONCURRENT_KERNEL, ActivityKind.EXTERNAL_CORRELATION])
def test_a_refusal_leaves_events(cupti, kind):
    cupti.refused.add(kind)
    x = mt.randn(8, 8).cuda()
    lanes = taken(lambda: (x + 1).sum().item())
    assert f"{GPU}/stream:0" in lanes
    assert "INSUFFICIENT_PRIVILEGES" in profile.why_by_events
    assert not cupti.enabled


def test_a_package_that_does_not_fit_the_driver_leaves_events(cupti, monkeypatch):
    def refuse(*_):
        raise RuntimeError("CUDA driver is not found")  # what the package's NotSupportedError is

    monkeypatch.setattr(cupti, "activity_register_callbacks", refuse)
    x = mt.randn(8, 8).cuda()
    assert f"{GPU}/stream:0" in taken(lambda: (x + 1).sum().item())
    assert "driver is not found" in profile.why_by_events


def test_counters_count_meanwhile(cupti):
    x = mt.randn(8, 8).cuda()
    with mt.jit.options(hlo_profile=True), collect_step_stats() as stats:
        for _ in range(3):
            with mt.jit_scope():
                y = mt.softmax(x * 2.0, dim=1) + 1.0
            y.sum().item()
        found = mt.jit.hlo_profile().to_json()
    kernels = [kernel for cluster in found["clusters"] for kernel in cluster["kernels"]]
    assert any(kernel["runs"] >= 3 for kernel in kernels)
    assert any(device.device == f"{GPU}/stream:0" for device in stats.dev_stats)
