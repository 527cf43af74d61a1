"""Command line tools: each is `python -m minitensor_jit.tools.X`."""
