"""The Tensor's methods that are not C slots: ops as methods, their in-place forms, and what is composed of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor._functions.checked import checked, checked_method, overridable_property
from minitensor._functions.torch_function import NOT_OVERRIDDEN, torch_function
from minitensor._jit import entry_points
from minitensor._tensor import pickling
from minitensor._tensor.copying import copy_tensor, deepcopy_tensor
from minitensor._tensor.pickling import NOT_IN_NUMPY, reduce_tensor
from minitensor._warning import warn
from minitensor.composite import COMPOSITES
from minitensor.composite.complex import imag, real
from minitensor.composite.layout import preserve_format, suggested_format
from minitensor.composite.registry import shortcut
from minitensor.ops import ROWS
from minitensor.ops.complex import view_dtype
from minitensor.ops.elementwise import cast, clone, copy, fill
from minitensor.ops.movement import view_

Tensor = _C.Tensor

# Pickles of earlier versions name these here.
_rebuild, _rebuild_on, _rebuild_meta = pickling._rebuild, pickling._rebuild_on, pickling._rebuild_meta
_rebuild_bfloat16, _rebuild_bits = pickling._rebuild_bfloat16, pickling._rebuild_bits
_rebuild_strided = pickling._rebuild_strided


def attach(name: str, function: Any) -> None:
    """Make `function` a method of Tensor, or a property one of its attributes."""
    if name in NOT_OVERRIDDEN:
        _C.add_method(name, function)
    elif isinstance(function, property):
        _C.add_method(name, overridable_property(function))
    else:
        _C.add_method(name, checked_method(function))


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    # A leading underscore keeps Python's own max, min and type visible in this file.
    function.__name__ = function.__qualname__ = function.__name__.removeprefix("_")
    attach(function.__name__, function)
    return function


# ---- every op as a method, and in place where its kind allows

for _row in ROWS.values():
    if not _row.public:
        continue
    _names = (_row.name, *_row.aliases)
    if _row.method and _row.takes_tensor:
        for _name in _names:
            attach(_name, _row.call)
    if _row.in_place:
        _changing = _C.inplace_form(_row.call)
        for _name in _names:
            attach(f"{_name}_", _changing)


def _is_on(kind: str) -> property:
    return property(lambda self: self.device.type == kind, doc=f"Whether the tensor is on device {kind}.")


for _device in ("cpu", "cuda", "meta", "ipu", "maia", "mps", "mtia", "vulkan", "xla", "xpu"):
    attach(f"is_{_device}", _is_on(_device))
attach("is_mkldnn", property(lambda self: False, doc="False: no layout of another library is here."))
attach("is_quantized", property(lambda self: False, doc="False: there are no quantised tensors."))


def _make_subclass(cls: type, data: Any, require_grad: bool = False) -> Any:
    """A tensor of a subclass that shows data's memory, without its history: what subclasses' `__new__` calls."""
    return Tensor._as_subclass(cls, data, require_grad)


def _never_volatile() -> bool:
    text = "volatile was removed (Variable.volatile is always False)"
    warn(text)
    return False


def _set_volatile(_tensor: Tensor, _value: object) -> None:
    _never_volatile()


attach("volatile", property(lambda self: _never_volatile(), _set_volatile, doc="False: it was removed."))
attach("name", property(lambda self: None, doc="PyTorch's name of a tensor, which nothing gives it: None."))
_C.add_method("_make_subclass", staticmethod(_make_subclass))
_C.add_method("_view_sizes", view_)
_C.add_method("_view_dtype", view_dtype)
_C.add_method("__torch_function__", classmethod(torch_function))


def _set_real(self: Tensor, value: Any) -> None:
    real(self).copy_(value)


def _set_imag(self: Tensor, value: Any) -> None:
    imag(self).copy_(value)


attach("real", property(lambda self: real(self), _set_real, doc=real.__doc__))
attach("imag", property(lambda self: imag(self), _set_imag, doc=imag.__doc__))


# ---- conversion


def _moves(device: Any, target: Any) -> bool:
    """Whether a tensor on `device` is somewhere else than on `target`."""
    if target.type != device.type:
        return True
    if target.type not in ("cuda", "jit_gpu"):
        return False
    index = entry_points.cuda_module("context").current_device() if target.index is None else target.index
    return bool(index != device.index)


def _cuda_device(device: Any) -> Any:
    """A CUDA device by its number, or as any device."""
    if device is None:
        return _C.device("cuda")
    made = _C.device("cuda", device) if isinstance(device, int) else _C.device(device)
    if made.type != "cuda" and not isinstance(device, int):
        raise ValueError(f"Expected a cuda device, but got: {made}")
    return made


def _to_device(tensor: Any, target: Any, non_blocking: bool) -> Any:
    if non_blocking and target.type == "cuda" and _C.is_pinned(tensor):
        with entry_points.cuda_module("pinned").without_waiting():
            return _C.to_device(tensor, target)
    return _C.to_device(tensor, target)


_PARTS_LOST = "Casting complex values to real discards the imaginary part"


@_method
@shortcut("Td", _C.converted)
def to(
    self: Any, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False, non_blocking: bool = False,
    memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """The tensor in another dtype, on another device, or as another tensor; itself if nothing changes.

    Complex numbers as real ones lose their imaginary part, with a UserWarning.
    """
    if memory_format is not None:
        moved = self.to(*args, dtype=dtype, device=device, copy=copy, non_blocking=non_blocking)
        if memory_format is preserve_format or (moved is self and suggested_format(self) is memory_format):
            return moved
        return (
            moved.clone(memory_format=memory_format) if moved is self else moved.contiguous(memory_format=memory_format)
        )
    switches = [arg for arg in args if isinstance(arg, bool)]  # non_blocking and copy
    non_blocking = switches[0] if switches else non_blocking
    copy = switches[1] if len(switches) > 1 else copy
    for arg in args:
        if isinstance(arg, Tensor):
            dtype, device = arg.dtype, arg.device
        elif isinstance(arg, _C.dtype) or arg in (float, int, bool, complex):
            dtype = arg
        elif isinstance(arg, (str, int, _C.device)) and not isinstance(arg, bool):
            device = arg
        elif arg is not None and not isinstance(arg, bool):
            raise TypeError(f"to() takes dtypes, devices and tensors, got {type(arg).__name__}")
    target = None if device is None else _cuda_device(device) if isinstance(device, int) else _C.device(device)
    if target is not None and _moves(self.device, target):
        if self.device.type == "meta":
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        if target.type == "meta":
            return _C.empty(tuple(self.shape), dtype or self.dtype, target)
        moved = _to_device(self, target, non_blocking)
        return moved if dtype is None else moved.to(dtype)
    if dtype is not None and dtype is not self.dtype:
        if self.is_complex() and dtype not in (_C.complex64, _C.complex128, _C.bool, complex, bool):
            warn(_PARTS_LOST)
        return cast(self, dtype)
    return clone(self) if copy else self


_ELEMENTS = (
    _C.bool, _C.uint8, _C.int8, _C.int16, _C.int32, _C.int64, _C.uint16, _C.uint32, _C.uint64,
    _C.float16, _C.bfloat16, _C.float32, _C.float64, _C.complex64, _C.complex128, _C.float8_e4m3fn, _C.float8_e4m3fnuz,
    _C.float8_e5m2, _C.float8_e5m2fnuz, _C.float8_e8m0fnu,
)  # fmt: skip
_DTYPE_OF_TYPE = {f"{_C.type_name(dtype)}Tensor": dtype for dtype in _ELEMENTS}


@_method
def _type(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of the tensor's type, or the tensor converted to a dtype: one, such a name, or a class as LongTensor."""
    if dtype is None:
        package = repr(self.dtype).partition(".")[0]  # PyTorch's, where a program imported it under that name
        return f"{package}.{'cuda.' if self.is_cuda else ''}{_C.type_name(self.dtype)}Tensor"
    if isinstance(dtype, str):
        package, _, name = dtype.partition(".")
        found = _DTYPE_OF_TYPE.get(name.removeprefix("cuda."))
        if found is None or package not in ("minitensor", "torch"):
            raise ValueError(f"invalid type: '{dtype}'")
        return self.to("cuda" if name.startswith("cuda.") else "cpu", found)
    if isinstance(dtype, type) and isinstance(of_class := getattr(dtype, "dtype", None), _C.dtype):
        dtype = of_class
    return self.to(dtype)


