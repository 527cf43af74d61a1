"""Calls that go on by themselves."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NoReturn

from minitensor import _forks
from minitensor.distributed.errors import DistBackendError
from minitensor.futures import Future

__all__ = ["Work"]


class Work:
    """A call that has begun. Its tensors belong to it until `wait` has returned."""

    def __init__(
        self,
        call: Any = None,
        tensors: Sequence[Any] = (),
        after: Sequence[Callable[[], object]] = (),
        ranks: Any = None,
    ) -> None:
        self._call = call
        self._tensors = list(tensors)
        self._after = list(after)
        self._ranks = ranks
        self._future: _WorkFuture | None = None
        self._error: Exception | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object: it belongs to this process")

    def _finished(self) -> None:
        """What is left to be done when the data is there: copies to tensors that it could not come to directly."""
        if self._call is None:
            return
        if self._error is None and (text := self._call.error) is not None:
            self._error = DistBackendError(text)
        after, self._after = self._after, []
        if self._error is None:
            for step in after:
                step()

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until the call is done; True. DistBackendError if it failed, or took longer than `timeout`."""
        if self._call is not None:
            limit = None if timeout is None or not timeout else timeout.total_seconds()
            if not self._call.wait(limit):
                raise DistBackendError(f"Work.wait: timed out after {limit:g} s; the call goes on")
            self._finished()
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        """Wait until the call is done."""
        self.wait()

    def is_completed(self) -> bool:
        """Return whether the call is done, well or not."""
        if self._call is None:
            return True
        done: bool = self._call.done
        if done:
            self._finished()
        return done

    def is_success(self) -> bool:
        """Return whether the call is done and went well."""
        return self.is_completed() and self._error is None

    def exception(self) -> Exception | None:
        """Return what went wrong, of a call that is done."""
        self.is_completed()
        return self._error

    def result(self) -> list[Any]:
        """Return the tensors that the call writes."""
        return list(self._tensors)

    def source_rank(self) -> int:
        """Return the rank that a message came from, in the default group."""
        source: int = -1 if self._call is None else self._call.source
        return source if self._ranks is None or source < 0 else self._ranks[source]

    _source_rank = source_rank

    def get_future(self) -> Future[Any]:
        """Return a future of the list of tensors."""
        if self._future is None:
            self._future = _WorkFuture(self)
        return self._future


class _WorkFuture(Future[Any]):
    """Done when the call is: whoever asks looks, and a thread waits where there are callbacks."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self._work = work
        self._closing = _forks.lock()
        self._watched = False

    def _close(self) -> None:
        error: Any = None
        try:
            self._work.wait()
        except Exception as raised:
            error = raised
        with self._closing:
            if not self._set:
                self._finish(self._work.result(), error)

    def done(self) -> bool:
        if not self._set and self._work.is_completed():
            self._close()
        return self._set

    def wait(self) -> Any:
        if not self._set:
            self._close()
        return self.value()

    def add_done_callback(self, callback: Callable[[Future[Any]], Any]) -> None:
        super().add_done_callback(callback)
        if not self.done() and not self._watched:
            self._watched = True
            threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        try:
            self._close()
        except Exception:
            traceback.print_exc()  # of a callback: there is nobody to raise it to
