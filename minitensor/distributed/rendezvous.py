"""How processes find the store: by environment variables, by a host and port, or by a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlparse, urlunparse

from minitensor.distributed.stores import FileStore, PrefixStore, Store, TCPStore

__all__ = ["register_rendezvous_handler", "rendezvous"]

Found = Iterator[tuple[Store, int, int]]
DEFAULT_TIMEOUT = timedelta(minutes=30)
_handlers: dict[str, Callable[..., Found]] = {}


def register_rendezvous_handler(scheme: str, handler: Callable[..., Found]) -> None:
    """Have URLs of a scheme handled: ``handler(url, timeout=...)`` yields the store, the rank and the world size.

    RuntimeError if the scheme has a handler.
    """
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **options: Any) -> Found:
    """Return the handler's iterator for a URL; a rank and a world size that are given go before the URL's."""
    if not isinstance(url, (str, bytes)):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    if not isinstance(rank, int):
        raise RuntimeError(f"`rank` must be an integer. {rank}")
    if not isinstance(world_size, int):
        raise RuntimeError(f"`world_size` must be an integer. {world_size}")
    parsed = urlparse(url if isinstance(url, str) else url.decode())
    if parsed.scheme not in _handlers:
        raise RuntimeError(f"No rendezvous handler for {parsed.scheme}://")
    query = dict(parse_qsl(parsed.query))
    if rank != -1:
        query["rank"] = str(rank)
    if world_size != -1:
        query["world_size"] = str(world_size)
    return _handlers[parsed.scheme](urlunparse(parsed._replace(query=urlencode(query))), **options)


def _wrong(kind: str, text: str) -> ValueError:
    return ValueError(f"Error initializing torch.distributed using {kind} rendezvous: {text}")


def _number(kind: str, query: dict[str, str], name: str) -> int:
    text = query.get(name)
    if text is None and kind == "env://":
        text = os.environ.get(name.upper())
        if text is None:
            raise _wrong(
                kind,
                f"environment variable {name.upper()} expected, but not set; "
                "python -m minitensor.distributed.run sets it for the processes that it starts"
                + ('; under mpiexec the backend is "mpi"' if "PMI_RANK" in os.environ else ""),
            )
    if text is None:
        raise _wrong(kind, f"{name.replace('_', ' ')} parameter missing")
    try:
        return int(text)
    except ValueError:
        raise _wrong(kind, f"{name} is no number: {text!r}") from None


def _placed(kind: str, url: str) -> tuple[int, int]:
    query = dict(parse_qsl(urlparse(url).query))
    rank, size = _number(kind, query, "rank"), _number(kind, query, "world_size")
    if size < 1:
        raise _wrong(kind, f"world_size is {size}; expected at least 1")
    if not 0 <= rank < size:
        raise _wrong(kind, f"rank {rank} is not in 0..{size - 1}, with world_size {size}")
    return rank, size


def _tcp(url: str, timeout: timedelta = DEFAULT_TIMEOUT, **_: Any) -> Found:
    parsed = urlparse(url)
    if parsed.port is None or not parsed.hostname:
        raise _wrong("tcp://", "port number missing" if parsed.hostname else "host missing")
    rank, size = _placed("tcp://", url)
    yield TCPStore(parsed.hostname, parsed.port, size, rank == 0, timeout, multi_tenant=True), rank, size
    raise RuntimeError("Unable to perform re-rendezvous using tcp:// method")


def _env(url: str, timeout: timedelta = DEFAULT_TIMEOUT, **_: Any) -> Found:
    rank, size = _placed("env://", url)
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        if name not in os.environ:
            raise _wrong("env://", f"environment variable {name} expected, but not set")
    try:
        port = int(os.environ["MASTER_PORT"])
    except ValueError:
        raise _wrong("env://", f"MASTER_PORT is no number: {os.environ['MASTER_PORT']!r}") from None
    # The launcher serves the store, and has a part of it for each start of the processes.
    served = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store: Store = TCPStore(
        os.environ["MASTER_ADDR"], port, size, rank == 0 and not served, timeout, not served, multi_tenant=True
    )
    if served:
        store = PrefixStore(f"/worker/attempt_{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    yield store, rank, size
    raise RuntimeError("Unable to perform re-rendezvous using env:// method")


def _file(url: str, **_: Any) -> Found:
    path = urlparse(url).path
    if not path:
        raise _wrong("file://", "path missing")
    rank, size = _placed("file://", url)
    yield FileStore(path, size), rank, size
    raise RuntimeError("Unable to perform rerendezvous using file:// method")


_handlers.update({"tcp": _tcp, "env": _env, "file": _file})
