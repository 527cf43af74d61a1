"""Whole programs under the launcher: the example, eagerly, clustered and compiled; and one written for PyTorch."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = [str(ROOT / "examples" / "mnist_ddp.py"), "--epochs", "2", "--steps", "3", "--print_losses"]
RUN = ["-m", "minitensor.distributed.run", "--standalone", "--nproc-per-node"]


def started(*arguments, flags=""):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MT_JIT_FLAGS": flags}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_has_the_same_losses_however_it_runs():
    eager = started(*RUN, "2", *EXAMPLE)
    assert eager.count("0x") == 6
    assert started(*RUN, "2", *EXAMPLE, flags="--auto_jit=2 --cpu_global_jit") == eager
    assert started(*RUN, "2", *EXAMPLE, "--compile") == eager
    assert started(*EXAMPLE) != eager


def test_a_program_for_torchrun(tmp_path):
    script = [str(Path(__file__).parent / "torch_ddp_script.py"), str(tmp_path / "model.pt")]
    # PyTorch 2.13 prints this under torchrun.
    want = "1.163394 [(0, True), (1, True)]\n"
    assert started("-m", "minitensor.as_torch", "--children", "-m", "torch.distributed.run", "--nproc_per_node=2",
                   *script) == want  # fmt: skip
