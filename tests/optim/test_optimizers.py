"""Every optimizer against PyTorch's: values, states, options, errors, texts."""

import copy
import inspect
import re
import warnings

import numpy as np
import pytest

import minitensor as mt

from .optimizers import OF_MATRICES, ROWS, name_of

SHAPES = [(3, 4), (5,), (2, 3, 2), ()]


def torch():
    return pytest.importorskip("torch")


def both(row, shapes, dtype, groups=None):
    """The same parameters in both, with optimizers; and gradients for 20 steps, some of which are missing."""
    lib, rng = torch(), np.random.default_rng(len(row[0]))
    starts = [rng.normal(size=shape) for shape in shapes]
    made = []
    for module in (mt, lib):
        params = [module.nn.Parameter(module.tensor(s, dtype=getattr(module, dtype))) for s in starts]
        given = params if groups is None else [{"params": params[:1]}, {"params": params[1:], **groups}]
        made.append((module, params, getattr(module.optim, row[0])(given, **row[1])))
    grads = [[rng.normal(size=shape) * (at % 3 + 0.5) for shape in shapes] for at in range(20)]
    return made, grads


def steps(made, grads, dtype):
    for at, of_step in enumerate(grads):
        for module, params, optimizer in made:
            for number, (param, grad) in enumerate(zip(params, of_step, strict=True)):
                param.grad = None if (at, number) == (1, 1) else module.tensor(grad, dtype=getattr(module, dtype))
            optimizer.step()


def array(tensor):
    return np.asarray(tensor.detach().numpy(), dtype=np.float64)


def agree(mine, peer, rtol, what=""):
    """To the rounding of sums of products, which PyTorch's kernels fuse: relative to the largest element."""
    scale = max(np.abs(peer).max(initial=0), 1e-30)
    np.testing.assert_allclose(mine, peer, rtol=rtol, atol=rtol * scale, err_msg=what)


def check_all(made, rtol):
    (_, ours, mine), (_, theirs, peer) = made
    for a, b in zip(ours, theirs, strict=True):
        agree(array(a), array(b), rtol)
        assert list(mine.state[a]) == list(peer.state[b])
        for key, value in mine.state[a].items():
            other = peer.state[b][key]
            assert str(value.dtype).split(".")[1] == str(other.dtype).split(".")[1], key
            assert tuple(value.shape) == tuple(other.shape)
            agree(array(value), array(other), rtol, key)


@pytest.mark.parametrize("row", ROWS, ids=name_of)
@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-12), ("float32", 2e-5)])
def test_twenty_steps(row, dtype, rtol):
    made, grads = both(row, SHAPES, dtype)
    steps(made, grads, dtype)
    check_all(made, rtol)
    assert repr(made[0][2]) == repr(made[1][2])
    assert made[0][2].defaults == made[1][2].defaults
    assert list(made[0][2].param_groups[0]) == list(made[1][2].param_groups[0])


@pytest.mark.parametrize("row", OF_MATRICES, ids=name_of)
def test_twenty_steps_of_matrices(row):
    # The iteration is in bfloat16, whose products are summed in another order: of updates of about 1, in 8 bits.
    made, grads = both(row, [(4, 6), (6, 3)], "float32")
    steps(made, grads, "float32")
    (_, ours, mine), (_, theirs, peer) = made
    moved = 20 * row[1].get("lr", 1e-3)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(array(a), array(b), atol=moved * 2**-6)
        agree(array(mine.state[a]["momentum_buffer"]), array(peer.state[b]["momentum_buffer"]), 2e-6)
    assert repr(mine) == repr(peer)


GROUPS = [
    ("Adam", {"lr": 0.1}, {"lr": 0.01, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1}, {"momentum": 0.5, "maximize": True}),
    ("RMSprop", {}, {"centered": True, "momentum": 0.5}),
    ("NAdam", {}, {"betas": (0.5, 0.5)}),
    ("Adafactor", {}, {"eps": (1e-3, 1e-3)}),
]


