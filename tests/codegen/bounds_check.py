"""Runs random modules with every buffer between two pages that can't be accessed: a stray read ends the process.

`python tests/codegen/bounds_check.py FIRST LAST` checks the seeds FIRST <= seed < LAST.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

import runtime_table  # noqa: E402
from test_codegen_random_modules import Generator  # noqa: E402

from minitensor_jit.ir.builder import Builder  # noqa: E402
from minitensor_jit.ir.evaluate.evaluator import evaluate  # noqa: E402
from minitensor_jit.ir.shape import Shape  # noqa: E402
from minitensor_jit.passes.pipeline import run_pipeline  # noqa: E402

PAGE = mmap.PAGESIZE


class Fence:
    """Arrays that begin or end at a page that can't be accessed."""

    def __init__(self, at_end: bool) -> None:
        self.at_end = at_end
        self.maps: list[mmap.mmap] = []

    def array(self, shape, dtype: np.dtype) -> np.ndarray:
        nbytes = int(np.prod(shape)) * dtype.itemsize
        pages = -(-max(nbytes, 1) // PAGE)
        memory = mmap.mmap(-1, (pages + 2) * PAGE)
        self.maps.append(memory)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for page in (0, pages + 1):
            assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address + page * PAGE), PAGE, 0) == 0
        start = PAGE + (pages * PAGE - nbytes if self.at_end else 0)
        array = np.frombuffer(memory, np.uint8, nbytes, start)
        array[...] = runtime_table.FILL
        return array.view(dtype).reshape(shape)


def pads():
    """Pads whose condition is a scalar and a mask at once, or a mask alone for a value that all lanes share."""
    for shape, padding in (
        (Shape("f32", (5, 2, 1)), ((1, 1, 0), (2, 0, 0), (0, 1, 1))),
        (Shape("s64", (2,)), ((2, 1, 1),)),
    ):
        b = Builder("pad")
        x = b.parameter(shape)
        yield b.build(b.pad(x, b.constant(1, shape.dtype), padding))


def last_vectors():
    """Lanes by the dozen of elements that have no masked instructions, of which only the first ones exist."""
    for dtype in ("u8", "pred", "bf16", "f32"):
        for length in (31, 97, 255):
            b = Builder("last")
            x = b.parameter(Shape(dtype, (length,)))
            yield b.build(
                b.not_(x) if dtype == "pred" else b.convert(b.elementwise_call("sign", b.convert(x, "f32")), dtype)
            )


def main(first: int, last: int) -> None:
    runtime_table.guard_is_intact = lambda array: True
    for module in (*pads(), *last_vectors(), *(Generator(seed).module() for seed in range(first, last))):
        args = [runtime_table.values(p.array_shape, k) for k, p in enumerate(module.entry.parameters)]
        wanted = evaluate(module, args)
        for version in (module, run_pipeline(module.clone())):
            for at_end in (True, False):
                fence = Fence(at_end)
                runtime_table.aligned = fence.array
                for got, want in zip(runtime_table.compile_and_run(version, args), wanted, strict=True):
                    assert runtime_table.agree(got.copy(), np.asarray(want)), module


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
