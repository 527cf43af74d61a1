"""Errors whose texts people look up have PyTorch's words."""

import pytest

import minitensor as mt
from minitensor import nn
from minitensor.nn import functional
from minitensor.utils.checkpoint import checkpoint


def _refuse(name):
    module = nn.Module()
    module.register_parameter(name, mt.ones(2))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: _refuse("p"),
            TypeError,
            "cannot assign 'minitensor.FloatTensor' object to parameter 'p' (torch.nn.Parameter or None required)",
        ),
        (lambda: _refuse("a.b"), KeyError, "'parameter name can\\'t contain \".\"'"),
        (lambda: nn.Module().register_buffer("a.b", None), KeyError, "'buffer name can\\'t contain \".\"'"),
        (lambda: nn.Module().add_module("a.b", None), KeyError, "'module name can\\'t contain \".\", got: a.b'"),
        (
            lambda: functional.one_hot(mt.ones(2)),
            RuntimeError,
            "one_hot is only applicable to index tensor of type LongTensor.",
        ),
        (
            lambda: functional.cross_entropy(mt.ones(2, 3), mt.ones(2, 3, dtype=mt.int64)),
            RuntimeError,
            "Expected floating point type for target with class probabilities, got Long",
        ),
        *(
            (
                lambda layer=layer, rank=rank: layer(3, 4, 3)(mt.ones(*(1,) * (rank + 3))),
                RuntimeError,
                f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to conv{rank}d, "
                f"but got input of size: {[1] * (rank + 3)}",
            )
            for rank, layer in enumerate([nn.Conv1d, nn.Conv2d, nn.Conv3d], 1)
        ),
    ],
)
def test_texts(call, error, text):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value) == text


def test_reentrant_checkpoints_have_pytorchs_node():
    x = mt.ones(2, requires_grad=True)
    assert checkpoint(mt.exp, x, use_reentrant=True).grad_fn.name() == "CheckpointFunctionBackward"
