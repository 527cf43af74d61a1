"""How tensors go through queues and pipes: the descriptor of their memory is sent, not the bytes."""

from __future__ import annotations

from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

from minitensor import _C
from minitensor._C import Tensor
from minitensor.multiprocessing.shared_memory import memory_of, opened, share_memory_


def reduce_tensor(tensor: Any) -> Any:
    """What the other process makes the tensor of. The tensor moves to shared memory."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
            "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor before "
            "serializing (e.g., putting it on the queue)."
        )
    if tensor.device.type != "cpu":
        return tensor.__reduce_ex__(4)
    memory = memory_of(share_memory_(tensor))
    assert memory is not None
    layout = tensor.dtype, tensor.storage_offset(), tuple(tensor.shape), tensor.stride()
    return rebuild_tensor, (type(tensor), DupFd(memory.descriptor), layout, tensor.requires_grad)


def rebuild_tensor(kind: Any, descriptor: Any, layout: Any, requires_grad: bool) -> Any:
    """The tensor over the memory of the process that sent it."""
    data = _C.over_storage(opened(descriptor.detach()).tensor(), *layout)
    return kind(data, requires_grad) if kind is not Tensor else data.requires_grad_(requires_grad)


def init_reductions() -> None:
    """Have ``multiprocessing`` send tensors so."""
    from minitensor.nn.parameter import Parameter

    ForkingPickler.register(Tensor, reduce_tensor)
    ForkingPickler.register(Parameter, reduce_tensor)
