"""What goes wrong on GPUs: no memory, lost contexts, damaged code, old drivers."""

import subprocess
import sys
import textwrap

import pytest

import minitensor as mt

pytestmark = pytest.mark.sampled(6)


def test_out_of_memory_says_what_holds_it(planned):
    held = mt.empty(8 << 20, dtype=mt.uint8, device="cuda")
    with pytest.raises(mt.cuda.OutOfMemoryError) as caught:
        mt.empty(1 << 30, dtype=mt.uint8, device="cuda")
    text = str(caught.value)
    assert text.startswith("CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 64.00 MiB")
    assert "8.00 MiB  in tensors" in text
    assert mt.cuda.memory_stats()["num_ooms"] >= 1
    assert mt.zeros(3, device="cuda").tolist() == [0.0] * 3
    del held


def test_cached_memory_is_given_back_before_giving_up(planned):
    mt.cuda.empty_cache()
    parts = [mt.empty(4 << 20, dtype=mt.uint8, device="cuda") for _ in range(10)]
    del parts
    assert mt.cuda.memory_reserved() >= 40 << 20
    retries = mt.cuda.memory_stats()["num_alloc_retries"]
    big = mt.empty(48 << 20, dtype=mt.uint8, device="cuda")
    assert mt.cuda.memory_stats()["num_alloc_retries"] == retries + 1
    assert big.numel() == 48 << 20


def test_out_of_memory_in_the_middle_of_a_recording(planned):
    x = mt.ones(1000, device="cuda")
    kept = []
    planned.fail("cuMemAlloc", "OUT_OF_MEMORY", times=4)
    mt.cuda.empty_cache()
    with pytest.raises(mt.cuda.OutOfMemoryError), mt.jit_scope():
        kept.append((mt.tanh(x.reshape(10, 100)) * 2.0).expand(50, 10, 100) + 1.0)
    planned.settings.failures.clear()
    assert (x + 1).sum().item() == 2000.0


def test_a_kernel_that_the_driver_refuses(planned):
    x = mt.ones(17, device="cuda")
    planned.fail("cuLaunchKernel", "LAUNCH_OUT_OF_RESOURCES")
    with pytest.raises(mt.jit.CudaError if hasattr(mt.jit, "CudaError") else RuntimeError, match="CUDA error: add"):
        x + 2.0
    assert (x + 2.0).sum().item() == 51.0


def test_code_that_cannot_be_loaded_is_an_error_with_the_assemblers_words(planned):
    x = mt.ones(19, 3).cuda()
    planned.fail("cuModuleLoadDataEx", "INVALID_PTX", times=2)
    with pytest.raises(RuntimeError, match="CUDA error: loading mul failed"):
        x * 3.0
    assert (x * 3.0).sum().item() == 171.0


def test_words_of_the_assembler_do_not_make_a_gpu_lost(planned):
    from minitensor_jit.runtime.cuda import context

    mt.ones(3).cuda()
    words = "cuModuleLoadDataEx failed: a PTX JIT compilation failed - ptxas: Illegal operand type to instruction 'add'"
    error = context.failure(0, "loading add", planned.driver.LogicError(words))
    assert str(error) == f"CUDA error: loading add failed on cuda:0: {words}"
    assert not context.gpu(0).lost
    assert "is lost" in str(
        context.failure(0, "add", planned.driver.LogicError("cuLaunchKernel failed: misaligned address"))
    )
    context.gpu(0).lost = ""


OTHER_PROCESS = """
import sys
sys.path[:0] = [{tests!r}]
import pytest
import fake_cuda
with fake_cuda.installed({options}) as cuda:
    import minitensor as mt
    {body}
"""


def in_another_process(body, options="devices=1"):
    from pathlib import Path

    tests = str(Path(__file__).parents[1])
    code = OTHER_PROCESS.format(
        tests=tests, options=options, body=textwrap.indent(textwrap.dedent(body), "    ").strip()
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_lost_context_names_the_cluster_and_later_calls_say_so(planned):
    in_another_process(
        """
        x = mt.ones(8, device="cuda")
        (x * 2.0).sum().item()
        cuda.fail("cuLaunchKernel", "ILLEGAL_ADDRESS")
        with pytest.raises(RuntimeError, match="CUDA error: mul.* failed on cuda:0.*The GPU's context is lost"):
            (x * 2.0).sum().item()
        with pytest.raises(RuntimeError, match="cuda:0 can't be used any more in this process: its context was lost"):
            mt.zeros(3, device="cuda")
        with pytest.raises(RuntimeError, match="can't be used any more"):
            x.cpu()
        assert mt.ones(3).sum().item() == 3.0
        """
    )


def test_older_drivers_get_older_code(planned):
    out = in_another_process(
        """
        x = mt.ones(8, device="cuda")
        print((x * 2.0).sum().item())
        from minitensor_jit.runtime.cuda.context import gpu
        print(gpu(0).target.name, gpu(0).target.ptx_version)
        """,
        "devices=1, capability=(9, 0), driver_version=11040, ptx_version=(7, 4)",
    )
    assert out.split("\n")[:2] == ["16.0", "sm_86 (7, 1)"]


def test_a_driver_that_is_too_old_says_so(planned):
    in_another_process(
        """
        with pytest.raises(RuntimeError, match="for CUDA 9.2; 10.0 is the oldest"):
            mt.ones(8, device="cuda")
        """,
        "devices=1, driver_version=9020, ptx_version=(6, 2)",
    )


def test_a_gpu_that_is_too_old_says_so(planned):
    in_another_process(
        """
        with pytest.raises(RuntimeError, match="sm_61 is older than sm_75"):
            mt.ones(8, device="cuda")
        """,
        "devices=1, capability=(6, 1)",
    )


def test_without_a_gpu(planned):
    in_another_process(
        """
        assert not mt.cuda.is_available()
        assert "the driver finds no GPU" in mt.cuda.unavailable_reason()
        with pytest.raises(RuntimeError, match="can't be used: the driver finds no GPU.*CUDA_VISIBLE_DEVICES"):
            mt.ones(8, device="cuda")
        assert mt.ones(2).sum().item() == 2.0
        """,
        "devices=0",
    )


def test_without_a_driver(planned, tmp_path):
    package = tmp_path / "pycuda"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "driver.py").write_text("raise ImportError('libcuda.so.1: cannot open shared object file')")
    code = textwrap.dedent(
        """
        import minitensor as mt
        assert not mt.cuda.is_available()
        assert "there is no NVIDIA driver" in mt.cuda.unavailable_reason()
        for error in (RuntimeError, AssertionError):
            try:
                mt.ones(2).cuda()
            except error as caught:
                assert "nvidia-smi" in str(caught)
        """
    )
    import os

    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert ran.returncode == 0, ran.stderr


def test_nothing_of_it_is_imported_by_programs_for_the_cpu():
    code = (
        "import sys, minitensor as mt; mt.ones(3).sum().item(); mt.cuda; "
        "print([m for m in sys.modules if 'pycuda' in m or m.startswith('minitensor_jit')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_threads_leave_the_gpu_when_they_end(planned):
    out = in_another_process(
        """
        import threading
        pop = cuda.driver.Context.pop
        popped = []
        cuda.driver.Context.pop = staticmethod(lambda: popped.append(threading.get_ident()) or pop())
        x = mt.ones(3, device="cuda")
        thread = threading.Thread(target=lambda: print((x + 1).tolist()), name="other")
        thread.start()
        thread.join()
        print(popped == [thread.ident])
        """
    )
    assert out.split("\n")[:2] == ["[2.0, 2.0, 2.0]", "True"]
