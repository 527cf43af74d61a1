"""Custom ops by PyTorch's names: a function with a schema, kernels for devices, shapes, gradients and a rule of vmap.

    @custom_op("mylib::scale", mutates_args=())
    def scale(x: Tensor, factor: float) -> Tensor:
        return mt.from_numpy(x.numpy() * factor)

    @scale.register_fake
    def _(x, factor):
        return mt.empty_like(x)

The op is `minitensor.ops.mylib.scale`. Its kernel is a function of tensors: ops in it are recorded and compiled as they
are anywhere, and what reads values runs at once. :mod:`minitensor.extend` makes ops that the compiler knows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from minitensor._C import dtype
from minitensor.library.checking import opcheck
from minitensor.library.custom_ops import CustomOp, find, forget, get_ctx, is_defined, register
from minitensor.library.schema import infer_schema, parse

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "get_kernel", "impl",
    "impl_abstract", "infer_schema", "opcheck", "register_autocast", "register_autograd", "register_fake",
    "register_kernel", "register_torch_dispatch", "register_vmap", "triton_op", "wrap_triton",
]  # fmt: skip


def _split(qualname: str) -> tuple[str, str]:
    space, mark, name = qualname.partition("::")
    if not mark or not space or not name:
        raise ValueError(f"Expected a name of the form 'namespace::name', but got '{qualname}'")
    return space, name


class CustomOpDef:
    """A custom op with what can be registered for it; `custom_op` makes one."""

    def __init__(self, op: CustomOp, function: Callable[..., Any]) -> None:
        """`function`: what was decorated."""
        self._op, self._init_fn = op, function
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    @property
    def _qualname(self) -> str:
        return self._op.qualname

    @property
    def _opoverload(self) -> CustomOp:
        return self._op

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the op."""
        return self._op(*args, **kwargs)

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        """Make a function the kernel for some devices ("cpu", "cuda", a list; None: all)."""

        def enter(kernel: Callable[..., Any]) -> Callable[..., Any]:
            for device in [device_types] if device_types is None or isinstance(device_types, str) else device_types:
                self._op.kernels[device] = kernel
            return kernel

        return enter if fn is None else enter(fn)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Make a function the rule for device "meta": it gives results without data."""
        self._op.fake = fn
        return fn

    def register_autograd(self, backward: Callable[..., Any], /, *, setup_context: Any = None) -> None:
        """Give the op a gradient.

        `backward(ctx, *grads)` gives one for each argument; `setup_context(ctx, inputs, output)` keeps what it needs.
        RuntimeError for an op that writes to its arguments.
        """
        if any(p.written for p in self._op.schema.parameters):
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self} with schema "
                f"{self._op.schema}. Please create a functional operator and register an autograd formula for that."
            )
        self._op.backward, self._op.setup_context = backward, setup_context

    def register_vmap(self, func: Any = None) -> Any:
        """Make `func(info, in_dims, *args)` the rule of vmap: it gives the results and their mapped dimensions."""

        def enter(rule: Callable[..., Any]) -> Callable[..., Any]:
            self._op.vmap = rule
            return rule

        return enter if func is None else enter(func)

    def register_torch_dispatch(self, torch_dispatch_class: Any, fn: Any = None, /) -> Any:
        """There is no `__torch_dispatch__`: NotImplementedError. `__torch_function__` sees calls of the op."""
        raise NotImplementedError("there is no __torch_dispatch__; __torch_function__ sees calls of custom ops")

    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Any:
        """Within `with`, calls on a device take its own kernel or, disabled, that for all devices."""
        import contextlib

        @contextlib.contextmanager
        def within() -> Any:
            before = device_type in self._op.disabled
            (self._op.disabled.discard if enabled else self._op.disabled.add)(device_type)
            try:
                yield
            finally:
                (self._op.disabled.add if before else self._op.disabled.discard)(device_type)

        return within()


_DEFINITIONS: dict[str, CustomOpDef] = {}


def custom_op(
    name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None, schema: str | None = None, tags: Any = None,
) -> Any:  # fmt: skip
    """Make a function a custom op `namespace::name`.

    The schema is inferred from the function's annotations unless one is given. `mutates_args` names the arguments that
    it writes to. `device_types`: where the function is the kernel, by default everywhere.
    """

    def define(function: Callable[..., Any]) -> CustomOpDef:
        space, short = _split(name)
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema
        made = CustomOpDef(register(CustomOp(space, parse(short + text))), function)
        made.register_kernel(device_types, function)
        _DEFINITIONS[made._qualname] = made
        return made

    return define if fn is None else define(fn)


def triton_op(
    name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: str | Iterable[str], schema: str | None = None
) -> Any:
    """Make a function that launches Triton's kernels a custom op `namespace::name`, as :func:`custom_op` does.

    The function is its rule for device "meta" too, so what it does beside :func:`wrap_triton` is to be calls of ops.
    """

    def define(function: Callable[..., Any]) -> CustomOpDef:
        made: CustomOpDef = custom_op(name, function, mutates_args=mutates_args, schema=schema)
        made.register_fake(_without_launches(function))
        made._op.checks_writes = False  # Triton's interpreter writes back all that it was given
        return made

    return define if fn is None else define(fn)


def _without_launches(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def shapes(*args: Any, **kwargs: Any) -> Any:
        _launching.append(False)
        try:
            return function(*args, **kwargs)
        finally:
            _launching.pop()

    return shapes


_launching = [True]


class _NoLaunch:
    """A kernel where there is no data."""

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return self.run

    def run(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: the results' shapes don't depend on it."""


