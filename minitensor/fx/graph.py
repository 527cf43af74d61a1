"""Graphs: nodes in an order in which they can be run."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from minitensor._warning import warn
from minitensor.fx.code import PythonCode, generate
from minitensor.fx.node import Node, map_arg

__all__ = ["Graph"]

_OPS = ("call_function", "call_method", "call_module", "get_attr", "output", "placeholder", "root")


class _Nodes:
    """The nodes in order; they may be erased while one goes over them."""

    def __init__(self, graph: Graph, backwards: bool = False) -> None:
        self._graph, self._backwards = graph, backwards

    def __len__(self) -> int:
        return self._graph._count

    def __iter__(self) -> Iterator[Node]:
        root = self._graph._root
        node = root._prev if self._backwards else root._next
        while node is not root:
            if not node._erased:
                yield node
            node = node._prev if self._backwards else node._next

    def __reversed__(self) -> _Nodes:
        return _Nodes(self._graph, not self._backwards)


class Graph:
    """A function as data: placeholders, calls in their order, and an output."""

    def __init__(self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: Any = None) -> None:
        """An empty graph."""
        self._names: set[str] = set()
        self._root = Node(self, "", "root", "", (), {})
        self._count = 0
        self._before: Node = self._root  # new nodes come before it
        self.owning_module = owning_module
        self._tracer_cls = tracer_cls

    @property
    def nodes(self) -> _Nodes:
        """The nodes in order."""
        return _Nodes(self)

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """The nodes of an op, and of a target."""
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def output_node(self) -> Node:
        """The node that says what is returned."""
        return next(n for n in reversed(self.nodes) if n.op == "output")

    # ---- making nodes

    def _unique(self, wanted: str) -> str:
        name = re.sub("[^0-9a-zA-Z_]+", "_", wanted) or "_unnamed"
        name = f"_{name}" if name[0].isdigit() else name
        parts = re.fullmatch(r"(.*)_(\d+)", name)
        base, n = (parts[1], int(parts[2])) if parts else (name, 0)
        while name in self._names or _reserved(name):
            n += 1
            name = f"{base}_{n}"
        self._names.add(name)
        return name

    def create_node(
        self, op: str, target: Any, args: Any = None, kwargs: Any = None, name: str | None = None, type_expr: Any = None
    ) -> Node:
        """A new node at the place where nodes are inserted, by default the end."""
        if op not in _OPS:
            raise AssertionError(f"Invalid op: {op}")
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        if not isinstance(args, tuple):
            raise AssertionError("args must be a tuple")
        if not isinstance(kwargs, dict):
            raise AssertionError("kwargs must be a dict")
        made = Node(self, self._unique(name or _wanted(target)), op, target, args, kwargs, type_expr)
        self._before.prepend(made)
        self._count += 1
        return made

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """An input."""
        return self.create_node(
            "placeholder", name, () if default_value is ... else (default_value,), {}, None, type_expr
        )

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """An attribute of the module, such as a parameter."""
        if self.owning_module is not None and not _reaches(self.owning_module, qualified_name):
            warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to add the "
                "necessary Parameter, or nn.Module.register_buffer to add the necessary buffer"
            )
        return self.create_node("get_attr", qualified_name, (), {}, None, type_expr)

    def call_module(self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """A call of a submodule."""
        return self.create_node("call_module", module_name, args, kwargs, None, type_expr)

    def call_method(self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, None, type_expr)

    def call_function(
        self, the_function: Callable[..., Any], args: Any = None, kwargs: Any = None, type_expr: Any = None,
        name: str | None = None,
    ) -> Node:  # fmt: skip
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """What the graph returns."""
        return self.create_node("output", "output", (result,), {}, None, type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """A copy of another graph's node; `arg_transform` gives this graph's node for one of its arguments."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = dict(node.meta)
        return made

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Copy all nodes of another graph here, and return what it returns; `val_map` gets them."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    # ---- places

    @contextmanager
    def _inserting(self, before: Node) -> Any:
        kept, self._before = self._before, before
        try:
            yield
        finally:
            self._before = kept

    def inserting_before(self, n: Node | None = None) -> Any:
        """Within `with`, new nodes come before a node, or at the beginning of the graph."""
        if n is None:
            return self._inserting(self._root._next)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return self._inserting(n)

    def inserting_after(self, n: Node | None = None) -> Any:
        """Within `with`, new nodes come behind a node, or at the end of the graph."""
        if n is None:
            return self._inserting(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return self._inserting(n._next)

    def erase_node(self, to_erase: Node) -> None:
        """Take a node out; RuntimeError if it is used."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warn(f"erase_node({to_erase}) on an already erased node")
            return
        to_erase._unlink()
        to_erase._erased = True
        self._count -= 1
        to_erase.args, to_erase.kwargs = (), {}

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Take out what nobody uses and does nothing else; whether anything was."""
        self.lint()
        changed = False
        for node in reversed(list(self.nodes)):
            impure = node.is_impure() if is_impure_node is None else is_impure_node(node)
            if not node.users and not impure and node.op not in ("placeholder", "output"):
                self.erase_node(node)
                changed = True
        return changed

    def lint(self) -> None:
        """RuntimeError for a graph that is wrong: a name twice, a use before the definition, a target that isn't."""
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            if node.op not in _OPS[:-1]:
                raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for n in node.all_input_nodes:
                if n.graph is not self:
                    raise RuntimeError(
                        f"Argument '{n}' of Node '{node}' does not belong to this Graph, but was used as an argument! "
                        "If you are copying nodes from another graph, make sure to use ``arg_transform`` on "
                        f"node_copy() to remap values\n{self}"
                    )
                if n not in seen:
                    raise RuntimeError(
                        f"Argument '{n}' of Node '{node}' was used before it has been defined! Please check that Nodes "
                        f"in the graph are topologically ordered\n{self}"
                    )
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            names.add(node.name)
            module = self.owning_module
            if module is not None and node.op in ("get_attr", "call_module") and not _reaches(module, node.target):
                raise RuntimeError(f"Node {node} target {node.target} references nonexistent attribute of {module}")

    # ---- as text

    def python_code(self, root_module: str = "self", **_: Any) -> PythonCode:
        """The graph as the text of a function of Python."""
        return generate(self, root_module)

    def __str__(self) -> str:
        return "graph():" + "".join(f"\n    {node.format_node()}" for node in self.nodes)

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [(n.op, n.name, str(n.target), str(n.args), str(n.kwargs)) for n in self.nodes]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        rows.insert(1, tuple("-" * w for w in widths))  # type: ignore[arg-type]
        for row in rows:
            print("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())

    def __deepcopy__(self, memo: Any = None) -> Graph:
        made = Graph(tracer_cls=self._tracer_cls)
        found = made.graph_copy(self, {}, return_output_node=True)
        if found is not None:
            result, node = found
            made.output(result, node.type).meta = dict(node.meta)
        return made

    def process_inputs(self, *args: Any) -> Any:
        """The arguments as the placeholders take them: as they are."""
        return args

    def process_outputs(self, out: Any) -> Any:
        """The result as the graph gives it: as it is."""
        return out


def _reserved(name: str) -> bool:
    if keyword.iskeyword(name) or name in ("minitensor", "torch", "self"):
        return True
    return hasattr(builtins, name)


def _wanted(target: Any) -> str:
    text = target if isinstance(target, str) else getattr(target, "__name__", type(target).__name__)
    text = text.replace("*", "").replace(".", "_")
    if text.startswith("__") and text.endswith("__"):
        text = text[2:-2]
    # In snake case.
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", text).lower() if not isinstance(target, str) else text


def _reaches(module: Any, path: str) -> bool:
    for part in path.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True
