"""Every in-place method of Tensor beside PyTorch's: results, versions, histories, first and second gradients.

The calls are generated: forms of arguments times dtypes, sizes, and where the written tensor comes from. A sample is
drawn for each method by its name.
"""

import random
import warnings

import numpy as np
import pytest

import minitensor as mt

pytestmark = [pytest.mark.torch, pytest.mark.at_once("compares eager calls")]

DTYPES = ("float32", "float64", "int64", "bool", "complex64")
SHAPES = ((2, 3), (0, 3), ())
# A tensor to write: of no history, the result of an op, or a view of one.
WRITTEN = ("plain", "result", "view")

# What they leave is not defined, or not compared here: memory of its own, names, other layouts, Python functions.
LEFT_OUT = {
    "apply_", "map_", "map2_", "module_load_", "rename_", "requires_grad_", "resize_", "resize_as_",
    "resize_as_sparse_", "retain_grad_", "set_", "share_memory_", "sparse_resize_", "sparse_resize_and_clear_",
}  # fmt: skip
# docs/autograd.md: what PyTorch's gradients of these are.
NO_GRADIENTS = {
    "eq_", "ge_", "greater_", "greater_equal_", "gt_", "le_", "less_", "less_equal_", "lt_", "ne_", "not_equal_",
    "logical_and_", "logical_not_", "logical_or_", "logical_xor_", "ldexp_",
}  # fmt: skip
INDEX = ("index", [0, 1, 1])


def tensor(dtype, *shape):
    return ("tensor", dtype, shape)


def forms(name, dtype):
    """Arguments, most of which fit few methods: PyTorch says which."""
    full, other = tensor(dtype, 2, 3), tensor("float64", 2, 3)
    yield ()
    for number in (2, 0.5, -1, True, 0):
        yield (number,)
    for shape in ((2, 3), (3,), (2, 1), (), (0, 3), (4, 2, 3)):
        yield (tensor(dtype, *shape),)
    for of in DTYPES:
        yield (tensor(of, 2, 3),)
        yield (tensor(of),)
    yield (full, other)
    yield (tensor("bool", 2, 3), 2)
    yield (tensor("bool", 3), tensor(dtype))
    yield (tensor("bool", 2, 3), tensor(dtype, 6))
    yield (full, 0.25)
    yield (0, 1)
    for index in ([0], [0, 1], [1, 1]):
        yield (0, ("index", index), tensor(dtype, len(index), 3))
        yield (0, ("index", index), 2)
    yield (1, ("index", [[0, 1, 1], [1, 0, 0]]), full)
    yield (("index", [0, 5, -1]), tensor(dtype, 3), True)
    yield (tensor(dtype, 2, 4), tensor(dtype, 4, 3))
    yield (tensor(dtype, 5, 2, 4), tensor(dtype, 5, 4, 3))
    yield (tensor(dtype, 2), tensor(dtype, 3))
    yield (2, 0, 0.5)


def contents(dtype, shape, seed):
    draw = np.random.RandomState(seed)
    if dtype == "bool":
        return np.asarray(draw.rand(*shape) > 0.4)
    if dtype == "int64":
        return np.asarray(draw.randint(1, 6, size=shape))
    real = np.asarray(draw.rand(*shape) * 0.8 + 0.1)
    return (real + 1j * np.asarray(draw.rand(*shape)) if dtype == "complex64" else real).astype(dtype)


def made(lib, dtype, shape, seed):
    return lib.tensor(contents(dtype, shape, seed).tolist(), dtype=getattr(lib, dtype)).reshape(shape)


def wants_gradient(x):
    return x.is_floating_point() or x.is_complex()


def weighted(lib, x, seed):
    total = (x * made(lib, str(x.dtype).split(".")[-1], tuple(x.shape), seed)).sum()
    return total.real if total.is_complex() else total


def numbers(x):
    return None if x is None or not np.any(x.detach().numpy()) else x.detach().numpy()


