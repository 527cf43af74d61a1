"""Ops of your own: one with a kernel in NumPy, a gradient and a lowering, and one with a kernel in C.

The first fuses with what stands around it; the second has no lowering, and works in a compiled program all the same.
The account at the end says which op went where.
"""

import argparse
import ctypes
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import minitensor as mt
from minitensor import extend

C_SOURCE = """
#include <math.h>
#include <stdint.h>

void wrap_angle(int64_t n, const double *angle, double *out, double period) {
    for (int64_t i = 0; i < n; ++i) out[i] = angle[i] - period * floor(angle[i] / period + 0.5);
}
"""


@extend.op(
    "squared_relu(Tensor input)",
    elementwise=True,
    gradient=lambda g, _out, x: g * 2 * x.clamp(min=0.0),
    lower=lambda b, x: b.multiply(*[b.maximum(x, b.full(x.shape, 0))] * 2),
)
def squared_relu(x):
    """The square of the positive part (So et al., "Primer", 2021)."""
    positive = np.maximum(x, x.dtype.type(0))
    return positive * positive


def wrap_angle_op():
    """The op of the C function above, or None without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    folder = Path(tempfile.mkdtemp())
    source, library = folder / "wrap_angle.c", folder / "wrap_angle.so"
    source.write_text(C_SOURCE)
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, source, "-lm"], check=True)
    kernel = extend.c_kernel(ctypes.CDLL(str(library)).wrap_angle)
    schema = "wrap_angle(Tensor input, float period=6.283185307179586)"
    return extend.op(schema, elementwise=True, gradient=lambda g, _out, _x, period: g)(kernel)


def main(argv: list[str] | None = None) -> int:
    """Run the example; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.parse_args(argv)

    samples = mt.linspace(-2, 2, 9, dtype=mt.float64)
    extend.check(squared_relu, [(samples,), (samples.float(),)])
    print("squared_relu: kernel, shape, lowering and gradient agree")
    x = samples.clone().requires_grad_()
    squared_relu(x).sum().backward()
    print("gradient at -2 ... 2:", x.grad.tolist())

    wrap_angle = wrap_angle_op()
    if wrap_angle is None:
        print("no C compiler was found: the second part is left out")
        return 0
    extend.check(wrap_angle, [(samples * 5,), (samples, 1.5)])
    print("wrap_angle: kernel, shape and gradient agree")

    def program():
        with mt.jit_scope():
            y = squared_relu(samples * 3 - 1) + samples
            return wrap_angle(y) * 2 - 1

    print()
    print(mt.jit.explain(program)().text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
