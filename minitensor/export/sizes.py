"""Sizes that vary: numbers that know the node of a graph which computes them."""

from __future__ import annotations

import operator
from typing import Any

__all__ = ["SymFloat", "SymInt", "guard", "node_of", "plain"]


def guard(holds: Any, wanted: bool, text: str) -> None:
    """AssertionError if what a program decided by its example's sizes is not so for these."""
    if bool(holds) != wanted:
        raise AssertionError(
            f"Guard failed: {text}, which {'holds' if wanted else 'does not hold'} in the exported program"
        )


_FORMS = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}", "truediv": "{} / {}",
    "mod": "{} % {}", "pow": "{} ** {}",
}  # fmt: skip
_COMPARISONS = {
    "eq": "{} == {}",
    "ne": "{} != {}",
    "lt": "{} < {}",
    "le": "{} <= {}",
    "gt": "{} > {}",
    "ge": "{} >= {}",
}


class _Number:
    """What both kinds have: arithmetic makes nodes, comparisons make guards."""

    node: Any
    text: str
    recorder: Any

    def _with(self, name: str, left: Any, right: Any) -> Any:
        function = getattr(operator, name)
        value = function(plain(left), plain(right))
        node = self.recorder.number(function, (node_of(left), node_of(right)))
        text = _FORMS[name].format(_shown(left), _shown(right))
        return made(value, node, text, self.recorder)

    def _compared(self, name: str, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        function = getattr(operator, name)
        value = function(plain(self), plain(other))
        node = self.recorder.number(function, (self.node, node_of(other)))
        self.recorder.decided(node, value, _COMPARISONS[name].format(self.text, _shown(other)))
        return value

    def __neg__(self) -> Any:
        return self._with("mul", self, -1)

    def __pos__(self) -> Any:
        return self

    def __bool__(self) -> bool:
        return bool(self._compared("ne", 0))

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce__(self) -> Any:
        return type(plain(self)), (plain(self),)


def _binary(name: str) -> tuple[Any, Any]:
    def forward(self: Any, other: Any) -> Any:
        return self._with(name, self, other) if isinstance(other, (int, float)) else NotImplemented

    def backward(self: Any, other: Any) -> Any:
        return self._with(name, other, self) if isinstance(other, (int, float)) else NotImplemented

    return forward, backward


def _compare(name: str) -> Any:
    return lambda self, other: self._compared(name, other)


for _name in _FORMS:
    _there, _back = _binary(_name)
    setattr(_Number, f"__{_name}__", _there)
    setattr(_Number, f"__r{_name}__", _back)
for _name in _COMPARISONS:
    setattr(_Number, f"__{_name}__", _compare(_name))


class SymInt(_Number, int):
    """An int that varies with the inputs."""

    __hash__ = int.__hash__


class SymFloat(_Number, float):
    """A float that varies with the inputs."""

    __hash__ = float.__hash__


def made(value: Any, node: Any, text: str, recorder: Any) -> Any:
    """A number that knows its node."""
    number = (SymInt if isinstance(value, int) else SymFloat)(value)
    number.node, number.text, number.recorder = node, text, recorder
    return number


def plain(value: Any) -> Any:
    """The number alone."""
    if isinstance(value, SymInt):
        return int.__add__(value, 0)
    return float.__add__(value, 0.0) if isinstance(value, SymFloat) else value


def node_of(value: Any) -> Any:
    """The node of a number that has one."""
    return value.node if isinstance(value, _Number) else value


def _shown(value: Any) -> str:
    if not isinstance(value, _Number):
        return str(value)
    return f"({value.text})" if " " in value.text else value.text
