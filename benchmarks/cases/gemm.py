"""Matrix products, beside the most that the machine's arithmetic units can do."""

from benchmarks.case import Snippet, at_least, case

N = 1024


def _minitensor(threads, product="a @ b"):
    import minitensor as mt

    mt.set_num_threads(threads)
    mt.manual_seed(0)
    return Snippet(product, a=mt.rand(N, N), b=mt.rand(N, N))


def _torch(threads, product="a @ b"):
    import torch

    torch.set_num_threads(threads)
    return Snippet(product, a=torch.rand(N, N), b=torch.rand(N, N))


def _fma_peak(threads):
    from benchmarks.fma_peak import FmaPeak

    return Snippet("peak(flops)", peak=FmaPeak(threads), flops=2 * N**3)


@case("GEMM 1024^3 on one thread", at_least(0.85, "fma_peak"))
class GemmOneThread:
    @staticmethod
    def minitensor():
        return _minitensor(1)

    @staticmethod
    def fma_peak():
        return _fma_peak(1)

    @staticmethod
    def torch():
        return _torch(1)


@case("GEMM 1024^3 on two threads", at_least(0.8, "fma_peak"))
class GemmTwoThreads:
    @staticmethod
    def minitensor():
        return _minitensor(2)

    @staticmethod
    def fma_peak():
        return _fma_peak(2)

    @staticmethod
    def torch():
        return _torch(2)


@case("GEMM 1024^3 of a transposed first operand", at_least(0.95, "as_it_lies"))
class GemmTransposedFirst:
    @staticmethod
    def minitensor():
        return _minitensor(1, "a.T @ b")

    @staticmethod
    def as_it_lies():
        return _minitensor(1)

    @staticmethod
    def torch():
        return _torch(1, "a.T @ b")


@case("GEMM 1024^3 of a transposed second operand", at_least(0.95, "as_it_lies"))
class GemmTransposedSecond:
    @staticmethod
    def minitensor():
        return _minitensor(1, "a @ b.T")

    @staticmethod
    def as_it_lies():
        return _minitensor(1)

    @staticmethod
    def torch():
        return _torch(1, "a @ b.T")
