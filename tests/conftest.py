"""Tests of eager code may also run clustered, which `scripts/test --clustered` does: recorded and compiled throughout.

What a test sees at a call, it then sees when the recording runs. Most don't mind. One that is about the moment itself
says so with `@pytest.mark.at_once(reason="...")`, and runs eagerly all the same.
"""

import gc
import inspect
import logging
import os
import signal
from collections import Counter
from importlib.util import find_spec

import assembled_kernels
import hypothesis
import pytest

# Where a loop is cut changes no bit: tests with small arrays show it too, and threads find each other's races in them.
os.environ.setdefault("MT_WAKE_THREADS", "always")
# Programs of tests keep nothing for those of others, unless a test asks for it.
os.environ.setdefault("CI", "true")

# Programs of libraries, which scripts/ecosystem runs where these are installed.
collect_ignore = ["ecosystem"]

CLUSTERED = "--auto_jit" in os.environ.get("MT_JIT_FLAGS", "")


def pytest_configure(config):
    """What tests emit for GPUs is assembled at the end. How long an example takes is the machine's affair.

    What a shell starts in the background ignores Ctrl-C, and so would the programs that tests start.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    hypothesis.settings.register_profile("untimed", deadline=None)
    hypothesis.settings.load_profile("untimed")
    plugin = assembled_kernels.plugin()
    if plugin is not None:
        config.pluginmanager.register(plugin)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """One worker more than there are processors: tests that wait for processes of their own leave one idle."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(tryfirst=True)  # before -m is applied
def pytest_collection_modifyitems(items):
    """Of what is marked `sampled(n)` one test in n stays with the others, the rest is `exhaustive`, but on a GPU.

    What asks for PyTorch has the marker `torch`, so that it can be run alone where PyTorch is installed, and is skipped
    elsewhere.
    """
    places = Counter()
    for item in items:
        if (sampled := item.get_closest_marker("sampled")) is not None and not os.environ.get("MT_TEST_CUDA"):
            if places[item.path] % sampled.args[0]:
                item.add_marker(pytest.mark.exhaustive)
            places[item.path] += 1
    asks = {}
    for item in items:
        if isinstance(item, pytest.Function):
            for part in (item.module, item.function):
                if part not in asks:
                    asks[part] = _asks_for_torch(part)
            if asks[item.module] or asks[item.function]:
                item.add_marker(pytest.mark.torch)
    if find_spec("torch") is None:
        for item in items:
            if item.get_closest_marker("torch") is not None:
                item.add_marker(pytest.mark.skip(reason="PyTorch isn't installed"))


def pytest_collection_finish():
    """What there is before the first test, some hundred thousand objects, is left out of garbage collections."""
    _leave_out_of_collections()


def pytest_runtest_setup(item):
    """So is what the tests of a file leave behind, such as libraries that they import and code that caches keep."""
    global _last_path
    if item.path != _last_path:
        _leave_out_of_collections()
        _last_path = item.path


_last_path = None


def _leave_out_of_collections():
    gc.collect()
    gc.freeze()


class _Failures(logging.Handler):
    """What could not be compiled, in this process."""

    def __init__(self):
        super().__init__()
        self.found = []

    def emit(self, record):
        if str(record.msg).startswith("compiling %s failed"):
            self.found.append(record.getMessage())


_FAILURES = _Failures()
logging.getLogger("minitensor_jit").addHandler(_FAILURES)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """A cluster that can't be compiled is run by its ops, and the results are right: so nothing else would show it."""
    _FAILURES.found.clear()
    result = yield
    if _FAILURES.found and item.get_closest_marker("compiler_fails") is None:
        raise AssertionError("\n".join(_FAILURES.found))
    return result


def _asks_for_torch(part):
    if inspect.ismodule(part):
        return getattr(getattr(part, "torch", None), "__name__", "") == "torch"
    code = inspect.unwrap(part).__code__
    return "importorskip" in code.co_names and "torch" in code.co_consts


@pytest.fixture(autouse=CLUSTERED)
def _clustered(request, monkeypatch, rows_of_the_library_alone):
    import minitensor as mt

    if request.node.get_closest_marker("at_once") is None:
        yield
        mt._C.flush("the end of a test")  # its errors are not the next one's
        return
    mt._C.end_recording("a test that looks at the moment of a call")
    monkeypatch.delenv("MT_JIT_FLAGS")  # nor do the processes that it starts record
    try:
        with mt.jit.options(auto_jit=0, cpu_global_jit=False):
            yield
    finally:
        mt._C.begin_recording()


@pytest.fixture(autouse=True)
def rows_of_the_library_alone():
    """The tests of all rows don't see ops that another test made."""
    from minitensor.ops import ROWS

    before = set(ROWS)
    yield
    for name in ROWS.keys() - before:
        del ROWS[name]
