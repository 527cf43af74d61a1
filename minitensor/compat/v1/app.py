"""`tf.app.run`, which starts a script, and `tf.app.flags`, its options."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

from minitensor.compat.v1 import flags
from minitensor.compat.v1.framework.instead import missing as _missing

__all__ = ["flags", "run"]


def run(main: Callable[[list[str]], Any] | None = None, argv: list[str] | None = None) -> NoReturn:
    """End the program with `main(argv)`, the script's own `main` if none is given.

    Without `argv`, flags of the command line are read first, and what is none of them is left for `main`.
    """
    if main is None:
        main = sys.modules["__main__"].main
    given = flags.FLAGS(sys.argv) if argv is None else argv
    sys.exit(main(given))


__getattr__ = _missing(__name__)
