"""Ops that run in numerical libraries: LAPACK's kernels, shapes without running, threads, Ctrl-C."""
