"""PyTorch's name for minitensor: scripts that import `torch` run on minitensor, unchanged.

`python -m minitensor.as_torch script.py` runs a script so, and `import minitensor.as_torch` as a program's first line
has the same effect. `torch` is then a package made of minitensor's modules; what means something else in the two, such
as `torch.jit`, is PyTorch's. `torch.__version__` and the version in the package's metadata are the release whose API is
meant, with `+minitensor` after it. What is not there raises `AttributeError` or `ModuleNotFoundError`.

Processes that `multiprocessing` starts have it too. Programs that are started otherwise, with `subprocess`, find what
is installed as `torch`, unless the option `--children` says that they are to find minitensor.
"""

from __future__ import annotations

from minitensor.as_torch.finder import install, uninstall
from minitensor.as_torch.version import __version__ as VERSION

__all__ = ["VERSION", "install", "uninstall"]

install()