@_method
def type_as(self: Any, other: Any) -> Tensor:
    """The tensor in other's dtype."""
    return self.to(other.dtype)


def _converter(name: str, dtype: Any) -> None:
    def convert(self: Any, memory_format: Any = preserve_format) -> Any:
        return self.to(dtype, memory_format=memory_format)

    shortcut("T", _C.converted, after=(dtype,))(convert)
    convert.__name__ = name
    convert.__doc__ = f"The elements as {dtype.name}, the tensor itself if they are already."
    attach(name, convert)


for _name, _dtype in {
    "bool": _C.bool,
    "byte": _C.uint8,
    "char": _C.int8,
    "short": _C.int16,
    "int": _C.int32,
    "long": _C.int64,
    "half": _C.float16,
    "bfloat16": _C.bfloat16,
    "float": _C.float32,
    "double": _C.float64,
    "cfloat": _C.complex64,
    "cdouble": _C.complex128,
}.items():
    _converter(_name, _dtype)


@_method
def is_signed(self: Any) -> bool:
    """Whether the dtype can hold negative numbers."""
    return bool(self.dtype.is_signed)


@_method
def cuda(self: Any, device: Any = None, non_blocking: bool = False) -> Tensor:
    """The tensor on a CUDA device, by default the current one; an error says what is missing where there is none."""
    return self.to(_cuda_device(device), non_blocking)


