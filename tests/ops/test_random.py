"""Generators, and the distributions of what they give."""

import copy
import pickle

import numpy as np
import pytest
from scipy import stats

import minitensor as mt

N = 20000


def seeded(make):
    """The same draw from the default generator and from one of its own."""
    mt.manual_seed(11)
    return make()


# ---- generators


def test_a_generator_repeats():
    g = mt.Generator().manual_seed(5)
    first = [mt.rand(3, generator=g), mt.randn(3, generator=g), mt.randint(9, (3,), generator=g)]
    g.manual_seed(5)
    again = [mt.rand(3, generator=g), mt.randn(3, generator=g), mt.randint(9, (3,), generator=g)]
    assert [t.tolist() for t in first] == [t.tolist() for t in again]
    assert first[0].tolist() != mt.rand(3, generator=g).tolist()


def test_it_leaves_the_default_one_alone():
    mt.manual_seed(3)
    expected = mt.rand(4).tolist()
    mt.manual_seed(3)
    g = mt.Generator().manual_seed(3)
    assert mt.rand(4, generator=g).tolist() == expected
    assert mt.rand(4).tolist() == expected
    assert mt.rand(4, generator=mt.default_generator).tolist() != expected


def test_states():
    g = mt.Generator().manual_seed(2**63 + 7)
    mt.rand(3, generator=g)
    state, clone = g.get_state(), g.clone_state()
    assert state.dtype is mt.uint8
    expected = mt.rand(3, generator=g).tolist()
    assert mt.rand(3, generator=g.set_state(state)).tolist() == expected
    assert mt.rand(3, generator=clone).tolist() == expected
    for other in (pickle.loads(pickle.dumps(clone)), copy.deepcopy(clone)):
        assert mt.rand(2, generator=other).tolist() == mt.rand(2, generator=clone.clone_state()).tolist()
    assert g.initial_seed() == 2**63 + 7
    assert mt.Generator().initial_seed() == mt.Generator().initial_seed()
    assert g.seed() == g.initial_seed()
    assert g.device == mt.device("cpu")


def test_the_default_generator_s_state():
    state = mt.get_rng_state()
    expected = mt.rand(3).tolist()
    mt.set_rng_state(state)
    assert mt.rand(3).tolist() == expected
    with mt.random.fork_rng():
        mt.manual_seed(1)
        mt.rand(5)
    mt.set_rng_state(state)
    with mt.random.fork_rng():
        mt.rand(5)
    assert mt.rand(3).tolist() == expected
    assert mt.manual_seed(4) is mt.default_generator
    assert mt.initial_seed() == 4


def test_wrong_use_of_generators():
    with pytest.raises(TypeError, match="argument 'generator' must be Generator"):
        mt.rand(2, generator=3)
    with pytest.raises(RuntimeError, match="no generator for device"):
        mt.Generator("meta")
    with pytest.raises(ValueError, match="Overflow"):
        mt.Generator().manual_seed(2**64)
    with pytest.raises(TypeError, match="ByteTensor"):
        mt.Generator().set_state(mt.ones(16))
    with pytest.raises(RuntimeError, match="wrong size"):
        mt.Generator().set_state(mt.ones(3, dtype=mt.uint8))


