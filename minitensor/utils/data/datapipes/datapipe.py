"""The base classes of pipes, and the batches that they make."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeVar

from minitensor.utils.data.datapipes.iterators import watched
from minitensor.utils.data.datapipes.types import DataPipeType, stated
from minitensor.utils.data.dataset import Dataset, IterableDataset

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe"]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class DataChunk(list[_T]):
    """A batch: a list that knows the items it was made of."""

    def __init__(self, items: Iterable[_T]) -> None:
        """`items` are also an attribute."""
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        """The items as text."""
        return f"{indent}[{', '.join(map(str, self))}]"

    def raw_iterator(self) -> Iterator[_T]:
        """The items that it was made of."""
        yield from self.items


class _Pipe:
    """What both kinds have: functions of the name of a pipe that is to follow, pickling, text."""

    functions: ClassVar[dict[str, Callable[..., Any]]]
    type: ClassVar[DataPipeType] = DataPipeType(Any)
    getstate_hook: ClassVar[Callable[..., Any] | None] = None
    reduce_ex_hook: ClassVar[Callable[..., Any] | None] = None
    str_hook: Callable[..., str] | None = None
    repr_hook: Callable[..., str] | None = None
    _samples_are = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "type" not in vars(cls):
            cls.type = stated(cls)
        begin = vars(cls).get("__iter__")
        if (
            begin is not None
            and not hasattr(begin, "_watched")
            and issubclass(cls, Iterable)
            and hasattr(cls, "_begin")
        ):
            cls.__iter__ = watched(begin)  # type: ignore[attr-defined]

    def __getattr__(self, attribute_name: str) -> Any:
        """Return a function that makes a pipe which takes this one."""
        function = type(self).functions.get(attribute_name) if not attribute_name.startswith("__") else None
        if function is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{attribute_name}'")
        made = functools.partial(function, self)
        functools.update_wrapper(made, function, assigned=("__doc__",))
        return made

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Give every pipe a function."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Any, enable_df_api_tracing: bool = False
    ) -> None:
        """Give every pipe a function that makes one of a class with it. Exception if there is one of the name."""
        if function_name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")

        def make(source: Any, *args: Any, **kwargs: Any) -> Any:
            return cls_to_register(source, *args, **kwargs)

        functools.update_wrapper(make, cls_to_register, assigned=("__doc__",))
        cls.functions[function_name] = make

    def __getstate__(self) -> Any:
        return self._state(self.__dict__)

    def _state(self, state: Any) -> Any:
        hook = type(self).getstate_hook
        return state if hook is None else hook(state)

    def __reduce_ex__(self, protocol: Any) -> Any:
        hook = type(self).reduce_ex_hook
        if hook is not None:
            try:
                return hook(self)
            except NotImplementedError:
                pass
        return super().__reduce_ex__(protocol)

    @classmethod
    def set_getstate_hook(cls, hook_fn: Callable[..., Any] | None) -> None:
        """Have a function make what is pickled; None ends that. RuntimeError if there is one."""
        cls._set_hook("getstate_hook", hook_fn)

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn: Callable[..., Any] | None) -> None:
        """The same of `__reduce_ex__`."""
        cls._set_hook("reduce_ex_hook", hook_fn)

    @classmethod
    def _set_hook(cls, name: str, hook: Callable[..., Any] | None) -> None:
        home = next(c for c in cls.__mro__ if "functions" in vars(c))
        if getattr(home, name) is not None and hook is not None:
            raise RuntimeError(f"Attempt to override existing {name}")
        setattr(home, name, None if hook is None else staticmethod(hook))

    def __repr__(self) -> str:
        return type(self).__qualname__ if self.repr_hook is None else self.repr_hook(self)

    def __str__(self) -> str:
        return type(self).__qualname__ if self.str_hook is None else self.str_hook(self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *type(self).functions]


class IterDataPipe(_Pipe, IterableDataset[_T_co]):
    """Samples one after the other: a subclass defines `__iter__`.

    `pipe.map(f).shuffle().batch(4)` makes pipes that follow: the functions are those of
    :mod:`minitensor.utils.data.datapipes.iter` and of :class:`functional_datapipe`. A new iterator of a pipe ends the
    one before, which raises RuntimeError from then on, and calls :meth:`reset` first.
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    _valid_iterator_id: int | None = None
    _number_of_samples_yielded: int = 0

    def __iter__(self) -> Iterator[_T_co]:
        return self  # type: ignore[return-value]

    def _begin(self) -> int:
        """A new iterator; its number."""
        known = self._valid_iterator_id
        self._valid_iterator_id = 0 if known is None else known + 1
        self._number_of_samples_yielded = 0
        self.reset()
        return self._valid_iterator_id

    def _is_valid(self, number: Any) -> bool:
        return self._valid_iterator_id == number

    def reset(self) -> None:
        """Begin anew; called before each iteration. A subclass with a state has its own."""


class DFIterDataPipe(IterDataPipe[_T_co]):
    """A pipe of data frames."""

    def _is_dfpipe(self) -> bool:
        return True


class MapDataPipe(_Pipe, Dataset[_T_co]):
    """Samples by number or key: a subclass defines `__getitem__`, and mostly `__len__`."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
