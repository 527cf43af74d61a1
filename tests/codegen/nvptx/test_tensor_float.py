"""Products of float32 on tensor cores, in the emulator: operands are rounded to TF32, sums are those of float32."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from test_tensor_core_product import TARGET, TRANSPOSED, run

from minitensor_jit.codegen.nvptx.compiler import compile_module
from minitensor_jit.codegen.nvptx.kernels import tensor_core_product as product_kernel
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.ir.text.printer import print_module
from minitensor_jit.passes.pipeline import PipelineOptions, run_pipeline
from minitensor_jit.passes.precision.tensor_float import ALGORITHM, TensorFloat32
from minitensor_jit.passes.target import GPU
from minitensor_jit.runtime.cuda.program import GpuTarget

pytestmark = pytest.mark.sampled(6)


def module_of(batch, m, k, n, transposed=(False, False), bias=False):
    b = Builder("product")
    outer = (batch,) if batch else ()
    first, dims = len(outer), tuple(range(len(outer)))
    x = b.parameter(Shape("f32", (*outer, k, m) if transposed[0] else (*outer, m, k)))
    y = b.parameter(Shape("f32", (*outer, n, k) if transposed[1] else (*outer, k, n)))
    d = b.dot(
        x, y, lhs_batch_dims=dims, rhs_batch_dims=dims,
        lhs_contracting_dims=(first + (not transposed[0]),), rhs_contracting_dims=(first + transposed[1],),
    )  # fmt: skip
    if bias:
        d = b.maximum(b.add(d, b.broadcast(b.parameter(Shape("f32", (n,))), d.dims, (first + 1,))), b.full(d.shape, 0))
    return b.build(d)


def rounded(x):
    """To ten bits of a mantissa, to nearest, ties away from zero."""
    return ((x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def compare(batch, m, k, n, transposed=(False, False), bias=False):
    module = run_pipeline(
        module_of(batch, m, k, n, transposed, bias), PipelineOptions(target=GPU, tf32=True, verify=True)
    )
    program = compile_module(module, name="product", target=TARGET)
    rng = np.random.default_rng(0)
    outer = (batch,) if batch else ()
    # Of 18 bits, of which the product sees eleven: sums of these are exact in any order.
    x, y = (rng.integers(-(1 << 17), 1 << 17, (*outer, *s)).astype(np.float32) / 128 for s in ((m, k), (k, n)))
    args = [np.ascontiguousarray(v.swapaxes(-1, -2)) if t else v for v, t in zip((x, y), transposed, strict=True)]
    expected = rounded(x).astype(np.float64) @ rounded(y).astype(np.float64)
    size = np.abs(rounded(x)).astype(np.float64) @ np.abs(rounded(y)).astype(np.float64)
    if bias:
        args.append(rng.standard_normal(n).astype(np.float32))
        expected = np.maximum(expected + args[2], 0)
    bits, machine = run(program, args)
    got = np.ascontiguousarray(bits).view(np.float32).reshape(expected.shape)
    # Sums in float32 of so many products, whatever the order.
    assert (np.abs(got - expected) <= (k / 8 + 3) * 2.0**-24 * size + 1e-6).all()
    exact = x.astype(np.float64) @ y.astype(np.float64)
    if not bias:
        assert (np.abs(got - exact) > 2.0**-18 * size).any(), "the operands were not rounded"
    assert machine.counts.bank_conflicts == 0
    return program


@pytest.mark.parametrize("transposed", TRANSPOSED)
def test_products(transposed):
    assert [step.kind for step in compare(0, 80, 72, 96, transposed).steps] == ["tensor-core-gemm"]


@pytest.mark.parametrize("transposed", TRANSPOSED)
@pytest.mark.parametrize(("m", "k", "n"), [(2, 1, 2), (3, 5, 7), (65, 33, 67), (129, 31, 72)])
def test_sizes_that_are_no_multiples(m, k, n, transposed):
    compare(0, m, k, n, transposed)


@pytest.mark.parametrize("transposed", TRANSPOSED[::3])
@pytest.mark.parametrize("tiling", range(len(product_kernel.TILINGS)))
def test_tiles_of_every_size(tiling, transposed, monkeypatch):
    chosen = product_kernel.TILINGS[tiling]
    monkeypatch.setattr(product_kernel, "tiling_for", lambda *_: chosen)
    assert compare(0, chosen.rows + 16, 24, chosen.columns, transposed).steps[0].block == (chosen.threads, 1, 1)


def test_batches_and_what_follows():
    compare(3, 48, 40, 72)
    compare(2, 33, 20, 65, transposed=(False, True), bias=True)
    assert [step.kind for step in compare(0, 64, 16 * 11 + 4, 64, bias=True).steps] == ["tensor-core-gemm"]


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas of the CUDA toolkit")
@pytest.mark.parametrize("transposed", TRANSPOSED)
@pytest.mark.parametrize("tiling", range(len(product_kernel.TILINGS)))
def test_registers_are_enough(tiling, transposed, monkeypatch, tmp_path):
    chosen = product_kernel.TILINGS[tiling]
    monkeypatch.setattr(product_kernel, "tiling_for", lambda *_: chosen)
    module = run_pipeline(module_of(0, 1024, 1000, 1024, transposed, True), PipelineOptions(target=GPU, tf32=True))
    file = tmp_path / "product.ptx"
    file.write_text(compile_module(module, name="product", target=GpuTarget.of("sm_90")).ptx)
    command = ["ptxas", "-v", "-arch=sm_90", str(file), "-o", str(tmp_path / "product.cubin")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert set(re.findall(r"(\d+) bytes spill", said)) == {"0"}, said


def test_it_has_to_be_allowed():
    module = run_pipeline(module_of(0, 64, 64, 64), PipelineOptions(target=GPU))
    assert "mma.sync" not in compile_module(module, name="product", target=TARGET).ptx


@pytest.mark.parametrize(("m", "n"), [(1, 64), (64, 1)])
def test_products_of_vectors_stay_exact(m, n):
    module = run_pipeline(module_of(0, m, 64, n), PipelineOptions(target=GPU, tf32=True))
    assert "mma.sync" not in compile_module(module, name="product", target=TARGET).ptx


def test_older_processors_multiply_exactly():
    module = run_pipeline(module_of(0, 64, 64, 64), PipelineOptions(target=GPU, tf32=True))
    ptx = compile_module(module, name="product", target=GpuTarget.of("sm_75")).ptx
    assert "mma.sync" not in ptx
    assert "cvt.rna" not in ptx


def test_the_pass():
    module = module_of(0, 4, 5, 6)
    assert TensorFloat32().run(module)
    assert module.entry.root.attrs["algorithm"] == ALGORITHM
    assert not TensorFloat32().run(module)
    text = print_module(module)
    assert f"algorithm={ALGORITHM}" in text
    assert print_module(parse_module(text)) == text
    module = module_of(0, 4, 5, 6)
    module.entry.root.attrs["operand_precision"] = ("highest", "highest")
    assert not TensorFloat32().run(module)
    assert "operand_precision={highest,highest}" in print_module(module)
