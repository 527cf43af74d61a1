"""Tensors with a mask that says which elements count."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor._C import Tensor, uint8
from minitensor._functions.offered import equal, ones_like, tensor, where
from minitensor.masked import functions

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]

_UNARY = frozenset((
    "abs", "absolute", "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "asin",
    "asinh", "atan", "atanh", "bitwise_not", "ceil", "clamp", "clip", "conj_physical", "cos", "cosh", "deg2rad",
    "digamma", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "fix", "floor", "frac", "isnan", "isfinite", "isinf",
    "lgamma", "log", "log10", "log1p", "log2", "logit", "i0", "nan_to_num", "neg", "negative", "positive", "pow",
    "rad2deg", "reciprocal", "relu", "round", "rsqrt", "sgn", "sigmoid", "sign", "signbit", "sin", "sinc", "sinh",
    "sqrt", "square", "tan", "tanh", "trunc", "to", "float", "double", "half", "clone", "detach", "contiguous",
    "type", "bool", "long", "int", "__invert__", "__rpow__", "__rsub__", "__rtruediv__", "__rmod__", "__rfloordiv__",
))  # fmt: skip
_BINARY = frozenset((
    "add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "floor_divide", "fmod", "remainder",
    "logaddexp", "logaddexp2", "maximum", "minimum", "fmin", "fmax", "atan2", "arctan2", "hypot", "nextafter",
    "bitwise_and", "bitwise_or", "bitwise_xor", "__and__", "__or__", "__xor__", "eq", "ne", "lt", "le", "gt", "ge",
    "equal_", "__eq__", "__ne__", "__pow__", "__floordiv__", "__mod__", "__truediv__", "logical_and", "logical_or",
    "logical_xor",
))  # fmt: skip
_PLACES = frozenset((
    "view", "reshape", "unsqueeze", "squeeze", "select", "transpose", "permute", "expand", "flatten", "narrow",
    "__getitem__", "t", "movedim", "swapaxes", "index_select", "broadcast_to", "T", "mT",
))  # fmt: skip
_REDUCTIONS = frozenset(("sum", "prod", "mean", "amax", "amin", "argmax", "argmin", "var", "std", "norm"))
_ALONG = frozenset(("softmax", "log_softmax", "softmin", "cumsum", "cumprod"))
_PLAIN = frozenset((
    "shape", "dtype", "device", "requires_grad", "grad", "grad_fn", "is_leaf", "ndim", "size", "dim", "stride",
    "numel", "nelement", "is_contiguous", "layout", "is_floating_point", "is_complex", "is_cuda", "is_cpu", "is_meta",
    "__len__", "backward", "register_hook", "retain_grad", "_version", "element_size", "storage_offset", "output_nr",
    "_base", "ndimension", "data_ptr", "itemsize", "is_inference", "requires_grad_",
))  # fmt: skip


class MaskedTensor(Tensor):
    """Elements and a mask of the same shape: where it is False there is no element.

    Elementwise functions work on the elements and keep the mask, which must be the same of all operands; reductions
    leave out what is masked, and the result of none is masked. Functions that don't know masks are a TypeError.
    """

    _masked_mask: Any

    def __new__(cls, data: Any, mask: Any, requires_grad: bool = False) -> MaskedTensor:
        """Make one over `data`'s memory.

        TypeError for a mask that isn't a tensor of dtype bool, ValueError for one of another shape.
        """
        if is_masked_tensor(data) or not isinstance(data, Tensor):
            raise TypeError("data must be a Tensor")
        if is_masked_tensor(mask) or not isinstance(mask, Tensor):
            raise TypeError("mask must be a Tensor")
        if mask.dtype is not _C.bool:
            raise TypeError("mask must have dtype bool.")
        if data.dim() != mask.dim():
            raise ValueError("data.dim() must equal mask.dim()")
        if data.size() != mask.size():
            raise ValueError("data.size() must equal mask.size()")
        made = Tensor._as_subclass(cls, data, requires_grad)
        made._masked_mask = mask
        return made

    def get_data(self) -> Any:
        """The elements, also those that are masked, as an ordinary tensor."""
        return Tensor._as_subclass(Tensor, self, False, True)

    def get_mask(self) -> Any:
        """The mask: True where there is an element."""
        return self._masked_mask

    def to_tensor(self, value: Any) -> Any:
        """An ordinary tensor with a value where it is masked."""
        return self.get_data().masked_fill(~self._masked_mask, value)

    def __repr__(self) -> str:
        data, mask = self.get_data().detach(), self._masked_mask
        if data.ndim == 0:
            return f"MaskedTensor({_number(data.item()) if mask.item() else '--'}, {mask.item()})"
        lines = _lines(data, mask)
        return "MaskedTensor(\n" + "\n".join(f"  {line}" for line in lines.split("\n")) + "\n)"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The call on the elements, and what becomes of the mask."""
        kwargs = kwargs or {}
        name = func.__name__
        if name in ("__get__", "__set__"):
            name = func.__self__.__name__
        plain = name.removesuffix("_") if not name.endswith("__") else name
        if name in _PLAIN:
            with _C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        if name in _REDUCTIONS or name in _ALONG:
            return _reduced(name, *args, **kwargs)
        if name in ("all", "any"):
            return _truth(name, *args, **kwargs)
        masked = [a for a in args if isinstance(a, MaskedTensor)]
        if name == "where":
            sides: Any = args[1:3]
            masks = [a.get_mask() if is_masked_tensor(a) else ones_like(a, dtype=_C.bool) for a in sides]
            return _made(func(*map(_data, args)), where(_data(args[0]), *masks))
        if not masked or (plain not in _UNARY and plain not in _BINARY and name not in _PLACES):
            return NotImplemented
        mask = masked[0].get_mask()
        if name in _PLACES:
            given = [_data(a) for a in args]
            other = [mask if a is masked[0] else a for a in args]
            return _made(func(*given, **kwargs), func(*other, **kwargs))
        for operand in masked[1:]:
            if not equal(operand.get_mask(), mask):
                raise ValueError(
                    "Input masks must match. If you need support for this, please open an issue on Github."
                )
        result = func(*map(_data, args), **kwargs)
        if plain != name and isinstance(args[0], MaskedTensor):
            return args[0]
        return _made(result, mask.expand(result.shape)) if isinstance(result, Tensor) else result


