"""A language model of characters: a small Transformer that learns a book, and then writes on.

It trains on Lewis Carroll's "Alice's Adventures in Wonderland", then continues a prompt, and prints how many bits a
character it needs on a part of the book that it has not seen, beside what counting pairs of characters needs. With
``--checkpoint FILE`` it writes where it is after every epoch; ``--resume FILE`` goes on from there, to the same bits as
if it had never stopped.
"""

import argparse
import gzip
import math
import sys
from pathlib import Path

from tqdm import tqdm

import minitensor as mt
from minitensor import nn
from minitensor.nn import functional as F
from minitensor.optim import AdamW
from minitensor.optim.lr_scheduler import LambdaLR
from minitensor.utils.data import DataLoader, Dataset, RandomSampler

BOOK = Path(__file__).parent / "data" / "alice.txt.gz"
HELD_BACK = 0.1
WARMUP = 50


class Windows(Dataset):
    """The stretches of a text, each with the characters that follow each of its characters."""

    def __init__(self, numbers: mt.Tensor, context: int, stride: int = 1) -> None:
        """Take the text as numbers, how long a stretch is, and from one to the next."""
        self.numbers, self.context, self.stride = numbers, context, stride

    def __len__(self) -> int:
        """How many there are."""
        return (len(self.numbers) - self.context - 1) // self.stride + 1

    def __getitem__(self, index: int) -> tuple[mt.Tensor, mt.Tensor]:
        """A stretch, and the same one character on."""
        start = index * self.stride
        end = start + self.context
        return self.numbers[start:end], self.numbers[start + 1 : end + 1]


class Block(nn.Module):
    """Causal self-attention and two dense layers, each added to what came in (Vaswani et al., 2017)."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        """Make the layers; heads must divide width."""
        super().__init__()
        self.heads = heads
        self.attention_norm, self.dense_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: mt.Tensor) -> mt.Tensor:
        """Take (batch, time, width) to the same shape."""
        qkv = self.query_key_value(self.attention_norm(x))
        query, key, value = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in qkv.chunk(3, dim=2))
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.dropout(self.mix(seen.transpose(1, 2).flatten(2)))
        return x + self.dropout(self.dense(self.dense_norm(x)))


class Transformer(nn.Module):
    """Scores of the next character at every place of a text."""

    def __init__(self, characters: int, args: argparse.Namespace) -> None:
        """Make as many blocks as `args.layers` says."""
        super().__init__()
        self.context = args.context
        self.character = nn.Embedding(characters, args.width)
        self.place = nn.Embedding(args.context, args.width)
        self.blocks = nn.Sequential(*(Block(args.width, args.heads, args.dropout) for _ in range(args.layers)))
        self.norm = nn.LayerNorm(args.width)
        self.out = nn.Linear(args.width, characters)

    def forward(self, x: mt.Tensor) -> mt.Tensor:
        """Take characters (batch, time), at most `context` of them, to scores (batch, time, characters)."""
        h = self.character(x) + self.place(mt.arange(x.shape[1]))
        return self.out(self.norm(self.blocks(h)))

    @mt.no_grad()
    def generate(self, prompt: mt.Tensor, length: int, temperature: float) -> mt.Tensor:
        """Draw `length` characters that follow those of a prompt (time,), which must not be empty."""
        self.eval()
        text = prompt
        for _ in range(length):
            scores = self(text[-self.context :].unsqueeze(0))[0, -1]
            text = mt.cat([text, mt.multinomial((scores / temperature).softmax(dim=0), 1)])
        return text


def loss_of(model: nn.Module, x: mt.Tensor, y: mt.Tensor) -> mt.Tensor:
    """The mean of -log p over all characters of y."""
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def train_epoch(model: nn.Module, loader: DataLoader, optimizer: AdamW, schedule: LambdaLR, title: str) -> list[float]:
    """Show the model the loader's batches; return the loss of each."""
    model.train()
    losses = []
    progress = tqdm(loader, desc=title, unit="step", leave=False, disable=None)
    for x, y in progress:
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        progress.set_postfix(loss=f"{losses[-1]:.3f}", refresh=False)
    return losses


@mt.no_grad()
def bits_per_character(model: nn.Module, loader: DataLoader) -> float:
    """What the model needs for a text that is cut into windows."""
    model.eval()
    total = sum(loss_of(model, x, y).item() * len(x) for x, y in loader)
    return total / len(loader.dataset) / math.log(2)


