"""Ops that run at once, and the cost of recording one."""

from benchmarks.case import Snippet, at_most, case, within


@case("a + b on one element, eager", at_most(0.2, "torch"), at_most(1.0, "numpy"))
class EagerAdd:
    @staticmethod
    def minitensor():
        import minitensor as mt

        return Snippet("a + b", a=mt.ones(1), b=mt.ones(1))

    @staticmethod
    def torch():
        import torch

        return Snippet("a + b", a=torch.ones(1), b=torch.ones(1))

    @staticmethod
    def numpy():
        import numpy as np

        return Snippet("a + b", a=np.ones(1, np.float32), b=np.ones(1, np.float32))


@case("recording one op", within(300e-9))
class RecordOp:
    @staticmethod
    def minitensor():
        import minitensor as mt

        # The flush at the end of each batch runs it; it is not recording, and not timed.
        return Snippet("x = x + y", setup="x = y", around=mt.jit_scope, batch=100, y=mt.ones(8))


N = 50_000_000


@case("a * x + y at 5e7, result allocated, eager", at_most(0.15, "torch"))
class Axpy:
    @staticmethod
    def minitensor():
        import minitensor as mt

        mt.manual_seed(0)
        return Snippet("a * x + y", a=2.5, x=mt.rand(N), y=mt.rand(N))

    @staticmethod
    def torch():
        import torch

        torch.manual_seed(0)
        return Snippet("a * x + y", a=2.5, x=torch.rand(N), y=torch.rand(N))

    @staticmethod
    def numpy():
        import numpy as np

        rng = np.random.default_rng(0)
        x, y = (rng.random(N, np.float32) for _ in range(2))
        return Snippet("a * x + y", a=np.float32(2.5), x=x, y=y)
