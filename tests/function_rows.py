"""Rows of what a compiled function reads and what changes it: each call must give what plain Python gives."""

import minitensor as mt

# So often a function is called before it has a program, where its ops are timed against what is compiled of them.
UNTIL_KEPT = 12


def value_of(result):
    """What can be seen of a result."""
    if isinstance(result, mt.Tensor):
        return result.dtype, tuple(result.shape), repr(result.detach().clone().tolist())
    return type(result), result


class Rows:
    """A decorator for what gives a function of a tensor, what changes what it reads, and the n-th arguments."""

    def __init__(self):
        self._makers = {}

    def __call__(self, make):
        return self.add(make.__name__, make)

    def add(self, name, make):
        """Enter one under a name."""
        assert name not in self._makers
        self._makers[name] = make
        return make

    @property
    def names(self):
        """Of all that are entered."""
        return list(self._makers)

    def _values(self, name, compiled, before):
        f, change, *rest = self._makers[name]()
        arguments = rest[0] if rest else lambda k: (mt.arange(3.0) + k,)
        f = compiled(f)
        for k in range(-before, 6):
            try:
                yield value_of(f(*arguments(k)))
            except mt.InvalidArgumentError:
                yield None  # that it can't be is an answer, too
            if k >= 0 and k % 2 == 0:
                change()

    def check(self, name, jit_compile):
        """Compare the function of a row with what Python does without being compiled."""
        before = UNTIL_KEPT if jit_compile is None else 0
        wanted = list(self._values(name, lambda f: f, before))
        got = list(self._values(name, lambda f: mt.function(f, jit_compile=jit_compile), before))
        if jit_compile is None or any(value is not None for value in got):
            assert got == wanted
