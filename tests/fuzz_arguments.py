"""Calls with arguments that nobody should pass: an exception or a right answer, never a crash, hang or SystemError.

Every case is made from its number alone, and runs twice: eager, and recorded or compiled. Both must end in the same
way. What is running is kept in a file, so that the case that ends the process is known:

    python tests/fuzz_arguments.py --first 0 --cases 100000
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import faulthandler
import gc
import inspect
import io
import math
import pickle
import random
import signal
import sys
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import minitensor as mt
import minitensor.nn.functional as F

DTYPES = [mt.bool, mt.uint8, mt.int32, mt.int64, mt.float32, mt.float64]
SHAPES = [(), (1,), (3,), (0,), (2, 3), (3, 2), (1, 3), (2, 0, 3), (2, 1, 3), (2, 2, 2), (1,) * 9]
# So large that they are refused, never so that memory is really taken.
INTEGERS = [-1, 0, 1, 2, 3, 4, -2, -3, 7, 64, 2**40, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64 + 1, -(2**31) - 1]
FLOATS = [0.0, -0.0, 1.0, -1.5, 0.5, math.nan, math.inf, -math.inf, 1e308, 5e-324, 1e30]
# Enough elements that kernels run without the GIL and on several threads.
LARGE = 70_000
SECONDS = 20

SKIPPED = {
    "jit", "function", "jit_scope", "Session", "annotations", "bool", "double", "float", "int", "long",
    "set_num_threads", "set_default_dtype", "set_printoptions", "set_rng_state", "seed", "manual_seed",
    "empty", "empty_like", "new_empty",
    "initial_seed", "get_rng_state", "show_config", "allocator_stats", "reset_peak_memory_stats", "set_grad_enabled",
    "data_ptr", "numpy", "backward", "cpu", "type", "Any", "get_num_threads",
}  # fmt: skip


class Timeout(BaseException):
    """A call that takes too long."""


def on_alarm(*_: Any) -> None:
    faulthandler.dump_traceback()
    raise Timeout


class Evil:
    """A number that does something else while it is read."""

    def __init__(self, value: Any, act: Callable[[], Any]) -> None:
        self.value, self.act = value, act

    def __index__(self) -> int:
        self.act()
        return int(self.value)

    def __float__(self) -> float:
        self.act()
        return float(self.value)


class Subclass(mt.Tensor):
    """Knows nothing of its own."""


def functions() -> list[tuple[str, Callable[..., Any]]]:
    """Everything public that takes tensors."""
    found: list[tuple[str, Callable[..., Any]]] = []
    for space, prefix in ((mt, "mt."), (mt.Tensor, "Tensor."), (F, "F.")):
        for name in sorted(dir(space)):
            value = getattr(space, name)
            if name in SKIPPED or name.startswith("_") or not callable(value) or inspect.isclass(value):
                continue
            if inspect.ismodule(value):
                continue
            found.append((prefix + name, value))
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "eq", "lt"):
        for form in ("__{}__", "__r{}__", "__i{}__"):
            method = getattr(mt.Tensor, form.format(name), None)
            if method is not None:
                found.append((form.format(name), method))
    found += [("getitem", mt.Tensor.__getitem__), ("setitem", mt.Tensor.__setitem__)] * 8
    found += [("bool()", bool), ("len()", len), ("iter()", lambda t: list(t)[:4]), ("item", mt.Tensor.item)]
    return found


FUNCTIONS = functions()


class Arguments:
    """Random arguments of one case."""

    def __init__(self, number: int) -> None:
        self.random = random.Random(number)
        self.arrays: list[np.ndarray] = []

    def tensor(self) -> Any:
        r = self.random
        dtype = r.choice(DTYPES)
        shape = r.choice(SHAPES)
        kind = r.random()
        if kind < 0.05:
            return mt.empty(shape, dtype=dtype, device="meta")
        if kind < 0.08:
            shape = (LARGE,) if r.random() < 0.5 else (7, LARGE // 7)
        rng = np.random.default_rng(r.randrange(1 << 30))
        array = np.asarray(rng.integers(0 if dtype in (mt.bool, mt.uint8) else -3, 4, size=shape)).astype(
            str(dtype).removeprefix("minitensor.")
        )
        if kind < 0.2:
            if r.random() < 0.4:
                array.setflags(write=False)
            self.arrays.append(array)
            tensor = mt.from_numpy(array)
        else:
            tensor = mt.tensor(array)
        for _ in range(r.choice([0, 0, 0, 1, 2])):
            tensor = self.view(tensor)
        if kind > 0.9 and dtype in (mt.float32, mt.float64):
            tensor = tensor.detach().requires_grad_()
            if r.random() < 0.5:
                tensor = tensor * 1
        if kind < 0.25:
            tensor = Subclass(tensor)
        return tensor

    def view(self, t: Any) -> Any:
        r = self.random
        try:
            return r.choice(
                [
                    lambda: t.expand(2, *t.shape),
                    lambda: t.unfold(0, 2, 1),
                    lambda: t.transpose(0, -1),
                    lambda: t[1:],
                    lambda: t[..., ::2],
                    lambda: t.as_strided((2, 2), (1, 1)),
                    lambda: t.as_strided((0,), (2**62,), 2**61),
                    lambda: t.unsqueeze(-1),
                    lambda: t.diagonal(),
                    lambda: t.expand(0, *t.shape),
                ]
            )()
        except (RuntimeError, IndexError, TypeError, ValueError):
            return t

    def shape(self) -> Any:
        r = self.random
        dims = [
            r.choice(INTEGERS if r.random() < 0.3 else [0, 1, 2, 3]) for _ in range(r.choice([0, 1, 2, 2, 3, 5, 70]))
        ]
        return r.choice([tuple, list])(dims)

    def index(self) -> Any:
        r = self.random
        item = r.choice(
            [
                lambda: r.choice(INTEGERS[:10]),
                lambda: slice(*[r.choice([None, *INTEGERS]) for _ in range(3)]),
                lambda: None,
                lambda: ...,
                lambda: r.random() < 0.5,
                self.tensor,
                lambda: [r.choice(INTEGERS[:6]) for _ in range(r.randrange(4))],
                lambda: np.int64(1),
                lambda: np.array([0, 1]),
                self.odd,
            ]
        )
        return tuple(item() for _ in range(r.randrange(4))) if r.random() < 0.4 else item()

    def odd(self) -> Any:
        r = self.random
        return r.choice(
            [None, "sum", b"x", object(), {}, [], (), 1j, mt.float32, "cpu", "meta", "\udc80", int, float, 10**400,
             np.float32(2), np.zeros((2, 3)), np.array("x"), range(3), True, mt.device("meta"), [[1], [2, 3]],
             lambda x: x]
        )  # fmt: skip

    def any(self) -> Any:
        r = self.random
        kind = r.random()
        if kind < 0.4:
            return self.tensor()
        if kind < 0.6:
            return r.choice(INTEGERS)
        if kind < 0.7:
            return r.choice(FLOATS)
        if kind < 0.8:
            return self.shape()
        if kind < 0.85:
            return [self.tensor() for _ in range(r.randrange(4))]
        if kind < 0.88:
            return r.choice(DTYPES)
        if kind < 0.92:
            return self.index()
        if kind < 0.94:
            victim: list[Any] = [1, 2, 3]
            victim[1] = Evil(2, victim.clear)
            return victim
        return self.odd()

    def fitting(self, like: Any, parameter: str) -> Any:
        """Mostly what a parameter of this name takes, beside the tensor `like`; now and then anything."""
        r = self.random
        if r.random() < 0.05:
            return self.any()
        if parameter.startswith(("dim", "axis", "start_dim", "end_dim", "diagonal", "offset", "correction")):
            if parameter == "dims" or r.random() < 0.15:
                return r.choice([(0,), (0, 1), (1, 0), None, (), (-1, 0, 1), 2**62, -(2**63)])
            return r.choice([-1, 0, 0, 1, -2, 2])
        if parameter in {
            "step",
            "start",
            "end",
            "length",
            "chunks",
            "steps",
            "n",
            "m",
            "low",
            "high",
            "num_classes",
        } or (parameter in {"size", "repeats", "split_size", "storage_offset"} and r.random() < 0.5):
            return r.choice([0, 1, 1, 2, 2, 3, -1, r.choice(INTEGERS), 0.5, math.nan])
        if parameter in {"size", "shape", "sizes", "repeats", "split_size", "stride"}:
            return (
                self.shape()
                if r.random() < 0.5
                else r.choice([tuple(like.shape), -1, 2, (-1,), (2**40, 0), (2**62, 4)])
            )
        if parameter in {"index", "indices", "target"}:
            high = r.choice([1, 2, 3, 2**40])
            shape = r.choice([tuple(like.shape), tuple(like.shape), (2,), tuple(like.shape)[:1]])
            return mt.tensor(np.random.default_rng(r.randrange(99)).integers(-1 if high > 3 else 0, high, size=shape))
        if parameter in {"mask", "condition"}:
            return self.tensor() > 0
        if parameter in {
            "keepdim",
            "unbiased",
            "descending",
            "stable",
            "largest",
            "sorted",
            "return_inverse",
            "inplace",
        }:
            return r.random() < 0.5
        if parameter == "dtype":
            return r.choice([None, *DTYPES])
        if parameter == "device":
            return r.choice([None, "cpu", "meta", "cuda"])
        if parameter in {"tensors", "size_list"}:
            return [like, like, self.tensor()][: r.randrange(4)]
        kind = r.random()
        if kind < 0.4 and isinstance(like, mt.Tensor):
            return r.choice([like, like[..., :1] if like.ndim else like, like * 1, like.expand(2, *like.shape)])
        return r.choice(FLOATS + INTEGERS[:10]) if kind < 0.7 else self.tensor()


def parameters_of(function: Any) -> list[tuple[str, bool]]:
    """Its parameters: the name, and whether it is passed by keyword."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return []
    return [(p.name, p.kind is p.KEYWORD_ONLY) for p in parameters if p.kind is not p.VAR_KEYWORD]


