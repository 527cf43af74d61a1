"""Event files for TensorBoard, by PyTorch's names. Needs the package `tensorboard`."""

from minitensor.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
