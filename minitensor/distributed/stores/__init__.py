"""Stores: keys and values that all processes of a job see."""

from minitensor.distributed.stores.file_store import FileStore
from minitensor.distributed.stores.store import HashStore, PrefixStore, Store
from minitensor.distributed.stores.tcp_store import TCPStore

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]
