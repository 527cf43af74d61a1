"""A forked child has one thread: no lock of ours is held there by another, and nothing waits for what another did."""

import _imp as imp
import ast
import gc
import importlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import forks
import pytest
from sanitizers import TSAN

import minitensor as mt
from minitensor import _forks
from minitensor.ops.library.interruptible import interruptible

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork"),
    pytest.mark.skipif(TSAN, reason="ThreadSanitizer doesn't follow forks of processes with threads"),
]


def test_locks_of_the_process_are_known_to_forks():
    """Each kind of lock is made in one place, which has a handler of forks."""
    found = []
    for folder in ("minitensor", "minitensor_jit"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text()
            if not re.search(r"threading|_thread\b|register_at_fork", text):
                continue
            for node in ast.walk(ast.parse(text)):
                name = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
                lock = re.fullmatch(r"(threading|_thread)\.(Lock|RLock|Condition|Semaphore|allocate_lock)", name)
                if lock or name.endswith("register_at_fork"):
                    found.append(f"{path.relative_to(ROOT)}: {name}")
    assert sorted(set(found)) == [
        "minitensor/_forks.py: os.register_at_fork",
        "minitensor/_forks.py: threading.RLock",
        # Conditions of locks that `_forks` made.
        "minitensor/distributed/stores/store.py: threading.Condition",
        "minitensor/futures.py: threading.Condition",
        "minitensor/ops/library/interruptible.py: threading.Lock",  # a call's own, let go in the child
    ]
    own = {  # of one call or one pool, which a child makes anew
        "bindings/jit/interruptible_call.cpp", "bindings/jit/file_stamps.cpp", "core/process/parallel.cpp",
        # Of a group of processes, which a child has none of.
        "distributed/lane.h", "distributed/mpi_library.h",
    }  # fmt: skip
    for path in sorted((ROOT / "csrc").rglob("*.cpp")) + sorted((ROOT / "csrc").rglob("*.h")):
        name = str(path.relative_to(ROOT / "csrc"))
        if name in ("core/process/fork.cpp", "core/process/fork.h"):
            continue
        text = path.read_text()
        assert "pthread_atfork" not in text, name
        if name not in own:
            assert not re.search(r"std::(recursive_|shared_)?mutex +\w+;|condition_variable", text), name


def held_by_another(*locks):
    """A thread that takes the locks, and lets go of them when the event is set."""
    taken, done = threading.Event(), threading.Event()

    def work():
        for lock in locks:
            lock.acquire()
        taken.set()
        done.wait()
        for lock in locks:
            lock.release()

    thread = threading.Thread(target=work)
    thread.start()
    taken.wait()
    return thread, done


def test_a_fork_waits_for_locks():
    lock = _forks.lock()
    state = []
    thread, done = held_by_another(lock)
    timer = threading.Timer(0.05, lambda: (state.append("whole"), done.set()))
    timer.start()

    def work():
        assert state == ["whole"]
        assert lock.acquire(blocking=False)

    forks.ends_well(work)
    thread.join()
    assert lock.acquire(blocking=False)
    lock.release()


def test_a_fork_waits_for_locks_in_whatever_order_others_take_them():
    locks = [_forks.lock() for _ in range(4)]
    stop = threading.Event()

    def work(order):
        while not stop.is_set():
            for lock in order:
                lock.acquire()
            for lock in order:
                lock.release()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    # Two threads each, with locks that nobody else takes in the other order.
    threads = [threading.Thread(target=work, args=(order,)) for order in (locks[:2], locks[2:][::-1]) * 2]
    try:
        for thread in threads:
            thread.start()

        def child():
            for lock in locks:
                assert lock.acquire(blocking=False)

        for _ in range(20):
            forks.ends_well(child)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)


def test_a_handler_forks_where_its_thread_holds_a_lock_and_another_wants_it():
    mine, other = _forks.lock(), _forks.lock()
    mine.acquire()
    wants = threading.Event()

    def work():
        with other:
            wants.set()
            with mine:
                pass

    thread = threading.Thread(target=work)
    thread.start()
    wants.wait()

    def child():
        mine.release()
        for lock in (mine, other):
            assert lock.acquire(blocking=False)

    forks.ends_well(child)
    mine.release()
    thread.join()


def test_a_handler_forks_in_the_middle_of_a_fork():
    lock = _forks.lock()

    def child():
        assert lock._is_owned()  # for the fork that the handler has interrupted

    _forks._hold()
    try:
        forks.ends_well(child)
        assert lock._is_owned()
    finally:
        _forks._release()
    assert not lock._is_owned()
    assert not _forks._mine.forks


