"""Compiled code and how it runs: executables, where their arrays lie, loading, calls to the host; GPUs in `cuda`."""
