"""Training steps as people write them, with modules and an optimizer, once for minitensor and for torch.

The sizes of the MLP, the CNN and the GPT are those of ``benchmarks/steps.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.steps import BLOCK, CLASSES, DECAY, HEADS, LAYERS, RATE, RATE_SOFTMAX, VOCABULARY, WIDTH, data

STATES, HIDDEN, ACTIONS, PLAYED = 4, 64, 2, 32
CELL, TURNS, SEQUENCES = 64, 32, 16

Step = Callable[[], Any]


def softmax(xp: Any) -> Step:
    """Softmax regression, SGD."""
    return _trained(xp, xp.nn.Linear(784, CLASSES), "softmax", lambda p: xp.optim.SGD(p, lr=RATE_SOFTMAX))


def mlp(xp: Any) -> Step:
    """A perceptron of three layers, Adam."""
    n = xp.nn
    layers = [n.Linear(784, 512), n.ReLU(), n.Linear(512, 512), n.ReLU(), n.Linear(512, CLASSES)]
    return _trained(xp, n.Sequential(*layers), "mlp", lambda p: xp.optim.Adam(p, lr=RATE))


def cnn(xp: Any) -> Step:
    """LeNet, Adam."""
    n = xp.nn
    body = [n.Conv2d(1, 6, 5), n.ReLU(), n.MaxPool2d(2), n.Conv2d(6, 16, 5), n.ReLU(), n.MaxPool2d(2), n.Flatten()]
    head = [n.Linear(256, 120), n.ReLU(), n.Linear(120, 84), n.ReLU(), n.Linear(84, CLASSES)]
    return _trained(xp, n.Sequential(*body, *head), "cnn", lambda p: xp.optim.Adam(p, lr=RATE))


def gpt(xp: Any, wrapped: Callable[[Any], Any] = lambda model: model) -> Step:
    """A small GPT, AdamW; its model as it is, or wrapped, as by DistributedDataParallel."""
    n, f = xp.nn, xp.nn.functional

    class Block(n.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.ln1, self.ln2 = n.LayerNorm(WIDTH), n.LayerNorm(WIDTH)
            self.qkv, self.proj = n.Linear(WIDTH, 3 * WIDTH), n.Linear(WIDTH, WIDTH)
            self.up, self.down = n.Linear(WIDTH, 4 * WIDTH), n.Linear(4 * WIDTH, WIDTH)

        def forward(self, h: Any) -> Any:
            batch, length, _ = h.shape
            parts = self.qkv(self.ln1(h)).split(WIDTH, 2)
            q, k, v = (p.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2) for p in parts)
            a = f.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + self.proj(a.transpose(1, 2).reshape(batch, length, WIDTH))
            return h + self.down(f.gelu(self.up(self.ln2(h)), approximate="tanh"))

    class Model(n.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.wte, self.wpe = n.Embedding(VOCABULARY, WIDTH), n.Parameter(0.02 * xp.randn(BLOCK, WIDTH))
            self.blocks = n.ModuleList([Block() for _ in range(LAYERS)])
            self.ln, self.head = n.LayerNorm(WIDTH), n.Linear(WIDTH, VOCABULARY, bias=False)

        def forward(self, x: Any) -> Any:
            h = self.wte(x) + self.wpe
            for block in self.blocks:
                h = block(h)
            return self.head(self.ln(h)).view(-1, VOCABULARY)

    return _trained(xp, wrapped(Model()), "gpt", lambda p: xp.optim.AdamW(p, lr=RATE, weight_decay=DECAY))


def _trained(xp: Any, model: Any, name: str, optimizer_of: Callable[[Any], Any]) -> Step:
    optimizer = optimizer_of(model.parameters())
    x, y = map(xp.from_numpy, data(name))
    y = y.view(-1)

    def step() -> Any:
        optimizer.zero_grad()
        loss = xp.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def policy(xp: Any) -> Step:
    """A policy of two hidden layers, REINFORCE, Adam."""
    import numpy as np

    rng = np.random.default_rng(0)
    states = xp.from_numpy(rng.random((PLAYED, STATES), np.float32))
    actions = xp.from_numpy(rng.integers(0, ACTIONS, PLAYED))
    returns = xp.from_numpy(rng.random(PLAYED, np.float32))
    layers = [xp.nn.Linear(STATES, HIDDEN), xp.nn.Tanh(), xp.nn.Linear(HIDDEN, HIDDEN), xp.nn.Tanh()]
    model = xp.nn.Sequential(*layers, xp.nn.Linear(HIDDEN, ACTIONS))
    optimizer = xp.optim.Adam(model.parameters(), lr=RATE)

    def step() -> Any:
        optimizer.zero_grad()
        chosen = xp.nn.functional.log_softmax(model(states), -1).gather(1, actions[:, None])[:, 0]
        loss = -(chosen * returns).mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def lstm(xp: Any) -> Step:
    """An LSTM cell written by hand: forward and backward through its turns."""
    import numpy as np

    rng = np.random.default_rng(0)
    x = xp.from_numpy(rng.standard_normal((TURNS, SEQUENCES, CELL), np.float32))
    shapes = ((CELL, 4 * CELL), (CELL, 4 * CELL), (4 * CELL,))
    w, u, b = (xp.from_numpy((0.1 * rng.standard_normal(s)).astype(np.float32)).requires_grad_() for s in shapes)

    def step() -> Any:
        w.grad = u.grad = b.grad = None
        h = c = xp.zeros(SEQUENCES, CELL)
        for turn in range(TURNS):
            i, f, g, o = (x[turn] @ w + h @ u + b).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        loss = h.pow(2).mean()
        loss.backward()
        return loss

    return step
