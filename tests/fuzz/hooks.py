"""Programs whose hooks, functions and seeds give what they should not, and code that runs where nobody expects it.

`python tests/fuzz/hooks.py FIRST COUNT` runs COUNT programs of each sort. The graphs are run by PyTorch as well, where
it can be imported: the same gradients, the same hooks called with the same, or an error of the same class. The others
must end without a crash and without a SystemError.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import random
import sys
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import minitensor as mt

# ---- graphs


def given_instead(lib: Any, like: Any, choice: str) -> Any:
    """What a hook, a function or a caller gives for a gradient like `like`."""
    shape = tuple(like.shape)
    return {
        "none": lambda: None,
        "good": lambda: lib.full(shape, 2.0, dtype=like.dtype),
        "same": lambda: like,
        "view": lambda: like.view(shape),
        "expanded": lambda: lib.ones((), dtype=like.dtype).expand(shape),
        "double": lambda: lib.ones(shape, dtype=lib.float64),
        "half": lambda: lib.ones(shape, dtype=lib.float16),
        "ints": lambda: lib.ones(shape, dtype=lib.int64),
        "bools": lambda: lib.ones(shape, dtype=lib.bool),
        "complex": lambda: lib.ones(shape, dtype=lib.complex64),
        "meta": lambda: lib.ones(shape, device="meta"),
        "more": lambda: lib.ones((2, *shape)),
        "fewer": lambda: lib.ones(shape[1:]),
        "other": lambda: lib.ones((7,)),
        "empty": lambda: lib.ones((0,)),
        "int": lambda: 1,
        "str": lambda: "gradient",
        "list": lambda: [like],
        "tuple": lambda: (like,),
        "pair": lambda: (like, None),
        "nothing": lambda: (),
        "nones": lambda: (None,),
        "raise": lambda: 1 // 0,
    }[choice]()


CHOICES = [
    "none", "good", "same", "view", "expanded", "double", "half", "ints", "bools", "complex", "meta", "more", "fewer",
    "other", "empty", "int", "str", "list", "tuple", "pair", "nothing", "nones", "raise",
]  # fmt: skip
LIKELY = ["none", "good", "same", "expanded"]


class Plan:
    """The decisions of one program: the same for whoever runs it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.steps = [self._step() for _ in range(self.random.randint(2, 6))]
        self.seed = self._given() if self.random.random() < 0.5 else None
        if self.seed == "pair":
            self.seed = "good"  # of more seeds than roots PyTorch drops some
        self.end = self.random.choice(["backward", "backward", "inputs", "inputs", "grad", "twice"])
        self.wanted = [self.random.randrange(8) for _ in range(self.random.randint(1, 3))]
        self.create_graph = self.random.random() < 0.2
        self.retain = self.random.random() < 0.5

    def _given(self) -> str:
        return self.random.choice(LIKELY if self.random.random() < 0.6 else CHOICES)

    def _step(self) -> tuple[Any, ...]:
        return (
            self.random.choice(["scale", "add", "product", "exp", "part", "row", "function", "expand", "write"]),
            self.random.randrange(8),
            self.random.randrange(8),
            self._given(),
            [
                (self.random.choice(["tensor", "pre", "post", "retain", "leaf", "stored", "leaf pre"]), self._given())
                for _ in range(self.random.choice([0, 0, 1, 1, 2]))
            ],
        )


