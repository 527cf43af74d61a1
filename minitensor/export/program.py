"""Exported programs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from minitensor import nn
from minitensor._C import Tensor
from minitensor.export.signature import (
    ExportGraphSignature,
    InputKind,
    OutputKind,
)
from minitensor.fx.graph import Graph
from minitensor.fx.graph_module import GraphModule
from minitensor.fx.node import map_arg
from minitensor.nn import Module
from minitensor.utils import _pytree

__all__ = [
    "CallSpec", "CustomDecompTable", "ExportedProgram", "InputTensor", "ModuleCallEntry", "ModuleCallSignature",
    "ValueRanges", "default_decompositions",
]  # fmt: skip


@dataclass(frozen=True)
class ValueRanges:
    """The sizes that a dimension may have; None: without an upper bound."""

    lower: int
    upper: int | None

    def __repr__(self) -> str:
        return f"VR[{self.lower}, {'int_oo' if self.upper is None else self.upper}]"


@dataclass
class ModuleCallSignature:
    """How a module was called."""

    inputs: list[Any]
    outputs: list[Any]
    in_spec: Any
    out_spec: Any
    forward_arg_names: list[str] | None = None

    def replace_all_uses_with(self, original_node: Any, new_node: Any) -> None:
        """Give an argument another name."""
        for arg in (*self.inputs, *self.outputs):
            if getattr(arg, "name", None) == original_node.name:
                arg.name = new_node.name


@dataclass
class ModuleCallEntry:
    """A module of the program, by its path; of the whole one, how it was called."""

    fqn: str
    signature: ModuleCallSignature | None = None


@dataclass(frozen=True)
class CallSpec:
    """The structure of the inputs and of the result."""

    in_spec: Any
    out_spec: Any


@dataclass
class InputTensor:
    """What a program was exported for: an input's dtype and sizes, or its value if it is no tensor.

    A size is an int, or a symbol with the factor and offset by which the size follows it.
    """

    name: str
    dtype: Any
    sizes: list[Any]
    value: Any


class CustomDecompTable(dict[Any, Callable[..., Any]]):
    """Functions by those that they replace, for `run_decompositions`."""

    def materialize(self) -> dict[Any, Callable[..., Any]]:
        """The same as a plain dict."""
        return dict(self)

    def copy(self) -> CustomDecompTable:
        """A copy."""
        return CustomDecompTable(self)


def default_decompositions() -> CustomDecompTable:
    """The table that `run_decompositions` uses by itself: an empty one, since calls are lowered as they are."""
    return CustomDecompTable()


class ExportedProgram:
    """A module as a graph of calls, with its tensors: see :func:`minitensor.export.export`.

    `graph_module` takes parameters, buffers and constants as inputs, as `graph_signature` says; `module()` is one to
    call. `state_dict` has the tensors by name, `constants` those that no state_dict has, `range_constraints` the range
    of each size that varies.
    """

    _report: list[str]

    def __init__(
        self, graph_module: GraphModule, graph_signature: ExportGraphSignature, state_dict: dict[str, Tensor],
        constants: dict[str, Tensor], inputs: list[InputTensor], range_constraints: dict[str, ValueRanges],
        module_call_graph: list[ModuleCallEntry], example_inputs: Any = None,
    ) -> None:  # fmt: skip
        """Made by `export` and `load`."""
        self._graph_module, self._graph_signature = graph_module, graph_signature
        self._state_dict, self._constants, self._inputs = state_dict, constants, inputs
        self._range_constraints, self._module_call_graph = range_constraints, module_call_graph
        self._example_inputs = example_inputs
        self._report = []

    @property
    def graph_module(self) -> GraphModule:
        """The graph as a module whose inputs are flat, and have parameters, buffers and constants first."""
        return self._graph_module

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph_module.graph

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """What the graph's inputs and outputs are."""
        return self._graph_signature

    @property
    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers by their names."""
        return self._state_dict

    @property
    def constants(self) -> dict[str, Tensor]:
        """Tensors that the program has besides."""
        return self._constants

    tensor_constants = constants

    @property
    def range_constraints(self) -> dict[str, ValueRanges]:
        """The ranges of the sizes that vary."""
        return self._range_constraints

    @property
    def module_call_graph(self) -> list[ModuleCallEntry]:
        """The modules of the program, the whole one first."""
        return self._module_call_graph

    @property
    def example_inputs(self) -> Any:
        """The example that it was exported with: arguments by place, and by name."""
        return self._example_inputs

    @property
    def call_spec(self) -> CallSpec:
        """The structure of the inputs and of the result."""
        signature = self._module_call_graph[0].signature
        assert signature is not None
        return CallSpec(signature.in_spec, signature.out_spec)

    @property
    def dialect(self) -> str:
        """Which functions the graph calls: as the module called them."""
        return "TRAINING"

    def parameters(self) -> Iterator[nn.Parameter]:
        """The parameters."""
        for _, tensor in self.named_parameters():
            yield tensor

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """The parameters with their names."""
        for name in self._graph_signature.parameters:
            yield name, self._state_dict[name]  # type: ignore[misc]

    def buffers(self) -> Iterator[Tensor]:
        """The buffers."""
        for _, tensor in self.named_buffers():
            yield tensor

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their names."""
        for name in self._graph_signature.buffers:
            yield name, self._tensor(name)

    def _tensor(self, name: str) -> Tensor:
        return self._state_dict[name] if name in self._state_dict else self._constants[name]

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """RuntimeError: a module is called, which `module()` makes."""
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )

    def module(self, check_guards: bool = True) -> ExportedModule:
        """The program as a module with its parameters and buffers, called as the exported one was.

        Inputs of another structure are a ValueError; of other sizes or dtypes, or other values where they are no
        tensors, AssertionError.
        """
        return ExportedModule(self, check_guards)

    def run_decompositions(
        self, decomp_table: Mapping[Any, Callable[..., Any]] | None = None, decompose_custom_triton_ops: bool = False
    ) -> ExportedProgram:
        """A program whose calls of the table's functions are calls of what these call.

        Without a table calls stay as they are.
        """
        from minitensor.export.decompose import decomposed

        made = copy.copy(self)
        graph = decomposed(self, dict(decomp_table or {}))
        made._graph_module = GraphModule({}, graph)
        return made

    def hlo(self, stage: str = "hlo") -> str:
        """The HLO text of a call with the example's sizes. Weights and inputs are its parameters, by their first use.

        `stage` is one of those of `minitensor.function(...).lower(...)`. RuntimeError without an example,
        InvalidArgumentError for what can't be compiled as a whole.
        """
        from minitensor.export.lowered import lowered

        return str(lowered(self).as_text(stage))

    def validate(self) -> None:
        """RuntimeError if the graph is not well formed."""
        self.graph.lint()
        count = len([n for n in self.graph.nodes if n.op == "placeholder"])
        if count != len(self._graph_signature.input_specs):
            raise RuntimeError(f"the graph has {count} inputs, the signature {len(self._graph_signature.input_specs)}")

    def __str__(self) -> str:
        signature = str(self._graph_signature).replace("\n", "\n    ")
        code = self._graph_module.print_readable(print_output=False).rstrip().replace("\n", "\n    ")
        return (
            f"ExportedProgram:\n    {code}\n\nGraph signature: {signature}"
            f"\nRange constraints: {self._range_constraints}\n"
        )

    def lifted(self) -> list[Any]:
        """The tensors of the graph's first inputs."""
        return [
            self._tensor(spec.target)
            for spec in self._graph_signature.input_specs
            if spec.kind is not InputKind.USER_INPUT and spec.target is not None
        ]


