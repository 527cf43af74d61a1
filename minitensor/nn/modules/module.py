"""The base class of all neural network modules."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, TypeVar

from minitensor import _C
from minitensor._C import Tensor, float16, float32, float64
from minitensor._functions.offered import empty_like
from minitensor.autograd import no_grad
from minitensor.autograd.gradients import clear_gradients
from minitensor.nn.modules.calls import (
    Calls,
    register_module_backward_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
)
from minitensor.nn.modules.state_dict import _EXTRA_STATE_KEY_SUFFIX as _EXTRA_STATE_KEY_SUFFIX  # libraries look here
from minitensor.nn.modules.state_dict import State
from minitensor.nn.modules.state_dict import _IncompatibleKeys as _IncompatibleKeys  # and for this
from minitensor.nn.parameter import Buffer, Parameter, is_lazy
from minitensor.utils.hooks import RemovableHandle, add_hook

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

M = TypeVar("M", bound="Module")
_Hooks = OrderedDict[int, Callable[..., Any]]

_global_buffer_registration_hooks: _Hooks = OrderedDict()
_global_module_registration_hooks: _Hooks = OrderedDict()
_global_parameter_registration_hooks: _Hooks = OrderedDict()


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Have ``hook(module, name, buffer)`` called whenever a module gets a buffer; its return replaces the buffer."""
    return add_hook(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Have ``hook(module, name, child)`` called whenever a module gets a child; its return replaces the child."""
    return add_hook(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Have ``hook(module, name, parameter)`` called whenever a module gets a parameter; its return replaces it."""
    return add_hook(_global_parameter_registration_hooks, hook)


def _registered(hooks: _Hooks, module: Module, name: str, value: Any) -> Any:
    for hook in hooks.values():
        changed = hook(module, name, value)
        value = value if changed is None else changed
    return value


def _empty_registries() -> dict[str, Any]:
    return {
        "training": True,
        "_parameters": {},
        "_buffers": {},
        "_non_persistent_buffers_set": set(),
        "_backward_pre_hooks": OrderedDict(),
        "_backward_hooks": OrderedDict(),
        "_is_full_backward_hook": None,
        "_forward_hooks": OrderedDict(),
        "_forward_hooks_with_kwargs": OrderedDict(),
        "_forward_hooks_always_called": OrderedDict(),
        "_forward_pre_hooks": OrderedDict(),
        "_forward_pre_hooks_with_kwargs": OrderedDict(),
        "_state_dict_hooks": OrderedDict(),
        "_state_dict_pre_hooks": OrderedDict(),
        "_load_state_dict_pre_hooks": OrderedDict(),
        "_load_state_dict_post_hooks": OrderedDict(),
        "_modules": {},
    }


class Module(Calls, State):
    """A function with parameters, buffers and submodules.

    Assigning a :class:`Parameter` or a module to an attribute registers it; :meth:`register_buffer` registers a tensor
    that is state but no parameter. A subclass calls ``super().__init__()`` first and defines :meth:`forward`.

    ``_parameters``, ``_buffers`` and ``_modules`` are all there is of them: attributes are looked up there.
    """

    dump_patches: bool = False
    call_super_init: bool = False
    training: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init:
            if kwargs:
                raise TypeError(
                    f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
                )
            if args:
                raise TypeError(
                    f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given"
                )
        # Past __setattr__, which needs these very dictionaries.
        self.__dict__.update(_empty_registries())
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # Attributes

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if "_parameters" not in own:
            for kind, what in ((Parameter, "parameters"), (Module, "module"), (Buffer, "buffer")):
                if isinstance(value, kind):
                    raise AttributeError(f"cannot assign {what} before Module.__init__() call")
            object.__setattr__(self, name, value)
        elif isinstance(value, Parameter):
            self._forget(name, but=self._parameters)
            self.register_parameter(name, value)
        elif name in self._parameters:
            if value is not None:
                self._refuse(name, value, "parameter", "torch.nn.Parameter or None")
            self.register_parameter(name, None)
        elif isinstance(value, Module):
            self._forget(name, but=self._modules)
            self._modules[name] = _registered(_global_module_registration_hooks, self, name, value)
        elif name in self._modules:
            if value is not None:
                self._refuse(name, value, "child module", "torch.nn.Module or None")
            self._modules[name] = _registered(_global_module_registration_hooks, self, name, None)
        elif name in self._buffers or isinstance(value, Buffer):
            if value is not None and not isinstance(value, Tensor):
                self._refuse(name, value, "buffer", "torch.nn.Buffer, torch.Tensor or None")
            if isinstance(value, Buffer):
                self._forget(name, but=self._buffers)
                self.register_buffer(name, value, value.persistent)  # type: ignore[attr-defined]
            else:
                self._buffers[name] = _registered(_global_buffer_registration_hooks, self, name, value)
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        for registry in (self._parameters, self._buffers, self._modules):
            if name in registry:
                del registry[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        registered = chain(self._parameters, self._buffers, self._modules)
        return sorted({*object.__dir__(self), *(name for name in registered if not name[:1].isdigit())})

    def _forget(self, name: str, but: dict[str, Any]) -> None:
        for registry in (self.__dict__, self._parameters, self._buffers, self._modules):
            if registry is not but:
                registry.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def _refuse(self, name: str, value: Any, what: str, expected: str) -> None:
        raise TypeError(f"cannot assign '{_typename(value)}' as {what} '{name}' ({expected} expected)")

    # Registration

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, reachable as an attribute; None reserves the name."""
        self._check_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{_typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. "
                f"To express '{name}' as a function of another Tensor, compute the value in the forward() method."
            )
        self._parameters[name] = _registered(_global_parameter_registration_hooks, self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter; if ``persistent`` it is part of :meth:`state_dict`."""
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = _registered(_global_buffer_registration_hooks, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule, reachable as an attribute; None reserves the name."""
        self._check_name("module", name, self._modules)
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{_typename(module)} is not a Module subclass")
        self._modules[name] = _registered(_global_module_registration_hooks, self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Add a submodule, reachable as an attribute: :meth:`add_module`."""
        self.add_module(name, module)

    def _check_name(self, what: str, name: str, registry: dict[str, Any]) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {_typename(name)}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain "."' + (f", got: {name}" if what == "module" else ""))
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')
        if name not in registry and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    # Walking

    def children(self) -> Iterator[Module]:
        """Yield the direct submodules, each once."""
        return (module for _, module in self.named_children())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield names and direct submodules, each module once."""
        seen: set[int] = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Yield this module and all below it, each once if ``remove_duplicate``."""
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield this module and all below it with their dotted names; each module once if ``remove_duplicate``."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield the parameters, each once: what an optimizer takes."""
        return (param for _, param in self.named_parameters(recurse=recurse))

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters with their dotted names."""
        return self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the buffers, each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield the buffers with their dotted names."""
        return self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def _named_members(
        self,
        get_members_fn: Callable[[Any], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = self.named_modules(None, prefix, remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, member in get_members_fn(module):
                if member is None or (remove_duplicate and id(member) in seen):
                    continue
                seen.add(id(member))
                yield (f"{path}.{name}" if path else name), member

    def get_submodule(self, target: str) -> Module:
        """Return the module of the dotted name ``target``; the empty name is this module."""
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module  # type: ignore[no-any-return]

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put ``module`` in the place of the one of the dotted name; if ``strict`` there must be one."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        path, _, name = target.rpartition(".")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def _member(self, target: str) -> tuple[Module, str, Any]:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        return module, name, getattr(module, name)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter of the dotted name ``target``."""
        _, name, found = self._member(target)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer of the dotted name ``target``."""
        module, name, found = self._member(target)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found  # type: ignore[no-any-return]

    # Changing all of it

    def apply(self: M, fn: Callable[[Module], Any]) -> M:
        """Call ``fn`` with every module below this one, then with this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self: M, mode: bool = True) -> M:
        """Put this module and all below it into training mode, or, if not ``mode``, into evaluation mode."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: M) -> M:
        """Put this module and all below it into evaluation mode."""
        return self.train(False)

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Say whether autograd records operations on the parameters."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the parameters' gradients, or set them to zero if not ``set_to_none``."""
        clear_gradients(self.parameters(), set_to_none)

    def to(self: M, *args: Any, **kwargs: Any) -> M:
        """Convert parameters and buffers in place as :meth:`Tensor.to` does; a dtype concerns those of fractions only.

        It takes a device, a dtype, both, or a tensor that has them; ``non_blocking``; and a ``memory_format`` for
        tensors of four and five dimensions.
        """
        device, dtype, non_blocking, memory_format = _destination(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )

        def convert(tensor: Tensor) -> Tensor:
            takes_dtype = tensor.is_floating_point() or tensor.is_complex()
            options: dict[str, Any] = {"dtype": dtype} if takes_dtype and dtype is not None else {}
            if device is not None:
                options["device"] = device
            if memory_format is not None and tensor.dim() in (4, 5):
                options["memory_format"] = memory_format
            return tensor.to(**options, non_blocking=non_blocking) if options else tensor

        return self._apply(convert)

    def type(self: M, dst_type: Any) -> M:
        """Convert all parameters and buffers to the dtype."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def _floats(self: M, dtype: _C.dtype) -> M:
        return self._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

    def float(self: M) -> M:
        """Convert floating-point parameters and buffers to float32."""
        return self._floats(float32)

    def double(self: M) -> M:
        """Convert floating-point parameters and buffers to float64."""
        return self._floats(float64)

    def half(self: M) -> M:
        """Convert floating-point parameters and buffers to float16."""
        return self._floats(float16)

    def bfloat16(self: M) -> M:
        """Convert floating-point parameters and buffers to bfloat16."""
        return self._floats(_C.bfloat16)

    def cuda(self: M, device: Any = None) -> M:
        """Move parameters and buffers to a CUDA device, by default the current one."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def cpu(self: M) -> M:
        """Move parameters and buffers to the CPU."""
        return self.to("cpu")

    def to_empty(self: M, *, device: Any, recurse: bool = True) -> M:
        """Move parameters and buffers to a device without their values."""
        return self._apply(lambda tensor: empty_like(tensor, device=device), recurse=recurse)

    def share_memory(self: M) -> M:
        """Move parameters and buffers to memory that other processes can share."""
        return self._apply(lambda tensor: tensor.share_memory_())

    def _apply(self: M, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> M:
        if recurse:
            for module in self.children():
                module._apply(fn)
        with no_grad():
            for name, param in self._parameters.items():
                if param is None:
                    continue
                applied = fn(param)
                if applied.is_meta != param.is_meta and not is_lazy(param):
                    # Who holds the old one keeps its values: tensors with and without any aren't made each other.
                    changed = Parameter(applied.detach(), param.requires_grad)
                    if param.grad is not None:
                        changed.grad = fn(param.grad).requires_grad_(param.grad.requires_grad)
                    self._parameters[name] = changed
                    continue
                grad, param.grad = param.grad, None
                if applied is not param:
                    param.data = applied.detach()
                if grad is not None:
                    param.grad = fn(grad).requires_grad_(grad.requires_grad)
            for name, buffer in self._buffers.items():
                if buffer is not None:
                    self._buffers[name] = fn(buffer)
        return self

    # Copies

    def __getstate__(self) -> dict[str, Any]:
        """Return what is saved: everything but the compiled call, which is made anew."""
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over what was saved; what modules didn't have when it was saved is empty."""
        self.__dict__.update(state)
        for name, empty in _empty_registries().items():
            self.__dict__.setdefault(name, empty)

    def _replicate_for_data_parallel(self: M) -> M:
        replica = self.__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        replica._parameters = {}
        replica._buffers = replica._buffers.copy()
        replica._modules = replica._modules.copy()
        replica.__dict__["_is_replica"] = True
        return replica

    # Text

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """Return what ``repr`` shows between the parentheses; a subclass overrides it."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr().split("\n") if self.extra_repr() else []
        children = []
        for name, module in self._modules.items():
            children.append(f"({name}): " + repr(module).replace("\n", "\n  "))
        name = self._get_name()
        if not children and len(extra) <= 1:
            return f"{name}({''.join(extra)})"
        return "\n  ".join(chain([f"{name}("], extra, children)) + "\n)"


def _typename(value: Any) -> str:
    """The name of a value's type as PyTorch's messages have it."""
    if isinstance(value, Tensor):
        return str(value.type())
    module = type(value).__module__
    return type(value).__qualname__ if module == "builtins" else f"{module}.{type(value).__qualname__}"


def _destination(
    *args: Any,
    tensor: Tensor | None = None,
    device: Any = None,
    dtype: _C.dtype | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Any = None,
) -> tuple[Any, _C.dtype | None, bool, Any]:
    """Return device, dtype, `non_blocking` and memory format from the arguments of :meth:`Module.to`."""
    rest = list(args)
    if rest and isinstance(rest[0], Tensor):
        tensor = rest.pop(0)
    elif rest and isinstance(rest[0], _C.dtype):
        dtype = rest.pop(0)
    elif rest:
        device = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], _C.dtype)):
            dtype = rest.pop(0)
    if tensor is not None:
        device, dtype = tensor.device, tensor.dtype
    if rest:
        non_blocking = rest.pop(0)
    if device is not None and not isinstance(device, _C.device):
        device = _C.device(device) if isinstance(device, str) else _C.device("cuda", device)
    return device, dtype, non_blocking, memory_format
