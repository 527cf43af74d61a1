"""Recurrent layers: whole sequences, packed or not, and single steps.

The gates are in PyTorch's order: input, forget, cell, output of an LSTM (Hochreiter and Schmidhuber, 1997), reset,
update, new of a GRU (Cho and others, 2014), whose reset gate is applied to the product with the hidden state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitensor._C import Tensor, float32, float64
from minitensor._functions.offered import cat, relu, sigmoid, stack, tanh, tensor, zeros
from minitensor.composite import composite
from minitensor.composite.registry import autocast
from minitensor.nn.functional.dropout import dropout as _dropout
from minitensor.ops.nn.recurrent import MODES, recurrent

__all__: list[str] = []

_State = tuple[Tensor, ...]


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    from minitensor.nn.functional.products import linear

    return linear(x, weight, bias)


def _lstm_step(given: Tensor, state: _State, weight: Tensor, bias: Any, projection: Any) -> _State:
    hidden, cell = state
    i, f, g, o = (given + _linear(hidden, weight, bias)).chunk(4, -1)
    cell = sigmoid(f) * cell + sigmoid(i) * tanh(g)
    hidden = sigmoid(o) * tanh(cell)
    return (hidden if projection is None else _linear(hidden, projection, None)), cell


def _gru_step(given: Tensor, state: _State, weight: Tensor, bias: Any, _projection: Any) -> _State:
    (hidden,) = state
    (xr, xz, xn), (hr, hz, hn) = given.chunk(3, -1), _linear(hidden, weight, bias).chunk(3, -1)
    reset, update = sigmoid(xr + hr), sigmoid(xz + hz)
    new = tanh(xn + reset * hn)
    return ((hidden - new) * update + new,)


def _tanh_step(given: Tensor, state: _State, weight: Tensor, bias: Any, _projection: Any) -> _State:
    return (tanh(given + _linear(state[0], weight, bias)),)


def _relu_step(given: Tensor, state: _State, weight: Tensor, bias: Any, _projection: Any) -> _State:
    return (relu(given + _linear(state[0], weight, bias)),)


_Step = Callable[[Tensor, _State, Tensor, Any, Any], _State]


_MODES: dict[_Step, int] = {
    step: MODES.index(name)
    for name, step in (("tanh", _tanh_step), ("relu", _relu_step), ("lstm", _lstm_step), ("gru", _gru_step))
}


def _has_kernel(given: Tensor, projection: Any) -> bool:
    return (
        projection is None and given.dtype in (float32, float64) and given.device.type != "cuda" and given.numel() > 0
    )


def _at_once(
    step: _Step, given: Tensor, sizes: list[int] | None, state: _State, weights: tuple[Any, Any], reverse: bool
) -> tuple[Tensor, _State]:
    """Run one direction of a layer by the kernel for whole sequences; packed ones are padded for it."""
    weight, bias = weights
    rows = counts = None
    if sizes is not None:
        steps, count = len(sizes), sizes[0]
        rows = tensor([t * count + n for t, size in enumerate(sizes) for n in range(size)], device=given.device)
        counts = tensor(sizes, device=given.device)
        padded = zeros(steps * count, given.shape[-1], dtype=given.dtype, device=given.device)
        given = padded.index_copy(0, rows, given).reshape((steps, count, -1))
    cell = state[1] if len(state) == 2 else None
    output, last, _ = recurrent(given, state[0], cell, weight, bias, counts, _MODES[step], reverse)
    if rows is not None:
        output = output.reshape((-1, output.shape[-1])).index_select(0, rows)
    return output, tuple(last.unbind(0))


def _sequence(
    step: _Step, given: Tensor, state: _State, recurrent: tuple[Any, Any, Any], reverse: bool
) -> tuple[Tensor, _State]:
    """Return the hidden states ``[T, N, H]`` of all steps, and the last state."""
    outputs: list[Any] = [None] * given.shape[0]
    for t in reversed(range(len(outputs))) if reverse else range(len(outputs)):
        state = step(given[t], state, *recurrent)
        outputs[t] = state[0]
    return stack(outputs), state


def _packed(
    step: _Step, given: Tensor, sizes: list[int], state: _State, recurrent: tuple[Any, Any, Any], reverse: bool
) -> tuple[Tensor, _State]:
    """Return the hidden states of all steps, one after the other, and the last state of every sequence.

    Sequences are ordered by length: the first ``sizes[t]`` of them have a step t.
    """
    rows = given.split(sizes)
    outputs: list[Any] = [None] * len(sizes)
    first, ended = state, []
    now = tuple(s[: sizes[-1] if reverse else sizes[0]] for s in first)
    for t in reversed(range(len(sizes))) if reverse else range(len(sizes)):
        size, before = sizes[t], now[0].shape[0]
        if size < before:
            ended.append(tuple(s[size:] for s in now))
            now = tuple(s[:size] for s in now)
        elif size > before:
            now = tuple(cat([s, whole[before:size]]) for s, whole in zip(now, first, strict=True))
        now = step(rows[t], now, *recurrent)
        outputs[t] = now[0]
    ended.append(now)
    return cat(outputs), tuple(cat(parts) for parts in zip(*reversed(ended), strict=True))


def _layers(
    step: _Step,
    input: Tensor,
    sizes: list[int] | None,
    states: Sequence[Tensor],
    params: Sequence[Tensor],
    biases: bool,
    count: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Tensor, ...]:
    """Run all layers; return the last one's hidden states, and the last states of all."""
    if params and input.dtype != params[0].dtype:
        raise ValueError(f"input dtype ({input.dtype}) does not match the weights' ({params[0].dtype})")
    if sizes is None and input.shape[0] == 0:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    directions = 2 if bidirectional else 1
    each = len(params) // (count * directions)
    if each * count * directions != len(params) or each - 2 * biases not in (2, 3):
        raise RuntimeError(f"got an incorrect number of RNN parameters: {len(params)} of {count} layers")
    ends: list[_State] = []
    for layer in range(count):
        outputs = []
        for direction in range(directions):
            place = layer * directions + direction
            weights: list[Any] = list(params[place * each : (place + 1) * each])
            w_input, w_hidden, *others = weights
            b_input, b_hidden = others[:2] if biases else (None, None)
            projection = others[-1] if each - 2 * biases == 3 else None
            given, state = _linear(input, w_input, b_input), tuple(s[place] for s in states)
            recurrent = (w_hidden, b_hidden, projection)
            if _has_kernel(given, projection):
                output, end = _at_once(step, given, sizes, state, (w_hidden, b_hidden), direction == 1)
            elif sizes is None:
                output, end = _sequence(step, given, state, recurrent, direction == 1)
            else:
                output, end = _packed(step, given, sizes, state, recurrent, direction == 1)
            outputs.append(output)
            ends.append(end)
        input = outputs[0] if len(outputs) == 1 else cat(outputs, -1)
        if dropout and train and layer < count - 1:
            input = _dropout(input, dropout, True)
    return input, *(stack(parts) for parts in zip(*ends, strict=True))


