"""Dimensions whose sizes may vary: names, ranges, hints, and where they stand among the inputs."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, ClassVar

from minitensor._C import Tensor
from minitensor._functions.offered import arange
from minitensor.autograd import no_grad
from minitensor.export.errors import UserError
from minitensor.utils import _pytree

__all__ = ["AdditionalInputs", "Constraint", "Dim", "ShapesCollection", "bound_arguments", "dims", "specs_of"]


@dataclass(frozen=True)
class _Hint:
    """A dimension without a name: `Dim.AUTO`, `Dim.DYNAMIC` or `Dim.STATIC`, with bounds if it is called."""

    kind: str
    min: int | None = None
    max: int | None = None

    def __call__(self, min: int | None = None, max: int | None = None) -> _Hint:
        if self.kind == "STATIC":
            raise TypeError("'DimHint' object is not callable")
        if min is not None and min < 0:
            raise AssertionError(f"min must be non-negative, got {min}")
        if min is not None and max is not None and min > max:
            raise AssertionError(f"min must be at most max, got {min} and {max}")
        return _Hint(self.kind, min, max)

    def __repr__(self) -> str:
        bounds = [f"{name}={value}" for name in ("min", "max") if (value := getattr(self, name)) is not None]
        return f"DimHint({', '.join([self.kind, *bounds])})"


class Dim:
    """A dimension by its name: all that have it are of one size, from `min` to `max`.

    `2 * batch + 1`, with ints and for a positive factor, is a dimension that follows another.
    """

    AUTO: ClassVar[Any] = _Hint("AUTO")
    DYNAMIC: ClassVar[Any] = _Hint("DYNAMIC")
    STATIC: ClassVar[Any] = _Hint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        """AssertionError for an empty range or what is no name."""
        low = 0 if min is None else min
        if max is not None and max <= low:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__ = name
        self.min, self.max = low, max
        self.root: Dim = self
        self.factor, self.offset = 1, 0

    def _derived(self, factor: int, offset: int) -> Dim:
        for number in (factor, offset):
            if type(number) is not int:
                raise NotImplementedError(f"a dimension is derived from {self.__name__} by ints only, got {number!r}")
        if factor <= 0:
            raise NotImplementedError(f"a dimension is derived from {self.__name__} by a positive factor, got {factor}")
        made = Dim.__new__(type(self))
        made.root = self.root
        made.factor, made.offset = self.factor * factor, self.offset * factor + offset
        made.min = made.of(self.root.min)
        made.max = None if self.root.max is None else made.of(self.root.max)
        name = self.root.__name__
        name = name if made.factor == 1 else f"{made.factor}*{name}"
        sign = "+" if made.offset > 0 else "-"
        made.__name__ = name if not made.offset else f"{name} {sign} {abs(made.offset)}"
        return made

    def of(self, size: int) -> int:
        """The size of this dimension for one of its root."""
        return self.factor * size + self.offset

    def __add__(self, other: int) -> Dim:
        return self._derived(1, other)

    __radd__ = __add__

    def __sub__(self, other: int) -> Dim:
        return self._derived(1, -other)

    def __mul__(self, other: int) -> Dim:
        return self._derived(other, 0)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        if self.root is not self:
            return self.__name__
        bounds = [f"min={self.min}"] if self.min != 2 else []
        return f"Dim({', '.join([repr(self.__name__), *bounds, *([f'max={self.max}'] if self.max else [])])})"


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Dimensions of these names, with one range."""
    return tuple(Dim(name, min=min, max=max) for name in names)


@dataclass(frozen=True)
class Constraint:
    """What holds of a dimension of an input: its name, and its range."""

    tensor: str
    dim: int
    name: str
    min: int
    max: int | None


