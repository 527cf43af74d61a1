import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.instruction_sets import USABLE


@pytest.mark.parametrize("isa", ["", *USABLE])
def test_nothing_is_read_beyond_a_buffer(isa):
    script = Path(__file__).with_name("bounds_check.py")
    done = subprocess.run(
        [sys.executable, str(script), "0", "12"], env={**os.environ, "MT_ISA": isa}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
