"""Handwritten digits read by a small network that several processes train: DistributedDataParallel and its sampler.

``python -m minitensor.distributed.run --nproc-per-node 2 examples/mnist_ddp.py`` starts two processes, and so does
``mpiexec -n 2 python examples/mnist_ddp.py``; by itself it is one. Without ``--data_dir`` it trains on the 8 x 8 digits
in ``examples/data``; with it, on the four MNIST files. However it is started, and eagerly, clustered by
``MT_JIT_FLAGS`` or with ``--compile``, it prints the same losses for the same number of processes.
"""

import argparse
import os
import sys
from pathlib import Path

import numpy as np
from idx import IdxError
from mnist_softmax import CLASSES, load_digits, load_mnist

import minitensor as mt
import minitensor.distributed as dist
from minitensor import nn
from minitensor.nn import functional as F
from minitensor.nn.parallel import DistributedDataParallel
from minitensor.utils.data import DataLoader, DistributedSampler, TensorDataset


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data_dir", type=Path, metavar="DIR", help="the four MNIST files, plain or .gz")
    parser.add_argument("--backend", choices=("gloo", "mpi"), help="what carries messages (by the launcher)")
    parser.add_argument("--epochs", type=int, default=5, metavar="N", help="times through all images (%(default)s)")
    parser.add_argument("--steps", type=int, metavar="N", help="at most so many steps an epoch")
    parser.add_argument("--batch_size", type=int, default=60, metavar="N", help="images a step, of all processes")
    parser.add_argument("--width", type=int, default=64, help="of the hidden layer (%(default)s)")
    parser.add_argument("--learning_rate", type=float, default=0.2, metavar="RATE", help="of SGD (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and of the images' order (%(default)s)")
    parser.add_argument("--compile", action="store_true", help="make one program of each step")
    parser.add_argument("--print_losses", action="store_true", help="print the loss of every step, in hexadecimal")
    return parser.parse_args(argv)


def begin(backend: str | None) -> None:
    """Join the group of the processes that the launcher started; without one, be a group alone."""
    if backend is None and "RANK" not in os.environ and any(name in os.environ for name in ("PMI_RANK", "PMIX_RANK")):
        backend = "mpi"
    if backend != "mpi" and "RANK" not in os.environ:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    else:
        dist.init_process_group(backend or "gloo")


def train(args: argparse.Namespace, data: TensorDataset) -> tuple[nn.Module, list[float]]:
    """Train a model; return it and the loss of every step: its mean over all processes."""
    mt.manual_seed(args.seed)
    pixels = data[0][0].numel()
    model = nn.Sequential(nn.Linear(pixels, args.width), nn.ReLU(), nn.Linear(args.width, CLASSES))
    ddp = DistributedDataParallel(model)
    optimizer = mt.optim.SGD(ddp.parameters(), lr=args.learning_rate, momentum=0.5)

    def step(x: mt.Tensor, y: mt.Tensor) -> mt.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(ddp(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if args.compile:
        step = mt.function(step, jit_compile=True)
    sampler = DistributedSampler(data, seed=args.seed, drop_last=True)
    loader = DataLoader(data, batch_size=args.batch_size // dist.get_world_size(), sampler=sampler, drop_last=True)
    losses = []
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for number, (x, y) in enumerate(loader):
            if number == args.steps:
                break
            loss = step(x, y)
            dist.all_reduce(loss, dist.ReduceOp.AVG)
            losses.append(loss.item())
        if dist.get_rank() == 0:
            print(f"epoch {epoch + 1}: loss {losses[-1]:.4f}", file=sys.stderr)
    return model, losses


def accuracy(model: nn.Module, images: mt.Tensor, labels: mt.Tensor) -> float:
    """Return the part of the images that the model classifies as labelled; each process looks at its part of them."""
    rank, size = dist.get_rank(), dist.get_world_size()
    with mt.no_grad():
        right = (model(images[rank::size]).argmax(dim=1) == labels[rank::size]).sum()
    dist.all_reduce(right)
    return right.item() / len(labels)


def main(argv: list[str] | None = None) -> int:
    """Run the example; return the exit status."""
    args = parse_args(argv)
    begin(args.backend)
    first = dist.get_rank() == 0
    try:
        if args.batch_size % dist.get_world_size():
            print(f"mnist_ddp.py: {dist.get_world_size()} processes can't share {args.batch_size} images evenly",
                  file=sys.stderr)  # fmt: skip
            return 2
        found = load_mnist(args.data_dir) if args.data_dir else load_digits()
        images, labels, test_images, test_labels = (mt.from_numpy(np.ascontiguousarray(part)) for part in found)
        model, losses = train(args, TensorDataset(images, labels))
        share = accuracy(model, test_images, test_labels)
    except (OSError, IdxError) as error:
        print(f"mnist_ddp.py: {error}", file=sys.stderr)
        return 2
    finally:
        dist.destroy_process_group()
    if first:
        if args.print_losses:
            for loss in losses:
                print(loss.hex())
        print(f"loss after {len(losses)} steps: {losses[-1]!r}")
        print(f"accuracy on {len(test_labels)} held-back images: {share!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
