"""The library that a test runs in: this one, and PyTorch where it is installed."""

import importlib

import pytest

import minitensor


@pytest.fixture(params=["minitensor", "torch"])
def lib(request):
    module = minitensor if request.param == "minitensor" else pytest.importorskip("torch")
    importlib.import_module(f"{module.__name__}.func")
    importlib.import_module(f"{module.__name__}.utils.checkpoint")
    return module
