"""Everything that a distribution has, beside PyTorch's."""

import inspect
import warnings

import numpy as np
import pytest
from distribution_cases import CASES, build, leaves

import minitensor as mt

torch = pytest.importorskip("torch")

IDS = [f"{case.name}-{'-'.join(case.arguments)}" for case in CASES]
# Formulas of a few dozen roundings in float64, in another order.
CLOSE = {"rtol": 1e-9, "atol": 1e-11}
# PyTorch 2.13's mode of Kumaraswamy's distribution is NaN; test_against_scipy.py looks for anything likelier.
OTHER_MODE = {"Kumaraswamy"}
# PyTorch has the Bessel functions of VonMises from polynomials made for float32, and log n! of Multinomial in float32.
SHORT = {"VonMises": {"rtol": 2e-6, "atol": 1e-7}, "Multinomial": {"rtol": 1e-7}}


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def answer(call):
    """What a call gives, or the class of its error."""
    try:
        return call()
    except (NotImplementedError, ValueError, RuntimeError, AttributeError, TypeError, IndexError) as error:
        return type(error).__name__


def agree(ours, theirs, what, **close):
    if isinstance(theirs, str) or isinstance(ours, str):
        assert ours == theirs, what
        return
    assert tuple(ours.shape) == tuple(theirs.shape), what
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), err_msg=what, **({**CLOSE, **close}))


