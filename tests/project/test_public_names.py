"""Every public function is pickled by the name under which users find it, whatever it is made of."""

import ast
import contextlib
import copy
import multiprocessing
import pickle
import sys
import types
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import ModuleType

import pytest

import minitensor as mt
import minitensor.compat.v1
import minitensor.distributed
from minitensor._functions.public_names import named, public_name
from minitensor.utils.data import DataLoader, Dataset

FORMS = (type(mt.tanh), type(mt.add))


def modules():
    """All public modules that are reached from the package; what a module needs may not be installed."""
    found, wanted = {}, [mt]
    while wanted:
        module = wanted.pop()
        if module.__name__ in found or module.__name__.partition(".")[0] != "minitensor":
            continue
        found[module.__name__] = module
        for name in getattr(module, "__all__", None) or dir(module):
            with contextlib.suppress(ImportError):
                if not name.startswith("_") and isinstance(thing := getattr(module, name), ModuleType):
                    wanted.append(thing)
    return [found[name] for name in sorted(found)]


def functions(module):
    """Of what users call, functions in C++ or Python."""
    for name in getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]:
        thing = getattr(module, name)
        if isinstance(thing, (*FORMS, type(modules))):
            yield name, thing


def not_the_same(owner):
    def comes_back(function, protocol):
        try:
            return pickle.loads(pickle.dumps(function, protocol)) is function
        except (pickle.PicklingError, AttributeError, ImportError):
            return False

    return [name for name, function in functions(owner) for protocol in (2, 5) if not comes_back(function, protocol)]


def test_every_public_function_comes_back_as_itself():
    assert len(walked := modules()) > 100
    assert {module.__name__: names for module in walked if (names := not_the_same(module))} == {}


def bound_by(module):
    """The public names that the source of a module binds: by imports of ours, definitions and assignments."""
    for statement in ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body:
        match statement:
            case ast.ImportFrom(module=str(source), names=[ast.alias(name="*")]):
                yield from sys.modules[source].__all__
            case ast.ImportFrom(module=str(source), names=names) if source.partition(".")[0] == "minitensor":
                yield from (each.asname or each.name for each in names)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))


@pytest.mark.parametrize(("module", "own"), [(minitensor.distributed, set()), (minitensor.compat.v1, {"initializers"})])
def test_everything_public_is_in_the_list(module, own):
    public = {name for name in bound_by(module) if not name.startswith("_")}
    assert len(module.__all__) == len(set(module.__all__)) > 90
    assert set(module.__all__) == public - own


def test_every_method_comes_back_as_itself():
    assert sum(1 for _ in functions(mt.Tensor)) > 500
    assert not_the_same(mt.Tensor) == []


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (mt.linalg.cholesky, ("minitensor.linalg", "cholesky")),
        (mt.special.i1, ("minitensor.special", "i1")),
        (mt.absolute_, ("minitensor", "absolute_")),
        (mt.nn.init.eye_, ("minitensor.nn.init", "eye_")),
        (mt.nn.functional.relu, ("minitensor.nn.functional", "relu")),
        (mt.Tensor.add_, ("minitensor", "Tensor.add_")),
    ],
)
def test_the_name_is_the_public_one(function, name):
    assert public_name(function) == name
    assert copy.copy(function) is function
    assert copy.deepcopy([function])[0] is function


def test_a_function_that_nobody_finds_is_an_error():
    hidden = mt._C.out_form(len, len)
    with pytest.raises(pickle.PicklingError, match="can't pickle the function len: it has no public name"):
        pickle.dumps(hidden)


def test_a_function_that_left_its_place_is_found_in_another(monkeypatch):
    place = ModuleType("minitensor.a_place_of_its_own")
    place.length = mt._C.out_form(len, len)
    monkeypatch.setitem(sys.modules, place.__name__, place)
    assert pickle.loads(pickle.dumps(place.length)) is place.length
    place.size = place.length
    del place.length
    assert pickle.loads(pickle.dumps(place.size)) is place.size


class Transformed(Dataset):
    """Samples made by functions that a spawned worker has to find."""

    steps = (mt.linalg.vector_norm, mt.special.expit, mt.absolute, mt.Tensor.exp)

    def __init__(self):
        self.functions = self.steps

    def __len__(self):
        return len(self.functions)

    def __getitem__(self, index):
        assert self.functions[index] is self.steps[index]
        return self.functions[index](mt.tensor([3.0, -4.0])).sum()


@pytest.mark.at_once(reason="processes have recordings of their own")
def test_spawned_workers_find_the_functions():
    context = multiprocessing.get_context("spawn")
    loader = DataLoader(Transformed(), num_workers=1, multiprocessing_context=context)
    expected = [Transformed()[i].item() for i in range(len(Transformed()))]
    assert [batch.item() for batch in loader] == expected


def test_pickling_looks_into_no_other_modules(monkeypatch):
    # As pickle does for a function without a module: modules that warn of themselves then end a loader's worker.
    class Warns(types.ModuleType):
        def __getattr__(self, name):
            if not name.startswith("__"):
                raise AssertionError(f"asked for {name}")
            raise AttributeError(name)

    monkeypatch.setitem(sys.modules, "a_module_that_warns", Warns("a_module_that_warns"))
    for thing in (
        mt.ones(3),
        mt.add,
        mt.nn.functional.relu,
        mt.float32,
        mt.nn.Linear(1, 1),
        mt.Generator(),
        mt.strided,
    ):
        for dumps in (pickle.dumps, ForkingPickler.dumps):
            assert dumps(thing)


@pytest.mark.parametrize("name", ["fft", "linalg", "nn.functional", "nn.init"])
def test_every_function_refuses_what_is_no_tensor_as_pytorch_does(name):
    """By their checked form, in which each is entered where it is defined or offered."""
    offered = named("minitensor", name)
    plain = [key for key in offered.__all__ if type(getattr(offered, key)) is types.FunctionType]
    assert plain == []