@dataclass
class _Checks:
    """What the inputs of a call must be like."""

    inputs: list[InputTensor]
    ranges: dict[str, ValueRanges]
    found: dict[str, tuple[int, str]] = field(default_factory=dict)

    def run(self, leaves: list[Any]) -> None:
        self.found.clear()
        for info, leaf in zip(self.inputs, leaves, strict=True):
            if info.dtype is None:
                if type(leaf) is not type(info.value) or leaf != info.value:
                    raise AssertionError(f"Guard failed: {info.name} == {info.value!r}, but it is {leaf!r}")
                continue
            if not isinstance(leaf, Tensor):
                raise AssertionError(f"Guard failed: {info.name} is a tensor, but it is a {type(leaf).__name__}")
            if leaf.dtype != info.dtype:
                raise AssertionError(f"Guard failed: {info.name}.dtype == {info.dtype}, but it is {leaf.dtype}")
            if leaf.dim() != len(info.sizes):
                raise AssertionError(f"Guard failed: {info.name}.dim() == {len(info.sizes)}, but it is {leaf.dim()}")
            for dim, (wanted, size) in enumerate(zip(info.sizes, leaf.shape, strict=True)):
                self._size(f"{info.name}.size()[{dim}]", wanted, int(size))

    def _size(self, where: str, wanted: Any, size: int) -> None:
        if isinstance(wanted, int):
            if size != wanted:
                raise AssertionError(
                    f"Guard failed: {where} == {wanted}, but it is {size}: the program was exported for this size; "
                    "dynamic_shapes says which may vary"
                )
            return
        name, factor, offset = wanted
        root, rest = divmod(size - offset, factor)
        if rest:
            raise AssertionError(f"Guard failed: {where} == {factor} * {name} + {offset}, but it is {size}")
        low, high = self.ranges[name].lower, self.ranges[name].upper
        if root < low:
            raise AssertionError(f"Guard failed: {where} >= {factor * low + offset}, but it is {size}")
        if high is not None and root > high:
            raise AssertionError(f"Guard failed: {where} <= {factor * high + offset}, but it is {size}")
        known, first = self.found.setdefault(name, (root, where))
        if known != root:
            raise AssertionError(
                f"Guard failed: {where} and {first} are of one {name}, but they are {size} and {known}"
            )


