"""Convolutions on GPUs, in the emulator: products whose windows are found where they are read."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from test_tensor_core_product import TARGET, run

import minitensor as mt
from minitensor_jit.codegen.nvptx.compiler import compile_module
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.semantics.window import Window, WindowDim
from minitensor_jit.ir.shape import Shape
from minitensor_jit.passes.expander import Expander
from minitensor_jit.passes.pipeline import PipelineOptions, run_pipeline
from minitensor_jit.passes.target import GPU

FORMS = {
    "as large as the image": ((2, 3, 9, 11), (5, 3, 3, 3), {"low": 1, "high": 1}, 1),
    "smaller than the image": ((3, 4, 8, 8), (16, 4, 3, 3), {}, 1),
    "strides": ((2, 3, 11, 12), (4, 3, 3, 3), {"stride": 2, "low": 1, "high": 1}, 1),
    "dilation": ((1, 2, 12, 13), (70, 2, 3, 3), {"window_dilation": 2, "low": 2, "high": 2}, 1),
    "groups": ((2, 6, 7, 8), (8, 3, 3, 3), {"low": 1, "high": 1}, 2),
    "of a gradient": ((2, 3, 5, 5), (4, 3, 3, 3), {"base_dilation": 2, "low": 1, "high": 2}, 1),
    "one dimension": ((3, 4, 40), (9, 4, 5), {"low": 2, "high": 2}, 1),
}


def module_of(image, kernel, window, groups, dtype="f32", bias=True):
    b = Builder("convolution")
    x, w = b.parameter(Shape(dtype, image)), b.parameter(Shape(dtype, kernel))
    rank = len(image) - 2
    dims = tuple(WindowDim(n, **window) for n in kernel[2:])
    labels = "bf01_oi01->bf01" if rank == 2 else "bf0_oi0->bf0"
    wide = [v if dtype == "f32" else b.convert(v, "f32") for v in (x, w)]
    y = b.convolution(*wide, dim_labels=labels, window=Window(dims), feature_group_count=groups)
    if bias:
        y = b.maximum(
            b.add(y, b.broadcast(b.parameter(Shape("f32", kernel[:1])), y.dims, (1,))), b.full(y.array_shape, 0)
        )
    return b.build(y if dtype == "f32" else b.convert(y, dtype))


def arguments(module, whole=True):
    rng = np.random.default_rng(0)
    made = []
    for parameter in module.entry.parameters:
        shape = parameter.array_shape
        value = rng.integers(-3, 4, shape.dims) if whole else rng.standard_normal(shape.dims)
        value = value.astype(np.float32)
        if shape.dtype == "bf16":
            value = value.astype(ml_dtypes.bfloat16).view(np.uint16).view(shape.numpy_dtype)
        made.append(value)
    return made


def on_gpu(module, args, **options):
    program = compile_module(
        run_pipeline(module.clone(), PipelineOptions(verify=True, **options)), name="c", target=TARGET
    )
    bits, _ = run(program, args)
    return bits, [step.kind for step in program.steps]


@pytest.mark.parametrize("form", FORMS)
def test_windows_are_read_by_the_product(form):
    module = module_of(*FORMS[form])
    args = arguments(module)
    bits, kinds = on_gpu(module, args, target=GPU)
    np.testing.assert_array_equal(bits, evaluate(module, args)[0].view(np.uint16).reshape(bits.shape))
    assert kinds[0] == "gemm"  # no matrix of windows is made before


@pytest.mark.parametrize("form", ["as large as the image", "strides", "groups"])
def test_the_order_of_sums_is_that_of_a_matrix_of_windows(form):
    module = module_of(*FORMS[form])
    args = arguments(module, whole=False)
    bits, kinds = on_gpu(module, args, target=GPU)
    assert "gemm" in kinds
    x, w, bias = (mt.from_numpy(array) for array in args)
    window, groups = FORMS[form][2:]
    windows = mt.nn.functional.unfold(x, 3, stride=window.get("stride", 1), padding=window.get("low", 0))
    n, _, places = windows.shape
    # Each group by a product of its own, by the CPU.
    parts = windows.reshape(n, groups, -1, places).transpose(2, 3).contiguous()
    kernels = w.reshape(groups, w.shape[0] // groups, -1).transpose(1, 2).contiguous()
    product = (parts @ kernels).transpose(2, 3).reshape(n, w.shape[0], places)
    other = (product + bias[:, None]).relu()
    np.testing.assert_array_equal(bits.reshape(-1), other.contiguous().numpy().view(np.uint16).reshape(-1))


@pytest.mark.parametrize("form", ["as large as the image", "strides"])
def test_narrow_types_go_to_tensor_cores(form):
    module = module_of(*FORMS[form], dtype="bf16")
    args = arguments(module)
    bits, kinds = on_gpu(module, args, target=replace(GPU, narrow_products=True))
    assert "tensor-core-gemm" in kinds
    np.testing.assert_array_equal(bits, evaluate(module, args)[0].view(np.uint16).reshape(bits.shape))


def test_large_convolutions_are_no_calls_of_the_cpu():
    module = module_of((8, 64, 64, 64), (64, 64, 3, 3), {"low": 1, "high": 1}, 1)
    Expander(GPU).run(module)
    assert not any(i.opcode in ("kernel-call", "convolution") for i in module.entry.instructions)
