"""What programs have of `nn`, `optim` and `utils.data`: recurrent layers, a loader's batches, an optimizer's step."""

from benchmarks.case import Script, Snippet, at_most, case

BATCH, LENGTH, WIDTH, LAYERS = 32, 64, 256, 2
PARAMETERS = 150
SAMPLE, SAMPLES = 8192, 4096  # numbers of float32


def _recurrent(xp, kind):
    xp.manual_seed(0)
    layer = getattr(xp.nn, kind)(WIDTH, WIDTH, LAYERS, batch_first=True)
    x = xp.randn(BATCH, LENGTH, WIDTH)

    def step():
        for parameter in layer.parameters():
            parameter.grad = None
        layer(x)[0].sum().backward()

    step()
    return Snippet("step()", step=step)


def _contenders(make):
    class Contenders:
        @staticmethod
        def minitensor():
            import minitensor

            return make(minitensor)

        @staticmethod
        def torch():
            import torch

            return make(torch)

    return Contenders


for _kind in ("LSTM", "GRU"):
    _class = _contenders(lambda xp, kind=_kind: _recurrent(xp, kind))
    _class.__name__ = f"Layer{_kind.capitalize()}"
    case(f"{_kind}, batch 32, length 64, width 256, two layers, forward and backward", at_most(0.8, "torch"))(_class)


def _adam(xp):
    parameters = [xp.nn.Parameter(xp.ones(16, 16)) for _ in range(PARAMETERS)]
    for parameter in parameters:
        parameter.grad = xp.full((16, 16), 0.5)
    optimizer = xp.optim.Adam(parameters)
    optimizer.step()
    return Snippet("step()", step=optimizer.step)


_class = _contenders(_adam)
_class.__name__ = "AdamManySmall"
case(f"Adam.step, {PARAMETERS} parameters of 16 x 16", at_most(0.3, "torch"))(_class)


# In a process of its own: those of the other cases may not start workers.
LOADER = """
import itertools
import time
import {name} as xp

samples = xp.ones({samples}, {sample})
loader = xp.utils.data.DataLoader(
    xp.utils.data.TensorDataset(samples), batch_size=32, num_workers=2, persistent_workers=True
)


def measure():
    for _ in loader:
        pass
    start = time.perf_counter()
    count = 0
    for _ in range(3):
        for _ in loader:
            count += 1
    print((time.perf_counter() - start) / count)


if __name__ == "__main__":
    measure()
"""


@case("a batch of 32 samples of 32 kB by a DataLoader with two workers", at_most(0.8, "torch"))
class LoaderTwoWorkers:
    @staticmethod
    def minitensor():
        return Script(LOADER.format(name="minitensor", samples=SAMPLES, sample=SAMPLE))

    @staticmethod
    def torch():
        return Script(LOADER.format(name="torch", samples=SAMPLES, sample=SAMPLE))
