"""Schemas of custom ops: inferred from a function's annotations, and read from text in PyTorch's form."""

from __future__ import annotations

import collections.abc
import inspect
import re
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from minitensor._C import Tensor, device, dtype

__all__ = ["Parameter", "Schema", "infer_schema", "parse"]

_NUMBER = typing.Union[int, float, bool]  # noqa: UP007
_BASE: dict[Any, str] = {
    Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str", dtype: "ScalarType",
    device: "Device",
}  # fmt: skip
_RETURNS: dict[Any, str] = {Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool"}


@dataclass(frozen=True)
class Parameter:
    """One argument of a schema."""

    name: str
    type: str
    """Without the mark of what is written."""
    default: str | None = None
    keyword_only: bool = False
    written: bool = False


@dataclass(frozen=True)
class Schema:
    """Name, arguments and results of an op."""

    name: str
    parameters: tuple[Parameter, ...]
    returns: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return self.text


def _fail(function: Any, what: str) -> typing.NoReturn:
    raise ValueError(f"infer_schema(func): {what} Got func with signature {inspect.signature(function)})")


def _type_text(annotation: Any) -> str | None:
    """The schema's word for an annotation; None for one that there is none for."""
    if annotation in _BASE:
        return _BASE[annotation]
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, __import__("types").UnionType):
        rest = tuple(a for a in args if a is not type(None))
        optional = "?" if len(rest) < len(args) else ""
        if set(rest) == {int, float, bool}:
            return "Scalar" + optional
        inner = _type_text(rest[0]) if len(rest) == 1 else None
        return inner and inner + optional
    if origin in (list, collections.abc.Sequence) and len(args) == 1:
        inner = _type_text(args[0])
        return inner and f"{inner}[]"
    return None


def _default_text(function: Any, name: str, value: Any) -> str:
    if value is None or isinstance(value, (bool, int, float)):
        return str(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, dtype):
        return str(value).rpartition(".")[2]
    if isinstance(value, device):
        return f'"{value}"'
    _fail(
        function,
        f"Parameter {name} has an unsupported default value type {type(value)}. Please file an issue on GitHub so we "
        "can prioritize this.",
    )


def infer_schema(
    prototype_function: Callable[..., Any], /, *, mutates_args: str | Iterable[str], op_name: str | None = None,
    tags: Any = (),
) -> str:  # fmt: skip
    """The schema of a function by its annotations, such as "(Tensor x, float y=1.0) -> Tensor".

    `mutates_args` names the arguments that it writes to; "unknown": all tensors. ValueError for arguments without
    annotations, or of types that schemas don't have.
    """
    function = prototype_function
    signature = inspect.signature(function)
    hints = typing.get_type_hints(function)
    wrong = set() if isinstance(mutates_args, str) else set(mutates_args) - set(signature.parameters)
    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ValueError(
            "mutates_args must either be a sequence of the names of the arguments that are mutated or the string "
            "'unknown'. "
        )
    if wrong:
        _fail(
            function,
            f"{wrong} in mutates_args were not found in the custom op's signature. mutates_args should contain the "
            "names of all args that the custom op mutates, or just the string 'unknown' if you don't know.",
        )
    parts: list[str] = []
    written = keywords = 0
    for name, parameter in signature.parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            _fail(function, "We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
            keywords = 1
            parts.append("*")
        if name not in hints:
            _fail(function, f"Parameter {name} must have a type annotation.")
        kind = _type_text(hints[name])
        if kind is None:
            _fail(function, f"Parameter {name} has unsupported type {hints[name]}.")
        if (kind.startswith("Tensor") and mutates_args == "unknown") or (
            mutates_args != "unknown" and name in mutates_args
        ):
            if not kind.startswith("Tensor"):
                _fail(
                    function,
                    f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can be mutated",
                )
            kind = f"Tensor(a{written}!){kind[len('Tensor') :]}"
            written += 1
        text = f"{kind} {name}"
        if parameter.default is not parameter.empty:
            text += f"={_default_text(function, name, parameter.default)}"
        parts.append(text)
    return (
        f"{op_name or ''}({', '.join(parts)}) -> {_return_text(function, hints.get('return', inspect.Signature.empty))}"
    )


def _return_text(function: Any, annotation: Any) -> str:
    if annotation is inspect.Signature.empty:
        _fail(function, "No return type annotation was provided. Please add one.")
    if annotation in (None, type(None)):
        return "()"
    if typing.get_origin(annotation) is tuple:
        inner = [_one_return(function, a) for a in typing.get_args(annotation)]
        return "(" + ", ".join(inner) + ")"
    return _one_return(function, annotation)


def _one_return(function: Any, annotation: Any) -> str:
    text = "Tensor[]" if annotation == list[Tensor] else _type_text(annotation)
    if text not in ("Tensor", "Tensor[]", "SymInt", "float", "bool", "Scalar"):
        _fail(function, f"Return has unsupported type {annotation}. The valid types are: {_RETURNS}.")
    return text


_ARGUMENT = re.compile(
    r"(?P<type>[A-Za-z]\w*)(?P<mark>\(\w+!?\))?(?P<list>(?:\[\d*\])?\??(?:\[\d*\])?\??) "
    r"(?P<name>\w+)(?:=(?P<default>.*))?"
)


def parse(text: str) -> Schema:
    """Read a schema such as "name(Tensor x, *, float y=1.0) -> Tensor"; RuntimeError if it is none."""
    found = re.fullmatch(r"\s*([\w:.]+)\((.*)\)\s*->\s*(.+?)\s*", text, re.DOTALL)
    if not found:
        raise RuntimeError(f"Expected a schema of the form 'name(Type argument, ...) -> Type', but got '{text}'")
    name, inside, returns = found.groups()
    parameters: list[Parameter] = []
    keyword_only = False
    for part in filter(None, (p.strip() for p in re.split(r",(?![^(\[]*[)\]])", inside))):
        if part == "*":
            keyword_only = True
            continue
        piece = _ARGUMENT.fullmatch(part)
        if not piece:
            raise RuntimeError(f"can't read the argument '{part}' of the schema '{text}'")
        kind = piece["type"] + piece["list"]
        parameters.append(Parameter(piece["name"], kind, piece["default"], keyword_only, "!" in (piece["mark"] or "")))
    kinds = tuple(r.strip() for r in returns.removeprefix("(").removesuffix(")").split(",") if r.strip())
    return Schema(name, tuple(parameters), kinds, text.strip())