def values(case, package):
    dtype = package.int64 if np.issubdtype(np.asarray(case.values).dtype, np.integer) else package.float64
    return package.tensor(np.asarray(case.values).tolist(), dtype=dtype)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_what_a_distribution_knows(case):
    ours, theirs = build(case, mt), build(case, torch)
    for name in ("batch_shape", "event_shape"):
        assert tuple(getattr(ours, name)) == tuple(getattr(theirs, name))
    for name in ("has_rsample", "has_enumerate_support"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert repr(ours).replace("minitensor.", "torch.") == repr(theirs)
    assert ours.support.event_dim == theirs.support.event_dim
    assert ours.support.is_discrete == theirs.support.is_discrete
    assert type(ours.support).__name__ == type(theirs.support).__name__
    assert {k: repr(v).split("(")[0] for k, v in ours.arg_constraints.items()} == {
        k: repr(v).split("(")[0] for k, v in theirs.arg_constraints.items()
    }
    for name in ("mean", "mode", "variance", "stddev"):
        if name == "mode" and case.name in OTHER_MODE:
            continue
        found = answer(lambda n=name: getattr(ours, n))
        agree(found, answer(lambda n=name: getattr(theirs, n)), name, **SHORT.get(case.name, {}))
    for name in ("entropy", "perplexity", "enumerate_support"):
        found = answer(lambda n=name: getattr(ours, n)())
        agree(found, answer(lambda n=name: getattr(theirs, n)()), name, **SHORT.get(case.name, {}))
    for name in theirs.arg_constraints:
        agree(getattr(ours, name), getattr(theirs, name), name)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_functions_of_values(case):
    if case.name == "GeneralizedPareto":
        pytest.skip("PyTorch's takes float32 only; test_against_scipy.py has these")
    ours, theirs = build(case, mt), build(case, torch)
    for name in ("log_prob", "cdf"):
        found = answer(lambda n=name: getattr(ours, n)(values(case, mt)))
        agree(found, answer(lambda n=name: getattr(theirs, n)(values(case, torch))), name, **SHORT.get(case.name, {}))
    p = [0.2, 0.5, 0.9]
    found = answer(lambda: ours.icdf(mt.tensor(p, dtype=mt.float64)))
    agree(found, answer(lambda: theirs.icdf(torch.tensor(p, dtype=torch.float64))), "icdf")


@pytest.mark.parametrize("validate_args", [True, False])
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_values_are_checked_where_it_is_asked_for(case, validate_args):
    if case.name == "GeneralizedPareto":
        pytest.skip("PyTorch's takes float32 only; test_arguments.py has these")
    found = []
    for package in (mt, torch):
        made = build(case, package, validate_args=validate_args)
        nan = package.full(np.shape(case.values), float("nan"), dtype=package.float64)
        found.append({name: answer(lambda n=name, m=made, x=nan: getattr(m, n)(x)) for name in ("log_prob", "cdf")})
    ours, theirs = found
    assert not validate_args or ours["log_prob"] == "ValueError"
    for name, given in theirs.items():
        agree(ours[name], given, name)


def constraint_classes():
    """Those that say of the class, not of each constraint, what kind of values they have."""
    every = vars(torch.distributions.constraints)
    return sorted(
        name
        for name, kind in every.items()
        if isinstance(kind, type) and isinstance(getattr(kind, "is_discrete", None), bool)
    )


@pytest.mark.parametrize("name", constraint_classes())
def test_what_values_a_constraint_has(name):
    ours, theirs = (getattr(package.distributions.constraints, name) for package in (mt, torch))
    assert (ours.is_discrete, ours.event_dim) == (theirs.is_discrete, theirs.event_dim)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_expanded(case):
    ours, theirs = build(case, mt), build(case, torch)
    shape = (2, *theirs.batch_shape)
    ours, theirs = ours.expand(shape), theirs.expand(shape)
    assert tuple(ours.batch_shape) == tuple(theirs.batch_shape)
    assert tuple(ours.event_shape) == tuple(theirs.event_shape)
    assert repr(ours).replace("minitensor.", "torch.") == repr(theirs)
    close = SHORT.get(case.name, {})
    if case.name != "GeneralizedPareto":  # PyTorch's takes float32 only
        agree(ours.log_prob(values(case, mt)), theirs.log_prob(values(case, torch)), "log_prob", **close)
    agree(answer(lambda: ours.variance), answer(lambda: theirs.variance), "variance", **close)
    if case.name != "Multinomial":  # PyTorch forgets the number of draws
        agree(answer(ours.entropy), answer(theirs.entropy), "entropy", **close)
    assert tuple(ours.sample((3,)).shape) == tuple(theirs.sample((3,)).shape)
    assert str(ours.sample().dtype).split(".")[1] == str(theirs.sample().dtype).split(".")[1]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_gradients_of_log_probabilities(case):
    if case.name == "GeneralizedPareto":
        pytest.skip("PyTorch's takes float32 only; test_sampling.py has finite differences")
    found, short = [], 2e-6 if case.name == "VonMises" else 1e-8
    for package in (mt, torch):
        arguments = leaves(case, package, requires_grad=True)
        x = values(case, package)
        if x.is_floating_point() and case.name != "LKJCholesky":
            x.requires_grad_()
        made = getattr(package.distributions, case.name)(**arguments, validate_args=False)
        made.log_prob(x).sum().backward()
        tensors = [*(a for a in arguments.values() if isinstance(a, package.Tensor)), x]
        found.append([None if a.grad is None else a.grad.numpy() for a in tensors])
    for ours, theirs in zip(*found, strict=True):
        zero = np.zeros(1)
        np.testing.assert_allclose(
            zero if ours is None else ours, zero if theirs is None else theirs, rtol=short, atol=1e-10
        )


def reciprocal_pairs():
    registry = torch.distributions.kl._KL_REGISTRY
    return sorted((p.__name__, q.__name__) for p, q in registry)


CASE_OF = {case.name: case for case in CASES}


def instances(name, package):
    """Two of a family, the second with other parameters."""
    t = lambda *a: package.tensor(a, dtype=package.float64)  # noqa: E731
    d = package.distributions
    if name == "Independent":
        return [d.Independent(d.Normal(t(a, 1.0), t(1.0, b)), 1) for a, b in ((0.3, 1.2), (0.1, 0.6))]
    if name == "TransformedDistribution":
        return [d.LogNormal(t(a, 1.0), t(1.0, b)) for a, b in ((0.3, 1.2), (0.1, 0.6))]
    if name == "ExponentialFamily":
        w = package.tensor([[2.0, 0.3], [0.3, 1.0]], dtype=package.float64)
        return [d.Wishart(package.tensor(df, dtype=package.float64), w * s) for df, s in ((4.0, 1.0), (5.5, 0.7))]
    if name in ("Binomial",):
        return [d.Binomial(5, t(0.2, 0.5, 0.9)), d.Binomial(5, t(0.4, 0.5, 0.3))]
    if name == "Uniform":
        return [d.Uniform(t(0.2, 1.5, -1.0), t(0.7, 4.0, 0.5)), d.Uniform(t(0.1, -1.0, 0.5), t(0.8, 5.0, 2.0))]
    if name == "Pareto":
        return [d.Pareto(t(1.0, 0.5, 3.0), t(0.7, 1.5, 2.5)), d.Pareto(t(0.5, 0.7, 1.0), t(1.5, 1.0, 0.7))]
    made = build(CASE_OF[name], package)
    arguments = leaves(CASE_OF[name], package)
    turned = {
        k: v.flip(0) if isinstance(v, package.Tensor) and v.ndim == 1 and v.shape[0] > 1 and "loc" not in k else v
        for k, v in arguments.items()
    }
    return [made, getattr(d, name)(**turned)]


@pytest.mark.parametrize("pair", reciprocal_pairs(), ids="-".join)
def test_divergences(pair):
    found = []
    for package in (mt, torch):
        first, second = instances(pair[0], package), instances(pair[1], package)
        kl = package.distributions.kl_divergence
        found.append([answer(lambda q=q: kl(first[0], q)) for q in second])  # noqa: B023
    for ours, theirs in zip(*found, strict=True):
        agree(ours, theirs, "-".join(pair), rtol=1e-8)


def test_all_pairs_are_here():
    # Not what other tests have registered.
    registry = mt.distributions.kl._KL_REGISTRY
    ours = {(p.__name__, q.__name__) for p, q in registry if p.__module__.startswith("minitensor.")}
    assert ours == set(reciprocal_pairs())


def test_names_and_arguments():
    for module in ("", ".constraints", ".transforms", ".kl", ".constraint_registry", ".utils"):
        ours, theirs = mt.distributions, torch.distributions
        for part in filter(None, module.split(".")):
            ours, theirs = getattr(ours, part), getattr(theirs, part)
        assert set(theirs.__all__) <= set(dir(ours)), module
        for name in theirs.__all__:
            mine, its = getattr(ours, name), getattr(theirs, name)
            if inspect.isclass(its) and "__init__" in vars(its) and not name.startswith(("stack", "cat")):
                expected = {n: p.default for n, p in inspect.signature(its.__init__).parameters.items()}
                given = inspect.signature(mine.__init__).parameters
                if any(p.kind is p.VAR_POSITIONAL for p in given.values()):
                    continue  # bounds of constraints
                for n, default in expected.items():
                    assert n in given, (name, n)
                    if default is not NotImplemented and not isinstance(default, torch.Size):
                        assert given[n].default == default or default is given[n].default, (name, n)


def test_modules_of_single_distributions():
    import importlib
    import pkgutil

    for module in pkgutil.iter_modules(torch.distributions.__path__):
        theirs = importlib.import_module(f"torch.distributions.{module.name}")
        ours = importlib.import_module(f"minitensor.distributions.{module.name}")
        assert [n for n in theirs.__all__ if not hasattr(ours, n)] == [], module.name


def test_von_mises_draws_pytorchs_numbers():
    found = []
    mt.random.use("torch")
    try:
        for package in (mt, torch):
            package.manual_seed(0)
            for loc, concentration, shape in [(0.0, 1.0, (4,)), ([0.0, 1.0], [0.2, 5.0], (3,)), (1.0, 30.0, ())]:
                made = package.distributions.VonMises(package.tensor(loc), package.tensor(concentration))
                found += [made.sample(shape).numpy(), package.rand(2).numpy()]
    finally:
        mt.random.use("philox")
    for ours, theirs in zip(found[:6], found[6:], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
