"""The wrapper that programs put around a module to split its batches among GPUs; there is one GPU at most."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from minitensor import _C, cuda
from minitensor._C import Tensor
from minitensor.nn.modules.module import Module

__all__ = ["DataParallel", "data_parallel"]


def _only_device(device_ids: Sequence[Any] | None, output_device: Any) -> list[int]:
    """Return the number of the GPU in a list; nothing where there is none. NotImplementedError for several."""
    if not cuda.is_available():
        return []
    given = [0] if device_ids is None else list(device_ids)
    numbers = [device.index or 0 if isinstance(device, _C.device) else int(device) for device in given]
    if len(numbers) != 1:
        raise NotImplementedError(f"modules run on one device; device_ids are {numbers}")
    if output_device is not None and _C.device("cuda", numbers[0]) != _C.device(output_device):
        raise NotImplementedError("results stay on the device that computes them")
    return numbers


class DataParallel(Module):
    """Calls ``module`` as it is: on the GPU that it is moved to, or on the CPU where there is none.

    Names in its state dict begin with "module.", as in PyTorch.
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.dim = dim
        self.device_ids = _only_device(device_ids, output_device)
        if self.device_ids:
            self.output_device = self.device_ids[0]
            self.src_device_obj = _C.device("cuda", self.device_ids[0])
            module.to(self.src_device_obj)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return the module's result; tensors are moved to its device first."""
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        return data_parallel(self.module, inputs, self.device_ids, self.output_device, self.dim, kwargs)


def _moved(value: Any, device: _C.device) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_moved(part, device) for part in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(part, device) for part in value)
    return {key: _moved(part, device) for key, part in value.items()} if isinstance(value, dict) else value


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call a module on the one device of ``device_ids``, where its parameters must be. RuntimeError if they aren't."""
    given = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    numbers = _only_device(device_ids, output_device)
    if not numbers:
        return module(*given, **(module_kwargs or {}))
    device = _C.device("cuda", numbers[0])
    for tensor in chain(module.parameters(), module.buffers()):
        if tensor.device != device:
            raise RuntimeError(
                f"module must have its parameters and buffers on device {device} (device_ids[0]) but found one of them "
                f"on device: {tensor.device}"
            )
    return module(*_moved(given, device), **_moved(module_kwargs or {}, device))