def function_of(lib: Any, given: str) -> Any:
    class Odd(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 3

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return given_instead(lib, gradient, given)

    return Odd


def values(tensor: Any) -> Any:
    if tensor is None or not hasattr(tensor, "tolist"):
        return type(tensor).__name__
    if tensor.device.type == "meta":
        return "meta", tuple(tensor.shape)
    return str(tensor.dtype).split(".")[-1], tuple(tensor.shape), tensor.detach().double().reshape(-1).tolist()


def run_plan(lib: Any, plan: Plan) -> list[Any]:
    seen: list[Any] = []
    edges = importlib.import_module(lib.__name__ + ".autograd.graph").get_gradient_edge
    leaves = [lib.tensor([1.0, 2.0, 3.0], requires_grad=True), lib.tensor([0.5, 0.25, 2.0], requires_grad=True)]
    made = list(leaves)
    nodes = []  # which PyTorch drops with the last reference, and their hooks too

    def replaced(gradient: Any, given: str, whole: bool, after: bool = False) -> Any:
        if gradient is None:
            return None  # PyTorch tells hooks of tensors also that there is no gradient
        # What a node has computed beyond what anybody wants is not compared, nor how many operands it has.
        seen.append(
            "after" if after else [values(g) for g in gradient] if isinstance(gradient, tuple) else values(gradient)
        )
        if not whole:
            return given_instead(lib, gradient, given)
        if given == "nones":
            return (None,) * len(gradient)
        if given in ("none", "nothing", "pair", "raise", "int", "str", "list"):
            return given_instead(lib, lib.ones(3), given)
        return tuple(None if g is None else given_instead(lib, g, given) for g in gradient)

    for kind, first, second, given, hooks in plan.steps:
        a, b = made[first % len(made)], made[second % len(made)]
        if kind == "scale":
            result = a * 2
        elif kind == "add":
            result = a + b
        elif kind == "product":
            result = a * b
        elif kind == "exp":
            result = (a * 0.125).exp()
        elif kind == "part":
            result = a[..., :1] * b
        elif kind == "row":
            result = a.reshape(-1)[0] + b
        elif kind == "expand":
            result = a.expand(2, *a.shape).sum(0)
        elif kind == "write":
            result = a * 1
            result[..., 0] = 5.0
        else:
            result = function_of(lib, given).apply(a)
        for hook, what in hooks:
            leaf = leaves[first % 2]
            if hook == "tensor":
                result.register_hook(lambda g, what=what: replaced(g, what, False))
            elif hook == "pre":
                result.grad_fn.register_prehook(lambda g, what=what: replaced(g, what, True))
            elif hook == "post":
                result.grad_fn.register_hook(lambda after, before, what=what: replaced(after, what, True, True))
            elif hook == "retain":
                result.retain_grad()
            elif hook == "leaf":
                leaf.register_hook(lambda g, what=what: replaced(g, what, False))
            elif hook == "stored":
                leaf.register_post_accumulate_grad_hook(lambda t: seen.append(("stored", values(t.grad))))
            else:
                nodes.append(edges(leaf).node)
                nodes[-1].register_prehook(lambda g, what=what: replaced(g, what, True))
        made.append(result)
    root = made[-1] if plan.seed else made[-1].sum()
    seed = given_instead(lib, root.detach(), plan.seed) if plan.seed else None
    wanted = [made[i % len(made)] for i in plan.wanted]
    options = {"create_graph": plan.create_graph}
    if plan.end == "grad":
        found = lib.autograd.grad(root, wanted, seed, allow_unused=True, **options)
        seen.append([values(g) for g in found])
    elif plan.end == "inputs":
        root.backward(seed, inputs=wanted, **options)
    else:
        root.backward(seed, retain_graph=plan.end == "twice", **options)
        if plan.end == "twice":
            root.backward(seed, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kept = [values(t.grad) if t.is_leaf or t.retains_grad else None for t in made]
    addresses = [t.grad.data_ptr() for t in leaves if t.grad is not None and t.grad.device.type == "cpu"]
    assert len(set(addresses)) == len(addresses), "leaves share one gradient"
    return [*seen, kept]


def outcome(lib: Any, seed: int) -> Any:
    try:
        return run_plan(lib, Plan(seed))
    except Exception as error:
        if isinstance(error, (SystemError, AssertionError)):
            raise
        return type(error).__name__


def close(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= 1e-4 * max(abs(a), abs(b)) or (a != a and b != b)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def compare_graphs(first: int, count: int) -> list[str]:
    """The programs whose outcome is another one than PyTorch's; without PyTorch they only run."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        torch = None
    differ = []
    for seed in range(first, first + count):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours = outcome(mt, seed)
            theirs = outcome(torch, seed) if torch else ours
        if not close(ours, theirs):
            differ.append(f"{seed}: {ours} instead of {theirs}")
    return differ


# ---- code where nobody expects it


class Broken:
    """Each of its answers is an error, or a wrong one, or changes the tensors at hand."""

    def __init__(self, rng: random.Random, tensors: list[Any]) -> None:
        self._rng, self._tensors = rng, tensors

    def _act(self, *args: Any, **kwargs: Any) -> Any:
        rng = self._rng
        if rng.random() < 0.5:
            tensor = rng.choice(self._tensors)
            with contextlib.suppress(Exception):
                tensor.data = mt.ones([rng.randrange(4) for _ in range(rng.randrange(4))])
        what = rng.choice([0, 1, -1, 2**63, 2**70, 1.5, "no", None, (), [1], raise_error, raise_error])
        return what() if callable(what) else what

    __index__ = __int__ = __float__ = __complex__ = __bool__ = __len__ = __getitem__ = __iter__ = __array__ = _act
    __dlpack__ = __dlpack_device__ = __torch_function__ = __add__ = __radd__ = __mul__ = __eq__ = __call__ = _act  # type: ignore[assignment]
    __array_interface__ = __cuda_array_interface__ = property(_act)
    __hash__ = object.__hash__


def raise_error() -> Any:
    raise LookupError("broken")


class Garbage:
    """A finalizer in a cycle: it runs with the garbage collector, in the middle of something else."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self.act, self.cycle = act, self
        self.seen = weakref.ref(self, lambda _: act())

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.act()


METHODS = [
    "sum", "mean", "max", "sort", "topk", "view", "reshape", "expand", "permute", "transpose", "select", "narrow",
    "unfold", "split", "chunk", "unbind", "tolist", "item", "numpy", "size", "stride", "repeat", "roll", "flip",
    "gather", "index_select", "scatter", "masked_fill", "where", "clamp", "add", "mul", "pow", "fill_", "copy_", "add_",
    "set_", "resize_", "register_hook", "retain_grad", "backward", "requires_grad_", "to", "type", "new_full",
    "__getitem__", "__iter__", "__repr__", "__len__", "__bool__", "__index__", "__dlpack__", "__array__", "as_strided",
    "movedim", "tensor_split", "cumsum", "quantile", "var", "norm", "squeeze", "unsqueeze", "flatten", "unflatten",
]  # fmt: skip
FUNCTIONS = [
    "tensor", "as_tensor", "ones", "full", "arange", "linspace", "cat", "stack", "einsum", "where", "from_dlpack",
    "broadcast_to", "meshgrid", "searchsorted", "bincount", "histc", "tensordot", "block_diag", "cartesian_prod",
]  # fmt: skip


def run_broken(seed: int) -> None:
    rng = random.Random(seed)
    tensors = [mt.ones(3, 4), mt.arange(6.0).requires_grad_(), mt.ones(2, 3, dtype=mt.int64), mt.ones(())]
    broken = Broken(rng, tensors)

    def swap() -> None:
        tensor = rng.choice(tensors)
        tensor.data = mt.ones([rng.randrange(5) for _ in range(rng.randrange(5))], dtype=tensor.dtype)

    def argument() -> Any:
        return rng.choice(
            [broken, broken, 0, -1, 2, None, rng.choice(tensors), slice(broken, None), [0, broken], (broken,), "abc",
             mt.float64, lambda g: broken, True]
        )  # fmt: skip

    threshold = gc.get_threshold()
    gc.freeze()  # what is there already would be gone through at every allocation
    try:
        for _ in range(rng.randint(3, 12)):
            if rng.random() < 0.7:
                Garbage(swap)
            if rng.random() < 0.6:
                gc.set_threshold(rng.randint(1, 9))
            holder: Any = rng.choice(tensors) if rng.random() < 0.7 else mt
            name = rng.choice(FUNCTIONS if holder is mt else METHODS)
            arguments = [argument() for _ in range(rng.randrange(4))]
            named = (
                {rng.choice(["dim", "out", "dtype", "keepdim", "size", "input"]): argument()}
                if rng.random() < 0.3
                else {}
            )
            try:
                result = getattr(holder, name)(*arguments, **named)
                if isinstance(result, mt.Tensor) and result.numel() < 100:
                    tensors.append(result)
                    result.note = rng.choice(tensors)
                    result.tolist()
            except SystemError:
                raise
            except Exception:
                continue
            finally:
                gc.set_threshold(*threshold)
    finally:
        gc.set_threshold(*threshold)
    tensors.clear()
    gc.collect()


def main() -> None:
    first, count = (int(text) for text in (sys.argv[1:] or ["0", "300"]))
    warnings.simplefilter("ignore")
    differ = compare_graphs(first, count)
    print("\n".join(differ), flush=True)
    for seed in range(first, first + count):
        print(f"\rbroken {seed}", end="", flush=True)
        run_broken(seed)
    print(f"\n{count} graphs, {len(differ)} differ; {count} broken programs")


if __name__ == "__main__":
    main()
