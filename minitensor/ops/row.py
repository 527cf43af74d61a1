"""The row of an op: its name, schema and rules, from which all else about it is derived.

A constructor gives the *kind*. Whether an op can be recorded, compiled or differentiated follows from the kind and from
which rules are there; nothing keeps lists of op names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from minitensor import _C

__all__ = [
    "ROWS",
    "Row",
    "contraction",
    "creation",
    "elementwise",
    "index",
    "movement",
    "opaque",
    "random",
    "reduction",
    "underived",
    "view",
]


@dataclass(frozen=True, eq=False, slots=True)
class Row:
    """One op.

    `lower(b, *operands, *params)` emits HLO through the builder `b`; for elementwise ops the operands come converted
    and broadcast. `vjp(g, out, *operands, *params)` gives the gradients of the operands, as a tensor or a tuple, in the
    broadcast shape; an argument whose name begins with `_` is not read and not kept for the backward pass (its shape
    and dtype are there all the same). `refuse(call)` gives the reason why one particular call can't be compiled, or
    None.
    In the tuple that `vjp` returns a function stands for a gradient that is only computed if somebody wants it. `reads`
    has for each operand the arguments of `vjp` that its gradient is computed from, where that is not all of them: what
    nobody's wanted gradient reads is not kept.
    `samples()` gives argument lists for the generated tests.
    """

    name: str
    kind: str
    schema: str
    call: Any
    lower: Callable[..., Any] | None = None
    vjp: Callable[..., Any] | None = None
    refuse: Callable[[Any], str | None] | None = None
    samples: Callable[[], Sequence[tuple[Any, ...]]] | None = None
    kernel: Callable[..., Any] | None = None
    reads: tuple[str, ...] = ()
    why: str = ""
    raises: bool | None = None
    """Whether the values of its operands may be an error, so that it has to run although nobody reads its result. None:
    if it takes indices or is opaque. Of elementwise ops it's their integer form that may raise."""
    ordered: bool = False
    """Whether other processes make the same calls: those of such rows run in the order in which they were made."""
    within: Callable[..., tuple[int, Any, Any]] | None = None
    """`within(*operands, *params)`, of an op that compiled code leaves to its kernel: the one operand whose values may
    be an error, an index, and the bounds low <= index < high. If it was there before, it is checked before anything
    runs."""
    aliases: tuple[str, ...] = ()
    """PyTorch's other names for it."""
    function: bool = True
    """Whether it is in the package's namespace."""
    method: bool = True
    """Whether it is a method of Tensor, if it takes one first."""
    inplace: bool | None = None
    """Whether there is a method `name_`; None: by the kind."""
    called: str = ""
    """Of a private op: a public function that stands on it, where that isn't called as the op is."""
    extension: bool = False
    """Whether a user's `minitensor.extend.op` made it: what its rules do wrong is the user's to mend."""
    namespaces: tuple[str, ...] = ()
    """The submodules that offer it too: special, linalg, fft, nn.functional."""
    autocast: tuple[str, str] = ("", "")
    """What autocast makes of its operands on the CPU and on GPUs: "lower", "float32", the "widest" dtype among them,
    or "", nothing."""

    out: str = ""
    """What may be given as `out=`: "castable", a tensor of any dtype that the result can be cast to; "exact", one of
    the result's own; "none". By default "castable" for ops on elements and those that draw, "exact" for all others."""
    grad_fn: str | dict[str | tuple[int, ...], str] = ""
    """PyTorch's name of its backward node, where that is not made of the op's. Several go by the call: the name of an
    argument stands for calls in which it is given, or a tensor, with "!" before it for the others; a tuple for operands
    of so many dimensions. The first that holds is taken."""
    numbers_as_tensors: bool = False
    """Whether PyTorch makes a tensor of a number among the operands, so that its backward node has an edge for it."""
    complex_lower: bool = False
    """Whether `lower` of an elementwise op holds for complex numbers too."""
    predicate: int | None = None
    """The operand that is no part of the arithmetic, but chooses."""
    wide_operand: int | None = None
    """The operand that floats of 16 bits are not rounded for if it is a single number: of Python, or a tensor of one
    element."""
    wide_number: int | None = None
    """The operand for which that holds only if it is a number of Python."""
    overwrites: bool = False
    """Whether its kernel writes over the first operand, without reading it, so that compiled code can't call it."""
    slow_ns: float = 0.0
    """Nanoseconds for each element read, in compiled code, beyond those of its kernel."""
    flops: Callable[..., int] | None = None
    """`flops(elements of the result, *shapes of the operands)`: the floating-point operations of a call. None: one for
    each element of an op on elements; otherwise they are not counted."""

    @property
    def public(self) -> bool:
        """Whether users see it."""
        return not self.name.startswith("_")

    @property
    def arguments(self) -> list[str]:
        """The schema's arguments, without the names of the results."""
        inside = self.schema.partition("->")[0]
        parts = [part.strip() for part in inside[inside.index("(") + 1 : inside.rindex(")")].split(",")]
        return [part for part in parts if part and part != "*"]

    @property
    def operands(self) -> list[str]:
        """Those that are tensors: kernels, `vjp` and `lower` get them first."""
        return [argument for argument in self.arguments if argument.startswith("Tensor")]

    @property
    def parameters(self) -> list[str]:
        """The names of the others, in order."""
        others = [argument for argument in self.arguments if not argument.startswith("Tensor")]
        return [argument.split("=")[0].split()[-1] for argument in others]

    @property
    def takes_tensor(self) -> bool:
        """Whether its first argument is a tensor, as a method needs it."""
        first = self.arguments[0] if self.arguments else ""
        return first.startswith("Tensor") and not first.startswith("Tensor[]")

    @property
    def in_place(self) -> bool:
        """Whether there is a method `name_`."""
        if self.inplace is not None:
            return self.inplace
        return self.kind == "elementwise"

    @property
    def fallible(self) -> bool:
        """Whether a call can fail by the values of its operands; of an elementwise op, one on integers."""
        return self.kind in ("index", "opaque") if self.raises is None else self.raises

    @property
    def compilable(self) -> bool:
        """Whether the JIT knows how to lower the op."""
        return self.lower is not None

    @property
    def reason(self) -> str:
        """Why the op is not compilable, for the account."""
        return self.why or "no lowering to HLO is defined for it"


