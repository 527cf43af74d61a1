"""`python -m minitensor.as_torch SCRIPT ARGS...`, or `-m MODULE ARGS...`: with minitensor as `torch`."""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import io
import os
import sys
from types import CodeType, ModuleType

from minitensor.as_torch import finder

USAGE = """\
usage: python -m minitensor.as_torch [--report] [--children] SCRIPT [ARGUMENT ...]
       python -m minitensor.as_torch [--report] [--children] -m MODULE [ARGUMENT ...]

Runs a program written for PyTorch on minitensor: `import torch` finds minitensor under PyTorch's names.

  --report    print at the end which names of torch the program used, from which files, and which were missing
  --children  programs that it starts, with its PYTHONPATH, find minitensor as torch too; without, only the processes
              of multiprocessing do
"""


def _look_in(place: str) -> None:
    """Search modules there instead of where this one was started, but for minitensor's own if it is nowhere else."""
    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.path[0] = place
    if home not in map(os.path.abspath, sys.path):
        sys.path.append(home)


def _fail(message: str) -> None:
    sys.stderr.write(f"minitensor.as_torch: {message}\n\n{USAGE}")
    raise SystemExit(2)


def _script(path: str) -> tuple[CodeType, ModuleType]:
    """The code of a script and the module that it is to run in."""
    try:
        with io.open_code(os.path.abspath(path)) as stream:
            source = stream.read()
    except OSError as error:
        _fail(f"can't read {path}: {error.strerror}")
    module = ModuleType("__main__")
    module.__file__ = os.path.abspath(path)
    module.__spec__ = None
    module.__builtins__ = builtins  # type: ignore[attr-defined]
    _look_in(os.path.dirname(os.path.abspath(path)))
    return compile(source, path, "exec", dont_inherit=True), module  # not the futures of this file


def _module(name: str) -> tuple[CodeType, ModuleType]:
    """The same of a module, of a package's `__main__` if it is a package."""
    _look_in(os.getcwd())
    if name.startswith("torch."):  # such as torch.distributed.run
        name = finder.target(name) or name
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        _fail(f"no module named {error.name}")
    if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
        _fail(f"no module named {name} that can be run")
    assert spec is not None
    loader = spec.loader
    assert isinstance(loader, importlib.machinery.SourceFileLoader)
    code = loader.get_code(spec.name)
    assert isinstance(code, CodeType)
    module = ModuleType("__main__")
    module.__file__, module.__spec__, module.__loader__, module.__package__ = spec.origin, spec, loader, spec.parent
    module.__builtins__ = builtins  # type: ignore[attr-defined]
    return code, module


def main() -> None:
    """Run what the command line says."""
    arguments = sys.argv[1:]
    report = None
    while arguments and arguments[0] in ("--report", "--children", "--help", "-h"):
        option = arguments.pop(0)
        if option == "--report":
            report = option
        elif option == "--children":
            from minitensor.as_torch.children import pass_on

            pass_on()
        else:
            sys.stdout.write(USAGE)
            return
    if not arguments:
        _fail("expected a script, or -m and a module")
    if arguments[0] == "-m":
        if len(arguments) < 2:
            _fail("expected a module after -m")
        code, module = _module(arguments[1])
        sys.argv = [module.__file__ or arguments[1], *arguments[2:]]
    elif arguments[0].startswith("-"):
        _fail(f"unknown option {arguments[0]}")
    else:
        code, module = _script(arguments[0])
        sys.argv = arguments
    sys.modules["__main__"] = module
    if report is None:
        exec(code, vars(module))
        return
    from minitensor.as_torch.report import Report

    with Report() as kept:
        try:
            exec(code, vars(module))
        finally:
            sys.stderr.write(kept.text())


if __name__ == "__main__":
    main()
