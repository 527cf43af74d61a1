"""One step of softmax regression: 784 features, 10 classes, batches of 100, SGD."""

from benchmarks.case import Script, Snippet, at_most, case, within

FEATURES, CLASSES, BATCH, RATE = 784, 10, 100, 0.5


def _data():
    import numpy as np

    rng = np.random.default_rng(0)
    return rng.random((BATCH, FEATURES), np.float32), rng.integers(0, CLASSES, BATCH)


@case(
    "softmax training step, clustered",
    at_most(0.35, "torch"),
    at_most(1.0, "torch_compile"),
    at_most(1.0, "jax"),
    at_most(1.0, "numpy"),
)
class SoftmaxStep:
    @staticmethod
    def minitensor():
        import minitensor as mt

        return Snippet("step()", step=_clustered_step(mt, *map(mt.from_numpy, _data())))

    @staticmethod
    def torch():
        import torch

        return Snippet("step()", step=_step(torch, *map(torch.from_numpy, _data())))

    @staticmethod
    def torch_compile():
        import torch

        return Snippet("step()", step=_step(torch, *map(torch.from_numpy, _data()), compiled=torch.compile))

    @staticmethod
    def jax():
        from benchmarks.steps_jax import sgd_step

        return Snippet("step()", step=sgd_step(FEATURES, CLASSES, RATE, _data()))

    @staticmethod
    def numpy():
        import numpy as np

        x, y = _data()
        weight = np.zeros((FEATURES, CLASSES), np.float32)
        bias = np.zeros(CLASSES, np.float32)
        rows = np.arange(BATCH)
        rate = np.float32(RATE)

        def step():
            nonlocal weight, bias
            logits = x @ weight
            logits += bias
            logits -= logits.max(axis=1, keepdims=True)
            exponentials = np.exp(logits)
            sums = exponentials.sum(axis=1, keepdims=True)
            loss = (np.log(sums[:, 0]) - logits[rows, y]).mean()
            exponentials /= sums
            exponentials[rows, y] -= 1
            exponentials /= BATCH
            weight -= rate * (x.T @ exponentials)
            bias -= rate * exponentials.sum(axis=0)
            return loss

        return Snippet("step()", step=step)


@case("the same step, eager", at_most(1.0, "torch"))
class SoftmaxStepEager:
    @staticmethod
    def minitensor():
        import minitensor as mt

        return Snippet("step()", step=_step(mt, *map(mt.from_numpy, _data())))

    @staticmethod
    def torch():
        import torch

        return Snippet("step()", step=_step(torch, *map(torch.from_numpy, _data())))


def _step(xp, x, y, compiled=lambda part: part):
    """Return the step as a user of ``xp``, minitensor or torch, writes it; ``compiled`` wraps what computes."""
    model = xp.nn.Linear(FEATURES, CLASSES)
    optimizer = xp.optim.SGD(model.parameters(), lr=RATE)
    loss_of = compiled(lambda x, y: xp.nn.functional.cross_entropy(model(x), y))
    update = compiled(optimizer.step)

    def step():
        loss = loss_of(x, y)
        optimizer.zero_grad()
        loss.backward()
        update()
        return loss

    return step


def _clustered_step(mt, x, y):
    step = _step(mt, x, y)
    config = mt.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = mt.OptimizerOptions.ON_1
    config.graph_options.optimizer_options.cpu_global_jit = True
    session = mt.Session(config=config)
    return lambda: session.run(step)


# Modules that the compiler imports when it is first used are import, too.
IMPORT_COMPILER = """
import importlib, pkgutil, minitensor_jit
for package in ("passes", "codegen", "runtime"):
    package = importlib.import_module(f"minitensor_jit.{package}")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
"""


@case("first step, cold, beyond import", within(0.1))
class ColdStep:
    @staticmethod
    def minitensor():
        return Script(
            "import time, minitensor as mt\n"
            "from benchmarks.cases.training import _clustered_step, _data\n"
            f"{IMPORT_COMPILER}\n"
            "step = _clustered_step(mt, *map(mt.from_numpy, _data()))\n"
            "start = time.perf_counter()\n"
            "step().item()\n"
            "print(time.perf_counter() - start)\n"
        )
