"""PyTorch's random numbers: against stored ones, against PyTorch where it is installed, recorded and compiled."""

import copy
import json
import pickle

import numpy as np
import pytest
from torch_random_cases import CASES, CLOSE, SEED, STORED, numbers, state, summary

import minitensor as mt

NUMBERS = json.loads(STORED.read_text())


@pytest.fixture(autouse=True)
def pytorchs():
    before = mt.default_generator._save()
    mt.random.use("torch")
    try:
        yield
    finally:
        mt.random.use("philox")
        mt.default_generator._load(before)


def check(name, found, expected, dtypes):
    assert len(found) == len(expected)
    for x, y, dtype in zip(found, expected, dtypes, strict=True):
        assert x.shape == y.shape, name
        if name not in CLOSE:
            np.testing.assert_array_equal(x, y, err_msg=name)
        else:
            unit = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}.get(dtype.name, 2.0**-52)
            np.testing.assert_allclose(x, y, rtol=4 * unit, atol=4 * unit, err_msg=name)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:to - 1 is out of bounds")
def test_stored(name):
    stored = NUMBERS[name]
    mt.manual_seed(SEED)
    results = CASES[name](mt)
    first = [numbers(x).ravel()[:4] for x in results]
    check(name, first, [np.array(x) for x in stored["first"]], [x.dtype for x in results])
    if stored["bits"]:
        assert summary(name, mt)["bits"] == stored["bits"]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:to - 1 is out of bounds")
def test_against_torch(name):
    torch = pytest.importorskip("torch")
    for seed in (0, 2**40 + 5):
        torch.manual_seed(seed)
        mt.manual_seed(seed)
        theirs, ours = CASES[name](torch), CASES[name](mt)
        assert [str(x.dtype).removeprefix("torch.") for x in theirs] == [x.dtype.name for x in ours]
        check(name, [numbers(x) for x in ours], [numbers(x) for x in theirs], [x.dtype for x in ours])
        if name not in CLOSE:
            assert state(mt) == state(torch)


RECORDED = {
    "rand": lambda: mt.rand(30),
    "randn": lambda: mt.randn(30) + mt.randn(7).sum(),
    "randn float64": lambda: mt.randn(33, dtype=mt.float64),
    "randn float16": lambda: mt.randn(33, dtype=mt.float16),
    "one by one": lambda: mt.randn(5, dtype=mt.float64),
    "randint": lambda: mt.randint(2**40, (20,)) + mt.randint(9, (20,)),
    "randperm": lambda: mt.randperm(50),
    "dropout": lambda: mt.nn.functional.dropout(mt.ones(40), 0.3),
    "dropout, transposed": lambda: mt.nn.functional.dropout(mt.ones(4, 10).t(), 0.3),
    "in place": lambda: mt.zeros(6, 7).t().normal_(1, 2),
    "bernoulli_": lambda: mt.empty(30).bernoulli_(0.25),
    "exponential_": lambda: mt.empty(30).exponential_(2.0),
    "cauchy_": lambda: mt.empty(30).cauchy_(),
    "geometric_": lambda: mt.empty(30, dtype=mt.int64).geometric_(0.2),
    "log_normal_": lambda: mt.empty(31, dtype=mt.float64).log_normal_(),
    "random_": lambda: mt.empty(30, dtype=mt.float16).random_(),
    "multinomial": lambda: mt.multinomial(mt.arange(9) / 9, 4),
    "multinomial with replacement": lambda: mt.multinomial(mt.arange(9) / 9, 4, True),
    "poisson": lambda: mt.poisson(mt.arange(30) / 2),
    "gamma": lambda: mt._standard_gamma(mt.arange(30) / 2),
    "dirichlet": lambda: mt._sample_dirichlet((mt.arange(30) + 1).view(5, 6) / 2),
    "rrelu": lambda: mt.nn.functional.rrelu(mt.arange(-9, 9) / 4, training=True),
}


