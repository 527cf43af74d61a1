"""The table of composed functions, and the decorator that enters them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from minitensor import _C
from minitensor.ops.row import ROWS

__all__ = [
    "COMPOSITES",
    "Composite",
    "LateSignature",
    "autocast",
    "composite",
    "grad_fn",
    "in_place_method",
    "older_form",
    "one_node",
    "overwritten",
    "shortcut",
    "with_out",
]


@dataclass(frozen=True, eq=False, slots=True)
class Composite:
    """One composed function, and where it is offered."""

    name: str
    call: Callable[..., Any]
    aliases: tuple[str, ...] = ()
    function: bool = True
    """Whether it is in the package's namespace."""
    method: bool = True
    """Whether it is a method of Tensor."""
    inplace: Callable[..., Any] | None = None
    """The in-place form, which is the method `name_` (and so for its aliases)."""
    namespaces: tuple[str, ...] = ()
    """The submodules that offer it too: special, linalg, fft, nn.functional."""


class LateSignature(inspect.Signature):
    """A signature that is made when somebody reads it: at import there are hundreds, and nobody reads them."""

    def __init__(self, make: Callable[[], inspect.Signature]) -> None:
        """`make()` gives the signature."""
        self._make = make

    @functools.cached_property
    def _parameters(self) -> Any:
        return self._make().parameters

    @functools.cached_property
    def _return_annotation(self) -> Any:
        return self._make().return_annotation

    def replace(self, **parts: Any) -> inspect.Signature:  # type: ignore[override]
        """An ordinary signature, with some parts of its own."""
        made = inspect.Signature(list(self.parameters.values()), return_annotation=self.return_annotation)
        return made.replace(**parts)


_Function = TypeVar("_Function", bound=Callable[..., Any])
_Result = TypeVar("_Result")

COMPOSITES: dict[str, Composite] = {}
"""Every composed function by name, in order of definition."""


def composite(
    *,
    name: str | None = None,
    aliases: Sequence[str] = (),
    function: bool = True,
    method: bool = True,
    inplace: bool = False,
    out: Literal["", "castable", "exact", "several exact", "apart"] = "",
    namespaces: Sequence[str] = (),
) -> Callable[[Callable[..., _Result]], Callable[..., _Result]]:
    """Enter a function in the table.

    A leading underscore of the Python name is dropped, so that Python's own `max` and `type` stay visible in the file.
    `inplace`: there is a method `name_` that stores the result in its first argument. `out`: the function takes `out=`:
    "castable" of any dtype that the result can be cast to, "exact" of the result's own, "several exact" of their own
    where it gives several results, "apart" of its own and apart from the arguments in memory.
    """

    def enter(made: Callable[..., Any]) -> Callable[..., Any]:
        made.__name__ = made.__qualname__ = called = name or made.__name__.removeprefix("_")
        call = with_out(made, out) if out else made
        if called in COMPOSITES:
            raise ValueError(f"two composed functions are called '{called}'")
        COMPOSITES[called] = Composite(
            called, call, tuple(aliases), function, method, _in_place(made) if inplace else None, tuple(namespaces)
        )
        return call

    return enter


def autocast(cpu: str, gpu: str) -> Callable[[_Function], _Function]:
    """Say what autocast does with the tensors among a function's arguments, on the CPU and on GPUs.

    "lower" casts them to its dtype, "float32" to that, "widest" to the widest dtype among them, "same" leaves them: the
    function then runs with autocast off. With "" the calls inside are cast, each by its own rule. The public form of
    the function reads this, so it costs nothing otherwise.
    """

    def enter(made: _Function) -> _Function:
        made.__dict__["_autocast"] = (cpu, gpu)
        return made

    return enter


def older_form(factors: tuple[str, ...]) -> Callable[[_Function], _Function]:
    """Take calls that have these numbers before the tensors that they multiply, as PyTorch does with a warning."""

    def enter(made: _Function) -> _Function:
        made.__dict__["_older_form"] = factors
        return made

    return enter


def grad_fn(name: str | None, several: str | None = None) -> Callable[[_Function], _Function]:
    """Say what PyTorch calls the backward node of a function's result, where it has one node for the whole function.

    `several` is that of each result where the function gives several. Those who look at a graph see one node instead
    of those of the ops that the function is made of; gradients are computed by these as ever.
    """

    def enter(made: _Function) -> _Function:
        made.__dict__["_grad_fn"] = (name, several)
        return made

    return enter


