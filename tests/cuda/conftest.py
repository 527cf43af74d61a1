"""Tests of GPUs run on the stand-in for PyCUDA (`fake_cuda`), whose kernels an emulator executes.

With `MT_TEST_CUDA=device` they run on the machine's GPU; those that plan failures are left out then. With
`MT_TEST_CUDA=all` the rows of ops run with all their samples, which takes long on the stand-in.
"""

import atexit
import gc
import os
import sys

import pytest

REAL = os.environ.get("MT_TEST_CUDA") == "device"
_cuda = None
_modules = {}


def _stand_in():
    """The stand-in, made once a process: what the runtime and the core know of its GPUs stays true."""
    global _cuda
    if _cuda is None:
        import fake_cuda

        # Left at the end of the process: its memory has to outlive tensors that are collected late.
        context = fake_cuda.installed(devices=2, memory=64 << 20)
        _cuda = context.__enter__()
        atexit.register(context.__exit__, None, None, None)
        _modules["pycuda"] = {name: sys.modules[name] for name in fake_cuda.NAMES}
    return _cuda


@pytest.fixture(scope="module", autouse=True)
def cuda():
    """The stand-in, in use for the tests of a module; None on a real GPU."""
    from minitensor import _C
    from minitensor_jit.runtime.cuda import context, driver

    if REAL:
        yield None
        return
    stand_in = _stand_in()
    sys.modules.update(_modules["pycuda"])
    driver.forget()
    context._gpus.update(_modules.get("gpus", {}))
    yield stand_in
    gc.collect()
    stand_in.settings.failures.clear()
    for name in _modules["pycuda"]:
        sys.modules.pop(name, None)
    driver.forget()
    _modules["gpus"] = dict(context._gpus)
    context._gpus.clear()
    _C.set_cuda_runtime(None)


@pytest.fixture
def planned(cuda):
    """The stand-in, for tests of what a real GPU does only when something is wrong with it."""
    if cuda is None:
        pytest.skip("a real GPU fails only when something is wrong with it")
    yield cuda
    cuda.settings.failures.clear()
