"""Keys and values that all processes of a job see: how they find one another."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NoReturn

from minitensor import _forks
from minitensor.distributed.errors import DistStoreError, QueueEmptyError

__all__ = ["HashStore", "PrefixStore", "Store"]

DEFAULT_TIMEOUT = timedelta(seconds=300)


def as_bytes(value: str | bytes) -> bytes:
    """A value as it is kept."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise TypeError(f"a store keeps str and bytes, not {type(value).__name__}")


def seconds(timeout: timedelta | float) -> float:
    """A duration in seconds."""
    return timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)


class Store:
    """What every store can do. A class of the user's defines `set`, `get`, `add`, `check`, `wait`, and more."""

    def __init__(self) -> None:
        self._timeout = DEFAULT_TIMEOUT

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object: it belongs to this process")

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait where they aren't told."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Have `get` and `wait` wait so long."""
        self._timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Keep a value under a key, in the place of an older one."""
        raise NotImplementedError(f"{type(self).__name__} has no set")

    def get(self, key: str) -> bytes:
        """Return the value of a key; wait for it. DistStoreError after the timeout."""
        raise NotImplementedError(f"{type(self).__name__} has no get")

    def add(self, key: str, amount: int) -> int:
        """Add to a number, which begins at 0, and return the sum."""
        raise NotImplementedError(f"{type(self).__name__} has no add")

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all keys are there."""
        raise NotImplementedError(f"{type(self).__name__} has no check")

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are there. DistStoreError after the timeout."""
        raise NotImplementedError(f"{type(self).__name__} has no wait")

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Put a value in the place of the expected one, or of none if that is empty; return what is there then."""
        raise NotImplementedError(f"{type(self).__name__} has no compare_set")

    def delete_key(self, key: str) -> bool:
        """Forget a key; return whether it was there."""
        raise NotImplementedError(f"{type(self).__name__} has no delete_key")

    def num_keys(self) -> int:
        """Return how many keys there are."""
        raise NotImplementedError(f"{type(self).__name__} has no num_keys")

    def list_keys(self) -> list[str]:
        """Return all keys."""
        raise NotImplementedError(f"{type(self).__name__} has no list_keys")

    def append(self, key: str, value: str | bytes) -> None:
        """Put a value behind the one that is there."""
        raise NotImplementedError(f"{type(self).__name__} has no append")

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Return the values of several keys; wait for them."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Keep several values."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Put a value at the end of a queue."""
        raise NotImplementedError(f"{type(self).__name__} has no queue_push")

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first value of a queue; wait for one. QueueEmptyError if there is none and it is not to `block`."""
        raise NotImplementedError(f"{type(self).__name__} has no queue_pop")

    def queue_len(self, key: str) -> int:
        """Return the length of a queue."""
        raise NotImplementedError(f"{type(self).__name__} has no queue_len")

    def has_extended_api(self) -> bool:
        """Return whether `append`, `multi_get`, `multi_set` and queues are there."""
        return type(self).append is not Store.append


