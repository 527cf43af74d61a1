"""mt.function: garbage collections are the program's own affair."""

import gc

import pytest

import minitensor as mt
from minitensor_jit.compiler.compiler import no_collections


def test_compiling_leaves_the_collector_as_it_was():
    on = gc.isenabled()
    try:
        for before in (True, False):
            (gc.enable if before else gc.disable)()
            with no_collections():
                assert not gc.isenabled()
            assert gc.isenabled() is before
    finally:
        (gc.enable if on else gc.disable)()


def test_the_collector_is_the_programs():
    """A recorded function sees whether collections are on, and may change that."""
    before = gc.isenabled(), gc.get_threshold()
    try:
        for on in (True, False):
            (gc.enable if on else gc.disable)()
            seen = []
            f = mt.function(lambda x, seen=seen: (seen.append(gc.isenabled()), x * 2)[1], jit_compile=True)
            f(mt.ones(2))
            assert (seen, gc.isenabled(), gc.get_threshold()) == ([on], on, before[1])

        def change(x):
            gc.set_threshold(5, 6, 7)
            gc.enable()
            return x * 2

        def fail(x):
            raise KeyError(gc.isenabled())

        mt.function(change)(mt.ones(2))
        assert (gc.isenabled(), gc.get_threshold()) == (True, (5, 6, 7))
        with pytest.raises(KeyError, match="True"):
            mt.function(fail)(mt.ones(2))
        assert (gc.isenabled(), gc.get_threshold()) == (True, (5, 6, 7))
    finally:
        (gc.enable if before[0] else gc.disable)()
        gc.set_threshold(*before[1])