def one_node(
    name: str | None, several: str | None = None
) -> Callable[[Callable[..., _Result]], Callable[..., _Result]]:
    """As `grad_fn`, for a function that others are made of: where these have the node in some calls only."""

    def enter(made: Callable[..., _Result]) -> Callable[..., _Result]:
        form = _C.out_form(grad_fn(name, several)(made), made)
        _C.set_form_api(form, None)
        return form

    return enter


def with_out(made: Callable[..., _Result], rule: str = "exact") -> Callable[..., _Result]:
    """Return the function with an argument `out=`, where its result or results go; `rule` as in `composite`."""

    @functools.wraps(made)
    def call(*args: Any, out: Any = None, **more: Any) -> Any:
        if out is None:
            return made(*args, **more)
        _C.check_out(made.__name__, out, args, more, rule == "apart")
        return _C.store_out(made.__name__, made(*args, **more), out, rule)

    call.__signature__ = LateSignature(lambda: _signature_with_out(made))  # type: ignore[attr-defined]
    return _C.out_form(made, call, rule != "apart")


def shortcut(
    pattern: str,
    target: Callable[..., Any],
    before: tuple[Any, ...] = (),
    after: tuple[Any, ...] = (),
    *,
    order: tuple[int, ...] | None = None,
    detached: bool = False,
) -> Callable[[_Function], _Function]:
    """Let plain calls of a function go straight to the op that they stand for, `target(*before, *args, *after)`.

    Those are calls without keywords whose arguments match the pattern, a letter for each:

    - `T` a tensor, `R` one that is not complex, `B` one of bool, a digit one of so many dimensions that has elements
      and is not complex;
    - `i` an int, `n` an int or a float, `b` a bool, `d` a dtype, `t` a tuple of ints, `L` a tuple or list;
    - `w` an int, or one for each spatial dimension of the first argument, and `k` the same, by default what the
      argument before it is: strides of windows;
    - `*` any number of ints, which the op gets as one tuple.

    `~` before a letter lets None pass, those after `?` may be missing. `after` has what the op gets for these, and
    whatever else it takes. With `order` argument `i` is the op's argument `order[i]`. `detached` leaves calls alone in
    which somebody wants a gradient. The target may also be an op's in-place form, whose first argument is a tensor, or
    a function of `_C` that declines calls by NotImplemented.
    An elementwise op gets `out=` too, and writes there itself.

    An op on one element takes less time than a function of Python does to find out what it was called with.
    """
    made_of = _C.shortcut(pattern, target, before, after, order, detached)

    def enter(made: _Function) -> _Function:
        made.__dict__["_shortcuts"] = (*made.__dict__.get("_shortcuts", ()), made_of)
        return made

    return enter


def _signature_with_out(made: Callable[..., Any]) -> inspect.Signature:
    signature = inspect.signature(made)
    parameter = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Any)
    # Before **more, which must stay last.
    parameters = list(signature.parameters.values())
    place = len(parameters) - sum(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    return signature.replace(parameters=[*parameters[:place], parameter, *parameters[place:]])


def overwritten(self: Any, *others: Any) -> Any:
    """What a function reads of a tensor that its result is then written over, given the others that it reads.

    A copy, with the tensor's history, where a gradient formula may read it once more; otherwise the tensor itself.
    """
    recorded = _C.is_recorded(self, *(x for x in others if isinstance(x, _C.Tensor)))
    return ROWS["clone"].call(self) if recorded else self


def _in_place(made: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **more: Any) -> Any:
        source = overwritten(self, *args, *more.values())
        return _C.store_in_place(self, made(source, *args, **more))

    call.__name__ = call.__qualname__ = f"{made.__name__}_"
    call.__doc__ = f"In place: {made.__doc__}"
    call.__signature__ = LateSignature(lambda: inspect.signature(made))  # type: ignore[attr-defined]
    if "_older_form" in made.__dict__:
        older_form(made.__dict__["_older_form"])(call)
    return call


def in_place_method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Enters an in-place function, which is a method only."""
    return composite(function=False)(function)