def bound_arguments(mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The example by the names of `forward`'s parameters."""
    bound = inspect.signature(mod.forward).bind(*args, **kwargs)
    found: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            found.update(value)
        else:
            found[name] = value
    return found


class ShapesCollection:
    """Dynamic shapes by tensor: `shapes[x] = {0: batch}`, or of one dimension, `shapes[x][0] = batch`."""

    def __init__(self) -> None:
        """Nothing is dynamic."""
        self._shapes: dict[int, Any] = {}

    def __setitem__(self, t: Any, shape: Any) -> None:
        if not isinstance(t, (Tensor, int)):
            raise AssertionError(f"Cannot assign shape to non-tensor or int type {type(t)}")
        known = self._shapes.get(id(t))
        if known is not None and known != shape:
            raise AssertionError(f"Shapes assigned to input are not equal: {known} and {shape}")
        self._shapes[id(t)] = shape

    def __getitem__(self, t: Any) -> Any:
        if not isinstance(t, (Tensor, int)):
            raise AssertionError(f"Cannot assign shape to non-tensor or int type {type(t)}")
        return self._shapes.setdefault(id(t), {})

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(self, m: Any, args: Any, kwargs: Any = None) -> Any:
        """The `dynamic_shapes` of an example that has these tensors. ValueError if it lacks one."""
        seen = set()

        def shape(leaf: Any) -> Any:
            seen.add(id(leaf))
            return self._shapes.get(id(leaf))

        found = _pytree.tree_map(shape, bound_arguments(m, args, kwargs or {}))
        if missing := set(self._shapes) - seen:
            raise ValueError(f"Some tensors that were assigned shapes were not found in args: {len(missing)} of them")
        return found


class AdditionalInputs:
    """More examples of inputs: what differs among them is dynamic."""

    def __init__(self) -> None:
        """There are none yet."""
        self._examples: list[tuple[Any, Any]] = []

    def add(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        """Add an example."""
        if type(args) is not tuple:
            raise AssertionError(f"Representative args {args} must be a tuple")
        if kwargs is not None and type(kwargs) is not dict:
            raise AssertionError(f"Representative kwargs {kwargs} must be None or a dict")
        self._examples.append((args, kwargs))

    def dynamic_shapes(self, m: Any, args: Any, kwargs: Any = None) -> Any:
        """The `dynamic_shapes` that an example and those here ask for. UserError if they differ in more than sizes."""
        all_of = [bound_arguments(m, a, k or {}) for a, k in [(args, kwargs), *self._examples]]
        specs = [_pytree.tree_structure(one) for one in all_of]
        if any(spec != specs[0] for spec in specs):
            raise UserError(f"additional inputs have another structure than the example: {specs}")

        def shape(*leaves: Any) -> Any:
            first = leaves[0]
            if not isinstance(first, Tensor):
                if any(leaf != first for leaf in leaves):
                    raise UserError(f"additional inputs differ in a value that is no tensor: {leaves}")
                return None
            if len({leaf.dim() for leaf in leaves}) > 1:
                raise UserError(f"additional inputs have tensors of other ranks: {[tuple(t.shape) for t in leaves]}")
            return tuple(
                Dim.DYNAMIC if len(set(sizes)) > 1 else None for sizes in zip(*(t.shape for t in leaves), strict=True)
            )

        return _pytree.tree_map(shape, all_of[0], *all_of[1:])

    def verify(self, ep: Any) -> None:
        """Run an exported program on them."""
        module = ep.module()
        for args, kwargs in self._examples:
            module(*args, **(kwargs or {}))


def specs_of(mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any) -> dict[int, dict[int, Dim | _Hint]]:
    """By the id of a tensor among the inputs: which of its dimensions vary, and how.

    UserError if the shapes do not fit the example.
    """
    if isinstance(shapes, (ShapesCollection, AdditionalInputs)):
        shapes = shapes.dynamic_shapes(mod, args, kwargs)
    found: dict[int, dict[int, Dim | _Hint]] = {}
    if not shapes:
        return found
    named = bound_arguments(mod, args, kwargs)
    if isinstance(shapes, dict):
        if set(shapes) != set(named):
            raise UserError(
                "When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names "
                f"{list(named)} of `inputs`, but here they are {list(shapes)}."
            )
    elif isinstance(shapes, (tuple, list)):
        if len(shapes) != len(named):
            raise UserError(f"dynamic_shapes has {len(shapes)} items for the {len(named)} inputs {list(named)}")
        shapes = dict(zip(named, shapes, strict=True))
    else:
        raise UserError(f"expected dynamic_shapes to be a dict, tuple or list, got {type(shapes).__name__}")
    for name, value in named.items():
        _fit(name, value, shapes[name], found)
    return found


def _fit(where: str, value: Any, shape: Any, found: dict[int, dict[int, Any]]) -> None:
    if shape is None:
        return
    if isinstance(value, Tensor):
        if isinstance(shape, dict):
            items = shape
        elif isinstance(shape, (tuple, list)):
            if len(shape) != value.dim():
                raise UserError(
                    f"dynamic_shapes of {where} has {len(shape)} items, the tensor {value.dim()} dimensions"
                )
            items = dict(enumerate(shape))
        else:
            raise UserError(f"dynamic_shapes of {where}: expected a dict, tuple or list, got {type(shape).__name__}")
        wanted: dict[int, Any] = {}
        for dim, one in items.items():
            if not (isinstance(dim, int) and -value.dim() <= dim < value.dim()):
                raise UserError(f"dynamic_shapes of {where}: there is no dimension {dim!r} of {value.dim()}")
            place = dim % value.dim()
            if one is None or one == Dim.STATIC or one is Dim.STATIC:
                continue
            if isinstance(one, int):
                if value.shape[place] != one:
                    raise UserError(
                        f"Static shape constraint of {one} does not match input size of {value.shape[place]}, for "
                        f"dimension {dim} of {where}"
                    )
                continue
            if not isinstance(one, (Dim, _Hint)):
                raise UserError(f"dynamic_shapes of {where}[{dim}]: expected a Dim, an int or None, got {one!r}")
            wanted[place] = one
        if wanted:
            found[id(value)] = wanted
        return
    children = _children(value)
    if children is None:
        raise UserError(f"dynamic_shapes of {where}: only tensors have sizes, the input is a {type(value).__name__}")
    given = dict(shape) if isinstance(shape, dict) else dict(enumerate(shape))
    if set(given) != set(children):
        raise UserError(f"dynamic_shapes of {where} has {list(given)}, the input {list(children)}")
    for key, child in children.items():
        _fit(f"{where}[{key!r}]", child, given[key], found)


def _children(value: Any) -> dict[Any, Any] | None:
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, (tuple, list)):
        return dict(enumerate(value))
    leaves, spec = _pytree.tree_flatten(value, is_leaf=lambda x: x is not value)
    return None if spec.is_leaf() else dict(enumerate(leaves))


def resized(value: Tensor, sizes: dict[int, int]) -> Tensor:
    """A tensor with other sizes in some dimensions, of the values that it has: indices stay indices."""
    with no_grad():
        made = value.detach()
        for dim, size in sizes.items():
            made = made.index_select(dim, arange(size, device=value.device) % value.shape[dim])
        made = made.contiguous() if made is value or not sizes else made
    return made.requires_grad_(value.requires_grad) if value.requires_grad else made
