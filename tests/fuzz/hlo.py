"""Mutated HLO text: what parser, verifier, printer and compiler make of it. `scripts/fuzz_hlo` runs many."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Final

import numpy as np

from minitensor_jit.codegen.errors import CompileError
from minitensor_jit.ir.analysis.equal import difference
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.module import Module
from minitensor_jit.ir.narrow import wide_array
from minitensor_jit.ir.shape import Shape, leaves
from minitensor_jit.ir.testing import random_arguments, random_module
from minitensor_jit.ir.text.parser import ParseError, parse_module
from minitensor_jit.ir.text.printer import print_module
from minitensor_jit.ir.verifier import VerificationError, check
from minitensor_jit.passes.pipeline import PipelineOptions, run_pipeline
from minitensor_jit.tools.module_files import compile_and_run

__all__ = ["MORE", "corpus", "examine", "mutate"]

_TESTS: Final = Path(__file__).parents[1]

# What the files of the passes' tests do not have.
MORE: Final = (
    """HloModule control
lt { s = (s32[], f32[4]) parameter(0) n = s32[] get-tuple-element(s), index=0 m = s32[] constant(3)
  ROOT r = pred[] compare(n, m), direction=LT }
body { s = (s32[], f32[4]) parameter(0) n = s32[] get-tuple-element(s), index=0 o = s32[] constant(1)
  k = s32[] add(n, o) x = f32[4] get-tuple-element(s), index=1 y = f32[4] add(x, x)
  ROOT r = (s32[], f32[4]) tuple(k, y) }
up { x = f32[4] parameter(0) ROOT r = f32[4] negate(x) }
same { ROOT x = f32[4] parameter(0) }
ENTRY main { z = s32[] constant(0) x = f32[4] parameter(0) p = pred[] parameter(1) t = (s32[], f32[4]) tuple(z, x)
  w = (s32[], f32[4]) while(t), condition=lt, body=body y = f32[4] get-tuple-element(w), index=1
  ROOT c = f32[4] conditional(p, y, x), true_computation=up, false_computation=same }
""",
    """HloModule windows
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }
ENTRY main { x = f32[2,6,6,3] parameter(0) k = f32[3,3,3,4] parameter(1) z = f32[] constant(0)
  c = f32[2,6,6,4] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  w = f32[2,3,3,4] reduce-window(c, z), window={size=1x2x2x1 stride=1x2x2x1}, to_apply=add
  g = f32[2,6,6,4] select-and-scatter(c, w, z), window={size=1x2x2x1 stride=1x2x2x1}, select=less, scatter=add
  s = f32[2,6,6,4] sort(g), dimensions={1}, to_apply=less, is_stable=true
  t = (f32[2,6,6,2], s32[2,6,6,2]) topk(s), k=2, largest=true
  u = u64[2] constant({1, 2}) r = (u64[2], u32[5]) rng-bit-generator(u), algorithm=rng_philox
  z.1 = f32[2,6,6,4] add(s, c) f = c64[2,6,6,3] fft(z.1), fft_type=RFFT, fft_length={4}
  ROOT o = ((f32[2,6,6,2], s32[2,6,6,2]), (u64[2], u32[5]), c64[2,6,6,3]) tuple(t, r, f) }
""",
)


def corpus() -> list[str]:
    """The texts that mutations begin with."""
    files = sorted(_TESTS.glob("passes/*/*.hlo"))
    texts = [path.read_text(encoding="utf-8").partition("\n// -----")[0] for path in files]
    return [*texts, *MORE, *(print_module(random_module(seed)) for seed in range(20))]


_TOKEN: Final = re.compile(r"[\w.-]+|[^\w\s]|\s+")


def mutate(text: str, others: list[str], rng: random.Random) -> str:
    """The text with a few mistakes: of characters, words, numbers or lines."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        kind = rng.randrange(8)
        if kind == 0 and text:
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice("(){}[]=,->%\"'\\ \n\0x9é") + text[at + rng.randrange(2) :]
        elif kind == 1 and text:
            at = rng.randrange(len(text))
            text = text[:at] + text[at + rng.randrange(1, 9) :]
        elif kind == 2:
            lines = text.split("\n")
            a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[a], lines[b] = lines[b], lines[a]
            text = "\n".join(lines)
        elif kind == 3:
            lines = text.split("\n")
            lines.insert(rng.randrange(len(lines)), rng.choice(rng.choice(others).split("\n")))
            text = "\n".join(lines)
        else:
            tokens = _TOKEN.findall(text) or [""]
            at = rng.randrange(len(tokens))
            if kind < 6:
                tokens[at] = rng.choice(_TOKEN.findall(rng.choice(others)) or [""])
            elif kind == 6:
                numbers = [k for k, t in enumerate(tokens) if t.isdigit()] or [at]
                tokens[rng.choice(numbers)] = rng.choice(("0", "1", "2", "3", "7", "-1", "99999999999999999999", "64"))
            else:
                tokens[at] = ""
            text = "".join(tokens)
    return text


MAX_ELEMENTS: Final = 100_000


def _is_small(module: Module) -> bool:
    """Whether it may be run here: a loop may never end, and an array fill the memory."""
    for computation in module.computations:
        for i in computation.instructions:
            if i.opcode in ("while", "custom-call", "kernel-call"):
                return False
            window = i.attrs.get("window")
            taps = 1
            for d in getattr(window, "dims", ()):
                taps *= max(d.size, 1)
            if sum(s.size for s in leaves(i.shape)) * taps > MAX_ELEMENTS:
                return False
    return all(isinstance(p.shape, Shape) for p in module.entry.parameters)


def examine(text: str, *, compiled: bool = False) -> str:
    """What became of a text: `parse`, `verify`, `valid` or `ran`; anything but an error in words is raised.

    What is valid prints and parses to the same. With `compiled`, what is small enough is evaluated, compiled and run.
    """
    try:
        module = parse_module(text)
    except ParseError:
        return "parse"
    try:
        check(module)
    except VerificationError:
        return "verify"
    printed = print_module(module)
    again = parse_module(printed)
    problem = difference(again, module, metadata=True)
    assert problem is None, problem
    assert print_module(again) == printed
    if not compiled or not _is_small(module):
        return "valid"
    arguments = random_arguments(module, 0)
    try:
        want = evaluate(module, arguments)
    except NotImplementedError:
        return "valid"
    except ValueError as error:
        if "evaluate_devices" not in str(error):
            raise
        return "valid"  # for several devices
    try:
        got = compile_and_run(run_pipeline(module, PipelineOptions(verify=True)), arguments)
    except CompileError:
        return "valid"
    if any(i.opcode == "sort" for c in module.computations for i in c.instructions):
        return "ran"  # with a comparator that is no order, any order is right
    for a, b in zip(got, want, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        finite = np.isfinite(wide_array(b)) if wide_array(b).dtype.kind in "fc" else np.zeros(b.shape, bool)
        np.testing.assert_allclose(wide_array(a)[finite], wide_array(b)[finite], 1e-2, 1e-2)
    return "ran"
