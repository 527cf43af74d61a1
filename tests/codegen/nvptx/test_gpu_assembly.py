"""What is emitted assembles for every processor, hot kernels without spills, and names what has no code."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gpu_run import Runner
from test_gpu_forms import norm, softmax

from minitensor_jit.codegen.errors import CompileError
from minitensor_jit.codegen.nvptx.compiler import compile_module
from minitensor_jit.codegen.nvptx.verify import verify
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.shape import Shape
from minitensor_jit.passes.pipeline import run_pipeline
from minitensor_jit.runtime.cuda.program import GpuProgram, GpuTarget

pytestmark = pytest.mark.sampled(6)

PTXAS = shutil.which("ptxas")
TARGETS = ["sm_75", "sm_80", "sm_90", "sm_100"]


def f32(*dims: int) -> Shape:
    return Shape("f32", dims)


def chain(b, x):
    for opcode in ("tanh", "exponential", "logistic", "log-plus-one", "negate"):
        x = b.emit("multiply", (b.emit(opcode, (x,)), x))
    return x


def dot(b, x, y):
    return b.dot(x, y, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))


def gelu_layer(b, x, y, z):
    d = dot(b, x, y)
    return b.elementwise_call("_gelu", b.emit("add", (d, b.broadcast(z, d.dims, (1,)))))


def ordered(b, x):
    c = Builder("before")
    comparator = c.build_computation(c.compare(c.parameter(Shape("f32")), c.parameter(Shape("f32")), "LT"))
    return b.get_tuple_element(b.sort((x, x), 1, _with_two(comparator)), 0)


def _with_two(_):
    c = Builder("before")
    p = [c.parameter(Shape("f32")) for _ in range(4)]
    return c.build_computation(c.compare(p[0], p[1], "LT"))


def scattered(b, x, i, u):
    c = Builder("add")
    combiner = c.build_computation(c.emit("add", (c.parameter(Shape("f32")), c.parameter(Shape("f32")))))
    attrs = {"update_window_dims": (1,), "inserted_window_dims": (0,), "scatter_dims_to_operand_dims": (0,)}
    return b.emit("scatter", (x, i, u), {**attrs, "index_vector_dim": 1, "to_apply": combiner})


CASES: dict[str, tuple[Callable, list[Shape]]] = {
    "sum(x + y z)": (
        lambda b, x, y, z: b.reduce_sum(b.emit("add", (x, b.emit("multiply", (y, z)))), (0,)),
        [f32(100_000_000)] * 3,
    ),
    "chain": (chain, [f32(100_000_000)]),
    "sum of halves": (lambda b, x, y: b.emit("add", (x, y)), [Shape("f16", (8192, 4096))] * 2),
    "chain of halves": (chain, [Shape("f16", (8192, 4096))]),
    "softmax": (softmax, [f32(8192, 4096)]),
    "softmax of short rows": (softmax, [f32(65536, 512)]),
    "softmax of long rows": (softmax, [f32(64, 50257)]),
    "softmax of doubles": (softmax, [Shape("f64", (512, 4096))]),
    "norm": (norm, [f32(8192, 4096), f32(4096)]),
    "columns": (lambda b, x: b.reduce_sum(x, (0,)), [f32(8192, 4096)]),
    "transpose": (lambda b, x: b.transpose(x, (1, 0)), [f32(8192, 4096)]),
    "transposed sum": (lambda b, x, y: b.emit("add", (b.transpose(x, (1, 0)), y)), [f32(4096, 8192), f32(8192, 4096)]),
    "product": (dot, [f32(4096, 4096), f32(4096, 4096)]),
    "product of doubles": (dot, [Shape("f64", (512, 512)), Shape("f64", (512, 512))]),
    "product with bias and gelu": (gelu_layer, [f32(4096, 1024), f32(1024, 4096), f32(4096)]),
    "vector product": (dot, [f32(1, 4096), f32(4096, 4096)]),
    "sort": (ordered, [f32(16, 100_000)]),
    "scatter": (scattered, [f32(50_000, 768), Shape("s32", (8192, 1)), f32(8192, 768)]),
    "sine": (lambda b, x: b.elementwise_call("sin", x), [f32(1 << 20)]),
    "power": (lambda b, x, y: b.elementwise_call("pow", x, y), [f32(1 << 20)] * 2),
    "complex": (lambda b, x, y: b.emit("divide", (x, y)), [Shape("c64", (1 << 20,))] * 2),
}

# Kernels whose speed is that of the GPU's memory or arithmetic only as long as everything is in registers.
HOT = set(CASES) - {"power", "sine", "sort"}


def compiled(name: str, target: str) -> GpuProgram:
    build, shapes = CASES[name]
    b = Builder("case")
    made = build(b, *[b.parameter(s) for s in shapes])
    module = run_pipeline(b.build([made]))
    return compile_module(module, name="case", target=GpuTarget.of(target))


@pytest.mark.skipif(PTXAS is None, reason="no ptxas: the CUDA toolkit has it")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_assembles(name: str, target: str, tmp_path: Path):
    program = compiled(name, target)
    source = tmp_path / "case.ptx"
    source.write_text(program.ptx)
    assert PTXAS is not None
    done = subprocess.run(
        [PTXAS, "-v", "-arch", target, str(source), "-o", str(tmp_path / "case.cubin")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    spilled = [int(n) for n in re.findall(r"(\d+) bytes spill", done.stderr)]
    assert name not in HOT or not any(spilled), done.stderr


@pytest.mark.parametrize("name", CASES)
def test_no_operation_is_contracted_or_rounded_otherwise(name: str):
    ptx = compiled(name, "sm_90").ptx
    assert not re.findall(r"\b(?:add|sub|mul|div|sqrt|fma)\.(?:approx|full|ftz|f32|f64)\b", ptx)
    assert not re.findall(r"\b\w+\.ftz\b", ptx)
    # Every access names its space.
    assert not re.findall(r"\b(?:ld|st)\.(?:v\d\.)?[bfsu]\d", ptx)


def test_accesses_are_as_wide_as_can_be():
    for name, instruction in (("chain", "ld.global.v4.b32"), ("sum of halves", "ld.global.v4.b32")):
        ptx = compiled(name, "sm_90").ptx
        assert instruction in ptx or instruction.replace("global", "global.nc") in ptx
        assert "st.global.v4.b32" in ptx


def test_older_drivers_get_older_code():
    assert GpuTarget.of("sm_90", ptx_version=(7, 2)).name == "sm_86"
    assert GpuTarget.of("sm_103").name == "sm_100"
    with pytest.raises(ValueError, match="sm_90"):
        GpuTarget.of("turing")
    with pytest.raises(ValueError, match="older than sm_75"):
        GpuTarget.of("sm_70")
    with pytest.raises(ValueError, match=r"PTX 6\.0"):
        GpuTarget.of("sm_75", ptx_version=(6, 0))


@pytest.mark.parametrize(
    ("line", "what"),
    [("%x = call float @llvm.exp.f32(float %y)", "call"), ("%x = frem float %y, %z", "instruction"),
     ("%x = fadd <8 x float> %y, %z", "vectors"), ("%x = add i128 %y, %z", "integers"),
     ("invoke void @f()", "instruction")],
)  # fmt: skip
def test_what_llvm_could_not_lower_is_refused(line: str, what: str):
    with pytest.raises(CompileError, match=what):
        verify(f"define ptx_kernel void @k() {{\nentry0:\n  {line}\n  ret void\n}}\n")


def test_views_of_literals_are_constants_of_the_program():
    b = Builder("literal")
    x = np.arange(12, dtype=np.float32)
    module = b.build([b.emit("add", (b.constant(x, "f32"), b.parameter(f32(12))))])
    program = compile_module(module, name="literal", target=GpuTarget.of("sm_80"))
    assert len(program.constants) == x.nbytes
    (got,) = Runner(program, [x]).results()
    assert got.tolist() == (x + x).tolist()
