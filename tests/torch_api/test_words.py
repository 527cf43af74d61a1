"""What programs print when something is wrong, under the alias: PyTorch's words, names and warnings."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
STORED = HERE / "words.json"  # what words.py printed with PyTorch 2.13.0


def _said(*python):
    ran = subprocess.run([*python, HERE / "words.py", STORED], capture_output=True, text=True, env=_ENVIRONMENT)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


_ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def _differences(found):
    stored = json.loads(STORED.read_text())
    return {call: (found[call], said) for call, said in stored.items() if found[call] != said}


def test_errors_and_warnings_have_pytorchs_words():
    assert not _differences(_said(sys.executable, "-m", "minitensor.as_torch"))


def test_what_is_stored_is_what_pytorch_says():
    pytest.importorskip("torch")
    assert not _differences(_said(sys.executable))


def test_warnings_show_the_line_of_the_user(tmp_path):
    calls = [
        "torch.tensor(torch.ones(2))", "torch.meshgrid(torch.ones(1))", "torch.ones(2, 2, 2).T",
        "torch.ones(2).storage()",
        "torch.jit.trace(abs, torch.ones(1))", "torch.stft(torch.ones(8), 4, return_complex=True)",
    ]  # fmt: skip
    program = tmp_path / "program.py"
    program.write_text("\n".join(["import torch", *calls]) + "\n")
    command = [sys.executable, "-W", "always", "-m", "minitensor.as_torch", program]
    ran = subprocess.run(command, capture_output=True, text=True, env=_ENVIRONMENT)
    assert ran.returncode == 0, ran.stderr
    places = [line.split(": ")[0] for line in ran.stderr.splitlines() if line.startswith(str(program))]
    assert places == [f"{program}:{number}" for number in range(2, len(calls) + 2)]


def test_details_and_names_are_minitensors_without_the_alias():
    code = (
        "import warnings; warnings.simplefilter('error'); import minitensor as mt; from minitensor import scripting\n"
        "mt.tensor(mt.ones(2)), mt.meshgrid(mt.ones(1)), mt.ones(2).storage(), scripting.script(lambda: 1)\n"
        "print(type(mt.ones(1)))\n"
        "try: mt.ones(2, 3) + mt.ones(4)\n"
        "except RuntimeError as error: print(error)\n"
        "try: mt.ones(2, 3).expand(3)\n"
        "except RuntimeError as error: print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=_ENVIRONMENT)
    assert ran.stdout.splitlines() == [
        "<class 'minitensor.Tensor'>",
        "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1; "
        "shapes [2, 3] and [4]",
        "expand(minitensor.FloatTensor{[2, 3]}, size=[3]): the number of sizes provided (1) must be greater or equal "
        "to the number of dimensions in the tensor (2)",
    ], ran.stderr
