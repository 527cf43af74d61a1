"""Writes to parts of arguments in compiled functions: in place, whatever else of the same memory is read."""

import random

import numpy as np
import pytest

import minitensor as mt
from minitensor_jit.compiler.plan_builder import PlanBuilder

ROWS, COLUMNS = 16, 8
NAMES = ("w", "v", "u")


def part(rng, most=5):
    """Some rows of one of the arguments, and how many."""
    count = rng.randrange(1, most)
    first = rng.randrange(ROWS - count)
    return f"{rng.choice(NAMES)}[{first}:{first + count}]", count


def rows(rng, count):
    """An expression of so many rows."""
    first, second = (rng.randrange(ROWS - count) for _ in range(2))
    one, other = (f"{rng.choice(NAMES)}[{n}:{n + count}]" for n in (first, second))
    return rng.choice(
        [
            f"g[:{count}]",
            one,
            f"{one} * 2.0",
            f"g[:{count}] - 0.5 * {one}",
            f"{one}.flip(0)",
            f"{rng.choice(NAMES)}.sum(0, keepdim=True).expand({count}, {COLUMNS}) * 0.25",
            f"({one} + {other}).tanh()",
        ]
    )


def program(rng):
    """A function that writes to parts of its arguments, and reads of them."""
    lines = ["def f(w, v, u, g, i):", "    out = []"]
    for _ in range(rng.randint(1, 6)):
        name = rng.choice(NAMES)
        target, count = part(rng)
        column, another = rng.randrange(COLUMNS), rng.randrange(COLUMNS)
        lines.append(
            "    "
            + rng.choice(
                [
                    *[f"{target} = {rows(rng, count)}"] * 3,
                    *[f"{target} {rng.choice(('+=', '-=', '*='))} {rows(rng, count)}"] * 2,
                    f"{name}[:, {column}] = {rng.choice(NAMES)}[:, {another}] * 1.5",
                    f"{name}[::2] *= 0.5",
                    f"{name}.index_copy_(0, i, g[:2])",
                    f"{name}[{rng.randrange(ROWS)}].mul_(2.0)",
                    f"out.append({name}[{rng.randrange(ROWS)}] * 1.0)",
                    f"out.append({name}.sum(1))",
                    f"out.append({name}.clone())",
                ]
            )
        )
    return "\n".join([*lines, "    return out"])


def arguments(starts, dtype, apart):
    """The memory that the arguments are rows of, and these: of memory of their own where they are `apart`."""
    base = mt.tensor(np.arange(64 * COLUMNS, dtype=np.float32).reshape(64, COLUMNS) / 37 - 3).to(dtype)
    seen = [base[n : n + ROWS] for n in starts]
    g = mt.tensor(np.cos(np.arange(4 * COLUMNS, dtype=np.float32)).reshape(4, COLUMNS)).to(dtype)
    return [base, *([t.clone() for t in seen] if apart else seen), g, mt.tensor([3, 9])]


def differences(seed):
    """Calls of a random program that give other bits compiled: with arguments that lie now here and now there."""
    rng = random.Random(seed)
    text = program(rng)
    names = {}
    exec(text, names)
    f = names["f"]
    compiled = mt.function(f, jit_compile=rng.random() < 0.7)
    dtype = rng.choice([mt.float32, mt.float32, mt.float64, mt.bfloat16])
    for _ in range(4):
        starts = [rng.choice(some) for some in ((0, 0, 16, 8, 24), (0, 0, 16, 20, 32, 2), (48, 0, 17))]
        apart = rng.random() < 0.3
        plain, again = (arguments(starts, dtype, apart) for _ in range(2))
        want, got = f(*plain[1:]), compiled(*again[1:])
        same = [mt.equal(a, b) for a, b in zip([*plain, *want], [*again, *got], strict=True)]
        if not all(same):
            yield f"seed {seed}, rows from {starts}, apart {apart}, {dtype}: {same}\n{text}"


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_programs(first):
    for seed in range(first, first + 10):
        assert next(differences(seed), None) is None


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(1000, 1200, 25))
def test_many_random_programs(first):
    for seed in range(first, first + 25):
        assert next(differences(seed), None) is None


def assigned(w, g):
    w[10:20] = g


def scaled(w, g):
    w[10:20] -= 0.1 * g


def doubled(w, g):
    w[10:20].mul_(2.0)


def read_beside(w, g):
    w[10:20] = 0.1 * g
    return w[0, 0] * 1.0


def read_within(w, g):
    w[10:20] = 0.1 * g
    return w[12].sum()


def several(w, g):
    w[3] += g[0]
    w[4] += g[1]
    w[5] = 0.0


def columns(w, g):
    w[:, 5] = w[:, 6] * 2.0


@pytest.mark.parametrize("f", [assigned, scaled, doubled, read_beside, read_within, several, columns])
def test_only_the_part_is_written(f, monkeypatch):
    """No result is computed elsewhere, and copied to its place."""
    late = []

    def deferred(builder, found=PlanBuilder.deferred):
        late.append(found(builder))
        return late[-1]

    monkeypatch.setattr(PlanBuilder, "deferred", deferred)
    w, g = mt.rand(64, 256), mt.rand(10, 256)
    plain, compiled = w.clone(), mt.function(f, jit_compile=True)
    for _ in range(2):
        want, got = f(plain, g), compiled(w, g)
        assert mt.equal(w, plain)
        assert want is None or mt.equal(got, want)
    assert late == [[]]
