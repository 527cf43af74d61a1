"""The examples on raw tensors: what they find, the same bits clustered, and PyTorch's losses at every step."""

import os
import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
SHORT = {
    "char_lm": ["--steps", "12", "--batch_size", "4", "--context", "16", "--width", "16", "--sample", "20"],
    "convnet": ["--steps", "12", "--batch_size", "16"],
    "curve_fit": ["--steps", "12", "--points", "60"],
}


def run(name, *arguments, **environment):
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", *arguments],
        capture_output=True, text=True, env={**ENVIRONMENT, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", SHORT)
def test_clustered_gives_the_same_bits(name):
    arguments = [*SHORT[name], "--print_losses"]
    eager = run(name, *arguments, MT_JIT_FLAGS="")
    assert len(re.findall(r"^0x", eager, re.MULTILINE)) == 12
    assert run(name, *arguments, MT_JIT_FLAGS="--auto_jit=2 --cpu_global_jit") == eager
    assert run(name, *arguments, MT_JIT_FLAGS="--auto_jit=2 --cpu_global_jit", MT_NUM_THREADS="1") == eager


@pytest.mark.parametrize("name", SHORT)
def test_most_of_it_is_compiled(name):
    flags = "--auto_jit=2 --cpu_global_jit --explain"
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", *SHORT[name]], capture_output=True, text=True,
        env={**ENVIRONMENT, "MT_JIT_FLAGS": flags},
    )  # fmt: skip
    share = float(re.search(r"([\d.]+) % compiled", done.stderr)[1])
    assert share > 80, done.stderr


def test_the_language_model_beats_counting_pairs():
    text = run("char_lm", "--steps", "250")
    model, pairs = (float(re.search(rf"{what}.*: +([\d.]+)", text)[1]) for what in ("bits per", "by the freq"))
    assert pairs == pytest.approx(3.548, abs=1e-3)
    assert model < 3.2


def test_the_network_reads_digits():
    accuracy = float(re.search(r"held-back images: ([\d.]+)", run("convnet"))[1])
    assert accuracy > 0.92


def test_the_fit_finds_the_curve():
    found = re.findall(r"(\w+): +(-?[\d.]+) \+- ([\d.]+)  \(true: (-?[\d.]+)\)", run("curve_fit"))
    assert [name for name, *_ in found] == ["amplitude", "decay", "frequency", "phase", "offset"]
    for name, value, error, true in found:
        assert abs(float(value) - float(true)) < 4 * float(error), name


def test_ops_of_the_user_s():
    text = run("custom_op")
    assert "kernel, shape, lowering and gradient agree" in text
    assert "[0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0]" in text
    assert re.search(r"cluster_\d+: 4 ops.*\n.*squared_relu", text)
    assert "gives no lowering to HLO" in text


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("char_lm", ["--steps", "0"]), ("convnet", ["--batch_size", "0"]), ("curve_fit", ["--points", "3"])],
)
def test_wrong_arguments(name, arguments):
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", *arguments], capture_output=True, text=True, env=ENVIRONMENT
    )
    assert done.returncode == 2
    assert "must be" in done.stderr


def losses(name, arguments, library):
    """The losses of an example that runs on `library`."""
    source = (EXAMPLES / f"{name}.py").read_text()
    source = re.sub(r"\bminitensor\b", library, source)
    module = types.ModuleType(f"{name}_on_{library}")
    module.__file__ = str(EXAMPLES / f"{name}.py")
    exec(compile(source, f"{name}.py on {library}", "exec"), module.__dict__)
    shown = []
    module.print = lambda *values: shown.append(" ".join(map(str, values)))
    module.main([*arguments, "--print_losses"])
    return [float.fromhex(line) for line in shown if line.lstrip("-").startswith("0x")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SHORT)
def test_pytorch_s_losses(name):
    pytest.importorskip("torch")
    arguments = {**SHORT, "char_lm": ["--steps", "60", "--sample", "0"], "convnet": ["--steps", "60"], "curve_fit": []}[
        name
    ]
    ours, theirs = losses(name, arguments, "minitensor"), losses(name, arguments, "torch")
    assert len(ours) == len(theirs) > 0
    tolerance = 1e-8 if name == "curve_fit" else 2e-4
    assert np.allclose(ours, theirs, rtol=tolerance, atol=0), np.abs(np.array(ours) / theirs - 1).max()
