"""Draws the programs of `programs.py`."""

from __future__ import annotations

import math
import random
import warnings
from typing import Any

from fuzz.autograd import functions
from fuzz.autograd.runs import Program, Run, reset


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
        if what == "node":  # parts of a tensor have a node together there, each its own here, and stack is made of cat
            return tensor.grad_fn is not None and not tensor.grad_fn.name().startswith(("Split", "Unbind", "Stack"))
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

    def share_memory(self, a: str, b: str) -> bool:
        """Whether one shows the other: PyTorch keeps y of x.mul_(y) as it will be, and refuses to use it."""
        x, y = self.run.names[a], self.run.names[b]
        return x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()

    def with_node(self) -> str:
        """One whose node may get hooks; any if there is none."""
        names = [name for name, held in self.run.tensors().items() if _is("node", held)]
        return self.random.choice(names) if names else self.a("leaf")

    def a_wanted(self) -> str:
        """One whose gradient is asked for: no part, for which the node of all parts is asked there."""
        names = [name for name, held in self.run.tensors().items() if _is("wants", held)]
        names = [name for name in names if _is("leaf", self.run.names[name]) or _is("node", self.run.names[name])]
        return self.random.choice(names) if names and self.random.random() > 0.05 else self.a("leaf")

    def may_get_data(self, name: str) -> bool:
        """Whether PyTorch takes other data for that.

        A view is still one of its base there, and of a result that a node has saved it takes writes to the new data
        as those to the old.
        """
        tensor = self.run.names[name]
        return tensor._base is None and tensor.grad_fn is None

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
            f"{name} = {a}.diagonal()", f"{name} = {a}.T", f"{name} = {a}.unfold(0, 2, 2)",
            f"{name} = {a}.as_strided((2,), (1,))",
            f"{name} = {a}.expand_as({b})", f"{name} = {a}[:]", f"{name} = {a}[None]", f"{name} = {a}.contiguous()",
            f"{name} = {a}.to(T.float64)",
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
            f"{a}.mul_({self.number()})", f"{a}.mul_({3 if self.share_memory(a, b) else b})",
            f"{a}.add_({b})", f"{a}.copy_({b})",
            f"{a}.zero_()",
            f"{a}.fill_(3)",
            f"{a}[0] = 5", f"{a}[0] = {b}[0]", f"{a} += {b}", f"{a} *= 2", f"{a}.sigmoid_()",
            f"{a}.clamp_(0)",
             f"{a}[1:] *= 2", f"{a}.neg_()", f"{a}[{a} > 1] = 0", f"{a}.masked_fill_({a} > 1, 2)",
            f"{a}.sub_({b}.detach())", f"{a}.index_fill_(0, T.tensor([0]), 2)", f"{a}.exp_()", f"{a}.view(-1).mul_(2)",
        ]  # fmt: skip
        return self.random.choice(forms)

    def make_inplace_shape(self) -> str | None:
        a = self.a("free")
        if self.run.names[a].retains_grad:
            return None  # PyTorch stores the gradient of what it was, in the old shape
        if _is("leaf", self.run.names[a]) or any(f"{a}.requires_grad" in line for line in self.lines):
            return None  # gradients of a leaf's older results have the old shape, which PyTorch fails to lay out
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
        if not self.may_get_data(a):
            return f"{a}.data.mul_(2)"
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
        # PyTorch tells hooks of tensors also that there is no gradient.
        note = f"g is not None and log.append(('{h}', g.detach().clone()))"
        # Without those that are None: an assignment to a part is another op here, of other operands.
        notes = f"log.append(('{h}', [x.detach().clone() for x in g if x is not None]))"
        both = f"log.append(('{h}', [x.detach().clone() for x in (*i, *o) if x is not None]))"
        tripled = "None if x is None else x * 3"
        forms = [
            f"{h} = {a}.register_hook(lambda g: ({note}, None)[1])",
            f"{h} = {a}.register_hook(lambda g: ({note}, None if g is None else g * 2)[1])",
            f"{h} = {a}.register_hook(lambda g: None if g is None else g.detach() + 1)",
            f"{h} = {self.a('leaf')}.register_post_accumulate_grad_hook(lambda t: log.append(('{h}', t.grad.clone())))",
            f"{h} = {self.a('leaf')}.register_post_accumulate_grad_hook(lambda t: setattr(t, 'grad', None))",
            f"{h} = {self.a('leaf')}.register_post_accumulate_grad_hook(lambda t: t.data.sub_(t.grad))",
            f"{h} = {self.with_node()}.grad_fn.register_hook(lambda i, o: {both})",
            f"{h} = {self.with_node()}.grad_fn.register_prehook(lambda g: {notes})",
            f"{h} = {self.with_node()}.grad_fn.register_prehook(lambda g: tuple({tripled} for x in g))",
            f"{h} = {self.with_node()}.grad_fn.register_hook(lambda i, o: tuple({tripled} for x in i))",
            f"h{self.random.randint(1, self.hooks)}.remove()",
            f"h{self.random.randint(1, self.hooks)}.remove()",
            f"{self.a('inner')}.retain_grad()",
            f"{self.a('inner')}.retain_grad()",
        ]  # fmt: skip
        return self.random.choice(forms)

    def make_backward(self) -> str:
        a = self.a("wants")
        b, c = self.a_wanted(), self.a_wanted()
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
        a, b, c = self.a("wants"), self.a_wanted(), self.a_wanted()
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
