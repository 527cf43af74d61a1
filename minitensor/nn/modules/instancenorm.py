"""Instance normalisation."""

from __future__ import annotations

from typing import Any

from minitensor._C import Tensor
from minitensor._warning import warn
from minitensor.nn import functional as F
from minitensor.nn.modules.batchnorm import _LazyNormBase, _NormBase, check_dims

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]


class _InstanceNorm(_NormBase):
    """Normalises every channel of every instance by its own statistics."""

    _unbatched = 0

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _check_input_dim(self, input: Tensor) -> None:
        check_dims(input, self._unbatched, self._unbatched + 1)

    def _get_no_batch_dim(self) -> int:
        return self._unbatched

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        if local_metadata.get("version") is None and not self.track_running_stats:
            stale = [prefix + name for name in ("running_mean", "running_var") if prefix + name in state_dict]
            if stale:
                names, kind = " and ".join(f'"{key}"' for key in stale), type(self).__name__
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {names} for {kind} with track_running_stats=False. They were "
                    f"once saved without being used: remove the keys, or make {kind} with track_running_stats=True."
                )
                for key in stale:
                    del state_dict[key]
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def _normalized(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input, with or without a batch dimension."""
        self._check_input_dim(input)
        dim = input.dim() - self._unbatched
        if input.shape[dim] != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={dim} to match num_features ({self.num_features}), but got: "
                    f"{input.shape[dim]}."
                )
            warn(
                f"input's size at dim={dim} does not match num_features. You can silence this warning by not passing "
                "in num_features, which is not used because affine=False"
            )
        if dim == 0:
            return self._normalized(input.unsqueeze(0)).squeeze(0)
        return self._normalized(input)


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each instance of ``[N, C, L]`` or ``[C, L]``. See ``F.instance_norm``."""

    _unbatched = 2


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each instance of ``[N, C, H, W]`` or ``[C, H, W]``. See ``F.instance_norm``."""

    _unbatched = 3


class InstanceNorm3d(_InstanceNorm):
    """Normalises each channel of each instance of ``[N, C, D, H, W]`` or ``[C, D, H, W]``. See ``F.instance_norm``."""

    _unbatched = 4


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An :class:`InstanceNorm1d` that takes ``num_features`` from its first input."""

    cls_to_become = InstanceNorm1d
    _unbatched = 2


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An :class:`InstanceNorm2d` that takes ``num_features`` from its first input."""

    cls_to_become = InstanceNorm2d
    _unbatched = 3


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An :class:`InstanceNorm3d` that takes ``num_features`` from its first input."""

    cls_to_become = InstanceNorm3d
    _unbatched = 4
