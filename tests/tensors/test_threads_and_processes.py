"""Other threads, forks, the interpreter's end, interrupts: each in a process of its own, which must end well."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from sanitizers import SANITIZED, TSAN

ROOT = Path(__file__).resolve().parents[2]
BEFORE = """
import contextlib, gc, os, random, sys, threading, time
import numpy as np
import minitensor as mt
import minitensor_jit.api as jit
sys.setswitchinterval(1e-5)

@contextlib.contextmanager
def recorded(compiled=False):
    options = jit.options(auto_jit=2, cpu_global_jit=True) if compiled else contextlib.nullcontext()
    with options:
        mt._C.begin_recording()
        try:
            yield
        finally:
            mt._C.end_recording("the end")

def in_threads(work, count=4):
    errors = []
    def guarded(n):
        try:
            work(n)
        except BaseException as error:
            errors.append(error)
            raise
    threads = [threading.Thread(target=guarded, args=(n,), daemon=True) for n in range(count)]
    for thread in threads: thread.start()
    for thread in threads: thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    assert not errors, errors

def child_ends(child, code):
    deadline = time.monotonic() + 60
    while (done := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, 6)
            sys.exit("the child hangs")
        time.sleep(0.002)
    assert os.waitstatus_to_exitcode(done[1]) == code, done
"""


def start(program, **environment):
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", BEFORE + textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # an unset PYTHONUNBUFFERED is what users have: what is flushed, and when, is a part of what is tested
        env={**os.environ, "PYTHONPATH": str(ROOT), "MT_NUM_THREADS": "2", "PYTHONUNBUFFERED": "", **environment},
    )


def rest_of(process, timeout):
    """What it prints until its end, behind the lines that were read already.

    `communicate` reads past the buffers of `process.stdout`, so a line that came together with one that `readline`
    gave would be lost.
    """
    errors = []
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
    reader.start()
    timer = threading.Timer(timeout, process.send_signal, [signal.SIGABRT])  # faulthandler shows where it hangs
    timer.start()
    try:
        out = process.stdout.read()
        reader.join()
        process.wait()
    finally:
        timer.cancel()
        process.stdout.close()
        process.stderr.close()
    return out, errors[0]


def ends(program, code=0, **environment):
    process = start(program, **environment)
    out, err = rest_of(process, 90)
    assert process.returncode == code, f"exit status {process.returncode}\n{out}\n{err}"
    return out


def test_threads_read_each_others_recordings():
    """A value that one thread has recorded is read by the others, while it is being computed too."""
    ends("""
        SIZE, ROUNDS = 5000, 40
        boxes = [[None] for _ in range(4)]
        def work(n):
            r = random.Random(n)
            with recorded():
                x = mt.full((SIZE,), float(n))
                for step in range(ROUNDS):
                    x = x + 1
                    boxes[n][0] = (x, n + step + 1)
                    other = r.choice(boxes)[0]
                    if other is not None:
                        value, expected = other
                        kind = r.randrange(3)
                        if kind == 0:
                            assert value[3].item() == expected
                        elif kind == 1:
                            assert (value * 2 + x).sum().item() == (expected * 2 + n + step + 1) * SIZE
                        else:
                            y = value - x
                            assert y.tolist() == [expected - (n + step + 1)] * SIZE
        in_threads(work)
    """)


def test_threads_write_what_others_recorded():
    """A write, ordered by a lock, never changes what was read before it."""
    ends("""
        shared, lock = mt.zeros(2000), threading.Lock()
        state = [0.0]
        def work(n):
            r = random.Random(n)
            for _ in range(60):
                kept = []
                with recorded() if n % 2 else contextlib.nullcontext():
                    for _ in range(3):
                        with lock:
                            kept.append((shared * 2, state[0] * 2))
                            if r.random() < 0.5:
                                shared.add_(1)
                                state[0] += 1
                    for value, expected in kept:
                        assert value.tolist() == [expected] * 2000, (value[0].item(), expected)
        in_threads(work)
    """)


@pytest.mark.skipif(TSAN, reason="its elements race, which is the program's own fault")
def test_contents_replaced_while_kernels_run():
    """x.data = y on one thread, kernels on x without the lock on another."""
    ends("""
        x, stop = mt.ones(300_000), threading.Event()
        def replace():
            while not stop.is_set():
                x.data = mt.ones(3)
                x.data = mt.ones(300_000)
                x.data = mt.ones(500, 600)
        thread = threading.Thread(target=replace, daemon=True)
        thread.start()
        def work(n):
            for _ in range(40):
                for mode in (contextlib.nullcontext, recorded):
                    with mode():
                        assert (x * 2).amax().item() == 2
                        with contextlib.suppress(RuntimeError):
                            x.mul_(1.0)
                        x.tolist() if n == 0 else np.asarray(x.sum())
        in_threads(work, 3)
        stop.set()
        thread.join(60)
    """)


def test_one_gradient_from_many_threads():
    ends("""
        p = mt.ones(100_000).requires_grad_()
        def work(n):
            for _ in range(20):
                (p * 1.0).sum().backward()
                if n == 0:
                    gc.collect()
        in_threads(work)
        assert p.grad.amin().item() == p.grad.amax().item() == 80
    """)


def test_one_compiled_function_on_many_threads():
    ends("""
        @mt.function(jit_compile=True)
        def f(x, n):
            return x * n + 1
        def work(n):
            for step in range(60):
                x = mt.full((40_000,), float(step))
                assert f(x, n % 2).tolist()[7] == step * (n % 2) + 1
                if step % 20 == 19 and n == 0:
                    f.clear()
        in_threads(work)
    """)


def test_threads_compile_at_once():
    """New shapes on every thread, some the same as another's."""
    ends("""
        def work(n):
            for step in range(12):
                size = 10 + (step * (n % 2 + 1)) % 17
                with recorded(compiled=True):
                    x = mt.arange(size, dtype=mt.float32)
                    y = ((x * 2 + 1).tanh() - x).sum() + mt.matmul(x.view(1, -1), x.view(-1, 1)).sum()
                assert abs(y.item() - float(np.sum(np.tanh(np.arange(size) * 2 + 1) - np.arange(size))
                           + np.sum(np.arange(size) ** 2))) < 1e-2, (size, y)
        in_threads(work)
    """)


