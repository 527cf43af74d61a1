"""Optimizers, the global step, and savers: what `tf.train` is here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitensor import _C
from minitensor._C import int64
from minitensor.compat.v1.decays import (
    cosine_decay,
    exponential_decay,
    inverse_time_decay,
    natural_exp_decay,
    piecewise_constant,
    polynomial_decay,
)
from minitensor.compat.v1.framework.constants import constant, convert_to_tensor
from minitensor.compat.v1.framework.graph import GraphKeys, Operation, Tensor, get_default_graph
from minitensor.compat.v1.framework.instead import missing as _missing
from minitensor.compat.v1.ops import array_ops
from minitensor.compat.v1.ops.gradients import gradients
from minitensor.compat.v1.ops.variables import Variable, assign_add, group, trainable_variables, writes
from minitensor.compat.v1.saver import Saver, latest_checkpoint

__all__ = [
    "AdagradOptimizer",
    "AdamOptimizer",
    "GradientDescentOptimizer",
    "MomentumOptimizer",
    "Optimizer",
    "RMSPropOptimizer",
    "Saver",
    "cosine_decay",
    "create_global_step",
    "exponential_decay",
    "get_global_step",
    "get_or_create_global_step",
    "global_step",
    "inverse_time_decay",
    "latest_checkpoint",
    "natural_exp_decay",
    "piecewise_constant",
    "piecewise_constant_decay",
    "polynomial_decay",
]

Pairs = Sequence[tuple[Any, Variable]]


class Optimizer:
    """What changes variables by gradients. Subclasses say how one variable is changed."""

    GATE_NONE, GATE_OP, GATE_GRAPH = 0, 1, 2
    _slots: tuple[str, ...] = ()

    def __init__(self, learning_rate: Any, name: str) -> None:
        """`learning_rate`: a number, a tensor, or a function that gives one."""
        self._rate = learning_rate
        self._name = name
        self._kept: dict[tuple[Variable, str], Variable] = {}

    def get_name(self) -> str:
        """Its name."""
        return self._name

    def minimize(
        self,
        loss: Any,
        global_step: Variable | None = None,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Operation:
        """The op that makes one step: each variable is changed by the loss's gradient. See `apply_gradients`."""
        pairs = self.compute_gradients(loss, var_list, grad_loss=grad_loss)
        if all(gradient is None for gradient, _ in pairs):
            names = [variable.name for _, variable in pairs]
            raise ValueError(f"No gradients provided for any variable: the loss {loss!r} depends on none of {names}.")
        return self.apply_gradients(pairs, global_step, name)

    def compute_gradients(
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[tuple[Tensor | None, Variable]]:
        """The loss's gradient by each variable, all trainable ones if not given, None where it depends on none."""
        variables = trainable_variables() if var_list is None else list(var_list)
        if not variables:
            raise ValueError("No variables to optimize.")
        found = gradients([loss], variables, None if grad_loss is None else [grad_loss])
        return list(zip(found, variables, strict=True))

    def apply_gradients(
        self, grads_and_vars: Pairs, global_step: Variable | None = None, name: str | None = None
    ) -> Operation:
        """The op that changes the variables, all by gradients from before, and then adds 1 to `global_step`."""
        pairs = [(convert_to_tensor(g, v.dtype), v) for g, v in grads_and_vars if g is not None]
        if not pairs:
            raise ValueError("No gradients provided for any variable.")
        graph = get_default_graph()
        for _, variable in pairs:
            self._make_slots(variable)
        with graph.name_scope(name or self._name) as scope:
            numbers = self._numbers([variable for _, variable in pairs])
            steps = []
            # No variable is changed before every gradient is there.
            with graph.control_dependencies([gradient for gradient, _ in pairs]):
                for gradient, variable in pairs:
                    kept = [self._kept[variable, each] for each in self._slots]
                    update = f"update_{variable.op.name.replace('/', '_')}"
                    operands = [convert_to_tensor(n, variable.dtype) for n in numbers]
                    steps.append(
                        writes(f"Apply{type(self).__name__.removesuffix('Optimizer')}", self._update(),
                               [variable, *kept], [gradient, *operands], update)
                    )  # fmt: skip
            steps += self._afterwards(steps)
            if global_step is not None:
                with graph.control_dependencies(steps):
                    done: list[Any] = [assign_add(global_step, constant(1, global_step.dtype))]
            else:
                done = list(steps)
        made = group(*done, name=scope)
        graph.add_to_collection(GraphKeys.TRAIN_OP, made)
        return made

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """A tensor that is kept beside a variable, None if there is none of that name."""
        return self._kept.get((var, name))

    def get_slot_names(self) -> list[str]:
        """The names of what is kept beside each variable."""
        return list(self._slots)

    def variables(self) -> list[Variable]:
        """All that is kept beside variables."""
        return list(self._kept.values())

    def _make_slots(self, variable: Variable) -> None:
        for each in self._slots:
            if (variable, each) not in self._kept:
                self._kept[variable, each] = _beside(f"{variable.op.name}/{self._name}", variable, self._initial(each))

    def _initial(self, slot: str) -> float:
        return 0.0

    def _learning_rate(self) -> Any:
        return self._rate() if callable(self._rate) else self._rate

    def _numbers(self, variables: list[Variable]) -> list[Any]:
        """What the update takes after the gradient."""
        return [self._learning_rate()]

    def _update(self) -> Callable[..., _C.Tensor]:
        """What changes a variable: of it, what is kept beside it, the gradient, and the numbers."""
        raise NotImplementedError

    def _afterwards(self, steps: list[Operation]) -> list[Operation]:
        return []


def _beside(name: str, variable: Variable, value: float) -> Variable:
    graph = get_default_graph()
    sizes = variable.shape.as_list()
    with graph.name_scope(None), graph.control_dependencies(None):
        return Variable(lambda: array_ops.fill(sizes, constant(value, variable.dtype)), trainable=False, name=name)


class GradientDescentOptimizer(Optimizer):
    """w -= rate * g."""

    def __init__(self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent") -> None:
        """`learning_rate`: a number, a tensor, or a function that gives one."""
        super().__init__(learning_rate, name)

    def _update(self) -> Callable[..., _C.Tensor]:
        return lambda w, g, rate: w.sub_(g * rate)


class MomentumOptimizer(Optimizer):
    """a = momentum * a + g; w -= rate * a, or rate * (g + momentum * a) with `use_nesterov`."""

    _slots: tuple[str, ...] = ("momentum",)

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        """`momentum`: a number or a tensor."""
        super().__init__(learning_rate, name)
        self._momentum = momentum
        self._nesterov = use_nesterov

    def _numbers(self, variables: list[Variable]) -> list[Any]:
        return [self._learning_rate(), self._momentum]

    def _update(self) -> Callable[..., _C.Tensor]:
        nesterov = self._nesterov

        def update(w: _C.Tensor, a: _C.Tensor, g: _C.Tensor, rate: _C.Tensor, momentum: _C.Tensor) -> _C.Tensor:
            a.mul_(momentum).add_(g)
            return w.sub_((g + a * momentum) * rate if nesterov else a * rate)

        return update


class AdagradOptimizer(Optimizer):
    """a += g * g; w -= rate * g / sqrt(a). Duchi, Hazan and Singer, 2011."""

    _slots: tuple[str, ...] = ("accumulator",)

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        """`initial_accumulator_value`: where a begins, more than 0."""
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: {initial_accumulator_value}")
        super().__init__(learning_rate, name)
        self._begin = initial_accumulator_value

    def _initial(self, slot: str) -> float:
        return self._begin

    def _update(self) -> Callable[..., _C.Tensor]:
        def update(w: _C.Tensor, a: _C.Tensor, g: _C.Tensor, rate: _C.Tensor) -> _C.Tensor:
            a.add_(g * g)
            return w.sub_(g * rate / a.sqrt())

        return update


class RMSPropOptimizer(Optimizer):
    """s = decay * s + (1 - decay) * g * g; m = momentum * m + rate * g / sqrt(s + epsilon); w -= m. s begins with 1.

    `centered` takes the square of the mean of g away from s. Tieleman and Hinton, 2012.
    """

    _slots: tuple[str, ...] = ("rms", "momentum")

    def __init__(
        self,
        learning_rate: Any,
        decay: Any = 0.9,
        momentum: Any = 0.0,
        epsilon: float = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        """`decay`, `momentum`, `epsilon`: numbers or tensors."""
        super().__init__(learning_rate, name)
        self._rest = [decay, momentum, epsilon]
        self._centered = centered
        if centered:
            self._slots = ("rms", "momentum", "mg")

    def _initial(self, slot: str) -> float:
        return 1.0 if slot == "rms" else 0.0

    def _numbers(self, variables: list[Variable]) -> list[Any]:
        return [self._learning_rate(), *self._rest]

    def _update(self) -> Callable[..., _C.Tensor]:
        def update(w: _C.Tensor, s: _C.Tensor, m: _C.Tensor, *others: _C.Tensor) -> _C.Tensor:
            *mean, g, rate, decay, momentum, epsilon = others
            s.add_((g * g - s) * (1 - decay))
            spread = s
            if mean:
                mean[0].add_((g - mean[0]) * (1 - decay))
                spread = s - mean[0] * mean[0]
            m.mul_(momentum).add_(g * rate / (spread + epsilon).sqrt())
            return w.sub_(m)

        return update


class AdamOptimizer(Optimizer):
    """w -= rate * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon).

    m = beta1 * m + (1 - beta1) * g, v = beta2 * v + (1 - beta2) * g * g. Kingma and Ba, 2014, before section 2.1.
    """

    _slots: tuple[str, ...] = ("m", "v")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        """`beta1`, `beta2`: below 1."""
        super().__init__(learning_rate, name)
        self._betas = (beta1, beta2)
        self._epsilon = epsilon
        self._powers: list[Variable] = []

    def _numbers(self, variables: list[Variable]) -> list[Any]:
        if not self._powers:
            graph = get_default_graph()
            with graph.name_scope(None), graph.control_dependencies(None):
                self._powers = [
                    Variable(constant(beta, variables[0].dtype), trainable=False, name=name)
                    for beta, name in zip(self._betas, ("beta1_power", "beta2_power"), strict=True)
                ]
        return [*self._powers, self._learning_rate(), *self._betas, self._epsilon]

    def _update(self) -> Callable[..., _C.Tensor]:
        def update(
            w: _C.Tensor, m: _C.Tensor, v: _C.Tensor, g: _C.Tensor, power1: _C.Tensor, power2: _C.Tensor,
            rate: _C.Tensor, beta1: _C.Tensor, beta2: _C.Tensor, epsilon: _C.Tensor,
        ) -> _C.Tensor:  # fmt: skip
            now = rate * (1 - power2).sqrt() / (1 - power1)
            m.add_((g - m) * (1 - beta1))
            v.add_((g * g - v) * (1 - beta2))
            return w.sub_(m * now / (v.sqrt() + epsilon))

        return update

    def _afterwards(self, steps: list[Operation]) -> list[Operation]:
        with get_default_graph().control_dependencies(steps):
            return [
                writes("AssignMul", lambda kept, beta: kept.mul_(beta), [power], [constant(beta, power.dtype)], None)
                for power, beta in zip(self._powers, self._betas, strict=True)
            ]

    def variables(self) -> list[Variable]:
        """All that is kept beside variables, and the powers of the betas."""
        return [*super().variables(), *self._powers]


def get_global_step(graph: Any = None) -> Variable | None:
    """The variable that counts steps, None if there is none."""
    found = (graph or get_default_graph()).get_collection(GraphKeys.GLOBAL_STEP)
    return found[0] if found else None


def create_global_step(graph: Any = None) -> Variable:
    """A variable, an int64, that counts steps; ValueError if there is one."""
    target = graph or get_default_graph()
    if get_global_step(target) is not None:
        raise ValueError('"global_step" already exists.')
    with target.as_default(), target.name_scope(None):
        made = Variable(constant(0, int64), trainable=False, name="global_step")
    target.add_to_collection(GraphKeys.GLOBAL_STEP, made)
    return made


def get_or_create_global_step(graph: Any = None) -> Variable:
    """The variable that counts steps, a new one if there is none."""
    return get_global_step(graph) or create_global_step(graph)


def global_step(sess: Any, global_step_tensor: Variable) -> int:
    """How many steps a session has counted."""
    return int(sess.run(global_step_tensor))


piecewise_constant_decay = piecewise_constant

__getattr__ = _missing(__name__)
