"""What `utils.checkpoint` has beside the call, checkpoints under autocast, optimizers with other parameters."""

import contextlib

import pytest
from leaves import leaf

import minitensor as mt
from minitensor import nn
from minitensor.utils import checkpoint as c


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("within", [False, True])
def test_the_second_run_has_the_autocast_of_the_first(reentrant, within):
    """Whatever is set when backward is called."""
    mt.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 2))
    x = mt.randn(3, 4, requires_grad=True)
    gradients, dtypes = [], []

    def run(value):
        result = model(value)
        dtypes.append(result.dtype)
        return result

    for call in (run, lambda value: c.checkpoint(run, value, use_reentrant=reentrant)):
        model.zero_grad()
        x.grad = None
        with mt.autocast("cpu"):
            loss = call(x).float().square().sum()
            if within:
                loss.backward()
        if not within:
            loss.backward()
        gradients.append([x.grad.tolist(), *(p.grad.tolist() for p in model.parameters())])
    assert gradients[0] == gradients[1]
    assert set(dtypes) == {mt.bfloat16}
    assert not mt.is_autocast_enabled("cpu")


def test_names_of_its_parts():
    first, second = c.noop_context_fn()
    with first, second:
        pass
    leaf = mt.ones(2, requires_grad=True)
    apart, number = c.detach_variable((leaf * 2, 3))
    assert (apart.is_leaf, apart.requires_grad, number) == (True, True, 3)
    with pytest.raises(RuntimeError, match="Only tuple of tensors is supported"):
        c.detach_variable([leaf])
    c.check_backward_validity([leaf])
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        c.check_backward_validity([mt.ones(2)])
    assert c.get_device_states({"a": leaf}, [leaf]) == ([], [])
    c.set_device_states([], [])
    assert c.DefaultDeviceType.get_device_type() == "cuda"
    assert c.CheckpointPolicy.PREFER_RECOMPUTE.value == 3
    assert not c.SelectiveCheckpointContext(is_recompute=False).is_recompute
    with c.set_checkpoint_debug_enabled(True), pytest.raises(ValueError, match="only supported when"):
        c.checkpoint(mt.exp, leaf, use_reentrant=True)


def swapped(lib):
    def parameter(values):
        return lib.nn.Parameter(lib.tensor(values))

    live, other = parameter([1.0, 2.0]), parameter([5.0, 6.0])
    optimizer = lib.optim.Adam([live], lr=0.1)
    live.grad, other.grad = lib.ones(2), lib.ones(2) * 2
    optimizer.step()
    before = live.tolist()
    state = {
        "state": {0: {"step": lib.tensor(3.0), "exp_avg": lib.ones(2), "exp_avg_sq": lib.ones(2)}},
        "param_groups": [{**optimizer.state_dict()["param_groups"][0], "lr": 0.5}],
    }
    with lib.optim.swap_in_optimizer_params_and_state(optimizer, {"w": other}, state):
        assert optimizer.param_groups[0]["params"][0] is other
        optimizer.step()
    assert live.tolist() == before
    assert optimizer.param_groups[0]["params"][0] is live
    assert optimizer.param_groups[0]["lr"] == 0.1
    return other.tolist(), state["state"][0]["step"].item(), state["state"][0]["exp_avg"].tolist()


def test_an_optimizer_with_other_parameters():
    other, step, average = swapped(mt)
    assert step == 4.0
    assert average == pytest.approx([1.1, 1.1])
    assert other[0] < 5.0
    optimizer = mt.optim.SGD([mt.ones(1, requires_grad=True)], lr=1.0)
    with (
        pytest.raises(ValueError, match="the optimizer has 1 parameters in 1 groups"),
        mt.optim.swap_in_optimizer_params_and_state(optimizer, {}, optimizer.state_dict()),
    ):
        pass


def test_an_optimizer_with_other_parameters_against_torch():
    torch = pytest.importorskip("torch")
    ours, theirs = swapped(mt), swapped(torch)
    assert ours[0] == pytest.approx(theirs[0])
    assert ours[1] == theirs[1]
    assert ours[2] == pytest.approx(theirs[2])


@pytest.mark.parametrize("argument", [None, True, False])
@pytest.mark.parametrize("context", [None, True, False])
def test_a_checkpoint_ends_early_as_was_said_at_its_call(lib, context, argument):

    tools = lib.utils.checkpoint
    x, seen = leaf(lib, 1.0, 2.0), []

    def part(x):
        y = x.exp()
        seen.append("y")
        z = y.sin()
        seen.append("z")
        return z.sum()

    options = {} if argument is None else {"early_stop": argument}
    with contextlib.nullcontext() if context is None else tools.set_checkpoint_early_stop(context):
        y = tools.checkpoint(part, x, use_reentrant=False, **options)
    seen.clear()
    with tools.set_checkpoint_early_stop(True):  # too late
        y.backward()
    assert seen == (["y", "z"] if (context if context is not None else argument) is False else ["y"])


def test_the_context_sees_how_the_second_run_ends():
    seen = []

    class Context:
        def __enter__(self):
            seen.append(mt.is_grad_enabled())

        def __exit__(self, kind, value, traceback):
            seen.append(kind and kind.__name__)

    def call(x):
        return x.sin().exp() + 1

    x = mt.ones(2, requires_grad=True)
    for early, end in ((True, "_StopRecomputationError"), (False, None)):
        seen.clear()
        y = c.checkpoint(call, x, use_reentrant=False, context_fn=lambda: (Context(), Context()), early_stop=early)
        y.sum().backward()
        assert seen == [True, None, True, end]


def test_what_a_context_sets_holds_in_the_second_run():
    packed = []

    def pack(tensor):
        packed.append(tensor)
        return tensor

    x = mt.ones(2, requires_grad=True)
    contexts = (contextlib.nullcontext(), mt.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor))
    y = c.checkpoint(mt.exp, x, use_reentrant=False, context_fn=lambda: contexts)
    with pytest.raises(c.CheckpointError, match="A different number of tensors"):
        y.sum().backward()
    assert len(packed) == 1
