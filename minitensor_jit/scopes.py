"""`jit_scope` and `attr_scope`: what is to be compiled, said op by op where they are called."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from minitensor import _C
from minitensor_jit.api import current_compiler
from minitensor_jit.clustering.scope_predicate import number_of_predicate

__all__ = ["attr_scope", "jit_scope"]


class _Tagged(_C.Scope):
    """Records inside, if there is something to compile, under a tag; a context manager and a decorator."""

    __slots__ = ()

    _start = staticmethod(current_compiler)

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The function, run in such a scope at every call."""

        @functools.wraps(fn)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fn(*args, **kwargs)

        return inside


class jit_scope(_C.JitScope, _Tagged):  # noqa: N801  (called like a function)
    """Ops inside are compiled, in clusters of their own; with `compile_ops=False`, they never are.

    `compile_ops` may be a function too, that is given a `NodeDef` for each op (its `op`, `name`, `kind`, `device` and
    `attr`) and says whether to compile it. It is asked when a graph is clustered for the first time, so it must depend
    on nothing but the op. Gradients of the ops belong to the same scope where backward is recorded; with
    `separate_compiled_gradients` they are clusters of their own.

    Best effort: what can't be compiled runs as ever, and `explain` says why. A context manager or a decorator.
    """

    __slots__ = ()

    _number = staticmethod(number_of_predicate)


class attr_scope(_Tagged):  # noqa: N801  (called like a function)
    """Attributes of the ops called inside: `{"_MtCompile": True}` has them compiled if that can be done, `False` never.

    Other than in a `jit_scope` they may be clustered with ops around them. None takes the attribute away that
    was given outside. A context manager or a decorator.
    """

    __slots__ = ()

    def __init__(self, attributes: Mapping[str, bool | None]) -> None:
        unknown = [name for name in attributes if name != "_MtCompile"]
        if unknown:
            raise ValueError(f"attr_scope: there is no attribute {unknown[0]!r}; there is '_MtCompile'")
        value = attributes.get("_MtCompile")
        if value is not None and not isinstance(value, bool):
            raise TypeError(f"attr_scope: _MtCompile must be a bool or None, not {type(value).__name__}")
        super().__init__(-1 if value is None else value, None, "the end of an attr_scope")
