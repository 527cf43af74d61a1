"""Scaled losses: gradients of float16 that would be 0 are not, and steps with infinite ones are skipped."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any

from minitensor import _C, cuda
from minitensor._C import Tensor, float16, float32, int32
from minitensor._functions.offered import full, isfinite, stack, where, zeros_like
from minitensor._warning import warn
from minitensor.autograd import no_grad

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """What has been done with an optimizer since the last update."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Multiplies losses by a scale, takes it out of the gradients again, and adapts it.

    The scale begins at ``init_scale``. After a step whose gradients were not all finite, which is skipped, it is
    multiplied by ``backoff_factor``; after ``growth_interval`` steps in a row that were, by ``growth_factor``. Where it
    is not ``enabled`` nothing is scaled and ``step`` is the optimizer's. ``device`` is where the scale is: "cuda" or
    "cpu"; without a GPU a scaler for "cuda" warns and is not enabled.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and _C.device(device).type == "cuda" and not cuda.is_available():
            warn("minitensor.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.")
            self._enabled = False
        if self._enabled:
            if not growth_factor > 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if not backoff_factor < 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._scale: Tensor | None = None
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker: Tensor | None = None
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(_fresh)

    def _begin(self, device: Any) -> Tensor:
        """The scale, on a device where it has no place yet."""
        if self._scale is None:
            self._scale = full((), float(self._init_scale), dtype=float32, device=device)
            self._growth_tracker = full((), self._init_growth_tracker, dtype=int32, device=device)
        return self._scale

    def _begun(self, what: str) -> tuple[Tensor, Tensor]:
        lack = "This may indicate your script did not use scaler.scale(loss or outputs) earlier in the iteration."
        if self._scale is None:
            raise AssertionError(f"Attempted {what} but _scale is None.  {lack}")
        if self._growth_tracker is None:
            raise AssertionError(f"Attempted {what} but _growth_tracker is None.  {lack}")
        return self._scale, self._growth_tracker

    def scale(self, outputs: Any) -> Any:
        """Return the tensor, or each tensor of a list or another iterable, multiplied by the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            scale = self._begin(outputs.device)
            return outputs * (scale if scale.device == outputs.device else scale.to(outputs.device))
        if isinstance(outputs, (list, tuple)):
            return type(outputs)([self.scale(output) for output in outputs])  # type: ignore[call-arg]
        if isinstance(outputs, Iterable) and not isinstance(outputs, str):  # whose items are strings without an end
            return map(self.scale, outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of the optimizer's parameters by the scale, in place: before they are clipped.

        ``step`` does so by itself otherwise. RuntimeError after ``step``, or for a second time since ``update``.
        """
        if not self._enabled:
            return
        scale, _ = self._begun("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        # In double precision, since the reciprocal of a large scale may be no normal float32.
        inverse = scale.double().reciprocal().float()
        state["found_inf_per_device"] = self._unscale(optimizer, inverse, False)
        state["stage"] = OptState.UNSCALED

    def _unscale(self, optimizer: Any, inverse: Tensor, allow_float16: bool) -> dict[Any, Tensor]:
        """Multiply all gradients; for each device, 1.0 if any of them is not finite, else 0.0."""
        finite: dict[Any, list[Tensor]] = defaultdict(list)
        factors: dict[Any, Tensor] = {}
        with no_grad():
            for group in optimizer.param_groups:
                for param in group["params"]:
                    grad = param.grad
                    if grad is None:
                        continue
                    if grad.dtype == float16 and not allow_float16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    place = grad.device
                    if place not in factors:
                        factors[place] = inverse if inverse.device == place else inverse.to(place)
                    values = grad._values() if getattr(grad, "is_sparse", False) else grad
                    finite[place].append(isfinite(values).all())
                    values.mul_(factors[place])
            return {place: (~stack(all_of).all()).to(float32) for place, all_of in finite.items()}

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale the gradients, unless that was done, and call ``optimizer.step`` if all of them are finite.

        Returns what that returns, None where the step is skipped. RuntimeError with a closure, for a second time since
        ``update``, and in a function that is compiled as a whole, which can't read the gradients.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        scale, _ = self._begun("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            return self._step_with_scale(optimizer, scale, state, args, kwargs)
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        found = state["found_inf_per_device"]
        if not found:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = self._step_if_finite(optimizer, list(found.values()), args, kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _step_with_scale(self, optimizer: Any, scale: Tensor, state: dict[str, Any], args: Any, kwargs: Any) -> Any:
        """The step of an optimizer that unscales by itself: the attributes `grad_scale` and `found_inf` say by what."""
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            warn(
                "GradScaler is going to stop passing itself as a keyword argument to the passed optimizer. In the near "
                "future GradScaler registers `grad_scale: Tensor` and `found_inf: Tensor` to the passed optimizer and "
                "let the optimizer use them directly.",
                FutureWarning,
            )
            result = optimizer.step(*args, **kwargs, grad_scaler=self)
            state["stage"] = OptState.STEPPED
            return result
        if state["stage"] is OptState.READY:
            state["found_inf_per_device"] = self._unscale(optimizer, full((), 1.0, device=scale.device), True)
        own = getattr(optimizer, "grad_scale", None)
        if state["stage"] is OptState.READY:
            own = scale * (1 if own is None else own)
        found = [one.to(scale.device) for one in state["found_inf_per_device"].values()]
        optimizer.grad_scale, optimizer.found_inf = own, stack(found).sum() if found else 0
        result = optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        del optimizer.grad_scale, optimizer.found_inf
        return result

    def _step_if_finite(self, optimizer: Any, found: list[Tensor], args: Any, kwargs: Any) -> Any:
        from minitensor.compiler import is_compiling

        if is_compiling():
            return _selected_step(optimizer, found, args, kwargs)
        return None if any(one.item() for one in found) else optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapt the scale after the steps of all optimizers, or set it to ``new_scale``."""
        if not self._enabled:
            return
        scale, tracker = self._begun("update")
        with no_grad():
            if new_scale is not None:
                if isinstance(new_scale, float):
                    scale.fill_(new_scale)
                else:
                    reason = (
                        "new_scale should be a float or a 1-element minitensor.FloatTensor with requires_grad=False."
                    )
                    plain = isinstance(new_scale, Tensor) and new_scale.dtype == float32
                    if not plain or new_scale.numel() != 1 or new_scale.requires_grad:  # type: ignore[union-attr]
                        raise AssertionError(reason)
                    scale.copy_(new_scale)  # type: ignore[arg-type]
            else:
                self._adapt(scale, tracker)
        self._per_optimizer_states = defaultdict(_fresh)

    def _adapt(self, scale: Tensor, tracker: Tensor) -> None:
        found = [
            one.to(scale.device)
            for state in self._per_optimizer_states.values()
            for one in state["found_inf_per_device"].values()
        ]
        if not found:
            raise AssertionError("No inf checks were recorded prior to update.")
        infinite = stack(found).sum() > 0
        count = tracker + 1
        grows = ~infinite & (count == self._growth_interval)
        grown = scale * self._growth_factor
        kept = where(grows & isfinite(grown), grown, scale)
        scale.copy_(where(infinite, scale * self._backoff_factor, kept))
        tracker.copy_(where(infinite | grows, zeros_like(count), count))

    def get_scale(self) -> float:
        """Return the scale; 1.0 where it isn't enabled."""
        if not self._enabled:
            return 1.0
        return float(self._init_scale) if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        """Return by what the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set by what the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return by what the scale is multiplied after a step that was skipped."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set by what the scale is multiplied after a step that was skipped."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return how many steps in a row let the scale grow."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set how many steps in a row let the scale grow."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker.item())

    def is_enabled(self) -> bool:
        """Return whether losses are scaled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Return the scale, its factors and its count of steps; an empty dict where it isn't enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what ``state_dict`` returned."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: numbers, and no tensors."""
        if self._enabled and self._per_optimizer_states:
            raise AssertionError(
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after "
                "scaler.update()."
            )
        state = self.__dict__.copy()
        if self._enabled:
            state["_init_scale"], state["_init_growth_tracker"] = self.get_scale(), self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
        return state


def _fresh() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


def _selected_step(optimizer: Any, found: list[Tensor], args: Any, kwargs: Any) -> Any:
    """A step whose results are taken where all gradients are finite, and otherwise what was there before."""
    params = [param for group in optimizer.param_groups for param in group["params"] if param.grad is not None]
    if any(optimizer.state.get(param) for param in params):
        raise RuntimeError(
            "GradScaler.step: whether the step is skipped is known when the gradients are, and this function is "
            f"compiled as a whole. {type(optimizer).__name__} keeps counts of its steps or averages, which can't be "
            "taken back: compile forward and backward pass, and call scaler.step and scaler.update outside."
        )
    finite = stack([one.to(found[0].device) for one in found]).sum() == 0
    with no_grad():
        before = [param.clone() for param in params]
    result = optimizer.step(*args, **kwargs)
    if any(optimizer.state.get(param) for param in params):
        raise RuntimeError(
            "GradScaler.step: a function that is compiled as a whole can't skip the first step of "
            f"{type(optimizer).__name__}, which makes its state: call scaler.step and scaler.update outside."
        )
    with no_grad():
        for param, old in zip(params, before, strict=True):
            param.copy_(where(finite, param, old))
    return result
