"""Recording inside a with block, and what ran."""

from contextlib import contextmanager

import minitensor as mt


@contextmanager
def recorded(reason="the end", **options):
    options = {"auto_jit": 2, "cpu_global_jit": True, "min_cluster_size": 1, "enable_lazy_compilation": False} | options
    with mt.jit.options(**options):
        mt._C.begin_recording()
        try:
            yield
        finally:
            mt._C.end_recording(reason)


@contextmanager
def flushes():
    """The reasons of the flushes inside, and the lines of the user's program where they happened."""
    reasons = []
    mt._C.set_flush_callback(lambda reason, source, *_: reasons.append((reason, source)))
    try:
        yield reasons
    finally:
        mt._C.set_flush_callback(None)
