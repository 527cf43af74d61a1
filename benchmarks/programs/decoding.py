"""Programs that make their outputs one at a time, with what they made before as input."""

import math

import minitensor as mt
from benchmarks.programs.case import program


@program(iterations=420)
def cache_grown_by_cat(iterations):
    """Attention over keys and values that grow by one row at each token."""
    mt.manual_seed(0)
    wq, wk, wv, out = (mt.randn(64, 64) / 8 for _ in range(4))
    x = mt.randn(4, 1, 64)
    keys, values = mt.zeros(4, 0, 64), mt.zeros(4, 0, 64)
    with mt.no_grad():
        for _ in range(iterations):
            keys = mt.cat([keys, x @ wk], dim=1)
            values = mt.cat([values, x @ wv], dim=1)
            p = ((x @ wq) @ keys.transpose(1, 2) / 8).softmax(dim=-1)
            x = (p @ values @ out).tanh()
    return x.sum(), keys.abs().sum()


@program(iterations=380, pays=True)
def cache_of_fixed_size(iterations):
    """Attention over a cache that is written in place and masked."""
    mt.manual_seed(1)
    wq, wk, wv, out = (mt.randn(64, 64) / 8 for _ in range(4))
    x = mt.randn(4, 1, 64)
    keys, values, places = mt.zeros(4, 128, 64), mt.zeros(4, 128, 64), mt.arange(128)
    with mt.no_grad():
        for t in range(iterations):
            here = (places == t % 128).view(1, 128, 1)
            keys = mt.where(here, x @ wk, keys)
            values = mt.where(here, x @ wv, values)
            scores = (x @ wq) @ keys.transpose(1, 2) / 8
            x = (scores.masked_fill(places > t, -math.inf).softmax(dim=-1) @ values @ out).tanh()
    return x.sum(), keys.abs().sum()


@program(iterations=250)
def beam_search(iterations):
    """Keep the six best continuations at each step."""
    mt.manual_seed(2)
    table, w = mt.randn(50, 32), mt.randn(32, 50) * 0.5
    state, scores, beams = mt.zeros(1, 32), mt.zeros(1), [[0]]
    for _ in range(iterations):
        state = (0.5 * state + table[mt.tensor([beam[-1] for beam in beams])]).tanh()
        total = scores.unsqueeze(1) + (state @ w).log_softmax(dim=1)
        scores, best = total.flatten().topk(6)
        parents, tokens = (best // 50).tolist(), (best % 50).tolist()
        state = state[mt.tensor(parents)]
        beams = [[*beams[p][-20:], token] for p, token in zip(parents, tokens, strict=True)]
    return scores, beams[0]


@program(iterations=550)
def sampled_text(iterations):
    """Draw characters from a small net until each one has been read."""
    mt.manual_seed(3)
    table, up, down = mt.randn(40, 32), mt.randn(64, 96) * 0.2, mt.randn(96, 40) * 0.3
    tokens = [0, 1]
    with mt.no_grad():
        for _ in range(iterations):
            h = mt.cat([table[tokens[-1]], table[tokens[-2]]])
            p = ((h @ up).relu() @ down / 0.8).softmax(dim=0)
            tokens.append(int(mt.multinomial(p, 1).item()))
    return tokens


@program(iterations=180)
def stops_at_an_end(iterations):
    """Greedy decoding of requests that end at different times."""
    mt.manual_seed(4)
    w, table = mt.randn(32, 30) * 0.4, mt.randn(30, 32)
    lengths = []
    for iteration in range(iterations):
        h, token, made = mt.zeros(32), iteration % 30, 0
        while token != 7 and made < 3 + iteration % 9:
            h = (h * 0.9 + table[token]).tanh()
            token = (h @ w).argmax().item()
            made += 1
        lengths.append(made)
    return lengths


@program(iterations=24, few=2)
def attention_of_a_prompt(iterations):
    """Blocks of attention over prompts of three lengths, without gradients."""
    mt.manual_seed(5)
    qkv, out, up, down = (
        mt.randn(128, 384) / 11,
        mt.randn(128, 128) / 11,
        mt.randn(128, 512) / 11,
        mt.randn(512, 128) / 23,
    )
    total = mt.zeros(())
    with mt.no_grad():
        for iteration in range(iterations):
            length = (64, 96, 128)[iteration % 3]
            x = mt.randn(2, length, 128)
            for _ in range(2):
                q, k, v = (t.view(2, length, 4, 32).transpose(1, 2) for t in (x @ qkv).split(128, dim=2))
                a = mt.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + a.transpose(1, 2).reshape(2, length, 128) @ out
                x = x + mt.nn.functional.gelu(mt.nn.functional.layer_norm(x, (128,)) @ up) @ down
            total += x.abs().mean()
    return total
