"""Programs of `programs.py` run step by step, and what of two runs differs."""

from __future__ import annotations

import copy
import math
import pickle
import re
import warnings
from typing import Any

# What PyTorch refuses and this library does right: a program ends there.
REFUSED_THERE = (
    "Such functions do not allow the output views to be modified inplace",
    "backward through the graph a second time",  # it saves more
    "INTERNAL ASSERT",
    "output 0 of Mul, is at version",  # of x.mul_(y), where y shows part of x
    "some elements of the input tensor and the written-to tensor",
)
# What is refused here: gradients of mean() are one number, expanded.
REFUSED_HERE = "more than one element of the written-to tensor refers to a single memory location"
# What PyTorch has done by halves when it refuses: a program ends there.
HALF_DONE = ("Inplace update to inference tensor outside InferenceMode",)


class Program:
    """Lines of Python, each a step, over a module `T`."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def text(self, module: str = "minitensor") -> str:
        """A script that runs it alone."""
        head = ["import contextlib", "import copy", "import pickle", "", f"import {module} as T", "", "log = []"]
        return "\n".join([*head, *(f"with contextlib.suppress(Exception):\n{_indented(line)}" for line in self.lines)])


def _indented(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())


class Run:
    """What one framework has made of the steps so far."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.log: list[Any] = []
        self.sets_data = False
        self.first_versions: dict[int, int] = {}
        self.kept: list[Any] = []  # so that an id stays one tensor's
        self.names: dict[str, Any] = {"T": module, "copy": copy, "pickle": pickle, "log": self.log, "__name__": "fuzz"}

    def step(self, line: str) -> str:
        """Runs one; the class of the exception that it raised."""
        self.sets_data |= ".data = " in line
        try:
            exec(line, self.names)
        except Exception as error:
            self.error = error
            # What held the tensors of its frames would keep them alive here and not there.
            error.__traceback__ = error.__context__ = error.__cause__ = None
            return type(error).__name__
        return ""

    def tensors(self) -> dict[str, Any]:
        """The variables that are tensors."""
        return {k: v for k, v in self.names.items() if k[0] == "v" and isinstance(v, self.module.Tensor)}

    def _relative(self, tensor: Any) -> dict[str, Any]:
        """What is to be seen of it; versions since it was seen first: copies begin with any."""
        about = _about(tensor)
        if id(tensor) not in self.first_versions:
            self.first_versions[id(tensor)] = about["version"]
            self.kept.append(tensor)
        # What `.data` was set of has another count than its older views here, and the same one there.
        about["version"] = 0 if self.sets_data else about["version"] - self.first_versions[id(tensor)]
        return about

    def seen(self) -> dict[str, Any]:
        """All that is compared."""
        held = self.tensors()
        result: dict[str, Any] = {}
        objects: dict[int, str] = {}
        memory: dict[int, str] = {}

        def identity(name: str, tensor: Any) -> tuple[str, str]:
            first = objects.setdefault(id(tensor), name)
            if not tensor.numel():
                return first, name
            return first, memory.setdefault(tensor.untyped_storage().data_ptr(), name)

        kept = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, tensor in held.items():
                about = self._relative(tensor) | dict(zip(("object", "memory"), identity(name, tensor), strict=True))
                base = tensor._base
                if base is not None and not (about["leaf"] is True and about["requires"]):
                    kept.append(base)
                    about["base"] = objects.get(id(base))  # None: one without a name
                else:
                    about["base"] = None
                result[name] = about
            for name, tensor in held.items():
                grad = tensor.grad
                if grad is not None:
                    kept.append(grad)
                    about = _about(grad)
                    del about["version"]  # whether it was added in place
                    both = identity(f"{name}.grad", grad)
                    result[f"{name}.grad"] = about | dict(zip(("object", "memory"), both, strict=True))
            result["log"] = [_logged(entry) for entry in self.log]
        return result


ABOUT: dict[str, Any] = {
    "type": lambda t: type(t).__name__,
    "dtype": lambda t: str(t.dtype).split(".")[-1],
    "shape": lambda t: tuple(t.shape),
    "stride": lambda t: [s for n, s in zip(t.shape, t.stride(), strict=True) if n > 1],
    "inference": lambda t: t.is_inference(),
    "version": lambda t: -1 if t.is_inference() else t._version,
    "requires": lambda t: t.requires_grad,
    "leaf": lambda t: t.is_leaf,
    "grad_fn": lambda t: t.grad_fn is not None,
    "values": lambda t: t.detach().tolist(),
}


def _about(tensor: Any) -> dict[str, Any]:
    return {name: _tried(look, tensor) for name, look in ABOUT.items()}