def _run(step: _Step, args: tuple[Any, ...], more: dict[str, Any], states: int) -> tuple[Tensor, ...]:
    """Run layers with PyTorch's two forms of arguments: for sequences in a tensor, or packed ones."""
    names = ("has_biases", "num_layers", "dropout", "train", "bidirectional")
    packed = "batch_sizes" in more or (len(args) > 2 and not isinstance(args[2], (list, tuple)))
    packed = packed or (len(args) > 3 and isinstance(args[3], (list, tuple)))
    lead = ("data", "batch_sizes", "hx", "params") if packed else ("input", "hx", "params")
    places = (*lead, *names) if packed else (*lead, *names, "batch_first")
    if len(args) > len(places):
        raise TypeError(f"expected at most {len(places)} arguments, got {len(args)}")
    given = {**dict(zip(places, args, strict=False)), **more}
    if missing := [name for name in places if name not in given]:
        raise TypeError(f"missing arguments: {', '.join(missing)}")
    input, hx = given[lead[0]], given["hx"]
    first = (hx,) if isinstance(hx, Tensor) else tuple(hx)
    if len(first) != states:
        raise RuntimeError(f"expected {states} hidden states, got {len(first)}")
    turned = not packed and given["batch_first"]
    output, *ends = _layers(
        step,
        input.transpose(0, 1) if turned else input,
        given["batch_sizes"].tolist() if packed else None,
        first,
        given["params"],
        *(given[name] for name in names),
    )
    return (output.transpose(0, 1) if turned else output), *ends


@composite(method=False)
@autocast("lower", "lower")
def lstm(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return the hidden states of LSTM layers, and the last hidden and cell states of all.

    ``lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)`` with ``input``
    ``[T, N, features]``, or ``lstm(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train,
    bidirectional)`` with packed sequences. ``hx`` is the first hidden and cell states, ``[layers * directions, N, H]``.
    """
    output, hidden, cell = _run(_lstm_step, args, kwargs, 2)
    return output, hidden, cell


def _offer(name: str, step: _Step, what: str, cpu: str = "lower") -> None:
    def call(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        output, hidden = _run(step, args, kwargs, 1)
        return output, hidden

    call.__doc__ = f"Return the hidden states of {what} layers, and the last of all. The forms are those of ``lstm``."
    composite(name=name, method=False)(autocast(cpu, "lower")(call))


_offer("gru", _gru_step, "GRU", "")
_offer("rnn_tanh", _tanh_step, "plain recurrent")
_offer("rnn_relu", _relu_step, "plain recurrent, rectified")


@composite(method=False)
@autocast("", "lower")
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the hidden and the cell state ``[N, H]`` after one step of an LSTM."""
    hidden, cell = _lstm_step(_linear(input, w_ih, b_ih), (hx[0], hx[1]), w_hh, b_hh, None)
    return hidden, cell


def _offer_cell(name: str, step: _Step, what: str, cpu: str = "lower") -> None:
    def call(
        input: Tensor,
        hx: Tensor,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor | None = None,
        b_hh: Tensor | None = None,
    ) -> Tensor:
        return step(_linear(input, w_ih, b_ih), (hx,), w_hh, b_hh, None)[0]

    call.__doc__ = f"Return the hidden state ``[N, H]`` after one step of a {what} layer."
    composite(name=name, method=False)(autocast(cpu, "lower")(call))


_offer_cell("gru_cell", _gru_step, "GRU", "")
_offer_cell("rnn_tanh_cell", _tanh_step, "plain recurrent")
_offer_cell("rnn_relu_cell", _relu_step, "rectified recurrent")