def wrap_triton(triton_kernel: Any, /) -> Any:
    """Return what launches a kernel of Triton's within a :func:`triton_op`: the kernel, or nothing where no data is.

    RuntimeError for what `triton.jit` or `triton.autotune` did not make; ImportError without the package `triton`.
    """
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    if not isinstance(triton_kernel, (JITFunction, Autotuner, InterpretedFunction)):
        raise RuntimeError("wrap_triton only works on functions annotated with triton.jit or triton.autotune")
    return triton_kernel if _launching[-1] else _NoLaunch()


def _definition(op: Any) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    found = op if isinstance(op, CustomOp) else find(op)
    if found.qualname not in _DEFINITIONS:
        _DEFINITIONS[found.qualname] = CustomOpDef(found, found)
    return _DEFINITIONS[found.qualname]


def register_fake(
    op: Any, func: Any = None, /, *, lib: Any = None, _stacklevel: int = 1, allow_override: bool = True
) -> Any:
    """Make a function an op's rule for device "meta": `CustomOpDef.register_fake`."""
    definition = _definition(op)
    return definition.register_fake if func is None else definition.register_fake(func)


impl_abstract = register_fake


def register_autograd(op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None, lib: Any = None) -> None:
    """Give an op a gradient: `CustomOpDef.register_autograd`."""
    _definition(op).register_autograd(backward, setup_context=setup_context)


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Make a function an op's kernel for some devices: `CustomOpDef.register_kernel`."""
    return _definition(op).register_kernel(device_types, func)


