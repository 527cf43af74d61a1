"""Products on tensor cores, in the emulator: values, what is done with them, and how memory is used."""

import re
import shutil
import subprocess
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from ptx import Machine, Memory
from ptx.kernels import pack

from minitensor_jit.codegen.errors import CompileError
from minitensor_jit.codegen.nvptx.compiler import compile_module
from minitensor_jit.codegen.nvptx.kernels import tensor_core_product as product_kernel
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.shape import Shape
from minitensor_jit.passes.pipeline import PipelineOptions, run_pipeline
from minitensor_jit.passes.target import GPU
from minitensor_jit.runtime.cuda.program import GpuTarget, KernelLaunch

TARGET = GpuTarget.of("sm_80", multiprocessors=2)
DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}


def module_of(batch, m, k, n, dtype="bf16", transposed=(False, False), epilogue=False):
    """x @ y in a narrow type, as a program lowers it, and perhaps silu(x @ y + bias)."""
    b = Builder("product")
    outer = (batch,) if batch else ()
    first = len(outer)
    x = b.parameter(Shape(dtype, (*outer, k, m) if transposed[0] else (*outer, m, k)))
    y = b.parameter(Shape(dtype, (*outer, n, k) if transposed[1] else (*outer, k, n)))
    dims = tuple(range(first))
    d = b.dot(
        b.convert(x, "f32"), b.convert(y, "f32"), lhs_batch_dims=dims, rhs_batch_dims=dims,
        lhs_contracting_dims=(first + (not transposed[0]),), rhs_contracting_dims=(first + transposed[1],),
    )  # fmt: skip
    if epilogue:
        bias = b.parameter(Shape(dtype, (n,)))
        d = b.add(d, b.broadcast(b.convert(bias, "f32"), d.dims, (len(d.dims) - 1,)))
        d = b.multiply(d, b.logistic(d))
    return run_pipeline(
        b.build(b.convert(d, dtype)), PipelineOptions(target=replace(GPU, narrow_products=True), verify=True)
    )


def compiled(*size, target=TARGET, **options):
    return compile_module(module_of(*size, **options), name="product", target=target)


def run(program, args):
    """Runs the launches; returns the result's bits and the machine."""
    memory, slots = Memory(), []
    for array in args:
        slots.append(memory.allocate(array.nbytes))
        memory.write(slots[-1], array.tobytes())
    (result,) = program.result_shapes
    slots += [memory.allocate(result.nbytes), memory.allocate(max(program.scratch_bytes, 1))]
    slots.append(memory.allocate(max(len(program.constants), 1)))
    memory.write(slots[-1], program.constants)
    machine = Machine(program.ptx, measure=True)
    for step in program.steps:
        assert isinstance(step, KernelLaunch)
        addresses = pack([slots[a.slot] + a.offset for a in step.arguments])
        machine.launch(step.kernel, step.grid, step.block, step.shared_bytes, addresses, memory)
    bits = np.frombuffer(memory.read(slots[len(args)], result.nbytes), np.uint16)
    return bits.reshape((*result.dims, -1) if result.dtype == "f32" else result.dims), machine


def compare(batch, m, k, n, *, dtype="bf16", transposed=(False, False), epilogue=False, target=TARGET):
    program = compiled(batch, m, k, n, dtype=dtype, transposed=transposed, epilogue=epilogue, target=target)
    rng = np.random.default_rng(0)
    outer = (batch,) if batch else ()
    # Whole numbers: sums are exact in any order.
    x, y = (rng.integers(-3, 4, (*outer, *s)).astype(DTYPES[dtype]) for s in ((m, k), (k, n)))
    args = [np.ascontiguousarray(v.swapaxes(-1, -2)) if t else v for v, t in zip((x, y), transposed, strict=True)]
    expected = x.astype(np.float64) @ y.astype(np.float64)
    if epilogue:
        args.append(rng.integers(-3, 4, n).astype(DTYPES[dtype]))
        expected = expected + args[2].astype(np.float64)
        expected = expected / (1 + np.exp(-expected))
    bits, machine = run(program, args)
    got = bits.view(DTYPES[dtype])
    if epilogue:
        np.testing.assert_allclose(got.astype(np.float64), expected, rtol=2**-8, atol=1e-6)
    else:
        np.testing.assert_array_equal(bits, expected.astype(np.float32).astype(DTYPES[dtype]).view(np.uint16))
    assert machine.counts.bank_conflicts == 0
    return program, machine


TRANSPOSED = [(False, False), (True, False), (False, True), (True, True)]


@pytest.mark.parametrize("transposed", TRANSPOSED)
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_products(dtype, transposed):
    program, _ = compare(0, 80, 72, 96, dtype=dtype, transposed=transposed)
    assert [step.kind for step in program.steps] == ["tensor-core-gemm"]


@pytest.mark.parametrize("transposed", TRANSPOSED[::3])
@pytest.mark.parametrize("tiling", range(len(product_kernel.TILINGS)))
def test_tiles_of_every_size(tiling, transposed, monkeypatch):
    chosen = product_kernel.TILINGS[tiling]
    monkeypatch.setattr(product_kernel, "tiling_for", lambda *_: chosen)
    program, _ = compare(0, chosen.rows + 16, 40, chosen.columns, transposed=transposed)
    assert program.steps[0].block == (chosen.threads, 1, 1)


@pytest.mark.parametrize(("m", "k", "n"), [(2, 1, 2), (3, 5, 7), (65, 33, 67), (64, 200, 8), (129, 31, 72)])
@pytest.mark.parametrize("transposed", [(False, False), (True, True)])
def test_sizes_that_are_no_multiples(m, k, n, transposed):
    compare(0, m, k, n, transposed=transposed)


def test_many_turns_of_the_pipeline():
    compare(0, 64, 32 * 11 + 8, 64)


def test_batches():
    compare(3, 48, 40, 72)
    compare(2, 33, 20, 65, transposed=(False, True))


@pytest.mark.parametrize("n", [128, 130, 131])
def test_what_follows_is_done_before_elements_are_stored(n):
    program, _ = compare(0, 70, 40, n, epilogue=True)
    assert program.steps[-1].kind == "tensor-core-gemm"


def test_nothing_to_add_gives_zeros():
    bits, _ = run(compiled(0, 8, 0, 8), [np.zeros((8, 0), np.uint16), np.zeros((0, 8), np.uint16)])
    assert not bits.any()


def test_large_products_have_large_tiles():
    assert product_kernel.tiling_for(1, 8192, 8192, 132).columns == 256
    assert product_kernel.tiling_for(1, 64, 64, 132) == product_kernel.TILINGS[-1]


def test_processors_without_such_products():
    with pytest.raises(CompileError, match="no product of bf16 in f32 for sm_75"):
        compiled(0, 16, 16, 16, target=GpuTarget.of("sm_75"))


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas of the CUDA toolkit")
@pytest.mark.parametrize(
    ("tiling", "processor"),
    [*((k, "sm_90") for k in range(len(product_kernel.TILINGS))), (0, "sm_80"), (0, "sm_100")],
)
def test_registers_are_enough(tiling, processor, monkeypatch, tmp_path):
    chosen = product_kernel.TILINGS[tiling]
    monkeypatch.setattr(product_kernel, "tiling_for", lambda *_: chosen)
    file = tmp_path / "product.ptx"
    file.write_text(compiled(0, 1024, 1000, 1024, target=GpuTarget.of(processor), epilogue=True).ptx)
    command = ["ptxas", "-v", f"-arch={processor}", str(file), "-o", str(tmp_path / "product.cubin")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert set(re.findall(r"(\d+) bytes spill", said)) == {"0"}, said
