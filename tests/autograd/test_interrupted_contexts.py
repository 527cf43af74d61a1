"""What a signal's handler raises at any moment leaves the settings of the thread as they were around the call."""

import copy
import pickle

import pytest
from interrupts import InterruptionError, Interrupts

import minitensor as mt
from minitensor import nn
from minitensor._vmap import rules
from minitensor.autograd import forward_ad, graph
from minitensor.overrides import TorchFunctionMode
from minitensor.utils import checkpoint as checkpoints

C = mt._C
X = mt.arange(4.0)
W = nn.Parameter(mt.ones(4))
LAYER = nn.Linear(4, 4)
OTHERS = {name: parameter.detach() * 2 for name, parameter in LAYER.named_parameters()}


class Mode(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Doubled(mt.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0] * 0 + gradient * 2


def autocast():
    with mt.autocast("cpu", dtype=mt.bfloat16):
        LAYER(X)


def saved_hooks():
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        (W * W).sum()


def mode():
    with Mode():
        X + 1


def dual():
    with forward_ad.dual_level():
        forward_ad.unpack_dual(forward_ad.make_dual(X, X) * 2)


def anomaly():
    with mt.autograd.detect_anomaly(check_nan=False):
        (W * W).sum()


def functional():
    mt.func.functional_call(LAYER, OTHERS, (X,))


def mapped():
    mt.func.vmap(lambda v: v * 2 + mt.rand(1), randomness="different")(X)


def mapped_gradient():
    mt.func.vmap(mt.func.grad(lambda v: (v * v).sum()))(X.view(2, 2))


def forward():
    mt.func.jvp(lambda v: v * v, (X,), (X,))


def function():
    Doubled.apply(W).sum().backward()


def mapped_function():
    mt.func.vmap(mt.func.grad(lambda v: Doubled.apply(v).sum()))(X.view(2, 2))


def checkpoint():
    checkpoints.checkpoint(lambda v: v * mt.rand(4), W, use_reentrant=False).sum().backward()


def checkpoint_in_two():
    checkpoints.checkpoint(lambda v: v * v, W, use_reentrant=True).sum().backward()


def formula():
    mt.autograd.grad(mt.nn.functional.gelu(W).sum(), W, create_graph=True)


def optimizer():
    W.grad = mt.ones(4)
    mt.optim.SGD([W], lr=0.0).step()


WAYS = [
    autocast, saved_hooks, mode, dual, anomaly, functional, mapped, mapped_gradient, forward, function, mapped_function,
    checkpoint, checkpoint_in_two, formula, optimizer,
]  # fmt: skip


def settings():
    return {
        "gradients": C.recording(),
        "inference": mt.is_inference_mode_enabled(),
        "autocast": (C.autocast_state(), C.autocast_nesting()),
        "maps": (C.vmap_depth(), list(rules.RANDOMNESS.stack)),
        "transforms": (C.transform_depth(), C.is_forward_mode(), len(forward_ad._LEVELS)),
        "modes": C._len_torch_function_stack(),
        "hooks": C.saved_tensor_hooks(),
        "anomaly": C.anomaly(),
        "checkpoints": (len(checkpoints._EARLY_STOP), len(checkpoints._DEBUG)),
        "parameters": [id(parameter) for parameter in LAYER.parameters()],
    }


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_an_interruption_leaves_the_settings(way):
    way()
    before = settings()
    at = 0
    while True:
        W.grad = None
        interrupts = Interrupts(at)
        try:
            with interrupts:
                way()
        except InterruptionError:
            pass
        assert settings() == before, f"at {at}"
        if not interrupts.came:
            break
        at += 1 if at < 60 else 7
    way()


def test_a_context_is_set_back_by_what_it_was_entered_with():
    context = graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    with context, context:
        assert C.saved_tensor_hooks() == (context.pack_hook, context.unpack_hook)
    assert C.saved_tensor_hooks() is None
    with pytest.raises(RuntimeError, match="saved_tensors_hooks is left, but was not entered"):
        context.__exit__(None, None, None)


def test_an_error_of_entering_leaves_what_was():
    class Fails(C.Context):
        def _now(self):
            return 5

        def _set(self):
            raise LookupError("set")

        def _restore(self, before):
            restored.append(before)

    restored = []
    with pytest.raises(LookupError, match="set"):
        Fails().__enter__()
    assert restored == [5]


def test_the_first_error_of_leaving_is_raised_when_all_is_set_back():
    class Fails(C.Context):
        def _now(self):
            return 5

        def _set(self):
            pass

        def _restore(self, before):
            restored.append(before)
            if len(restored) < 3:
                raise LookupError(f"try {len(restored)}")

    restored = []
    with pytest.raises(LookupError, match="try 1"), Fails():
        pass
    assert restored == [5, 5, 5]


def test_contexts_are_copied_and_pickled():
    context = mt.autocast("cpu", dtype=mt.float16)
    for again in (copy.deepcopy(context), pickle.loads(pickle.dumps(context))):
        with again:
            assert mt.get_autocast_dtype("cpu") == mt.float16
    assert not mt.is_autocast_enabled("cpu")


def test_an_error_in_the_closure_leaves_lbfgs_a_state_to_go_on_from():
    for line_search in (None, "strong_wolfe"):
        for fails_at in range(1, 6):
            w = mt.tensor([3.0, -2.0], requires_grad=True)
            optimizer = mt.optim.LBFGS([w], lr=0.5, max_iter=4, line_search_fn=line_search)
            calls = [0]

            def closure(w=w, optimizer=optimizer, calls=calls, fails_at=fails_at):
                calls[0] += 1
                if calls[0] == fails_at:
                    raise LookupError
                optimizer.zero_grad()
                loss = ((w - mt.tensor([1.0, 2.0])) ** 2 * mt.tensor([1.0, 5.0])).sum()
                loss.backward()
                return loss

            for _ in range(6):
                before = w.detach().clone()
                try:
                    optimizer.step(closure)
                except LookupError:
                    if line_search and fails_at == 2:  # it was set back from where it was tried
                        assert mt.equal(w.detach(), before)
            assert (w.detach() - mt.tensor([1.0, 2.0])).abs().max() < 1e-3
