"""The base class of all neural network modules."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import minitensor as mt
from minitensor import _C
from minitensor.autograd.gradients import clear_gradients
from minitensor.nn.hooks import RemovableHandle, add_hook
from minitensor.nn.parameter import Parameter

M = TypeVar("M", bound="Module")

_EXTRA_STATE = "_extra_state"  # the key
_ASSIGN = "assign_to_params_buffers"  # in the metadata, where PyTorch has it


class IncompatibleKeys(NamedTuple):
    """What :meth:`Module.load_state_dict` found missing or superfluous."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class Module(_C.ModuleBase):
    """A function with parameters, buffers and submodules.

    Assigning a :class:`Parameter` or a module to an attribute registers it; :meth:`register_buffer` registers a tensor
    that is state but no parameter. A subclass calls ``super().__init__()`` first and defines :meth:`forward`.

    ``_parameters``, ``_buffers`` and ``_modules`` are all there is of them: attributes are looked up there.
    """

    _version: int = 1  # of what state_dict() writes
    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, mt.Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent_buffers: set[str]
    _forward_pre_hooks: dict[int, tuple[Callable[..., Any], bool]]
    _forward_hooks: dict[int, tuple[Callable[..., Any], bool]]

    def __init__(self) -> None:
        # Past __setattr__, which needs these very dictionaries.
        self.__dict__.update(
            training=True,
            _parameters={},
            _buffers={},
            _modules={},
            _non_persistent_buffers=set(),
            _forward_pre_hooks={},
            _forward_hooks={},
        )

    # Calling

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module's result; every subclass defines it."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def _call_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        for hook, with_kwargs in tuple(self._forward_pre_hooks.values()):
            if with_kwargs:
                if (changed := hook(self, args, kwargs)) is not None:
                    if not (isinstance(changed, tuple) and len(changed) == 2):
                        raise RuntimeError(
                            f"a forward pre-hook with_kwargs returns None or (args, kwargs), not {changed!r}"
                        )
                    args, kwargs = changed
            elif (changed := hook(self, args)) is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        result = self.forward(*args, **kwargs)
        for hook, with_kwargs in tuple(self._forward_hooks.values()):
            changed = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
            if changed is not None:
                result = changed
        return result

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Have ``hook(module, args)`` called before every :meth:`forward`; what it returns replaces the arguments."""
        return add_hook(self._forward_pre_hooks, (hook, with_kwargs), prepend)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Have ``hook(module, args, result)`` called after every :meth:`forward`; its return replaces the result."""
        return add_hook(self._forward_hooks, (hook, with_kwargs), prepend)

    # Attributes

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if "_parameters" not in own:
            if isinstance(value, Parameter | Module):
                what = "parameters" if isinstance(value, Parameter) else "module"
                raise AttributeError(f"cannot assign {what} before Module.__init__() call")
            object.__setattr__(self, name, value)
        elif isinstance(value, Parameter):
            self._forget(name, but=self._parameters)
            self.register_parameter(name, value)
        elif name in self._parameters:
            if value is not None:
                self._refuse(name, value, "parameter", "Parameter or None")
            self._parameters[name] = None
        elif isinstance(value, Module):
            self._forget(name, but=self._modules)
            self._modules[name] = value
        elif name in self._modules:
            if value is not None:
                self._refuse(name, value, "child module", "Module or None")
            self._modules[name] = None
        elif name in self._buffers:
            if value is not None and not isinstance(value, mt.Tensor):
                self._refuse(name, value, "buffer", "Tensor or None")
            self._buffers[name] = value
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        for registry in (self._parameters, self._buffers, self._modules):
            if name in registry:
                del registry[name]
                self._non_persistent_buffers.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        registered = chain(self._parameters, self._buffers, self._modules)
        return sorted({*object.__dir__(self), *(name for name in registered if not name[:1].isdigit())})

    def _forget(self, name: str, but: dict[str, Any]) -> None:
        for registry in (self.__dict__, self._parameters, self._buffers, self._modules):
            if registry is not but:
                registry.pop(name, None)
        self._non_persistent_buffers.discard(name)

    def _refuse(self, name: str, value: Any, what: str, expected: str) -> None:
        raise TypeError(f"cannot assign '{type(value).__name__}' as {what} '{name}' ({expected} expected)")

    # Registration

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, reachable as an attribute; None reserves the name."""
        self._check_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            self._refuse(name, param, "parameter", "Parameter or None")
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: mt.Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter; if ``persistent`` it is part of :meth:`state_dict`."""
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, mt.Tensor):
            self._refuse(name, tensor, "buffer", "Tensor or None")
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers.discard(name)
        else:
            self._non_persistent_buffers.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule, reachable as an attribute; None reserves the name."""
        self._check_name("module", name, self._modules)
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._modules[name] = module

    def register_module(self, name: str, module: Module | None) -> None:
        """Add a submodule, reachable as an attribute: :meth:`add_module`."""
        self.add_module(name, module)

    def _check_name(self, what: str, name: str, registry: dict[str, Any]) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain ".", got: {name}')
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

    def modules(self) -> Iterator[Module]:
        """Yield this module and all below it, each once."""
        return (module for _, module in self.named_modules())

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
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[mt.Tensor]:
        """Yield the buffers, each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, mt.Tensor]]:
        """Yield the buffers with their dotted names."""
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def _named_members(self, registry: str, prefix: str, recurse: bool, remove_duplicate: bool) -> Iterator[Any]:
        seen: set[int] = set()
        modules = self.named_modules(None, prefix, remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, member in getattr(module, registry).items():
                if member is None or (remove_duplicate and id(member) in seen):
                    continue
                seen.add(id(member))
                yield (f"{path}.{name}" if path else name), member

    def get_submodule(self, target: str) -> Module:
        """Return the module of the dotted name ``target``; the empty name is this module."""
        module = self
        for name in target.split(".") if target else ():
            found = getattr(module, name, None)
            if found is None:
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            if not isinstance(found, Module):
                raise AttributeError(f"`{name}` is not a Module")
            module = found
        return module

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter of the dotted name ``target``."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        param = module._parameters.get(name)
        if param is None:
            raise AttributeError(f"{type(module).__name__} has no parameter `{name}`")
        return param

    def get_buffer(self, target: str) -> mt.Tensor:
        """Return the buffer of the dotted name ``target``."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        buffer = module._buffers.get(name)
        if buffer is None:
            raise AttributeError(f"{type(module).__name__} has no buffer `{name}`")
        return buffer

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
        """Convert parameters and buffers in place as :meth:`Tensor.to` does; a dtype concerns floats only."""

        def convert(tensor: mt.Tensor) -> mt.Tensor:
            converted = tensor.to(*args, **kwargs)
            if tensor.is_floating_point():
                if not converted.is_floating_point():
                    raise TypeError(f"Module.to only accepts floating point dtypes, but got {converted.dtype}")
                return converted
            # Everything but the dtype.
            return converted if converted.dtype == tensor.dtype else tensor.to(converted.device)

        return self._apply(convert)

    def float(self: M) -> M:
        """Convert floating-point parameters and buffers to float32."""
        return self.to(mt.float32)

    def double(self: M) -> M:
        """Convert floating-point parameters and buffers to float64."""
        return self.to(mt.float64)

    def cuda(self: M, device: Any = None) -> M:
        """Move parameters and buffers to a CUDA device, by default the current one."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def cpu(self: M) -> M:
        """Move parameters and buffers to the CPU."""
        return self.to("cpu")

    def _apply(self: M, fn: Callable[[mt.Tensor], mt.Tensor], recurse: bool = True) -> M:
        if recurse:
            for module in self.children():
                module._apply(fn)
        with mt.no_grad():
            for param in self._parameters.values():
                if param is not None:
                    grad, param.grad = param.grad, None
                    param.data = fn(param.data)
                    param.grad = None if grad is None else fn(grad)
            for name, buffer in self._buffers.items():
                if buffer is not None:
                    self._buffers[name] = fn(buffer)
        return self

    # State

    def get_extra_state(self) -> Any:
        """Return what the state dict is to hold beside tensors; a subclass defines it with :meth:`set_extra_state`."""
        raise RuntimeError("get_extra_state() is called only where a subclass defines it")

    def set_extra_state(self, state: Any) -> None:
        """Take over what :meth:`get_extra_state` returned."""
        raise RuntimeError("set_extra_state() is called only where a subclass defines it")

    def state_dict(
        self, *args: Any, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Return parameters and persistent buffers by their dotted names; they share storage with the module's.

        They are detached from the autograd graph unless ``keep_vars``. They are added to ``destination`` if given.
        """
        if args:
            given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            destination = given.get("destination", destination)
            prefix, keep_vars = given.get("prefix", prefix), given.get("keep_vars", keep_vars)
        state: Any = destination
        if state is None:
            state = OrderedDict()
            state._metadata = OrderedDict()
        if hasattr(state, "_metadata"):
            state._metadata[prefix[:-1]] = {"version": self._version}
        self._save_to_state_dict(state, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=state, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        return state  # type: ignore[no-any-return]

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Add this module's own state, without its children's."""
        for name, tensor in self._persistent().items():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not Module.get_extra_state:
            destination[prefix + _EXTRA_STATE] = self.get_extra_state()

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy tensors into the parameters and buffers of the same names.

        If ``strict``, names that are missing or superfluous are errors. With ``assign`` the given tensors take the
        place of the module's instead of being copied into them.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict).__name__}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", {})

        def load(module: Module, state: dict[str, Any], prefix: str) -> None:
            local = {**metadata.get(prefix[:-1], {}), _ASSIGN: assign}
            module._load_from_state_dict(state, prefix, local, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    path = f"{prefix}{name}."
                    load(child, {key: value for key, value in state.items() if key.startswith(path)}, path)

        # A module may change what it reads.
        mine: Any = OrderedDict(state_dict)
        mine._metadata = metadata
        load(self, mine, "")
        if strict:
            for what, keys in (("Unexpected", unexpected), ("Missing", missing)):
                if keys:
                    errors.insert(0, f"{what} key(s) in state_dict: " + ", ".join(f'"{key}"' for key in keys) + ".")
        if errors:
            listing = "".join(f"\n\t{error}" for error in errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:{listing}")
        return IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load this module's own state, without its children's; what is wrong is added to the lists."""
        own = self._persistent()
        for name, tensor in own.items():
            key = prefix + name
            if key not in state_dict:
                missing_keys.extend([key] if strict else [])
            elif problem := self._load(name, tensor, state_dict[key], local_metadata.get(_ASSIGN, False)):
                error_msgs.append(problem.format(key))
        extra = prefix + _EXTRA_STATE
        takes_extra = type(self).set_extra_state is not Module.set_extra_state
        if takes_extra and extra in state_dict:
            self.set_extra_state(state_dict[extra])
        elif takes_extra and strict:
            missing_keys.append(extra)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and not (key == extra and takes_extra):
                    name, dot, _ = key[len(prefix) :].partition(".")
                    if name not in (self._modules if dot else own):
                        unexpected_keys.append(key)

    def _persistent(self) -> dict[str, mt.Tensor]:
        buffers = ((k, v) for k, v in self._buffers.items() if k not in self._non_persistent_buffers)
        return {name: tensor for name, tensor in chain(self._parameters.items(), buffers) if tensor is not None}

    def _load(self, name: str, tensor: mt.Tensor, value: Any, assign: bool) -> str | None:
        """Load one tensor; return what is wrong with it, with ``{}`` for its name."""
        if not isinstance(value, mt.Tensor):
            return f'While copying the parameter named "{{}}", expected a Tensor but received {type(value).__name__}.'
        if tensor.ndim == 0 and value.ndim == 1 and value.numel() > 0:
            value = value[0]  # what was a number was once saved as a vector
        if value.shape != tensor.shape:
            return (
                f"size mismatch for {{}}: copying a param with shape {value.shape} from checkpoint, "
                f"the shape in current model is {tensor.shape}."
            )
        if assign:
            if isinstance(tensor, Parameter):
                if isinstance(value, Parameter):
                    value.requires_grad_(tensor.requires_grad)
                else:
                    value = Parameter(value, requires_grad=tensor.requires_grad)
            setattr(self, name, value)
            return None
        with mt.no_grad():
            tensor.copy_(value)
        return None

    # Text

    def extra_repr(self) -> str:
        """Return what ``repr`` shows between the parentheses; a subclass overrides it."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr().split("\n") if self.extra_repr() else []
        children = []
        for name, module in self._modules.items():
            children.append(f"({name}): " + repr(module).replace("\n", "\n  "))
        name = type(self).__name__
        if not children and len(extra) <= 1:
            return f"{name}({''.join(extra)})"
        return "\n  ".join(chain([f"{name}("], extra, children)) + "\n)"
