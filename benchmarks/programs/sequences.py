"""Programs over sequences: lengths that vary, tables that are filled in order."""

import minitensor as mt
from benchmarks.programs.case import program


@program(iterations=130)
def rnn_of_varying_length(iterations):
    """Train a recurrent net on sequences of 3 to 12 steps."""
    mt.manual_seed(0)
    w, u, b = mt.randn(8, 16) * 0.3, mt.randn(16, 16) * 0.2, mt.zeros(16)
    parameters = [t.requires_grad_() for t in (w, u, b)]
    for iteration in range(iterations):
        x = mt.randn(3 + iteration * 7 % 10, 4, 8)
        h = mt.zeros(4, 16)
        for step in x:
            h = (step @ w + h @ u + b).tanh()
        loss = (h.mean(dim=1) - x.mean(dim=(0, 2))).square().mean()
        loss.backward()
        with mt.no_grad():
            for p in parameters:
                p -= 0.1 * p.grad
                p.grad = None
    return loss, w.sum(), u.sum()


@program(iterations=45, few=2, pays=True)
def lstm_by_hand(iterations):
    """Train an LSTM cell written out, always over 16 steps."""
    mt.manual_seed(1)
    weights = (mt.randn(48, 128) * 0.1).requires_grad_()
    bias = mt.zeros(128, requires_grad=True)
    x = mt.randn(16, 8, 16)
    for iteration in range(iterations):
        h, c = mt.zeros(8, 32), mt.zeros(8, 32)
        for t in range(16):
            i, f, g, o = (mt.cat([x[t], h], dim=1) @ weights + bias).chunk(4, dim=1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        loss = (h.sum(dim=1) - x[:, :, 0].sum(dim=0)).square().mean()
        weights.grad = bias.grad = None
        loss.backward()
        with mt.no_grad():
            weights -= 0.02 * weights.grad
            bias -= 0.02 * bias.grad
        if iteration % 10 == 0:
            print(iteration, f"{loss.item():.4f}")
    return loss, weights.abs().sum()


@program(iterations=160)
def ragged_batches(iterations):
    """Pad sentences to the longest of their batch, and average their embeddings."""
    mt.manual_seed(2)
    table = mt.randn(100, 32)
    w = mt.randn(32, 5) * 0.2
    totals = mt.zeros(5)
    for iteration in range(iterations):
        lengths = [1 + (iteration * 5 + 3 * i) % 17 for i in range(8)]
        rows = [mt.randint(0, 100, (n,)) for n in lengths]
        longest = max(lengths)
        ids = mt.stack([mt.nn.functional.pad(row, (0, longest - len(row))) for row in rows])
        mask = mt.arange(longest) < mt.tensor(lengths).unsqueeze(1)
        mean = (table[ids] * mask.unsqueeze(2)).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        totals += (mean @ w).softmax(dim=1).sum(dim=0)
    return totals


@program(iterations=1200, pays=True)
def viterbi(iterations):
    """The likeliest states of a hidden Markov model."""
    mt.manual_seed(3)
    transitions = mt.randn(24, 24).log_softmax(dim=1)
    emissions = mt.randn(iterations, 24).log_softmax(dim=1)
    score, back = emissions[0], []
    for t in range(1, iterations):
        score, best = (score.unsqueeze(1) + transitions).max(dim=0)
        score = score + emissions[t]
        back.append(best)
    state = score.argmax().item()
    path = [state]
    for best in reversed([b.tolist() for b in back]):
        state = best[state]
        path.append(state)
    return score.max(), path[::-1]


@program(iterations=1100)
def edit_distance(iterations):
    """Distances of one word to sixty-four others, row by row of the table."""
    mt.manual_seed(4)
    words, length = mt.randint(0, 4, (64, 24)), mt.arange(25)
    word = mt.randint(0, 4, (iterations,))
    row = length.expand(64, 25).clone()
    for i in range(iterations):
        ahead = row[:, :-1] + (words != word[i])
        changed = mt.cat([row[:, :1] + 1, mt.minimum(ahead, row[:, 1:] + 1)], dim=1)
        row = (changed - length).cummin(dim=1)[0] + length
    return row[:, -1]


@program(iterations=900)
def forward_algorithm(iterations):
    """The likelihood of observations that come one at a time, each read."""
    mt.manual_seed(5)
    transitions, emissions = mt.rand(16, 16).softmax(dim=1), mt.rand(16, 6).softmax(dim=1)
    belief, likelihood, seed = mt.ones(16) / 16, 0.0, 1
    for _ in range(iterations):
        seed = seed * 1103515245 + 12345 & 0x7FFFFFFF
        belief = (belief @ transitions) * emissions[:, seed % 6]
        total = belief.sum()
        belief = belief / total
        likelihood += total.log().item()
    return likelihood, belief


@program(iterations=220)
def windows_that_grow(iterations):
    """Statistics of all that was seen so far, as a log would show them."""
    mt.manual_seed(6)
    values = mt.randn(iterations + 2)
    found = []
    for n in range(2, iterations + 2):
        seen = values[:n]
        centred = seen - seen.mean()
        found.append((centred.pow(2).mean().sqrt() + centred.abs().max() + seen.median()).item())
    return sum(found), found[-1]