def _data(a: Any) -> Any:
    return a.get_data() if isinstance(a, MaskedTensor) else a


def _made(data: Any, mask: Any) -> Any:
    """With the history of how it was computed."""
    made: Any = Tensor._as_subclass(MaskedTensor, data, False, True)
    made._masked_mask = mask
    return made


def _reduced(name: str, input: Any, *args: Any, **kwargs: Any) -> Any:
    data, mask = input.get_data(), input.get_mask()
    result = getattr(functions, name)(data, *args, mask=mask, **kwargs)
    if name in _ALONG:
        return _made(result, mask)
    dim = kwargs.get("dim", args[1 if name == "norm" else 0] if len(args) > (name == "norm") else None)
    keepdim = bool(kwargs.get("keepdim", False))
    dims = functions._dims(data, dim)
    return _made(result, mask.to(uint8).amax(dims, keepdim).to(_C.bool) if data.ndim else mask)


def _truth(name: str, input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    data = where(input.get_mask(), input.get_data().to(_C.bool), tensor(name == "all"))
    if dim is None:
        return _made(getattr(data, name)(), input.get_mask().any())
    return _made(getattr(data, name)(dim, keepdim), input.get_mask().any(dim, keepdim))


def _number(value: Any) -> str:
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _lines(data: Any, mask: Any) -> str:
    if data.ndim == 1:
        pairs = zip(data.tolist(), mask.tolist(), strict=True)
        return "[" + ", ".join(_number(x) if there else "      --" for x, there in pairs) + "]"
    parts = [_lines(d, m) for d, m in zip(data, mask, strict=True)]
    parts = ["\n".join(f"  {line}" for line in part.split("\n")) for part in parts]
    return "[\n" + ",\n".join(parts) + "\n]"


def is_masked_tensor(obj: Any, /) -> bool:
    """Whether it is a MaskedTensor."""
    return isinstance(obj, MaskedTensor)


def masked_tensor(data: Any, mask: Any, requires_grad: bool = False) -> MaskedTensor:
    """A MaskedTensor over the data; a leaf."""
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Any, mask: Any) -> MaskedTensor:
    """A MaskedTensor whose gradients go to the data."""
    MaskedTensor(data, mask)
    made: MaskedTensor = _made(data, mask)
    return made
