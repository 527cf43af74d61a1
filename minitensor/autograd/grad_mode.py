"""Context managers and decorators that say whether ops are recorded for differentiation."""

from __future__ import annotations

import copyreg
import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from minitensor import _C

F = TypeVar("F", bound=Callable[..., Any])


class Decorating:
    """A mode that is a decorator as well."""

    __slots__ = ()

    def _again(self) -> AbstractContextManager[None]:
        """The same mode, for one of the calls that may go on at the same time."""
        raise NotImplementedError

    def __call__(self, function: F) -> F:
        """The function with the mode in force while it runs."""
        if inspect.isgeneratorfunction(function):
            return self._around_generator(function)  # type: ignore[return-value]  # same signature

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self._again():
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]  # same signature

    def _around_generator(self, function: Any) -> Any:
        # The mode holds while the generator's own code runs, not between its steps.
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            generator = function(*args, **kwargs)
            try:
                with self._again():
                    value = generator.send(None)
                while True:
                    try:
                        request = yield value
                    except GeneratorExit:
                        with self._again():
                            generator.close()
                        raise
                    except BaseException as error:
                        with self._again():
                            value = generator.throw(error)
                    else:
                        with self._again():
                            value = generator.send(request)
            except StopIteration as stop:
                return stop.value

        return wrapped


class _Decorator(Decorating, _C.GradMode):
    """A mode of differentiation that is a decorator as well."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is copied and pickled: a copy is not entered."""
        return type(self), ()


class no_grad(_C.NoGrad, _Decorator):  # noqa: N801  (PyTorch's name)
    """Ops inside are not recorded for differentiation."""

    __slots__ = ()

    def _again(self) -> no_grad:
        return no_grad()  # type: ignore[no-any-return]  # without a function


class enable_grad(_C.EnableGrad, _Decorator):  # noqa: N801  (PyTorch's name)
    """Ops inside are recorded for differentiation, also within no_grad."""

    __slots__ = ()

    def _again(self) -> enable_grad:
        return enable_grad()  # type: ignore[no-any-return]  # without a function


class set_grad_enabled(_Decorator):  # noqa: N801  (PyTorch's name)
    """Sets whether ops are recorded for differentiation: at once, and as a context until its end."""

    __slots__ = ("_entered", "_mode")

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled(): argument 'mode' must be bool, not {type(mode).__name__}")
        self.__setstate__((mode,))
        super().__enter__()
        self._entered = True  # already, when a `with` statement does it for the first time

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is copied and pickled: a copy doesn't set the mode at once."""
        return copyreg.__newobj__, (type(self),), (self._mode,)  # type: ignore[attr-defined]

    def __setstate__(self, state: tuple[bool]) -> None:
        (self._mode,) = state
        self._entered = False
        super().__init__(self._mode)

    def __call__(self, function: F) -> F:
        """The function with the mode in force while it runs; as a decorator the mode is not set at once."""
        if self._entered:
            self._entered = False
            self.__exit__(None, None, None)
        return super().__call__(function)

    def _again(self) -> AbstractContextManager[None]:
        return set_grad_enabled(self._mode)

    def __enter__(self) -> None:
        if self._entered:
            self._entered = False
            _C.set_grad_enabled(self._mode)
        else:
            super().__enter__()


class inference_mode(_Decorator):  # noqa: N801  (PyTorch's name)
    """Like no_grad; results made inside can't be used for differentiation later."""

    __slots__ = ("_mode",)

    def __new__(cls, mode: Any = True) -> Any:
        """A context manager or, over a function, that function with the mode in force."""
        self = super().__new__(cls)
        if not callable(mode):
            return self
        self.__init__()  # type: ignore[misc]  # used as a bare decorator
        return self(mode)

    def __init__(self, mode: bool = True) -> None:
        self._mode = bool(mode)
        super().__init__(not self._mode, self._mode)  # in normal mode gradients are recorded again

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is copied and pickled: a copy is not entered."""
        return type(self), (self._mode,)

    def _again(self) -> inference_mode:
        return inference_mode(self._mode)  # type: ignore[no-any-return]  # without a function


class enforce_grad_layout_policy(Decorating):  # noqa: N801  (PyTorch's name)
    """Says whether a leaf's first gradient is laid out in memory as the leaf is: at once, and as a context.

    Without, a gradient that nobody else has stays as it lies, where it would be copied. Others are copied, to the
    leaf's layout, all the same. It holds for this thread's backward passes.
    """

    def __init__(self, enable: bool = True) -> None:
        """`enable`: whether gradients have their leaf's layout."""
        self.mode = bool(enable)
        self.prev = not _C.set_any_grad_layout(not self.mode)

    def __enter__(self) -> None:
        """It is set already."""

    def __exit__(self, *exception: object) -> None:
        _C.set_any_grad_layout(not self.prev)

    def __call__(self, function: F) -> F:
        """The function with the policy while it runs; as a decorator it is not set at once."""
        _C.set_any_grad_layout(not self.prev)
        return super().__call__(function)

    def _again(self) -> enforce_grad_layout_policy:
        return enforce_grad_layout_policy(self.mode)


class set_multithreading_enabled:  # noqa: N801  (PyTorch's name)
    """Says whether a backward pass may use several threads: at once, and as a context until its end.

    A pass goes through the graph in the thread that called it, whatever is said here; kernels have the threads of
    `set_num_threads`.
    """

    _wanted = True

    def __init__(self, mode: bool) -> None:
        """`mode`: whether it may."""
        self.prev, self.mode = set_multithreading_enabled._wanted, bool(mode)
        set_multithreading_enabled._wanted = self.mode

    def __enter__(self) -> None:
        """It is set already."""

    def __exit__(self, *exception: object) -> None:
        set_multithreading_enabled._wanted = self.prev

    def __call__(self, function: F) -> F:
        """The function with the mode while it runs; as a decorator it is not set at once."""
        set_multithreading_enabled._wanted = self.prev

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with set_multithreading_enabled(self.mode):
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]  # same signature
