"""How sparse tensors print."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor._tensor import printing as strings
from minitensor.nn import Parameter
from minitensor.sparse.tensor import BY_COLUMNS

__all__ = ["text"]


def _component(tensor: Any, indent: int) -> str:
    if tensor.numel() == 0:
        body = "..., size=" if tensor.device.type == "meta" else "[], size="
        return f"tensor({body}{tuple(tensor.shape)})"
    if tensor.device.type == "meta":
        return f"tensor(..., size={tuple(tensor.shape)})"
    return f"tensor({strings._elements_text(tensor, indent + len('tensor('))})"


def text(tensor: Any) -> str:
    """The components, the size, and what else there is to say of a sparse tensor."""
    pattern, values = tensor._pattern, tensor._elements
    first = ("ccol_indices", "row_indices") if pattern.layout in BY_COLUMNS else ("crow_indices", "col_indices")
    names = ("indices",) if pattern.is_coo else first
    indent = len("tensor(")
    parts = [
        f"{name}={_component(part, len(name) + 1 + indent)}" for name, part in zip(names, pattern.indices, strict=True)
    ]
    parts.append(f"values={_component(values, len('values=') + indent)}")
    body = (",\n" + " " * indent).join(parts)
    suffixes = [f"size={tuple(pattern.size)}", f"nnz={pattern.nnz}"]
    if values.device.type != "cpu":
        suffixes.insert(0, f"device='{values.device}'")
    if values.dtype not in (_C.get_default_dtype(), _C.int64, _C.bool, _C.get_default_dtype().to_complex()):
        suffixes.append(f"dtype={values.dtype}")
    suffixes.append(f"layout={pattern.layout!r}")
    if tensor.grad_fn is not None:
        suffixes.append(f"grad_fn=<{type(tensor.grad_fn).__name__}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    head = "tensor(" + body
    shown = strings._with_suffixes(head, suffixes, indent, own_line=pattern.is_coo)
    return f"Parameter containing:\n{shown}" if isinstance(tensor, Parameter) else shown