def register_vmap(op: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Give an op a rule of vmap: `CustomOpDef.register_vmap`."""
    return _definition(op).register_vmap(func)


def register_torch_dispatch(op: Any, torch_dispatch_class: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """There is no `__torch_dispatch__`: NotImplementedError."""
    return _definition(op).register_torch_dispatch(torch_dispatch_class, func)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Library | None = None) -> None:
    """Cast the floating-point tensors among an op's arguments while autocast is on for a device; the op runs without.

    ValueError for another device than "cpu" and "cuda", AssertionError for what is no dtype.
    """
    if not isinstance(cast_inputs, dtype):
        raise AssertionError(f"cast_inputs must be a dtype, got {type(cast_inputs).__name__}")
    if device_type not in ("cpu", "cuda"):
        raise ValueError(f"Unknown device type: {device_type}")
    _definition(op)._op.autocast[device_type] = cast_inputs


def get_kernel(op: Any, dispatch_key: str) -> Callable[..., Any]:
    """The function that is an op's kernel under a key such as "CPU"; RuntimeError if it has none."""
    found = _definition(op)._op
    device = _DEVICES.get(dispatch_key, dispatch_key.lower())
    if device not in found.kernels:
        raise RuntimeError(f"operator {found.qualname} has no kernel for {dispatch_key}")
    return found.kernels[device]


def fallthrough_kernel() -> None:
    """Say to `Library.impl` that nothing is registered; not to be called."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


# The devices of PyTorch's dispatch keys.
_DEVICES: dict[str, str | None] = {
    "": None, "default": None, "CompositeImplicitAutograd": None, "CompositeExplicitAutograd": None,
    "BackendSelect": None, "CPU": "cpu", "CUDA": "cuda", "cpu": "cpu", "cuda": "cuda",
}  # fmt: skip


class Library:
    """A set of definitions and kernels in a namespace.

    `kind`: "DEF" for a new one, "FRAGMENT" for more of one, "IMPL" for kernels only. `dispatch_key`: which calls
    `impl` is for where it doesn't say.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        """ValueError for a namespace of PyTorch's own, or an unknown kind."""
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in ("prim", "aten", "prims") and kind != "IMPL":
            raise ValueError(f"{ns} is a reserved namespace. Please try creating a library with another name.")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._op_defs: set[str] = set()

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define the op "name(Tensor x) -> Tensor", and return its name."""
        if self.kind == "IMPL":
            raise RuntimeError("define(): cannot define an op in a library of kind IMPL")
        op = register(CustomOp(self.ns, parse(schema)))
        self._op_defs.add(op.qualname)
        return op.schema.name

    def impl(
        self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:  # fmt: skip
        """Make a function the kernel of an op under a dispatch key: "CPU", "CUDA", "Meta", "Autograd", "Composite...".

        RuntimeError for an op that isn't defined, ValueError for another key.
        """
        name = op_name.schema.name if isinstance(op_name, CustomOp) else op_name.rpartition("::")[2]
        op = find(f"{self.ns}::{name.removesuffix('.default')}")
        key = dispatch_key or self.dispatch_key
        if fn is fallthrough_kernel:
            return
        if key == "Meta":
            op.fake = fn
        elif key in ("Autograd", "AutogradCPU", "AutogradCUDA"):
            op.autograd_kernel = fn
        elif key in _DEVICES:
            op.kernels[_DEVICES[key]] = fn
        else:
            raise ValueError(f"there are no kernels under the dispatch key '{key}'; there are {sorted(_DEVICES)}")

    def _destroy(self) -> None:
        for qualname in self._op_defs:
            forget(qualname)
            _DEFINITIONS.pop(qualname, None)


def define(qualname: str, schema: Any = None, *, lib: Library | None = None, tags: Any = ()) -> None:
    """Define the op `namespace::name` with a schema "(Tensor x) -> Tensor"."""
    if lib is not None:
        lib.define(f"{qualname.rpartition('::')[2]}{schema}" if schema else qualname)
        return
    space, name = _split(qualname)
    register(CustomOp(space, parse(name + schema)))


def impl(qualname: str, types: str | Sequence[str], func: Any = None, *, lib: Library | None = None) -> Any:
    """Make a function the kernel of an op for some devices, or for "default"."""
    space, name = _split(qualname)
    where = lib or Library(space, "FRAGMENT")

    def enter(kernel: Callable[..., Any]) -> Callable[..., Any]:
        for kind in [types] if isinstance(types, str) else types:
            where.impl(name, kernel, kind)
        return kernel

    if not is_defined(qualname):
        raise RuntimeError(f"operator {qualname} does not exist")
    return enter if func is None else enter(func)
