"""What a signal's handler raises, at a moment that a test chooses."""

import gc
import inspect
import sys


class InterruptionError(Exception):
    """As a handler raises it: a program may well catch it with other errors."""


class Interrupts:
    """Raises where the n-th function begins or a builtin one has ended: there Python runs handlers of signals."""

    def __init__(self, at):
        self.at, self.count, self.came = at, 0, False

    def __call__(self, frame, event, argument):
        # Where observing is, handlers wait; where Python itself calls something back, it loses what they raise.
        module = frame.f_globals.get("__name__", "")
        lost = frame.f_code.co_flags & inspect.CO_GENERATOR or module == "weakref"
        if module.startswith("minitensor_jit.state") or lost or event not in ("call", "c_return"):
            return
        self.count += 1
        if self.count > self.at and not self.came:
            self.came = True
            raise InterruptionError

    def __enter__(self):
        # An exception in a callback of another package (JAX, Hypothesis) at a collection is theirs, and is lost.
        self.callbacks, gc.callbacks[:] = gc.callbacks[:], []
        sys.setprofile(self)

    def __exit__(self, *exception):
        sys.setprofile(None)
        gc.callbacks[:] = self.callbacks
