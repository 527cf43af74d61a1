"""Streams and events without a kind of device: the CPU's, as in a PyTorch without GPUs. Those of GPUs: tests/cuda."""

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest

import minitensor as mt

ROOT = Path(mt.__file__).resolve().parent.parent
PROGRAM = """
import torch

def seen(call):
    try:
        found = call()
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return repr(found)

s, e = torch.Stream(), torch.Event()
timed = [torch.Event(enable_timing=True) for _ in range(2)]
for call in (
    lambda: s, lambda: e, lambda: timed[0], lambda: torch.Stream("cpu"), lambda: torch.Stream("meta"),
    lambda: torch.Stream("cpu:1"), lambda: torch.Stream(None), lambda: torch.Event(None), lambda: torch.Event("meta"),
    lambda: torch.Stream(device=torch.device("cpu"), priority=-1), lambda: torch.Stream(3), lambda: torch.Event(3),
    lambda: s.device, lambda: s.device_index, lambda: s.device_type, lambda: torch.Stream("meta").device_type,
    lambda: s.stream_id, lambda: s.query(), lambda: s.synchronize(), lambda: s.is_capturing(),
    lambda: s.native_handle, lambda: s.record_event(), lambda: s.record_event(e), lambda: s.wait_stream(s),
    lambda: s.wait_event(e), lambda: s == torch.Stream(), lambda: s != torch.Stream(), lambda: s == 3,
    lambda: s == torch.Stream("meta"), lambda: hash(s) == hash(torch.Stream()), lambda: s.__enter__() is s,
    lambda: e.device, lambda: e.event_id, lambda: e.query(), lambda: e.synchronize(), lambda: e.wait(),
    lambda: e.wait(s), lambda: e.record(), lambda: e.record(s), lambda: torch.Event("meta").record(),
    lambda: e.elapsed_time(torch.Event()), lambda: e.elapsed_time(3), lambda: timed[0].elapsed_time(timed[1]),
    lambda: torch.Event(enable_timing=3), lambda: setattr(s, "device", 1),
    lambda: torch.accelerator.current_stream(), lambda: torch.accelerator.set_stream(s),
    lambda: torch.accelerator.device_index(None).__enter__(),
    lambda: issubclass(torch.AcceleratorError, RuntimeError), lambda: torch.AcceleratorError("x").args,
):
    print(seen(call).replace("attribute 'device' of 'torch.Stream' objects is not writable", "refused")
          .replace("property 'device' of 'Stream' object has no setter", "refused"))
"""


def run(start):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MT_")}
    done = subprocess.run(
        [sys.executable, "-c", start + PROGRAM],
        env=environment | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.torch
def test_they_answer_as_pytorchs():
    torch = pytest.importorskip("torch")
    if torch.accelerator.is_available():
        pytest.skip("PyTorch has an accelerator")
    assert run("import minitensor.as_torch\n") == run("")


def test_the_stream_of_the_cpu_is_always_done():
    stream = mt.Stream("cpu")
    assert repr(stream) == "minitensor.Stream device_type=cpu, device_index=-1, stream_id=0"
    with stream as entered:
        x = mt.ones(3) + 1
    assert entered is stream
    assert stream.query() is True
    stream.synchronize()
    assert x.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(RuntimeError, match="cpu backend doesn't support events"):
        stream.record_event()
    for value in (stream, mt.Event("cpu")):
        with pytest.raises(TypeError, match="cannot pickle"):
            copy.copy(value)


def test_synchronize_runs_what_is_recorded():
    with mt.jit_scope():
        x = mt.ones(3) * 4
        assert x._is_pending
        mt.Stream("cpu").synchronize()
        assert not x._is_pending


def test_errors_of_gpus_are_accelerator_errors():
    from minitensor_jit.errors import CudaError

    assert issubclass(CudaError, mt.AcceleratorError)
    assert issubclass(mt.AcceleratorError, RuntimeError)