class Table:
    """What a store keeps: a call is a name of a method and bytes. `None` where it has to wait."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.queues: dict[str, deque[bytes]] = {}

    def set(self, key: str, value: bytes) -> bytes:
        """Keep a value."""
        self.values[key] = value
        return b""

    def get(self, key: str) -> bytes | None:
        """Return a value."""
        return self.values.get(key)

    def add(self, key: str, amount: bytes) -> bytes:
        """Add to a number."""
        try:
            total = int(self.values.get(key, b"0")) + int(amount)
        except ValueError:
            raise DistStoreError(f"add: the value of {key!r} is no number: {self.values[key][:40]!r}") from None
        self.values[key] = str(total).encode()
        return self.values[key]

    def check(self, *keys: str) -> bytes:
        """Return b"1" if all are there."""
        return b"1" if all(key in self.values for key in keys) else b"0"

    def wait(self, *keys: str) -> bytes | None:
        """Return something once all are there."""
        return b"" if all(key in self.values for key in keys) else None

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        """Set if what is there is what was expected."""
        if key not in self.values:
            if expected:
                return expected
            self.values[key] = desired
        elif self.values[key] == expected:
            self.values[key] = desired
        return self.values[key]

    def append(self, key: str, value: bytes) -> bytes:
        """Put behind."""
        self.values[key] = self.values.get(key, b"") + value
        return b""

    def delete_key(self, key: str) -> bytes:
        """Forget."""
        return b"0" if self.values.pop(key, None) is None else b"1"

    def num_keys(self) -> bytes:
        """Count."""
        return str(len(self.values)).encode()

    def list_keys(self) -> bytes:
        """List, a line each."""
        return "\n".join(self.values).encode()

    def queue_push(self, key: str, value: bytes) -> bytes:
        """Put at the end."""
        self.queues.setdefault(key, deque()).append(value)
        return b""

    def queue_pop(self, key: str) -> bytes | None:
        """Take the first."""
        queue = self.queues.get(key)
        return queue.popleft() if queue else None

    def queue_try(self, key: str) -> bytes:
        """Take the first: b"1" before it, or b"0"."""
        found = self.queue_pop(key)
        return b"0" if found is None else b"1" + found

    def queue_len(self, key: str) -> bytes:
        """Count."""
        return str(len(self.queues.get(key, ()))).encode()


# What each call of a table takes: a key and then bytes, or keys only.
VALUES = {"set": 1, "add": 1, "compare_set": 2, "append": 1, "queue_push": 1}


class TableStore(Store):
    """A store over a :class:`Table`, wherever that is: `_call` gives the answer, or None after the timeout."""

    def _call(self, name: str, keys: Sequence[str], values: Sequence[bytes], timeout: timedelta | None) -> bytes | None:
        raise NotImplementedError

    def _ask(self, name: str, *keys: str, values: Sequence[bytes] = (), timeout: timedelta | None = None) -> bytes:
        waited = self._timeout if timeout is None else timeout
        answer = self._call(name, keys, values, waited)
        if answer is None:
            raise DistStoreError(
                f"wait timeout after {seconds(waited) * 1000:.0f}ms, keys: {', '.join(keys)}"
                f" ({type(self).__name__}.{name})"
            )
        return answer

    def set(self, key: str, value: str | bytes) -> None:
        self._ask("set", key, values=[as_bytes(value)])

    def get(self, key: str) -> bytes:
        return self._ask("get", key)

    def add(self, key: str, amount: int) -> int:
        return int(self._ask("add", key, values=[str(int(amount)).encode()]))

    def check(self, keys: Sequence[str]) -> bool:
        return self._ask("check", *keys) == b"1"

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        self._ask("wait", *keys, timeout=timeout)

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        return self._ask("compare_set", key, values=[as_bytes(expected_value), as_bytes(desired_value)])

    def delete_key(self, key: str) -> bool:
        return self._ask("delete_key", key) == b"1"

    def num_keys(self) -> int:
        return int(self._ask("num_keys"))

    def list_keys(self) -> list[str]:
        found = self._ask("list_keys").decode()
        return found.split("\n") if found else []

    def append(self, key: str, value: str | bytes) -> None:
        self._ask("append", key, values=[as_bytes(value)])

    def queue_push(self, key: str, value: str | bytes) -> None:
        self._ask("queue_push", key, values=[as_bytes(value)])

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        if block:
            return self._ask("queue_pop", key)
        found = self._ask("queue_try", key)
        if found == b"0":
            raise QueueEmptyError(f"queue {key} is empty")
        return found[1:]

    def queue_len(self, key: str) -> int:
        return int(self._ask("queue_len", key))


class HashStore(TableStore):
    """A store of one process, for its threads."""

    def __init__(self) -> None:
        super().__init__()
        self._table = Table()
        self._changed = threading.Condition(_forks.lock())

    def _call(self, name: str, keys: Sequence[str], values: Sequence[bytes], timeout: timedelta | None) -> bytes | None:
        call: Callable[..., bytes | None] = getattr(self._table, name)
        end = time.monotonic() + seconds(timeout or DEFAULT_TIMEOUT)
        with self._changed:
            while (answer := call(*keys, *values)) is None:
                left = end - time.monotonic()
                if left <= 0:
                    return None
                self._changed.wait(left)
            self._changed.notify_all()
        return answer


class PrefixStore(Store):
    """Another store, with something before each key."""

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self._prefix = prefix
        self._store = store

    @property
    def underlying_store(self) -> Store:
        """The other store."""
        return self._store

    @property
    def timeout(self) -> timedelta:
        """That of the other store."""
        return self._store.timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the other store's."""
        self._store.set_timeout(timeout)

    def _key(self, key: str) -> str:
        return f"{self._prefix}/{key}"

    def _keys(self, keys: Sequence[str]) -> list[str]:
        return [self._key(key) for key in keys]

    def list_keys(self) -> list[str]:
        """Return the keys that begin so."""
        start = self._key("")
        return [key.removeprefix(start) for key in self._store.list_keys() if key.startswith(start)]

    def num_keys(self) -> int:
        """Return how many keys the other store has."""
        return self._store.num_keys()

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are there."""
        self._store.wait(self._keys(keys), *([] if timeout is None else [timeout]))

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all keys are there."""
        return self._store.check(self._keys(keys))

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Return the values of several keys."""
        return self._store.multi_get(self._keys(keys))

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Keep several values."""
        self._store.multi_set(self._keys(keys), values)

    def has_extended_api(self) -> bool:
        """Return whether the other store has them."""
        return self._store.has_extended_api()


def _prefixed(name: str) -> Any:
    def call(self: PrefixStore, key: str, *values: Any, **named: Any) -> Any:
        return getattr(self._store, name)(self._key(key), *values, **named)

    call.__name__, call.__qualname__ = name, f"PrefixStore.{name}"
    call.__doc__ = getattr(Store, name).__doc__
    return call


for _name in ("set", "get", "add", "compare_set", "delete_key", "append", "queue_push", "queue_pop", "queue_len"):
    setattr(PrefixStore, _name, _prefixed(_name))