DRAWS = {
    "rand": lambda: mt.rand(N),
    "randn": lambda: mt.randn(N, dtype=mt.float64),
    "randint": lambda: mt.randint(-5, 17, (N,)),
    "randperm": lambda: mt.randperm(N),
    "bernoulli": lambda: mt.bernoulli(mt.full((N,), 0.3)),
    "multinomial": lambda: mt.multinomial(mt.tensor([1.0, 2.0, 3.0]), N, replacement=True),
    "exponential_": lambda: mt.empty(N).exponential_(2.0),
    "geometric_": lambda: mt.empty(N).geometric_(0.2),
    "log_normal_": lambda: mt.empty(N).log_normal_(0.5, 0.25),
    "cauchy_": lambda: mt.empty(N).cauchy_(1.0, 2.0),
    "random_": lambda: mt.empty(N, dtype=mt.int32).random_(3, 30),
    "normal": lambda: mt.normal(mt.zeros(N), mt.full((N,), 2.0)),
    "dropout": lambda: mt.nn.functional.dropout(mt.ones(N), 0.25),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_same_for_any_number_of_threads_and_recorded(name):
    expected = seeded(DRAWS[name]).tolist()
    threads = mt.get_num_threads()
    try:
        for count in (1, 3):
            mt.set_num_threads(count)
            assert seeded(DRAWS[name]).tolist() == expected
    finally:
        mt.set_num_threads(threads)

    def recorded():
        with mt.jit_scope():
            return DRAWS[name]() * 1

    assert seeded(recorded).tolist() == expected


# ---- distributions: a test with a p-value of 1e-4 at a fixed seed passes or fails for good


def follows(sample, distribution, *parameters):
    sample = np.asarray(sample.tolist(), np.float64)
    p = stats.kstest(sample, distribution, parameters).pvalue
    assert p > 1e-4, f"{distribution}{parameters}: p = {p:.2g}"


@pytest.mark.parametrize("dtype", [mt.float32, mt.float64])
def test_continuous_distributions(dtype):
    mt.manual_seed(1)
    x = mt.empty(N, dtype=dtype)
    follows(mt.rand(N, dtype=dtype), "uniform", 0, 1)
    follows(x.uniform_(-2, 5), "uniform", -2, 7)
    follows(mt.randn(N, dtype=dtype), "norm", 0, 1)
    follows(x.normal_(3, 2), "norm", 3, 2)
    follows(x.exponential_(1.5), "expon", 0, 1 / 1.5)
    follows(x.cauchy_(1, 2), "cauchy", 1, 2)
    follows(x.log_normal_(0.5, 0.75), "lognorm", 0.75, 0, np.exp(0.5))
    follows(mt.normal(mt.full((N,), -1.0, dtype=dtype), 0.5), "norm", -1, 0.5)
    assert float(x.exponential_(1e-3).min()) > 0


@pytest.mark.parametrize("dtype", [mt.float16, mt.bfloat16])
def test_half_precision(dtype):
    mt.manual_seed(2)
    u, z = mt.rand(N, dtype=dtype), mt.randn(N, dtype=dtype)
    assert u.dtype is z.dtype is dtype
    assert float(u.min()) >= 0
    assert float(u.float().mean()) == pytest.approx(0.5, abs=0.02)
    assert float(z.float().std()) == pytest.approx(1, abs=0.03)


def test_complex_normal_numbers_have_variance_one():
    mt.manual_seed(3)
    z = mt.randn(N, dtype=mt.complex64).numpy()
    assert np.abs(z).var() + np.abs(np.abs(z).mean()) ** 2 == pytest.approx(1, abs=0.03)
    assert z.real.var() == pytest.approx(0.5, abs=0.02)
    assert abs(np.corrcoef(z.real, z.imag)[0, 1]) < 0.03


def counts_match(sample, probabilities):
    values, counts = np.unique(sample.tolist(), return_counts=True)
    expected = np.array([probabilities[v] for v in values]) * len(sample)
    assert stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 1e-4
    assert set(values) <= set(probabilities)


def test_discrete_distributions():
    mt.manual_seed(4)
    counts_match(mt.randint(3, 9, (N,)), dict.fromkeys(range(3, 9), 1 / 6))
    counts_match(mt.empty(N, dtype=mt.int64).random_(5), dict.fromkeys(range(5), 1 / 5))
    counts_match(mt.bernoulli(mt.full((N,), 0.2)), {0.0: 0.8, 1.0: 0.2})
    counts_match(mt.empty(N).bernoulli_(0.7), {0.0: 0.3, 1.0: 0.7})
    counts_match(mt.multinomial(mt.tensor([2.0, 0.0, 5.0, 3.0]), N, True), {0: 0.2, 2: 0.5, 3: 0.3})
    geometric = mt.empty(N).geometric_(0.5)
    counts_match(geometric[geometric < 8], {float(k): 0.5**k for k in range(1, 8)})
    poisson = mt.poisson(mt.full((N,), 3.0))
    counts_match(poisson[poisson < 9], {float(k): stats.poisson.pmf(k, 3) for k in range(9)})
    binomial = mt.binomial(mt.full((N,), 10.0), mt.full((N,), 0.3))
    counts_match(binomial[binomial < 8], {float(k): stats.binom.pmf(k, 10, 0.3) for k in range(8)})


def test_sampling_without_replacement():
    mt.manual_seed(5)
    weights = mt.tensor([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 5.0, 5.0]])
    first = mt.stack([mt.multinomial(weights, 2) for _ in range(3000)])
    assert all(len(set(row)) == 2 for draw in first.tolist() for row in draw)
    counts_match(first[:, 0, 0], {i: (i + 1) / 10 for i in range(4)})
    assert set(np.unique(first[:, 1].numpy())) == {2, 3}


def test_errors_of_sampling():
    cases = [
        (lambda: mt.multinomial(mt.ones(3), 4), "without replacement"),
        (lambda: mt.multinomial(mt.zeros(3), 1), "sum of probabilities"),
        (lambda: mt.multinomial(mt.tensor([1.0, -1.0]), 1), "element < 0"),
        (lambda: mt.multinomial(mt.ones(2, 2, 2), 1), "1 or 2 dim"),
        (lambda: mt.multinomial(mt.ones(3), 0), "n_sample <= 0"),
        (lambda: mt.multinomial(mt.ones(3), 1, out=mt.empty(1)), "expects Long tensor out, got: Float"),
        (lambda: mt.bernoulli(mt.full((1,), 1.5)), "p_in <= 1"),
        (lambda: mt.normal(0.0, -1.0, (2,)), "std >= 0.0"),
        (lambda: mt.normal(mt.zeros(2), -1.0), "std >= 0.0"),
        (lambda: mt.empty(2).exponential_(0.0), "lambda > 0.0"),
        (lambda: mt.empty(2).geometric_(1.5), r"p to be in \(0, 1\)"),
        (lambda: mt.empty(2).cauchy_(0, -1), "sigma > 0.0"),
        (lambda: mt.empty(2, dtype=mt.uint8).random_(0, 300), "out of bounds"),
        (lambda: mt.empty(2).random_(5, 5), "less than 'to'"),
        (lambda: mt.poisson(mt.tensor([-1.0])), "non-negative"),
        (lambda: mt.randint(5, 5, (2,)), "less than 'to'"),
    ]
    for call, message in cases:
        with pytest.raises(RuntimeError, match=message):
            call()
    with pytest.raises(TypeError, match="size"):
        mt.randint(3, 5)


