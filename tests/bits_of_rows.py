"""The bits that rows of the op table give on this machine: `python tests/bits_of_rows.py [--every N] [NAME ...]`.

Prints JSON: for each row the digest of what its sample calls give, forward and backward, eagerly ("eager") and as
compiled programs ("compiled"). Run under each instruction set, with other numbers of threads or on another machine, it
shows whether a row keeps the promise of docs/numerics.md. Every NaN counts as the same.
"""

import argparse
import hashlib
import json
import sys
import warnings

import numpy as np
from fuzz.programs import bits
from row_samples import build, forms

import minitensor as mt
from minitensor.ops import ROWS

DTYPES = ("int32", "float32", "float64", "float16", "bfloat16", "complex64")
# What no call of a program refers to by itself, what leaves its memory as it was, and ops that tests define.
LEFT_OUT = {"_view_read", "_view_write", "_assign", "fill", "copy", "empty", "empty_strided"}
REFUSALS = (RuntimeError, TypeError, NotImplementedError, ZeroDivisionError, IndexError, ValueError)


def array(t):
    """The elements of a tensor; of bfloat16, widened."""
    t = t.detach()
    return (t.float() if t.dtype is mt.bfloat16 else t).resolve_conj().numpy()


def tensors(result):
    """The tensors among results."""
    listed = result if isinstance(result, (tuple, list)) else [result]
    return [t for t in listed if isinstance(t, mt.Tensor)]


def differentiable(t):
    return isinstance(t, mt.Tensor) and (t.is_floating_point() or t.is_complex())


def outcome(row, arguments, backward):
    """The results of a call, or the gradients of its operands."""
    mt.manual_seed(7)
    leaves = []

    def leaf(a):
        if isinstance(a, list):
            return [leaf(x) for x in a]
        if not differentiable(a):
            return a
        made = a.detach().clone().requires_grad_()
        leaves.append(made)
        return made

    results = tensors(row.call(*([leaf(a) for a in arguments] if backward else arguments)))
    if not backward:
        return results
    wanted = [t for t in results if t.requires_grad]
    if not wanted:
        return []
    seeds = [mt.full_like(t, 0.5).detach() for t in wanted]
    return [g for g in mt.autograd.grad(wanted, leaves, seeds, allow_unused=True) if g is not None]


def samples(row, one_in):
    """What is called: arguments, and whether gradients are wanted.

    Of the pairs of form and dtype one in `one_in`, or as many as every form and every dtype need.
    """
    made = forms(row) or ()
    for k, dtype in enumerate(DTYPES):
        for seed, form in enumerate(made):
            if (k + seed) % min(one_in, len(made)):
                continue
            yield build(form, dtype, "special", seed), False
            if row.vjp is not None and dtype != "int32":
                yield build(form, dtype, "normal", seed), True


def digest(outcomes):
    """One number for all results."""
    made = hashlib.sha256()
    for t in (t for results in outcomes for t in results):
        made.update(repr(bits(array(t))).encode())
    return made.hexdigest()[:16]


def digests(row, compiled, one_in):
    """One number for all that a row's sample calls give eagerly, and one for what they give as compiled programs."""
    accepted, eager = [], []
    for sample in samples(row, one_in):
        try:
            eager.append(outcome(row, *sample))
        except REFUSALS:
            continue
        accepted.append(sample)
    found = {"eager": digest(eager)}
    if compiled:
        with mt.jit_scope():
            outcomes = [outcome(row, *sample) for sample in accepted]
        found["compiled"] = digest(outcomes)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="rows; all by default")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one of N rows")
    parser.add_argument("--first", type=int, default=0, metavar="K", help="of those, from the K-th on")
    parser.add_argument("--one-in", type=int, default=1, metavar="N", help="of the pairs of form and dtype")
    parser.add_argument("--eager", action="store_true", help="nothing compiled")
    given = parser.parse_args()
    names = given.names or [n for n in sorted(ROWS) if n not in LEFT_OUT][given.first :: given.every]
    warnings.simplefilter("ignore")
    with np.errstate(all="ignore"):
        json.dump({name: digests(ROWS[name], not given.eager, given.one_in) for name in names}, sys.stdout)


if __name__ == "__main__":
    main()
