"""From a recorded graph to a graph whose compilable regions are single `_JitLaunch` or `_JitRun` ops.

`pipeline.py` has the phases on one page. The words are TensorFlow's: mark for compilation, partially
decluster, encapsulate subgraphs, build launch ops.
"""
