"""What it takes until the first line of a program runs."""

from benchmarks.case import Script, at_most, case


def _import(module):
    return Script(
        "import time\n"
        "start = time.perf_counter()\n"
        f"import {module}\n"
        "print(time.perf_counter() - start)\n"
        "import sys; assert 'llvmlite' not in sys.modules"
    )


@case("import of the alias for torch", at_most(3.0, "without_alias"))
class ImportAlias:
    @staticmethod
    def minitensor():
        return _import("minitensor.as_torch")

    @staticmethod
    def without_alias():
        return _import("minitensor")


@case("import", at_most(1.5, "numpy"))
class Import:
    @staticmethod
    def minitensor():
        return _import("minitensor")

    @staticmethod
    def numpy():
        return _import("numpy")
