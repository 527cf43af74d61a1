"""Batches of handwritten digits, as scripts of TensorFlow's first style read them: `read_data_sets(data_dir)`."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from mnist_softmax import CLASSES, DIGITS, load_digits, load_mnist


class DataSet:
    """Images ``[n, pixels]``, float32 from 0 to 1, and their labels, which are given out in batches."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, seed: int | None = None) -> None:
        self.images = images
        self.labels = labels
        self.num_examples = len(images)
        self.epochs_completed = 0
        self._generator = np.random.default_rng(seed)
        self._order = self._generator.permutation(self.num_examples)
        self._next = 0

    def next_batch(self, batch_size: int, shuffle: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Return the next images and labels; an epoch's last batch is filled up from the next epoch."""
        if not 0 < batch_size <= self.num_examples:
            raise ValueError(f"batch_size must be from 1 to {self.num_examples}, not {batch_size}")
        if not shuffle and self._next == 0:
            self._order = np.arange(self.num_examples)
        chosen = self._order[self._next : self._next + batch_size]
        self._next += batch_size
        if self._next >= self.num_examples:
            self.epochs_completed += 1
            self._next -= self.num_examples
            order = np.arange(self.num_examples)
            self._order = self._generator.permutation(order) if shuffle else order
            chosen = np.concatenate([chosen, self._order[: self._next]])
        return self.images[chosen], self.labels[chosen]


class DataSets(NamedTuple):
    """What there is to train on, to choose by, and to test on."""

    train: DataSet
    validation: DataSet
    test: DataSet


def read_data_sets(
    train_dir: str | Path, one_hot: bool = False, validation_size: int | None = None, seed: int | None = None
) -> DataSets:
    """Read the four MNIST files in a folder or, in ``examples/data``, the 8 x 8 digits.

    ``validation_size`` of the training images, a twelfth if not given, are held back. Labels are int64, or rows with a
    one at the label with ``one_hot``.
    """
    folder = Path(train_dir)
    here = folder.resolve() == DIGITS.parent.resolve()
    images, labels, test_images, test_labels = load_digits() if here else load_mnist(folder)
    held_back = len(images) // 12 if validation_size is None else validation_size
    if not 0 <= held_back < len(images):
        raise ValueError(f"validation_size must be from 0 to {len(images) - 1}, not {held_back}")
    if one_hot:
        labels, test_labels = (np.eye(CLASSES, dtype=np.float32)[each] for each in (labels, test_labels))
    return DataSets(
        DataSet(images[held_back:], labels[held_back:], seed),
        DataSet(images[:held_back], labels[:held_back], seed),
        DataSet(test_images, test_labels, seed),
    )
