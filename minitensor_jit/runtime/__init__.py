"""Compiled code and how it runs: executables, buffers, launch plans, the cache of compilations."""
