"""L-BFGS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitensor._C import Tensor
from minitensor._functions.offered import cat, zeros_like
from minitensor.autograd import enable_grad, no_grad
from minitensor.ops import ROWS
from minitensor.optim.list_optimizer import check_rate
from minitensor.optim.optimizer import Optimizer, ParamsT

# A point of a line search: its place, the loss, the gradient and the gradient's part along the line.
_Point = tuple[Any, Any, Any, Any]


class LBFGS(Optimizer):
    """L-BFGS (Nocedal, 1980, https://doi.org/10.1090/S0025-5718-1980-0572855-7), for one group of real parameters.

    A step moves up to ``max_iter`` times, each time by ``lr`` along a direction that the last ``history_size`` changes
    of the gradient tell, or with ``line_search_fn="strong_wolfe"`` as far as a search says that fulfils Wolfe's
    conditions. It computes the loss at most about ``max_eval`` times (None: 1.25 ``max_iter``), and ends early where no
    gradient is above ``tolerance_grad``, or a move or its gain is below ``tolerance_change``.

    It decides by the values of losses and gradients, so a compiled function that calls it is recorded at every call.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_rate(lr)
        defaults = {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        }  # fmt: skip
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters; ``closure`` computes the loss and its gradients. Returns the loss at the beginning."""
        if closure is None:
            raise TypeError("LBFGS.step() missing 1 required positional argument: 'closure'")
        with no_grad():
            return self._step(closure)

    def _step(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        lr = group["lr"].squeeze() if isinstance(group["lr"], Tensor) else group["lr"]
        # It has one state for all parameters, which is the first one's.
        state = self.state[self._params[0]]
        for count in ("func_evals", "n_iter"):
            state.setdefault(count, 0)
        with enable_grad():
            first_loss = closure()
        loss = float(first_loss)
        state["func_evals"] += 1
        grad = self._flat_grad()
        if grad.abs().max() <= group["tolerance_grad"]:
            return first_loss
        memory = {name: state.get(name) for name in _MEMORY}
        try:
            self._iterate(closure, group, lr, state, memory, loss, grad)
        finally:  # what an error in the closure ends has moved the parameters
            state.update(memory)
        return first_loss

    def _iterate(
        self, closure: Any, group: dict[str, Any], lr: Any, state: Any, memory: dict[str, Any], loss: float, grad: Any
    ) -> None:
        evaluations, turns = 1, 0
        while turns < group["max_iter"]:
            turns += 1
            state["n_iter"] += 1
            first = any(memory[name] is None for name in ("d", "t", "prev_flat_grad"))
            if first:
                memory |= {"d": grad.neg(), "old_dirs": [], "old_stps": [], "ro": [], "H_diag": 1}
            else:
                self._remember(memory, grad, group["history_size"])
                memory["d"] = self._direction(memory, grad, state, group["history_size"])
            direction = memory["d"]
            if memory["prev_flat_grad"] is None:
                memory["prev_flat_grad"] = grad.clone()
            else:
                memory["prev_flat_grad"].copy_(grad)
            memory["prev_loss"] = loss
            memory["t"] = min(1.0, 1.0 / grad.abs().sum()) * lr if first else lr
            slope = grad.dot(direction)
            if slope > -group["tolerance_change"]:
                break
            done, used = False, 0
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                begin = [param.clone() for param in self._params]

                def evaluate(t: Any, direction: Any = direction, begin: Any = begin) -> _Point:
                    return self._evaluate(closure, begin, t, direction)

                start = (0, loss, grad, slope)
                (memory["t"], loss, grad, _), used = _search(
                    evaluate, start, memory["t"], direction, group["max_eval"] - evaluations
                )
                self._move(memory["t"], direction)
                done = bool(grad.abs().max() <= group["tolerance_grad"])
            else:
                self._move(memory["t"], direction)
                if turns != group["max_iter"]:
                    with enable_grad():
                        loss = float(closure())
                    grad, used = self._flat_grad(), 1
                    done = bool(grad.abs().max() <= group["tolerance_grad"])
            evaluations += used
            state["func_evals"] += used
            if turns == group["max_iter"] or evaluations >= group["max_eval"] or done:
                break
            if direction.mul(memory["t"]).abs().max() <= group["tolerance_change"]:
                break
            if abs(loss - memory["prev_loss"]) < group["tolerance_change"]:
                break

    @staticmethod
    def _remember(memory: dict[str, Any], grad: Any, most: int) -> None:
        """Note how the gradient changed by the last move, if that tells a curvature."""
        change, move = grad.sub(memory["prev_flat_grad"]), memory["d"].mul(memory["t"])
        curvature = change.dot(move)
        if not curvature > 1e-10:
            return
        if len(memory["old_dirs"]) == most:
            for name in ("old_dirs", "old_stps", "ro"):
                memory[name].pop(0)
        memory["old_dirs"].append(change)
        memory["old_stps"].append(move)
        memory["ro"].append(1.0 / curvature)
        memory["H_diag"] = curvature / change.dot(change)

    @staticmethod
    def _direction(memory: dict[str, Any], grad: Any, state: dict[str, Any], most: int) -> Any:
        """The gradient's negative times the inverse Hessian that the noted changes tell, by two loops over them."""
        changes, moves, inverses = memory["old_dirs"], memory["old_stps"], memory["ro"]
        parts = state.setdefault("al", [None] * most)
        direction = grad.neg()
        for i in reversed(range(len(changes))):
            parts[i] = moves[i].dot(direction) * inverses[i]
            direction.sub_(changes[i] * parts[i])
        direction = direction * memory["H_diag"]
        for i in range(len(changes)):
            direction.add_(moves[i] * (parts[i] - changes[i].dot(direction) * inverses[i]))
        return direction

    def _flat_grad(self) -> Any:
        grads = [zeros_like(p) if p.grad is None else p.grad.to_dense() for p in self._params]
        return cat([(ROWS["view_as_real"].call(g) if g.is_complex() else g).reshape(-1) for g in grads])

    def _move(self, t: Any, direction: Any) -> None:
        begin = 0
        for param in self._params:
            real = ROWS["view_as_real"].call(param) if param.is_complex() else param
            end = begin + real.numel()
            real.add_(direction[begin:end].view(real.shape) * t)
            begin = end

    def _evaluate(self, closure: Callable[[], Any], begin: list[Any], t: Any, direction: Any) -> _Point:
        """The loss and its gradient that far along the direction; the parameters are set back."""
        try:
            self._move(t, direction)
            with enable_grad():
                loss = float(closure())
            grad = self._flat_grad().clone()
        finally:
            for param, value in zip(self._params, begin, strict=True):
                param.copy_(value)
        return t, loss, grad, grad.dot(direction)


_MEMORY = ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss")


def _cubic_minimum(a: _Point, b: _Point, bounds: tuple[Any, Any] | None = None) -> Any:
    """Where the cubic through two points with these slopes has its minimum, within bounds; their middle if it has none.

    Formula 3.59 of Nocedal and Wright, Numerical Optimization.
    """
    (x1, f1, _, g1), (x2, f2, _, g2) = a, b
    low, high = bounds if bounds is not None else (x1, x2) if x1 <= x2 else (x2, x1)
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    squared = d1**2 - g1 * g2
    if not squared >= 0:
        return (low + high) / 2.0
    d2 = squared**0.5
    if x1 <= x2:
        place = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        place = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(place, low), high)


