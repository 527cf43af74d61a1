"""Softmax regression on handwritten digits, trained with stochastic gradient descent.

Without ``--data_dir`` it trains on the 8 x 8 digits in ``examples/data``; with it, on the four MNIST files. It prints
the same losses and the same accuracy however it is run: eagerly, clustered by ``MT_JIT_FLAGS``, or with ``--jit``.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from idx import IdxError, read_mnist
from tqdm import tqdm

import minitensor as mt
from minitensor import nn, timeline
from minitensor.nn import functional as F

DIGITS = Path(__file__).parent / "data" / "digits.csv.gz"
DIGITS_HELD_BACK = 297
CLASSES = 10


def load_digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the training images and labels, then the held-back ones, of the 8 x 8 digits."""
    table = np.loadtxt(DIGITS, delimiter=",", dtype=np.uint8)
    images, labels = table[:, :-1].astype(np.float32) / 16, table[:, -1].astype(np.int64)
    split = len(table) - DIGITS_HELD_BACK
    return images[:split], labels[:split], images[split:], labels[split:]


def load_mnist(data_dir: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the training images and labels, then the test images and labels, of the MNIST files in ``data_dir``."""
    parts = [read_mnist(data_dir, part, CLASSES) for part in ("train", "t10k")]
    sizes = [images.shape[1:] for images, _ in parts]
    if sizes[0] != sizes[1]:
        raise IdxError(data_dir, f"test images of {sizes[0]} pixels, like the training images", f"{sizes[1]}")
    (train_x, train_y), (test_x, test_y) = (
        (images.reshape(len(images), -1).astype(np.float32) / 255, labels.astype(np.int64)) for images, labels in parts
    )
    return train_x, train_y, test_x, test_y


def batches(images: np.ndarray, labels: np.ndarray, size: int, seed: int) -> Iterator[tuple[mt.Tensor, mt.Tensor]]:
    """Yield batches for ever: in every epoch each image once, in a new order; an incomplete last batch is left out."""
    generator = np.random.default_rng(seed)
    while True:
        order = generator.permutation(len(images))
        for start in range(0, len(images) - size + 1, size):
            chosen = order[start : start + size]
            yield mt.from_numpy(images[chosen]), mt.from_numpy(labels[chosen])


def accuracy(model: nn.Module, images: np.ndarray, labels: np.ndarray) -> float:
    """Return the part of the images that the model classifies as labelled."""
    with mt.no_grad():
        predicted = model(mt.from_numpy(images)).argmax(dim=1)
        return (predicted == mt.from_numpy(labels)).sum().item() / len(labels)


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""

    def positive(text: str) -> int:
        if (value := int(text)) < 1:
            raise ValueError
        return value

    positive.__name__ = "positive integer"  # argparse shows it in its messages
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data_dir", type=Path, metavar="DIR", help="the four MNIST files, plain or .gz")
    parser.add_argument("--steps", type=positive, default=1000, metavar="N", help="training steps (%(default)s)")
    parser.add_argument("--batch_size", type=positive, default=100, metavar="N", help="images a step (%(default)s)")
    parser.add_argument("--learning_rate", type=float, default=0.5, metavar="RATE", help="of SGD (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and of the images' order (%(default)s)")
    parser.add_argument("--jit", action="store_true", help="compile, by the session's config")
    parser.add_argument("--timeline", type=Path, metavar="FILE", help="write a Chrome trace of the last step")
    parser.add_argument("--print_losses", action="store_true", help="print the loss of every step, in hexadecimal")
    return parser.parse_args(argv)


def train(args: argparse.Namespace, images: np.ndarray, labels: np.ndarray) -> tuple[nn.Module, list[float]]:
    """Train a model; return it and the loss of every step."""
    mt.manual_seed(args.seed)
    model = nn.Linear(images.shape[1], CLASSES)
    optimizer = mt.optim.SGD(model.parameters(), lr=args.learning_rate)

    def step(x: mt.Tensor, y: mt.Tensor) -> mt.Tensor:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    config = mt.ConfigProto()
    if args.jit:
        config.graph_options.optimizer_options.global_jit_level = mt.OptimizerOptions.ON_1
        config.graph_options.optimizer_options.cpu_global_jit = True

    data = batches(images, labels, args.batch_size, args.seed)
    losses = []
    with mt.Session(config=config) as session:
        progress = tqdm(range(args.steps), unit="step", disable=None)
        for number in progress:
            options = metadata = None
            if args.timeline and number == args.steps - 1:
                options = mt.RunOptions(trace_level=mt.RunOptions.FULL_TRACE)
                metadata = mt.RunMetadata()
            loss = session.run(step, *next(data), options=options, run_metadata=metadata).item()
            losses.append(loss)
            progress.set_postfix(loss=f"{loss:.4f}", refresh=False)
    if args.timeline:
        args.timeline.write_text(timeline.Timeline(metadata.step_stats).generate_chrome_trace_format())
    return model, losses


def fail(message: str) -> int:
    """Say what is wrong with the input; return the exit status for it."""
    print(f"mnist_softmax.py: {message}", file=sys.stderr)
    return 2


def main(argv: list[str] | None = None) -> int:
    """Run the example; return the exit status."""
    args = parse_args(argv)
    try:
        data = load_mnist(args.data_dir) if args.data_dir else load_digits()
        images, labels, test_images, test_labels = data
        if args.batch_size > len(images):
            return fail(f"--batch_size {args.batch_size} is more than the {len(images)} training images")
        model, losses = train(args, images, labels)
    except (OSError, IdxError) as error:
        return fail(str(error))
    if args.print_losses:
        for loss in losses:
            print(loss.hex())
    print(f"loss after {len(losses)} steps: {losses[-1]!r}")
    print(f"accuracy on {len(test_labels)} held-back images: {accuracy(model, test_images, test_labels)!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