ROWS: dict[str, Row] = {}
"""Every op by name, in order of definition."""


def underived(what: str) -> Callable[..., Any]:
    """The `vjp` of an op of up to three operands whose derivative isn't implemented.

    Its result requires grad, and a backward pass that reaches it raises NotImplementedError.
    """

    def vjp(_g: Any, _out: Any, _a: Any = None, _b: Any = None, _c: Any = None, *_params: Any) -> Any:
        raise NotImplementedError(f"the derivative for '{what}' is not implemented.")

    vjp.__dict__["underived"] = True
    return vjp


def _define(kind: str, schema: str, doc: str, **rules: Any) -> _C.Op:
    op = _C.define_op(schema, kind)
    op.__doc__ = doc
    row = Row(name=op.__name__, kind=kind, schema=schema, call=op, **rules)
    saves_out, saves = _saved(row, len(row.operands))
    _C.set_rules(op, row, row.vjp, saves_out, saves, _masks(row), row.compilable, row.fallible, row.kernel)
    if row.autocast != ("", ""):
        _C.set_autocast(op, row.autocast)
    if row.out:
        _C.set_out(op, row.out)
    if row.grad_fn or row.numbers_as_tensors or row.predicate is not None:
        names = row.grad_fn if isinstance(row.grad_fn, dict) else {"": row.grad_fn}
        predicate = -1 if row.predicate is None else row.predicate
        _C.set_node(op, [item for item in names.items() if item[1]], row.numbers_as_tensors, predicate)
    ROWS[row.name] = row
    return op


def _saved(row: Row, operands: int) -> tuple[int, list[bool]]:
    if row.vjp is None:
        return 0, []
    names = _arguments(row.vjp)
    if len(names) < 2 + operands:
        raise ValueError(
            f"the vjp of '{row.name}' takes {len(names)} arguments; it needs g, out and {operands} operands"
        )
    # Of several results of ours `places` stands for those of integers: the others may be written to.
    of_places = names[1] == "places" and row.vjp.__module__.startswith("minitensor.")
    reads = 0 if names[1].startswith("_") else 2 if of_places else 1
    return reads, [not name.startswith("_") for name in names[2 : 2 + operands]]


def _arguments(function: Any) -> list[str]:
    """The names of a Python function's positional arguments; inspect.signature would take its time at every import."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = function.__code__
    return list(code.co_varnames[: code.co_argcount])


def _masks(row: Row) -> list[int]:
    """`reads` as bits: 0 for the result, 1 and up for the operands."""
    if row.vjp is None or not row.reads:
        return []
    places = {name: place for place, name in enumerate(_arguments(row.vjp)[1:])}
    return [sum(1 << places[name] for name in names.split()) for names in row.reads]


def elementwise(schema: str, doc: str, **rules: Any) -> _C.Op:
    """An op on each element; operands broadcast and promote."""
    return _define("elementwise", schema, doc, **rules)


def reduction(schema: str, doc: str, **rules: Any) -> _C.Op:
    """An op that combines elements along dimensions."""
    return _define("reduction", schema, doc, **rules)


def view(schema: str, doc: str, **rules: Any) -> _C.Op:
    """An op whose result shares the operand's storage; it costs nothing, and nothing is recorded but its geometry."""
    return _define("view", schema, doc, **rules)


def movement(schema: str, doc: str, *, shape: Callable[..., Any] | None = None, **rules: Any) -> _C.Op:
    """An op that only moves elements; one whose kernel is a Python callable has a rule `shape`, as opaque ones."""
    op = _define("movement", schema, doc, **rules)
    if shape is not None:
        _C.set_shape_rule(op, shape)
    return op


def contraction(schema: str, doc: str, **rules: Any) -> _C.Op:
    """An op that runs on the shared matrix product."""
    return _define("contraction", schema, doc, **rules)


def index(schema: str, doc: str, **rules: Any) -> _C.Op:
    """An op that reads or writes elements chosen by an index tensor."""
    return _define("index", schema, doc, **rules)


def random(schema: str, doc: str, **rules: Any) -> _C.Op:
    """An op that draws from the generator."""
    return _define("random", schema, doc, **rules)


def creation(schema: str, doc: str, **rules: Any) -> _C.Op:
    """An op without operands."""
    return _define("creation", schema, doc, **rules)


def opaque(schema: str, doc: str, *, why: str, shape: Callable[..., Any] | None = None, **rules: Any) -> _C.Op:
    """An op that is never compiled, for the reason `why`; its kernel may be a Python callable.

    `shape(*operands, *params)` gets operands without data and gives results without data. With it the op is recorded,
    and has device "meta".
    """
    op = _define("opaque", schema, doc, why=why, **rules)
    if shape is not None:
        _C.set_shape_rule(op, shape, True)
    return op
