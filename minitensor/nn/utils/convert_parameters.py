"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from minitensor._C import Tensor
from minitensor._functions.offered import cat

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def _one_device(parameters: list[Tensor]) -> None:
    devices = {str(param.device) for param in parameters}
    if len(devices) > 1:
        raise TypeError("Found two parameters on different devices, this is currently not supported.")


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return the elements of all parameters, one after the other. TypeError if they are on several devices."""
    all_of_them = list(parameters)
    _one_device(all_of_them)
    return cat([param.reshape(-1) for param in all_of_them])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let parameters be the parts of a vector, as many elements of it as each has; they share its memory."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec)}")
    all_of_them = list(parameters)
    _one_device(all_of_them)
    at = 0
    for param in all_of_them:
        count = param.numel()
        param.data = vec[at : at + count].view(tuple(param.shape)).data
        at += count
