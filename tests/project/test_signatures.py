"""Parameters and defaults of public functions, classes and their methods, enumerations, forms of ops: PyTorch's."""

import enum
import importlib
import inspect
import warnings

import pytest

torch = pytest.importorskip("torch")

MODULES = (
    "", "amp", "autograd", "autograd.forward_ad", "autograd.function", "autograd.functional", "autograd.graph",
    "autograd.profiler", "cuda", "distributions", "distributions.constraints", "distributions.transforms", "fft",
    "func", "fx", "hub", "library", "linalg", "masked", "multiprocessing", "nn", "nn.attention",
    "nn.attention.flex_attention", "nn.functional", "nn.init", "nn.parallel", "nn.utils", "nn.utils.parametrizations",
    "nn.utils.parametrize", "nn.utils.prune", "nn.utils.rnn", "nn.utils.stateless", "optim", "optim.lr_scheduler",
    "optim.swa_utils", "overrides", "profiler", "random", "serialization", "signal.windows", "special", "testing",
    "utils.benchmark", "utils.checkpoint", "utils.data", "utils.data.datapipes.iter", "utils.data.datapipes.map",
    "utils.hooks", "utils.tensorboard",
)  # fmt: skip
_NONE = inspect.Parameter.empty
_ANY = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}

STORAGES = (
    "BFloat16", "Bool", "Byte", "Char", "ComplexDouble", "ComplexFloat", "Double", "Float", "Half", "Int",
    "Long", "Short",
)  # fmt: skip
# Parameters of PyTorch's that are not here.
LACKING = {
    "autograd.enable_grad": "orig_func",
    "autograd.graph.GradientEdge": "ownership_token",
    "autograd.graph.Node.": "self",
    "autograd.profiler.EventList.table": "time_unit",
    "autograd.profiler.FunctionEvent": "*",
    "autograd.profiler.profile": "metadata use_python_export group_by_overload_name post_processing_timeout_s "
    "activity_filters",
    "compile": "name recompile_limit isolate_recompiles shapes_spec",
    "cuda.Event": "external",
    "distributions.CorrCholeskyTransform.log_abs_det_jacobian": "intermediates",
    "distributions.transforms.CorrCholeskyTransform.log_abs_det_jacobian": "intermediates",
    "enable_grad": "orig_func",
    "distributions.constraints.": "*",  # classes there, functions here
    "fx.Graph.python_code": "*",
    "library.CustomOpDef": "*",
    "library.impl_abstract": "*",
    "multiprocessing.": "error_files error_pid",
    "nn.attention.flex_attention.BlockMask": "*",
    "nn.attention.flex_attention.create_block_mask": "compute_dq_write_order dq_kv_order",
    "Tensor.": "self other split_size",
    "profiler.": "post_processing_timeout_s use_python_export",
    "random.fork_rng": "_caller _devices_kw",
    "save": "_disable_byteorder_record",
    "serialization.save": "_disable_byteorder_record",
    "set_default_dtype": "d",
    **dict.fromkeys((f"{name}Storage" for name in STORAGES), "_internal"),
    "TypedStorage": "_internal",
    "TypedStorage.type": "dtype non_blocking",  # with which PyTorch's fails
    "utils.benchmark.select_unit": "t",
    "utils.benchmark.unit_to_english": "u",
    "utils.checkpoint.CheckpointFunction": "run_function preserve_rng_state",
}
# Other defaults, and other orders: the parameter, and why.
OTHERWISE = {
    "autograd.profiler.EventList.export_stacks": "metric: what profilers call it with",
    "compile": "backend: None is the one there is",
    "fx.Graph.placeholder": "default_value: any object that stands for none",
    "fx.Graph.python_code": "root_module: the one there can be",
    "fx.Node.replace_all_uses_with": "delete_user_cb: None is a function that says yes",
    "library.Library.impl": "allow_override: tests of implementations register them anew there",
    "library.define": "schema: is said by a function, too",
    "norm": "order: dtype and out, which are given by name",
    "optim.LBFGS.step": "closure: a missing one is another error",
    "testing.make_tensor": "device: there is one that is meant",
    "load": "weights_only: None is True",
    "random.fork_rng": "device_type: None is the one there is",
    "save": "pickle_module: None is its own pickler",
    "serialization.load": "weights_only: None is True",
    "serialization.save": "pickle_module: None is its own pickler",
    "split": "split_size_or_sections: has a second name, split_size",
    "utils.data.datapipes.map.Mapper": "fn: one that returns what it gets",
    "utils.checkpoint.checkpoint": "context_fn: None is a function that gives two contexts without effect",
}


