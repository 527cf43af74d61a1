"""Ops that draw random numbers: Philox, keyed by the generator's seed and the op's place in its stream."""

from __future__ import annotations

from minitensor.ops.row import random

__all__: list[str] = []

_PLACE = "its place in the random stream is a value that compiled code does not take yet"
uniform = random(
    "uniform(int[] size, float low=0.0, float high=1.0, *, dtype? dtype=None, device? device=None)",
    "Uniform numbers in [low, high).",
    function=False,
    why=_PLACE,
)
normal = random(
    "normal(int[] size, float mean=0.0, float std=1.0, *, dtype? dtype=None, device? device=None)",
    "Normally distributed numbers.",
    why=_PLACE,
)
randint = random(
    "randint(int low, int high, int[] size, *, dtype? dtype=None, device? device=None)",
    "Uniform integers in [low, high).",
    why=_PLACE,
)
randperm = random(
    "randperm(int n, *, dtype? dtype=None, device? device=None)", "A random permutation of 0..n-1.", why=_PLACE
)