def bits_by_pairs(training: mt.Tensor, held_back: mt.Tensor, characters: int) -> float:
    """What the frequencies of pairs of characters in the training part need for the held-back one."""
    pairs = training[:-1] * characters + training[1:]
    counts = mt.bincount(pairs, minlength=characters**2).view(characters, characters) + 1
    p = counts / counts.sum(dim=1, keepdim=True, dtype=mt.float64)
    return -p.log2()[held_back[:-1], held_back[1:]].mean().item()


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=6, metavar="N", help="how long to train (%(default)s)")
    parser.add_argument("--steps", type=int, default=100, metavar="N", help="steps an epoch (%(default)s)")
    parser.add_argument("--batch_size", type=int, default=32, metavar="N", help="windows a step (%(default)s)")
    parser.add_argument("--context", type=int, default=64, metavar="N", help="characters it looks back (%(default)s)")
    parser.add_argument("--width", type=int, default=64, metavar="N", help="numbers for each character (%(default)s)")
    parser.add_argument("--heads", type=int, default=4, metavar="N", help="of the attention (%(default)s)")
    parser.add_argument("--layers", type=int, default=2, metavar="N", help="blocks (%(default)s)")
    parser.add_argument("--dropout", type=float, default=0.0, metavar="P", help="of every block (%(default)s)")
    parser.add_argument("--learning_rate", type=float, default=3e-3, metavar="RATE", help="at most (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of weights, windows, dropout and sample (%(default)s)")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="write the state after every epoch")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="go on from a checkpoint")
    parser.add_argument("--prompt", default="Alice ", help="what to continue (%(default)r)")
    parser.add_argument("--sample", type=int, default=200, metavar="N", help="characters to write (%(default)s)")
    parser.add_argument("--temperature", type=float, default=0.8, metavar="T", help="of the sample (%(default)s)")
    parser.add_argument("--print_losses", action="store_true", help="print the loss of every step, in hexadecimal")
    args = parser.parse_args(argv)
    if min(args.epochs, args.steps, args.batch_size, args.heads, args.layers) < 1 or args.width % args.heads:
        parser.error("sizes must be at least 1, and --width a multiple of --heads")
    return args


def main(argv: list[str] | None = None) -> int:
    """Run the example; return the exit status."""
    args = parse_args(argv)
    mt.manual_seed(args.seed)
    text = gzip.decompress(BOOK.read_bytes()).decode("ascii")
    characters = sorted(set(text))
    places = {character: place for place, character in enumerate(characters)}
    unknown = sorted(set(args.prompt) - set(characters))
    if unknown or not args.prompt:
        print(f"char_lm.py: --prompt must be of the book's characters, not {unknown}", file=sys.stderr)
        return 2
    numbers = mt.tensor([places[character] for character in text])
    split = int(len(numbers) * (1 - HELD_BACK))
    training, held_back = numbers[:split], numbers[split:]
    if not 1 <= args.context < len(held_back):
        print(f"char_lm.py: --context must be from 1 to {len(held_back) - 1}", file=sys.stderr)
        return 2
    windows = Windows(training, args.context)
    drawn = RandomSampler(windows, replacement=True, num_samples=args.steps * args.batch_size)
    loader = DataLoader(windows, args.batch_size, sampler=drawn)
    test_loader = DataLoader(Windows(held_back, args.context, stride=args.context), batch_size=64)

    model = Transformer(len(characters), args)
    optimizer = AdamW(model.parameters(), lr=args.learning_rate)
    schedule = LambdaLR(optimizer, lambda step: min((step + 1) / WARMUP, math.sqrt(WARMUP / (step + 1))))
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
        losses += train_epoch(model, loader, optimizer, schedule, f"epoch {epoch + 1}")
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
    if args.sample:
        prompt = mt.tensor([places[character] for character in args.prompt])
        written = model.generate(prompt, args.sample, args.temperature)
        print("".join(characters[number] for number in written.tolist()))
        print()
    if losses:
        print(f"loss after {args.epochs} epochs: {losses[-1]!r}")
    print(f"bits per held-back character: {bits_per_character(model, test_loader):.3f}")
    print(f"by the frequencies of pairs:  {bits_by_pairs(training, held_back, len(characters)):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
