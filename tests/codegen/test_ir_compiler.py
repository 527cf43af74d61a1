"""LLVM can't end the process."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from sanitizers import SANITIZED

from minitensor_jit.codegen.cpu.target_machine import host_target
from minitensor_jit.codegen.cpu.verify import verify
from minitensor_jit.codegen.errors import CompileError

ROOT = Path(__file__).resolve().parents[2]
TEXT = """
define void @f() {
  call void @llvm.nvvm.barrier0()
  ret void
}
declare void @llvm.nvvm.barrier0()
"""


def run(program):
    program = f"import sys; sys.path.insert(0, {str(ROOT / 'tests')!r})\n" + textwrap.dedent(program)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return done


def test_what_no_code_is_known_for_is_refused():
    with pytest.raises(CompileError, match=r"llvm\.nvvm\.barrier0"):
        host_target().compile(TEXT)
    verify("declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)\n")


def test_a_process_goes_on_where_llvm_ends():
    """Once it has ended here, it compiles in another process, which may end as well."""
    run(f"""
        import signal
        from minitensor_jit.codegen.cpu.target_machine import host_target
        from minitensor_jit.codegen.llvm.ir_compiler import _state, emit
        from minitensor_jit.codegen.errors import CompileError
        machine, bad = host_target().machine, {TEXT!r}
        good = "define i32 @f(i32 %x) {{\\n  %y = add i32 %x, 41\\n  ret i32 %y\\n}}\\n"
        before = signal.getsignal(signal.SIGABRT)
        code, text = emit(machine, good), emit(machine, good, assembly=True)
        assert code.startswith(b"\\x7fELF") and b"41" in text and not _state.lost
        for end in ("SIGABRT; from now on", "its process ended", "its process ended"):
            try:
                emit(machine, bad)
            except CompileError as error:
                assert end in str(error), error
            else:
                sys.exit("no error")
            assert _state.lost
            assert (emit(machine, good), emit(machine, good, assembly=True)) == (code, text)
        try:
            emit(machine, "define nonsense")
        except CompileError as error:
            assert "LLVM" in str(error)
        assert signal.getsignal(signal.SIGABRT) == before
    """)


@pytest.mark.parametrize("at", [0, 1])
def test_a_program_whose_code_llvm_ends_at_goes_on(at):
    done = run(f"""
        import minitensor as mt
        from recording import recorded
        from minitensor_jit.codegen.llvm.ir_compiler import _state
        mt._C._arm_fault("llvm", {at})
        for n in range(2, 5):
            x = mt.arange(float(n))
            for _ in range(3):
                with recorded(dynamic_shapes=False, enable_lazy_compilation=False):
                    y = ((x * 2 + 1).sqrt() - n).sum(0)
                assert y.item() == ((x * 2 + 1).sqrt() - n).sum(0).item()
        assert _state.lost and _state.server is not None
    """)
    assert done.stderr.count("failed") == 1
    assert "its ops run eagerly" in done.stderr
    assert "SIGABRT" in done.stderr


def test_signals_of_other_threads_go_where_they_went_before():
    """While LLVM runs, this thread's signals are as ever, and LLVM's are still caught after them."""
    run("""
        import ctypes, signal, subprocess, threading
        from minitensor import _C
        libc = ctypes.CDLL(None)
        rises = ctypes.cast(libc["raise"], ctypes.c_void_p).value
        began, go_on = threading.Event(), threading.Event()

        @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        def waits(context, text, error):
            began.set()
            go_on.wait()

        address = ctypes.cast(waits, ctypes.c_void_p).value
        other = threading.Thread(target=_C._llvm_emit, args=(address, 0, 0, 0, b"", 0), daemon=True)
        seen = []
        signal.signal(signal.SIGFPE, lambda number, frame: seen.append(number))
        signal.signal(signal.SIGILL, signal.SIG_IGN)
        other.start()
        assert began.wait(60)
        for _ in range(3):
            signal.raise_signal(signal.SIGFPE)
            signal.raise_signal(signal.SIGILL)
        assert seen == [signal.SIGFPE] * 3, seen
        for number in (signal.SIGFPE, signal.SIGILL, signal.SIGABRT):
            assert _C._llvm_emit(rises, 0, int(number), 0, b"", 0) == number
        assert seen == [signal.SIGFPE] * 3, seen
        go_on.set()
        other.join()
        assert signal.getsignal(signal.SIGILL) == signal.SIG_IGN
        signal.raise_signal(signal.SIGFPE)
        assert len(seen) == 4
    """)


@pytest.mark.skipif(SANITIZED, reason="a sanitizer has handlers of its own")
def test_a_signal_without_a_handler_ends_the_process_while_llvm_runs():
    program = """
        import ctypes, signal, threading
        from minitensor import _C
        began = threading.Event()

        @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        def waits(context, text, error):
            began.set()
            threading.Event().wait()

        address = ctypes.cast(waits, ctypes.c_void_p).value
        threading.Thread(target=_C._llvm_emit, args=(address, 0, 0, 0, b"", 0), daemon=True).start()
        assert began.wait(60)
        signal.raise_signal(signal.SIGFPE)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=60
    )
    assert done.returncode == -signal.SIGFPE
