"""A character-level language model, written on tensors and autograd alone: one block of causal self-attention.

It trains on Lewis Carroll's "Alice's Adventures in Wonderland", then prints a sample of its own, and how many bits a
character it needs on a part of the book that it has not seen, beside what counting pairs of characters needs.
"""

import argparse
import gzip
import math
import sys
from pathlib import Path

import numpy as np
from tqdm import tqdm

import minitensor as mt

BOOK = Path(__file__).parent / "data" / "alice.txt.gz"
HELD_BACK = 0.1


class Text:
    """A text as numbers."""

    def __init__(self, text: str) -> None:
        """Number the characters that occur."""
        self.characters = sorted(set(text))
        places = {c: i for i, c in enumerate(self.characters)}
        numbers = np.array([places[c] for c in text], dtype=np.int64)
        split = int(len(numbers) * (1 - HELD_BACK))
        self.training, self.held_back = numbers[:split], numbers[split:]

    def decode(self, numbers: list[int]) -> str:
        """The text of numbers."""
        return "".join(self.characters[n] for n in numbers)


def windows(numbers: np.ndarray, starts: np.ndarray, context: int) -> tuple[mt.Tensor, mt.Tensor]:
    """Return stretches of `context` characters that begin at the starts, and the characters that follow each."""
    places = starts[:, None] + np.arange(context)
    return mt.from_numpy(numbers[places]), mt.from_numpy(numbers[places + 1])


def initial_weights(characters: int, width: int, context: int, seed: int) -> dict[str, np.ndarray]:
    """Return normally distributed weights, small enough that all starts near a uniform guess."""
    generator = np.random.default_rng(seed)
    shapes = {
        "embedding": (characters, width), "position": (context, width), "query": (width, width),
        "key": (width, width), "value": (width, width), "mix": (width, width), "up": (width, 4 * width),
        "down": (4 * width, width), "out": (width, characters),
    }  # fmt: skip
    scale = {"embedding": 0.5, "position": 0.5}
    return {
        name: (generator.standard_normal(shape) * scale.get(name, 1 / math.sqrt(shape[0]))).astype(np.float32)
        for name, shape in shapes.items()
    }


