"""A stand-in for PyCUDA with emulated GPUs: `with installed(devices=2) as cuda:` puts it in PyCUDA's place."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from . import driver, tools
from .gpus import Gpu, Settings

__all__ = ["Cuda", "Gpu", "Settings", "installed"]

NAMES = ("pycuda", "pycuda.driver", "pycuda.tools", "pycuda._driver")


class Cuda:
    """What tests look at: the settings, in which failures are planned, and the GPUs."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.driver = driver
        self.tools = tools

    @property
    def gpus(self) -> list[Gpu]:
        return driver.state.gpus

    def fail(self, call: str, result: str = "OUT_OF_MEMORY", *, skip: int = 0, times: int = 1):
        """Has a call of the driver, such as `cuMemAlloc`, give a result."""
        return self.settings.fail(call, result, skip=skip, times=times)


@contextmanager
def installed(settings: Settings | None = None, **options) -> Iterator[Cuda]:
    """Puts the stand-in into `sys.modules` as `pycuda`. `options` are the fields of `Settings`."""
    cuda = Cuda(settings or Settings(**options))
    before = {name: sys.modules.get(name) for name in NAMES}
    package = ModuleType("pycuda")
    package.VERSION, package.VERSION_TEXT, package.__path__ = (2026, 1), "2026.1", []
    package.driver, package.tools = driver, tools
    driver.reset(cuda.settings)
    sys.modules.update({"pycuda": package, "pycuda.driver": driver, "pycuda.tools": tools, "pycuda._driver": driver})
    try:
        yield cuda
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
        driver.reset(Settings())
