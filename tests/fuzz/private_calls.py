"""A worker of test_private_calls: calls of what `minitensor._C` exports with arguments that nobody passes.

Every name runs in a process forked for it, since many of the functions change the state of their process. After some
calls of these, ordinary programs run. What ends a process, or breaks the interpreter's rules (SystemError), is printed.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import random
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import minitensor as mt
import minitensor_jit.api  # noqa: F401  (its import would put its own compiler in the place of the plans below)
from minitensor import _C
from minitensor_jit.compiler.plan_steps import LaunchStep

STATE = (
    "add_", "attach", "begin", "clear", "define", "discard", "end_", "flush", "increment", "note", "over_", "register",
    "resize", "set_", "start", "stop", "storage", "swap", "take", "watch", "whole", "_use",
)  # fmt: skip
"""How the names begin after which programs run."""


class Hostile:
    """What fails wherever it is asked anything."""

    def _fail(self, *_: Any) -> Any:
        raise ZeroDivisionError

    __index__ = __iter__ = __len__ = __bool__ = __eq__ = __float__ = __int__ = __call__ = _fail
    __hash__ = None  # type: ignore[assignment]


def plans() -> list[Callable[..., Any]]:
    """Compilers whose plans are no plans."""
    whole = ([], [], [], None, False, None)

    def given(**parts: Any) -> Callable[..., Any]:
        names = ("steps", "deferred", "checks", "record", "measured", "keep")
        made = tuple(parts.get(name, value) for name, value in zip(names, whole, strict=True))
        return lambda *_, **__: made

    def launch(**parts: Any) -> tuple[Any, ...]:
        """One that has to be refused: there is no code where it says."""
        fields = {"entry": 1, "inputs": [], "outputs": [], "scratch_bytes": 0, "work_bytes": 0, "executable": None}
        fields |= {"name": "a", "inside": [], "reports_errors": False, "guarded": False, "observer": None}
        return LaunchStep(**(fields | {"may_lose": False, "program": None, "gpu": -1} | parts))

    return [
        given(), given(steps=[-1]), given(steps=[99]), given(steps=[2**70]), given(steps=[0]),
        given(steps=[0, 0]), given(steps=[launch(inputs=[(("node", 99, 0), "f32")])]),
        given(steps=[launch(outputs=[("node", 0, 7)])]), given(steps=[launch(inside=[99])]),
        given(steps=[launch(inputs=3)]), given(steps=[launch(name=Hostile())]), given(keep=Hostile()),
        given(steps=[0], measured=True), given(measured=Hostile()),
        given(deferred=[("node", 7, 0)]), given(deferred=[("input", 0, 0)]),
        given(checks=[(9, 0, 1, 9)]), given(steps=[()]), given(steps=[3]), given(deferred=[("n", 0, 0)]),
        given(record=Hostile()), given(steps=3), lambda *_, **__: (), lambda *_, **__: mt.ones(3),
        lambda *_, **__: (b"abc" * 9, [], "x"), lambda *_, **__: (mt.ones(()),),
        lambda *_, **__: ((mt.ones(()), True),),
    ]  # fmt: skip


def values() -> list[Any]:
    """What is passed."""
    x = mt.ones(2, 3, requires_grad=True)
    y = x * 2
    nested: Any = ("tensor",)
    for _ in range(20_000):
        nested = ("sequence", tuple, nested)
    return [
        None, True, False, 0, 1, 2, 3, -1, 2**31, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**70, -(2**70), 0.5,
        float("nan"), 1j, "", "cpu", "add", "f32", "float32", "post", "\ud800", "x" * 300, "::", "(", "Ti?i", "T*", "*",
        "add(Tensor a) -> Tensor", "mine(Tensor a", "elementwise", b"", b"\x7fELF" + b"\0" * 60, bytearray(b"abc"),
        memoryview(b"abc"), (), [], {}, set(), (1,), (2, 3), (0, 0), (1, 0), [1, 2], [1, [2]], (None,), ("sum",),
        (2**70,), (-1,), {"a": 1}, {1: 2}, {"a": 2**70}, ("s", 1, 2), [("op", 0, 0)], ("node", 2**31, 5), nested,
        ("dict", 3), ("sequence",), ("value", int), ("same", 1), mt.ones(3), x, y, mt.ones(()), mt.ones(2, 0),
        mt.ones(4, dtype=mt.int64), mt.ones(3, dtype=mt.bool), mt.ones(2, 2, dtype=mt.complex64),
        mt.ones(2, 3, device="meta"), mt.empty(3).expand(2, 3), [mt.ones(2), mt.ones(2)], (mt.ones(2), 3), [x, y],
        y.grad_fn, (y.grad_fn, 0), (y.grad_fn, 7), x.grad_fn, mt.ones(2).untyped_storage(), mt.float32, mt.int8,
        mt.device("cpu"), mt.device("meta"), mt.device("cuda"), mt.Size([2]), mt.Generator(), mt.add, mt.cat, _C.Op,
        mt.Tensor, int, object(), Hostile(), len, (len, len), lambda *_, **__: None, lambda *a, **__: a, *plans(),
        np.ones(3), np.float32(1), np.arange(3)[::2], np.array(["a"]), np.array([object()]), mt.ones(2).__dlpack__(),
        iter([1, 2]), slice(None), ..., NotImplemented, type("T", (), {})(), Exception("x"), mt,
    ]  # fmt: skip


def objects() -> dict[str, Any]:
    """Objects of the exported types, whose methods are called."""
    node = (mt.ones(2, 3, requires_grad=True) * 2).sum().grad_fn
    return {
        "op": mt.cat, "in place": _C.inplace_form(mt.ops.ROWS["add"].call), "out form": mt.exp, "node": node,
        "leaf's node": node.next_functions[0][0], "generator": _C._Generator(), "dtype": mt.float32,
        "device": mt.device("cpu"), "size": mt.Size([2, 3]), "function": _C.CompiledFunction(len),
        "function of no callable": _C.CompiledFunction(3), "tensor": mt.ones(2, 3),
    }  # fmt: skip


NO_METHODS = {"__class__", "__subclasshook__", "__init_subclass__", "__reduce_ex__", "mro"}


def callables(name: str, r: random.Random) -> Iterator[Callable[..., Any]]:
    """What is called under a name, again and again."""
    while name in vars(_C):
        yield getattr(_C, name)
    while True:
        owner = objects()[name]
        method = r.choice([n for n in dir(owner) if n not in NO_METHODS] + ["__call__"] * 5)
        yield lambda *args, o=owner, m=method: use(o, m, args)


def use(owner: Any, name: str, arguments: tuple[Any, ...]) -> None:
    """Call an object's method, or set what is none."""
    value = getattr(owner, name)
    if callable(value):
        value(*arguments)
    else:
        setattr(owner, name, arguments[0] if arguments else None)