def _tried(look: Any, tensor: Any) -> Any:
    try:
        return look(tensor)
    except RuntimeError as error:
        return "refused" if any(text in str(error) for text in REFUSED_THERE) else "RuntimeError"


def _logged(entry: Any) -> Any:
    if hasattr(entry, "detach"):
        return "tensor", str(entry.dtype).split(".")[-1], tuple(entry.shape), entry.requires_grad, entry.tolist()
    if isinstance(entry, (tuple, list)):
        return [_logged(e) for e in entry]
    return entry


def largest(value: Any) -> float:
    """The largest of all numbers, at least 1."""
    if isinstance(value, (list, tuple)):
        return max(map(largest, value), default=1.0)
    return max(1.0, abs(value)) if isinstance(value, float) and math.isfinite(value) else 1.0


def same(a: Any, b: Any, least: float | None = None) -> bool:
    """Whether both say the same; numbers may differ by rounding, small ones by that of those beside them."""
    if least is None:
        # 1 - y * y of a float32 y is as exact as its numbers near 1.
        return same(a, b, 1e-6 * largest(b))
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y, least) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-5, abs_tol=least) or (a != a and b != b)
    return type(a) is type(b) and a == b


def difference(here: dict[str, Any], there: dict[str, Any]) -> str | None:
    """The first thing that two runs show differently."""
    for name in there:
        if name not in here:
            return f"{name} is only there: {there[name]}"
        if name == "log":
            if not same(here[name], there[name]):
                return f"log: {here[name]} here, {there[name]} there"
            continue
        for key in there[name]:
            if key == "stride" and not (here[name].get("base") and there[name].get("base")):
                continue  # results of kernels may lie otherwise
            if not same(here[name].get(key), there[name][key]):
                return f"{name}, {key}: {here[name].get(key)!r} here, {there[name][key]!r} there"
    extra = here.keys() - there.keys()
    return f"{min(extra)} is only here: {here[min(extra)]}" if extra else None


def shares_gradients(here: dict[str, Any], there: dict[str, Any]) -> bool:
    """Whether PyTorch stored as a gradient what shows the memory of another tensor, such as the one to start from."""
    names = [name for name in there if name.endswith(".grad") and name in here]
    return any(here[name]["memory"] == name != there[name]["memory"] for name in names)


def hidden(line: str, run: Run) -> bool:
    """Whether the step is about a view of what no name stands for.

    In PyTorch gradients of sums are, of one number, and made while nothing was recorded.
    """
    held = run.tensors()
    bases = [held[name]._base for name in re.findall(r"\bv\d+", line) if name in held]
    return any(base is not None and all(base is not one for one in held.values()) for base in bases)


def compare(program: Program, torch: Any) -> tuple[int, str] | None:
    """The first step after which the two differ, and in what."""
    import minitensor

    ours, theirs = Run(minitensor), Run(torch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for at, line in enumerate(program.lines):
                there, here = theirs.step(line), ours.step(line)
                if there and any(text in str(theirs.error) for text in REFUSED_THERE):
                    return None
                if there and not here and "A view was created in no_grad" in str(theirs.error) and hidden(line, theirs):
                    return None
                if here and not there and REFUSED_HERE in str(ours.error):
                    return None
                if here and there and any(text in str(theirs.error) for text in HALF_DONE):
                    return None
                if here != there:
                    error = ours.error if here else theirs.error
                    return at, f"{line}\n# raises {here or 'nothing'} here, {there or 'nothing'} there: {error}"
                seen = theirs.seen()
                if any(about.get("leaf") == "refused" for about in seen.values() if isinstance(about, dict)):
                    return None
                shown = ours.seen()
                if shares_gradients(shown, seen):
                    return None
                found = difference(shown, seen)
                if found is not None:
                    return at, f"{line}\n# {found}"
        finally:
            reset(minitensor)
            reset(torch)
    return None


def reset(module: Any) -> None:
    """A program may have left a mode on by an error."""
    module.set_grad_enabled(True)


def compare_recorded(program: Program) -> str | None:
    """What differs between an eager run and a recorded one, bit for bit."""
    import minitensor

    eager, recorded = Run(minitensor), Run(minitensor)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = [eager.step(line) for line in program.lines]
        with minitensor.jit_scope():
            second = [recorded.step(line) for line in program.lines]
        if first != second:
            return f"errors: {first} eager, {second} recorded"
        a, b = eager.seen(), recorded.seen()
        return None if repr(a) == repr(b) else difference(b, a) or f"{a} eager, {b} recorded"
