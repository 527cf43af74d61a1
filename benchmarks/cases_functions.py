"""Training steps with modules and optimizers as one program each, beside the same run eagerly."""

from __future__ import annotations

from typing import Any

from benchmarks.case import Snippet, at_most, case
from benchmarks.cases_training import CLASSES, FEATURES, RATE, _data

STATES, WIDTH, ACTIONS, PLAYED = 4, 64, 2, 32


def _softmax(xp: Any) -> Any:
    x, y = map(xp.from_numpy, _data())
    model = xp.nn.Linear(FEATURES, CLASSES)
    optimizer = xp.optim.SGD(model.parameters(), lr=RATE)

    def step() -> Any:
        optimizer.zero_grad()
        loss = xp.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def _policy(xp: Any) -> Any:
    import numpy as np

    rng = np.random.default_rng(0)
    states = xp.from_numpy(rng.random((PLAYED, STATES), np.float32))
    actions = xp.from_numpy(rng.integers(0, ACTIONS, PLAYED))
    returns = xp.from_numpy(rng.random(PLAYED, np.float32))
    layers = [xp.nn.Linear(STATES, WIDTH), xp.nn.Tanh(), xp.nn.Linear(WIDTH, WIDTH), xp.nn.Tanh()]
    model = xp.nn.Sequential(*layers, xp.nn.Linear(WIDTH, ACTIONS))
    optimizer = xp.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> Any:
        optimizer.zero_grad()
        chosen = xp.nn.functional.log_softmax(model(states), -1).gather(1, actions[:, None])[:, 0]
        loss = -(chosen * returns).mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def _program(make: Any) -> Snippet:
    import minitensor as mt

    return Snippet("step()", step=mt.function(make(mt), jit_compile=True))


def _eager(make: Any) -> Snippet:
    import minitensor as mt

    return Snippet("step()", step=make(mt))


def _torch(make: Any) -> Snippet:
    import torch

    return Snippet("step()", step=make(torch))


@case("softmax regression with nn and SGD as one program", at_most(0.6, "eager"), at_most(1.0, "torch"))
class ProgramSoftmax:
    @staticmethod
    def minitensor() -> Any:
        return _program(_softmax)

    @staticmethod
    def eager() -> Any:
        return _eager(_softmax)

    @staticmethod
    def torch() -> Any:
        return _torch(_softmax)


@case("policy net 4-64-64-2 with nn and Adam as one program", at_most(0.2, "eager"), at_most(0.05, "torch"))
class ProgramPolicy:
    @staticmethod
    def minitensor() -> Any:
        return _program(_policy)

    @staticmethod
    def eager() -> Any:
        return _eager(_policy)

    @staticmethod
    def torch() -> Any:
        return _torch(_policy)