def _search(evaluate: Callable[[Any], _Point], start: _Point, t: Any, direction: Any, most: int) -> tuple[_Point, int]:
    """A point that fulfils Wolfe's strong conditions (Nocedal and Wright, algorithms 3.5 and 3.6), and evaluations."""
    longest = direction.abs().max()
    _, loss, _, slope = start

    def too_high(point: _Point) -> bool:
        return bool(point[1] > loss + 1e-4 * point[0] * slope)

    def flat(point: _Point) -> bool:
        return bool(abs(point[3]) <= -0.9 * slope)

    before, now = start, evaluate(t)
    evaluations, turns, done = 1, 0, False
    bracket: list[_Point] = []
    while turns < most:
        if too_high(now) or (turns > 1 and now[1] >= before[1]):
            bracket = [before, now]
        elif flat(now):
            bracket, done = [now], True
        elif now[3] >= 0:
            bracket = [before, now]
        if bracket:
            break
        bounds = now[0] + 0.01 * (now[0] - before[0]), now[0] * 10
        before, now = now, evaluate(_cubic_minimum(before, now, bounds))
        evaluations += 1
        turns += 1
    if turns == most:
        bracket = [start, now]
    low, high = (0, 1) if bracket[0][1] <= bracket[-1][1] else (1, 0)
    stuck = False
    while not done and turns < most:
        if abs(bracket[1][0] - bracket[0][0]) * longest < 1e-9:
            break
        ends = [point[0] for point in bracket]
        t = _cubic_minimum(bracket[0], bracket[1])
        # Near an end of the bracket for the second time, or at it, the search goes a tenth of the bracket inside.
        margin = 0.1 * (max(ends) - min(ends))
        if min(max(ends) - t, t - min(ends)) < margin:
            if stuck or t >= max(ends) or t <= min(ends):
                t = max(ends) - margin if abs(t - max(ends)) < abs(t - min(ends)) else min(ends) + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        now = evaluate(t)
        evaluations += 1
        turns += 1
        if too_high(now) or now[1] >= bracket[low][1]:
            bracket[high] = now
            low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
        else:
            if flat(now):
                done = True
            elif now[3] * (bracket[high][0] - bracket[low][0]) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = now
    return bracket[low], evaluations
