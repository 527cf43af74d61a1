"""What goes wrong between processes, by PyTorch's names."""

__all__ = ["DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "QueueEmptyError"]


class DistError(RuntimeError):
    """An error of a group of processes."""


class DistBackendError(DistError):
    """A collective call failed: a process died or stalled, or the calls of two processes don't go together."""


class DistNetworkError(DistError):
    """A process can't be reached, or doesn't know the job's token."""


class DistStoreError(DistError):
    """A key did not come within the time, or the store is gone."""


class QueueEmptyError(DistStoreError):
    """A queue of a store has nothing, and was not to be waited for."""
