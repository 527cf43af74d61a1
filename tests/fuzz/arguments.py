"""Calls of everything with arguments that nobody should pass: an exception or a right answer, never a crash or a hang.

Every case is made from its number alone, and runs twice: eager, and recorded or compiled. Both must end in the same
way. The exceptions are those that a user of PyTorch knows. This is one worker; `scripts/fuzz_arguments` runs several,
goes on after one that died, and says which case it was:

    python tests/fuzz/arguments.py --first 0 --cases 1000
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import inspect
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # the modules of the tests are found from their folder
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np

import minitensor as mt
import minitensor.nn.functional as F
from fuzz.misuse import MISUSES
from fuzz.values import Arguments, normal

SECONDS = 20
"""The time one case may take, of the processor: the machine may be busy with other things."""
MEMORY = 8 << 30
"""Bytes of address space; a call that asks for more gets an error, whoever asks."""

# What changes the state of the whole process, writes files, starts something, or gives other results each time.
SKIPPED = {
    "autocast_increment_nesting", "autocast_decrement_nesting", "set_autocast_enabled", "set_autocast_dtype",
    "set_autocast_cpu_enabled", "set_autocast_cpu_dtype", "set_autocast_gpu_dtype", "set_autocast_cache_enabled",
    "clear_autocast_cache",
    "jit", "function", "jit_scope", "Session", "annotations", "Any", "save", "load", "from_file", "share_memory_",
    "set_num_threads", "set_num_interop_threads", "set_default_dtype", "set_default_device", "set_default_tensor_type",
    "set_printoptions", "set_rng_state", "set_grad_enabled", "set_warn_always", "set_flush_denormal", "set_state",
    "set_deterministic_debug_mode", "set_float32_matmul_precision", "use_deterministic_algorithms", "manual_seed_all",
    "set_detect_anomaly", "init_num_threads", "seed", "manual_seed", "initial_seed", "get_rng_state", "show_config",
    "empty", "empty_like", "new_empty", "empty_strided", "empty_permuted", "new_empty_strided", "resize_", "resize_as_",
    "allocator_stats", "reset_peak_memory_stats", "empty_cache", "data_ptr", "numpy", "backward", "checked",
    "storage", "untyped_storage", "const_data_ptr", "mutable_data_ptr",
    "new", "get_num_threads", "default_generator", "set_device_index", "set_device_idx",
}  # fmt: skip
# OverflowError is what PyTorch raises for integers too large for a scalar, AssertionError where it asserts.
ALLOWED = (TypeError, ValueError, RuntimeError, IndexError, NotImplementedError, BufferError)
ALLOWED += (ZeroDivisionError, OverflowError, AssertionError)
REFUSED = (RecursionError, UnboundLocalError)


# As many steps as the degree, in PyTorch too: Ctrl-C must end them.
LONG = {f"special.{name}" for name in ("legendre_polynomial_p", "laguerre_polynomial_l")}


class Timeout(BaseException):
    """A call that takes too long."""


def on_alarm(*_: Any) -> None:
    raise Timeout


def spaces() -> Iterator[tuple[str, Any]]:
    """Where the public names are."""
    yield "mt", mt
    yield "Tensor", mt.Tensor
    yield "F", F
    for name in ("linalg", "fft", "special", "random", "autograd", "func", "accelerator", "testing", "dtypes"):
        if hasattr(mt, name):
            yield name, getattr(mt, name)
    yield "autograd.functional", mt.autograd.functional
    yield "init", mt.nn.init
    yield "Generator", mt.Generator


def functions() -> list[tuple[str, Callable[..., Any]]]:
    """Every public function and method: what rows and composites offer, and what is written by hand."""
    found: dict[str, Callable[..., Any]] = {}
    for space, holder in spaces():
        for name in sorted(dir(holder)):
            value = getattr(holder, name)
            private = name.startswith("_") and not name.startswith("_foreach_")
            if name in SKIPPED or private or not callable(value) or inspect.isclass(value) or inspect.ismodule(value):
                continue
            if getattr(value, "__module__", "") not in ("contextlib", "typing", "dataclasses", "math"):
                found[f"{space}.{name}"] = value
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "eq", "lt",
                 "lshift", "rshift", "divmod"):  # fmt: skip
        for form in ("__{}__", "__r{}__", "__i{}__"):
            method = getattr(mt.Tensor, form.format(name), None)
            if method is not None:
                found[form.format(name)] = method
    for name in ("__neg__", "__abs__", "__invert__", "__contains__", "__len__", "__bool__", "__float__", "__int__",
                 "__index__", "__complex__", "__repr__", "__format__", "__array__"):  # fmt: skip
        if hasattr(mt.Tensor, name):
            found[name] = getattr(mt.Tensor, name)
    for i in range(8):
        found[f"getitem {i}"] = mt.Tensor.__getitem__
        found[f"setitem {i}"] = mt.Tensor.__setitem__
    found["iter"] = lambda self: list(self)[:4]
    return list(found.items())


FUNCTIONS = functions()
TENSORS = {"input", "self", "x", "tensor", "a"}


def parameters_of(function: Any) -> list[tuple[str, bool, Any]]:
    """Its parameters: the name, whether it is passed by keyword, and the default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return []
    several = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [(p.name, p.kind is p.KEYWORD_ONLY, p.default) for p in parameters if p.kind not in several]


