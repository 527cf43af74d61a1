"""The type stubs name what is there: no more and no less."""

import ast
import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import minitensor as mt

PACKAGE = Path(mt.__file__).parent
# What the interpreter gives every module and class, or the stub says by way of inheritance.
IMPLIED = {*dir(object), "__module__", "__dict__", "__weakref__", "__dir__", "__annotations__", "__slotnames__"}


def names(body):
    found = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            found.add(node.target.id)
        elif isinstance(node, ast.Assign):
            found.update(target.id for target in node.targets)
    return found


def stub(name):
    return ast.parse((PACKAGE / name).read_text()).body


def public(found):
    return {name for name in found if not name.startswith("_")}


def test_the_extension():
    described = names(stub("_C.pyi"))
    actual = {name for name in vars(mt._C) if not name.startswith("__")}
    assert public(described) == public(actual)


@pytest.mark.parametrize("node", [n for n in stub("_C.pyi") if isinstance(n, ast.ClassDef)], ids=lambda n: n.name)
def test_classes_of_the_extension(node):
    cls = getattr(mt._C, node.name, None)
    if cls is None:
        assert node.name.startswith("_")
        return
    described, actual = names(node.body), set(vars(cls))
    assert described - actual - IMPLIED - {"__buffer__", "__new__"} == set()
    assert actual - described - IMPLIED - {"__get__", "__text_signature__", "__release_buffer__"} == set()


def test_the_package():
    described, stars = set(), []
    for node in stub("__init__.pyi"):
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            stars.append(node.module)
        elif isinstance(node, ast.ImportFrom):
            described.update(alias.asname for alias in node.names if alias.asname)
        else:
            described |= names([node])
    for module in stars:
        described |= set(__import__(module, fromlist=["__all__"]).__all__)
    actual = {
        name
        for name in dir(mt)
        # Modules are there because somebody imported them; the stub names those that are meant to be used.
        if not name.startswith("_") and (not inspect.ismodule(getattr(mt, name)) or name in described)
    }
    assert public(described) == actual - {"annotations"}


def test_methods_take_what_the_stub_says():
    tensor = next(n for n in stub("_C.pyi") if isinstance(n, ast.ClassDef) and n.name == "Tensor")
    wrong = []
    for node in tensor.body:
        method = vars(mt.Tensor).get(getattr(node, "name", ""))
        if not isinstance(node, ast.FunctionDef) or node.decorator_list or not inspect.isfunction(method):
            continue
        actual = list(inspect.signature(method).parameters.values())
        if any(p.kind is p.VAR_KEYWORD for p in actual):
            continue
        arguments = [*node.args.posonlyargs, *node.args.args]
        described = [a.arg for a in arguments] + [a.arg for a in node.args.kwonlyargs]
        named = [p.name for p in actual if p.kind is not p.VAR_POSITIONAL]
        if described[1:] != named[1:] and not node.name.startswith("__"):
            wrong.append((node.name, described, named))
    assert wrong == []


@pytest.mark.parametrize("script", ["generate_functions", "generate_stubs"])
def test_what_is_generated_is_up_to_date(script):
    script = PACKAGE.parent / "scripts" / script
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"run {script}\n{done.stdout}{done.stderr}"


def test_a_stale_list_of_functions_is_noticed(tmp_path):
    # Also where a row is gone, so that the package can't be imported.
    shutil.copytree(PACKAGE, tmp_path / "minitensor", symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "scripts").mkdir()
    script = shutil.copy(PACKAGE.parent / "scripts/generate_functions", tmp_path / "scripts")
    listed = tmp_path / "minitensor/_functions/offered.py"
    right = listed.read_text()
    listed.write_text(right + "\ngone = ops.elementwise.gone\n")
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "minitensor/_functions/offered.py is out of date\n"), done.stderr
    assert subprocess.run([sys.executable, script], cwd=tmp_path).returncode == 0
    assert listed.read_text() == right
