"""The kernels of recurrent layers: against the same layers step by step, and against finite differences."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.ops.nn.recurrent import MODES, recurrent, scan

GATES = {"tanh": 1, "relu": 1, "lstm": 4, "gru": 3}


def operands(mode, bias=True, steps=4, rows=3, width=5, dtype=mt.float64):
    mt.manual_seed(11)

    def draw(*shape):
        return mt.randn(*shape, dtype=dtype).requires_grad_()

    gates = GATES[mode] * width
    cell = draw(rows, width) if mode == "lstm" else None
    return [
        draw(steps, rows, gates),
        draw(rows, width),
        cell,
        draw(gates, width),
        draw(gates) if bias else None,
    ]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sizes", [None, [3, 2, 2, 1]])
class TestKernel:
    def test_is_the_steps_one_after_the_other(self, mode, reverse, sizes):
        for bias in (True, False):
            given = operands(mode, bias)
            how = (None if sizes is None else mt.tensor(sizes), MODES.index(mode), reverse)
            at_once, stepwise = recurrent(*given, *how)[:2], scan(*given, *how)
            weights = [mt.randn(*t.shape, dtype=t.dtype) for t in stepwise]
            leaves = [t for t in given if t is not None]
            for mine, other in zip(at_once, stepwise, strict=True):
                np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), atol=1e-13)
            mine, other = (mt.autograd.grad(results, leaves, weights) for results in (at_once, stepwise))
            for a, b in zip(mine, other, strict=True):
                np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-12)

    def test_gradients_of_both_orders(self, mode, reverse, sizes):
        given = operands(mode, steps=2 if sizes is None else 4, rows=2 if sizes is None else 3, width=2)
        places = [i for i, t in enumerate(given) if t is not None]
        how = (None if sizes is None else mt.tensor(sizes), MODES.index(mode), reverse)

        def function(*leaves):
            full = [None] * 5
            for place, leaf in zip(places, leaves, strict=True):
                full[place] = leaf
            return recurrent(*full, *how)[:2]

        leaves = [given[i] for i in places]
        assert mt.autograd.gradcheck(function, leaves)
        if sizes is None and not reverse:
            assert mt.autograd.gradgradcheck(function, leaves)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_training_step_is_one_program_with_the_bits_of_eager_code(kind):
    def step_of(compiled):
        mt.manual_seed(5)
        layer = getattr(mt.nn, kind)(6, 7, num_layers=2, bidirectional=True)
        optimizer = mt.optim.SGD(layer.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            output, _ = layer(x)
            loss = output.square().mean()
            loss.backward()
            optimizer.step()
            return loss

        run = mt.function(step, jit_compile=True) if compiled else step
        x = mt.randn(5, 3, 6)
        losses = [run(x).item() for _ in range(3)]
        return losses, [p.detach().numpy().tobytes() for p in layer.parameters()]

    assert step_of(False) == step_of(True)


def test_no_steps_and_no_rows():
    for shape in ((0, 3, 6), (4, 0, 6)):
        layer = mt.nn.GRU(6, 2)
        if shape[0] == 0:
            with pytest.raises(RuntimeError, match="sequence length"):
                layer(mt.zeros(*shape))
        else:
            output, last = layer(mt.zeros(*shape))
            assert output.shape == (4, 0, 2)
            assert last.shape == (1, 0, 2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_smaller_types_go_step_by_step(dtype):
    layer = mt.nn.LSTM(6, 4).to(getattr(mt, dtype))
    x = mt.randn(5, 2, 6)
    output, _ = layer(x.to(getattr(mt, dtype)))
    wide, _ = layer.float()(x)
    assert output.dtype == getattr(mt, dtype)
    np.testing.assert_allclose(output.float().detach().numpy(), wide.detach().numpy(), atol=0.05)


@pytest.mark.at_once
def test_errors():
    given = operands("lstm")
    with pytest.raises(RuntimeError, match="expected weight of shape"):
        recurrent(*given[:3], mt.randn(3, 3, dtype=mt.float64), None, None, MODES.index("lstm"), False)
    with pytest.raises(RuntimeError, match="decreasing"):
        recurrent(*given, mt.tensor([1, 2, 3, 3]), MODES.index("lstm"), False)
    with pytest.raises(ValueError, match="mode"):
        recurrent(*given, None, 7, False)