def normalized(x: mt.Tensor) -> mt.Tensor:
    """Each row with mean zero and variance one."""
    x = x - x.mean(dim=-1, keepdim=True)
    return x / (x.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()


def log_probabilities(w: dict[str, mt.Tensor], x: mt.Tensor) -> mt.Tensor:
    """Log-probabilities of the next character at every place of x, a (batch, time) tensor of characters."""
    time = x.shape[1]
    h = w["embedding"][x] + w["position"][:time]
    n = normalized(h)
    scores = (n @ w["query"]) @ (n @ w["key"]).transpose(1, 2) / math.sqrt(h.shape[2])
    future = mt.ones(time, time).triu(1) * -1e9
    h = h + (scores + future).softmax(dim=-1) @ (n @ w["value"]) @ w["mix"]
    h = h + (normalized(h) @ w["up"]).relu() @ w["down"]
    return (normalized(h) @ w["out"]).log_softmax(dim=-1)


def loss_of(w: dict[str, mt.Tensor], x: mt.Tensor, y: mt.Tensor) -> mt.Tensor:
    """The mean of -log p over all characters of y."""
    return -log_probabilities(w, x).gather(2, y.unsqueeze(2)).mean()


def train(text: Text, args: argparse.Namespace) -> tuple[dict[str, mt.Tensor], list[float]]:
    """Train by Adam (Kingma and Ba, 2015); return the weights and the loss of every step."""
    initial = initial_weights(len(text.characters), args.width, args.context, args.seed)
    w = {name: mt.from_numpy(a).requires_grad_() for name, a in initial.items()}
    first = {name: mt.zeros(a.shape) for name, a in initial.items()}
    second = {name: mt.zeros(a.shape) for name, a in initial.items()}
    generator = np.random.default_rng(args.seed + 1)
    losses = []
    progress = tqdm(range(1, args.steps + 1), unit="step", disable=None)
    for number in progress:
        starts = generator.integers(0, len(text.training) - args.context - 1, args.batch_size)
        loss = loss_of(w, *windows(text.training, starts, args.context))
        gradients = mt.autograd.grad(loss, list(w.values()))
        with mt.no_grad():
            rate = args.learning_rate * math.sqrt(1 - 0.99**number) / (1 - 0.9**number)
            for name, g in zip(w, gradients, strict=True):
                first[name] = 0.9 * first[name] + 0.1 * g
                second[name] = 0.99 * second[name] + 0.01 * g * g
                w[name].sub_(rate * first[name] / (second[name].sqrt() + 1e-8))
        losses.append(loss.item())
        progress.set_postfix(loss=f"{losses[-1]:.3f}", refresh=False)
    return w, losses


def bits_per_character(w: dict[str, mt.Tensor], numbers: np.ndarray, context: int) -> float:
    """What the model needs for a text that is cut into windows."""
    starts = np.arange(0, len(numbers) - context - 1, context)
    with mt.no_grad():
        total = sum(loss_of(w, *windows(numbers, part, context)).item() * len(part)
                    for part in np.array_split(starts, max(len(starts) // 64, 1)))  # fmt: skip
    return total / len(starts) / math.log(2)


def bits_by_pairs(text: Text) -> float:
    """What the frequencies of pairs of characters in the training part need for the held-back one."""
    n = len(text.characters)
    counts = np.ones((n, n))
    np.add.at(counts, (text.training[:-1], text.training[1:]), 1)
    p = counts / counts.sum(axis=1, keepdims=True)
    return float(-np.log2(p[text.held_back[:-1], text.held_back[1:]]).mean())


def sample(w: dict[str, mt.Tensor], text: Text, context: int, length: int, seed: int) -> str:
    """A text that the model makes up."""
    generator = np.random.default_rng(seed)
    numbers = list(text.held_back[:context])
    with mt.no_grad():
        for _ in range(length):
            x = mt.from_numpy(np.array([numbers[-context:]]))
            p = log_probabilities(w, x)[0, -1].exp().numpy().astype(np.float64)
            numbers.append(int(generator.choice(len(p), p=p / p.sum())))
    return text.decode(numbers[context:])


def main(argv: list[str] | None = None) -> int:
    """Run the example; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=600, metavar="N", help="training steps (%(default)s)")
    parser.add_argument("--batch_size", type=int, default=32, metavar="N", help="windows a step (%(default)s)")
    parser.add_argument("--context", type=int, default=32, metavar="N", help="characters it looks back (%(default)s)")
    parser.add_argument("--width", type=int, default=64, metavar="N", help="numbers for each character (%(default)s)")
    parser.add_argument("--learning_rate", type=float, default=3e-3, metavar="RATE", help="of Adam (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and the windows (%(default)s)")
    parser.add_argument("--sample", type=int, default=200, metavar="N", help="characters to make up (%(default)s)")
    parser.add_argument("--print_losses", action="store_true", help="print the loss of every step, in hexadecimal")
    args = parser.parse_args(argv)
    text = Text(gzip.decompress(BOOK.read_bytes()).decode("ascii"))
    if min(args.steps, args.batch_size, args.width) < 1 or not 1 <= args.context < len(text.held_back) // 2:
        parser.error(f"sizes must be at least 1, and --context less than {len(text.held_back) // 2}")
    w, losses = train(text, args)
    if args.print_losses:
        for loss in losses:
            print(loss.hex())
    if args.sample:
        print(sample(w, text, args.context, args.sample, args.seed))
        print()
    print(f"loss after {len(losses)} steps: {losses[-1]!r}")
    print(f"bits per held-back character: {bits_per_character(w, text.held_back, args.context):.3f}")
    print(f"by the frequencies of pairs:  {bits_by_pairs(text):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
