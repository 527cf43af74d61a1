"""Draws whose numbers are PyTorch's, and the stored ones, which `python tests/torch_random_cases.py` writes by PyTorch.

The file has for each case the first numbers of every result, and a digest of all bits where PyTorch's are met exactly.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

STORED = Path(__file__).parent / "torch_random_numbers.json"
SEED = 2026
EXACT: dict[str, Any] = {}
CLOSE: dict[str, Any] = {}
"""Their formulas call the C library, whose logarithms and sines may differ in the last bit."""

_SIZES = (0, 1, 7, 15, 16, 17, 31, 100, 20000)


def _draws(name: str, dtype: str) -> Any:
    return lambda lib: [getattr(lib, name)(n, dtype=getattr(lib, dtype)) for n in _SIZES]


def _filled(dtype: str, n: int, method: str, *parameters: Any) -> Any:
    return lambda lib: [getattr(lib.empty(n, dtype=getattr(lib, dtype)), method)(*parameters), lib.rand(2)]


for _dtype in ("float32", "float64", "float16", "bfloat16"):
    EXACT[f"rand {_dtype}"] = _draws("rand", _dtype)
    (CLOSE if _dtype == "float64" else EXACT)[f"randn {_dtype}"] = _draws("randn", _dtype)
    (CLOSE if _dtype == "float64" else EXACT)[f"normal_ {_dtype}"] = _filled(_dtype, 1000, "normal_", -1.3, 0.7)
    EXACT[f"uniform_ {_dtype}"] = _filled(_dtype, 1000, "uniform_", -1.3, 0.7)
    EXACT[f"bernoulli_ {_dtype}"] = _filled(_dtype, 1000, "bernoulli_", 0.3)
    EXACT[f"random_ {_dtype}"] = _filled(_dtype, 100, "random_")
    EXACT[f"random_(-100, 200) {_dtype}"] = _filled(_dtype, 100, "random_", -100, 200)
    for _name, *_parameters in (("exponential_", 1.7), ("cauchy_", 1.7, 0.3), ("log_normal_", 0.3, 0.5)):
        CLOSE[f"{_name} {_dtype}"] = _filled(_dtype, 1001, _name, *_parameters)
    EXACT[f"geometric_ {_dtype}"] = _filled(_dtype, 1000, "geometric_", 0.3)
for _dtype in ("uint8", "int16", "int32", "int64", "bool"):
    EXACT[f"random_ {_dtype}"] = _filled(_dtype, 100, "random_")
    EXACT[f"bernoulli_ {_dtype}"] = _filled(_dtype, 100, "bernoulli_", 0.3)
for _high in (2, 77, 2**28 - 1, 2**28, 2**31, 2**32, 2**40, 2**63 - 1):
    EXACT[f"randint({_high})"] = lambda lib, high=_high: [lib.randint(high, (100,)), lib.randint(-high, high, (10,))]
for _high in (2**24 + 5, 2**28, 2**30):
    EXACT[f"randint({_high}) float32"] = lambda lib, high=_high: [lib.randint(high, (100,), dtype=lib.float32)]


def _transposed(lib: Any, n: int = 1000) -> Any:
    return lib.zeros(n // 50, 50).t()


def _probabilities(lib: Any) -> Any:
    return lib.arange(50).unsqueeze(1) / 64


def _weights(lib: Any) -> Any:
    return lib.arange(17).to(lib.float32) / 16


EXACT |= {
    "randperm": lambda lib: [lib.randperm(n) for n in (0, 1, 2, 10, 1000)] + [lib.randperm(9, dtype=lib.int32)],
    "rand_like, transposed": lambda lib: [lib.rand_like(_transposed(lib))],
    "uniform_ of every second column": lambda lib: [_transposed(lib)[:, ::2].uniform_()],
    "bernoulli_ of probabilities": lambda lib: [_transposed(lib).bernoulli_(_probabilities(lib))],
    "bernoulli": lambda lib: [
        lib.bernoulli(lib.full((100,), 0.3)), lib.bernoulli(lib.full((9,), 0.3, dtype=lib.float64)),
        lib.bernoulli(lib.empty(9), 0.5),
    ],
    "randint_like": lambda lib: [lib.randint_like(lib.empty(20), 3, 77)],
    "complex": lambda lib: [
        lib.view_as_real(x) for x in (
            lib.rand(20, dtype=lib.complex64), lib.randn(20, dtype=lib.complex64),
            lib.empty(20, dtype=lib.complex64).normal_(1, 2),
        )
    ],
    "normal of tensors": lambda lib: [
        lib.normal(lib.full((40,), 2.0), lib.full((40,), 3.0)), lib.normal(2.0, lib.full((100,), 3.0)),
        lib.normal(lib.full((100,), 2.0), 0.3), lib.normal(1.0, 2.0, (20,)),
    ],
    "dropout": lambda lib: [
        lib.nn.functional.dropout(lib.full((40, 50), 3.0), 0.3),
        lib.nn.functional.dropout(lib.full((40, 50), 3.0).t(), 0.3),
        lib.nn.functional.dropout2d(lib.full((4, 50, 2, 3), 3.0), 0.3),
        lib.nn.functional.alpha_dropout(lib.full((40, 50), 3.0), 0.3, True),
        lib.nn.functional.feature_alpha_dropout(lib.full((4, 50, 2), 3.0), 0.3, True),
    ],
    "multinomial": lambda lib: [
        lib.multinomial(_weights(lib), 9), lib.multinomial(_weights(lib), 90, True),
        lib.multinomial(_weights(lib).expand(3, 17), 1),
    ],
    "rrelu": lambda lib: [lib.nn.functional.rrelu(lib.arange(-50, 50) / 8, training=True)],
    "init": lambda lib: [
        fill(lib.empty(20, 30)) for fill in (
            lib.nn.init.xavier_uniform_, lib.nn.init.xavier_normal_, lib.nn.init.kaiming_uniform_,
            lib.nn.init.kaiming_normal_, lib.nn.init.trunc_normal_, lambda x: lib.nn.init.sparse_(x, 0.3),
        )
    ],
    "modules": lambda lib: [
        p.detach() for make in (
            lambda: lib.nn.Linear(30, 20), lambda: lib.nn.Conv2d(3, 8, 3), lambda: lib.nn.Embedding(10, 8),
            lambda: lib.nn.LSTM(3, 8), lambda: lib.nn.MultiheadAttention(8, 2),
        ) for p in make().parameters()
    ],
    "loader": lambda lib: [
        batch for generator in (None, lib.Generator().manual_seed(9))
        for batch in lib.utils.data.DataLoader(list(range(30)), 7, shuffle=True, generator=generator)
    ],
    "samplers": lambda lib: [
        lib.tensor(list(s)) for s in (
            lib.utils.data.WeightedRandomSampler([1.0, 2.0, 3.0], 20),
            lib.utils.data.WeightedRandomSampler([1.0, 2.0, 3.0], 2, False),
            lib.utils.data.SubsetRandomSampler([3, 4, 5, 6]), lib.utils.data.RandomSampler(range(10), True, 40),
        )
    ],
    "random_split": lambda lib: [
        lib.tensor(list(part.indices)) for part in lib.utils.data.random_split(list(range(30)), [10, 20])
    ],
    "own generators": lambda lib: [
        lib.rand(3, generator=lib.Generator()), lib.randn(20, generator=lib.Generator().manual_seed(-1)),
    ],
}  # fmt: skip


def _rates(lib: Any, dtype: str) -> Any:
    return lib.arange(1, 301).to(getattr(lib, dtype)) / 128


CLOSE |= {
    "one by one": lambda lib: [lib.randn(7), lib.randn(20), lib.randn(2), lib.randn_like(_transposed(lib))],
    "trunc_normal_ far out": lambda lib: [lib.nn.init.trunc_normal_(lib.empty(100), 0.0, 1.0, 1.0, 1.4)],
    "distributions": lambda lib: [
        lib.distributions.Normal(lib.zeros(5), lib.ones(5)).sample((7,)),
        lib.distributions.Gamma(lib.tensor(3.0), lib.tensor(2.0)).sample((7,)),
        lib.distributions.Categorical(lib.ones(5)).sample((7,)),
        lib.distributions.Uniform(1.0, 3.0).sample((7,)),
    ],
}
for _dtype in ("float32", "float64"):
    CLOSE[f"samples {_dtype}"] = lambda lib, dtype=_dtype: [
        lib.poisson(_rates(lib, dtype)), lib.poisson(_rates(lib, dtype) * 16), lib._standard_gamma(_rates(lib, dtype)),
        lib.binomial(lib.full((300,), 12, dtype=getattr(lib, dtype)), _rates(lib, dtype) / 2.5),
        lib.binomial(lib.full((300,), 200, dtype=getattr(lib, dtype)), _rates(lib, dtype) / 2.5),
    ]  # fmt: skip
CASES = EXACT | CLOSE


def numbers(x: Any) -> np.ndarray:
    """A tensor's values, those of floating types exactly in float64."""
    return np.array((x.double() if x.is_floating_point() else x).tolist()).reshape(tuple(x.shape))


def state(lib: Any) -> bytes:
    """The bytes of the default generator."""
    return bytes(lib.get_rng_state().tolist())


def summary(name: str, lib: Any) -> dict[str, Any]:
    """What is stored of a case."""
    lib.manual_seed(SEED)
    results = [numbers(x) for x in CASES[name](lib)]
    digest = hashlib.sha256()
    for x in results:
        digest.update(repr(x.shape).encode() + np.ascontiguousarray(x).tobytes())
    return {"first": [x.ravel()[:4].tolist() for x in results], "bits": digest.hexdigest() if name in EXACT else None}


if __name__ == "__main__":
    import torch

    made = {"source": f"PyTorch {torch.__version__}, CPU, manual_seed({SEED})"}
    made |= {name: summary(name, torch) for name in CASES}
    lines = (f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in made.items())
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
