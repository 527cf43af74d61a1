"""Reports of one program, each made once."""

import contextlib
import io
import sys
from pathlib import Path

import pytest

from minitensor_jit.tools import report

PROGRAM = Path(__file__).parent / "program.py"


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """made(how) is the report of the program that ends so, its status, and what the tool said."""
    folder = tmp_path_factory.mktemp("reports")
    known = {}

    def make(how="end"):
        if how not in known:
            said = io.StringIO()
            path = folder / f"{how}.html"
            with contextlib.redirect_stderr(said), pytest.MonkeyPatch.context() as patch:
                patch.setenv("MT_JIT_FLAGS", "--auto_jit=2 --cpu_global_jit --enable_lazy_compilation=false")
                patch.setenv("PYTHONPATH", str(Path(report.__file__).parents[2]))
                status = report.run([str(PROGRAM), how], str(path), python=sys.executable)
            known[how] = path, status, said.getvalue()
        return known[how]

    return make
