"""Children of a test: forked where threads run, and told apart from it whatever happens in them."""

import os
import signal
import sys
import time
import traceback
import warnings

__all__ = ["ends_well", "wait_for"]

PATIENCE = 120


def ends_well(work):
    """Forks; the child does `work()`, which must not raise, and ends. What went wrong there is on standard error."""
    with warnings.catch_warnings():
        # Of Python from 3.12 on, and of JAX where another test has imported it.
        for category in (DeprecationWarning, RuntimeWarning):
            warnings.filterwarnings("ignore", r".*fork\(\)", category)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
            sys.__stderr__.flush()
        finally:
            os._exit(status)
    wait_for(child)


def wait_for(child):
    """Until the child has ended; one that hangs shows where it stands (its Python's faulthandler is on)."""
    end = time.monotonic() + PATIENCE
    while (done := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, signal.SIGABRT)
            os.waitpid(child, 0)
            raise AssertionError("the child hung; standard error says where")
        time.sleep(0.002)
    status = os.waitstatus_to_exitcode(done[1])
    assert status == 0, f"the child ended with {status}; standard error says more"
