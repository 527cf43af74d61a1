"""What the tests of code generation share is one folder up."""

import sys
from pathlib import Path

_folder = str(Path(__file__).parents[1])
if _folder not in sys.path:
    sys.path.append(_folder)