PARAMETERS = {name: parameters_of(function) for name, function in FUNCTIONS}
TENSORS = {"input", "self", "x", "tensor", "a"}


def normal(value: Any) -> Any:
    """What a result says, to compare two of them; looks at every byte."""
    if isinstance(value, mt.Tensor):
        check_invariants(value)
        if value.device.type == "meta":
            return ("meta", str(value.dtype), tuple(value.shape))
        if value.numel() > 1_000_000:
            return (str(value.dtype), tuple(value.shape))
        mt._C.flush("a look at the result")  # NumPy would hide its error
        array = np.asarray(value.detach().clone())
        if array.dtype.kind == "f":
            array = np.where(np.isnan(array), np.nan, array)
        return (str(value.dtype), tuple(value.shape), array.tobytes())
    if isinstance(value, (tuple, list)):
        return [normal(v) for v in value]
    if isinstance(value, (bool, int, float, str, type(None))):
        return repr(value)
    return type(value).__name__


def check_invariants(t: Any) -> None:
    """A tensor's strides stay inside its storage."""
    assert t.numel() == math.prod(t.shape), (t.shape, t.numel())
    assert len(t.stride()) == t.ndim <= 64
    assert all(size >= 0 for size in t.shape)


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
            # The values of a case that failed are not looked at.
            with contextlib.suppress(Exception):
                mt._C.end_recording("the end of a case")


