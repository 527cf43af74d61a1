"""Context managers and decorators that say whether ops are recorded for differentiation."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from minitensor import _C

F = TypeVar("F", bound=Callable[..., Any])


class _Mode:
    """A context manager that is a decorator as well."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._previous: list[bool] = []

    def __enter__(self) -> None:
        self._previous.append(_C.set_grad_enabled(self._enabled))

    def __exit__(self, *exception: object) -> None:
        _C.set_grad_enabled(self._previous.pop())

    def _again(self) -> _Mode:
        return _Mode(self._enabled)

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
                    except BaseException:
                        with self._again():
                            value = generator.throw(*sys.exc_info())
                    else:
                        with self._again():
                            value = generator.send(request)
            except StopIteration as stop:
                return stop.value

        return wrapped


class no_grad(_Mode):  # noqa: N801  (PyTorch's name)
    """Ops inside are not recorded for differentiation."""

    def __new__(cls, function: Any = None) -> Any:
        """A context manager or, over a function, that function with the mode in force."""
        self = super().__new__(cls)
        if function is None:
            return self
        self.__init__()  # type: ignore[misc]  # used as a bare decorator
        return self(function)

    def __init__(self, function: Any = None) -> None:
        super().__init__(False)


class enable_grad(_Mode):  # noqa: N801  (PyTorch's name)
    """Ops inside are recorded for differentiation, also within no_grad."""

    def __new__(cls, function: Any = None) -> Any:
        """A context manager or, over a function, that function with the mode in force."""
        self = super().__new__(cls)
        if function is None:
            return self
        self.__init__()  # type: ignore[misc]  # used as a bare decorator
        return self(function)

    def __init__(self, function: Any = None) -> None:
        super().__init__(True)


class set_grad_enabled(_Mode):  # noqa: N801  (PyTorch's name)
    """Sets whether ops are recorded for differentiation: at once, and as a context until its end."""

    def __init__(self, mode: bool) -> None:
        super().__init__(mode)
        self._previous.append(_C.set_grad_enabled(mode))

    def __call__(self, function: F) -> F:
        """The function with the mode in force while it runs; as a decorator the mode is not set at once."""
        _C.set_grad_enabled(self._previous.pop())
        return super().__call__(function)

    def _again(self) -> _Mode:
        return _Mode(self._enabled)

    def __enter__(self) -> None:
        _C.set_grad_enabled(self._enabled)


class inference_mode(_Mode):  # noqa: N801  (PyTorch's name)
    """Like no_grad; results made inside can't be used for differentiation later."""

    def __new__(cls, mode: Any = True) -> Any:
        """A context manager or, over a function, that function with the mode in force."""
        self = super().__new__(cls)
        if not callable(mode):
            return self
        self.__init__()  # type: ignore[misc]  # used as a bare decorator
        return self(mode)

    def __init__(self, mode: bool = True) -> None:
        super().__init__(not mode)
        self._inference = bool(mode)

    def _again(self) -> _Mode:
        return inference_mode(self._inference)

    def __enter__(self) -> None:
        # In normal mode gradients are recorded again; both flags go back together.
        self._previous.append(_C.set_inference_mode(self._inference))
        self._previous.append(_C.set_grad_enabled(not self._inference))

    def __exit__(self, *exception: object) -> None:
        _C.set_grad_enabled(self._previous.pop())
        _C.set_inference_mode(self._previous.pop())
