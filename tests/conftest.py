"""Tests of eager code may also run clustered, which `scripts/test --clustered` does: recorded and compiled throughout.

What a test sees at a call, it then sees when the recording runs. Most don't mind. One that is about the moment itself
says so with `@pytest.mark.at_once(reason="...")`, and runs eagerly all the same.
"""

import os

import assembled_kernels
import pytest

# Where a loop is cut changes no bit: tests with small arrays show it too, and threads find each other's races in them.
os.environ.setdefault("MT_WAKE_THREADS", "always")

CLUSTERED = "--auto_jit" in os.environ.get("MT_JIT_FLAGS", "")


def pytest_configure(config):
    """What tests emit for cards is assembled at the end."""
    plugin = assembled_kernels.plugin()
    if plugin is not None:
        config.pluginmanager.register(plugin)


@pytest.fixture(autouse=CLUSTERED)
def _clustered(request):
    import minitensor as mt

    if request.node.get_closest_marker("at_once") is None:
        yield
        mt._C.flush("the end of a test")  # its errors are not the next one's
        return
    mt._C.end_recording("a test that looks at the moment of a call")
    try:
        with mt.jit.options(auto_jit=0, cpu_global_jit=False):
            yield
    finally:
        mt._C.begin_recording()


@pytest.fixture
def own_rows():
    """A test makes ops of its own: the tests of all rows don't see them."""
    from minitensor.ops import ROWS

    before = set(ROWS)
    yield
    for name in set(ROWS) - before:
        del ROWS[name]