def run_case(number: int, mode: str, note: Callable[[str], None]) -> Any:
    """One call; how it ended."""
    arguments = Arguments(number)
    r = arguments.random
    mt.manual_seed(number)
    name, function = r.choice(FUNCTIONS)
    first = arguments.tensor()
    args: list[Any] = [first]
    kwargs: dict[str, Any] = {}
    if name == "setitem":
        args += [arguments.index(), arguments.any()]
    elif name == "getitem":
        args.append(arguments.index())
    elif r.random() < 0.8:
        parameters = PARAMETERS[name] or [("self", False)] + [("other", False)] * (name[:2] == "__")
        args = []
        for parameter, keyword in parameters[: r.randint(min(2, len(parameters)), len(parameters))]:
            value = first if parameter in TENSORS else arguments.fitting(first, parameter)
            if keyword:
                kwargs[parameter] = value
            else:
                args.append(value)
    else:
        args += [arguments.any() for _ in range(r.choice([0, 1, 1, 2, 2, 3, 9 if r.random() < 0.1 else 1]))]
    if r.random() < 0.05:
        kwargs[r.choice(["dim", "keepdim", "dtype", "out", "input", "self", "axis", "\udc80", "device", "size"])] = (
            arguments.any()
        )
    note(f"case {number}, {mode}: {name}({summary(args)}, {summary(list(kwargs.items()))})")
    try:
        with running(mode):
            return ("value", normal(function(*args, **kwargs)), [normal(a) for a in args if isinstance(a, mt.Tensor)])
    except SystemError:
        raise
    except Exception as error:
        return ("error", type(error).__name__)


def summary(args: list[Any]) -> str:
    """The arguments without observing them."""
    return ", ".join(
        f"{a.dtype}{list(a.shape)}" if isinstance(a, mt.Tensor) else f"ndarray{a.shape}" if isinstance(a, np.ndarray)
        else f"[{summary(list(a))}]" if isinstance(a, (list, tuple)) else repr(a)[:60]
        for a in args
    )  # fmt: skip


# ---- misuse that takes more than one call


def freed_array(a: Arguments) -> None:
    array = np.arange(a.random.choice([3, LARGE]), dtype=np.float32)
    t = mt.from_numpy(array)
    del array
    gc.collect()
    (t + 1).sum().item()
    view = np.asarray(t)
    del t
    gc.collect()
    assert view[2] == 2


