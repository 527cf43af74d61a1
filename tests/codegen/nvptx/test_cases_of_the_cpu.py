"""What the CPU's code generator is tested with, on the emulated GPU: the same modules, against the CPU's bits."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import gpu_run
import numpy as np
import pytest
from runtime_table import values

pytestmark = pytest.mark.sampled(4)

FILES = [
    "test_codegen_elementwise",
    "test_codegen_movement",
    "test_codegen_reductions",
    "test_codegen_contraction",
    "test_codegen_whole_arrays",
    "test_complex",
    "test_narrow_types",
    "test_dot_epilogue",
    "test_control_flow",
]

# Tests of what is no promise, and tests of Python rather than of code.
LEFT_OUT = {
    "test_map_and_casts_to_other_sizes": "looks at the bits of NaNs that arithmetic made",
    "test_a_chain_longer_than_the_stack_of_python": "is about the emitter, which is the same",
    "test_complex_functions": "are computed by the host",
}


def check(build, *shapes, args=None, fused=True, **_how_close):
    if args is None and any(s.dtype == "bf16" for s in shapes):
        args = [_without_nan(values(s, k), s.dtype) for k, s in enumerate(shapes)]
    return gpu_run.check(build, *shapes, args=args, fused=fused, only_fused=fused, host=True)


def compile_and_run(module, args):
    return gpu_run.run_on_gpu(module, args)


def _without_nan(array, dtype: str):
    """bfloat16 numbers are any bits; a sort by `<` has no order for NaN, of which these are many."""
    return (array.view(np.uint16) & 0xBFFF).view(array.dtype) if dtype == "bf16" else array


def _load(name: str):
    (path,) = Path(__file__).parents[1].rglob(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"gpu_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


for _name in FILES:
    _module = _load(_name)
    _module.check, _module.compile_and_run = check, compile_and_run
    for _test, _function in vars(_module).items():
        if not _test.startswith("test_") or _test in LEFT_OUT:
            continue
        if {"check", "check_text"} & set(_function.__code__.co_names):
            globals()[f"{_test}__{_name.removeprefix('test_')}"] = _function


def test_every_file_is_found():
    found = [name for name in globals() if name.startswith("test_") and "__" in name]
    assert len(found) > 60, found
