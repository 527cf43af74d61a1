"""What optimizers have in common that treat every parameter alike: a step is a few calls on lists of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from minitensor import _C
from minitensor._C import Tensor, float32, float64, get_default_dtype
from minitensor._functions.offered import tensor
from minitensor.autograd import enable_grad, no_grad
from minitensor.optim import lists
from minitensor.optim.optimizer import Optimizer


class ListOptimizer(Optimizer):
    """A subclass says what a parameter's state begins as, and how lists of parameters are updated.

    Updates are a few calls on lists whatever ``foreach`` and ``fused`` say, and can always be compiled, which
    ``capturable`` asks for. With ``differentiable`` gradients flow through the update.
    """

    # Options that states of older versions lack.
    _later_options: ClassVar[dict[str, Any]] = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }
    # What is kept as tensors of one element; older versions had numbers.
    _kept_numbers: tuple[str, ...] = ("step",)
    _splits_complex = True  # updates are made of real and imaginary parts
    _refuses_complex: str | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self._later_options.items():
                group.setdefault(name, value)
            for param in group["params"]:
                of_param = self.state.get(param) or {}
                for name in self._kept_numbers:
                    if name in of_param and not isinstance(of_param[name], Tensor):
                        of_param[name] = kept(float(of_param[name]))

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient; return what ``closure`` returned."""
        loss = None
        # The mode isn't set before it is entered: what a signal's handler raises here leaves it as it was.
        with enable_grad() if self.defaults.get("differentiable", False) else no_grad():
            if closure is not None:
                with enable_grad():
                    loss = closure()
            for group in self.param_groups:
                params = [param for param in group["params"] if param.grad is not None]
                if params:
                    self._step_group(group, params)
        return loss

    def _step_group(self, group: dict[str, Any], params: list[Any]) -> None:
        grads: Sequence[Any] = [param.grad for param in params]
        if any(type(grad) is not Tensor and _C.is_sparse_storage(grad) for grad in grads):
            params = self._step_sparse(group, params)
            if not params:
                return
            grads = [param.grad for param in params]
        states: list[dict[str, Any]] = [self.state[param] if self._has_state(group) else {} for param in params]
        for param, state in zip(params, states, strict=True):
            if not state:
                state.update(self._first_state(group, param))
        if any(param.is_complex() for param in params):
            if self._refuses_complex:
                raise RuntimeError(self._refuses_complex)
            if self._splits_complex:
                self._update(group, lists.real(params), lists.real(grads), _Columns(states, lists.real))
                return
        self._update(group, params, grads, _Columns(states, None))

    def _step_sparse(self, group: dict[str, Any], params: list[Any]) -> list[Any]:
        """Update what has a sparse gradient; return the other parameters."""
        if group.get("fused"):
            raise RuntimeError("`fused` does not support sparse grad or complex param")
        others = []
        for param in params:
            if not _C.is_sparse_storage(param.grad):
                others.append(param)
                continue
            state = self.state[param]
            if not state:
                state.update(self._first_state(group, param))
            self._update_sparse(group, param, param.grad, state)
        return others

    def _update_sparse(self, group: dict[str, Any], param: Any, grad: Any, state: dict[str, Any]) -> None:
        raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")

    def _has_state(self, group: dict[str, Any]) -> bool:
        return True

    def _first_state(self, group: dict[str, Any], param: Any) -> dict[str, Any]:
        return {}

    def _update(self, group: dict[str, Any], params: Sequence[Any], grads: Sequence[Any], state: _Columns) -> None:
        raise NotImplementedError


class _Columns:
    """The states of the parameters, by name: lists of tensors."""

    def __init__(self, states: list[dict[str, Any]], convert: Callable[[Any], Any] | None) -> None:
        self.states = states
        self._convert = convert

    def __getitem__(self, name: str) -> Any:
        column = [state[name] for state in self.states]
        return self._convert(column) if self._convert else column

    def numbers(self, name: str) -> tuple[Any, ...]:
        """What tensors of one element keep."""
        return tuple(_C.kept_number(state[name]) for state in self.states)

    def keep(self, name: str, numbers: Any) -> None:
        """Write these, or this one, to tensors of one element."""
        for place, state in enumerate(self.states):
            _C.keep_number(state[name], numbers[place] if isinstance(numbers, list) else numbers)


def kept(value: float) -> Tensor:
    """A tensor that keeps a number, such as the count of steps."""
    wide = get_default_dtype() == float64
    return tensor(value, dtype=float64 if wide else float32, device="cpu")


def option(group: dict[str, Any], name: str, part: int | None = None) -> Any:
    """An option of a group, or a part of it, which a compiled function reads anew at each call if it is a float."""
    value = _C.bound_number(group, name) if part is None else _C.bound_number(group, name, part)
    return value.squeeze() if isinstance(value, Tensor) and value.ndim else value


def descent(group: dict[str, Any], params: Sequence[Any], grads: Sequence[Any], decay: bool = True) -> Any:
    """The gradients, negated if the loss is to grow, plus the decay of the weights if ``decay``."""
    if group["maximize"]:
        grads = lists.neg(grads)
    if decay and group["weight_decay"] != 0:
        grads = lists.add(grads, lists.mul(params, option(group, "weight_decay")))
    return grads


def check_number(lowest: float, value: Any, message: str) -> None:
    """ValueError unless the value, a number or a tensor of one element, is at least that; NaN never is."""
    if not value >= lowest:
        raise ValueError(message)


def check_rate(lr: Any, message: str = "Invalid learning rate: {}") -> None:
    """ValueError unless it is a learning rate: not negative, and if it is a tensor, of one element."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    check_number(0.0, lr, message.format(lr))


def check_betas(betas: Any) -> None:
    """ValueError unless both are in [0, 1)."""
    for number in range(2):
        if not 0.0 <= betas[number] < 1.0:
            raise ValueError(f"Invalid beta parameter at index {number}: {betas[number]}")


def check_fused(fused: bool | None, foreach: bool | None, differentiable: bool) -> None:
    """RuntimeError for options that exclude each other."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