def test_many_short_threads_that_record():
    """Traces of threads that have ended are taken over."""
    ends("""
        def work():
            with recorded():
                kept.append(mt.ones(3) + 1)
        for round in range(300):
            kept = []
            threads = [threading.Thread(target=work) for _ in range(2)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            assert [k.tolist() for k in kept] == [[2, 2, 2]] * 2
    """)


@pytest.mark.skipif(TSAN, reason="ThreadSanitizer doesn't follow forks of processes with threads")
@pytest.mark.parametrize("recording", [False, True])
def test_fork(recording):
    """A child can compute, whatever the parent's threads were doing."""
    ends(f"""
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        scope = recorded if {recording} else contextlib.nullcontext
        stop = threading.Event()
        last = [None]
        def busy():
            while not stop.is_set():
                with scope():
                    x = mt.ones(400_000)
                    for _ in range(5):
                        x = x * 1.5 + 1
                    last[0] = x
                    x.sum().item()
        threads = [threading.Thread(target=busy, daemon=True) for _ in range(2)]
        for thread in threads: thread.start()
        for round in range(15):
            time.sleep(0.01)
            with scope():
                pending = mt.ones(100_000) + 1
                child = os.fork()
                if child == 0:
                    try:
                        assert pending.sum().item() == 200_000
                        y = mt.ones(300_000) * 2
                        assert y.sum().item() == 600_000
                        y.add_(1)
                        with contextlib.suppress(RuntimeError, AttributeError):
                            last[0].sum().item()  # the parent's thread may have been computing it
                        os._exit(0)
                    except BaseException as error:
                        print(repr(error), file=sys.stderr, flush=True)
                        os._exit(1)
                child_ends(child, 0)
        stop.set()
        for thread in threads: thread.join(60)
    """)


