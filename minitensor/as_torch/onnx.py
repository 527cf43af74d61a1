"""`torch.onnx`: the names that programs import; there is no exporter."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["OnnxExporterError", "export", "is_in_onnx_export"]


class OnnxExporterError(RuntimeError):
    """A model was not exported."""


def export(model: Any, args: Any = (), f: Any = None, **options: Any) -> NoReturn:
    """Raise NotImplementedError: `minitensor.save` writes weights in PyTorch's format, which its exporter can take."""
    raise NotImplementedError(
        "torch.onnx.export: minitensor has no exporter to ONNX; save the state_dict and export it with PyTorch"
    )


def is_in_onnx_export() -> bool:
    """Return False: nothing is ever exported."""
    return False