def exported_while_written(a: Arguments) -> None:
    t = mt.ones(a.random.choice([4, LARGE]))
    view = memoryview(t)
    shared = np.from_dlpack(t)
    t.add_(1)
    t.data = mt.zeros(2)
    view.release()
    assert shared[0] == 2
    t.numpy()[:] = 3
    assert t.tolist() == [3, 3]


def dlpack_misuse(a: Arguments) -> None:
    t = mt.ones(3)
    capsule = t.__dlpack__()
    mt._C.from_dlpack_capsule(capsule)
    for wrong in (capsule, 3, None, object()):
        try:
            mt._C.from_dlpack_capsule(wrong)
        except (ValueError, TypeError):
            continue
        raise AssertionError("a capsule was consumed twice")
    del t
    gc.collect()
    for version in ((1, 0), (0, 8), None, ("a", 0), (2**70, 0), 1):
        with contextlib.suppress(TypeError, OverflowError, ValueError):
            mt.ones(2).__dlpack__(max_version=version)
    with contextlib.suppress(ValueError, RuntimeError, BufferError):
        mt.from_dlpack(np.arange(4)[::-1])


def changing_lists(a: Arguments) -> None:
    for make in (
        lambda items: mt.tensor(items),
        lambda items: mt.zeros(items),
        lambda items: mt.ones(2, 3).permute(items),
        lambda items: mt.ones(2, 3)[items],
    ):
        items: list[Any] = [1, 0]
        act = a.random.choice([items.clear, lambda items=items: items.extend([1] * 1000), items.pop])
        items.insert(0, Evil(1, act))
        with contextlib.suppress(Exception):
            make(items)
    t = mt.ones(2, 3)
    with contextlib.suppress(Exception):
        t[0, Evil(1, lambda: setattr(t, "data", mt.zeros(())))]
    tensors = [mt.ones(2), mt.ones(2)]
    with contextlib.suppress(Exception):
        mt.cat(tensors, Evil(0, tensors.clear))


def cycles(a: Arguments) -> None:
    cls = a.random.choice([mt.Tensor, Subclass])
    refs = []
    for _ in range(3):
        t = cls(mt.ones(2)).requires_grad_()
        t.me = t
        t.register_hook(lambda g, t=t: g)
        out = t * 2
        out.register_hook(lambda g, out=out: g)
        refs += [weakref.ref(t), weakref.ref(out)]
        if a.random.random() < 0.5:
            out.sum().backward()
    del t, out
    gc.collect()
    gc.collect()  # a leaf is found once the graphs that lead to it are gone
    assert all(ref() is None for ref in refs), [ref() is None for ref in refs]


def resurrected(a: Arguments) -> None:
    p = mt.ones(2).requires_grad_()
    (p * 2).sum().backward()
    seen = []

    class Watcher:
        def __del__(self) -> None:
            seen.append(p.grad)

    grad = p.grad
    grad.watcher = Watcher()
    ref = weakref.ref(grad, lambda _: seen.append(p.grad))
    del grad
    gc.collect()
    assert ref() is None or seen == []
    assert p.grad.tolist() == [2, 2]
    for g in seen:
        assert g.tolist() == [2, 2]

    class Slots(mt.Tensor):
        __slots__ = ("watcher",)

    slots = Slots(mt.ones(2))
    p.grad = slots
    slots.watcher = Watcher()
    del slots
    gc.collect()
    assert p.grad.tolist() == [1, 1]


def long_chains(a: Arguments) -> None:
    length = 20_000 if a.random.random() < 0.1 else 500
    x = y = mt.ones(2).requires_grad_()
    for _ in range(length):
        y = y * 1
    del y
    for _ in range(length):
        above = mt.ones(2)
        above.grad = x
        x = above
    del x, above
    gc.collect()


def hooks(a: Arguments) -> None:
    x = mt.ones(3).requires_grad_()
    handles: list[Any] = []

    def remove(g: Any) -> None:
        for handle in handles:
            handle.remove()

    handles += [x.register_hook(remove), x.register_hook(lambda g: g * 2), x.register_hook(remove)]
    (x * 2).sum().backward()
    for bad in (lambda g: 1, lambda g: mt.ones(7), lambda g: mt.ones(3, device="meta"), lambda g: 1 / 0, lambda: 0):
        x.register_hook(bad)
        with contextlib.suppress(Exception):
            (x * 2).sum().backward()
    y = (x.detach().requires_grad_() * 2).sum()
    y.register_hook(lambda g: y.backward(retain_graph=True) if a.random.random() < 0.3 else None)
    with contextlib.suppress(RuntimeError, RecursionError):
        y.backward()