@pytest.mark.skipif(TSAN, reason="ThreadSanitizer doesn't follow forks of processes with threads")
def test_fork_while_others_compile():
    ends("""
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        stop = threading.Event()
        def busy():
            size = 10
            while not stop.is_set():
                size += 1
                with recorded(compiled=True):
                    x = mt.ones(size)
                    y = ((x * 2 + 1).tanh() - x).sum()
                y.item()
        threads = [threading.Thread(target=busy, daemon=True) for _ in range(2)]
        for thread in threads: thread.start()
        for round in range(10):
            time.sleep(0.02)
            child = os.fork()
            if child == 0:
                with recorded(compiled=True):
                    z = (mt.ones(7 + round) * 3 + 1) * 2 - 1
                os._exit(0 if z.tolist() == [7.0] * (7 + round) else 1)
            child_ends(child, 0)
        stop.set()
        for thread in threads: thread.join(60)
    """)


@pytest.mark.skipif(TSAN, reason="ThreadSanitizer doesn't follow forks of processes with threads")
def test_fork_while_another_thread_imports_the_compiler():
    """What the compiler does at forks is known to Python before it is imported, in the middle of one."""
    ends("""
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        failed = []
        sys.unraisablehook = lambda error: failed.append(error.exc_value)
        function = mt.function(lambda x: (x * 2 + 1).relu().sum(), jit_compile=True)
        thread = threading.Thread(target=function, args=(mt.ones(10),))
        assert "minitensor_jit.compiler.launcher" not in sys.modules
        thread.start()
        child = os.fork()
        if child == 0:
            os._exit(2 if failed else int(function(mt.ones(10)).item() != 30))
        assert os.waitpid(child, 0)[1] == 0
        assert not failed, failed
        thread.join(60)
    """)


@pytest.mark.parametrize("recording", [False, True])
def test_interpreter_ends_while_threads_compute(recording):
    """Daemon threads in the middle of kernels, tensors in cycles and in modules that are torn down."""
    for _ in range(3):
        ends(f"""
            scope = recorded if {recording} else contextlib.nullcontext
            started = threading.Barrier(4)
            def busy():
                x = mt.ones(1_000_000)
                started.wait()
                while True:
                    with scope():
                        x = (x * 1.0).clone()
                        x.sum().item()
            for _ in range(3):
                threading.Thread(target=busy, daemon=True).start()
            started.wait()
            kept = mt.ones(5).requires_grad_()
            kept.me = kept
            kept.register_hook(lambda g: kept)
            mt.kept = shared = np.from_dlpack(mt.ones(4))
            class Late:
                def __del__(self, mt=mt, kept=kept):
                    (kept * 2).sum()
            late = Late()
            late.me = late
            time.sleep(0.03)
        """)