@_method
def cpu(self: Any) -> Tensor:
    """The tensor in host memory: itself, if it is there."""
    return self.to(device="cpu")


@_method
def numpy(self: Any, *, force: bool = False) -> Any:
    """The elements as a NumPy array that shares the memory. With force, of a detached copy where needed."""
    import numpy as np

    if self.device.type == "meta":
        raise TypeError(
            "can't convert meta device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
        )
    if self.dtype in NOT_IN_NUMPY:
        raise TypeError(f"Got unsupported ScalarType {_C.type_name(self.dtype)}")
    if self.device.type in ("cuda", "jit_gpu") and force:
        self = self.detach().cpu()
    if self.device.type == "jit_cpu":
        self = _C.to_device(self, "cpu")
    return np.asarray(memoryview(self.detach() if force else self))


def _array(self: Any, dtype: Any = None, copy: bool | None = None) -> Any:
    import numpy as np

    array = np.asarray(memoryview(self))
    if dtype is not None and array.dtype != np.dtype(dtype):
        if copy is False:
            raise ValueError("a conversion to another dtype needs a copy")
        return array.astype(dtype)
    return array.copy() if copy else array


def _array_wrap(self: Any, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
    return _C.from_numpy(array) if hasattr(array, "shape") else array


attach("__array__", _array)
attach("__array_wrap__", _array_wrap)  # what NumPy computes of a tensor is a tensor
attach("__array_priority__", 1000)  # array op tensor asks the tensor


def _dlpack_device(self: Any) -> tuple[int, int]:
    if self.device.type == "cuda":
        return (2, self.device.index)
    if self.device.type != "cpu":
        raise BufferError(f"a tensor on device '{self.device}' can't be shared through DLPack")
    return (1, 0)


attach("__dlpack_device__", _dlpack_device)


_ARRAY_API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


def _array_namespace(self: Any, *, api_version: str | None = None) -> Any:
    """The functions of the array API standard."""
    if api_version not in (None, *_ARRAY_API_VERSIONS):
        raise ValueError(f"unsupported version of the array API: {api_version!r}; there is {_ARRAY_API_VERSIONS[-1]}")
    from minitensor import array_api

    return array_api


attach("__array_namespace__", _array_namespace)


def _complex(self: Any) -> complex:
    return complex(self.item())


_complex.__name__ = "__complex__"
attach("__complex__", checked(_complex))


@_method
def to_device(self: Any, device: Any, /, *, stream: Any = None) -> Any:
    """The tensor on another device, by the array API standard's name for `to`."""
    if stream is not None:
        raise ValueError("there are no streams on this device")
    return self.to(device)


_copy_ = _C.inplace_form(copy)


@shortcut("TT", _copy_)
def copy_(self: Tensor, other: Any, non_blocking: bool = False) -> Tensor:
    """The elements of `other`, a tensor that is broadcast or a number, written to this tensor, which is returned.

    It is always done when it returns; `non_blocking` is there for programs that ask.
    """
    if isinstance(other, bool | int | float | complex):
        from minitensor.creation import tensor

        other = tensor(other)
    return _copy_(self, other)


attach("copy_", checked(copy_))

_fill_ = _C.inplace_form(fill)


@shortcut("Tn", _fill_)
def fill_(self: Tensor, value: Any) -> Tensor:
    """Sets every element to `value`, a number or a tensor of one, which gets the sum of the elements' gradients."""
    if isinstance(value, Tensor) and (value.requires_grad or _C.is_recorded(value) or _C.vmap_level(value)):
        if value.ndim:
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions."
            )
        return _copy_(self, value)
    return _fill_(self, value)


