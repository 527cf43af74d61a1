"""Every public name says what it is."""

import importlib
import inspect
import pkgutil

import pytest

import minitensor as mt
import minitensor_jit

# Names that stand for values, which have no docstring of their own.
VALUES = (mt.dtype, int, float, str, bool, tuple, list, dict, type(None))


def modules(package):
    yield package.__name__
    for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        # Importing this one would make `torch` mean minitensor in the tests that follow; ruff reads its docstrings.
        if info.name == "minitensor.as_torch" or info.name.endswith(("_C", "__main__")):
            continue
        if info.ispkg:
            yield from modules(importlib.import_module(info.name))
        else:
            yield info.name


def has_docstring(thing):
    return bool((getattr(thing, "__doc__", None) or "").strip())


def own_members(cls):
    """The public methods and properties that a class defines itself."""
    for name, member in vars(cls).items():
        # What a factory makes by the dozen, such as a builder's LLVM instructions, is documented as a whole.
        if name.startswith("_") or isinstance(member, VALUES) or "<locals>" in getattr(member, "__qualname__", ""):
            continue
        if isinstance(member, staticmethod | classmethod):
            member = member.__func__
        if callable(member) or isinstance(member, property) or inspect.isgetsetdescriptor(member):
            yield name, member


def overrides_documented(cls, name):
    return any(has_docstring(vars(base)[name]) for base in cls.__mro__[1:] if name in vars(base))


@pytest.mark.parametrize("name", [*modules(mt), *modules(minitensor_jit)])
def test_modules(name):
    module = importlib.import_module(name)
    missing = [] if has_docstring(module) else [name]
    for attribute, thing in vars(module).items():
        if attribute.startswith("_") or getattr(thing, "__module__", None) != name:
            continue
        if (inspect.isclass(thing) or inspect.isfunction(thing)) and not has_docstring(thing):
            missing.append(f"{name}.{attribute}")
        if inspect.isclass(thing):
            missing += [
                f"{name}.{attribute}.{method}"
                for method, member in own_members(thing)
                if not has_docstring(member) and not overrides_documented(thing, method)
            ]
    assert missing == []


def exported():
    names = {name: getattr(mt, name) for name in dir(mt) if not name.startswith("_")}
    names |= {f"jit.{name}": getattr(minitensor_jit, name) for name in minitensor_jit.__all__}
    return {name: thing for name, thing in names.items() if not isinstance(thing, VALUES) and name != "annotations"}


def test_exported_names():
    assert [name for name, thing in exported().items() if not has_docstring(thing)] == []


@pytest.mark.parametrize("cls", [mt.Tensor, mt.dtype, mt.device, mt.Size, mt._C.CompiledFunction])
def test_classes_of_the_extension(cls):
    assert has_docstring(cls)
    assert [name for name, member in own_members(cls) if not has_docstring(member)] == []


def test_functions_of_the_extension():
    functions = {name: thing for name, thing in vars(mt._C).items() if inspect.isbuiltin(thing)}
    assert [name for name, thing in functions.items() if not has_docstring(thing)] == []


def test_every_op_has_a_signature():
    wrong = [name for name, row in mt.ops.ROWS.items() if not inspect.signature(row.call).parameters]
    assert wrong == []


# What docstrings say of errors: a call that makes each of them.
ERRORS = {
    "matmul": [
        ("RuntimeError", lambda: mt.ones(2, 3) @ mt.ones(2, 3)),
        ("RuntimeError", lambda: mt.matmul(mt.tensor(1.0), mt.ones(2))),
    ],
    "sum": [("IndexError", lambda: mt.ones(2).sum(3))],
    "topk": [("RuntimeError", lambda: mt.ones(2).topk(3)), ("IndexError", lambda: mt.ones(2).topk(1, dim=3))],
    "cat": [
        ("RuntimeError", lambda: mt.cat([mt.ones(2, 3), mt.ones(2, 2)])),
        ("ValueError", lambda: mt.cat([])),
        ("IndexError", lambda: mt.cat([mt.ones(2), mt.ones(2)], dim=2)),
    ],
    "where": [
        ("RuntimeError", lambda: mt.where(mt.ones(2) > 0, mt.ones(3), mt.ones(3))),
        ("RuntimeError", lambda: mt.where(mt.ones(2), mt.ones(2), mt.ones(2))),
    ],
    "zeros": [("RuntimeError", lambda: mt.zeros(-1))],
    "rand": [("NotImplementedError", lambda: mt.rand(2, dtype=mt.int64)), ("RuntimeError", lambda: mt.rand(-1))],
    "randn": [("NotImplementedError", lambda: mt.randn(2, dtype=mt.bool)), ("RuntimeError", lambda: mt.randn(-1))],
    "linalg.svd": [
        ("RuntimeError", lambda: mt.linalg.svd(mt.ones(2, 2, dtype=mt.int64))),
        ("LinAlgError", lambda: mt.linalg.svd(mt.full((2, 2), float("nan")))),
    ],
    "Tensor.backward": [
        ("RuntimeError", lambda: mt.ones(2, requires_grad=True).mul(2).backward()),
        ("RuntimeError", lambda: mt.tensor(1.0).backward()),
    ],
    "nn.LayerNorm": [("RuntimeError", lambda: mt.nn.LayerNorm(3)(mt.ones(2, 4)))],
    "nn.Conv2d": [("RuntimeError", lambda: mt.nn.Conv2d(3, 4, 3)(mt.ones(1, 2, 8, 8)))],
}


@pytest.mark.parametrize("name", ERRORS)
def test_docstrings_name_the_errors(name):
    thing = mt
    for part in name.split("."):
        thing = getattr(thing, part)
    doc = inspect.getdoc(thing)
    for error, call in ERRORS[name]:
        assert error in doc
        with pytest.raises((RuntimeError, ValueError, LookupError)) as caught:
            call()
        assert type(caught.value).__name__ == error