def test_locks_that_are_gone_are_not_waited_for():
    gc.collect()
    before = len(_forks._all())
    locks = [_forks.lock() for _ in range(10)]
    assert len(_forks._all()) == before + 10
    locks.clear()
    gc.collect()
    assert len(_forks._all()) == before
    for _ in range(1000):
        _forks.lock()
    assert len(_forks._locks) <= 2 * max(before, 64)


def test_a_lock_that_is_made_while_a_fork_waits():
    first, made = _forks.lock(), []
    thread, done = held_by_another(first)

    def later():
        made.append(_forks.lock())
        other, finish = held_by_another(made[0])
        done.set()
        thread.join()
        threading.Timer(0.05, finish.set).start()
        other.join()

    timer = threading.Timer(0.05, later)
    timer.start()

    def child():
        assert first.acquire(blocking=False)
        assert not made or made[0].acquire(blocking=False)

    forks.ends_well(child)
    timer.join()


# ---- threads of ours


def test_a_handler_forks_while_a_library_computes():
    """In a process of its own, since the child comes back here."""
    told, seen = threading.Event(), []

    def child_of_handler(*_):
        seen.append(os.fork())
        told.set()

    def function(x):
        if not seen:
            os.kill(os.getpid(), signal.SIGUSR1)
            told.wait(60)
        return x + 1

    def work():
        signal.signal(signal.SIGUSR1, child_of_handler)
        assert interruptible(function, 1) == 2
        if seen == [0]:
            os._exit(0)
        forks.wait_for(seen[0])

    forks.ends_well(work)


def test_a_handler_that_forks_waits_for_the_compiler(monkeypatch):
    from minitensor_jit.compiler.compiler import Compiler

    seen = []
    plan = Compiler.plan

    def interrupted(*args):
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.05)
        assert not seen
        return plan(*args)

    def work():
        signal.signal(signal.SIGUSR1, lambda *_: seen.append(os.fork()))
        monkeypatch.setattr(Compiler, "plan", interrupted)
        f = mt.function(lambda x: (x * 3).tanh().sum(), jit_compile=True)
        assert f(mt.zeros(77)).item() == 0
        assert len(seen) == 1
        if seen == [0]:
            os._exit(0)
        forks.wait_for(seen[0])

    forks.ends_well(work)


def test_a_handler_forks_in_the_middle_of_a_loop():
    """The child's result is right, or it is told that the other threads are not there."""
    began, seen = [], []
    x = mt.rand(1 << 20)
    expected = x.erfinv().sum().item()

    def child_of_handler(*_):
        if not began:
            began.append(True)
            seen.append(os.fork())

    def work():
        signal.signal(signal.SIGALRM, child_of_handler)
        mt.set_num_threads(4)
        signal.setitimer(signal.ITIMER_REAL, 0.15, 0.05)
        while not seen:
            try:
                for _ in range(10):
                    assert x.erfinv().sum().item() == expected
            except RuntimeError as error:
                if seen != [0] or "forked by the handler of a signal" not in str(error):
                    raise
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert x.erfinv().sum().item() == expected
        if seen == [0]:
            os._exit(0)
        forks.wait_for(seen[0])

    forks.ends_well(work)


def test_a_child_ends_though_its_parent_was_compiling():
    """What is waited for at the end of a process is this process's own."""
    from test_threads_and_processes import ends

    ends("""
        import minitensor_jit.compiler.compiler as c
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        begun, finish = threading.Event(), threading.Event()
        plan = c.Compiler.plan
        def slowly(*args):
            begun.set()
            finish.wait()
            return plan(*args)
        c.Compiler.plan = slowly
        function = mt.function(lambda x: x * 2 + 1, jit_compile=True)
        thread = threading.Thread(target=lambda: function(mt.ones(3)))
        thread.start()
        begun.wait()
        child = os.fork()
        if child == 0:
            c.Compiler.plan = plan
            assert function(mt.ones(3)).tolist() == [3.0] * 3
            sys.exit(7)
        finish.set()
        thread.join()
        child_ends(child, 7)
    """)


def test_a_child_goes_on_though_another_thread_was_running_its_recording():
    from test_threads_and_processes import ends

    ends("""
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        begun, finish = threading.Event(), threading.Event()
        eigh = np.linalg.eigh
        def slowly(*args, **kwargs):
            begun.set()
            finish.wait()
            return eigh(*args, **kwargs)
        np.linalg.eigh = slowly
        mt._C.begin_recording()
        x = mt.linalg.eigh(mt.eye(3))[0] * 2
        thread = threading.Thread(target=lambda: x.tolist())
        thread.start()
        assert begun.wait(60)
        child = os.fork()
        if child == 0:
            assert (mt.ones(3) + 1).tolist() == [2.0] * 3
            try:
                x.tolist()
            except RuntimeError as error:
                assert "never computed" in str(error), error
                os._exit(7)
            os._exit(1)
        child_ends(child, 7)
        finish.set()
        thread.join()
        assert x.tolist() == [2.0] * 3
        mt._C.end_recording("the end")
    """)