@pytest.mark.sampled(3)
@pytest.mark.at_once(reason="it records by itself")
@pytest.mark.parametrize(
    "module", ["minitensor_jit.compiler.plan_builder", "minitensor_jit.codegen.cpu.compiler", "llvmlite.binding"]
)
@pytest.mark.parametrize("how", ["SIGINT", "SIGALRM", "by its thread's number"])
def test_an_exception_from_outside_while_the_compiler_is_imported(how, module):
    """What is half imported may never work again: it comes where nothing is imported, and costs no value."""
    ends(f"""
        import ctypes, signal
        class Late(Exception): pass
        def raise_late(*_): raise Late
        main = threading.get_ident()
        for one in (signal.SIGINT, signal.SIGALRM): signal.signal(one, raise_late)
        came = []
        class Outside:
            def find_spec(self, name, path=None, target=None):
                if name == {module!r} and not came:
                    came.append(name)
                    if {how!r}.startswith("SIG"): os.kill(os.getpid(), getattr(signal, {how!r}))
                    else: ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main), ctypes.py_object(Late))
        w = mt.ones(10)
        sys.meta_path.insert(0, Outside())
        try:
            with jit.options(min_cluster_size=1, enable_lazy_compilation=False), recorded(True):
                w.mul_(2).add_(1)
                x = w.sum()
        except Late:
            pass
        else:
            sys.exit("no exception")
        assert came
        assert (w.tolist(), x.item()) == ([3] * 10, 30)
        function = mt.function(lambda x: (x * 2 + 1).sum(), jit_compile=True)
        assert function(mt.ones(10)).item() == 30
    """)


def test_interpreter_ends_while_threads_compile():
    """CPython unwinds daemon threads that are in Python then, through the compiler's callers in the core."""
    for _ in range(2):
        ends("""
            started = threading.Barrier(4)
            def busy(n):
                started.wait()
                while True:
                    n += 1
                    with mt.jit_scope():
                        x = mt.ones(n)
                        for _ in range(6): x = x * 1.5 + 0.25
                    x.sum().item()
            for n in (0, 1000, 2000):
                threading.Thread(target=busy, args=(n,), daemon=True).start()
            started.wait()
            time.sleep(0.4)
        """)


@pytest.mark.parametrize("recording", [False, True])
def test_interrupt(recording):
    """Ctrl-C ends a long computation with KeyboardInterrupt, and the process goes on."""
    process = start(f"""
        scope = recorded if {recording} else contextlib.nullcontext
        import signal
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        x = mt.ones(2_000_000)
        print("ready", flush=True)
        try:
            while True:
                with scope():
                    x = x * 1.0 + 0.0
                    x.sum().item()
        except KeyboardInterrupt:
            print("stopped", flush=True)
        y = mt.ones(3) + 1
        assert y.tolist() == [2, 2, 2]
        print("done", flush=True)
    """)
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, err = rest_of(process, 60)
    finally:
        process.kill()
    assert (process.returncode, out) == (0, "stopped\ndone\n"), err


@pytest.mark.parametrize("compiled", [False, True])
def test_handlers_compute_in_the_middle_of_computations(compiled):
    """What they compute has memory of its own."""
    out = ends(f"""
        import signal
        def product(a, b, c):
            return (a @ b) * c
        if {compiled}:
            product = mt.function(product, jit_compile=True)
        size = {300 if SANITIZED else 1500}
        a, b = mt.randn(size, size), mt.randn(size, size)
        c, d = mt.randn(size // 5, 900), mt.randn(900, 1100)
        ones, fewer = mt.ones(size), mt.ones(1100)
        wanted = product(a, b, ones)
        product(c, d, fewer)
        ran = []
        def handler(*_):
            ran.append(product(c, d, fewer))
            signal.setitimer(signal.ITIMER_REAL, 0.105)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        wrong = 0
        end = time.monotonic() + 1.5
        while time.monotonic() < end or len(ran) < 5:
            wrong += not mt.equal(product(a, b, ones), wanted)
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert all(mt.equal(one, ran[0]) for one in ran)
        print(wrong)
    """)
    assert out == "0\n"


