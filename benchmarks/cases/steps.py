"""Whole training steps, compiled, beside the compilers of others; and how long the first step takes."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks import steps
from benchmarks.case import OURS, Script, Snippet, at_most, case, within
from benchmarks.cases.training import IMPORT_COMPILER

PEERS = (at_most(1.0, "torch"), at_most(1.0, "torch_compile"), at_most(1.0, "jax"), at_most(1.0, "tensorflow"))


def _ours(name: str) -> Snippet:
    import minitensor as mt

    run, batch = steps.step(mt, name)
    return Snippet("step(x, y)", step=mt.function(run, jit_compile=True), x=batch[0], y=batch[1])


def _torch(name: str) -> Snippet:
    import torch

    run, batch = steps.step(torch, name)
    return Snippet("step(x, y)", step=run, x=batch[0], y=batch[1])


def _torch_compile(name: str) -> Snippet:
    import torch

    run, batch = steps.step(torch, name, torch.compile)
    return Snippet("step(x, y)", step=run, x=batch[0], y=batch[1])


def _jax(name: str) -> Snippet:
    from benchmarks import steps_jax

    return Snippet("step()", step=steps_jax.step(name))


def _tensorflow(name: str) -> Snippet:
    from benchmarks import steps_tensorflow

    return Snippet("step()", step=steps_tensorflow.step(name))


@case("softmax regression step, compiled as a whole", *PEERS)
class StepSoftmax:
    @staticmethod
    def minitensor() -> Any:
        return _ours("softmax")

    @staticmethod
    def torch() -> Any:
        return _torch("softmax")

    @staticmethod
    def torch_compile() -> Any:
        return _torch_compile("softmax")

    @staticmethod
    def jax() -> Any:
        return _jax("softmax")

    @staticmethod
    def tensorflow() -> Any:
        return _tensorflow("softmax")


@case("MLP step, 784-512-512-10, batch 128, Adam", *PEERS)
class StepMlp:
    @staticmethod
    def minitensor() -> Any:
        return _ours("mlp")

    @staticmethod
    def torch() -> Any:
        return _torch("mlp")

    @staticmethod
    def torch_compile() -> Any:
        return _torch_compile("mlp")

    @staticmethod
    def jax() -> Any:
        return _jax("mlp")

    @staticmethod
    def tensorflow() -> Any:
        return _tensorflow("mlp")


@case("CNN step, LeNet's layers, batch 64, Adam", *PEERS)
class StepCnn:
    @staticmethod
    def minitensor() -> Any:
        return _ours("cnn")

    @staticmethod
    def torch() -> Any:
        return _torch("cnn")

    @staticmethod
    def torch_compile() -> Any:
        return _torch_compile("cnn")

    @staticmethod
    def jax() -> Any:
        return _jax("cnn")

    @staticmethod
    def tensorflow() -> Any:
        return _tensorflow("cnn")


@case("GPT step, 4 layers, 4 heads, width 128, block 64, batch 16, AdamW", *PEERS)
class StepGpt:
    @staticmethod
    def minitensor() -> Any:
        return _ours("gpt")

    @staticmethod
    def torch() -> Any:
        return _torch("gpt")

    @staticmethod
    def torch_compile() -> Any:
        return _torch_compile("gpt")

    @staticmethod
    def jax() -> Any:
        return _jax("gpt")

    @staticmethod
    def tensorflow() -> Any:
        return _tensorflow("gpt")


# ---- the first step: without any cache, beyond the compiler's import; and with its code on disk, all in

_FIRST = """
import time
import minitensor as mt
from benchmarks import steps
run, batch = steps.step(mt, {name!r})
step = mt.function(run, jit_compile=True)
{imports}
start = time.perf_counter()
step(*batch).item()
print(time.perf_counter() - start)
"""

# A process before fills the folder.
_DISK = """
import os, subprocess, sys, tempfile
with tempfile.TemporaryDirectory() as folder:
    environment = os.environ | {{"MT_JIT_FLAGS": f"--persistent_cache_directory={{folder}}"}}
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", {code!r}], env=environment, check=True, capture_output=True)
print(float(done.stdout))
"""


def _enter(name: str, title: str, cold: float) -> None:
    fresh = _FIRST.format(name=name, imports=IMPORT_COMPILER)
    kept = _FIRST.format(name=name, imports="")
    for when, goal, script in (("cold", cold, fresh), ("disk", 0.05, _DISK.format(code=kept))):
        contenders = {OURS: staticmethod(partial(Script, script))}
        case(f"first {title} step, {when}", within(goal))(type(f"First{name.title()}{when.title()}", (), contenders))


_enter("softmax", "softmax", 0.06)
_enter("mlp", "MLP", 0.2)
_enter("cnn", "CNN", 0.4)
_enter("gpt", "GPT", 1.2)