attach("fill_", checked(fill_))


@_method
def zero_(self: Any) -> Tensor:
    """Sets every element to zero."""
    return self.fill_(0)


# ---- autograd


@_method
def backward(
    self: Any, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
) -> None:
    """Add the gradients of this tensor to the leaves it was computed from.

    ``gradient`` has this tensor's shape, and may be left out for one element. Raises RuntimeError if it is left out for
    more, if nothing here requires a gradient, or if an earlier call without ``retain_graph`` has freed the graph.
    """
    if inputs is None and (gradient is None or isinstance(gradient, Tensor)) and not _C.vmap_depth():
        # What almost every training step does, without the general form's detours.
        retain = create_graph if retain_graph is None else retain_graph
        _C.run_backward((self,), (gradient,), None, retain, create_graph, False)
        return
    from minitensor import autograd

    autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


@_method
def register_hook(self: Any, hook: Callable[[Any], Any]) -> Any:
    """Call `hook(grad)` when this tensor's gradient is computed; what it returns replaces the gradient."""
    from minitensor.autograd.hooks import register

    return register(self, hook, "tensor")


@_method
def register_post_accumulate_grad_hook(self: Any, hook: Callable[[Any], Any]) -> Any:
    """Call `hook(tensor)` after a gradient has been added to this leaf's `.grad`."""
    from minitensor.autograd.hooks import register_post_accumulate_grad_hook

    return register_post_accumulate_grad_hook(self, hook)


@_method
def retain_grad(self: Any) -> None:
    """Keep the gradient of a tensor that is not a leaf in `.grad`."""
    from minitensor.autograd.hooks import retain_grad

    retain_grad(self)


attach(
    "retains_grad", property(lambda self: _C.retains_grad(self), doc="Whether a result's gradient is kept in `.grad`.")
)


# ---- Python's protocols


def _div(self: Any, other: Any) -> Any:
    return self / other


def _rdiv(self: Any, other: Any) -> Any:
    return other / self


def _idiv(self: Any, other: Any) -> Any:
    return self.div_(other)


def _contains(self: Any, element: Any) -> bool:
    if not isinstance(element, (_C.Tensor, bool, int, float, complex)):
        raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")
    return bool(self.eq(element).any())


def _reversed(self: Any) -> Any:
    return self.flip(0) if self.ndim else self


def _format(self: Any, spec: str) -> str:
    if not isinstance(self, Tensor):
        raise TypeError(f"__format__() needs a Tensor, but got {type(self).__name__}")
    if self.ndim == 0 and type(self) is Tensor and self.device.type != "meta":
        return format(self.item(), spec)
    return object.__format__(self, spec)


def _repr(self: Any) -> str:
    from minitensor._tensor.printing import tensor_text

    return tensor_text(self)


for _name, _function in {
    "__copy__": copy_tensor,
    "__deepcopy__": deepcopy_tensor,
    "__reduce__": reduce_tensor,
    "__div__": _div,
    "__rdiv__": _rdiv,
    "__idiv__": _idiv,
    "__contains__": _contains,
    "__reversed__": _reversed,
    "__format__": _format,
    "_repr": _repr,
}.items():
    attach(_name, _function)


for _composite in COMPOSITES.values():
    for _name in (_composite.name, *_composite.aliases):
        if _composite.method:
            attach(_name, _composite.call)
        if _composite.inplace is not None:
            attach(f"{_name}_", _composite.inplace)
