"""Python's state that functions read and that changes between two calls: rows of it, compared with plain Python."""

import contextlib
import random
import types
import warnings

import numpy as np

import minitensor as mt


def helper(x):
    return x + 1


def other_helper(x):
    return x - 5


class Thing:
    factor = 1.0
    shared = [1.0]  # noqa: RUF012

    def __init__(self):
        self.value = 1.0
        self.inner = types.SimpleNamespace(value=1.0)
        self.calls = 0

    def apply(self, x):
        return x * self.value

    def counts(self, x):
        self.calls += 1
        return x * self.calls

    @property
    def doubled(self):
        return self.value * 2

    @classmethod
    def scaled(cls, x):
        return x * cls.factor

    @staticmethod
    def static(x):
        return x + 1


# So often a function is called before it has a program, where its ops are timed against what is compiled of them.
UNTIL_KEPT = 12


def values_of(f, change, before=0):
    values = []
    for k in range(-before, 4):
        x = mt.arange(3.0) + k
        values.append(f(x).detach().clone())
        if k >= 0 and k % 2 == 0:
            change()
    return values


class Changes(dict):
    """Rows of one file, by name: each makes a function of a tensor, and what changes the state that it reads."""

    def __init__(self, namespace):
        """With the global variables of the file, which are as they were after each row."""
        super().__init__()
        self._namespace = namespace

    def __call__(self, make):
        """Enter a row, as a decorator."""
        assert make.__name__ not in self
        self[make.__name__] = make
        return make

    def setting(self, **values):
        """Sets global variables of the file."""
        return lambda: self._namespace.update(values)

    @contextlib.contextmanager
    def _restored(self):
        saved = dict(self._namespace)
        state = random.getstate(), np.random.get_state()
        try:
            with warnings.catch_warnings():
                yield
        finally:
            self._namespace.update(saved)
            random.setstate(state[0])
            np.random.set_state(state[1])
            mt.set_default_dtype(mt.float32)

    def check(self, name, jit_compile):
        """Compare the calls of a row's function with those of the same one without a compiler."""
        before = UNTIL_KEPT if jit_compile is None else 0
        with self._restored():
            expected = values_of(*self[name](), before)
        with self._restored():
            f, change = self[name]()
            got = values_of(mt.function(f, jit_compile=jit_compile), change, before)
        for k, (value, wanted) in enumerate(zip(got, expected, strict=True)):
            assert value.dtype == wanted.dtype
            np.testing.assert_array_equal(value.numpy(), wanted.numpy(), err_msg=f"call {k} of {name}")
