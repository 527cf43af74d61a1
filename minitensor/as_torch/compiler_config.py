"""`torch.compiler.config`: settings of another compiler, which change nothing here (compiler_settings.py)."""

from minitensor.as_torch import compiler_settings

compiler_settings.become_settings(__name__, documented=True)
del compiler_settings