PARAMETERS = {name: parameters_of(function) for name, function in FUNCTIONS}


@contextlib.contextmanager
def running(mode: str) -> Iterator[None]:
    """Eager; recorded, with every op run by its kernel; or compiled, with every op in a cluster if it can be."""
    if mode == "eager":
        yield
        return
    compiled = mode == "compiled"
    with mt.jit.options(auto_jit=2 if compiled else 0, cpu_global_jit=compiled, min_cluster_size=1):
        mt._C.begin_recording()
        try:
            yield
        finally:
            # The values of a case that failed are not read.
            with contextlib.suppress(Exception):
                mt._C.end_recording("the end of a case")


def call_of(arguments: Arguments) -> tuple[str, Callable[..., Any], list[Any], dict[str, Any]]:
    """A function and what it is called with."""
    r = arguments.random
    name, function = r.choice(FUNCTIONS)
    first: Any = mt.Generator() if name.startswith("Generator.") else arguments.tensor()
    if name.startswith(("mt._foreach_", "autograd.")) and r.random() < 0.9:
        first = [first, arguments.beside(first)]
    args: list[Any] = [first]
    kwargs: dict[str, Any] = {}
    if name.startswith("setitem"):
        args += [arguments.index(), arguments.any()]
    elif name.startswith("getitem"):
        args.append(arguments.index())
    elif r.random() < 0.85:
        like = first if not isinstance(first, list) else first[0]
        parameters = PARAMETERS[name] or [("self", False, None)] + [("other", False, None)] * (name[:2] == "__")
        needed = sum(default is inspect.Parameter.empty for *_, default in parameters)
        args = []
        for place, (parameter, keyword, default) in enumerate(parameters):
            if place >= needed and r.random() < 0.6:
                continue
            own = parameter in TENSORS or place == 0
            value = (
                first
                if own and (r.random() < 0.97 or name.startswith(("Tensor.", "Generator.")))
                else arguments.fitting(like, parameter, default)
            )
            if keyword or len(args) < place:
                kwargs[parameter] = value
            else:
                args.append(value)
    else:
        # A method's first argument is its object.
        args += [arguments.any() for _ in range(r.choice([0, 1, 1, 2, 2, 3, 9 if r.random() < 0.1 else 1]))]
        if r.random() < 0.15 and not name.startswith(("Tensor.", "Generator.")):
            args[0] = arguments.any()
    if r.random() < 0.05:
        kwargs[r.choice(["dim", "keepdim", "dtype", "out", "input", "self", "axis", "\udc80", "device", "size"])] = (
            arguments.any()
        )
    return name, function, args, kwargs


