"""Results that come later, by PyTorch's names (`torch.futures`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from minitensor import _forks

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A value or an exception that somebody sets, once; callbacks run then, in the thread that sets it.

    ``devices`` are taken for PyTorch's sake: values are of the CPU when they are set.
    """

    def __init__(self, *, devices: Sequence[Any] | None = None) -> None:
        self._done = threading.Condition(_forks.lock())
        self._set = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future[T]], Any]] = []

    def done(self) -> bool:
        """Return whether a value or an exception is there."""
        return self._set

    def wait(self) -> T:
        """Wait for it, and return the value or raise the exception."""
        with self._done:
            while not self._set:
                self._done.wait()
        return self.value()

    def value(self) -> T:
        """Return the value, or raise the exception, of a future that is done. RuntimeError if it isn't."""
        if not self._set:
            raise RuntimeError("the future has no value yet; wait() waits for it")
        if self._error is not None:
            raise self._error
        found: T = self._value
        return found

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """Have ``callback`` called with this future when it is done; return a future of what that returns."""
        chained: Future[S] = Future()

        def call(done: Future[T]) -> None:
            try:
                found = callback(done)
            except BaseException as error:
                chained.set_exception(error)  # type: ignore[arg-type]
            else:
                chained.set_result(found)

        self.add_done_callback(call)
        return chained

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        """Have ``callback`` called with this future when it is done, or now if it is."""
        with self._done:
            if not self._set:
                self._callbacks.append(callback)
                return
        callback(self)

    def _finish(self, value: Any, error: BaseException | None) -> None:
        with self._done:
            if self._set:
                raise RuntimeError("Future can only be marked completed once")
            self._value, self._error, self._set = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._done.notify_all()
        for callback in callbacks:
            callback(self)

    def set_result(self, result: T) -> None:
        """Set the value."""
        self._finish(result, None)

    def set_exception(self, result: Exception) -> None:
        """Set the exception that `wait` and `value` raise."""
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._finish(None, result)


def collect_all(futures: Sequence[Future[Any]]) -> Future[list[Future[Any]]]:
    """Return a future of the list of futures, done when all of them are."""
    gathered: Future[list[Future[Any]]] = Future()
    given = list(futures)
    left = [len(given)]
    lock = _forks.lock()

    def one(_: Future[Any]) -> None:
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            gathered.set_result(given)

    if not given:
        gathered.set_result(given)
    for future in given:
        future.add_done_callback(one)
    return gathered


def wait_all(futures: Sequence[Future[Any]]) -> list[Any]:
    """Wait for all, and return their values; raises the first exception among them."""
    return [future.wait() for future in futures]