@pytest.mark.parametrize(("name", "options", "of_second"), GROUPS, ids=[g[0] for g in GROUPS])
def test_options_of_groups(name, options, of_second):
    made, grads = both((name, options), SHAPES, "float64", of_second)
    steps(made, grads, "float64")
    check_all(made, 1e-12)
    assert repr(made[0][2]) == repr(made[1][2])


@pytest.mark.parametrize(
    "name", ["Adadelta", "Adagrad", "Adam", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"]
)
def test_complex_parameters(name):
    lib, rng = torch(), np.random.default_rng(3)
    start, grads = rng.normal(size=(2, 3)), rng.normal(size=(20, 2, 3, 2))
    made = []
    for module in (mt, lib):
        param = module.nn.Parameter(module.tensor(start + 1j * start[::-1]))
        options = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
        optimizer = getattr(module.optim, name)([param], lr=0.1, **options)
        for grad in grads:
            param.grad = module.tensor(grad[..., 0] + 1j * grad[..., 1])
            optimizer.step()
        made.append((param.detach().numpy(), {k: v.numpy() for k, v in optimizer.state[param].items()}))
    np.testing.assert_allclose(made[0][0], made[1][0], rtol=1e-11)
    for key, value in made[0][1].items():
        assert value.dtype == made[1][1][key].dtype
        np.testing.assert_allclose(value, made[1][1][key], rtol=1e-11, err_msg=key)


@pytest.mark.parametrize("name", ["Adafactor", "Muon"])
def test_who_takes_no_complex_parameters(name):
    for module in (mt, torch()):
        param = module.nn.Parameter(module.ones((2, 2), dtype=module.complex64))
        param.grad = module.ones((2, 2), dtype=module.complex64)
        with pytest.raises(RuntimeError, match=f"{name} does not support complex parameters"):
            getattr(module.optim, name)([param]).step()


BAD = [
    ("Adadelta", {"lr": -1}), ("Adadelta", {"rho": 1.5}), ("Adadelta", {"eps": -1}), ("Adadelta", {"weight_decay": -1}),
    ("Adafactor", {"lr": -1}), ("Adafactor", {"beta2_decay": 1}), ("Adafactor", {"eps": (-1, 1)}),
    ("Adafactor", {"eps": (None, -1)}), ("Adafactor", {"d": 0.5}), ("Adafactor", {"weight_decay": -1}),
    ("Adagrad", {"lr": -1}), ("Adagrad", {"lr_decay": -1}), ("Adagrad", {"weight_decay": -1}),
    ("Adagrad", {"initial_accumulator_value": -1}), ("Adagrad", {"eps": -1}),
    ("Adagrad", {"fused": True, "foreach": True}), ("Adagrad", {"fused": True, "differentiable": True}),
    ("Adam", {"lr": -1}), ("Adam", {"eps": -1}), ("Adam", {"betas": (1.0, 0.5)}), ("Adam", {"betas": (0.5, -0.5)}),
    ("Adam", {"betas": (0, 0.5)}), ("Adam", {"weight_decay": -1}), ("Adam", {"fused": True, "foreach": True}),
    ("Adam", {"fused": True, "differentiable": True}), ("AdamW", {"lr": -1}), ("AdamW", {"weight_decay": -1}),
    ("Adamax", {"lr": -1}), ("Adamax", {"eps": -1}), ("Adamax", {"betas": (1.0, 0.5)}),
    ("Adamax", {"weight_decay": -1}),
    ("ASGD", {"lr": -1}), ("ASGD", {"weight_decay": -1}), ("LBFGS", {"lr": -1}),
    ("Muon", {"lr": -1}), ("Muon", {"momentum": -1}), ("Muon", {"weight_decay": -1}), ("Muon", {"adjust_lr_fn": "x"}),
    ("NAdam", {"lr": -1}), ("NAdam", {"eps": -1}), ("NAdam", {"betas": (0.5, 1.0)}), ("NAdam", {"weight_decay": -1}),
    ("NAdam", {"momentum_decay": -1}), ("RAdam", {"lr": -1}), ("RAdam", {"eps": -1}), ("RAdam", {"betas": (0.5, 1.0)}),
    ("RAdam", {"weight_decay": -1}), ("RMSprop", {"lr": -1}), ("RMSprop", {"eps": -1}), ("RMSprop", {"momentum": -1}),
    ("RMSprop", {"weight_decay": -1}), ("RMSprop", {"alpha": -1}), ("Rprop", {"lr": -1}),
    ("Rprop", {"etas": (1.0, 1.2)}),
    ("SGD", {"lr": -1}), ("SGD", {"momentum": -1}), ("SGD", {"weight_decay": -1}), ("SGD", {"nesterov": True}),
    ("SGD", {"fused": True, "foreach": True}), ("SGD", {"fused": True, "differentiable": True}),
    ("SparseAdam", {"lr": 0.0}), ("SparseAdam", {"eps": 0.0}), ("SparseAdam", {"betas": (1.0, 0.5)}),
]  # fmt: skip
TENSORS = [
    (name, "lr", [0.1, 0.2]) for name in ("Adadelta", "Adam", "Adamax", "ASGD", "LBFGS", "RMSprop", "Rprop", "SGD")
]


def raised(module, name, options):
    try:
        getattr(module.optim, name)([module.nn.Parameter(module.ones((2, 2)))], **options)
    except Exception as error:
        return type(error), str(error)
    return None


@pytest.mark.parametrize(("name", "options"), BAD, ids=str)
def test_bad_options(name, options):
    expected = raised(torch(), name, options)
    assert expected is not None
    assert raised(mt, name, options) == expected


@pytest.mark.parametrize(("name", "key", "value"), TENSORS, ids=str)
def test_a_rate_has_one_element(name, key, value):
    assert raised(mt, name, {key: mt.tensor(value)}) == raised(torch(), name, {key: torch().tensor(value)})


@pytest.mark.parametrize("options", [{"lr": 0.1, "foreach": True}, {"betas": (0.5, 0.5), "foreach": True}], ids=str)
def test_tensors_as_options_of_adam(options):
    def made(module):
        key = "lr" if "lr" in options else "betas"
        value = module.tensor(0.1) if key == "lr" else (module.tensor(0.5), module.tensor(0.5))
        return raised(module, "Adam", options | {key: value})

    assert made(mt) == made(torch()) != None  # noqa: E711


def bad_groups(module):
    p, q = (module.nn.Parameter(module.ones(2)) for _ in range(2))
    sgd = module.optim.SGD
    yield lambda: sgd(p)
    yield lambda: sgd([])
    yield lambda: sgd([3])
    yield lambda: sgd([{"params": {p}}])
    yield lambda: sgd([p * 2])
    yield lambda: sgd([{"params": [p]}, {"params": [p]}])
    yield lambda: sgd([{"params": [p]}, [q]])
    yield lambda: sgd([("a", p), q])
    yield lambda: sgd([{"params": [("a", p)]}, {"params": [q]}])
    yield lambda: sgd([{"params": [p]}, {"params": [("a", q)]}])
    yield lambda: sgd([p]).load_state_dict({"state": {}, "param_groups": []})
    yield lambda: sgd([p]).load_state_dict({"state": {}, "param_groups": [{"params": [0, 1]}]})
    yield lambda: module.optim.Optimizer([p], {}).step()
    yield lambda: module.optim.Muon([p])
    yield lambda: module.optim.LBFGS([{"params": [p]}, {"params": [q]}])
    yield lambda: module.optim.SparseAdam([module.nn.Parameter(module.ones(2, dtype=module.complex64))])


@pytest.mark.parametrize("number", range(16))
def test_bad_groups(number):
    found = []
    for module in (mt, torch()):
        with pytest.raises(Exception) as error:  # noqa: PT011  (compared)
            list(bad_groups(module))[number]()
        text = re.sub(r"(torch|minitensor)\.(nn\.parameter\.Parameter|Parameter|FloatTensor)", "*", str(error.value))
        found.append((error.type, text.replace("minitensor.Size", "torch.Size")))
    assert found[0] == found[1]


def test_names_and_duplicates():
    for module in (mt, torch()):
        p, q = (module.nn.Parameter(module.ones(2)) for _ in range(2))
        optimizer = module.optim.Adam([("a", p), ("b", q)])
        assert optimizer.param_groups[0]["param_names"] == ["a", "b"]
        saved = optimizer.state_dict()
        assert saved["param_groups"][0]["param_names"] == ["a", "b"]
        del saved["param_groups"][0]["param_names"]
        optimizer.load_state_dict(saved)
        assert optimizer.param_groups[0]["param_names"] == ["a", "b"]
        with pytest.warns(UserWarning, match="duplicate parameters"):
            twice = module.optim.SGD([p, p], lr=0.5)
        assert twice.state_dict()["param_groups"][0]["params"] == [1, 1]
        p.grad = module.ones(2)
        twice.step()
        assert p.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("row", [r for r in ROWS if r[0] != "Adafactor" or not r[1]], ids=name_of)
def test_states_of_the_other(row):
    """A state goes from one to the other in the middle, and both go on alike."""
    made, grads = both(row, SHAPES, "float64")
    steps(made, grads[:7], "float64")
    (_, _, mine), (lib, _, peer) = made

    def converted(state, tensor):
        return {
            "state": {k: {n: tensor(v) for n, v in of.items()} for k, of in state["state"].items()},
            "param_groups": copy.deepcopy(state["param_groups"]),
        }

    saved = mine.state_dict(), peer.state_dict()
    mine.load_state_dict(converted(saved[1], lambda t: mt.tensor(t.numpy())))
    peer.load_state_dict(converted(saved[0], lambda t: lib.tensor(t.numpy())))
    steps(made, grads[7:], "float64")
    check_all(made, 1e-12)


def test_a_state_of_torch_is_taken_as_it_is():
    made, grads = both(("Adam", {}), SHAPES, "float32")
    steps(made, grads[:3], "float32")
    (_, ours, mine), (_, theirs, peer) = made
    mine.load_state_dict(peer.state_dict())
    for a, b in zip(ours, theirs, strict=True):
        for key, value in mine.state[a].items():
            assert isinstance(value, mt.Tensor)
            np.testing.assert_array_equal(value.numpy(), peer.state[b][key].numpy())


def test_older_states_have_numbers_of_steps_and_lack_options():
    for module in (mt, torch()):
        p = module.nn.Parameter(module.ones(2))
        optimizer = module.optim.NAdam([p])
        p.grad = module.ones(2)
        optimizer.step()
        saved = optimizer.state_dict()
        saved["state"][0] |= {"step": 7, "mu_product": 0.5}
        for key in ("capturable", "maximize", "decoupled_weight_decay"):
            del saved["param_groups"][0][key]
        optimizer.load_state_dict(saved)
        state = optimizer.state[p]
        assert (state["step"].item(), state["mu_product"].item()) == (7.0, 0.5)
        assert optimizer.param_groups[0]["maximize"] is False
        optimizer.step()
        assert state["step"].item() == 8.0


def hooked(module, log):
    p = module.nn.Parameter(module.ones(2))
    optimizer = module.optim.SGD([p], lr=0.5)
    api = module.optim.optimizer if module is mt else __import__("torch.optim.optimizer", fromlist=["x"])

    def note(name, result=None):
        return lambda *a: log.append((name, len(a))) or result

    handles = [
        api.register_optimizer_step_pre_hook(note("global pre")),
        api.register_optimizer_step_post_hook(note("global post")),
        optimizer.register_step_pre_hook(note("pre", ((optimizer, lambda: log.append("closure") or 3.0), {}))),
        optimizer.register_step_post_hook(note("post")),
        optimizer.register_state_dict_pre_hook(note("state")),
        optimizer.register_state_dict_post_hook(lambda o, s: s | {"more": 1}),
        optimizer.register_load_state_dict_pre_hook(lambda o, s: log.append(sorted(s))),
        optimizer.register_load_state_dict_pre_hook(note("first"), prepend=True),
        optimizer.register_load_state_dict_post_hook(note("loaded")),
    ]
    log.append(optimizer.step())
    optimizer.load_state_dict(optimizer.state_dict())
    for handle in handles:
        handle.remove()
    log.append(optimizer.step())
    log.append(sorted(optimizer.state_dict()))
    optimizer.register_step_pre_hook(note("bad", 3))
    with pytest.raises(RuntimeError, match="must return None or a tuple of"):
        optimizer.step()


@pytest.mark.parametrize("name", sorted({name for name, _ in ROWS}))
def test_options_that_a_pickle_lacks_are_those_of_pytorch(name):
    """Older versions had fewer options: what each of them is for their pickles isn't always a new one's default."""

    def after(xp, lacking):
        optimizer = getattr(xp.optim, name)([xp.ones(2)])
        state = optimizer.__getstate__()
        group = {key: value for key, value in state["param_groups"][0].items() if key != lacking}
        optimizer.__setstate__(state | {"param_groups": [group]})
        return optimizer.param_groups[0].get(lacking, "nothing")

    peer = torch()
    options = [key for key in getattr(peer.optim, name)([peer.ones(2)]).param_groups[0] if key != "params"]
    assert {key: after(mt, key) for key in options} == {key: after(peer, key) for key in options}


def test_hooks():
    mine, peer = [], []
    hooked(mt, mine)
    hooked(torch(), peer)
    assert mine == peer


def test_hooks_of_a_class_of_the_users():
    for module in (mt, torch()):
        log = []

        class Mine(module.optim.Optimizer):
            def __init__(self, params):
                super().__init__(params, {"lr": 0.5})

            def step(self, closure=None):
                for group in self.param_groups:
                    for p in group["params"]:
                        p.data.add_(p.grad, alpha=-group["lr"])
                return 7

        p = module.nn.Parameter(module.ones(2))
        p.grad = module.ones(2)
        optimizer = Mine([p])
        optimizer.register_step_post_hook(lambda *a: log.append(len(a)))  # noqa: B023
        assert (optimizer.step(), log, p.tolist()) == (7, [3], [0.5, 0.5])
        assert optimizer._zero_grad_profile_name == "Optimizer.zero_grad#Mine.zero_grad"


@pytest.mark.parametrize("row", ROWS[::3], ids=name_of)
def test_copies_of_optimizers_go_on_alike(row):
    made, grads = both(row, [(3,)], "float64")
    made = made[:1]
    steps(made, grads[:3], "float64")
    param, optimizer = made[0][1][0], made[0][2]
    twin = copy.deepcopy(optimizer)
    other = twin.param_groups[0]["params"][0]
    assert other is not param
    steps([*made, (mt, [other], twin)], grads[3:6], "float64")
    np.testing.assert_array_equal(array(param), array(other))


DIFFERENTIABLE = [
    ("Adadelta", {"weight_decay": 0.1}), ("Adagrad", {"weight_decay": 0.1}), ("Adam", {"weight_decay": 0.1}),
    ("AdamW", {}), ("ASGD", {}), ("RAdam", {"betas": (0.5, 0.9)}), ("RMSprop", {}),
    ("SGD", {"momentum": 0.5, "nesterov": True}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), DIFFERENTIABLE, ids=str)
def test_gradients_flow_through_steps(name, options):
    """Of a function of the parameter after six steps, by the gradients, which depend on it."""
    grads = []
    for module in (mt, torch()):
        start = module.tensor([0.5, -1.5, 2.0], dtype=module.float64, requires_grad=True)
        factor = module.tensor(0.75, dtype=module.float64, requires_grad=True)
        param = start.clone()
        optimizer = getattr(module.optim, name)([param], lr=0.1, differentiable=True, **options)
        for at in range(6):
            param.grad = (start * start * factor + at).sin()
            optimizer.step()
        (param * param).sum().backward()
        grads.append((param.detach().numpy(), start.grad.numpy(), factor.grad.numpy()))
    # There PyTorch computes with counts of steps in float32.
    rtol = 1e-3 if name in ("Adam", "AdamW", "NAdam") else 1e-9
    for mine, peer in zip(*grads, strict=True):
        np.testing.assert_allclose(mine, peer, rtol=rtol)


EVERY_TERM = [
    ("Adadelta", {}), ("Adagrad", {}), ("Adam", {"amsgrad": True}), ("AdamW", {"maximize": True}), ("Adamax", {}),
    ("ASGD", {"t0": 1.0}), ("NAdam", {}), ("RAdam", {"betas": (0.5, 0.9)}),
    ("RMSprop", {"centered": True, "momentum": 0.5}), ("SGD", {"weight_decay": 0.5}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), EVERY_TERM, ids=str)
def test_gradients_of_steps_by_finite_differences(name, options):
    def after(start, factor):
        param = start.clone()
        optimizer = getattr(mt.optim, name)([param], lr=0.1, differentiable=True, **options)
        for at in range(7):
            param.grad = (start * start * factor + at).sin()
            optimizer.step()
        return param

    start = mt.tensor([0.5, -1.5, 2.0], dtype=mt.float64, requires_grad=True)
    assert mt.autograd.gradcheck(after, (start, mt.tensor(0.75, dtype=mt.float64, requires_grad=True)))


@pytest.mark.parametrize("name", ["Adam", "SGD", "RMSprop", "Adagrad"])
def test_gradients_of_rates_by_finite_differences(name):
    def after(rate):
        param = mt.tensor([1.0, 2.0], dtype=mt.float64)
        options = {"momentum": 0.5} if name in ("SGD", "RMSprop") else {}
        optimizer = getattr(mt.optim, name)([param], lr=rate, differentiable=True, **options)
        for at in range(3):
            param.grad = mt.tensor([0.5, at - 1.25], dtype=mt.float64)
            optimizer.step()
        return param

    assert mt.autograd.gradcheck(after, (mt.tensor(0.1, dtype=mt.float64, requires_grad=True),))


def test_gradients_of_the_rate():
    found = []
    for module in (mt, torch()):
        rate = module.tensor(0.1, dtype=module.float64, requires_grad=True)
        param = module.tensor([1.0, 2.0], dtype=module.float64, requires_grad=True).clone()
        optimizer = module.optim.SGD([param], lr=rate, differentiable=True)
        for at in range(3):
            param.grad = module.tensor([0.5, at - 1.0], dtype=module.float64)
            optimizer.step()
        param.sum().backward()
        found.append((param.detach().numpy(), rate.grad.numpy()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-12)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-12)


@pytest.mark.parametrize(
    "name", ["Adadelta", "Adam", "AdamW", "Adagrad", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"]
)
def test_a_tensor_as_rate(name):
    found = []
    for module in (mt, torch()):
        param = module.nn.Parameter(module.tensor([1.0, 2.0], dtype=module.float64))
        optimizer = getattr(module.optim, name)([param], lr=module.tensor(0.1, dtype=module.float64))
        for at in range(8):
            param.grad = module.tensor([0.5, at - 3.5], dtype=module.float64)
            optimizer.step()
        found.append(param.detach().numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


LBFGS = [
    {}, {"lr": 0.5, "max_iter": 5}, {"line_search_fn": "strong_wolfe"},
    # The first step goes too far, and is searched for between two points.
    {"lr": 3.0, "line_search_fn": "strong_wolfe"}, {"lr": 30.0, "max_iter": 4, "line_search_fn": "strong_wolfe"},
    {"history_size": 2, "line_search_fn": "strong_wolfe"},
    {"max_iter": 3, "line_search_fn": "strong_wolfe", "tolerance_change": 1e-3},
]  # fmt: skip


@pytest.mark.parametrize("options", LBFGS, ids=str)
def test_lbfgs(options):
    found = []
    for module in (mt, torch()):
        a = module.nn.Parameter(module.tensor([-1.2, 1.0], dtype=module.float64))
        b = module.nn.Parameter(module.tensor([[0.5], [-0.75]], dtype=module.float64))
        optimizer = module.optim.LBFGS([a, b], **({"lr": 0.1} | options))
        calls = []

        def closure():
            optimizer.zero_grad()  # noqa: B023
            loss = (1 - a[0]) ** 2 + 5 * (a[1] - a[0] ** 2) ** 2 + ((b - 1) ** 4).sum() + (b * a[0]).sum() ** 2  # noqa: B023
            loss.backward()
            calls.append(loss.item())  # noqa: B023
            return loss

        losses = [optimizer.step(closure).item() for _ in range(4)]
        state = optimizer.state[a]
        numbers = [state["func_evals"], state["n_iter"], len(calls), len(state["old_dirs"])]
        found.append((numbers, losses, a.tolist() + b.flatten().tolist(), sorted(state), repr(optimizer)))
    assert found[0][0] == found[1][0]
    assert found[0][3:] == found[1][3:]
    # Searches amplify what differs in the last place.
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found[0][2], found[1][2], rtol=1e-8, atol=1e-9)


def test_lbfgs_needs_a_closure_and_knows_one_search():
    param = mt.nn.Parameter(mt.ones(2))
    with pytest.raises(TypeError, match="closure"):
        mt.optim.LBFGS([param]).step()

    def closure():
        param.grad = mt.ones(2)
        return mt.tensor(1.0)

    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        mt.optim.LBFGS([param], line_search_fn="other").step(closure)


def test_sparse_adam_says_that_gradients_are_dense():
    for module in (mt, torch()):
        param = module.nn.Parameter(module.ones(2))
        param.grad = module.ones(2)
        with pytest.raises(
            RuntimeError, match="SparseAdam does not support dense gradients, please consider Adam instead"
        ):
            module.optim.SparseAdam([param]).step()


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_sgd_keeps_momentum_of_sparse_gradients_where_it_has_some(momentum):
    param = mt.nn.Parameter(mt.zeros(3))
    optimizer = mt.optim.SGD([param], lr=1.0, momentum=momentum)
    for _ in range(2):
        param.grad = mt.sparse_coo_tensor([[1]], [2.0], (3,))
        optimizer.step()
    # The second step's buffer is 2 times the momentum, and 2.
    assert param.tolist() == [0, -4 - 2 * momentum, 0]
    assert [*optimizer.state[param]] == (["momentum_buffer"] if momentum else [])


def test_steps_of_many_parameters_are_few_calls(monkeypatch):
    calls = []
    original = mt._C.foreach
    monkeypatch.setattr(mt._C, "foreach", lambda *a: calls.append(len(a[1][0])) or original(*a))
    params = [mt.nn.Parameter(mt.ones(3)) for _ in range(100)]
    for p in params:
        p.grad = mt.ones(3)
    optimizer = mt.optim.Adam(params)
    optimizer.step()
    assert len(calls) < 12
    assert set(calls) == {100}


def test_no_warnings_of_defaults():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, options in ROWS:
            getattr(mt.optim, name)([mt.nn.Parameter(mt.ones(2))], **options)


@pytest.mark.parametrize("name", sorted({row[0] for row in ROWS}))
def test_arguments_and_their_defaults(name):
    def arguments(module):
        parameters = inspect.signature(getattr(module.optim, name).__init__).parameters.values()
        return [(p.name, p.kind, p.default) for p in parameters]

    assert arguments(mt) == arguments(torch())