def module(root, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(f"{root}.{name}" if name else root)
        except ImportError:
            return None


def signature(thing):
    try:
        return list(inspect.signature(thing).parameters.values())
    except (ValueError, TypeError):
        return None


def same_default(theirs, ours):
    if theirs is ours:
        return True
    if (inspect.isroutine(theirs) or inspect.isclass(theirs)) and ours is not _NONE:
        return getattr(theirs, "__name__", None) == getattr(ours, "__name__", "")
    if isinstance(theirs, torch.Generator):
        return type(ours).__name__ == "Generator"
    if type(theirs).__module__.startswith("torch") and not isinstance(theirs, tuple):
        return str(theirs).removeprefix("torch.") == str(ours).removeprefix("minitensor.")
    if isinstance(theirs, bool) is not isinstance(ours, bool):
        return False
    return theirs == ours or (theirs != theirs and ours != ours)


def differences(name, theirs, ours):
    """What is wrong with the parameters of one function."""
    a, b = signature(theirs), signature(ours)
    if a is None or b is None or all(p.kind in _ANY for p in a):
        return []
    expected = {p.name: p for p in a if p.kind not in _ANY}
    got = {p.name: p for p in b if p.kind not in _ANY}
    found = []
    lacking = " ".join(names for at, names in LACKING.items() if name.startswith(at)).split()
    if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in b) and "*" not in lacking:
        found += [f"{name} lacks {k}" for k in expected if k not in got and k not in lacking]
    if "*" in lacking:
        return found
    otherwise = OTHERWISE.get(name, "").partition(":")[0]
    for k, p in expected.items():
        if k in got and k != otherwise and not same_default(p.default, got[k].default):
            found.append(f"{name}: {k}={got[k].default!r}, not {p.default!r}")
    ordered = otherwise != "order"
    if ordered and [k for k in expected if k in got] != [k for k in got if k in expected]:
        found.append(f"{name}: {list(got)}, not {list(expected)}")
    return found


def functions(theirs, ours, name):
    """The function, or the class and its methods, in both."""
    if not inspect.isclass(theirs):
        yield name, theirs, ours
        return
    if not inspect.isclass(ours):
        return
    yield name, theirs, ours
    for one in vars(theirs):
        if not one.startswith("_") and inspect.isroutine(getattr(theirs, one, None)) and hasattr(ours, one):
            yield f"{name}.{one}", getattr(theirs, one), getattr(ours, one)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("where", MODULES, ids=lambda name: name or "top")
def test_signatures_are_pytorchs(where):
    if where == "utils.tensorboard":
        pytest.importorskip("tensorboard")  # PyTorch's module can't be imported without
    theirs, ours = module("torch", where), module("minitensor", where)
    assert theirs is not None
    assert ours is not None
    wrong, compared = [], 0
    for name in sorted(vars(theirs)):
        thing = getattr(theirs, name)
        of_torch = str(getattr(thing, "__module__", None)).startswith("torch") and callable(thing)
        again = where and name == "Tensor"  # modules import it
        if name.startswith("_") or not of_torch or not hasattr(ours, name) or again:
            continue
        for each in functions(thing, getattr(ours, name), f"{where}.{name}".lstrip(".")):
            wrong += differences(*each)
            compared += 1
    assert compared
    assert not wrong, "\n".join(wrong)


def members(kind):
    """The members of an enumeration, Python's or pybind11's, as numbers where they are that."""
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        found = {name: one.value for name, one in kind.__members__.items()}
    else:
        found = dict(getattr(kind, "__members__", {}))
    return {name: int(one) if hasattr(one, "__int__") else one for name, one in found.items()}


@pytest.mark.filterwarnings("ignore")
def test_enumerations_have_pytorchs_members():
    wrong, compared = [], 0
    for where in MODULES:
        theirs, ours = module("torch", where), module("minitensor", where)
        for name in vars(theirs):
            kind, other = getattr(theirs, name), getattr(ours, name, None)
            if not isinstance(kind, type) or not kind.__module__.startswith("torch") or not isinstance(other, type):
                continue
            expected, got = members(kind), members(other)
            if expected and got:
                compared += 1
                wrong += [f"{where}.{name}.{one}: {got[one]!r}" for one in got if expected.get(one) != got[one]]
    assert compared
    assert not wrong, "\n".join(wrong)


# Ops that are functions here, or methods, though PyTorch's are not: its aten ops of these names, or nn.functional's.
FUNCTIONS = {"alias", "expand", "nll_loss", "slice", "unfold"}
METHODS = {"_view_dtype", "alias", "slice"}


def test_ops_are_functions_and_methods_where_pytorchs_are():
    import minitensor as mt
    from minitensor import ops

    names = list(ops.ROWS)
    assert {name for name in names if hasattr(mt, name) and not hasattr(torch, name)} == FUNCTIONS
    assert {name for name in names if hasattr(mt.Tensor, name) and not hasattr(torch.Tensor, name)} == METHODS
    assert {name for name in names if hasattr(torch.Tensor, name) and not hasattr(mt.Tensor, name)} == set()
    written = {f"{name}_" for name in names}
    assert {name for name in written if hasattr(mt.Tensor, name) and not hasattr(torch.Tensor, name)} == set()
    lacking = {name for name in names if hasattr(torch, name) and not hasattr(mt, name)}
    assert {name for name in lacking if not name.startswith("_")} == {"batch_norm_stats"}  # a GPU's
