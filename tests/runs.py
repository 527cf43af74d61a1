"""How often Python runs a function that is compiled as a whole, counted without changing what the program can see."""

import io

__all__ = ["Runs"]


class Runs(io.StringIO):
    """`print(file=runs)` counts: what a function prints is no state that it reads."""

    def __len__(self):
        return self.getvalue().count("\n")
