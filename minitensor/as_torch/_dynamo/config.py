"""`torch._dynamo.config`: settings of another compiler. They can be set, and change nothing."""

from minitensor.as_torch import compiler_settings

cache_size_limit, accumulated_cache_size_limit, suppress_errors = 8, 256, False

compiler_settings.become_settings(__name__, documented=False)
del compiler_settings