def other_contents(a: Arguments) -> None:
    x = mt.ones(4)
    view = x[1:]
    x.data = mt.zeros(2, 3, dtype=mt.int64)
    view.add_(1)
    assert x.sum().item() == 0
    assert view.tolist() == [2, 2, 2]
    p = mt.ones(3).requires_grad_()
    out = (p * p).sum()
    p.data = mt.ones(5)
    with contextlib.suppress(RuntimeError):
        out.backward()
    with contextlib.suppress(RuntimeError):
        p.grad = p
    p.data = p
    del p.grad


def copies(a: Arguments) -> None:
    t = a.tensor()
    t.note = [1]
    for make in (copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))):
        try:
            made = make(t)
        except (RuntimeError, TypeError, NotImplementedError, pickle.PicklingError):
            continue
        assert normal(made) == normal(t)
    for broken in (b"", b"garbage", pickle.dumps(t)[:-5] if t.device.type == "cpu" and not t.requires_grad else b"x"):
        with contextlib.suppress(Exception):
            pickle.loads(broken)


def buffers(a: Arguments) -> None:
    t = a.tensor()
    for use in (
        io.BytesIO().write,
        bytes,
        memoryview,
        bytearray,
        np.frombuffer,
        np.asarray,
        lambda t: memoryview(t).cast("B"),
    ):
        with contextlib.suppress(BufferError, TypeError, RuntimeError, ValueError):
            use(t)
    with contextlib.suppress(BufferError, TypeError, RuntimeError, ValueError):
        io.BytesIO(b"\0" * 64).readinto(t)


def private_calls(a: Arguments) -> None:
    r = a.random
    for name in ("can_view", "nonzero", "masked_select", "register_hook", "set_grad_enabled", "set_inference_mode",
                 "empty", "tensor_from_data", "from_numpy", "fill_random", "inplace_form", "run_backward"):  # fmt: skip
        with contextlib.suppress(Exception):
            getattr(mt._C, name)(*[a.any() for _ in range(r.randrange(4))])
    mt._C.set_grad_enabled(True)
    mt._C.set_inference_mode(False)
    form = mt._C.inplace_form(mt.maximum)
    for args in ((), (1, mt.ones(2)), (None, 2), ("x",)):
        with contextlib.suppress(TypeError):
            form(*args)


MISUSES = [
    freed_array, exported_while_written, dlpack_misuse, changing_lists, cycles, resurrected, long_chains, hooks,
    other_contents, copies, buffers, private_calls,
]  # fmt: skip


def run_misuse(number: int, mode: str, note: Callable[[str], None]) -> None:
    """One scenario; its own assertions say what is right."""
    arguments = Arguments(number)
    misuse = arguments.random.choice(MISUSES)
    note(f"case {number}, {mode}: {misuse.__name__}")
    with running(mode):
        misuse(arguments)


def run(first: int, cases: int, note: Callable[[str], None]) -> list[str]:
    """Run so many cases from the first one; what went wrong."""
    wrong = []
    signal.signal(signal.SIGPROF, on_alarm)
    sys.unraisablehook = lambda info: wrong.append(f"unraisable: {info.exc_value!r} in {info.object!r}")
    warnings.simplefilter("ignore")
    case = [""]

    def noted(text: str) -> None:
        case[0] = text
        note(text)

    for number in range(first, first + cases):
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of CPU: the machine may be busy with other things
        try:
            other = "compiled" if number % 8 == 0 else "recorded"
            if number % 10 == 9:
                run_misuse(number, "eager", noted)
                run_misuse(number, other, noted)
                continue
            eager = run_case(number, "eager", noted)
            again = run_case(number, other, noted)
            if eager != again:
                wrong.append(f"{case[0]}\n    eager {str(eager)[:300]}\n    {other} {str(again)[:300]}")
        except Timeout:
            wrong.append(f"{case[0]}: took more than {SECONDS} s")
        except (Exception, SystemError) as error:
            wrong.append(f"{case[0]}: {type(error).__name__}: {error}")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    return wrong


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--note", type=Path, help="a file that names the case that is running")
    options = parser.parse_args()
    faulthandler.enable()
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open(options.note, "w")) if options.note else None

        def note(text: str) -> None:
            if file is not None:
                file.seek(0)
                file.truncate()
                file.write(text)
                file.flush()

        wrong = run(options.first, options.cases, note)
    for text in wrong:
        print(text)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    assert isinstance(mt, types.ModuleType)
    main()
