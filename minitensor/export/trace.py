"""`export`: a module, run on an example, as a program."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import contextmanager
from typing import Any

from minitensor import compiler
from minitensor._C import Tensor
from minitensor._functions.offered import set_rng_state
from minitensor.autograd import no_grad
from minitensor.export.dims import Dim, resized, specs_of
from minitensor.export.errors import UserError
from minitensor.export.program import ExportedProgram, InputTensor, ModuleCallEntry, ModuleCallSignature, ValueRanges
from minitensor.export.recorder import DivergedError, Recorder
from minitensor.export.signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from minitensor.export.sizes import SymFloat, SymInt
from minitensor.fx.graph_module import GraphModule
from minitensor.fx.node import Node
from minitensor.nn import Module
from minitensor.random import get_rng_state
from minitensor.utils import _pytree

__all__ = ["draft_export", "export"]


class _Symbol:
    """A size that varies, and the dimensions that follow it."""

    def __init__(self, name: str, size: int, low: int, high: int | None, hint: str) -> None:
        self.name, self.size, self.low, self.high, self.hint = name, size, low, high, hint
        self.members: list[tuple[int, int, int, int]] = []  # leaf, dimension, factor, offset

    def other(self, change: Any) -> int | None:
        """Another size, if it is in the range."""
        size = change(self.size)
        fits = size >= max(self.low, 1) and (self.high is None or size <= self.high) and size != self.size
        return size if fits else None


_CHANGES = tuple(
    lambda n, a=a, b=b, c=c: (n * a) // c + b  # type: ignore[misc]
    for a, b, c in (
        (1, 1, 1),
        (2, 0, 1),
        (1, -1, 1),
        (1, 2, 1),
        (1, 0, 2),
        (1, 8, 1),
        (1, 16, 1),
        (1, 32, 1),
        (1, -2, 1),
    )
)


def export(
    mod: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None, *,
    dynamic_shapes: Any = None, strict: bool = False, preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:  # fmt: skip
    """Run a module on an example, and return the calls that it made as a program without Python.

    Control flow is that of the example. Sizes are the example's, except where `dynamic_shapes` says that they vary: by
    the names of `forward`'s parameters, or in their order, for each tensor a dict or tuple of :class:`Dim` by dimension
    (`Dim.AUTO`: if it can; `Dim.DYNAMIC`: it must; None, `Dim.STATIC` or an int: it doesn't). A module is then run
    once more with other sizes, to see that what Python does is the same. What the program decides by sizes is checked
    when it runs.

    The graph's nodes are calls of minitensor's public functions and methods, as the module made them. Writes in place
    stay what they are. Buffers and random numbers are as before afterwards. ValueError for what is no module, UserError
    for what can't be exported: reads of values, sizes that are said to vary and don't.
    """
    return _export(mod, args, kwargs, dynamic_shapes, False)


def draft_export(
    mod: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None, *,
    dynamic_shapes: Any = None, preserve_module_call_signature: tuple[str, ...] = (), strict: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:  # fmt: skip
    """The same of a module that reads values: they are the example's in the program. `_report` lists them."""
    return _export(mod, args, kwargs, dynamic_shapes, True)


def _export(mod: Any, args: Any, kwargs: Any, dynamic_shapes: Any, draft: bool) -> ExportedProgram:
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise UserError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    kwargs = dict(kwargs or {})
    specs = specs_of(mod, args, kwargs, dynamic_shapes)
    leaves, in_spec = _pytree.tree_flatten((args, kwargs))
    names = _input_names(mod, args, kwargs)
    symbols = _symbols(leaves, names, specs)
    while True:
        try:
            recorder, result = _recorded(mod, leaves, in_spec, names, symbols, draft)
            break
        except _SpecialisedError as error:
            # One that need not vary is a number instead.
            if error.symbol.hint != "AUTO":
                raise UserError(str(error)) from error.__cause__
            symbols.remove(error.symbol)
    return _program(mod, recorder, result, leaves, in_spec, names, symbols, (args, kwargs))


class _SpecialisedError(Exception):
    def __init__(self, symbol: _Symbol, why: BaseException | None) -> None:
        text = (
            f"Constraints violated ({symbol.name})! You marked {symbol.name} as dynamic but your code specialized it "
            f"to be a constant ({symbol.size})"
        )
        super().__init__(f"{text}: {why}" if why is not None else f"{text}: no other size is in its range")
        self.symbol = symbol
        self.__cause__ = why


def _input_names(mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """A name for each leaf of the inputs."""
    bound = inspect.signature(mod.forward).bind(*args, **kwargs)
    places: list[str] = []
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            places += [f"{name}_{i}" for i in range(len(value))]
        elif name not in kwargs and kind is not inspect.Parameter.VAR_KEYWORD:
            places.append(name)
    names = []
    for path, _ in _pytree.tree_flatten_with_path((args, kwargs))[0]:
        _, key, *rest = path
        first = places[key.idx] if isinstance(key, _pytree.SequenceKey) else str(key.key)
        names.append("_".join([first, *(_part(one) for one in rest)]))
    return names


def _part(key: Any) -> str:
    for attribute in ("idx", "key", "name"):
        if hasattr(key, attribute):
            return "".join(c if c.isalnum() else "_" for c in str(getattr(key, attribute)))
    return "item"


def _symbols(leaves: list[Any], names: list[str], specs: dict[int, dict[int, Any]]) -> list[_Symbol]:
    found: dict[Any, _Symbol] = {}
    for number, leaf in enumerate(leaves):
        for dim, spec in specs.get(id(leaf), {}).items():
            size = int(leaf.shape[dim])
            where = f"{names[number]}.size()[{dim}]"
            if isinstance(spec, Dim):
                root, rest = divmod(size - spec.offset, spec.factor)
                name = spec.root.__name__
                symbol = found.setdefault(name, _Symbol(name, root, spec.root.min, spec.root.max, "NAMED"))
                if rest or symbol.size != root:
                    raise UserError(
                        f"Constraints violated ({name})! {where} is {size}, which is not {spec!r} for {name} = "
                        f"{symbol.size}"
                    )
                member = (number, dim, spec.factor, spec.offset)
            else:
                # Sizes of hints that are equal in the example are taken to be one.
                symbol = found.setdefault(
                    (spec.kind, size, spec.min, spec.max),
                    _Symbol(f"s{len(found)}", size, spec.min or 0, spec.max, spec.kind),
                )
                member = (number, dim, 1, 0)
            if size < symbol.low or (symbol.high is not None and symbol.size > symbol.high):
                high = "infinity" if symbol.high is None else symbol.high
                raise UserError(f"{where} is {size}, which is outside of the range {symbol.low} to {high}")
            symbol.members.append(member)
    return list(found.values())


def _recorded(
    mod: Any, leaves: list[Any], in_spec: Any, names: list[str], symbols: list[_Symbol], draft: bool
) -> tuple[Recorder, Any]:
    if not symbols:
        return _run(mod, leaves, in_spec, names, None, draft)
    try:
        return _varied(mod, leaves, in_spec, names, symbols, symbols, draft)
    except _SpecialisedError:
        # Which one is it? Each alone.
        for symbol in symbols:
            _varied(mod, leaves, in_spec, names, symbols, [symbol], draft)
        raise


def _varied(
    mod: Any, leaves: list[Any], in_spec: Any, names: list[str], symbols: list[_Symbol], changed: list[_Symbol],
    draft: bool,
) -> tuple[Recorder, Any]:  # fmt: skip
    """A run with other sizes of some symbols, and then one with the example's: the recorded one."""
    why: BaseException | None = None
    for change in _CHANGES:
        sizes = {symbol.name: symbol.other(change) for symbol in changed}
        if any(size is None for size in sizes.values()):
            continue
        others: list[Any] = []
        for number, leaf in enumerate(leaves):
            wanted = {
                dim: factor * size + offset
                for symbol in changed
                for at, dim, factor, offset in symbol.members
                if at == number and (size := sizes[symbol.name]) is not None
            }
            others.append(resized(leaf, wanted) if wanted else leaf)
        try:
            first, _ = _run(mod, others, in_spec, names, None, draft)
        except UserError:
            raise
        except Exception as error:  # the module can't have these sizes; perhaps others
            why = why or error
            continue
        try:
            return _run(mod, leaves, in_spec, names, first.log, draft)
        except DivergedError as error:
            why = error
    raise _SpecialisedError(changed[0], why)


def _run(
    mod: Any, leaves: list[Any], in_spec: Any, names: list[str], other: list[Any] | None, draft: bool
) -> tuple[Recorder, Any]:
    recorder = Recorder(other, draft)
    for name, tensor in mod.named_parameters():
        recorder.enter("p_" + name.replace(".", "_"), tensor)
    for name, tensor in mod.named_buffers():
        recorder.enter("b_" + name.replace(".", "_"), tensor)
    leaves = _apart(leaves)
    for name, leaf in zip(names, leaves, strict=True):
        node = recorder.enter(name, leaf)
        recorder.first_input = recorder.first_input or node
    recorder.name_constants(
        {
            id(value): f"{path}.{name}" if path else name
            for path, module in mod.named_modules()
            for name, value in vars(module).items()
            if isinstance(value, Tensor)
        }
    )
    args, kwargs = _pytree.tree_unflatten(leaves, in_spec)
    with _restored(mod, leaves) as changed, _modules_seen(mod, recorder), compiler.exporting(), recorder:
        result = mod(*args, **kwargs)
        outputs = _pytree.tree_leaves(result)
    recorder.mutated = changed()
    recorder.finish([*(tensor for _, _, tensor in recorder.mutated), *outputs])
    return recorder, result


def _apart(leaves: list[Any]) -> list[Any]:
    """Inputs that are one tensor as tensors of their own: another call may have two."""
    seen: set[int] = set()
    found = []
    for leaf in leaves:
        again = isinstance(leaf, Tensor) and id(leaf) in seen
        found.append(leaf.detach().requires_grad_(leaf.requires_grad) if again else leaf)
        seen.add(id(leaf))
    return found


@contextmanager
def _restored(mod: Any, leaves: list[Any]) -> Any:
    """What a run changes is as before afterwards: buffers, inputs, random numbers. Gives a function that says what."""
    state = get_rng_state()
    held = [(OutputKind.PARAMETER_MUTATION, name, t) for name, t in mod.named_parameters()]
    held += [(OutputKind.BUFFER_MUTATION, name, t) for name, t in mod.named_buffers()]
    held += [(OutputKind.USER_INPUT_MUTATION, None, t) for t in leaves if isinstance(t, Tensor)]
    versions = [t._version for _, _, t in held]
    copies = [None if kind is OutputKind.PARAMETER_MUTATION else t.detach().clone() for kind, _, t in held]

    def changed() -> list[Any]:
        return [one for one, version in zip(held, versions, strict=True) if one[2]._version != version]

    mutated: list[Any] = []
    try:
        yield lambda: mutated
    finally:
        set_rng_state(state)
        mutated += changed()
        with no_grad():
            for (_, _, tensor), copied, version in zip(held, copies, versions, strict=True):
                if tensor._version != version and copied is not None:
                    tensor.data.copy_(copied)


@contextmanager
def _modules_seen(root: Any, recorder: Recorder) -> Any:
    """As long as it lasts, the recorder knows which submodule makes a call."""
    paths = {id(module): path for path, module in root.named_modules()}
    kept = vars(Module).get("__call__")
    call = Module.__call__

    def seen(module: Any, *args: Any, **kwargs: Any) -> Any:
        path = paths.get(id(module))
        if not path:
            return call(module, *args, **kwargs)
        with recorder.module(path, module):
            return call(module, *args, **kwargs)

    Module.__call__ = seen  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        if kept is None:
            del Module.__call__
        else:
            Module.__call__ = kept  # type: ignore[method-assign]


def _program(
    mod: Any, recorder: Recorder, result: Any, leaves: list[Any], in_spec: Any, names: list[str],
    symbols: list[_Symbol], example: Any,
) -> ExportedProgram:  # fmt: skip
    out_leaves, out_spec = _pytree.tree_flatten(result)
    buffers = dict(mod.named_buffers(remove_duplicate=False))
    # Parameters first: a program's inputs are in this order, a module's own state is by its submodules.
    state = dict(sorted(mod.state_dict(keep_vars=True).items(), key=lambda item: item[0] in buffers))
    buffers = dict(mod.named_buffers())
    nodes = {n.name: n for n in recorder.graph.nodes if n.op == "placeholder"}
    order = iter(nodes.values())
    inputs = [InputSpec(InputKind.PARAMETER, TensorArgument(next(order).name), n) for n, _ in mod.named_parameters()]
    inputs += [InputSpec(InputKind.BUFFER, TensorArgument(next(order).name), n, n in state) for n in buffers]
    constants = {n: t for n, t in buffers.items() if n not in state}
    for target, (node, tensor) in recorder.constants.items():
        next(order)
        inputs.append(InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), target))
        constants[target] = tensor
    infos = []
    ranges = {symbol.name: ValueRanges(symbol.low, symbol.high) for symbol in symbols}
    for number, leaf in enumerate(leaves):
        name = next(order).name
        if not isinstance(leaf, Tensor):
            inputs.append(InputSpec(InputKind.USER_INPUT, ConstantArgument(name, leaf), None))
            infos.append(InputTensor(names[number], None, [], leaf))
            continue
        inputs.append(InputSpec(InputKind.USER_INPUT, TensorArgument(name), None))
        sizes: list[Any] = list(map(int, leaf.shape))
        for symbol in symbols:
            for at, dim, factor, offset in symbol.members:
                if at == number:
                    sizes[dim] = (symbol.name, factor, offset)
        infos.append(InputTensor(names[number], leaf.dtype, sizes, None))
    mutated = recorder.mutated
    given = recorder.graph.output_node().args[0]
    outputs = [
        OutputSpec(kind, TensorArgument(node.name), target or node.name)
        for (kind, target, _), node in zip(mutated, given, strict=False)
    ]
    for node, value in zip(given[len(mutated) :], out_leaves, strict=True):
        arg: Any = ConstantArgument("", value)
        if isinstance(node, Node):
            kind: Any = (
                SymIntArgument if isinstance(value, SymInt) else
                SymFloatArgument if isinstance(value, SymFloat) else TensorArgument
            )  # fmt: skip
            arg = kind(node.name)
        outputs.append(OutputSpec(OutputKind.USER_OUTPUT, arg, None))
    parameters = list(inspect.signature(mod.forward).parameters)
    calls = [ModuleCallEntry("", ModuleCallSignature([], [], in_spec, out_spec, parameters))]
    calls += [ModuleCallEntry(path) for path, _ in mod.named_modules() if path]
    made = ExportedProgram(
        GraphModule({}, recorder.graph), ExportGraphSignature(inputs, outputs), state, constants, infos, ranges, calls,
        example,
    )  # fmt: skip
    made._report = recorder.reads
    return made