LONG = {
    "matmul": "x = mt.ones(9000, 9000); x @ x",
    "conv2d": "x, w = mt.ones(64, 128, 128, 128), mt.ones(256, 128, 3, 3); F.conv2d(x, w, padding=1)",
    "elementwise": "x = mt.ones(20_000_000).double(); [x.lgamma_() for _ in range(1000)]",
    "polynomial": "mt.special.laguerre_polynomial_l(mt.ones(1), 2**40)",
    "sort": "x = mt.rand(100_000_000); mt.set_num_threads(1); [x.sort() for _ in range(9)]",
    "sort rows": "x = mt.rand(4, 20_000_000); mt.set_num_threads(1); [x.sort() for _ in range(9)]",
    "mode": "x = mt.rand(60_000_000); [x.mode() for _ in range(9)]",
    # LAPACK isn't interrupted: what it began is waited for, which under ThreadSanitizer takes 5 minutes for 3,000.
    "eigenvalues": f"x = mt.rand(*[{1000 if TSAN else 2000}] * 2); [mt.linalg.eigh(x) for _ in range(40)]",
    "long cluster": "x = mt.rand(70_000)\nwith mt.jit_scope(): mt.special.laguerre_polynomial_l(x, 1e12).sum().item()",
    "checked indices": "x, i = mt.ones(9000, 9000), mt.arange(9)\nwith mt.jit_scope(): (x @ x)[i].sum().item()",
    "cluster": "x = mt.ones(9000, 9000)\nwith mt.jit_scope(): y = (x @ x).tanh() + 1\ny.sum().item()",
}  # fmt: skip


def test_kernels_make_tensors_of_their_own_beside_each_other():
    """In half precision, of complex numbers and in compiled code, on threads that don't hold the interpreter's lock."""
    ends("""
        mt.set_num_threads(1)
        base, product = mt.randn(70_000), mt.randn(150, 150).to(mt.complex64)
        narrow = base.to(mt.float16)
        ranked = mt.function(lambda x: (x * 2).sort().values + 1, jit_compile=True)
        kinds = [lambda: narrow.sort().values, lambda: product @ product, lambda: ranked(base)]
        wanted = [kind() for kind in kinds]
        def work(n):
            for step in range(40):
                got = kinds[n % 3]()
                small = [mt.ones(3) + k for k in range(40)]
                assert all(t.tolist() == [k + 1] * 3 for k, t in enumerate(small))
                assert mt.equal(got, wanted[n % 3])
        in_threads(work, 6)
    """)


@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
def test_the_first_of_several_errors_is_raised():
    """Whichever thread meets it, and whether it runs its share from the front or from the back."""
    ends("""
        index = mt.zeros(2_000_000, dtype=mt.int64)
        for place, wrong in ((300_000, 60), (300_001, 61), (999_999, 62), (1_000_001, 70), (1_900_000, 71)):
            index[place] = wrong
        x = mt.rand(50)
        for threads in (2, 3, 1):
            mt.set_num_threads(threads)
            for _ in range(6):
                try:
                    x.gather(0, index)
                except (IndexError, RuntimeError) as error:
                    assert "index 60 is out of bounds" in str(error), error
                else:
                    raise AssertionError("no error")
    """)


def _long_ones():
    """All of them; what is like another one is exhaustive."""
    few = "matmul", "elementwise", "sort", "cluster"
    return [name if name in few else pytest.param(name, marks=pytest.mark.exhaustive) for name in LONG]


@pytest.mark.at_once(reason="it interrupts ops at their call")
@pytest.mark.parametrize("name", _long_ones())
def test_one_long_computation_is_interrupted(name):
    """Also in the middle of a single op: within two seconds, and the process goes on."""
    work = textwrap.indent(LONG[name], "            ").strip()
    process = start(f"""
        import signal
        import minitensor.nn.functional as F
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("ready", flush=True)
        try:
            {work}
        except KeyboardInterrupt:
            print("stopped", time.monotonic(), flush=True)
        assert (mt.ones(100_000) + 1).sum().item() == 200_000
        with recorded(True):
            y = mt.ones(3) * 2
        assert y.tolist() == [2, 2, 2]
        print("done", flush=True)
    """)
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(1.5)
        asked = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = rest_of(process, 300)  # the end of a process waits for what LAPACK began
    finally:
        process.kill()
    lines = out.splitlines()
    assert (process.returncode, lines[-1:]) == (0, ["done"]), err
    stopped, when = lines[0].split()
    assert stopped == "stopped"
    allowed = 20 if SANITIZED else 2
    assert float(when) - asked < allowed * (1 + os.getloadavg()[0] / os.cpu_count())  # other programs take their share