def test_random_fills_what_the_dtype_holds():
    mt.manual_seed(6)
    assert set(mt.empty(100, dtype=mt.bool).random_().tolist()) == {False, True}
    x = mt.empty(N, dtype=mt.int8).random_().tolist()
    assert (min(x), max(x)) == (0, 127)
    assert float(mt.empty(N, dtype=mt.float16).random_().max()) <= 2**11
    assert mt.empty(3, dtype=mt.int64).random_(-5, -4).tolist() == [-5, -5, -5]


def test_forms():
    like = mt.empty(2, 3, dtype=mt.float64)
    assert (mt.rand_like(like).dtype, mt.rand_like(like).shape) == (mt.float64, (2, 3))
    assert mt.randn_like(like, dtype=mt.float32).dtype is mt.float32
    assert mt.randint_like(like, 3, 5).unique().tolist() in ([3.0], [4.0], [3.0, 4.0])
    out = mt.empty(3)
    assert mt.rand(3, out=out) is out
    assert mt.rand(2, requires_grad=True).requires_grad
    assert mt.randperm(5, dtype=mt.int32).dtype is mt.int32
    assert sorted(mt.randperm(7).tolist()) == list(range(7))
    assert mt.rand(2, 3, device="meta").device.type == "meta"
    assert mt.rand((2, 3)).shape == mt.rand(2, 3).shape == (2, 3)
    assert mt.rand(mt.Size([2])).shape == (2,)


BOUNDS = [  # dtype, least, largest, its name in messages
    ("bool", 0, 1, "bool"), ("uint8", 0, 255, "unsigned char"), ("int8", -128, 127, "signed char"),
    ("int16", -(2**15), 2**15 - 1, "short int"), ("uint16", 0, 2**16 - 1, "short unsigned int"),
    ("int32", -(2**31), 2**31 - 1, "int"), ("uint32", 0, 2**32 - 1, "unsigned int"),
    ("float16", -65504, 65504, "c10::Half"),
]  # fmt: skip


@pytest.mark.parametrize("draw", ["randint", "randint_like", "random_"])
@pytest.mark.parametrize(("dtype", "least", "largest", "name"), BOUNDS)
@pytest.mark.filterwarnings("ignore:.*Due to precision limitations")
def test_integers_that_the_dtype_lacks_are_not_drawn(draw, dtype, least, largest, name):
    def drawn(low, high):
        if draw == "randint":
            return mt.randint(low, high, (50,), dtype=getattr(mt, dtype))
        x = mt.zeros(50, dtype=getattr(mt, dtype))
        return mt.randint_like(x, low, high) if draw == "randint_like" else x.random_(low, high)

    for low, high in ((least, least + 1), (largest, largest + 1)):
        assert drawn(low, high).double().unique().tolist() == [low]
    with pytest.raises(RuntimeError, match=f"from is out of bounds for {name}$"):
        drawn(least - 40, 1)
    with pytest.raises(RuntimeError, match=f"to - 1 is out of bounds for {name}$"):
        drawn(0, largest + 42)


@pytest.mark.at_once(reason="calls are refused when they are made")
@pytest.mark.filterwarnings("ignore:.*Due to precision limitations")
def test_bounds_that_a_floating_type_rounds_to_infinity_are_refused_themselves():
    """As in PyTorch: they are not moved to the last number that the type has."""
    x = mt.zeros(2, dtype=mt.float16)
    for low, high, name in ((0, 65536, "to - 1"), (0, 65521, "to - 1"), (-65530, 0, "from"), (65537, 65538, "from")):
        with pytest.raises(RuntimeError, match=f"^{name} is out of bounds for c10::Half$"):
            x.random_(low, high)
    assert x.random_(65503, 65505).tolist() == [65504, 65504]


@pytest.mark.filterwarnings("ignore:.*Due to precision limitations")
def test_numbers_that_a_floating_type_rounds_stay_within_the_bounds():
    assert mt.randint(2040, 2050, (500,), dtype=mt.float16).max() < 2050
    assert mt.zeros(500, dtype=mt.bfloat16).random_(200, 300).max() < 300


def test_permutations_that_the_dtype_lacks():
    assert sorted(mt.randperm(128, dtype=mt.int8).tolist()) == list(range(128))
    for dtype, n in (("int8", 129), ("int16", 2**15 + 1), ("float16", 2050)):
        with pytest.raises(RuntimeError, match="too large"):
            mt.randperm(n, dtype=getattr(mt, dtype))
    for dtype in ("bool", "uint16", "uint32", "uint64"):
        with pytest.raises(NotImplementedError, match="randperm"):
            mt.randperm(5, dtype=getattr(mt, dtype))
