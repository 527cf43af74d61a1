"""The emulator is in tests/ptx, what the tests of code generation share is one folder up."""

import sys
from pathlib import Path

for _folder in (Path(__file__).parents[2], Path(__file__).parents[1]):
    if str(_folder) not in sys.path:
        sys.path.append(str(_folder))
