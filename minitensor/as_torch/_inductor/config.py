"""`torch._inductor.config`: settings of another compiler. They can be set, and change nothing."""

from types import SimpleNamespace

from minitensor.as_torch import compiler_settings

__all__ = ["aot_inductor", "cpp", "cuda", "triton"]

# Those of its parts.
aot_inductor, cpp, cuda, triton = SimpleNamespace(), SimpleNamespace(), SimpleNamespace(), SimpleNamespace()

compiler_settings.become_settings(__name__)
del SimpleNamespace, compiler_settings
