"""Which GPUs threads enter, what they leave behind, and how processes end: PyCUDA's contexts belong to threads."""

import subprocess
import sys
import textwrap
import threading
from pathlib import Path

from sanitizers import SANITIZED

import minitensor as mt

START = """
import os, sys
sys.path[:0] = [{tests!r}]
import fake_cuda
stand_in = fake_cuda.installed(devices=2)
cuda = stand_in.__enter__()
def push(self, push=cuda.driver.Context.push, write=os.write):
    push(self)
    write(1, b"+")
def pop(pop=cuda.driver.Context.pop, write=os.write):
    pop()
    write(1, b"-")
cuda.driver.Context.push, cuda.driver.Context.pop = push, staticmethod(pop)
"""


def program(text):
    """What a program prints, with + and - for contexts that are pushed and popped; PyCUDA aborts where one is left."""
    code = START.format(tests=str(Path(__file__).parents[1])) + textwrap.dedent(text)
    ran = subprocess.run(
        [sys.executable, "-u", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=600 if SANITIZED else 60,
    )
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr, ran.stderr
    assert "could not be cleaned up" not in ran.stderr, ran.stderr
    return ran.stdout


def test_a_gpu_that_is_used_at_the_end_of_the_process_is_left_again(planned):
    out = program(
        """
        import atexit
        def last():
            print(x.tolist())
            from minitensor_jit.runtime.cuda import context
            context.driver = None  # as when the interpreter takes the modules apart
        atexit.register(last)
        import minitensor as mt
        x = mt.ones(3, device="cuda") + 1
        """
    )
    assert "[2.0, 2.0, 2.0]" in out
    assert out.count("+") == out.count("-") == 2


def with_a_daemon(turns, more=""):
    """What a program prints that has a daemon thread use a GPU; `turns` is what the thread does."""
    return program(
        f"""
        import threading, time
        import minitensor as mt
        x = mt.ones(3, device="cuda") + 1
        began = threading.Event()
        def work():
            {turns}
        threading.Thread(target=work, daemon=True).start()
        print(began.wait(30))
        {more}
        """
    )


def test_daemon_threads_leave_the_gpu_before_the_interpreter_ends_them(planned):
    out = with_a_daemon("while True: (x + 1).cpu(); began.set()")
    assert "True" in out
    assert out.count("+") == out.count("-") == 2


def test_daemon_threads_that_sleep_inside_a_gpu_wait_for_the_end(planned):
    # They wake while the interpreter is taken apart, and it ends them where they are.
    slow = 'sys.modules["slow"] = type("Slow", (), {"__del__": lambda self, sleep=time.sleep: sleep(0.8)})()'
    assert "True" in with_a_daemon("(x + 1).cpu(); began.set(); time.sleep(0.9)", slow)


def test_a_forked_child_says_that_gpus_cannot_be_used(planned):
    out = program(
        """
        import minitensor as mt
        x = mt.ones(3, device="cuda") + 1
        x.cpu()
        child = os.fork()
        if not child:
            try:
                mt.ones(3, device="cuda")
            except RuntimeError as error:
                print("told", "forked" in str(error) and "'spawn'" in str(error), mt.cuda.is_available())
            print(mt.ones(3).sum().item())
            sys.exit()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), (x + 1).tolist())
        """
    )
    assert "told True False" in out
    assert "3.0\n" in out
    assert "0 [3.0, 3.0, 3.0]" in out


def test_what_threads_leave_behind_is_given_back_where_the_gpu_is_current(planned):
    out = program(
        """
        import gc, threading
        import minitensor as mt
        left = []
        def work():
            x = mt.ones(400, 300).to("cuda")
            event = mt.cuda.Event()
            event.record()
            x.cpu()
            left.append((event, mt.cuda.Stream("cuda:0"), mt.ones(7).pin_memory()))
            function = mt.function(lambda x: mt.tanh(x) * 2, jit_compile=True)
            function(x).cpu()
            left.append(function)
        for _ in range(2):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        left.clear()
        gc.collect()
        from minitensor_jit.runtime.cuda import context
        print(len(context.gpu(0).dead) > 0)
        mt.zeros(3, device="cuda:0")
        print(len(context.gpu(0).dead))
        mt.cuda.empty_cache()
        """
    )
    assert [line.strip("+-") for line in out.split("\n")[:2]] == ["True", "0"]


def test_events_of_another_gpu_leave_the_thread_where_it_is(planned):
    stream = mt.cuda.Stream("cuda:1")
    x = mt.ones(5, device="cuda:1")
    with mt.cuda.stream(stream):
        y = x + 1
    x.record_stream(stream)
    del x  # its memory is given back once the stream is done with it, which the next allocation asks
    z = mt.zeros(3 << 20, device="cuda:0")
    base = planned.gpus[0].memory.base
    assert base <= z.data_ptr() < base + (1 << 38)
    assert y.tolist() == [2.0] * 5


def test_threads_that_end_leave_their_chunks_to_others(planned):
    from minitensor_jit.runtime.cuda import pinned

    x = mt.ones(1 << 16)

    def work():
        assert x.to("cuda").cpu().sum().item() == 1 << 16

    counts = []
    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        counts.append(len(pinned._blocks))
    assert counts[0] == counts[1] == counts[2]


def test_counters_of_both_gpus_are_read_on_a_thread_that_made_neither_context(planned):
    out = program(
        """
        import threading
        import minitensor as mt
        x, y = mt.ones(4, device="cuda:0"), mt.ones(4, device="cuda:1")
        def work():
            with mt.jit.options(hlo_profile=True):
                function = mt.function(lambda x: mt.tanh(x) * 2, jit_compile=True)
                for _ in range(3):
                    function(x), function(y)
                print("cluster" in str(mt.jit.hlo_profile().to_json()))
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        """
    )
    assert "True" in out
