"""Found as `torch` where this folder is on PYTHONPATH: puts the alias in its own place."""

import importlib
import importlib.util
import os
import sys

del sys.modules["torch"]
if importlib.util.find_spec("minitensor") is None:  # the program runs in another folder than the one that started it
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))
importlib.import_module("minitensor.as_torch")
importlib.import_module("torch")
