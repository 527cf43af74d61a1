"""A small convolutional network on handwritten digits, written on tensors and autograd alone.

Two convolutions with pooling and two dense layers, trained with momentum on the 8 x 8 digits in ``examples/data``, each
of them shifted by up to a pixel at random. It prints how many of the images that it has not seen it reads right.
"""

import argparse
import math
import sys
from pathlib import Path

import numpy as np
from tqdm import tqdm

import minitensor as mt
from minitensor.nn import functional as F

DIGITS = Path(__file__).parent / "data" / "digits.csv.gz"
HELD_BACK = 297
SHAPES = {"first": (16, 1, 3, 3), "second": (32, 16, 3, 3), "hidden": (64, 32 * 2 * 2), "out": (10, 64)}


def load_digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the training images and labels, then the held-back ones."""
    table = np.loadtxt(DIGITS, delimiter=",", dtype=np.uint8)
    images = table[:, :-1].reshape(-1, 1, 8, 8).astype(np.float32) / 16
    labels, split = table[:, -1].astype(np.int64), len(table) - HELD_BACK
    return images[:split], labels[:split], images[split:], labels[split:]


def initial_weights(seed: int) -> dict[str, np.ndarray]:
    """Return weights by He et al. (2015), and biases of zero."""
    generator = np.random.default_rng(seed)
    made = {}
    for name, shape in SHAPES.items():
        deviation = math.sqrt(2 / math.prod(shape[1:]))
        made[name] = (generator.standard_normal(shape) * deviation).astype(np.float32)
        made[f"{name}_bias"] = np.zeros(shape[0], np.float32)
    return made


def scores(w: dict[str, mt.Tensor], images: mt.Tensor) -> mt.Tensor:
    """The network: a number for each image and digit."""
    x = F.conv2d(images, w["first"], w["first_bias"], padding=1).relu()
    x = F.max_pool2d(x, 2)
    x = F.conv2d(x, w["second"], w["second_bias"], padding=1).relu()
    x = F.max_pool2d(x, 2)
    x = F.linear(x.flatten(1), w["hidden"], w["hidden_bias"]).relu()
    return F.linear(x, w["out"], w["out_bias"])


def shifted(images: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Each image moved by at most a pixel in each direction."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moves = generator.integers(0, 3, (len(images), 2))
    return np.stack([p[:, r : r + 8, c : c + 8] for p, (r, c) in zip(padded, moves, strict=True)])


def train(args: argparse.Namespace, images: np.ndarray, labels: np.ndarray) -> tuple[dict[str, mt.Tensor], list[float]]:
    """Train by stochastic gradient descent with momentum; return the weights and the loss of every step."""
    w = {name: mt.from_numpy(a).requires_grad_() for name, a in initial_weights(args.seed).items()}
    velocity = {name: mt.zeros(tuple(t.shape)) for name, t in w.items()}
    generator = np.random.default_rng(args.seed + 1)
    losses = []
    progress = tqdm(range(args.steps), unit="step", disable=None)
    for number in progress:
        chosen = generator.integers(0, len(images), args.batch_size)
        x, y = mt.from_numpy(shifted(images[chosen], generator)), mt.from_numpy(labels[chosen])
        loss = F.cross_entropy(scores(w, x), y)
        gradients = mt.autograd.grad(loss, list(w.values()))
        rate = args.learning_rate * (1 - number / args.steps)
        with mt.no_grad():
            for name, g in zip(w, gradients, strict=True):
                velocity[name].mul_(0.9).add_(g)
                w[name].sub_(rate * velocity[name])
        losses.append(loss.item())
        progress.set_postfix(loss=f"{losses[-1]:.3f}", refresh=False)
    return w, losses


def main(argv: list[str] | None = None) -> int:
    """Run the example; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=400, metavar="N", help="training steps (%(default)s)")
    parser.add_argument("--batch_size", type=int, default=64, metavar="N", help="images a step (%(default)s)")
    parser.add_argument("--learning_rate", type=float, default=0.05, metavar="RATE", help="at the start (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and the images (%(default)s)")
    parser.add_argument("--print_losses", action="store_true", help="print the loss of every step, in hexadecimal")
    args = parser.parse_args(argv)
    if min(args.steps, args.batch_size) < 1:
        parser.error("--steps and --batch_size must be at least 1")
    images, labels, test_images, test_labels = load_digits()
    w, losses = train(args, images, labels)
    if args.print_losses:
        for loss in losses:
            print(loss.hex())
    with mt.no_grad():
        right = (scores(w, mt.from_numpy(test_images)).argmax(dim=1) == mt.from_numpy(test_labels)).sum().item()
    print(f"loss after {len(losses)} steps: {losses[-1]!r}")
    print(f"accuracy on {len(test_labels)} held-back images: {right / len(test_labels):.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
