"""Compiled clusters: the cost of a call, and loops that memory bounds."""

from benchmarks.case import Snippet, at_most, case, within


@case("call of a compiled function on 8 elements", within(1e-6), at_most(0.3, "jax"))
class CompiledCall:
    @staticmethod
    def minitensor():
        import minitensor as mt

        f = mt.function(lambda x: mt.tanh(x * 2.0 + 1.0), jit_compile=True)
        return Snippet("f(x)", f=f, x=mt.ones(8))

    @staticmethod
    def jax():
        import jax

        f = jax.jit(lambda x: jax.numpy.tanh(x * 2.0 + 1.0))
        return Snippet("f(x)", f=f, x=jax.numpy.ones(8, jax.numpy.float32))


SUM_N = 10_000_000


@case("sum(x + y * z) at 1e7, clustered", at_most(0.12, "torch"), at_most(1.0, "numba"))
class SumXyz:
    @staticmethod
    def minitensor():
        import minitensor as mt

        def f(x, y, z):
            with mt.jit_scope():
                return (x + y * z).sum()

        mt.manual_seed(0)
        return Snippet("f(x, y, z).item()", f=f, x=mt.rand(SUM_N), y=mt.rand(SUM_N), z=mt.rand(SUM_N))

    @staticmethod
    def torch():
        import torch

        x, y, z = torch.rand(3, SUM_N)
        return Snippet("(x + y * z).sum().item()", x=x, y=y, z=z)

    @staticmethod
    def numba():
        import numba
        import numpy as np

        # With reassociation, or the sum would not be vectorised.
        @numba.njit(parallel=True, fastmath=True)
        def f(x, y, z):
            total = np.float32(0)
            for i in numba.prange(len(x)):
                total += x[i] + y[i] * z[i]
            return total

        x, y, z = np.random.default_rng(0).random((3, SUM_N), np.float32)
        return Snippet("f(x, y, z)", f=f, x=x, y=y, z=z)

    @staticmethod
    def jax():
        import jax
        import numpy as np

        f = jax.jit(lambda x, y, z: (x + y * z).sum())
        x, y, z = (jax.numpy.asarray(a) for a in np.random.default_rng(0).random((3, SUM_N), np.float32))
        return Snippet("f(x, y, z).item()", f=f, x=x, y=y, z=z)


CHAIN_N = 30_000_000


def _chain_contenders(chain):
    """Return the contenders for a chain: a function of x and of a library's tanh, sigmoid and relu."""

    def minitensor():
        import minitensor as mt

        f = mt.function(lambda x: chain(x, mt.tanh, mt.sigmoid, mt.relu), jit_compile=True)
        mt.manual_seed(0)
        return Snippet("f(x)", f=f, x=mt.rand(CHAIN_N))

    def torch():
        import torch

        f = torch.compile(lambda x: chain(x, torch.tanh, torch.sigmoid, torch.relu))
        return Snippet("f(x)", f=f, x=torch.rand(CHAIN_N))

    def jax():
        import jax
        import numpy as np

        f = jax.jit(lambda x: chain(x, jax.numpy.tanh, jax.nn.sigmoid, jax.nn.relu))
        x = jax.numpy.asarray(np.random.default_rng(0).random(CHAIN_N, np.float32))
        return Snippet("f(x).block_until_ready()", f=f, x=x)

    return minitensor, torch, jax


def _arithmetic(x, tanh, sigmoid, relu):
    t = x * 2.0
    t = t + x
    t = t * 3.0
    t = t - x
    t = t * x
    t = t + 0.5
    t = relu(t)
    t = t * t
    t = t - 1.0
    return t + x


def _transcendental(x, tanh, sigmoid, relu):
    t = x * 2.0
    t = t + x
    t = tanh(t)
    t = t * 3.0
    t = t - x
    t = sigmoid(t)
    t = t * x
    t = t + 0.5
    t = relu(t)
    return t - 1.0


# Memory bounds it: 120 MB are read and 120 MB written.
@case("chain of ten elementwise ops at 3e7, clustered", at_most(0.15, "torch"))
class Chain:
    minitensor, torch, jax = _chain_contenders(_arithmetic)


# Arithmetic bounds it: two polynomials and two divisions an element.
@case("such a chain with a tanh and a sigmoid")
class ChainTranscendental:
    minitensor, torch, jax = _chain_contenders(_transcendental)
