"""A convolutional network that reads handwritten digits: modules, data loader, optimizer, schedule and checkpoints.

It trains on the 8 x 8 digits in ``examples/data``, each of them shifted by up to a pixel at random, and prints how many
of the images that it has not seen it reads right. With ``--checkpoint FILE`` it writes where it is after every epoch;
``--resume FILE`` goes on from there, to the same bits as if it had never stopped.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from tqdm import tqdm

import minitensor as mt
from minitensor import nn
from minitensor.nn import functional as F
from minitensor.optim import SGD
from minitensor.optim.lr_scheduler import ExponentialLR
from minitensor.utils.data import DataLoader, Dataset, Subset

DIGITS = Path(__file__).parent / "data" / "digits.csv.gz"
HELD_BACK = 297


class Digits(Dataset):
    """The images, (1, 8, 8) from 0 to 1, with the digits that they show."""

    def __init__(self, path: Path) -> None:
        """Read the file: a line an image, its 64 pixels from 0 to 16 and the digit."""
        table = mt.from_numpy(np.loadtxt(path, delimiter=",", dtype=np.int64))
        self.images = table[:, :-1].reshape(-1, 1, 8, 8).float() / 16
        self.labels = table[:, -1]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[mt.Tensor, mt.Tensor]:
        """An image and its digit."""
        return self.images[index], self.labels[index]


class Network(nn.Module):
    """Three convolutions with normalized batches, two pools and two dense layers: a number for each digit."""

    def __init__(self, dropout: float) -> None:
        """Make the layers, with PyTorch's initial weights."""
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Linear(64 * 2 * 2, 64), nn.ReLU(), nn.Dropout(dropout), nn.Linear(64, 10)
        )

    def forward(self, images: mt.Tensor) -> mt.Tensor:
        """Take images (N, 1, 8, 8) to scores (N, 10)."""
        return self.classifier(self.features(images))


def shifted(images: mt.Tensor) -> mt.Tensor:
    """Each image moved by at most a pixel in each direction."""
    count, _, height, width = images.shape
    rows = mt.randint(0, 3, (count, 1, 1)) + mt.arange(height).unsqueeze(1)
    columns = mt.randint(0, 3, (count, 1, 1)) + mt.arange(width)
    which = mt.arange(count).view(-1, 1, 1)
    return F.pad(images, (1, 1, 1, 1)).squeeze(1)[which, rows, columns].unsqueeze(1)


def train_epoch(model: nn.Module, loader: DataLoader, optimizer: SGD, title: str) -> list[float]:
    """Show the model every batch once; return the loss of each."""
    model.train()
    losses = []
    progress = tqdm(loader, desc=title, unit="step", leave=False, disable=None)
    for images, labels in progress:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(shifted(images)), labels, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        progress.set_postfix(loss=f"{losses[-1]:.3f}", refresh=False)
    return losses


@mt.no_grad()
def accuracy(model: nn.Module, loader: DataLoader) -> float:
    """Return the part of the images that the model reads right."""
    model.eval()
    right = sum((model(images).argmax(dim=1) == labels).sum().item() for images, labels in loader)
    return right / len(loader.dataset)


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=20, metavar="N", help="passes over the images (%(default)s)")
    parser.add_argument("--images", type=int, default=1500, metavar="N", help="how many to train on (%(default)s)")
    parser.add_argument("--batch_size", type=int, default=50, metavar="N", help="images a step (%(default)s)")
    parser.add_argument("--learning_rate", type=float, default=0.05, metavar="RATE", help="at the start (%(default)s)")
    parser.add_argument("--dropout", type=float, default=0.3, metavar="P", help="of the dense layer (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of weights, order, shifts and dropout (%(default)s)")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="write the state after every epoch")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="go on from a checkpoint")
    parser.add_argument("--print_losses", action="store_true", help="print the loss of every step, in hexadecimal")
    args = parser.parse_args(argv)
    if min(args.epochs, args.batch_size) < 1 or not 1 <= args.images <= 1500:
        parser.error("--epochs and --batch_size must be at least 1, --images from 1 to 1500")
    return args


def main(argv: list[str] | None = None) -> int:
    """Run the example; return the exit status."""
    args = parse_args(argv)
    mt.manual_seed(args.seed)
    digits = Digits(DIGITS)
    split = len(digits) - HELD_BACK
    training = DataLoader(Subset(digits, range(min(args.images, split))), args.batch_size, shuffle=True)
    held_back = DataLoader(Subset(digits, range(split, len(digits))), batch_size=HELD_BACK)

    model = Network(args.dropout)
    optimizer = SGD(model.parameters(), lr=args.learning_rate, momentum=0.9, nesterov=True, weight_decay=1e-4)
    schedule = ExponentialLR(optimizer, gamma=0.87)
    first = 0
    if args.resume:
        state = mt.load(args.resume)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        mt.set_rng_state(state["random"])
        first = state["epochs"]

    losses = []
    for epoch in range(first, args.epochs):
        losses += train_epoch(model, training, optimizer, f"epoch {epoch + 1}")
        schedule.step()
        if args.checkpoint:
            state = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "schedule": schedule.state_dict(),
                "random": mt.get_rng_state(),
                "epochs": epoch + 1,
            }
            mt.save(state, args.checkpoint)

    if args.print_losses:
        for loss in losses:
            print(loss.hex())
    if losses:
        print(f"loss after {args.epochs} epochs: {losses[-1]!r}")
    print(f"accuracy on {HELD_BACK} held-back images: {accuracy(model, held_back):.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