def eagerly(draw, times):
    mt.manual_seed(7)
    return [draw().tolist() for _ in range(times)], state(mt)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded(name):
    draw = RECORDED[name]
    expected, end = eagerly(draw, 2)
    mt.manual_seed(7)
    with mt.jit_scope():
        results = [draw() * 1 for _ in range(2)]
        after = mt.rand(3) * 1
    assert [x.tolist() for x in results] == expected
    mt.set_rng_state(mt.tensor(list(end), dtype=mt.uint8))
    assert after.tolist() == mt.rand(3).tolist()


VALUES_OF_OPERANDS = ("multinomial", "multinomial with replacement", "poisson", "gamma", "dirichlet", "rrelu")


@pytest.mark.parametrize("name", [name for name in RECORDED if name not in VALUES_OF_OPERANDS])
@pytest.mark.at_once
def test_replayed_without_python(name):
    draw = RECORDED[name]
    expected, end = eagerly(draw, 4)
    fn = mt.function(lambda: draw() * 1, jit_compile=True)
    for _ in range(2):
        mt.manual_seed(7)
        assert [fn().tolist() for _ in range(4)] == expected
        assert state(mt) == end
    assert fn.hits >= 6


@pytest.mark.parametrize("name", VALUES_OF_OPERANDS)
def test_functions_that_draw_by_values(name):
    expected, end = eagerly(RECORDED[name], 3)
    fn = mt.function(lambda: RECORDED[name]() * 1)
    mt.manual_seed(7)
    assert [fn().tolist() for _ in range(3)] == expected
    assert state(mt) == end


def test_programs_are_of_one_kind_of_numbers():
    fn = mt.function(lambda: mt.rand(20) + mt.empty(20).exponential_(), jit_compile=True)
    for kind in ("philox", "torch", "philox", "torch"):
        mt.random.use(kind)
        mt.manual_seed(3)
        expected = mt.rand(20) + mt.empty(20).exponential_()
        mt.manual_seed(3)
        assert fn().tolist() == expected.tolist()


def test_a_recorded_draw_keeps_its_place():
    mt.manual_seed(5)
    expected = mt.randn(40).tolist()
    mt.manual_seed(5)
    with mt.jit_scope():
        drawn = mt.randn(40) * 1
        mt.manual_seed(6)
    assert drawn.tolist() == expected


def test_any_number_of_threads():
    threads = mt.get_num_threads()
    found = []
    try:
        for count in (1, 3):
            mt.set_num_threads(count)
            mt.manual_seed(1)
            found.append([mt.randn(70001).tolist(), mt.empty(50001).exponential_().tolist()])
    finally:
        mt.set_num_threads(threads)
    assert found[0] == found[1]


# ---- states


def test_states_are_pytorchs():
    torch = pytest.importorskip("torch")
    for draws in (lambda lib: lib.rand(3), lambda lib: lib.randn(7), lambda lib: lib.rand(624), lambda lib: None):
        for seed in (0, 2**63 + 1):
            torch.manual_seed(seed)
            mt.manual_seed(seed)
            draws(torch), draws(mt)
            assert state(mt) == state(torch)
            # In both directions.
            mt.manual_seed(0)
            mt.set_rng_state(mt.tensor(torch.get_rng_state().tolist(), dtype=mt.uint8))
            expected = torch.randn(5).tolist()
            assert mt.randn(5).tolist() == expected
            torch.set_rng_state(torch.tensor(mt.get_rng_state().tolist(), dtype=torch.uint8))
            assert torch.randn(20).tolist() == mt.randn(20).tolist()
            assert mt.initial_seed() == torch.initial_seed() == seed


def test_generators():
    g = mt.Generator().manual_seed(3)
    mt.randn(3, generator=g)
    others = [g.clone_state(), copy.deepcopy(g), pickle.loads(pickle.dumps(g)), mt.Generator()]
    others[-1].set_state(g.get_state())
    expected = mt.randn(5, generator=g).tolist()
    for other in others:
        assert mt.randn(5, generator=other).tolist() == expected
    assert g.get_state().shape == (5056,)
    assert g.initial_seed() == 3
    assert "PyTorch" in repr(g)
    assert mt.Generator().manual_seed(-1).initial_seed() == 2**64 - 1
    assert g.seed() == g.initial_seed()