def run_case(number: int, mode: str, note: Callable[[str], None]) -> Any:
    """One call; how it ended. An exception that no user should see is raised."""
    mt.manual_seed(number)
    try:
        name, function, args, kwargs = call_of(Arguments(number))
    except ALLOWED:  # the arguments could not be made
        return ("error", "the arguments could not be made")
    note(f"case {number}, {mode}: {name}({summary(args, kwargs)})")
    if name in LONG:
        signal.setitimer(signal.ITIMER_PROF, 1)
    try:
        with running(mode):
            return ("value", normal(function(*args, **kwargs)), [normal(a) for a in args if isinstance(a, mt.Tensor)])
    except ALLOWED as error:
        if isinstance(error, REFUSED):
            raise
        return ("error", type(error).__name__)
    except Timeout:
        if name not in LONG:
            raise
        return ("value", "still computing")


def summary(args: Any, kwargs: dict[str, Any] | None = None) -> str:
    """The arguments without observing them."""
    said = [
        f"{a.device.type[:1].replace('c', '')}{str(a.dtype).removeprefix('minitensor.')}{list(a.shape)}"
        if isinstance(a, mt.Tensor)
        else f"ndarray{a.shape}"
        if isinstance(a, np.ndarray)
        else f"[{summary(a)}]"
        if isinstance(a, (list, tuple))
        else ascii(a)[:60]
        for a in args
    ]
    return ", ".join(said + [f"{name!a}={summary([value])}" for name, value in (kwargs or {}).items()])


def run_misuse(number: int, mode: str, note: Callable[[str], None]) -> None:
    """One scenario; its own assertions say what is right."""
    arguments = Arguments(number)
    misuse = arguments.random.choice(MISUSES)
    note(f"case {number}, {mode}: {misuse.__name__}")
    with running(mode):
        misuse(arguments)


def where(error: BaseException) -> str:
    """The last lines of its way, innermost last."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    return " < ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(frames))


def run(first: int, cases: int, note: Callable[[str], None], report: Callable[[str], None]) -> int:
    """Run so many cases from the first one; how many went wrong. What went wrong is reported at once."""
    wrong = 0
    case = [""]

    def noted(text: str) -> None:
        case[0] = text
        note(text)

    def bad(text: str) -> None:
        nonlocal wrong
        wrong += 1
        report(f"{case[0]}: {text}".encode("utf-8", "backslashreplace").decode())

    signal.signal(signal.SIGPROF, on_alarm)
    sys.unraisablehook = lambda info: bad(f"unraisable: {info.exc_value!r} in {info.object!r}")
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    for number in range(first, first + cases):
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            other = "compiled" if number % 8 == 0 else "recorded"
            if number % 20 == 9:
                run_misuse(number, "eager", noted)
                run_misuse(number, other, noted)
                continue
            eager = run_case(number, "eager", noted)
            again = run_case(number, other, noted)
            # Of several mistakes another may be found first; what is recorded may take more memory at once.
            errors = [ended[0] == "error" for ended in (eager, again)]
            if eager != again and not all(errors) and again != ("error", "OutOfMemoryError"):
                bad(f"eager {str(eager)[:300]}\n    {other} {str(again)[:300]}")
        except Timeout as error:
            bad(f"took more than {SECONDS} s at {where(error)}")
        except (Exception, SystemError) as error:
            bad(f"{type(error).__name__}: {str(error)[:300]} at {where(error)}")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    return wrong


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--note", type=Path, help="a file that names the case that is running")
    parser.add_argument("--unlimited", action="store_true", help="no limit on memory: a sanitizer takes much")
    options = parser.parse_args()
    faulthandler.enable()
    if not options.unlimited:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open(options.note, "wb", buffering=0)) if options.note else None

        def note(text: str) -> None:
            if file is not None:
                file.seek(0)
                file.write(text.encode("utf-8", "backslashreplace") + b"\n")

        wrong = run(options.first, options.cases, note, lambda text: print(text, flush=True))
        note("done")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
