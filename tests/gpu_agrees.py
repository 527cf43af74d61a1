"""What an op makes on a GPU against what it makes on the CPU: the same bits, and nothing left to the host."""

from fuzz.programs import bits, describe

import minitensor as mt
from minitensor_jit.runtime.cuda.start import host_ops


def gpu_agrees(op, *operands, clustered=True):
    """Hold `op` of `operands` (tensors and arrays) op by op, and in a cluster unless told, against the CPU's bits.

    Returns what the CPU made.
    """
    tensors = [x if isinstance(x, mt.Tensor) else mt.from_numpy(x) for x in operands]
    expected = op(*tensors)
    host_ops.clear()
    results = [op(*[t.cuda() for t in tensors])]
    if clustered:
        with mt.jit_scope():
            results.append(op(*[t.cuda() for t in tensors]))
    for made in results:
        for e, g in zip(_tensors(expected), _tensors(made), strict=True):
            assert e.dtype == g.dtype
            e, g = _array(e), _array(g.cpu())
            assert bits(e) == bits(g), describe(e, g)
    assert not host_ops, list(host_ops)
    return expected


def _tensors(made):
    return tuple(made) if isinstance(made, (tuple, list)) else (made,)


def _array(t):
    return (t.view(mt.int16) if t.dtype is mt.bfloat16 else t).numpy()