def test_fork_rng():
    mt.manual_seed(3)
    mt.randn(3)
    before = state(mt)
    with mt.random.fork_rng():
        mt.manual_seed(4)
        mt.rand(9)
    assert state(mt) == before


def test_wrong_states():
    g = mt.Generator()
    with pytest.raises(RuntimeError, match="expected 5056 bytes"):
        g.set_state(mt.zeros(16, dtype=mt.uint8))
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        g.set_state(mt.zeros(5056, dtype=mt.uint8))
    with pytest.raises(TypeError, match=r"must be a torch\.ByteTensor"):
        g.set_state(mt.zeros(5056))
    for place, value in ((8, 0), (9, 255), (12, 0), (17, 3)):
        bad = g.get_state()
        bad[place] = value
        with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
            g.set_state(bad)
    with pytest.raises(ValueError, match='"philox" and "torch", not \'mt\''):
        mt.random.use("mt")


def test_kinds_are_apart():
    theirs = mt.Generator().manual_seed(1)
    mt.random.use("philox")
    ours = mt.Generator().manual_seed(1)
    assert mt.rand(4, generator=theirs).tolist() != mt.rand(4, generator=ours).tolist()
    mt.manual_seed(1)
    expected = mt.rand(4).tolist()
    assert mt.get_rng_state().shape == (16,)
    mt.random.use("torch")
    mt.random.use("philox")
    assert mt.rand(4).tolist() == expected
    with pytest.raises(RuntimeError, match="63 bits"):
        ours.set_state(mt.full((16,), 255, dtype=mt.uint8))


def test_errors():
    for call, message in (
        (lambda: mt.randint(5, 5, (2,)), "less than 'to'"),
        (lambda: mt.empty(2, dtype=mt.uint8).random_(0, 300), "to - 1 is out of bounds"),
        (lambda: mt.randint(-1, 3, (2,), dtype=mt.bool), "from is out of bounds"),
        (lambda: mt.empty(2).uniform_(3, 1), "from=3 > to=1"),
        (lambda: mt.normal(0.0, -1.0, (2,)), "std >= 0.0"),
        (lambda: mt.poisson(mt.tensor([-1.0])), "non-negative"),
    ):
        with pytest.raises(RuntimeError, match=message):
            call()


def test_integers_that_a_type_rounds():
    with pytest.warns(UserWarning, match=r"to - 1 is out of bounds \[-\(2\^24\), 2\^24\]"):
        mt.randint(2**28, (3,), dtype=mt.float32)


def test_vmap():
    mt.manual_seed(2)
    expected = mt.rand(2, 3).tolist()
    mt.manual_seed(2)
    mapped = mt.vmap(lambda x: x + mt.rand(3), randomness="different")(mt.zeros(2, 3))
    assert mapped.tolist() == expected


def test_gradients_of_samples():
    shape = mt.tensor([0.5, 2.0], requires_grad=True)
    mt._standard_gamma(shape).sum().backward()
    assert shape.grad is not None
    x = mt.ones(40, requires_grad=True)
    y = mt.nn.functional.dropout(x, 0.3)
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()


def test_binomial_of_no_number_ends():
    """PyTorch's sampler waits for a sum to be above the count."""
    counts = mt.tensor([float("nan"), float("inf"), 5.0, float("nan")])
    drawn = mt.binomial(counts, mt.tensor([0.3, 0.3, 0.0, 0.9]))
    assert drawn.isnan().tolist() == [True, True, False, True]


def test_bernoulli_by_probabilities_that_require_grad_draws_the_same():
    p = mt.tensor([[0.3], [0.6]])
    drawn = []
    for wanted in (False, True):
        mt.manual_seed(SEED)
        made = mt.empty(6, 2).t().bernoulli_(p.clone().requires_grad_(wanted))
        assert made.requires_grad is wanted
        drawn.append((made.tolist(), mt.rand(3).tolist()))
    assert drawn[0] == drawn[1]
