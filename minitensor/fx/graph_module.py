"""Modules whose forward is a graph's code."""

from __future__ import annotations

import copy
import itertools
import linecache
from typing import Any

import minitensor
from minitensor import nn
from minitensor._C import Tensor
from minitensor.fx.code import PythonCode
from minitensor.fx.graph import Graph
from minitensor.fx.node import package

__all__ = ["GraphModule"]

_numbers = itertools.count()


class GraphModule(nn.Module):
    """A module with a graph, whose `forward` is made of it: set `graph`, or change it and call :meth:`recompile`."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Each has a class of its own, since each has a forward of its own."""
        base = next(c for c in cls.__mro__ if "forward" not in vars(c) or c is GraphModule or "_is_one" not in vars(c))
        made = type(base.__name__, (base,), {"_is_one": True})
        return super().__new__(made)

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        """`root`: a module, or a dict of names, that has what the graph's nodes name.

        RuntimeError if a node names something that it hasn't.
        """
        super().__init__()
        type(self).__name__ = type(self).__qualname__ = class_name
        if isinstance(root, nn.Module):
            self.training = root.training
        for node in graph.nodes:
            if node.op not in ("get_attr", "call_module"):
                continue
            if isinstance(root, dict):
                if node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not provided in ``root``!"
                    )
                _assign(self, node.target, root[node.target])
            else:
                _copy(root, self, node.target)
        self.meta: dict[str, Any] = {}
        self.graph = graph

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = copy.deepcopy(g) if g.owning_module is not None else g
        self._graph.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The text of forward."""
        return self._code

    def recompile(self) -> PythonCode:
        """Make forward anew of the graph, after it was changed."""
        made = self._graph.python_code("self")
        self._code = made.src
        file = f"<minitensor fx {next(_numbers)}>"
        space = dict(made.globals)
        exec(compile(made.src, file, "exec", dont_inherit=True), space)
        linecache.cache[file] = (len(made.src), None, made.src.splitlines(keepends=True), file)
        type(self).forward = space["forward"]  # type: ignore[method-assign]
        return made

    def add_submodule(self, target: str, m: Any) -> bool:
        """Put a module in under a path; False if something else is in the way."""
        *path, name = target.split(".")
        place: Any = self
        for part in path:
            if not hasattr(place, part):
                setattr(place, part, nn.Module())
            place = getattr(place, part)
            if not isinstance(place, nn.Module):
                return False
        place.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Take a submodule out; False if there is none of that name."""
        *path, name = target.split(".")
        try:
            place = self.get_submodule(".".join(path))
        except AttributeError:
            return False
        if not isinstance(getattr(place, name, None), nn.Module):
            return False
        delattr(place, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Take those out that no node names."""
        used: set[str] = set()
        for node in self._graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = node.target.split(".")
                used.update(".".join(parts[:i]) for i in range(1, len(parts) + 1))
                if node.op == "call_module":
                    used.update(f"{node.target}.{n}" for n, _ in self.get_submodule(node.target).named_modules() if n)
        for name in [n for n, _ in self.named_modules() if n and n not in used]:
            self.delete_submodule(name)

    def print_readable(self, print_output: bool = True, **_: Any) -> str:
        """The code as a class; printed, and returned."""
        body = "\n".join(f"    {line}" for line in self._code.strip().splitlines())
        text = f"class {type(self).__name__}({package()}.nn.Module):\n{body}\n"
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        note = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__repr__(), self._code, note])

    def __deepcopy__(self, memo: Any) -> GraphModule:
        parts = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code")}
        holder = nn.Module()
        holder.__dict__.update(copy.deepcopy(parts, memo))
        made = GraphModule(holder, copy.deepcopy(self._graph), type(self).__name__)
        for name, value in holder.__dict__.items():
            if name not in ("_parameters", "_buffers", "_modules") and name not in made.__dict__:
                made.__dict__[name] = value
        for table in ("_parameters", "_buffers", "_modules"):
            for name, value in holder.__dict__[table].items():
                made.__dict__[table].setdefault(name, value)
        made.meta = dict(self.meta)
        return made

    def __copy__(self) -> GraphModule:
        return GraphModule(self, copy.deepcopy(self._graph), type(self).__name__)

    def __reduce__(self) -> Any:
        parts = {k: v for k, v in self.__dict__.items() if k != "_graph"}
        code = self._graph.python_code("self")
        functions = {name: value for name, value in code.globals.items() if value is not minitensor}
        return _rebuild, (type(self).__name__, PythonCode(code.src, functions), parts)


def _rebuild(name: str, code: PythonCode, parts: dict[str, Any]) -> GraphModule:
    """A pickled one: its code is run on proxies again, with all modules as leaves."""
    from minitensor.fx.tracer import Tracer

    class Leaves(Tracer):
        def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
            return True

    space = {"minitensor": minitensor, "torch": minitensor, **code.globals}
    exec(compile(code.src, "<graph>", "exec", dont_inherit=True), space)
    holder = type("Traced", (nn.Module,), {"forward": space["forward"]})()
    holder.__dict__.update(parts)
    return GraphModule(holder, Leaves().trace(holder), name)


def _copy(source: Any, to: Any, path: str) -> None:
    *parents, name = path.split(".")
    for part in parents:
        source = getattr(source, part)
        if not hasattr(to, part):
            setattr(to, part, nn.Module())
        to = getattr(to, part)
    if not hasattr(source, name):
        raise RuntimeError(f"Node referenced target {path} but that attribute does not exist")
    _put(to, name, getattr(source, name))


def _assign(to: Any, path: str, value: Any) -> None:
    *parents, name = path.split(".")
    for part in parents:
        if not hasattr(to, part):
            setattr(to, part, nn.Module())
        to = getattr(to, part)
    _put(to, name, value)


def _put(to: Any, name: str, value: Any) -> None:
    if hasattr(to, name) and getattr(to, name) is value:
        return
    if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
        to.register_buffer(name, value)
    else:
        setattr(to, name, value)
