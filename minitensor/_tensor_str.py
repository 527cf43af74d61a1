"""How tensors print: PyTorch's format."""
from __future__ import annotations
from typing import Any
def set_printoptions(**k: Any) -> None: ...
def tensor_text(t: Any) -> str:
    return f"tensor({t.detach().tolist()})"