def outcome(lib, name, dtype, shape, written, args):
    """What a call shows, or None where it is refused."""
    leaves = []

    def argument(form, seed):
        if not isinstance(form, tuple):
            return form
        if form[0] == "index":
            return lib.tensor(form[1])
        x = made(lib, *form[1:], seed)
        if written != "plain" and wants_gradient(x):
            leaves.append(x.requires_grad_())
        return x

    lib.manual_seed(3)
    given = [argument(form, 1 + i) for i, form in enumerate(args)]
    base = made(lib, dtype, (2, *shape) if written == "view" else shape, 0)
    target = base
    if written != "plain" and wants_gradient(base):
        leaves.append(base.requires_grad_())
        base = base * 1
        target = base[1] if written == "view" else base
    try:
        result = getattr(target, name)(*given)
    except (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError):
        return None
    shown = {
        "returned": result is target,
        "version": target._version,
        "history": (target.requires_grad, target.is_leaf, base.requires_grad),
        "values": target.detach().numpy(),
        "base": base.detach().numpy(),
    }
    if leaves and base.requires_grad and name not in NO_GRADIENTS:
        try:
            first = lib.autograd.grad(weighted(lib, base * base, 7), leaves, create_graph=True, allow_unused=True)
            shown["first"] = [numbers(g) for g in first]
            again = [weighted(lib, g, 8) for g in first if g is not None and g.requires_grad]
            if again:
                second = lib.autograd.grad(sum(again), leaves, allow_unused=True)
                shown["second"] = [numbers(g) for g in second]
        except (RuntimeError, NotImplementedError):
            pass  # not differentiable
    return shown


def comparable(shown, name, call):
    """Without what is meant to differ, or is not defined: histories of integers, derivatives where values are NaN."""
    left_out = set()
    if name in NO_GRADIENTS or call[0] in ("int64", "bool"):
        left_out.add("history")
    if not np.isfinite(shown["base"]).all():
        left_out |= {"first", "second"}
    return {what: value for what, value in shown.items() if what not in left_out}


def bound_of(call):
    dtype, _, _, args = call
    dtypes = {dtype, *(a[1] for a in args if isinstance(a, tuple) and a[0] == "tensor")}
    return 2e-4 if dtypes & {"float32", "complex64"} else 1e-9


def assert_alike(ours, theirs, what, bound):
    if isinstance(theirs, list):
        for one, other in zip(ours, theirs, strict=True):
            assert_alike(one, other, what, bound)
    elif isinstance(theirs, np.ndarray) and isinstance(ours, np.ndarray):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype), what
        np.testing.assert_allclose(ours, theirs, rtol=bound, atol=bound, err_msg=str(what))
    else:
        assert ours is None if theirs is None else ours == theirs, what


def methods():
    torch = pytest.importorskip("torch")
    return [
        name
        for name in sorted(dir(torch.Tensor))
        if name.endswith("_") and not name.startswith("_") and not name.endswith("__") and name not in LEFT_OUT
    ]


@pytest.fixture(autouse=True)
def pytorchs_numbers():
    before = mt.default_generator._save()
    mt.random.use("torch")
    try:
        yield
    finally:
        mt.random.use("philox")
        mt.default_generator._load(before)


@pytest.mark.parametrize("part", range(8))
def test_in_place_methods(part):
    torch = pytest.importorskip("torch")
    compared = 0
    for name in methods()[part::8]:
        if not hasattr(mt.Tensor, name):
            continue
        calls = [
            (dtype, shape, written, args)
            for dtype in DTYPES
            for shape in SHAPES
            for written in WRITTEN
            for args in forms(name, dtype)
        ]
        for call in random.Random(name).sample(calls, 30):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = outcome(torch, name, *call)
                ours = outcome(mt, name, *call)
            if theirs is None or ours is None:
                continue  # which calls are refused is compared in tests/ops/test_boundaries.py
            for what, value in comparable(theirs, name, call).items():
                assert what in ours, (name, *call, what)
                assert_alike(ours[what], value, (name, *call, what), bound_of(call))
            compared += 1
    assert compared > 25


def test_every_method_is_one_of_pytorchs():
    torch = pytest.importorskip("torch")
    ours = {name for name in dir(mt.Tensor) if not name.startswith("_")}
    # The array API wants one, and three are PyTorch's ops that its Tensor lacks.
    assert ours - set(dir(torch.Tensor)) == {"alias", "combinations", "slice", "to_device"}
