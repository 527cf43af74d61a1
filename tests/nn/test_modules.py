"""Every module against PyTorch, and, recorded and compiled, against itself."""

import copy
import inspect
import pickle

import numpy as np
import pytest
from module_samples import SAMPLES, fill, made, outcome, tensors_in, wanting_gradients

import minitensor as mt
from minitensor import nn

NAMES = list(SAMPLES)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
class TestAgainstTorch:
    @pytest.mark.parametrize("name", NAMES)
    def test_values_and_gradients(self, name):
        torch = pytest.importorskip("torch")
        for training in [False] if "random" in SAMPLES[name][2] else [True, False]:
            ours, theirs = outcome(mt, name, training), outcome(torch, name, training)
            assert list(ours) == list(theirs)
            for key, array in theirs.items():
                assert ours[key].dtype == array.dtype, key
                np.testing.assert_allclose(ours[key], array, rtol=2e-4, atol=2e-5, err_msg=f"{key}, {training=}")

    @pytest.mark.parametrize("name", NAMES)
    def test_text_and_state(self, name):
        torch = pytest.importorskip("torch")
        (ours, given, _), (theirs, others, _) = made(mt, name), made(torch, name)
        for _ in range(2):
            assert repr(ours) == repr(theirs)
            mine, other = ours.state_dict(), theirs.state_dict()
            assert list(mine) == list(other)
            assert mine._metadata == other._metadata
            if "lazy" not in SAMPLES[name][2]:
                assert [tuple(t.shape) for t in mine.values()] == [tuple(t.shape) for t in other.values()]
                assert [str(t.dtype) for t in mine.values()] == [
                    str(t.dtype).replace("torch", "minitensor") for t in other.values()
                ]
            ours(*given), theirs(*others)  # after it lazy modules have become others

    def test_signatures(self):
        torch = pytest.importorskip("torch")

        def parameters(function):
            return [
                (p.name, p.kind, p.default if isinstance(p.default, (int, float, str, tuple, type(None))) else "?")
                for p in inspect.signature(function).parameters.values()
            ]

        differ = []
        for name in torch.nn.modules.__all__:
            theirs, ours = getattr(torch.nn, name), getattr(nn, name)
            differ += [name for _ in [0] if parameters(theirs.__init__) != parameters(ours.__init__)]
            if hasattr(theirs, "forward") and theirs.forward is not torch.nn.Module.forward and name != "Container":
                mine = list(inspect.signature(ours.forward).parameters)
                differ += [f"{name}.forward" for _ in [0] if list(inspect.signature(theirs.forward).parameters) != mine]
        assert differ == []


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_recorded_bits_are_the_eager_ones(name):
    module, given, options = made(mt, name)
    module(*given)
    fill(mt, module)
    if "random" in options:
        module.eval()
    twin = copy.deepcopy(module)

    def run(module):
        xs = wanting_gradients(mt, given, options)
        results = tensors_in(mt, module(*xs))
        floats = [r for r in results if r.requires_grad]
        if floats and "integral" not in options:
            sum((r * r).sum() for r in floats).backward()
        grads = [x.grad for x in xs if isinstance(x, mt.Tensor)] + [p.grad for p in module.parameters()]
        return results, [g for g in grads if g is not None], list(module.buffers())

    eager = run(module)
    with mt.jit.jit_scope():
        recorded = run(twin)
    for mine, other in zip(eager, recorded, strict=True):
        assert [t.detach().numpy().tobytes() for t in mine] == [t.detach().numpy().tobytes() for t in other]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", NAMES)
def test_copies_and_pickles(name):
    module, given, _ = made(mt, name)
    module.eval()(*given)
    expected = [t.detach().numpy().tobytes() for t in tensors_in(mt, module(*given))]
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert repr(other) == repr(module)
        assert [t.detach().numpy().tobytes() for t in tensors_in(mt, other(*given))] == expected


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_other_dtypes(dtype):
    dtype = getattr(mt, dtype)
    for name in ("Linear", "Conv2d", "BatchNorm2d", "LayerNorm", "PReLU", "TransformerEncoderLayer", "Embedding"):
        module, given, _ = made(mt, name)
        module.to(dtype)
        results = module(*[x.to(dtype) if x.is_floating_point() else x for x in given])
        assert results.dtype == dtype, name


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_on_the_meta_device():
    for name in ("Linear", "Conv2d", "LayerNorm", "TransformerEncoderLayer", "Embedding", "MaxPool2d"):
        module, given, _ = made(mt, name)
        shape = module(*given).shape
        assert module.to("meta")(*[x.to("meta") for x in given]).shape == shape
        assert all(p.is_meta for p in module.parameters())
        module.to_empty(device="cpu")
        assert all(p.device.type == "cpu" and p.requires_grad for p in module.parameters())


def test_attention_draws_the_rows_that_it_adds():
    mt.manual_seed(0)
    attention = nn.MultiheadAttention(256, 2, add_bias_kv=True)
    rows = [attention.bias_k.detach().numpy(), attention.bias_v.detach().numpy()]
    # Xavier's normal distribution for as many inputs as outputs, 256.
    assert all(abs(row.std() * 16 - 1) < 0.2 and abs(row.mean()) < 0.02 for row in rows)
    assert (rows[0] != rows[1]).any()
