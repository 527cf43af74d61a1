"""Recurrent layers and their single steps."""

from __future__ import annotations

import math
from typing import Any

import minitensor
from minitensor import _C
from minitensor._C import Tensor
from minitensor._functions.offered import empty, zeros
from minitensor._warning import warn
from minitensor.nn import init
from minitensor.nn.modules.module import Module
from minitensor.nn.parameter import Parameter
from minitensor.nn.utils.rnn import PackedSequence

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _need(kind: type, **values: Any) -> None:
    for name, value in values.items():
        if not isinstance(value, kind):
            raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """Return the tensor with a dimension in another order."""
    return tensor.index_select(dim, permutation)


_apply_permutation = apply_permutation


class RNNBase(Module):
    """Recurrent layers of a mode: "LSTM", "GRU", "RNN_TANH" or "RNN_RELU".

    Layer k has ``weight_ih_lk`` ``[gates * hidden_size, inputs]``, ``weight_hh_lk`` ``[gates * hidden_size, hidden]``,
    with ``bias`` also ``bias_ih_lk`` and ``bias_hh_lk``, with ``proj_size`` also ``weight_hr_lk``. Those of the
    backward direction end in ``_reverse``. All start uniform in ``±1 / sqrt(hidden_size)``.
    """

    _states = 1

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if not isinstance(dropout, (int, float)) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
            )
        if dropout > 0 and num_layers == 1:
            warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}"
            )
        _need(bool, bias=bias, batch_first=batch_first)
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            if name != "num_layers":
                _need(int, **{name: size})
            if size <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._all_weights: list[list[str]] = []
        rows, width = _GATES[mode] * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            columns = input_size if layer == 0 else width * (2 if bidirectional else 1)
            for suffix in ("", "_reverse") if bidirectional else ("",):
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, columns), "weight_hh": (rows, width)}
                if bias:
                    shapes.update(bias_ih=(rows,), bias_hh=(rows,))
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                names = [f"{name}_l{layer}{suffix}" for name in shapes]
                for name, shape in zip(names, shapes.values(), strict=True):
                    self.register_parameter(name, Parameter(empty(shape, device=device, dtype=dtype)))
                self._all_weights.append(names)
        self.reset_parameters()

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of every layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Do nothing: the layers read their parameters where they are."""

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """RuntimeError or ValueError for inputs of another rank, width or dtype."""
        dtype = self._flat_weights[0].dtype
        if input.dtype != dtype and not _C.autocast_state() & 3:  # autocast casts both
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). Convert input: "
                f"input.to({dtype}), or convert model: model.to({input.dtype})"
            )
        expected = 3 if batch_sizes is None else 2
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}"
            )

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Return the shape of the hidden state."""
        if batch_sizes is not None:
            batch = int(batch_sizes[0])
        else:
            batch = input.shape[0] if self.batch_first else input.shape[1]
        return self.num_layers * (2 if self.bidirectional else 1), batch, self.proj_size or self.hidden_size

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Return the shape of an LSTM's cell state."""
        return (*self.get_expected_hidden_size(input, batch_sizes)[:2], self.hidden_size)

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: tuple[int, ...], msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """RuntimeError for a state of another shape."""
        if tuple(hx.shape) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Errors for inputs and states that don't fit."""
        self.check_input(input, batch_sizes)
        expected = self.get_expected_hidden_size(input, batch_sizes)
        if self._states == 1:
            self.check_hidden_size(hidden, expected)
        else:
            self.check_hidden_size(hidden[0], expected, "Expected hidden[0] size {}, got {}")
            cell = self.get_expected_cell_size(input, batch_sizes)
            self.check_hidden_size(hidden[1], cell, "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Return the state, or both, with the sequences in another order."""
        if permutation is None:
            return hx
        if isinstance(hx, Tensor):
            return apply_permutation(hx, permutation)
        return tuple(apply_permutation(state, permutation) for state in hx)

    def extra_repr(self) -> str:
        """Return sizes, and the options that are not the usual ones."""
        text = f"{self.input_size}, {self.hidden_size}"
        usual = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0}
        for name, value in {**usual, "bidirectional": False}.items():
            if (given := getattr(self, name)) != value:
                text += f", {name}={given}"
        return text

    def __setstate__(self, state: dict[str, Any]) -> None:
        # PyTorch's own files have lists of the weights too, and old ones lack names and projections.
        state = {k: v for k, v in state.items() if k not in ("_flat_weights", "_flat_weights_names", "all_weights")}
        super().__setstate__(state)
        self.__dict__.setdefault("proj_size", 0)

    def _zeros(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        return zeros(shape, dtype=like.dtype, device=like.device)

    def _unbatched_states(self, hx: Any, batched: bool, rank: int) -> Any:
        """Check the states' ranks, and give those of a single sequence a batch dimension."""
        states = (hx,) if self._states == 1 else tuple(hx)
        if any(s.dim() != rank for s in states):
            kind = "batched" if batched else "unbatched"
            what = "hx" if self._states == 1 else "hx and cx"
            got = " and ".join(f"{state.dim()}-D" for state in states)
            raise RuntimeError(f"For {kind} {rank}-D input, {what} should also be {rank}-D but got {got} tensors")
        made = states if batched else tuple(s.unsqueeze(1) for s in states)
        return made[0] if self._states == 1 else made

    def forward(self, input: Any, hx: Any = None) -> Any:
        """Return the last layer's hidden states of all steps, and the last states of all layers.

        ``input`` is ``[T, N, features]``, ``[N, T, features]`` with ``batch_first``, ``[T, features]`` or a
        ``PackedSequence``; the result has the same form. ``hx`` is the first state, zeros if not given.
        """
        orig = input
        batched, sizes, order, back = True, None, None, None
        if isinstance(orig, PackedSequence):
            input, sizes, order, back = orig
        else:
            name = "RNN" if self.mode.startswith("RNN") else self.mode
            if input.dim() not in (2, 3):
                raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.dim()}D instead")
            batched = input.dim() == 3
            if not batched:
                input = input.unsqueeze(0 if self.batch_first else 1)
            if hx is not None:
                hx = self._unbatched_states(hx, batched, 3 if batched else 2)
        if hx is None:
            shapes = [self.get_expected_hidden_size(input, sizes), self.get_expected_cell_size(input, sizes)]
            states = tuple(self._zeros(shape, input) for shape in shapes[: self._states])
            hx = states[0] if self._states == 1 else states
        else:
            hx = self.permute_hidden(hx, order)
        self.check_forward_args(input, hx, sizes)
        function = getattr(minitensor, self.mode.lower())
        options = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        if sizes is None:
            output, *ends = function(input, hx, self._flat_weights, *options, self.batch_first)
        else:
            output, *ends = function(input, sizes, hx, self._flat_weights, *options)
        end: Any = ends[0] if self._states == 1 else tuple(ends)
        if sizes is not None:
            return PackedSequence(output, sizes, order, back), self.permute_hidden(end, back)
        if batched:
            return output, end
        single = output.squeeze(0 if self.batch_first else 1)
        return single, (end.squeeze(1) if self._states == 1 else tuple(s.squeeze(1) for s in ends))


