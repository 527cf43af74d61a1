"""What is said of classes of pipes and of functions that take them."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any

from minitensor.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe
from minitensor.utils.data.datapipes.types import DataPipeType

__all__ = [
    "argument_validation", "functional_datapipe", "guaranteed_datapipes_determinism", "non_deterministic",
    "runtime_validation", "runtime_validation_disabled",
]  # fmt: skip

_state = {"deterministic": False, "validates": True}


class functional_datapipe:  # noqa: N801
    """Gives pipes a function of a name that makes one of the decorated class. TypeError for other classes."""

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        """`name`: of the function."""
        self.name, self.enable_df_api_tracing = name, enable_df_api_tracing

    def __call__(self, cls: Any) -> Any:
        """Enter the class, and return it."""
        made = cls.cls if isinstance(cls, non_deterministic) else getattr(getattr(cls, "__self__", None), "cls", cls)
        for kind in (IterDataPipe, MapDataPipe):
            if isinstance(made, type) and issubclass(made, kind):
                kind.register_datapipe_as_function(self.name, cls)
                return cls
        raise TypeError("`functional_datapipe` can only decorate IterDataPipe and MapDataPipe")


class _Switch:
    """A setting from when it is made until the end of `with`."""

    name: str
    value: bool

    def __init__(self) -> None:
        self.prev = _state[self.name]
        _state[self.name] = self.value

    def __enter__(self) -> None:
        """It is set already."""

    def __exit__(self, *error: object) -> None:
        _state[self.name] = self.prev


class guaranteed_datapipes_determinism(_Switch):  # noqa: N801
    """While it lasts, pipes that :class:`non_deterministic` marks can't be made: a TypeError."""

    name, value = "deterministic", True


class runtime_validation_disabled(_Switch):  # noqa: N801
    """While it lasts, :func:`runtime_validation` checks nothing."""

    name, value = "validates", False


class non_deterministic:  # noqa: N801
    """Marks a class of pipes whose samples come in an order that may differ; or by a function of the arguments."""

    def __init__(self, arg: Any) -> None:
        """`arg`: the class, or the function. TypeError for other things."""
        self.cls: Any = None
        self.deterministic_fn: Callable[..., bool] | None = None
        if isinstance(arg, type):
            if not issubclass(arg, IterDataPipe):
                raise TypeError(
                    f"Only `IterDataPipe` can be decorated with `non_deterministic`, but {arg.__name__} is found"
                )
            self.cls = arg
        elif callable(arg):
            self.deterministic_fn = arg
        else:
            raise TypeError(f"{arg} can not be decorated by non_deterministic")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Make a pipe; of a decorator with a function, take the class."""
        if self.cls is not None:
            self._check("")
            return self.cls(*args, **kwargs)
        if not (isinstance(args[0], type) and issubclass(args[0], IterDataPipe)):
            raise TypeError(f"Only `IterDataPipe` can be decorated, but {args[0].__name__} is found")
        self.cls = args[0]
        return self.deterministic_wrapper_fn

    def deterministic_wrapper_fn(self, *args: Any, **kwargs: Any) -> Any:
        """Make a pipe, if the function does not say that it isn't deterministic."""
        assert self.deterministic_fn is not None
        found = self.deterministic_fn(*args, **kwargs)
        if not isinstance(found, bool):
            raise TypeError(
                "deterministic_fn of `non_deterministic` decorator is required "
                f"to return a boolean value, but {type(found)} is found"
            )
        if found:
            self._check(" with the inputs")
        return self.cls(*args, **kwargs)

    def _check(self, when: str) -> None:
        if _state["deterministic"]:
            raise TypeError(
                f"{self.cls.__name__} is non-deterministic{when}, but you set 'guaranteed_datapipes_determinism'. You "
                "can turn off determinism for this DataPipe if that is acceptable for your application"
            )


def argument_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """Have a function check that arguments annotated as pipes are pipes of samples of that type: else a TypeError."""
    signature, hints = inspect.signature(f), typing.get_type_hints(f)

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            hint = hints.get(name)
            cls = typing.get_origin(hint) or hint
            if not (isinstance(cls, type) and issubclass(cls, (IterDataPipe, MapDataPipe))):
                continue
            if not isinstance(value, IterDataPipe):
                raise TypeError(f"Expected argument '{name}' as a IterDataPipe, but found {type(value)}")
            given = typing.get_args(hint)
            wanted = DataPipeType(given[0]) if given else cls.type
            if not value.type.issubtype(wanted):
                raise TypeError(
                    f"Expected type of argument '{name}' as a subtype of hint {wanted}, but found {value.type}"
                )
        return f(*args, **kwargs)

    return wrapper


def runtime_validation(f: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
    """Have an `__iter__` check that each sample is of the pipe's type: else a RuntimeError."""
    if f.__name__ != "__iter__":
        raise TypeError(f"Can not decorate function {f.__name__} with 'runtime_validation'")

    @functools.wraps(f)
    def wrapper(self: Any) -> Iterator[Any]:
        for sample in f(self):
            if _state["validates"] and not self.type.issubtype_of_instance(sample):
                raise RuntimeError(
                    f"Expected an instance as subtype of {self.type}, but found {sample}({type(sample)})"
                )
            yield sample

    return wrapper
