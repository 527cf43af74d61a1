"""What a composed function says of an argument of the wrong type.

Such functions ask their arguments for attributes without looking at their types first, since that would cost every
call. One that is no tensor doesn't have them: the AttributeError becomes the TypeError that PyTorch raises. NumPy's
names of some keywords, which PyTorch takes too, are found out in the same way: by the error that they make.

Of bools, ints and floats the annotations tell: an argument of another kind is refused before the function runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, TypeVar, cast

from minitensor import _C
from minitensor._functions.older_forms import rearranged

__all__ = [
    "checked",
    "checked_method",
    "function_form",
    "not_overridden",
    "overridable_property",
    "wrong_argument",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_FORM: type = type(_C.out_form(len, len))
_FORMS: dict[Callable[..., Any], Callable[..., Any]] = {}  # so that a function keeps one checked form


def wrong_argument(
    function: Callable[..., Any], args: tuple[Any, ...], more: dict[str, Any], error: AttributeError
) -> TypeError | None:
    """The TypeError for the argument that lacked the attribute; None if no argument did: then it is our mistake."""
    culprit, attribute = error.obj, error.name
    if not isinstance(attribute, str) or (isinstance(culprit, _C.Tensor) and hasattr(_C.Tensor, attribute)):
        return None
    name = function.__name__
    signature = inspect.signature(function)
    if "out" not in signature.parameters:  # it belongs to the form that stores the result
        more = {key: value for key, value in more.items() if key != "out"}
    try:
        given = signature.bind_partial(*args, **more).arguments
    except TypeError:
        return None
    expected = "Tensor" if hasattr(_C.Tensor, attribute) else f"an object with '{attribute}'"
    for place, argument in _in_order(given):
        if given[argument] is culprit:
            kind = type(culprit).__name__
            return TypeError(f"{name}(): argument '{argument}' (position {place + 1}) must be {expected}, not {kind}")
    for place, value in enumerate(given.values()):
        for i, item in _elements(value):
            if item is culprit:
                return TypeError(
                    f"expected {expected} as element {i} in argument {place}, but got {type(item).__name__}"
                )
    return None


def _elements(value: Any) -> list[tuple[int, Any]]:
    """Of a list, numbered, and of the lists in it: *tensors may be given as one."""
    found = list(enumerate(value)) if isinstance(value, (list, tuple)) else []
    return found + [pair for _, item in found if isinstance(item, (list, tuple)) for pair in enumerate(item)]


def _in_order(given: Mapping[str, Any]) -> list[tuple[int, str]]:
    # A number that several arguments share was the fault of the one that is called as tensors are.
    numbers = ("dim", "axis", "keepdim", "size", "n", "k", "p", "eps", "alpha", "beta")
    return sorted(enumerate(given), key=lambda item: item[1] in numbers)


def checked(function: _Function) -> _Function:
    """The function, with PyTorch's TypeError for an argument that is no tensor. Also a decorator."""
    if type(function) is _FORM:  # which has it
        return function
    found = _FORMS.get(function)
    if found is None:
        found = _FORMS[function] = _C.out_form(function, function)
    return cast("_Function", found)  # whose type a checker sees


def checked_method(function: Any) -> Any:
    """The checked form for a method, an object of its own: who overrides calls tells methods from functions."""
    if type(function) is FunctionType:
        function = checked(function)
    if type(function) is _FORM:
        return _C.same_form(function)
    return _C.method_form(function) if type(function) is _C.Op else function


def function_form(method: Any) -> Any:
    """What a method of Tensor does as a function."""
    if type(method) is _C.Op:
        return _C.function_form(method)
    return _C.same_form(method) if type(method) is _FORM else method


def overridable_property(made: Any) -> property:
    """The property, whose reading an override sees as the call of its `__get__`."""
    getter = _C.same_form(checked(made.fget))
    setter = None if made.fset is None else _C.same_form(checked(made.fset))
    found = property(getter, setter, doc=made.__doc__)
    _C.set_form_api(getter, found.__get__)
    if setter is not None:
        _C.set_form_api(setter, found.__set__)
    return found


def not_overridden(function: Callable[..., Any]) -> Callable[..., Any]:
    """The checked form of a function that is about the process rather than about tensors."""
    form = checked(function)
    _C.set_form_api(form, None)
    return form


_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}


def pytorch_names(function: Callable[..., Any], names: tuple[str, ...]) -> tuple[str, ...] | None:
    """The names of a call's keywords with NumPy's as PyTorch's, as ops take them; None if the function has them all."""
    code = inspect.unwrap(function).__code__
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    found = tuple(
        _NUMPY_NAMES[name] if name not in known and _NUMPY_NAMES.get(name) in known else name for name in names
    )
    return None if found == names else found


_NONE_TOO = ("requires_grad", "pin_memory")  # as PyTorch takes them

# What PyTorch's functions of Python only ask whether it is true, or compute with, whatever it is: of all functions, and
# of some.
_ANYTHING = ("inplace", "reduce", "return_indices", "size_average")
_ANYTHING_OF = {
    "backward": ("create_graph", "retain_graph"),
    "calculate_gain": ("param",),
    "from_dlpack": ("copy",),
    "gaussian_nll_loss": ("eps", "full"),
    "gumbel_softmax": ("eps", "hard", "tau"),
    "interpolate": ("antialias", "recompute_scale_factor"),
    "lobpcg": ("largest",),
    "local_response_norm": ("alpha", "beta", "k"),
    "lp_pool1d": ("norm_type",),
    "lp_pool2d": ("norm_type",),
    "lp_pool3d": ("norm_type",),
    "lu": ("get_infos",),
    "module_load": ("assign",),
    "multi_head_attention_forward": ("add_zero_attn", "average_attn_weights", "need_weights", "training"),
    "normalize": ("eps",),
    "pca_lowrank": ("center",),
    "set_printoptions": ("edgeitems", "linewidth", "precision", "sci_mode", "threshold"),
    "stft": ("center",),
    "triplet_margin_with_distance_loss": ("margin", "swap"),
}


def takes_anything(function: Callable[..., Any], name: str) -> bool:
    """Whether a parameter is not checked whatever its annotation is."""
    return name in _ANYTHING or name in _ANYTHING_OF.get(function.__name__, ())


def parameter_kinds(function: Callable[..., Any]) -> list[tuple[str, int, str, bool]]:
    """Of the parameters that are bools, ints, floats or several ints by their annotations: name, place, kind, optional.

    The place of one that is given by name only is -1.
    """
    if "__signature__" in function.__dict__:  # it passes its arguments on
        parameters = inspect.signature(function).parameters.values()
        places = tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)
        names, annotations = tuple(p.name for p in parameters), {p.name: p.annotation for p in parameters}
    else:
        function = inspect.unwrap(function)
        code = function.__code__
        places = code.co_varnames[: code.co_argcount]
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        annotations = function.__annotations__
    found = []
    for name, annotation in annotations.items():
        kind = getattr(annotation, "__name__", str(annotation))  # a text, since annotations aren't evaluated
        optional = kind.endswith(" | None") or name in _NONE_TOO
        kind = kind.removesuffix(" | None")
        if kind == "int | Sequence[int]":
            kind = "ints"
        if name not in names or kind not in ("bool", "int", "float", "ints"):
            continue
        if not takes_anything(function, name):
            found.append((name, places.index(name) if name in places else -1, kind, optional))
    return found


_C.set_argument_error(wrong_argument, pytorch_names, rearranged, parameter_kinds)
