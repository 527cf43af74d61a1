"""Random programs about the edges of autograd, step by step in PyTorch and here.

Functions, views, writes in place, hooks, modes, checkpoints, copies: after each step everything that can be seen of
each tensor is compared, and so is the class of an exception. What differs is printed as the smallest script that does.

    python tests/fuzz_autograd.py 5000 --seed 1 --jobs 2
"""

from __future__ import annotations

import argparse
import copy
import math
import os
import pickle
import random
import warnings
from typing import Any

import fuzz_autograd_functions as functions

# What PyTorch refuses and this library does right: a program ends there.
REFUSED_THERE = (
    "Such functions do not allow the output views to be modified inplace",
    "backward through the graph a second time",  # it saves more
    "INTERNAL ASSERT",
    "output 0 of Mul, is at version",  # of x.mul_(y), where y shows part of x
)


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


def same(a: Any, b: Any) -> bool:
    """Whether both say the same; numbers may differ by rounding."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-8) or (a != a and b != b)
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
                if here != there:
                    error = ours.error if here else theirs.error
                    return at, f"{line}\n# raises {here or 'nothing'} here, {there or 'nothing'} there: {error}"
                seen = theirs.seen()
                if any(about.get("leaf") == "refused" for about in seen.values() if isinstance(about, dict)):
                    return None
                found = difference(ours.seen(), seen)
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


def shrink(program: Program, fails: Any) -> Program:
    """The smallest program that still fails, dropping one line after the other."""
    lines = list(program.lines)
    size = max(1, len(lines) // 2)
    while size:
        at = 0
        changed = False
        while at < len(lines):
            fewer = lines[:at] + lines[at + size :]
            if fails(Program(fewer)):
                lines, changed = fewer, True
            else:
                at += size
        size = size if changed and size == 1 else size // 2
    return Program(lines)


def _is(what: str, tensor: Any) -> bool:
    try:
        if what == "wants":
            return bool(tensor.requires_grad)
        if what == "leaf":
            return tensor.is_leaf and tensor.requires_grad
        if what == "grad":
            return tensor.is_leaf and tensor.grad is not None
        if what == "inner":
            return tensor.grad_fn is not None
        if what == "free":  # may be written in place
            return not (tensor.is_leaf and tensor.requires_grad)
        return True
    except RuntimeError:  # a view whose base was written to
        return False


class Maker:
    """Draws programs; runs them in PyTorch meanwhile, to know what there is."""

    def __init__(self, seed: int, torch: Any, length: int = 14) -> None:
        self.random = random.Random(seed)
        self.torch, self.length = torch, length
        self.run = Run(torch)
        self.lines: list[str] = []
        self.count = self.hooks = self.functions = 0
        self.known: list[tuple[str, int, int]] = []  # of functions: name, arguments, results
        # Each program is about a few things.
        kinds = [getattr(self, name) for name in dir(self) if name.startswith("make_")]
        weights = [self.random.choice([0.2, 1, 1, 4]) for _ in kinds]
        self.kinds, self.weights = kinds, weights

    def program(self) -> Program:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                for _ in range(self.random.randint(1, 3)):
                    self.add(self.make_leaf())
                while len(self.lines) < self.length:
                    line = self.random.choices(self.kinds, self.weights)[0]()
                    if line is not None:
                        self.add(self.in_mode(line))
                self.add(f"{self.a('wants')}.sum().backward(retain_graph=True)")
            finally:
                reset(self.torch)
        return Program(self.lines)

    def add(self, line: str) -> None:
        self.lines.append(line)
        self.run.step(line)

    def in_mode(self, line: str) -> str:
        if "\n" in line or self.random.random() > 0.15:
            return line
        if any(text in line for text in ("copy.", "pickle.", "Parameter", "detach_", "requires_grad")):
            return f"with T.no_grad():\n    {line}"
        modes = [
            "T.no_grad()", "T.no_grad()", "T.no_grad()", "T.enable_grad()", "T.inference_mode()",
            "T.set_grad_enabled(False)",
            "T.no_grad(), T.enable_grad()", "T.inference_mode(), T.inference_mode(False)",
        ]  # fmt: skip
        return f"with {self.random.choice(modes)}:\n    {line}"

    # ---- what there is

    def new(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def a(self, what: str = "", shape: Any = None, dtype: Any = None) -> str:
        """The name of a tensor, if possible one that is as asked for."""
        held = self.run.tensors()
        if not held:
            self.add(self.make_leaf())
            held = self.run.tensors()
        names = list(held)
        if self.random.random() > 0.05:
            names = [n for n in names if _is(what, held[n])] or names
            if shape is not None:
                names = [n for n in names if tuple(held[n].shape) == tuple(shape)] or names
        return self.random.choice(names[-6:] if self.random.random() < 0.5 else names)

    def like(self, name: str) -> str:
        return self.a(shape=self.run.names[name].shape)

    def like_exactly(self, name: str) -> str:
        """Of the same dtype and shape too; itself, if there is no other."""
        wanted = self.run.names[name]
        held = self.run.tensors()
        return self.random.choice([n for n in held if held[n].dtype == wanted.dtype and held[n].shape == wanted.shape])

    def number(self) -> str:
        return self.random.choice(["2", "3", "0.5", "-1", "1.5"])

    # ---- steps

    def make_leaf(self) -> str:
        shape = self.random.choice([(2, 3), (2, 3), (3,), (3,), (2, 2), (6,), (), (1,), (1, 3)])
        count = math.prod(shape)
        values = [self.random.choice([1.0, 2.0, 3.0, -1.0, 0.5, 4.0]) for _ in range(count)]
        dtype = self.random.choice(["float64"] * 5 + ["float32"])
        made = f"T.tensor({values}, dtype=T.{dtype})"
        if shape != (count,):
            made += f".view({shape if shape else '()'})"
        kind = self.random.random()
        name = self.new()
        if kind < 0.55:
            return f"{name} = {made}.detach().requires_grad_()"
        if kind < 0.75:
            return f"{name} = T.nn.Parameter({made}.detach())"
        return f"{name} = {made}.detach()"

    def make_op(self) -> str:
        a = self.a("wants")
        b = self.like(a)
        forms = [
            f"{a} * {b}", f"{a} + {b}", f"{a} - {b}", f"{a} * {self.number()}", f"{a} * {a}", f"{a}.exp()", f"-{a}",
            f"{a}.sum()", f"{a}.clone()", f"{a} ** 2", f"T.cat([{a}, {b}])",
            f"{a}.tanh()",
            f"T.stack([{a}, {b}])", f"{a}.double()", f"{a}.float()", f"{a}.sum(0)", f"{a}.mean()", f"T.zeros_like({a})",
            f"{a}.contiguous()", f"{a}.relu()", f"{a}.sigmoid()",
        ]  # fmt: skip
        return f"{self.new()} = {self.random.choice(forms)}"

    def make_view(self) -> str:
        a = self.a(self.random.choice(["", "wants", "free"]))
        b = self.like(a)
        name = self.new()
        forms = [
            f"{name} = {a}[0]", f"{name} = {a}[1:]", f"{name} = {a}[..., 0]", f"{name} = {a}.t()",
            f"{name} = {a}.view(-1)",
            f"{name} = {a}.view_as({b})", f"{name} = {a}.view_as({a})", f"{name} = {a}.expand(2, *{a}.shape)",
            f"{name} = {a}.unsqueeze(0)", f"{name} = {a}.select(0, 0)", f"{name} = {a}.detach()", f"{name} = {a}.data",
            f"{name} = {a}.flatten()", f"{name} = {a}.squeeze()", f"{name} = {a}.reshape(-1)",
            f"{name} = {a}.narrow(0, 0, 1)",
            f"{name} = {a}.diagonal()", f"{name} = {a}.T", f"{name} = {a}.unfold(0, 2, 1)",
            f"{name} = {a}.as_strided((2,), (1,))",
            f"{name} = {a}.expand_as({b})", f"{name} = {a}[:]", f"{name} = {a}[None]", f"{name} = {a}.contiguous()",
            f"{name} = {a}.to(T.float64)", f"{name} = {a}.alias() if hasattr({a}, 'alias') else {a}.view_as({a})",
        ]  # fmt: skip
        if self.random.random() < 0.25:
            other = self.new()
            forms = [
                f"{name}, {other} = {a}.split(1)", f"{name}, {other} = {a}.unbind(0)",
                f"{name}, {other} = {a}.chunk(2)",
                f"{name}, {other} = {a}[:2]", f"{name}, {other} = {a}", f"{name}, {other} = {a}.tensor_split(2)",
                f"{name}, {other} = T.split({a}, [1, 1])", f"{name}, {other} = {a}.unbind(-1)",
            ]  # fmt: skip
        return self.random.choice(forms)

    def make_inplace(self) -> str:
        a = self.a("free")
        b = self.like(a)
        forms = [
            f"{a}.mul_({self.number()})", f"{a}.mul_({b if b != a else 3})", f"{a}.add_({b})", f"{a}.copy_({b})",
            f"{a}.zero_()",
            f"{a}.fill_(3)",
            f"{a}[0] = 5", f"{a}[0] = {b}[0]", f"{a} += {b}", f"{a} *= 2", f"{a}.sigmoid_()",
            f"{a}.clamp_(0)",
             f"{a}[1:] *= 2", f"{a}.neg_()", f"{a}[{a} > 1] = 0", f"{a}.masked_fill_({a} > 1, 2)",
            f"{a}.sub_({b}.detach())", f"{a}.index_fill_(0, T.tensor([0]), 2)", f"{a}.exp_()", f"{a}.view(-1).mul_(2)",
        ]  # fmt: skip
        return self.random.choice(forms)

    def make_inplace_shape(self) -> str:
        a = self.a("free")
        forms = [f"{a}.t_()", f"{a}.unsqueeze_(0)", f"{a}.squeeze_()", f"{a}.transpose_(0, -1)"]
        return self.random.choice(forms)

    def make_flag(self) -> str:
        a = self.a()
        forms = [
            f"{a}.detach_()", f"{a}.requires_grad_()", f"{a}.requires_grad_(False)", f"{a}.requires_grad = True",
            f"{a}.requires_grad = False",
        ]  # fmt: skip
        return self.random.choice(forms)

    def make_data(self) -> str:
        a = self.a(self.random.choice(["", "leaf", "wants"]))
        b = self.like(a)
        forms = [
            f"{a}.data = {self.like_exactly(a)}", f"{a}.data = {self.like_exactly(a)}.detach().clone()",
            f"{a}.data.mul_(2)", f"{a}.data -= 1",
            f"{a}.data[0] = 7",
            f"{a}.data.copy_({b})",
            f"{a}.data = {a}.data * 2",
            f"{a}.detach().mul_(2)", f"{self.new()} = {a}.data", f"{a}.data = {self.like_exactly(a)}.data",
            f"{a}.data.zero_()",
        ]  # fmt: skip
        return self.random.choice(forms)

    def make_grad(self) -> str:
        a = self.a("grad")
        b = self.like(a)
        forms = [
            f"{a}.grad = None", f"{a}.grad = {b}", f"{a}.grad.zero_()", f"{a}.grad.mul_(2)", f"{self.new()} = {a}.grad",
            f"{a}.grad = {b}.detach().clone()", f"{a}.grad = {b}.grad", f"{a}.grad.detach_()", f"del {a}.grad",
            f"{a}.grad = {a}.grad * 2", f"{a}.grad.data.zero_()",
        ]  # fmt: skip
        return self.random.choice(forms)

    def make_mode(self) -> str | None:
        return None

    def make_function(self) -> str | None:
        self.functions += 1
        name = f"F{self.functions}"
        text, arguments, results = functions.draw(self.random, name)
        self.known.append((name, arguments, results))
        self.lines.append(text)
        self.run.step(text)
        return self.make_apply()

    def make_apply(self) -> str | None:
        if not self.known:
            return None
        name, arguments, results = self.random.choice(self.known)
        first = self.a(self.random.choice(["wants", "wants", "free", ""]))
        given = [
            first,
            *(self.random.choice([first, self.like(first), self.like(first), "2.0"]) for _ in range(arguments - 1)),
        ]
        targets = ", ".join(self.new() for _ in range(results)) or self.new()
        return f"{targets} = {name}.apply({', '.join(given)})"

    make_apply_again = make_apply

    def make_hook(self) -> str:
        self.hooks += 1
        h = f"h{self.hooks}"
        a = self.a("wants")
        note = f"log.append(('{h}', g.detach().clone()))"
        notes = f"log.append(('{h}', [x is not None and x.detach().clone() for x in g]))"
        both = f"log.append(('{h}', [x is not None and x.detach().clone() for x in (*i, *o)]))"
        tripled = "None if x is None else x * 3"
        forms = [
            f"{h} = {a}.register_hook(lambda g: {note})",
            f"{h} = {a}.register_hook(lambda g: ({note}, g * 2)[1])",
            f"{h} = {a}.register_hook(lambda g: g.detach() + 1)",
            f"{h} = {self.a('leaf')}.register_post_accumulate_grad_hook(lambda t: log.append(('{h}', t.grad.clone())))",
            f"{h} = {self.a('leaf')}.register_post_accumulate_grad_hook(lambda t: setattr(t, 'grad', None))",
            f"{h} = {self.a('leaf')}.register_post_accumulate_grad_hook(lambda t: t.data.sub_(t.grad))",
            f"{h} = {self.a('inner')}.grad_fn.register_hook(lambda i, o: {both})",
            f"{h} = {self.a('inner')}.grad_fn.register_prehook(lambda g: {notes})",
            f"{h} = {self.a('inner')}.grad_fn.register_prehook(lambda g: tuple({tripled} for x in g))",
            f"{h} = {self.a('inner')}.grad_fn.register_hook(lambda i, o: tuple({tripled} for x in i))",
            f"h{self.random.randint(1, self.hooks)}.remove()",
            f"h{self.random.randint(1, self.hooks)}.remove()",
            f"{self.a('inner')}.retain_grad()",
            f"{self.a('inner')}.retain_grad()",
        ]  # fmt: skip
        return self.random.choice(forms)

    def make_backward(self) -> str:
        a = self.a("wants")
        b, c = self.a("wants"), self.a("wants")
        rest = self.random.choice(
            ["", "", "retain_graph=True", "retain_graph=True", "retain_graph=True", "create_graph=True"]
        )
        forms = [
            f"{a}.sum().backward({rest})", f"{a}.sum().backward({rest})",
            f"({a} * {self.like(a)}).sum().backward({rest})",
            f"{a}.backward({self.like(a)}{', ' * bool(rest)}{rest})",
            f"{a}.backward(T.ones_like({a}){', ' * bool(rest)}{rest})",
            f"T.autograd.backward([{a}.sum(), {b}.sum()]{', ' * bool(rest)}{rest})",
            f"{a}.sum().backward(inputs=[{b}]{', ' * bool(rest)}{rest})",
            f"{a}.sum().backward(inputs=[{b}, {c}]{', ' * bool(rest)}{rest})",
            f"({a}.sum() * 2 + {b}.sum()).backward({rest})",
        ]  # fmt: skip
        return self.random.choice(forms)

    make_backward_again = make_backward

    def make_grad_call(self) -> str:
        a, b, c = self.a("wants"), self.a("wants"), self.a("wants")
        rest = self.random.choice(
            ["", ", retain_graph=True", ", retain_graph=True", ", create_graph=True", ", create_graph=True"]
        )
        unused = self.random.choice(["", ", allow_unused=True", ", materialize_grads=True"])
        x, y = self.new(), self.new()
        forms = [
            f"{x}, = T.autograd.grad({a}.sum(), {b}{rest}{unused})",
            f"{x}, {y} = T.autograd.grad({a}.sum(), [{b}, {c}]{rest}{unused})",
            f"{x}, = T.autograd.grad({a}, {b}, T.ones_like({a}){rest}{unused})",
            f"{x}, = T.autograd.grad({a}, {b}, {self.like(a)}.detach(){rest}{unused})",
        ]  # fmt: skip
        return self.random.choice(forms)

    def make_checkpoint(self) -> str:
        name, arguments = self.random.choice(functions.CHECKPOINTED)
        first = self.a("wants")
        given = [first, *(self.like(first) for _ in range(arguments - 1))]
        reentrant = self.random.choice(["True", "False", "False"])
        call = f"T.utils.checkpoint.checkpoint({name}, {', '.join(given)}, use_reentrant={reentrant})"
        return f"{functions.CHECKPOINT_IMPORT}\n{functions.SOURCES[name]}\n{self.new()} = {call}"

    def make_copy(self) -> str:
        a, b = self.a(self.random.choice(["leaf", "grad", ""])), self.a(self.random.choice(["leaf", "grad", ""]))
        x, y = self.new(), self.new()
        forms = [
            f"{x} = copy.deepcopy({a})", f"{x}, {y} = copy.deepcopy(({a}, {b}))",
            f"{x}, {y} = copy.deepcopy([{a}, {a}.data])",
            f"{x} = copy.copy({a})", f"{x} = pickle.loads(pickle.dumps({a}))",
            f"{x}, {y} = pickle.loads(pickle.dumps(({a}, {b})))",
            f"{x}, {y} = copy.deepcopy(({a}, {a}))", f"{x}, {y} = copy.deepcopy(({a}.detach(), {a}.detach()[0]))",
            f"{a}.tag = [{a}.detach()]\n{x} = copy.deepcopy({a})\n{y} = {x}.tag[0]",
            f"{x} = T.nn.Parameter({a})", f"{x} = T.nn.Parameter({a}.detach(), {b}.requires_grad)",
        ]  # fmt: skip
        return self.random.choice(forms)


def check(seed: int, torch: Any, length: int) -> tuple[Program, str] | None:
    """What one drawn program shows, with the smallest that shows something."""
    program = Maker(seed, torch, length).program()
    found = compare(program, torch)
    if found is not None:
        small = shrink(Program(program.lines[: found[0] + 1]), lambda p: compare(p, torch) is not None)
        again = compare(small, torch)
        return small, again[1] if again else found[1]
    return None


def check_recorded(seed: int, torch: Any, length: int) -> tuple[Program, str] | None:
    """The same for the program recorded, against eager."""
    program = Maker(seed, torch, length).program()
    found = compare_recorded(program)
    if found is None:
        return None
    small = shrink(program, lambda p: compare_recorded(p) is not None)
    return small, compare_recorded(small) or found


def in_a_child(seeds: list[int], work: Any) -> None:
    """Runs it for the seeds in a process of its own, so that a crash is one program's."""
    todo = list(seeds)
    while todo:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            for seed in todo:
                os.write(write, b".")
                work(seed)
            os._exit(0)
        os.close(write)
        begun = 0
        while got := os.read(read, 4096):
            begun += len(got)
        os.close(read)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) == 0:
            return
        print(f"seed {todo[begun - 1]}: the process ended with {os.waitstatus_to_exitcode(status)}", flush=True)
        todo = todo[begun:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("programs", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--length", type=int, default=14)
    parser.add_argument("--recorded", action="store_true", help="compare recorded runs with eager ones")
    args = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    one = check_recorded if args.recorded else check

    def work(seed: int) -> None:
        found = one(seed, torch, args.length)
        if found is not None:
            print(f"#### seed {seed}\n{found[0].text()}\n# {found[1]}\n", flush=True)

    step = 50
    for first in range(args.seed, args.seed + args.programs, step):
        in_a_child(list(range(first, min(first + step, args.seed + args.programs))), work)
    print(f"{args.programs} programs", flush=True)


if __name__ == "__main__":
    main()
