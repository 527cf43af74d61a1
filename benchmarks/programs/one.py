"""Runs one program and prints what it found out: ``python -m benchmarks.programs.one KIND.NAME [TURNS]``."""

import sys

from benchmarks.programs.case import load, plain


def main(argv: list[str]) -> None:
    """Run the program; it prints its result last."""
    name = argv[0]
    chosen = load(name.partition(".")[0])[name]
    print(plain(chosen.run(int(argv[1]) if argv[1:] else chosen.iterations)))


if __name__ == "__main__":
    main(sys.argv[1:])