def test_a_fork_waits_for_modules_that_others_import(tmp_path, monkeypatch):
    begun, done = threading.Event(), threading.Event()
    monkeypatch.setitem(sys.modules, "events_of_this_test", type("Events", (), {"begun": begun, "done": done}))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "imported_slowly.py").write_text(
        "from events_of_this_test import begun, done\nbegun.set()\ndone.wait()\nvalue = 7\n"
    )
    thread = threading.Thread(target=importlib.import_module, args=("imported_slowly",))
    thread.start()
    begun.wait()
    timer = threading.Timer(0.05, done.set)
    timer.start()

    def work():
        assert importlib.import_module("imported_slowly").value == 7

    forks.ends_well(work)
    thread.join()
    del sys.modules["imported_slowly"]


def test_a_fork_waits_for_modules_before_any_lock_was_made(tmp_path):
    (tmp_path / "imported_slowly.py").write_text("import time\ntime.sleep(0.2)\nvalue = 7\n")
    program = f"""
import importlib, os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)
sys.path[:0] = [{str(Path(mt.__file__).parents[1])!r}, {str(tmp_path)!r}]
import minitensor
from minitensor import _forks
assert not _forks._locks
thread = threading.Thread(target=importlib.import_module, args=("imported_slowly",))
thread.start()
while "imported_slowly" not in sys.modules: pass
child = os.fork()
if child == 0:
    os._exit(importlib.import_module("imported_slowly").value)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
thread.join()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_what_others_were_importing_nevertheless_is_imported_anew_in_the_child(tmp_path, monkeypatch):
    begun, done = threading.Event(), threading.Event()
    monkeypatch.setitem(sys.modules, "events_of_this_test", type("Events", (), {"begun": begun, "done": done}))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "imported_slowly.py").write_text(
        "from events_of_this_test import begun, done\nbegun.set()\ndone.wait()\nvalue = 7\n"
    )
    thread = threading.Thread(target=importlib.import_module, args=("imported_slowly",))
    thread.start()
    begun.wait()
    monkeypatch.setattr(_forks, "_imports", list)  # the fork sees none of it

    def work():
        monkeypatch.undo()
        sys.modules["events_of_this_test"] = type("Events", (), {"begun": begun, "done": done})
        sys.path.insert(0, str(tmp_path))
        _forks._release_in_child()
        done.set()
        assert importlib.import_module("imported_slowly").value == 7

    forks.ends_well(work)
    done.set()
    thread.join()
    del sys.modules["imported_slowly"]


def test_a_module_may_fork_while_it_is_imported(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "forks_itself.py").write_text("import forks\nforks.ends_well(lambda: __import__('colorsys'))\n")
    importlib.import_module("forks_itself")
    assert not imp.lock_held()
    del sys.modules["forks_itself"]


def test_forks_while_everything_goes_on():
    """Threads allocate, launch, compile and look ops up."""
    from test_threads_and_processes import ends

    ends("""
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        mt.set_num_threads(2)
        stop = threading.Event()
        def allocates():
            while not stop.wait(0.002):
                [mt.empty(n * 1000) for n in range(1, 50)]
                mt.empty_cache()
        def launches():
            f = mt.function(lambda x: (x * 2 + 1).tanh().sum(), jit_compile=True)
            x = mt.ones(300_000)
            while not stop.wait(0.002): f(x)
        def compiles():
            n = 5
            while not stop.wait(0.002):
                n += 1
                mt.function(lambda x: (x * n).exp() + n, jit_compile=True)(mt.ones(n))
        def solves():
            a = mt.eye(20) * 3
            while not stop.wait(0.002): mt.linalg.solve(a, mt.ones(20))
        threads = [threading.Thread(target=f, daemon=True) for f in (allocates, launches, compiles, solves)]
        for thread in threads: thread.start()
        for round in range(10):
            time.sleep(0.01)
            child = os.fork()
            if child == 0:
                f = mt.function(lambda x: (x + round).relu().sum(), jit_compile=True)
                assert f(mt.zeros(400_000)).item() == round * 400_000
                assert mt.linalg.solve(mt.eye(3) * 2, mt.ones(3)).tolist() == [0.5] * 3
                mt.empty_cache()
                sys.exit(7)
            child_ends(child, 7)
        stop.set()
        for thread in threads: thread.join(60)
    """)
