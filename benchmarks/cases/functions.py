"""Training steps with modules and optimizers as one program each, and under the flags alone, beside the same eagerly.

A case of each kind for each of ``benchmarks/models.py``. Under the flags nothing is said of the step itself, and its
loss is read every hundred steps, in all contenders: these cases' times are of a hundred steps.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

from benchmarks import models
from benchmarks.case import OURS, Goal, Snippet, at_most, case

FLAGS = "--auto_jit=2 --cpu_global_jit"
STEPS = 100

Make = Callable[[Any], models.Step]


def _minitensor() -> Any:
    import minitensor

    return minitensor


def _torch() -> Any:
    import torch

    torch.manual_seed(0)
    return torch


def _program(make: Make) -> Snippet:
    mt = _minitensor()
    return Snippet("step()", step=mt.function(make(mt), jit_compile=True))


def _plain(make: Make) -> Snippet:
    return Snippet("step()", step=make(_minitensor()))


def _of_torch(make: Make) -> Snippet:
    return Snippet("step()", step=make(_torch()))


def _compiled_by_torch(make: Make) -> Snippet:
    torch = _torch()
    return Snippet("step()", step=torch.compile(make(torch)))


def _many(step: models.Step) -> Snippet:
    def steps() -> None:
        for _ in range(STEPS):
            loss = step()
        loss.item()

    return Snippet("steps()", steps=steps)


def _flags(make: Make) -> Snippet:
    os.environ["MT_JIT_FLAGS"] = FLAGS  # this process is this case's, and has not imported minitensor
    folder = tempfile.mkdtemp()  # what an earlier run found out, under another load, is not to count
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["XDG_CACHE_HOME"] = folder
    return _many(make(_minitensor()))


def _jax_of(name: str) -> Callable[[], Snippet]:
    def jax() -> Snippet:
        from benchmarks import steps_jax

        return Snippet("step()", step=steps_jax.step(name))

    return jax


def _steps(make: Make, title: str, program: tuple[Goal, ...], flags: tuple[Goal, ...]) -> None:
    """The two cases of a step."""
    name = make.__name__
    contenders: dict[str, Callable[[], Any]] = {
        OURS: lambda: _program(make),
        "eager": lambda: _plain(make),
        "torch": lambda: _of_torch(make),
    }
    if any(goal.peer == "torch_compile" for goal in program):
        contenders["torch_compile"] = lambda: _compiled_by_torch(make)
    if any(goal.peer == "jax" for goal in program):
        contenders["jax"] = _jax_of(name)
    case(f"{title}, one program", *program)(_class(f"Program{name.capitalize()}", contenders))
    contenders = {
        OURS: lambda: _flags(make),
        "eager": lambda: _many(make(_minitensor())),
        "torch": lambda: _many(make(_torch())),
    }
    case(f"{title}, under the flags, {STEPS} steps", *flags, alone=True)(
        _class(f"Flags{name.capitalize()}", contenders)
    )


def _class(name: str, contenders: dict[str, Callable[[], Any]]) -> type:
    return type(name, (), {one: staticmethod(make) for one, make in contenders.items()} | {"__module__": __name__})


def _peers(*names: str) -> tuple[Goal, ...]:
    return tuple(at_most(1.0, name) for name in names)


_steps(
    models.softmax,
    "softmax regression with nn and SGD",
    (at_most(0.6, "eager"), at_most(0.4, "jax"), *_peers("torch")),
    (at_most(0.85, "eager"), *_peers("torch")),
)
_steps(
    models.policy,
    "policy net 4-64-64-2 with nn and Adam",
    (at_most(0.2, "eager"), at_most(0.05, "torch")),
    (at_most(0.6, "eager"), *_peers("torch")),
)
_steps(
    models.lstm,
    "LSTM cell by hand, 32 turns, with gradients",
    (at_most(0.25, "eager"), *_peers("torch", "torch_compile")),
    (at_most(0.6, "eager"), *_peers("torch")),
)
_steps(
    models.mlp,
    "MLP with nn and Adam",
    (at_most(0.95, "eager"), *_peers("torch", "torch_compile", "jax")),
    (at_most(1.0, "eager"), *_peers("torch")),
)
for _make, _title in ((models.cnn, "CNN with nn and Adam"), (models.gpt, "GPT with nn and AdamW")):
    _steps(
        _make,
        _title,
        (at_most(0.8, "eager"), *_peers("torch", "torch_compile", "jax")),
        (at_most(0.85, "eager"), *_peers("torch")),
    )