def recorded() -> None:
    """A recording that is looked at."""
    _C.begin_recording()
    try:
        x = mt.ones(3)
        y = (x * 2 + 1).exp()
        y[1:].add_(1)
    finally:
        _C.end_recording("a program")
    y.tolist()


def scoped() -> None:
    """A recording that must be planned."""
    with mt.jit_scope():
        y = (mt.ones(3) * 2 + 1).exp()
        y[1:].add_(1)
    y.tolist()


def programs() -> None:
    """What an ordinary program does, whatever the state it is done in."""

    def slopes() -> None:
        x = mt.ones(3, requires_grad=True)
        (x.exp() * x).sum().backward()

    for run in (
        lambda: (mt.ones(3) + 1).tolist(), recorded, scoped, slopes,
        lambda: mt.rand(3).tolist(), lambda: mt.func.vmap(lambda t: t * 2 + mt.rand(3))(mt.ones(2, 3)),
        lambda: mt.stack([mt.ones(2)] * 2), lambda: repr(mt.ones(2)), lambda: mt.linalg.inv(mt.eye(3)),
        lambda: mt.nn.functional.dropout(mt.ones(3)),
    ):  # fmt: skip
        attempt(run)


def attempt(call: Callable[..., Any], *arguments: Any) -> None:
    """Call it; any exception will do but the interpreter's own."""
    try:
        call(*arguments)
    except SystemError as error:
        print(f"SystemError: {error}", flush=True)
        os._exit(3)
    except BaseException:  # which one doesn't matter
        pass


def described(arguments: tuple[Any, ...]) -> str:
    """The arguments, as far as they can be shown."""
    shown = []
    for value in arguments:
        with contextlib.suppress(BaseException):
            shown.append(f"{type(value).__name__} {'' if isinstance(value, tuple) else value!r:.60}")
    return ", ".join(shown).replace("\n", " ")


def child(name: str, given: list[Any], count: int, seed: int, note: Any) -> None:
    """All calls of one name."""
    faulthandler.enable()
    signal.alarm(120)
    r = random.Random(f"{name} {seed}")
    cases: list[tuple[Any, ...]] = [(), *((value,) for value in given)]
    cases += [tuple(r.choices(given, k=r.choice((2, 2, 3, 3, 4, 5, 6, 7, 8, 9)))) for _ in range(count)]
    if name == "set_compile_callback":
        cases += [(plan, len) for plan in plans()]
    for call, arguments in zip(callables(name, r), cases, strict=False):
        os.ftruncate(note.fileno(), 0)
        os.pwrite(note.fileno(), described(arguments).encode(errors="replace"), 0)
        attempt(call, *arguments)
        if name == "set_compile_callback" or (name.startswith(STATE) and r.random() < 0.1):
            programs()
    os._exit(0)


def main() -> int:
    """Exit status 1 if a process ended, or the interpreter complained."""
    warnings.simplefilter("ignore")
    count, seed, *names = sys.argv[1:]
    found = 0
    given = values()  # every process has them as they were
    for name in names or [*(n for n in sorted(vars(_C)) if callable(getattr(_C, n)) and n != "Tensor"), *objects()]:
        with tempfile.TemporaryFile() as note:
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                child(name, given, int(count), int(seed), note)
            _, status = os.waitpid(pid, 0)
            if status:
                note.seek(0)
                print(
                    f"{name}({note.read().decode(errors='replace')}): {os.waitstatus_to_exitcode(status)}", flush=True
                )
                found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
