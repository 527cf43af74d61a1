"""`tf.contrib.compiler.jit`: which ops of a graph are compiled, said where they are made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from minitensor.compat.v1.framework.graph import get_default_graph
from minitensor.compat.v1.framework.instead import missing as _missing
from minitensor.compat.v1.framework.program import JitScope

__all__ = ["compiler", "experimental_jit_scope"]


@contextlib.contextmanager
def experimental_jit_scope(compile_ops: Any = True, separate_compiled_gradients: bool = False) -> Iterator[None]:
    """Ops made inside are compiled whatever the session says; with `compile_ops=False`, they never are.

    `compile_ops` may be a function of an op, see :class:`minitensor.jit_scope`. Gradients of the ops belong to the
    scope too; with `separate_compiled_gradients` they are clusters of their own.
    """
    scopes = get_default_graph().scopes
    before = scopes.jit
    scopes.jit = JitScope(compile_ops, separate_compiled_gradients)
    try:
        yield
    finally:
        scopes.jit = before


jit_scope = experimental_jit_scope
compiler = SimpleNamespace(jit=SimpleNamespace(experimental_jit_scope=experimental_jit_scope, jit_scope=jit_scope))

__getattr__ = _missing(__name__)
