"""Runs HLO text by XLA itself, on the CPU."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np
from jaxlib import _hlo, _jax

__all__ = ["run_in_xla", "xla_text"]


def xla_text(text: str) -> str:
    """The module as XLA prints it after parsing `text`."""
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    return str(_hlo.hlo_module_from_text(text).to_string(options))


def run_in_xla(text: str, arguments: Sequence[Any]) -> list[Any]:
    """What XLA's compiler gives for the module."""
    module = _hlo.hlo_module_from_text(text)
    devices = jax.devices()[:1]
    program = _jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
    executable = devices[0].client.compile_and_load(program, _jax.DeviceList(tuple(devices)), _jax.CompileOptions())
    with jax.enable_x64(True):
        given = [jax.device_put(np.asarray(a)) for a in arguments]
        return [np.asarray(r) for r in executable.execute(given)]
