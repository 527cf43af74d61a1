"""Functions that a backend of the user's compiles: it gets their graph, and gives what is called in its place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from minitensor import _C, nn
from minitensor._warning import warn
from minitensor.fx.graph_module import GraphModule
from minitensor.fx.proxy import TraceError
from minitensor.fx.tracer import Tracer
from minitensor.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["by_backend"]

Backend = Callable[[GraphModule, list[Any]], Callable[..., Any]]


class _Tracer(Tracer):
    """Modules that a function calls are those of its graph."""

    def path_of_module(self, mod: nn.Module) -> str:
        """The module's name in the graph."""
        if mod not in self._paths:
            name = f"module_{len(self._paths)}"
            self.root.add_module(name, mod)
            self._paths |= {m: path for path, m in self.root.named_modules() if m not in self._paths}
        return super().path_of_module(mod)


class _Compiled:
    """What a backend made of one graph, and how the function's result is put together of its results."""

    compiled: Callable[..., Any] | None = None
    """None where there is no graph: the function runs as it is."""

    def __init__(self, function: Callable[..., Any], tree: Any, tensors: list[int]) -> None:
        """`tree` and `tensors`: the form of the arguments, and which of their leaves are tensors."""
        self._function, self._tree, self._tensors = function, tree, tensors
        self._result: Any = None
        self._modules: list[nn.Module] = []
        self._training: list[bool] = []

    def trace(self, leaves: list[Any]) -> GraphModule:
        """The graph of the function, which gives a tuple."""
        names = ", ".join(f"x{i}" for i in range(len(self._tensors)))

        def run(*tensors: Any) -> tuple[Any, ...]:
            filled = list(leaves)
            for place, tensor in zip(self._tensors, tensors, strict=True):
                filled[place] = tensor
            args, kwargs = tree_unflatten(filled, self._tree)
            results, self._result = tree_flatten(self._function(*args, **kwargs))
            return tuple(results)

        # A placeholder for each tensor, not one for all of them.
        tracer = _Tracer()
        graph = tracer.trace(eval(f"lambda {names}: run({names})", {"run": run}))
        self._modules = list(tracer.root.modules())[1:]
        self._training = [module.training for module in self._modules]
        return GraphModule(tracer.root, graph, "GraphModule")

    def fits(self) -> bool:
        """Whether the modules that were called are in the modes that they were in."""
        return self._training == [module.training for module in self._modules]

    def __call__(self, leaves: list[Any]) -> Any:
        """Call what the backend made with the tensors among the arguments."""
        assert self.compiled is not None
        results = self.compiled(*(leaves[i] for i in self._tensors))
        return tree_unflatten(list(results), self._result)


def _kind(leaf: Any) -> Any:
    if isinstance(leaf, _C.Tensor):
        return tuple(leaf.shape), leaf.dtype, leaf.device, leaf.requires_grad
    # The text, which has the sign of a zero and knows a NaN again.
    return type(leaf), repr(leaf) if isinstance(leaf, float | complex) else leaf


def by_backend(function: Callable[..., Any], backend: Backend, whole: bool) -> Callable[..., Any]:
    """Return the function as the backend compiles it, once for each form, shape, dtype and device of its arguments.

    Arguments that are no tensors are constants of a graph. What the function reads elsewhere is read when it is traced,
    but for the modes of the modules that it calls: for other ones it is traced again. One that can't be traced, since
    it looks at its values or has arguments that can't be told apart by a hash, runs as it is, with a warning; if it is
    to be compiled as a `whole`, that is a TraceError.
    """
    compiled: dict[Any, list[_Compiled]] = {}

    def made_for(leaves: list[Any], tree: Any) -> _Compiled:
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, _C.Tensor)]
        made = _Compiled(function, tree, places)
        try:
            graph = made.trace(leaves)
        except TraceError as error:
            refuse(error)
        else:
            made.compiled = backend(graph, [leaves[i] for i in places])
        return made

    def refuse(error: TraceError) -> None:
        if whole:
            raise error
        warn(f"compile: {getattr(function, '__name__', type(function).__name__)} runs as it is: {error}")

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten((args, kwargs))
        key = (repr(tree), _C.is_grad_enabled(), *map(_kind, leaves))
        try:
            known = compiled.setdefault(key, [])
        except TypeError as error:
            refuse(TraceError(f"an argument can't be told from others: {error}"))
            return function(*args, **kwargs)
        found = next((one for one in known if one.fits()), None)
        if found is None:
            found = made_for(leaves, tree)
            known.append(found)
        return function(*args, **kwargs) if found.compiled is None else found(leaves)

    return call
