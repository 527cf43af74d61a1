"""A flat program with its modules again."""

from __future__ import annotations

import abc
from typing import Any

from minitensor import nn
from minitensor.export.program import ExportedProgram
from minitensor.export.signature import InputKind, OutputKind
from minitensor.fx.graph import Graph
from minitensor.fx.interpreter import Interpreter
from minitensor.fx.node import Node, map_arg
from minitensor.nn import Module
from minitensor.utils import _pytree

__all__ = ["FlatArgsAdapter", "InterpreterModule", "UnflattenedModule", "unflatten"]


class FlatArgsAdapter(abc.ABC):
    """Makes inputs of another structure such as a program takes."""

    @abc.abstractmethod
    def adapt(
        self, target_spec: Any, input_spec: Any, input_args: list[Any], metadata: dict[str, Any] | None = None,
        obj: Any | None = None,
    ) -> list[Any]:  # fmt: skip
        """The leaves for the structure `target_spec` of the leaves of `input_spec`."""

    def get_flat_arg_paths(self) -> list[str]:
        """The names of the leaves that it needs; by default it says nothing."""
        return []


class InterpreterModule(Module):
    """A module of an unflattened program: its part of the graph, with its parameters and submodules."""

    graph: Graph

    def __init__(self, graph: Graph, ty: str | None = None) -> None:
        """`ty`: the name of the class that it was."""
        super().__init__()
        self.graph = graph
        self._ty = ty

    def type_name(self) -> str | None:
        """The name of the class that it was."""
        return self._ty

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run its part of the graph."""
        return Interpreter(self, garbage_collect_values=False, graph=self.graph).run(*args, *kwargs.values())


class UnflattenedModule(InterpreterModule):
    """An exported program as modules in modules, by the paths that they had."""

    def __init__(self, export_module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None) -> None:
        """Modules without calls have parameters only; a module's second call is a module of its own, `name@1`."""
        super().__init__(Graph())
        self._program = export_module
        self._module = [export_module.module()]  # in a list: no submodule
        self.flat_args_adapter = flat_args_adapter
        self.module_call_graph = export_module.module_call_graph
        nodes, inputs, tensors = _without_lifted(export_module)
        for path, tensor in tensors.items():
            _place(self, path, tensor)
        output = export_module.graph.output_node()
        kinds = [spec.kind for spec in export_module.graph_signature.output_specs]
        results = [x for x, k in zip(output.args[0], kinds, strict=True) if k is OutputKind.USER_OUTPUT]
        _Part(self, "", nodes, inputs, results, tensors, whole=True).build()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program; inputs are checked as those of `ExportedProgram.module()`."""
        checked = self._module[0]
        if self.flat_args_adapter is not None:
            leaves, spec = _pytree.tree_flatten((args, kwargs))
            if spec != checked._in_spec:
                leaves = self.flat_args_adapter.adapt(checked._in_spec, spec, leaves)
                args, kwargs = _pytree.tree_unflatten(leaves, checked._in_spec)
        found = super().forward(*checked._flat(args, kwargs))
        return _pytree.tree_unflatten(list(found), checked._out_spec)


class _Attribute:
    """Stands for a parameter, buffer or constant among arguments."""

    def __init__(self, path: str) -> None:
        self.path = path


def _without_lifted(program: ExportedProgram) -> tuple[list[Node], list[Node], dict[str, Any]]:
    """A copy's calls and inputs, and the tensors by path; the first inputs' nodes know their paths."""
    nodes, inputs, tensors = [], [], {}
    specs = iter(program.graph_signature.input_specs)
    for node in program.graph.nodes:
        if node.op == "placeholder":
            spec = next(specs)
            if spec.kind is InputKind.USER_INPUT or spec.target is None:
                inputs.append(node)
            else:
                tensors[spec.target] = program._tensor(spec.target)
                node.meta["attribute"] = spec.target
        elif node.op != "output":
            nodes.append(node)
    for name, tensor in program.state_dict.items():
        tensors.setdefault(name, tensor)
    return nodes, inputs, tensors


def _place(root: Any, path: str, value: Any) -> None:
    *parents, name = path.split(".")
    for part in parents:
        if part not in root._modules:
            root.add_module(part, InterpreterModule(Graph()))
        root = root._modules[part]
    if name in root._parameters or name in root._buffers:
        return
    if isinstance(value, nn.Parameter):
        root.register_parameter(name, value)
    else:
        root.register_buffer(name, value)


class _Part:
    """The nodes of one call of a module, which become its graph."""

    def __init__(
        self, module: Any, path: str, nodes: list[Node], inputs: list[Node], results: Any, tensors: dict[str, Any],
        depth: int = 0, whole: bool = False,
    ) -> None:  # fmt: skip
        self.module, self.path, self.nodes, self.inputs, self.results = module, path, nodes, inputs, results
        self.tensors, self.depth, self.whole = tensors, depth, whole
        self.graph: Graph = Graph()
        self.values: dict[Node, Node] = {}

    def build(self) -> None:
        """Fill the module's graph."""
        for node in self.inputs:
            self.values[node] = self.graph.create_node("placeholder", node.name, name=node.name)
        for key, path, group in self._groups():
            if key is None:
                self.values[group[0]] = self._copied(group[0])
            else:
                self._call(key, path, group)
        given = map_arg(tuple(self.results), self._value)
        self.graph.output(given if self.whole or len(given) != 1 else given[0])
        self.module.graph = self.graph

    def _value(self, node: Node) -> Node:
        if node not in self.values:
            target = node.meta["attribute"]
            place = f"{self.path}." if self.path else ""
            if not target.startswith(place):  # a tensor of another module's
                inner = "_outer_" + target.replace(".", "_")
                _place(self.module, inner, self.tensors[target])
            else:
                inner = target.removeprefix(place)
                _place(self.module, inner, self.tensors[target])
            with self.graph.inserting_after(self.values[self.inputs[-1]] if self.inputs else None):
                self.values[node] = self.graph.create_node("get_attr", inner, name=inner.replace(".", "_"))
        return self.values[node]

    def _copied(self, node: Node) -> Node:
        map_arg((node.args, node.kwargs), self._value)
        return self.graph.node_copy(node, lambda n: self.values[n])

    def _groups(self) -> list[tuple[str | None, str, list[Node]]]:
        """Neighbouring nodes of one call of a submodule, and single ones of this module."""
        found: list[tuple[str | None, str, list[Node]]] = []
        for node in self.nodes:
            stack = node.meta.get("nn_module_stack") or []
            key, path = (stack[self.depth][0], stack[self.depth][1]) if len(stack) > self.depth else (None, "")
            if key is not None and found and found[-1][0] == key:
                found[-1][2].append(node)
            else:
                found.append((key, path, [node]))
        return found

    def _call(self, key: str, path: str, group: list[Node]) -> None:
        inside = set(group)
        needed: dict[Node, None] = {}
        for node in group:
            map_arg((node.args, node.kwargs), lambda n: None if n in inside else needed.setdefault(n))
        inputs = [n for n in needed if "attribute" not in n.meta]
        wanted = {n for n in self.results if isinstance(n, Node)}
        results = [n for n in group if n in wanted or any(user not in inside for user in n.users)]
        name = self._name(key)
        made = _submodule(self.module, name, path, self.path)
        stack = group[0].meta["nn_module_stack"][self.depth]
        made._ty = getattr(stack[2], "__name__", None)
        _Part(made, path, group, inputs, results, self.tensors, self.depth + 1).build()
        given = tuple(self._value(n) for n in inputs)
        call = self.graph.create_node("call_module", name, given, {}, name.replace(".", "_").replace("@", "_"))
        if len(results) == 1:
            self.values[results[0]] = call
            return
        import operator

        for i, node in enumerate(results):
            self.values[node] = self.graph.call_function(operator.getitem, (call, i))

    def _name(self, key: str) -> str:
        place = f"{self.path}." if self.path else ""
        name = key.removeprefix(place)
        taken = {n.target for n in self.graph.nodes if n.op == "call_module"}
        base, count = name, 0
        while name in taken:  # its calls stand apart, with others between them
            count += 1
            name = f"{base}_part{count}"
        return name


def _submodule(root: Any, name: str, path: str, outer: str) -> Any:
    """The module of a call, made where it is missing; that of a later call has the tensors of the first."""
    place = root
    *parents, last = name.split(".")
    for part in parents:
        if part not in place._modules:
            place.add_module(part, InterpreterModule(Graph()))
        place = place._modules[part]
    if last not in place._modules:
        place.add_module(last, InterpreterModule(Graph()))
    return place._modules[last]


def unflatten(module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None) -> UnflattenedModule:
    """An exported program with the modules that it was made of, by their paths; they can be exchanged.

    TypeError for what is no program.
    """
    if not isinstance(module, ExportedProgram):
        raise TypeError(f"unflatten: expected an ExportedProgram, got {type(module).__name__}")
    return UnflattenedModule(module, flat_args_adapter)
