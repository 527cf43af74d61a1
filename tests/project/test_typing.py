"""What a type checker, `help()` and the documentation's generator see."""

import inspect
import pydoc
import re
import subprocess
import sys

import pytest

import minitensor as mt

TENSORS = """
x + x; 2 * x; x @ x; -x; x[0]; x == x; x.T
x.sum(); x.sum(dim=0); x.mean(0, True); x.reshape(3, 1); x.view(3, 1); x.transpose(0, 1); x.float(); x.detach()
x.softmax(0); x.topk(2).indices; x.max(0).values; x.add_(1); x.masked_fill(x > 0, 1); x.norm()
mt.exp(x); mt.stack([x, x]); mt.cat([x, x]); mt.zeros(3); mt.tensor([1.0]); mt.where(x > 0, x, x); mt.einsum("i->", x)
mt.matmul(x, x); mt.diff(x); mt.linalg.inv(x); mt.linalg.norm(x); mt.fft.fft(x); mt.special.erf(x)
F.relu(x); F.softmax(x, 0); F.cross_entropy(x, x); F.linear(x, x); F.conv2d(x, x); F.mse_loss(x, x)
""".replace("\n", ";")
OTHERS = {"mt.allclose(x, x)": "bool", "x.equal(x)": "bool", "x.numel()": "int", "x.grad": "Tensor | None"}
MISTAKES = ["x.sum(dimm=1)", "mt.zeros(3, dtypee=1)", "F.relu(x, foo=1)", "mt.linalg.inv(x, y=1)", "x.diff(m=1)"]


def revealed(tmp_path, lines):
    """What mypy says of each line."""
    file = tmp_path / "program.py"
    head = ["import minitensor as mt", "import minitensor.nn.functional as F", "x = mt.zeros(3)"]
    file.write_text("\n".join([*head, *lines]))
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--no-error-summary",
        "--cache-dir",
        str(tmp_path),
        "--follow-imports=silent",
    ]
    run = subprocess.run([*command, str(file)], capture_output=True, text=True, check=False)
    said = {}
    for line, what in re.findall(r"program\.py:(\d+): (.*)", run.stdout):
        said.setdefault(int(line) - 4, what)
    assert not run.stderr, run.stderr
    return [said.get(k, "") for k in range(len(lines))]


@pytest.mark.exhaustive
def test_types(tmp_path):
    tensors = [e.strip() for e in TENSORS.split(";") if e.strip()]
    lines = [f"reveal_type({e})" for e in [*tensors, *OTHERS]] + MISTAKES
    said = revealed(tmp_path, lines)
    wanted = ["Tensor"] * len(tensors) + list(OTHERS.values())
    for line, what, want in zip(lines, said, wanted, strict=False):
        found = re.sub(r"\b(builtins|minitensor\._C)\.", "", what)
        assert found == f'note: Revealed type is "{want}"', f"{line}: {what}"
    for line, what in zip(MISTAKES, said[len(wanted) :], strict=True):
        assert "nexpected keyword argument" in what, f"{line}: {what}"


def test_help_shows_what_a_function_does():
    missing = []
    for place in (mt, mt.Tensor, mt.nn.functional, mt.linalg, mt.fft, mt.special):
        for name in dir(place):
            thing = getattr(place, name)
            if name.startswith("_") or not callable(thing) or inspect.isclass(thing):
                continue
            text = pydoc.render_doc(thing, renderer=pydoc.plaintext)
            if not (thing.__doc__ and thing.__doc__.strip().splitlines()[0] in text):
                missing.append(f"{place.__name__}.{name}")
    assert missing == []


def test_signatures_of_bound_methods():
    """Binding drops the first parameter, which makes a signature anew."""
    assert list(inspect.signature(mt.zeros(2).diff).parameters) == ["n", "dim", "prepend", "append", "out"]
    assert list(inspect.signature(mt.zeros(2).addmm_).parameters)[:2] == ["mat1", "mat2"]
