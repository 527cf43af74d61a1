"""What the session assembles at its end: each kernel once, and the names of what fails."""

import shutil

import pytest
from assembled_kernels import TARGETS, Kernel, assemble_batch, chosen, kernels_of

MODULE = """; ModuleID = 'some'
target triple = "nvptx64-nvidia-cuda"
@{name}_x = internal addrspace(3) global [{shared} x i8] poison, align 16
define ptx_kernel void @{name}(ptr %a0) nounwind {{
entry0:
  %v1 = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %v2 = getelementptr i8, ptr addrspacecast (ptr addrspace(3) @{name}_x to ptr), i32 %v1
  store i8 1, ptr %v2, align 1
  %v3 = load i8, ptr %v2, align 1
  {line}
  store i8 %v3, ptr %a0, align 1
  ret void
}}
define ptx_kernel void @{name}_second() nounwind {{
entry1:
  ret void
}}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare float @llvm.fma.f32(float, float, float)
"""


def module(name: str, shared: int = 64, line: str = "%v4 = add i32 %v1, 1") -> list[Kernel]:
    return list(kernels_of(MODULE.format(name=name, shared=shared, line=line), "a test"))


def test_kernels_are_the_same_whatever_they_are_called():
    first, second = module("loop_3"), module("fused.7_x")
    assert [k.name for k in (*first, *second)] == ["loop_3", "loop_3_second", "fused.7_x", "fused.7_x_second"]
    assert [k.digest for k in first] == [k.digest for k in second]
    assert first[0].digest != module("loop_3", shared=65)[0].digest
    assert "fma" not in first[0].text
    assert "KERNEL" not in first[1].text.replace("@KERNEL(", "")


def test_a_sample_has_each_kernel_for_one_processor():
    kernels = [Kernel(str(k), "", "") for k in range(3000)]
    some = [chosen(kernels, target, sample=True) for target in TARGETS]
    digests = [k.digest for part in some for k in part]
    assert len(set(digests)) == len(digests)
    assert all(10 <= len(part) <= 60 for part in some)


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas: the CUDA toolkit has it")
def test_what_fails_is_named():
    wrong = module("too_much", shared=1 << 18)[0]
    refused = module("refused", line="%v4 = call float @llvm.exp.f32(float 1.0)")[0]
    right = module("right")
    outcome = assemble_batch([wrong, *right, refused], "sm_90")
    assert outcome.assembled == 2
    said = {kernel.name: said for kernel, _, said in outcome.failures}
    assert sorted(said) == ["refused", "too_much"]
    assert "too much shared data" in said["too_much"]
    assert "exp" in said["refused"]
