"""The HLO intermediate representation: shapes, modules, text, verification and a NumPy evaluator.

The opcodes, their semantics and their text are XLA's, so that XLA's own tools read what we print.
"""