class RNN(RNNBase):
    """Layers of ``h = tanh(W_ih x + b_ih + W_hh h + b_hh)``, or with ``nonlinearity="relu"``.

    The arguments are those of :class:`RNNBase` without ``mode``; ``nonlinearity`` comes after ``num_layers``.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            nonlinearity, args = args[3], (*args[:3], *args[4:])
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Layers of long short-term memory (Hochreiter and Schmidhuber, 1997), whose state is hidden and cell.

    The arguments are those of :class:`RNNBase` without ``mode``.
    """

    _states = 2

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """Layers of gated recurrent units (Cho and others, 2014).

    The arguments are those of :class:`RNNBase` without ``mode``, and without ``proj_size``.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(Module):
    """One step of a recurrent layer: ``weight_ih``, ``weight_hh``, and with ``bias`` ``bias_ih`` and ``bias_hh``."""

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(empty((rows, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(empty((rows, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            made = Parameter(empty(rows, device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def extra_repr(self) -> str:
        """Return sizes, and the options that are not the usual ones."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return text + (f", nonlinearity={nonlinearity}" if nonlinearity != "tanh" else "")

    def reset_parameters(self) -> None:
        """Draw all parameters anew, uniform in ``±1 / sqrt(hidden_size)``."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _step(self, function: Any, input: Tensor, states: list[Tensor] | None, count: int = 1) -> Any:
        """Return what the function gives, for inputs with and without a batch dimension."""
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for i, state in enumerate(states or ()):
            if state.dim() not in (1, 2):
                what = "hidden" if count == 1 else f"hx[{i}]"
                raise ValueError(f"{name}: Expected {what} to be 1D or 2D, got {state.dim()}D instead")
        batched = input.dim() == 2
        x = input if batched else input.unsqueeze(0)
        if states is None:
            states = [zeros(x.shape[0], self.hidden_size, dtype=x.dtype, device=x.device)] * count
        elif not batched:
            states = [state.unsqueeze(0) for state in states]
        hx: Any = states[0] if count == 1 else tuple(states)
        if x.shape[1] != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {x.shape[1]} expected {self.input_size}")
        for i, state in enumerate(states):
            if x.shape[0] != state.shape[0]:
                raise RuntimeError(
                    f"Input batch size {x.shape[0]} doesn't match hidden{i if count > 1 else ''} batch size "
                    f"{state.shape[0]}"
                )
            if state.shape[1] != self.hidden_size:
                raise RuntimeError(
                    f"hidden{i if count > 1 else ''} has inconsistent hidden_size: got {state.shape[1]}, expected "
                    f"{self.hidden_size}"
                )
        result = function(x, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        if batched:
            return result
        return result.squeeze(0) if count == 1 else tuple(r.squeeze(0) for r in result)


class RNNCell(RNNCellBase):
    """One step of an :class:`RNN`; ``nonlinearity`` is "tanh" or "relu"."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next hidden state, ``[N, H]`` or ``[H]``."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        function = getattr(minitensor, f"rnn_{self.nonlinearity}_cell")
        return self._step(function, input, None if hx is None else [hx])  # type: ignore[no-any-return]


class LSTMCell(RNNCellBase):
    """One step of an :class:`LSTM`."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Tensor]:
        """Return the next hidden and cell states, ``[N, H]`` or ``[H]``."""
        return self._step(minitensor.lstm_cell, input, None if hx is None else list(hx), 2)  # type: ignore[no-any-return]


class GRUCell(RNNCellBase):
    """One step of a :class:`GRU`."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next hidden state, ``[N, H]`` or ``[H]``."""
        return self._step(minitensor.gru_cell, input, None if hx is None else [hx])  # type: ignore[no-any-return]
