"""Event files for TensorBoard, by PyTorch's names. Needs the package `tensorboard`."""

from typing import Any

from minitensor.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]


def __getattr__(name: str) -> Any:
    if name != "RecordWriter":
        raise AttributeError(f"module 'minitensor.utils.tensorboard' has no attribute '{name}'")
    # TensorBoard's own, which takes a while to import.
    try:
        from tensorboard.summary.writer.record_writer import RecordWriter
    except ImportError as error:
        raise AttributeError(f"RecordWriter is the package tensorboard's, which can't be imported: {error}") from error

    return RecordWriter