class ExportedModule(GraphModule):
    """What `ExportedProgram.module()` returns."""

    def __init__(self, program: ExportedProgram, check_guards: bool = True) -> None:
        """The program's graph with attributes for its first inputs."""
        signature = program.graph_signature
        graph = Graph()
        values: dict[Any, Any] = {}
        specs = iter(signature.input_specs)
        tensors: dict[str, Any] = {}
        for node in program.graph.nodes:
            if node.op == "placeholder":
                spec = next(specs)
                if spec.kind is not InputKind.USER_INPUT and spec.target is not None:
                    tensors[spec.target] = program._tensor(spec.target)
                    values[node] = graph.create_node("get_attr", spec.target, name=spec.target.replace(".", "_"))
                    continue
            if node.op == "output":
                kinds = [spec.kind for spec in signature.output_specs]
                kept = [x for x, kind in zip(node.args[0], kinds, strict=True) if kind is OutputKind.USER_OUTPUT]
                graph.output(map_arg(tuple(kept), lambda n: values[n]))
                continue
            values[node] = graph.node_copy(node, lambda n: values[n])
        super().__init__(tensors, graph)
        for name, tensor in program.state_dict.items():  # one tensor under several names
            if name not in tensors:
                _attach(self, name, tensor)
        non_persistent = set(signature.non_persistent_buffers) | set(program.constants)
        for path, module in self.named_modules():
            for name in module._buffers:
                if (f"{path}.{name}" if path else name) in non_persistent:
                    module._non_persistent_buffers_set.add(name)
        call = program.call_spec
        self._in_spec, self._out_spec = call.in_spec, call.out_spec
        self._checks = _Checks(program._inputs, program.range_constraints) if check_guards else None
        self._program = program

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program."""
        return _pytree.tree_unflatten(list(super().__call__(*self._flat(args, kwargs))), self._out_spec)

    def _flat(self, args: Any, kwargs: dict[str, Any]) -> list[Any]:
        wanted = self._in_spec.child(1).context
        if wanted is not None and set(wanted) == set(kwargs):
            kwargs = {name: kwargs[name] for name in wanted}
        leaves, spec = _pytree.tree_flatten((args, kwargs))
        if spec != self._in_spec:
            raise ValueError(
                f"Trying to flatten user inputs with exported input tree spec: \n{self._in_spec}\nbut actually got "
                f"inputs with tree spec of: \n{spec}.\nPlease check that the inputs have the same number and type of "
                "args and kwargs as the ones you used when tracing."
            )
        if self._checks is not None:
            self._checks.run(leaves)
        return leaves

    def train(self, mode: bool = True) -> NoReturn:
        """NotImplementedError: a program is what the module was when it was exported."""
        raise NotImplementedError("Calling train() is not supported yet.")

    def eval(self) -> NoReturn:
        """NotImplementedError, as for `train`."""
        raise NotImplementedError("Calling eval() is not supported yet.")

    def _current(self) -> ExportedProgram:
        """The program with the tensors that the module has now."""
        program = copy.copy(self._program)
        named = {
            **dict(self.named_parameters(remove_duplicate=False)),
            **dict(self.named_buffers(remove_duplicate=False)),
        }
        program._state_dict = {name: named.get(name, t) for name, t in program._state_dict.items()}
        program._constants = {name: named.get(name, t) for name, t in program._constants.items()}
        return program

    def __deepcopy__(self, memo: Any) -> ExportedModule:
        program = self._current()
        program._state_dict = copy.deepcopy(program._state_dict, memo)
        program._constants = copy.deepcopy(program._constants, memo)
        return ExportedModule(program, self._checks is not None)

    def __copy__(self) -> ExportedModule:
        return ExportedModule(self._current(), self._checks is not None)

    def __reduce__(self) -> Any:
        from minitensor.export.files import to_bytes

        return _module_of, (to_bytes(self._current()), self._checks is not None)


def _module_of(data: bytes, check_guards: bool) -> ExportedModule:
    import io

    from minitensor.export.files import load

    return load(io.BytesIO(data)).module(check_guards)


def _attach(root: Any, path: str, value: Any) -> None:
    *parents, name = path.split(".")
    for part in parents:
        if part not in root._modules:
            root.add_module(part, Module())
        root = root._modules[part]
    if isinstance(value, nn.Parameter):
        root.register_parameter(name, value)
    else:
        root.register_buffer(name, value)
