"""The example with Keras: what it prints compiled is what it prints eagerly, and its train step is one program."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
pytestmark = pytest.mark.skipif(importlib.util.find_spec("keras") is None, reason="Keras is not installed")
SHORT = ["--epochs", "3", "--images", "150", "--batch_size", "16", "--verbose", "2"]
# What the example does, and then how many calls of its train step had a program.
COUNTED = """
import runpy, sys, keras
models, compiled = [], keras.Model.compile
keras.Model.compile = lambda self, *args, **named: (models.append(self), compiled(self, *args, **named))[1]
path = sys.argv[1]
sys.argv = sys.argv[1:]
try:
    runpy.run_path(path, run_name="__main__")
except SystemExit as end:
    assert not end.code
print(f"with a program: {getattr(models[0].train_function, 'hits', None)}", file=sys.stderr)
"""


def run(tmp_path, *arguments):
    (tmp_path / "counted.py").write_text(COUNTED)
    command = [sys.executable, "-m", "minitensor.as_torch", tmp_path / "counted.py", ROOT / "examples/keras_mnist.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KERAS_BACKEND": "torch", "MT_JIT_FLAGS": ""}
    done = subprocess.run([*command, *SHORT, *arguments], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return re.sub(r" - \d+\w+ - \d+\w+/step", "", done.stdout), done.stderr


def test_compiled_gives_what_eager_gives(tmp_path):
    model = tmp_path / "model.keras"
    compiled, counted = run(tmp_path, "--model", "mlp", "--save", model)
    eager, _ = run(tmp_path, "--model", "mlp", "--save", model, "--eager")
    assert compiled == eager
    assert "gives the same scores: True" in compiled
    assert compiled.count("val_accuracy") == 3
    # 9 steps an epoch, of which the last is a smaller one; those until it is clear what is compiled are recorded.
    assert int(re.search(r"with a program: (\d+)", counted)[1]) >= 8
