"""Random tensor programs: made from a seed, run in every way, compared bit for bit, and shrunk when they differ.

A program is a list of steps on numbered slots. A step whose inputs are missing does nothing, so any subset of a program
is a program too; that is what makes shrinking easy.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import row_samples

import minitensor as mt

DTYPES = ("bool", "uint8", "int32", "int64", "float32", "float64")
# Those that kernels convert from and to, and complex numbers.
OTHER_DTYPES = row_samples.OTHER_DTYPES
FLOATS = ("float32", "float64")


@dataclass(frozen=True)
class Step:
    """`slots[out] = KINDS[kind](env, *inputs, *params)`."""

    kind: str
    out: int
    inputs: tuple[int, ...] = ()
    params: tuple[Any, ...] = ()

    def __str__(self) -> str:
        arguments = [f"s{i}" for i in self.inputs] + [repr(p) for p in self.params]
        return f"s{self.out} = {self.kind}({', '.join(arguments)})"


Program = list[Step]


@dataclass
class Env:
    """What a run has: tensors by slot, arrays that share memory with tensors, and what was observed on the way."""

    slots: dict[int, Any] = field(default_factory=dict)
    arrays: dict[int, np.ndarray] = field(default_factory=dict)
    seen: list[Any] = field(default_factory=list)
    out: int = 0


def random_array(seed: int, shape: Sequence[int], dtype: str, special: bool) -> np.ndarray:
    """Values that exercise an op: small numbers; with `special`, also NaN, infinities, both zeros, extremes."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype.startswith("complex"):
        part = "float32" if dtype == "complex64" else "float64"
        x = np.empty(shape, dtype)
        x.real, x.imag = (random_array(seed + i, shape, part, special) for i in range(2))
        return x
    if dtype in FLOATS or dtype == "float16":
        x = rng.normal(size=shape).astype(dtype)
        if special and x.size:
            flat = x.reshape(-1)
            kind = np.dtype(dtype).type
            with np.errstate(over="ignore"):
                odd = np.array(
                    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-42, 3e38, 1.0, -1.0, 0.5, 88.7, -103.0]
                ).astype(kind)
            at = rng.integers(0, flat.size, max(1, flat.size // 3))
            flat[at] = odd[rng.integers(0, len(odd), len(at))]
        return x
    info = np.iinfo(dtype)
    if special:
        return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    return rng.integers(max(-9, info.min), 10, shape).astype(dtype)


# ---- the steps

KINDS: dict[str, Callable[..., Any]] = {}


def kind(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register a step."""
    KINDS[function.__name__.rstrip("_")] = function
    return function


@kind
def tensor(env: Env, seed: int, shape: tuple[int, ...], dtype: str, special: bool, grad: bool) -> Any:
    # NumPy lacks bfloat16.
    x = mt.tensor(random_array(seed, shape, "float32" if dtype == "bfloat16" else dtype, special))
    x = x.to(getattr(mt, dtype))
    return x.requires_grad_() if grad else x


@kind
def shared(env: Env, seed: int, shape: tuple[int, ...], dtype: str, transposed: bool) -> Any:
    array = random_array(seed, shape, dtype, False)
    env.arrays[env.out] = array
    return mt.from_numpy(array.T if transposed else array)


@kind
def array_write(env: Env, x: Any, slot: int) -> None:
    if slot in env.arrays and env.arrays[slot].size:
        array = env.arrays[slot]
        array[...] = ~array if array.dtype == bool else array + array.dtype.type(1)


@kind
def array_read(env: Env, x: Any, slot: int) -> None:
    if slot in env.arrays:
        env.seen.append(env.arrays[slot].copy())


@kind
def index_tensor(env: Env, seed: int, shape: tuple[int, ...], low: int, high: int, dtype: str) -> Any:
    return mt.tensor(np.random.default_rng(seed).integers(low, high, shape).astype(dtype))


@kind
def unary(env: Env, x: Any, name: str) -> Any:
    return getattr(mt, name)(x)


@kind
def unary_inplace(env: Env, x: Any, name: str) -> Any:
    getattr(x, name + "_")()


def bounded(operands: Sequence[Any], name: str) -> Sequence[Any]:
    """The operands, with degrees for which a recurrence ends soon, and without NaN whose sign is looked at.

    A recurrence takes as many steps as its degree says; which sign a NaN has is nobody's promise.
    """
    if "polynomial" in name:
        return [operands[0], mt.clamp(operands[1], max=99)]
    if name in ("signbit", "copysign"):
        return [mt.where(x == x, x, mt.zeros((), dtype=x.dtype)) for x in operands]
    return operands


@kind
def elementwise(env: Env, *arguments: Any) -> Any:
    *operands, name = arguments
    return mt.ops.ROWS[name].call(*bounded(operands, name))


@kind
def elementwise_inplace(env: Env, x: Any, *arguments: Any) -> None:
    *operands, name = arguments
    getattr(x, name + "_")(*bounded([x, *operands], name)[1:])


def fitted(x: Any, like: Any) -> Any:
    """Elements of x in the shape and dtype of another tensor."""
    if not x.numel() or not like.numel():
        return like
    flat = x.reshape(-1)
    times = -(-like.numel() // x.numel())
    flat = flat.repeat(times) if times > 1 else flat
    return flat[: like.numel()].reshape(tuple(like.shape)).to(like.dtype)


@kind
def sample(env: Env, *arguments: Any) -> Any:
    """Any op on the arguments that its tests have, its floating-point operands `places` filled from the program."""
    *tensors, name, form, dtype, domain, seed, places = arguments
    row = mt.ops.ROWS[name]
    built = list(row_samples.build(row_samples.forms(row)[form], dtype, domain, seed))
    for place, x in zip(places, tensors, strict=True):
        if place < len(built) and isinstance(built[place], mt.Tensor) and built[place].is_floating_point():
            built[place] = fitted(x, built[place])
    found = row.call(*(bounded(built, name) if all(isinstance(b, mt.Tensor) for b in built) else built))
    return found[seed % len(found)] if isinstance(found, (tuple, list)) else found


@kind
def binary(env: Env, x: Any, y: Any, name: str) -> Any:
    return mt.ops.ROWS[name].call(x, y)


@kind
def binary_number(env: Env, x: Any, name: str, number: Any, reverse: bool) -> Any:
    call = mt.ops.ROWS[name].call
    return call(number, x) if reverse else call(x, number)


@kind
def binary_inplace(env: Env, x: Any, y: Any, name: str) -> None:
    getattr(x, name + "_")(y)


@kind
def binary_number_inplace(env: Env, x: Any, name: str, number: Any) -> None:
    getattr(x, name + "_")(number)


@kind
def add_alpha(env: Env, x: Any, y: Any, alpha: float, inplace: bool) -> Any:
    if not inplace:
        return mt.add(x, y, alpha=alpha)
    x.add_(y, alpha=alpha)
    return None


@kind
def where(env: Env, c: Any, x: Any, y: Any) -> Any:
    return mt.where(c, x, y)


@kind
def where_number(env: Env, c: Any, x: Any, number: float) -> Any:
    return mt.where(c, x, number)


@kind
def clamp(env: Env, x: Any, low: Any, high: Any) -> Any:
    return mt.clamp(x, low, high)


@kind
def convert(env: Env, x: Any, dtype: str) -> Any:
    return x.to(getattr(mt, dtype))


@kind
def method(env: Env, x: Any, name: str, *args: Any) -> Any:
    return getattr(x, name)(*args)


@kind
def method_inplace(env: Env, x: Any, name: str, *args: Any) -> None:
    getattr(x, name)(*args)


@kind
def data(env: Env, x: Any) -> Any:
    return x.data


@kind
def getitem(env: Env, x: Any, key: Any) -> Any:
    return x[unpack(key)]


@kind
def setitem_number(env: Env, x: Any, key: Any, number: Any) -> None:
    x[unpack(key)] = number


@kind
def setitem(env: Env, x: Any, y: Any, key: Any) -> None:
    x[unpack(key)] = y


@kind
def getitem_tensor(env: Env, x: Any, index: Any) -> Any:
    return x[index]


@kind
def setitem_tensor(env: Env, x: Any, index: Any, number: Any) -> None:
    x[index] = number


@kind
def copy(env: Env, x: Any, y: Any) -> None:
    x.copy_(y)


@kind
def indexed(env: Env, x: Any, index: Any, name: str, dim: int) -> Any:
    return mt.ops.ROWS[name].call(x, index, dim)


@kind
def index_write(env: Env, x: Any, index: Any, src: Any, name: str, dim: int, inplace: bool) -> Any:
    if inplace:
        getattr(x, name + "_")(dim, index, src)
        return None
    return mt.ops.ROWS[name].call(x, index, src, dim)


@kind
def gather_argmax(env: Env, x: Any, dim: int) -> Any:
    return x.gather(x.argmax(dim, keepdim=True), dim)


@kind
def cat(env: Env, x: Any, y: Any, dim: int) -> Any:
    return mt.cat([x, y, x], dim)


@kind
def stack(env: Env, x: Any, y: Any, dim: int) -> Any:
    return mt.stack([x, y], dim)


@kind
def pair(env: Env, x: Any, name: str, which: int, *args: Any) -> Any:
    return mt.ops.ROWS[name].call(x, *args)[which]


@kind
def matmul(env: Env, x: Any, y: Any) -> Any:
    return x @ y


@kind
def cross_entropy(env: Env, x: Any, target: Any) -> Any:
    return mt.nn.functional.cross_entropy(x, target)


@kind
def create(env: Env, name: str, args: tuple[Any, ...], dtype: str) -> Any:
    return getattr(mt, name)(*args, dtype=getattr(mt, dtype))


@kind
def fill_random(env: Env, x: Any, name: str) -> None:
    getattr(x, name)()


@kind
def drop(env: Env, x: Any, slot: int) -> None:
    env.slots.pop(slot, None)


@kind
def observe(env: Env, x: Any, how: str) -> None:
    if how == "numpy":
        env.seen.append(contents(x))
    elif how == "tolist":
        env.seen.append(np.array(x.detach().tolist()))
    elif how == "item" and x.numel():
        env.seen.append(np.array(x.detach().reshape(-1)[0].item()))
    elif how == "bool" and x.numel():
        env.seen.append(np.array(bool(x.detach().reshape(-1)[0])))
    elif how == "repr":
        env.seen.append(repr(x.detach()))


@kind
def flush(env: Env) -> None:
    mt._C.flush("a step of the program")


@kind
def backward(env: Env, x: Any, retain: bool) -> None:
    x.sum().backward(retain_graph=retain)


@kind
def second_order(env: Env, x: Any, leaf: Any) -> Any:
    (g,) = mt.autograd.grad(x.sum(), [leaf], create_graph=True)
    if g.requires_grad:
        (h,) = mt.autograd.grad((g * g).sum(), [leaf], allow_unused=True)
        return h
    return g


@kind
def gradient(env: Env, x: Any) -> Any:
    return x.grad


@kind
def sgd(env: Env, x: Any, rate: float) -> None:
    with mt.no_grad():
        if x.grad is not None:
            x.sub_(x.grad, alpha=rate)
            x.grad = None


@kind
def no_grad_scale(env: Env, x: Any, number: float) -> Any:
    with mt.no_grad():
        return x * number


def unpack(key: Any) -> Any:
    """An index of ("slice", a, b, c), "...", None and ints, from its written form."""
    items = tuple(slice(*k[1:]) if isinstance(k, tuple) else ... if k == "..." else k for k in key)
    return items[0] if len(items) == 1 else items


# ---- running

Outcome = tuple[dict[str, Any], list[Any]]


def step(env: Env, s: Step) -> None:
    """One step; an exception of the framework is its outcome."""
    if any(i not in env.slots for i in s.inputs):
        return
    env.out = s.out
    try:
        result = KINDS[s.kind](env, *(env.slots[i] for i in s.inputs), *s.params)
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
        env.seen.append(f"{s}: {type(error).__name__}")
        return
    if result is not None:
        env.slots[s.out] = result


def execute(program: Program) -> Env:
    """Run the steps in the mode that is in force."""
    env = Env()
    mt.manual_seed(7)
    for s in program:
        step(env, s)
    return env


def outcome(env: Env) -> Outcome:
    """Everything that can be seen at the end, as NumPy arrays."""
    values: dict[str, Any] = {}
    for slot, x in sorted(env.slots.items()):
        values[f"s{slot}"] = contents(x)
        values[f"s{slot}.requires_grad"] = x.requires_grad
        values[f"s{slot}.strides"] = x.stride() if x.numel() else None
        values[f"s{slot}.version"] = x._version
        if x.is_leaf and x.grad is not None:
            values[f"s{slot}.grad"] = contents(x.grad)
    for slot, array in env.arrays.items():
        values[f"array{slot}"] = array.copy()
    values["generator"] = mt.get_rng_state().numpy().copy()
    return values, env.seen


def contents(x: Any) -> np.ndarray:
    """The elements, of bfloat16 as float32."""
    x = x.detach()
    return (x.to(mt.float32) if x.dtype is mt.bfloat16 else x.resolve_conj().resolve_neg()).numpy().copy()


def bits(value: Any) -> Any:
    """For comparison: arrays by their bits, with one NaN for all."""
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind == "c":
        return (value.dtype.str, value.shape, bits(value.real.copy()), bits(value.imag.copy()))
    if value.dtype.kind == "f":
        value = np.where(np.isnan(value), np.array(np.nan, value.dtype), value)
    return (value.dtype.str, value.shape, value.tobytes())


def difference(a: Outcome, b: Outcome) -> str | None:
    """What differs first, in words."""
    for name in sorted({*a[0], *b[0]}):
        if bits(a[0].get(name)) != bits(b[0].get(name)):
            return f"{name}: {describe(a[0].get(name), b[0].get(name))}"
    for place, (x, y) in enumerate(zip(a[1], b[1], strict=False)):
        if bits(x) != bits(y):
            return f"observation {place}: {describe(x, y)}"
    return None if len(a[1]) == len(b[1]) else f"{len(a[1])} and {len(b[1])} observations: {a[1][-1:]} {b[1][-1:]}"


def describe(x: Any, y: Any) -> str:
    """Two values, and where they differ."""
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray) and x.shape == y.shape and x.dtype == y.dtype:
        unequal = np.argwhere(
            ~((x == y) & (np.signbit(x) == np.signbit(y)) | (x != x) & (y != y)) if x.dtype.kind == "f" else x != y
        )
        if len(unequal):
            at = tuple(unequal[0])
            return f"{x.dtype}{list(x.shape)} {len(unequal)} differ, first {at}: {x[at]!r} and {y[at]!r}"
    return f"{x!r} and {y!r}"


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Run inside with that many threads."""
    before = mt.get_num_threads()
    mt.set_num_threads(count)
    try:
        yield
    finally:
        mt.set_num_threads(before)


def run_eager(program: Program) -> Outcome:
    return outcome(execute(program))


def run_recorded(program: Program, **options: Any) -> Outcome:
    with mt.jit.options(cpu_global_jit=True, **options):
        mt._C.begin_recording()
        try:
            env = execute(program)
        finally:
            mt._C.end_recording("the end of the program")
        return outcome(env)


def run_again(program: Program) -> Outcome:
    """Recorded for the third time: as far as nothing else has come, the recording follows the second one."""
    for _ in range(2):
        run_recorded(program, auto_jit=2, min_cluster_size=1)
    return run_recorded(program, auto_jit=2, min_cluster_size=1)


def run_program(program: Program) -> Outcome:
    """As a whole program, by a clock that says anything: what is recorded and what runs eagerly keeps changing."""
    chance = random.Random(len(program))
    times = itertools.accumulate(chance.choice((1, 1000, 10**9)) for _ in itertools.count())
    with mt.jit.options(auto_jit=2, cpu_global_jit=True, enable_lazy_compilation=chance.random() < 0.3):
        mt._C.begin_program()
        mt._C.set_policy_clock(lambda: next(times))
        try:
            for _ in range(3):
                env = execute(program)
        finally:
            mt._C.end_recording("the end of the program")
            mt._C.set_policy_clock(None)
        return outcome(env)


def run_scope(program: Program) -> Outcome:
    env = Env()
    mt.manual_seed(7)
    half = len(program) // 2
    with mt.jit_scope():
        for s in program[:half]:
            step(env, s)
    for place in range(half, len(program), 7):
        with mt.jit_scope(place % 2 == 0), mt.jit_scope():
            for s in program[place : place + 7]:
                step(env, s)
    return outcome(env)


def run_function(program: Program) -> Outcome:
    return outcome(mt.function(lambda: execute(program))())


class _Collect(logging.Handler):
    def __init__(self, into: list[str]) -> None:
        super().__init__()
        self._into = into

    def emit(self, record: logging.LogRecord) -> None:
        self._into.append(record.getMessage())


@contextlib.contextmanager
def compiler_failures() -> Iterator[list[str]]:
    """What the compiler could not do inside, and left to eager kernels: a defect, even if the values are right."""
    messages: list[str] = []
    logger, handler = logging.getLogger("minitensor_jit"), _Collect(messages)
    logger.addHandler(handler)
    before, logger.propagate = logger.propagate, False
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


INPUTS = ("tensor", "index_tensor")


refused: list[str] = []


def check_compiled(program: Program) -> str | None:
    """The program as one compiled function of its tensors: recorded, replayed, and replayed with other values."""
    inputs = [s for s in program if s.kind in INPUTS]
    rest = [s for s in program if s.kind not in INPUTS]

    def make(offset: int) -> list[Any]:
        env = Env()
        for s in inputs:
            step(env, Step(s.kind, s.out, (), (s.params[0] + offset, *s.params[1:])))
        return [env.slots[s.out] for s in inputs]

    def body(*tensors: Any) -> list[Any]:
        env = Env(slots={s.out: x for s, x in zip(inputs, tensors, strict=True)})
        for s in rest:
            if all(i in env.slots for i in s.inputs):
                result = KINDS[s.kind](env, *(env.slots[i] for i in s.inputs), *s.params)
                if result is not None:
                    env.slots[s.out] = result
        return list(env.slots.values())

    compiled = mt.function(body, jit_compile=True)
    for turn, offset in enumerate((0, 0, 1)):
        ours, theirs = make(offset), make(offset)
        try:
            expected = body(*ours) + ours
            got = compiled(*theirs) + theirs
        except mt.InvalidArgumentError as error:
            refused.append(str(error))
            return None
        except (RuntimeError, TypeError, ValueError, IndexError):
            return None  # an incomplete program that shrinking made
        for place, (x, y) in enumerate(zip(expected, got, strict=True)):
            a, b = contents(x), contents(y)
            if bits(a) != bits(b) or (x.numel() and x.stride() != y.stride()):
                return f"call {turn}, result {place}: {describe(a, b)}"
    return None


MODES: dict[str, Callable[[Program], Outcome]] = {
    "recorded": lambda program: run_recorded(program, auto_jit=2, min_cluster_size=1),
    "recorded-4": lambda program: run_recorded(program, auto_jit=1),
    "recorded-small": lambda program: run_recorded(program, auto_jit=2, min_cluster_size=2, max_cluster_size=5),
    "again": run_again,
    "program": run_program,
    "scope": run_scope,
    "function": run_function,
}


def check(program: Program, mode: str, count: int = 2, *, fresh: bool = False) -> str | None:
    """None if the program does the same eagerly and in that mode; else what differs. `fresh`: compile it anew."""
    if fresh:
        mt.jit.cache_clear()
    expected = run_eager(program) if mode != "compiled" else None
    with threads(count), compiler_failures() as failures:
        try:
            found = difference(expected, MODES[mode](program)) if expected else check_compiled(program)
        except Exception as error:
            earlier = re.search(r"failed earlier with (\w+)", str(error))
            name = earlier[1] if earlier else type(error).__name__
            if expected and any(isinstance(seen, str) and seen.endswith(f": {name}") for seen in expected[1]):
                return None  # recorded, it is raised where the recording runs, and what was recorded with it is lost
            return f"{name}: {error}"
    return found or (failures[0] if failures else None)


def shrink(program: Program, fails: Callable[[Program], bool]) -> Program:
    """A small part of the program that still fails."""
    size = max(len(program) // 2, 1)
    while True:
        place, changed = 0, False
        while place < len(program):
            smaller = program[:place] + program[place + size :]
            if smaller and fails(smaller):
                program, changed = smaller, True
            else:
                place += size
        if size == 1 and not changed:
            return program
        size = max(size // 2, 1)


def text(program: Program) -> str:
    """The program to read, and to paste."""
    return "\n".join(map(str, program)) + "\n\n" + "[\n" + "".join(f"    {s!r},\n" for s in program) + "]"
