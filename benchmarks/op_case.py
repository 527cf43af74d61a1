"""Single ops beside PyTorch: one statement, run with both libraries over the same data, in a group with a goal."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from benchmarks.case import CASES, OURS, Case, GroupGoal, Snippet

POINTWISE = GroupGoal(mean=0.7, highest=1.1)
KERNELS = GroupGoal(mean=1.0, highest=1.3)
MATMUL = GroupGoal(mean=0.6, highest=0.6)
ONE_ELEMENT = GroupGoal(mean=0.3, highest=0.3)

GROUPS = {
    "pointwise": POINTWISE,
    "reduction": POINTWISE,
    "nn": KERNELS,
    "index": KERNELS,
    "matmul": MATMUL,
    "one": ONE_ELEMENT,
    "pointwise_backward": POINTWISE,
    "reduction_backward": POINTWISE,
    "nn_backward": KERNELS,
    "index_backward": KERNELS,
    "matmul_backward": MATMUL,
}


class Data:
    """Tensors of one library with the same random contents in each."""

    def __init__(self, library: Any) -> None:
        import numpy as np

        self.library = library
        self._rng = np.random.default_rng(0)

    def _tensor(self, array: Any) -> Any:
        # A clone, so that the memory comes from the library's own allocator.
        return self.library.from_numpy(array).clone()

    def normal(self, *shape: int) -> Any:
        """Return float32 numbers of the standard normal distribution."""
        import numpy as np

        return self._tensor(self._rng.standard_normal(shape, np.float32))

    def uniform(self, *shape: int) -> Any:
        """Return float32 numbers from 0 to 1."""
        import numpy as np

        return self._tensor(self._rng.random(shape, np.float32))

    def integers(self, high: int, *shape: int) -> Any:
        """Return int64 numbers from 0 to ``high - 1``."""
        return self._tensor(self._rng.integers(0, high, shape))

    def bools(self, *shape: int) -> Any:
        """Return bools, half of them true."""
        return self._tensor(self._rng.random(shape) < 0.5)

    def permutation(self, n: int) -> Any:
        """Return the numbers from 0 to ``n - 1`` in random order."""
        return self._tensor(self._rng.permutation(n))


def statement_names(library_name: str, make: Callable[[Data], dict[str, Any]], *, backward: bool) -> dict[str, Any]:
    """Return what a statement may name: the library as ``t``, its functions as ``F``, and what ``make`` gives.

    With ``backward``, the floating-point tensors that are named in capitals want gradients.
    """
    library = importlib.import_module(library_name)
    names = {"t": library, "F": importlib.import_module(f"{library_name}.nn.functional")} | make(Data(library))
    if backward:
        for name, value in names.items():
            if len(name) == 1 and name.isupper() and name != "F":
                value.requires_grad_()
    return names


def contender(library: str, statement: str, make: Callable[[Data], dict[str, Any]], backward: bool) -> Snippet:
    """Return the statement, or its backward pass alone, as a snippet."""
    names = statement_names(library, make, backward=backward)
    if not backward:
        return Snippet(statement, **names)
    out = eval(statement, names)
    wanted = tuple(v for k, v in names.items() if len(k) == 1 and k.isupper() and k != "F")
    lib = names["t"]
    return Snippet(
        "grad(out, wanted, seed, retain_graph=True)",
        grad=lib.autograd.grad,
        out=out,
        wanted=wanted,
        seed=lib.ones_like(out),
    )


def op(
    group: str,
    name: str,
    statement: str,
    make: Callable[[Data], dict[str, Any]],
    *,
    backward: bool = False,
    forward: bool = True,
) -> None:
    """Register a statement as a case, and its backward pass as another."""
    for is_backward in [False] * forward + [True] * backward:
        full = group + "_backward" * is_backward
        case_name = f"{full}_{name}"
        if case_name in CASES:
            raise ValueError(f"there are two cases {case_name}")
        contenders = {
            library: (lambda library=library, back=is_backward: contender(library, statement, make, back))
            for library in (OURS, "torch")
        }
        title = f"backward of {statement}" if is_backward else statement
        CASES[case_name] = Case(case_name, title, (), contenders, full)
