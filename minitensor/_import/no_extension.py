"""What to say where the extension module is missing. Imported only then."""

from __future__ import annotations

import sys
from pathlib import Path


def missing_extension() -> ImportError:
    """The error of an import that didn't find `minitensor._C`: what is there instead, and what to do."""
    folder = Path(__file__).resolve().parents[1]
    others = sorted(path.name for path in folder.glob("_C.*.so"))
    if others:
        here = sys.version.split()[0]
        what = f"{folder} has the extension module for another Python ({', '.join(others)}), not for {here}"
    else:
        what = f"{folder} has no extension module (minitensor._C)"
    if not (folder.parent / "setup.py").is_file():
        return ImportError(f"{what}. The installation is not whole; install minitensor again", name="minitensor._C")
    return ImportError(
        f"{what}: it is a source folder, and was found before an installed minitensor. "
        f"Run Python in another folder to use the installed one, "
        f'or build here: cd "{folder.parent}" && python -m pip install -e .',
        name="minitensor._C",
    )
