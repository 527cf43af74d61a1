"""Custom ops: what is registered for one, and how a call finds its kernel."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import minitensor
from minitensor import _C, autograd
from minitensor._C import Tensor, float64, get_default_device
from minitensor.amp import autocast
from minitensor.amp.state import is_autocast_enabled
from minitensor.autograd import no_grad
from minitensor.library.schema import Schema

__all__ = ["CustomOp", "find", "forget", "get_ctx", "is_defined", "register"]

_OPS: dict[str, CustomOp] = {}


_shapes_of: list[CustomOp | None] = []


@contextmanager
def _finding_shapes(op: CustomOp | None) -> Iterator[None]:
    """The rule for device "meta" of an op runs, as long as it lasts; None: a kernel does."""
    _shapes_of.append(op)
    try:
        yield
    finally:
        _shapes_of.pop()


def get_ctx() -> NoReturn:
    """RuntimeError, as PyTorch's on device "meta".

    There a rule for shapes may ask for a size that depends on data, `get_ctx().new_dynamic_size()`: sizes are numbers
    here. A rule that doesn't need one must not ask. Outside of such a rule there is nothing to ask.
    """
    op = _shapes_of[-1] if _shapes_of else None
    if op is None:
        raise RuntimeError("get_ctx() can only be called inside of a fake impl")
    raise RuntimeError(
        f"{op.qualname}: You're trying to run this operator with meta Tensors, but this operator may return an output "
        "Tensor with data-dependent shape. Meta Tensors don't support operators with outputs that have data-dependent "
        "shapes. If your operator does not return an output with data-dependent shape, make sure the fake kernel does "
        "not call get_ctx()."
    )


class CustomOp:
    """One op: `minitensor.ops.namespace.name`. Its kernels are found by device; the one named `None` is for all."""

    def __init__(self, namespace: str, schema: Schema) -> None:
        """An op without kernels."""
        self.namespace, self.schema = namespace, schema
        self.kernels: dict[str | None, Callable[..., Any]] = {}
        self.disabled: set[str] = set()
        self.fake: Callable[..., Any] | None = None
        self.backward: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None
        self.vmap: Callable[..., Any] | None = None
        self.autograd_kernel: Callable[..., Any] | None = None
        self.checks_writes = True  # whether a kernel that writes to what it shouldn't is an error
        self.autocast: dict[str, Any] = {}  # by device: the dtype that tensors are cast to
        self.__name__ = self.__qualname__ = schema.name
        self.__module__ = f"minitensor.ops.{namespace}"

    @property
    def qualname(self) -> str:
        """`namespace::name`."""
        return f"{self.namespace}::{self.schema.name}"

    @property
    def default(self) -> CustomOp:
        """The op itself: it has one form."""
        return self

    @property
    def _schema(self) -> Schema:
        return self.schema

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self.namespace}.{self.schema.name}')>"

    def __str__(self) -> str:
        return f"{self.namespace}.{self.schema.name}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the op: by whoever overrides it, with gradients if it has a formula, by the kernel of the device."""
        given = self._bind(args, kwargs)
        tensors = _tensors(given)
        if _C._has_torch_function(_overriding(given)):
            return _C._handle_torch_function(self, _overriding(given), *args, **kwargs)
        if self.autocast and (device := self._autocast_on(tensors)) is not None:
            return self._called_in(device, given)
        if self.autograd_kernel is not None:
            return self.autograd_kernel(*given)
        mapped = self.vmap is not None and any(_C.vmap_level(t) for t in tensors)
        if mapped or _C.is_recorded(*tensors):
            if mapped or not any(p.written for p in self.schema.parameters):
                return _function(self).apply(*given)
            if self.backward is not None:
                raise RuntimeError(f"{self.qualname}: an op that writes to its arguments has no gradient")
        return self.run(given)

    def _autocast_on(self, tensors: list[Any]) -> str | None:
        """The device whose autocast is on and that the op has a rule for."""
        device = tensors[0].device.type if tensors else "cpu"
        return device if device in self.autocast and is_autocast_enabled(device) else None

    def _called_in(self, device: str, given: list[Any]) -> Any:
        def cast(value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return type(value)(map(cast, value))
            wanted = isinstance(value, Tensor) and value.is_floating_point() and value.dtype != float64
            return value.to(self.autocast[device]) if wanted and value.device.type == device else value

        with autocast(device, enabled=False):
            return self(*map(cast, given))

    def run(self, given: list[Any]) -> Any:
        """The kernel's result, without gradients."""
        watcher = _C.call_watcher()
        return self._run(given) if watcher is None else watcher.run_custom(self, given, self._run)

    def _run(self, given: list[Any]) -> Any:
        tensors = _tensors(given)
        kernel = self._kernel(tensors)
        versions = [t._version for t in tensors]
        with no_grad(), _finding_shapes(self if kernel is self.fake else None):
            result = kernel(*given)
        self._check(result, tensors)
        for tensor, before, name in zip(tensors, versions, _names(self.schema, given), strict=True):
            if self.checks_writes and tensor._version != before and not name.written:
                raise RuntimeError(
                    f"{self.qualname}: the kernel wrote to the argument '{name.name}', which mutates_args doesn't name"
                )
        return result

    def _kernel(self, tensors: list[Any]) -> Callable[..., Any]:
        device = tensors[0].device.type if tensors else get_default_device().type
        if device == "meta":
            if self.fake is None:
                raise RuntimeError(
                    f"There was no fake impl registered for <CustomOpDef({self.qualname})>. This is necessary for "
                    "torch.compile/export/fx tracing to work. Please use "
                    f"`{self.schema.name}.register_fake` to add an fake impl."
                )
            return self.fake
        device = {"jit_cpu": "cpu", "jit_gpu": "cuda"}.get(device, device)
        found = self.kernels.get(device) if device not in self.disabled else None
        found = found or self.kernels.get(None)
        if found is None:
            raise NotImplementedError(
                f"Could not run '{self.qualname}' with arguments on device '{device}'. It has kernels for "
                f"{sorted(map(str, self.kernels)) or 'no device'}."
            )
        return found

    def _check(self, result: Any, tensors: list[Any]) -> None:
        for item in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(item, Tensor) and any(item is t for t in tensors):
                raise RuntimeError(
                    f"{self.schema.name}: The output of this custom operator (1) must not also be an input to this "
                    "custom operator and (2) may not alias any inputs to this custom operator or other returns. The "
                    "most common way to trigger this error is if we have y = custom_op(x) and y and x are the same "
                    "Tensor. Please instead return a clone of the offending output tensor(s) (e.g. return x.clone()) "
                    "or refactor the custom operator to not return y."
                )

    def _bind(self, args: Any, kwargs: dict[str, Any]) -> list[Any]:
        parameters = self.schema.parameters
        most = sum(not p.keyword_only for p in parameters)
        if len(args) > most or len(args) + len(kwargs) > len(parameters):
            raise RuntimeError(
                f"{self.qualname}() expected at most {len(parameters)} argument(s) but received "
                f"{len(args) + len(kwargs)} argument(s). Declaration: {self._declaration()}"
            )
        given: list[Any] = []
        rest = dict(kwargs)
        for i, p in enumerate(parameters):
            if i < len(args):
                if p.name in rest:
                    raise RuntimeError(f"{self.qualname}() got multiple values for argument '{p.name}'")
                value = args[i]
            elif p.name in rest:
                value = rest.pop(p.name)
            elif p.default is not None:
                value = _default(p.default, p.type)
            else:
                raise RuntimeError(
                    f"{self.qualname}() is missing value for argument '{p.name}'. Declaration: {self._declaration()}"
                )
            self._check_type(p, i, value)
            given.append(value)
        if rest:
            raise RuntimeError(
                f"Unknown keyword argument '{next(iter(rest))}' for operator '{self.qualname}'. Schema: "
                f"{self._declaration()}"
            )
        return given

    def _declaration(self) -> str:
        return f"{self.namespace}::{self.schema}"

    def _check_type(self, parameter: Any, place: int, value: Any) -> None:
        if value is None and parameter.type.endswith("?"):
            return
        wanted = parameter.type == "Tensor" or parameter.type == "Tensor?"
        if wanted and not isinstance(value, Tensor) and not hasattr(type(value), "__torch_function__"):
            raise RuntimeError(
                f"{self.qualname}() Expected a value of type '{parameter.type}' for argument '{parameter.name}' but "
                f"instead found type '{type(value).__name__}'.\nPosition: {place}\nValue: {value!r}\nDeclaration: "
                f"{self._declaration()}"
            )


def _default(text: str, kind: str) -> Any:
    if kind.startswith("ScalarType") and text != "None":
        return getattr(minitensor, text)
    value = ast.literal_eval(text)
    return _C.device(value) if kind.startswith("Device") and value is not None else value


def _tensors(given: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for item in given:
        found.extend(t for t in (item if isinstance(item, (tuple, list)) else (item,)) if isinstance(t, Tensor))
    return found


def _overriding(given: Sequence[Any]) -> list[Any]:
    return [t for item in given for t in (item if isinstance(item, (tuple, list)) else (item,))]


def _names(schema: Schema, given: Sequence[Any]) -> list[Any]:
    """The parameter that each tensor was given for."""
    return [p for p, item in zip(schema.parameters, given, strict=True) for _ in _tensors([item])]


def _function(op: CustomOp) -> Any:
    """The autograd function of an op's calls."""

    def forward(*given: Any) -> Any:
        return op.run(list(given))

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        if op.setup_context is not None:
            names = [p.name for p in op.schema.parameters if p.keyword_only]
            if names:
                count = len(inputs) - len(names)
                keywords = dict(zip(names, inputs[count:], strict=True))
                op.setup_context(ctx=ctx, inputs=inputs[:count], keyword_only_inputs=keywords, output=output)
            else:
                op.setup_context(ctx=ctx, inputs=inputs, output=output)

    def backward(ctx: Any, *gradients: Any) -> Any:
        if op.backward is None:
            raise RuntimeError(
                f"Trying to backward through {op.namespace}.{op.schema.name}.default but no autograd formula was "
                "registered. Please use register_autograd to add one."
            )
        found = op.backward(ctx, *gradients)
        found = found if isinstance(found, tuple) else (found,)
        return (*found, *(None for _ in range(len(op.schema.parameters) - len(found))))

    members = {"forward": forward, "setup_context": setup_context, "backward": backward}
    if op.vmap is not None:
        rule = op.vmap
        members["vmap"] = lambda info, in_dims, *given: rule(info, in_dims, *given)
    made = {name: staticmethod(member) for name, member in members.items()}
    return type(f"GeneratedBackwardFor_{op.namespace}_{op.schema.name}_default", (autograd.Function,), made)


def register(op: CustomOp) -> CustomOp:
    """Enter an op in the table; RuntimeError if one of its name is there."""
    if op.qualname in _OPS:
        raise RuntimeError(f"Tried to register an operator ({op.qualname}) that is there already")
    _OPS[op.qualname] = op
    return op


def forget(qualname: str) -> None:
    """Take an op out of the table."""
    _OPS.pop(qualname, None)


def is_defined(qualname: str) -> bool:
    """Whether there is an op of that name."""
    return qualname in _OPS


def find(qualname: str) -> CustomOp:
    """The op `namespace::name`; RuntimeError if there is none."""
    if qualname not in _OPS:
        raise RuntimeError(f"operator {qualname} does not exist")
    return _OPS[qualname]


class Namespace:
    """The ops of a namespace as attributes: `minitensor.ops.mylib`."""

    def __init__(self, name: str) -> None:
        """`name`: what stands before `::`."""
        self.name = self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        """One of its ops; AttributeError if it has none of that name."""
        if f"{self.name}::{name}" in _OPS:
            return _OPS[f"{self.name}::{name}"]
        raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")

    def __dir__(self) -> list[str]:
        """The names of its ops."""
        return [op.schema.name for op in _OPS.values() if op.namespace == self.name]


def namespace(name: str) -> Namespace | None:
    """A namespace that has ops."""
    return Namespace(name) if any(op.namespace == name for op in _OPS.values()) else None
