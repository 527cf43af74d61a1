"""`torch._inductor.config`: settings of another compiler. They can be set, and change nothing."""

from types import SimpleNamespace

__all__ = ["aot_inductor", "cpp", "cuda", "triton"]

# Those of its parts.
aot_inductor, cpp, cuda, triton = SimpleNamespace(), SimpleNamespace(), SimpleNamespace(), SimpleNamespace()
