"""Schedulers against PyTorch's: the learning rates are equal, and so are states, warnings and errors."""

import copy
import warnings

import numpy as np
import pytest

import minitensor as mt


def torch():
    return pytest.importorskip("torch")


class Factor:
    def __init__(self, base):
        self.base = base

    def __call__(self, x):
        return self.base**x


CYCLE = {"base_lr": 0.01, "max_lr": 0.1}
SIMPLE = [
    ("LambdaLR", lambda o: {"lr_lambda": lambda epoch: 0.95**epoch}),
    ("LambdaLR", lambda o: {"lr_lambda": [lambda epoch: epoch // 3, Factor(0.9)]}),
    ("MultiplicativeLR", lambda o: {"lr_lambda": lambda epoch: 0.95}),
    ("MultiplicativeLR", lambda o: {"lr_lambda": [Factor(0.999), lambda epoch: 1.01]}),
    ("StepLR", lambda o: {"step_size": 7}),
    ("StepLR", lambda o: {"step_size": 3, "gamma": 0.7}),
    ("MultiStepLR", lambda o: {"milestones": [2, 9, 9, 30]}),
    ("ConstantLR", lambda o: {}),
    ("ConstantLR", lambda o: {"factor": 0.3, "total_iters": 11}),
    ("LinearLR", lambda o: {}),
    ("LinearLR", lambda o: {"start_factor": 0.9, "end_factor": 0.1, "total_iters": 20}),
    ("ExponentialLR", lambda o: {"gamma": 0.93}),
    ("PolynomialLR", lambda o: {}),
    ("PolynomialLR", lambda o: {"total_iters": 40, "power": 1.7}),
    ("CosineAnnealingLR", lambda o: {"T_max": 12}),
    ("CosineAnnealingLR", lambda o: {"T_max": 7, "eta_min": 0.003}),
    ("CyclicLR", lambda o: CYCLE | {"step_size_up": 5}),
    ("CyclicLR", lambda o: CYCLE | {"base_lr": [0.01, 0.02], "step_size_up": 5, "step_size_down": 9}),
    ("CyclicLR", lambda o: CYCLE | {"step_size_up": 5, "step_size_down": 9, "mode": "triangular2"}),
    ("CyclicLR", lambda o: CYCLE | {"step_size_up": 6, "mode": "exp_range", "gamma": 0.97}),
    ("CyclicLR", lambda o: CYCLE | {"step_size_up": 6, "scale_fn": lambda x: 0.9**x, "scale_mode": "iterations"}),
    ("CyclicLR", lambda o: CYCLE | {"step_size_up": 6, "scale_fn": Factor(0.5), "cycle_momentum": False}),
    ("OneCycleLR", lambda o: {"max_lr": 0.3, "total_steps": 60}),
    ("OneCycleLR", lambda o: {"max_lr": [0.3, 0.1], "epochs": 11, "steps_per_epoch": 5, "anneal_strategy": "linear"}),
    ("OneCycleLR", lambda o: {"max_lr": 0.3, "total_steps": 60, "three_phase": True, "pct_start": 0.4}),
    ("OneCycleLR", lambda o: {"max_lr": 0.3, "total_steps": 60, "cycle_momentum": False, "div_factor": 3.0}),
    ("CosineAnnealingWarmRestarts", lambda o: {"T_0": 5}),
    ("CosineAnnealingWarmRestarts", lambda o: {"T_0": 4, "T_mult": 2, "eta_min": 0.001}),
    ("SWALR", lambda o: {"swa_lr": 0.05}),
    ("SWALR", lambda o: {"swa_lr": [0.05, 0.2], "anneal_epochs": 17, "anneal_strategy": "linear"}),
    ("SWALR", lambda o: {"swa_lr": 0.05, "anneal_epochs": 0}),
]  # fmt: skip


def sequential(api, o):
    parts = [api.ConstantLR(o, 0.1, 4), api.ExponentialLR(o, 0.9), api.CosineAnnealingLR(o, 9)]
    return api.SequentialLR(o, parts, [4, 20])


def nested(api, o):
    warm = api.SequentialLR(o, [api.LinearLR(o, 0.1, 1.0, 3), api.StepLR(o, 2, 0.5)], [3])
    return api.SequentialLR(o, [warm, api.PolynomialLR(o, 10)], [15])


def chained(api, o):
    return api.ChainedScheduler([api.ConstantLR(o, 0.1, 4), api.ExponentialLR(o, 0.9)])


def chained_for(api, o):
    return api.ChainedScheduler([api.StepLR(o, 3), api.LinearLR(o)], optimizer=o)


SEVERAL = [sequential, nested, chained, chained_for]


def optimizer_of(module, kind="SGD", tensors=False):
    params = [module.nn.Parameter(module.ones(2)) for _ in range(2)]
    for p in params:
        p.grad = module.ones(2)
    rate = module.tensor(0.1, dtype=module.float64) if tensors else 0.1
    options = {"momentum": 0.9} if kind == "SGD" else {}
    return getattr(module.optim, kind)([{"params": params[:1]}, {"params": params[1:], "lr": 0.35}], lr=rate, **options)


def made(module, row, optimizer):
    if callable(row):
        return row(module.optim.lr_scheduler, optimizer)
    name, options = row
    home = module.optim.swa_utils if name == "SWALR" else module.optim.lr_scheduler
    return getattr(home, name)(optimizer, **options(optimizer))


def name_of(row):
    return row.__name__ if callable(row) else row[0]


def seen(optimizer, scheduler):
    groups = [
        {k: v for k, v in g.items() if k in ("lr", "momentum", "betas", "initial_lr")} for g in optimizer.param_groups
    ]
    return copy.deepcopy(groups), list(scheduler.get_last_lr())


@pytest.mark.filterwarnings("ignore:Detected call of")  # one in another warns when it is made, in PyTorch too
@pytest.mark.parametrize("row", SIMPLE + SEVERAL, ids=name_of)
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_fifty_steps(row, kind):
    found = []
    for module in (mt, torch()):
        optimizer = optimizer_of(module, kind)
        scheduler = made(module, row, optimizer)
        rates = [seen(optimizer, scheduler)]
        for _ in range(50):
            optimizer.step()
            scheduler.step()
            rates.append(seen(optimizer, scheduler))
        found.append(rates)
    assert found[0] == found[1]


def plain(state):
    """A state without functions and the like, for comparisons."""
    if isinstance(state, dict):
        return {k: plain(v) for k, v in state.items() if not callable(v) and k != "anneal_func"}
    return [plain(v) for v in state] if isinstance(state, (list, tuple)) else state


@pytest.mark.filterwarnings("ignore:Detected call of")  # one in another warns when it is made, in PyTorch too
@pytest.mark.parametrize("row", SIMPLE + SEVERAL, ids=name_of)
def test_states_go_both_ways(row):
    ours, theirs = ((m, optimizer_of(m)) for m in (mt, torch()))
    mine, peer = made(*ours[:1], row, ours[1]), made(*theirs[:1], row, theirs[1])
    for _ in range(9):
        for optimizer, scheduler in ((ours[1], mine), (theirs[1], peer)):
            optimizer.step()
            scheduler.step()
    saved = copy.deepcopy(mine.state_dict()), copy.deepcopy(peer.state_dict())
    assert plain(saved[0]) == plain(saved[1])
    for (module, old), state in ((ours, saved[1]), (theirs, saved[0])):
        optimizer = optimizer_of(module)
        fresh = made(module, row, optimizer)
        optimizer.load_state_dict(old.state_dict())
        fresh.load_state_dict(copy.deepcopy(state))
        for _ in range(9):
            optimizer.step()
            fresh.step()
        scheduler, other = (mine, ours[1]) if module is mt else (peer, theirs[1])
        for _ in range(9):
            other.step()
            scheduler.step()
        assert seen(optimizer, fresh) == seen(other, scheduler)


@pytest.mark.parametrize("options", [
    {}, {"patience": 2, "factor": 0.3}, {"mode": "max", "patience": 1},
    {"threshold_mode": "abs", "threshold": 0.05, "patience": 1},
    {"mode": "max", "threshold_mode": "abs", "patience": 1, "cooldown": 3, "min_lr": [0.01, 0.05]},
    {"patience": 0, "eps": 0.02},
], ids=str)  # fmt: skip
def test_plateau(options):
    metrics = np.random.default_rng(5).normal(size=50)
    found = []
    for module in (mt, torch()):
        optimizer = optimizer_of(module)
        scheduler = module.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        rates = []
        for at, metric in enumerate(metrics):
            scheduler.step(module.tensor(metric) if at % 2 else metric)
            rates.append((seen(optimizer, scheduler), scheduler.num_bad_epochs, scheduler.in_cooldown))
        fresh = module.optim.lr_scheduler.ReduceLROnPlateau(optimizer_of(module), **options)
        fresh.load_state_dict(scheduler.state_dict())
        rates.append(plain(fresh.state_dict()))
        found.append(rates)
    assert found[0] == found[1]


CLOSED = [row for row in SIMPLE if row[0] not in ("SWALR", "CyclicLR", "OneCycleLR", "LambdaLR", "MultiplicativeLR")]


@pytest.mark.parametrize("row", CLOSED, ids=name_of)
def test_epochs_may_be_given(row):
    found = []
    for module in (mt, torch()):
        optimizer = optimizer_of(module)
        scheduler = made(module, row, optimizer)
        rates, texts = [], []
        for epoch in (1, 2, 5, 3, 17, 40):
            optimizer.step()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                scheduler.step(epoch)
            texts.append([(w.category, str(w.message)) for w in caught])
            rates.append(seen(optimizer, scheduler))
        found.append((rates, texts))
    assert found[0] == found[1]


@pytest.mark.parametrize("row", [r for r in SIMPLE if r[0] not in ("CyclicLR", "OneCycleLR")], ids=name_of)
def test_going_on_from_an_epoch(row):
    found = []
    for module in (mt, torch()):
        optimizer = optimizer_of(module)
        for group in optimizer.param_groups:
            group["initial_lr"] = 0.5
        name, options = row
        home = module.optim.swa_utils if name == "SWALR" else module.optim.lr_scheduler
        scheduler = getattr(home, name)(optimizer, last_epoch=6, **options(optimizer))
        rates = [seen(optimizer, scheduler)]
        for _ in range(12):
            optimizer.step()
            scheduler.step()
            rates.append(seen(optimizer, scheduler))
        found.append(rates)
    assert found[0] == found[1]


def test_a_cosine_whose_first_step_is_in_the_middle():
    optimizer = mt.optim.SGD([mt.nn.Parameter(mt.ones(1))], lr=0.5)
    scheduler = mt.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10, eta_min=0.1)
    scheduler.load_state_dict({"last_epoch": 3, "_step_count": 0})
    optimizer.step()
    scheduler.step()
    assert scheduler.get_last_lr() == pytest.approx([0.1 + (0.5 - 0.1) * (1 + np.cos(0.4 * np.pi)) / 2])


@pytest.mark.parametrize("row", [SIMPLE[4], SIMPLE[9], SIMPLE[11], SIMPLE[14], sequential], ids=name_of)
def test_rates_in_tensors_are_written(row):
    found = []
    for module in (mt, torch()):
        optimizer = optimizer_of(module, tensors=True)
        rate = optimizer.param_groups[0]["lr"]
        scheduler = made(module, row, optimizer)
        rates = []
        for _ in range(20):
            optimizer.step()
            scheduler.step()
            rates.append(rate.item())
        assert optimizer.param_groups[0]["lr"] is rate
        assert scheduler.get_last_lr()[0] is not rate
        found.append(rates)
    assert found[0] == pytest.approx(found[1], rel=1e-14)


def warned(module, act):
    optimizer = optimizer_of(module)
    scheduler = module.optim.lr_scheduler.StepLR(optimizer, 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act(optimizer, scheduler)
    assert module is not mt or all(w.filename == __file__ for w in caught)
    return [(w.category, str(w.message)) for w in caught]


def too_early(_, scheduler):
    scheduler.step()
    scheduler.step()


def overridden(optimizer, scheduler):
    optimizer.step = lambda: None
    optimizer.step()
    scheduler.step()


ACTS = [too_early, overridden, lambda o, s: s.get_lr(), lambda o, s: (o.step(), s.step(), s.step(3))]


@pytest.mark.parametrize("number", range(len(ACTS)))
def test_warnings(number):
    expected = warned(torch(), ACTS[number])
    assert expected or number == 1
    assert warned(mt, ACTS[number]) == expected


def errors(api, o, other):
    s = api.StepLR(o, 2)
    plateau = api.ReduceLROnPlateau(o)
    yield lambda: api.StepLR(3, 2)
    yield lambda: api.StepLR(o, 2, last_epoch=3) if o.param_groups[0].pop("initial_lr") else None
    yield lambda: api.LambdaLR(o, [len])
    yield lambda: api.MultiplicativeLR(o, [len, 3])
    yield lambda: api.ConstantLR(o, 2.0)
    yield lambda: api.LinearLR(o, 0.0)
    yield lambda: api.LinearLR(o, 0.5, 2.0)
    yield lambda: api.SequentialLR(o, [], [])
    yield lambda: api.SequentialLR(o, [3], [])
    yield lambda: api.SequentialLR(o, [plateau], [])
    yield lambda: api.SequentialLR(o, [s], [3])
    yield lambda: api.SequentialLR(other, [s], [])
    yield lambda: api.ChainedScheduler([])
    yield lambda: api.ChainedScheduler([s, 3])
    yield lambda: api.ChainedScheduler([s, plateau])
    yield lambda: api.ReduceLROnPlateau(o, factor=1.0)
    yield lambda: api.ReduceLROnPlateau(o, mode="x")
    yield lambda: api.ReduceLROnPlateau(o, threshold_mode="x")
    yield lambda: api.ReduceLROnPlateau(o, min_lr=[1.0])
    yield lambda: api.ReduceLROnPlateau(3)
    yield lambda: api.CyclicLR(o, [0.1], 0.2)
    yield lambda: api.CyclicLR(o, 0.1, 0.2, mode="x")
    yield lambda: api.OneCycleLR(o, 0.1)
    yield lambda: api.OneCycleLR(o, 0.1, total_steps=0)
    yield lambda: api.OneCycleLR(o, 0.1, epochs=0, steps_per_epoch=3)
    yield lambda: api.OneCycleLR(o, 0.1, epochs=2, steps_per_epoch=0.5)
    yield lambda: api.OneCycleLR(o, 0.1, total_steps=5, pct_start=1)
    yield lambda: api.OneCycleLR(o, 0.1, total_steps=5, anneal_strategy="x")
    yield lambda: [api.OneCycleLR(o, 0.1, total_steps=2).step() for _ in range(9)]
    yield lambda: api.CosineAnnealingWarmRestarts(o, 0)
    yield lambda: api.CosineAnnealingWarmRestarts(o, 3, 0)
    yield lambda: api.CosineAnnealingWarmRestarts(o, 3, eta_min="x")
    yield lambda: api.CosineAnnealingWarmRestarts(o, 3).step(-1)
    yield lambda: api.LRScheduler(o).step()


@pytest.mark.parametrize("number", range(34))
def test_errors(number):
    found = []
    for module in (mt, torch()):
        calls = list(errors(module.optim.lr_scheduler, optimizer_of(module), optimizer_of(module)))
        assert len(calls) == 34
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                calls[number]()
                found.append(None)
            except Exception as error:
                found.append((type(error), str(error)))
    assert found[0] == found[1]
    assert found[0] is not None or number == 28


def test_names():
    api = torch().optim.lr_scheduler
    for name in [*api.__all__, "_LRScheduler", "Optimizer"]:
        assert hasattr(mt.optim.lr_scheduler, name), name
    for name in torch().optim.swa_utils.__all__:
        assert hasattr(mt.optim.swa_utils, name), name


AVERAGES = [
    {}, {"avg_fn": "get_ema_avg_fn"}, {"avg_fn": "get_swa_avg_fn"}, {"multi_avg_fn": "get_ema_multi_avg_fn"},
    {"multi_avg_fn": "get_swa_multi_avg_fn"}, {"multi_avg_fn": "get_ema_multi_avg_fn", "use_buffers": True},
]  # fmt: skip


@pytest.mark.parametrize("options", AVERAGES, ids=str)
def test_averaged_models(options):
    rng = np.random.default_rng(2)
    weights, means = rng.normal(size=(6, 3, 2)), rng.normal(size=(6, 3))
    found = []
    for module in (mt, torch()):
        model = module.nn.Sequential(module.nn.Linear(2, 3, bias=False), module.nn.BatchNorm1d(3))
        api = module.optim.swa_utils
        given = {k: getattr(api, v)() if isinstance(v, str) else v for k, v in options.items()}
        average = api.AveragedModel(model, **given)
        for weight, mean in zip(weights, means, strict=True):
            with module.no_grad():
                model[0].weight.copy_(module.tensor(weight))
                model[1].running_mean.copy_(module.tensor(mean))
                model[1].num_batches_tracked += 3
            average.update_parameters(model)
        found.append({k: v.numpy() for k, v in average.state_dict().items()})
    assert list(found[0]) == list(found[1])
    for key, value in found[0].items():
        assert value.dtype == found[1][key].dtype
        np.testing.assert_allclose(value, found[1][key], rtol=1e-5, err_msg=key)


def test_averages_refuse():
    for module in (mt, torch()):
        api = module.optim.swa_utils
        with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
            api.AveragedModel(
                module.nn.Linear(2, 2), avg_fn=api.get_swa_avg_fn(), multi_avg_fn=api.get_swa_multi_avg_fn()
            )
        for name in ("get_ema_avg_fn", "get_ema_multi_avg_fn"):
            with pytest.raises(ValueError, match=r"Invalid decay value 1\.5 provided"):
                getattr(api, name)(1.5)
        with pytest.raises(ValueError, match="must have the same length as optimizer"):
            api.SWALR(optimizer_of(module), [0.1])
        with pytest.raises(ValueError, match="anneal_strategy must be one of"):
            api.SWALR(optimizer_of(module), 0.1, anneal_strategy="x")
        with pytest.raises(ValueError, match="anneal_epochs must be equal or greater than 0, got -1"):
            api.SWALR(optimizer_of(module), 0.1, anneal_epochs=-1)


def test_update_bn():
    batches = np.random.default_rng(3).normal(size=(4, 5, 3)).astype(np.float32)
    found = []
    for module in (mt, torch()):
        model = module.nn.Sequential(module.nn.BatchNorm1d(3), module.nn.ReLU()).eval()
        module.optim.swa_utils.update_bn([(module.tensor(b), 0) for b in batches], model)
        assert not model.training
        assert model[0].momentum == 0.1
        found.append([model[0].running_mean.numpy(), model[0].running_var.numpy(), model[0].num_batches_tracked.item()])
    for mine, peer in zip(*found, strict=True):
        np.testing.assert_allclose(mine, peer, rtol=1e-5)


@pytest.mark.at_once(reason="counts the calls of a program, which a recording around it leaves out")
def test_a_program_reads_scheduled_rates():
    param = mt.nn.Parameter(mt.ones(3))
    optimizer = mt.optim.Adam([param], lr=0.1)
    scheduler = mt.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    twin = mt.nn.Parameter(mt.ones(3))
    other = mt.optim.Adam([twin], lr=0.1)

    def step(x):
        optimizer.zero_grad()
        (param * x).sum().backward()
        optimizer.step()

    program = mt.function(step, jit_compile=True)
    for at in range(8):
        program(mt.tensor(at + 1.0))
        twin.grad = mt.full((3,), at + 1.0)
        other.step()
        scheduler.step()
        other.param_groups[0]["lr"] *= 0.5
        assert param.tolist() == twin.tolist()
    assert program.hits >= 5