@pytest.mark.at_once(reason="it interrupts an op at its call")
def test_a_second_interrupt_ends_a_process_that_waits_for_a_library():
    """What LAPACK has begun ends before the process does, unless somebody insists."""
    process = start("""
        import atexit, signal, sys, threading, time
        from minitensor.ops.library import interruptible
        signal.signal(signal.SIGINT, signal.default_int_handler)
        x = mt.rand(4000, 4000)
        def watch():
            while not interruptible._computing: time.sleep(0.01)
            time.sleep(0.5)
            print("ready", flush=True)
        threading.Thread(target=watch, daemon=True).start()
        try:
            mt.linalg.eigh(x)
        except KeyboardInterrupt:
            print("stopped", flush=True)
        sys.stdout.write("done\\n")
        # called before what waits for the library, which was registered before it
        atexit.register(print, "ending", file=sys.stderr, flush=True)
    """)
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "stopped\n"
        assert process.stderr.readline() == "ending\n"
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert rest_of(process, 60)[0] == "done\n"
        assert process.returncode == 130
    finally:
        process.kill()


CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


@pytest.mark.at_once(reason="it looks at the threads that ops begin at their call")
@pytest.mark.skipif(CPUS < 2, reason="there is one CPU only, or threads can't be told where to run")
def test_the_pools_threads_keep_away_from_their_caller():
    """From the start: where a thread was put when it began to run is often beside the caller."""
    ends("""
        before = set(os.listdir("/proc/self/task"))
        x = mt.rand(1 << 22)
        for _ in range(20): x.exp()
        pool = set(os.listdir("/proc/self/task")) - before
        assert len(pool) == 1
        everywhere = os.sched_getaffinity(0)
        allowed = os.sched_getaffinity(int(pool.pop()))
        assert len(allowed) == len(everywhere) - 1 and allowed < everywhere, (allowed, everywhere)
    """)


@pytest.mark.at_once(reason="it looks at the threads that ops begin at their call")
def test_sleeping_threads_are_woken_up_where_it_pays():
    """Short kernels with pauses between them don't begin a thread; many in a row do, and so does a long one."""
    ends(
        """
        def threads(): return len(os.listdir("/proc/self/task"))
        a, b = mt.ones(100, 784), mt.ones(784, 10)
        before = threads()
        for _ in range(20):
            time.sleep(0.005)
            y = a @ b
        assert threads() == before, threads() - before
        for _ in range(1000): y = a @ b
        assert threads() == before + 1, threads() - before
    """,
        MT_WAKE_THREADS="demand",
    )
    long_one = """
        x = mt.empty(1 << 22)
        before = len(os.listdir("/proc/self/task"))
        x.fill_(1)
        assert len(os.listdir("/proc/self/task")) == before + 1
    """
    ends(long_one, MT_WAKE_THREADS="")
    short_one = long_one.replace("1 << 22", "100_000")
    ends(short_one, MT_WAKE_THREADS="always")


def test_tuples_that_other_threads_make_have_one_owner():
    """Python calls it an error where a tuple that isn't finished has two, and what a function makes is looked for."""
    ends("""
        stop, failed = threading.Event(), []
        sys.setswitchinterval(1e-6)
        def makes():
            while not stop.is_set():
                try:
                    tuple(x for x in range(200))
                except SystemError as error:
                    failed.append(error)
        thread = threading.Thread(target=makes)
        thread.start()
        for number in range(60):
            mt.function(lambda x: x + number, jit_compile=True)(mt.ones(3))
        stop.set()
        thread.join()
        assert not failed, failed[0]
    """)
