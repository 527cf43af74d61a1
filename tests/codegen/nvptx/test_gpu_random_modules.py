"""Random modules on the emulated GPU, as they are and after the passes: every bit is that of the CPU's code."""

import numpy as np
import pytest
from gpu_run import run_on_cpu, run_on_gpu
from runtime_table import agree, values
from test_codegen_random_modules import Generator

from minitensor_jit.codegen.errors import CompileError
from minitensor_jit.ir.testing import random_arguments, random_module
from minitensor_jit.passes.pipeline import run_pipeline

pytestmark = pytest.mark.sampled(6)

DTYPES = (
    "f32", "f16", "bf16", "f64", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "pred", "c64", "c128",
)  # fmt: skip


def same(module, given) -> None:
    wanted = run_on_cpu(module.clone(), given)
    for version in (module, run_pipeline(module.clone())):
        for k, (g, w) in enumerate(zip(run_on_gpu(version, given), wanted, strict=True)):
            if g.dtype.kind == "V":
                g, w = g.view(np.uint16), w.view(np.uint16)
            assert agree(g, w), f"result {k} of\n{version}\nis\n{g}\nexpected\n{w}"


@pytest.mark.parametrize("seed", range(30))
def test_random_modules(seed: int):
    module = Generator(seed).module()
    same(module, [values(p.array_shape, seed + k) for k, p in enumerate(module.entry.parameters)])


@pytest.mark.parametrize("seed", range(30))
def test_random_modules_of_every_type(seed: int):
    sizes = (1, 2, 3, 4, 5, 8, 33, 70) if seed % 4 == 0 else (1, 2, 3, 4, 5, 8)
    module = random_module(seed, 25, exact=seed % 2 == 0, dtypes=DTYPES, sizes=sizes)
    given = random_arguments(module, seed)
    try:
        run_on_cpu(module.clone(), given)
    except CompileError as error:
        with pytest.raises(CompileError, match=error.opcode):
            run_on_gpu(module, given)
        return
    same(module, given)
