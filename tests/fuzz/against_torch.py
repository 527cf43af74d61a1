"""The random programs of `fuzz_programs`, step by step in PyTorch and here: dtypes, values, gradients, errors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import minitensor as mt
from fuzz import programs as fuzz_programs
from fuzz.programs import KINDS, Env, Program, Step

# What draws random numbers, what looks at this library's own state, and what PyTorch says otherwise.
SKIPPED = {
    "gather_argmax",
    "data",
    "fill_random",
    "flush",
    "second_order",
    "pair",
    "array_write",
    "array_read",
    "shared",
}


# A last bit of their operands decides about their result.
SENSITIVE = {"argmax", "argmin", "floor_divide", "remainder", "floor", "ceil", "round", "trunc"}


def torch_module(torch: Any) -> Any:
    """PyTorch under the names that the steps use."""

    def swapped(function: Any) -> Any:
        return lambda x, index, *rest: function(x, rest[-1], index, *rest[:-1])

    names = """
    add sub mul div maximum minimum floor_divide remainder pow eq ne lt le gt ge
    logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor
    """
    calls = {name: getattr(torch, name) for name in names.split()}
    calls |= {
        name: swapped(getattr(torch, name))
        for name in ("gather", "index_select", "scatter_add", "index_add", "index_copy")
    }
    rows = {name: SimpleNamespace(call=call) for name, call in calls.items()}
    module = SimpleNamespace(
        tensor=lambda array: torch.tensor(array),
        ops=SimpleNamespace(ROWS=rows),
        autograd=torch.autograd,
        nn=torch.nn,
    )
    names = """
    add where clamp cat stack no_grad zeros ones full arange eye linspace neg abs sign exp log sqrt rsqrt reciprocal
    tanh sigmoid relu floor ceil trunc round square isnan isinf isfinite logical_not bitwise_not clone
    bool uint8 int32 int64 float32 float64
    """
    for name in names.split():
        setattr(module, name, getattr(torch, name))
    return module


def run_step(module: Any, env: Env, s: Step) -> Exception | None:
    """One step with `module` in the place of minitensor; the exception it raised."""
    env.out = s.out
    fuzz_programs.mt = module
    try:
        result = KINDS[s.kind](env, *(env.slots[i] for i in s.inputs), *s.params)
    except Exception as error:
        return error
    finally:
        fuzz_programs.mt = mt
    if result is not None:
        env.slots[s.out] = result
    return None


def same(ours: Any, theirs: Any) -> str | None:
    """What differs between two tensors."""
    a, b = ours.detach().numpy(), theirs.detach().numpy()
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{a.dtype}{list(a.shape)} here, {b.dtype}{list(b.shape)} there"
    if a.dtype.kind == "f" and ours.requires_grad != theirs.requires_grad:
        return f"requires_grad is {ours.requires_grad} here, {theirs.requires_grad} there"
    if a.dtype.kind == "f":
        good = np.isclose(a, b, rtol=1e-3, atol=1e-5, equal_nan=True).all()
    else:
        good = (a == b).all()
    return None if good else f"{a} here, {b} there"


def compare(program: Program, torch: Any) -> tuple[str | None, int]:
    """What differs first, and how many steps were compared. Steps that PyTorch does not take are left out."""
    module = torch_module(torch)
    ours, theirs = Env(), Env()
    done: list[Step] = []

    def replay() -> None:
        ours.slots.clear()
        theirs.slots.clear()
        for s in done:
            run_step(mt, ours, s)
            run_step(module, theirs, s)

    for s in program:
        if s.params[:2] in (("any", []), ("all", [])) or SENSITIVE.intersection(
            p for p in s.params if isinstance(p, str)
        ):
            continue  # of no dimensions PyTorch reduces all, but not with these
        if s.kind in SKIPPED or (s.kind == "create" and s.params[0] in ("rand", "randn", "randint")):
            continue
        if any(i not in ours.slots for i in s.inputs):
            continue
        here, there = run_step(mt, ours, s), run_step(module, theirs, s)
        if (here is None) != (there is None):
            if here is not None and there is None and "more than one element" not in str(here):
                return f"{s}: {type(here).__name__}: {here} only here", len(done)
            replay()  # PyTorch does not have that form
            continue
        if here is not None and not isinstance(there, AttributeError) and type(here).__name__ != type(there).__name__:
            return f"{s}: {type(here).__name__}: {here} here, {type(there).__name__}: {there} there", len(done)
        if here is None:
            done.append(s)
        for slot in {s.out, *s.inputs} & ours.slots.keys():
            found = same(ours.slots[slot], theirs.slots[slot])
            if found is None and ours.slots[slot].is_leaf and ours.slots[slot].requires_grad:
                a, b = ours.slots[slot].grad, theirs.slots[slot].grad
                if (a is None) != (b is None):
                    found = f"grad is {a} here, {b} there"
                elif a is not None:
                    found = same(a, b)
            if found is not None:
                return f"s{slot} after {s}: {found}", len(done)
    return None, len(done)
