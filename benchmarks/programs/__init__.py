"""Ordinary programs, of which each is timed as a whole process: eagerly and with the flags that cluster.

``python -m benchmarks.programs`` measures them, ``python -m benchmarks.programs.one KIND.NAME`` runs one of them. A
program is a function of the number of its iterations that returns what it found out: numbers, tensors or lists of them.
"""
