"""Equal loops that run as one: the bits of each alone, in place, whatever their sizes and however they are divided."""

import numpy as np
import pytest
from runtime_table import Runtime, agree, run, values

import minitensor as mt
from minitensor_jit.codegen.cpu.compiler import Options, compile_module
from minitensor_jit.ir.analysis.equal import difference
from minitensor_jit.ir.analysis.flat import flat_part, flat_parts
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.ir.text.printer import print_module
from minitensor_jit.ir.verifier import check
from minitensor_jit.passes.fusion import horizontal_loop_fusion
from minitensor_jit.passes.fusion.fusion import Fusion
from minitensor_jit.passes.fusion.horizontal_loop_fusion import HorizontalLoopFusion
from minitensor_jit.passes.memory_scheduler import peak_bytes
from minitensor_jit.passes.pass_manager import PassManager
from minitensor_jit.passes.pipeline import pipeline


def f32(*dims):
    return Shape("f32", dims)


def adam(b, rate, w, g, m, v):
    """The new parameter and moments."""
    m = b.add(b.multiply(m, b.full(m.array_shape, 0.9)), b.multiply(g, b.full(g.array_shape, 0.1)))
    v = b.add(b.multiply(v, b.full(v.array_shape, 0.99)), b.multiply(b.multiply(g, g), b.full(g.array_shape, 0.01)))
    step = b.divide(m, b.add(b.sqrt(v), b.full(v.array_shape, 1e-8)))
    return [b.subtract(w, b.multiply(b.broadcast(rate, w.dims, ()), step)), m, v]


def sgd(b, rate, w, g):
    return [b.subtract(w, b.multiply(b.broadcast(rate, w.dims, ()), g))]


def momentum(b, rate, w, g, m):
    m = b.add(b.multiply(m, b.full(m.array_shape, 0.75)), g)
    return [b.subtract(w, b.multiply(b.broadcast(rate, w.dims, ()), m)), m]


RULES = {"sgd": (sgd, 2), "momentum": (momentum, 3), "adam": (adam, 4)}


def updates(rule, sizes, dtype="f32"):
    """A module that updates parameters of these dimensions: the rate, then each one's arrays."""
    update, arrays = RULES[rule]
    b = Builder("updates")
    rate = b.parameter(Shape(dtype))
    results = []
    for dims in sizes:
        results += update(b, rate, *(b.parameter(Shape(dtype, dims)) for _ in range(arrays)))
    return b.build(b.tuple(*results))


def optimised(module, horizontal=True):
    passes = [p for p in pipeline() if horizontal or not isinstance(p, HorizontalLoopFusion)]
    PassManager(passes).run(module)
    return module


def horizontal(module):
    """The fusions of several loops, as the numbers of these."""
    fusions = [i for i in module.entry if i.opcode == "fusion"]
    return [len(parts) for i in fusions if (parts := flat_parts(i.attrs["calls"]))]


def arguments(module):
    rng = np.random.default_rng(0)
    return [
        np.asarray(rng.random(p.dims), p.array_shape.numpy_dtype) if p.dims else values(p.array_shape)
        for p in module.entry.parameters
    ]


@pytest.mark.parametrize("seed", range(12))
def test_bits_are_those_of_each_loop_alone(seed):
    rng = np.random.default_rng(seed)
    rule = list(RULES)[seed % 3]
    dtype = ("f32", "f64")[seed % 2]
    count = int(rng.integers(2, 20))
    ranks = rng.integers(1, 4, count)
    sizes = [tuple(int(n) for n in rng.integers(1, (3000, 40, 12)[rank - 1], rank)) for rank in ranks]
    module = updates(rule, sizes, dtype)
    args = arguments(module)
    plain, merged = (optimised(module.clone(), horizontal=h) for h in (False, True))
    # A parameter of one element has a loop of another form.
    assert horizontal(merged) == [sum(int(np.prod(dims)) > 1 for dims in sizes)]
    assert horizontal(plain) == []
    check(merged, "merged")
    assert difference(parse_module(print_module(merged)), merged, metadata=True) is None
    want = evaluate(module, args)
    alone = compile_module(plain, name="alone", options=Options(parallel_threshold=64))
    for threshold in (64, 3000, 1 << 40):
        together = compile_module(merged.clone(), name="together", options=Options(parallel_threshold=threshold))
        for chunks in (1, 3, 7):
            found = run(together, args, Runtime(chunks))
            for got, other, expected in zip(found, run(alone, args, Runtime(chunks)), want, strict=True):
                assert got.tobytes() == other.tobytes()
                assert agree(got, expected)


def test_updates_are_in_place():
    sizes = [(40, 30), (7,), (3, 5, 2), (1000,)]
    module = updates("adam", sizes)
    args = arguments(module)
    executable = compile_module(optimised(module.clone()), name="test", options=Options(parallel_threshold=64))
    pairs = [(3 * k + n, 1 + 4 * k + place) for k in range(len(sizes)) for n, place in enumerate((0, 2, 3))]
    assert set(pairs) <= executable.aliases
    assert executable.scratch_bytes == 0
    for got, want in zip(run(executable, args, Runtime(), pairs), evaluate(module, args), strict=True):
        assert agree(got, want)


def test_there_is_one_parallel_region_and_one_code():
    sizes = [(60, 50)] * 3 + [(10,)] * 10 + [(33, 3)]
    for h, regions in ((False, 3), (True, 1)):
        module = optimised(updates("adam", sizes), horizontal=h)
        executable = compile_module(module, name="test", options=Options(parallel_threshold=60 * 50))
        runtime = Runtime()
        run(executable, arguments(module), runtime)
        assert runtime.calls == regions
        assert executable.kernels == 1


def test_a_large_loop_stays_alone_and_has_the_same_code():
    module = optimised(updates("adam", [(300, 300), (10,), (20,)]))
    assert horizontal(module) == [2]
    executable = compile_module(module, name="test", options=Options(parallel_threshold=1000))
    assert executable.kernels == 1
    args = arguments(module)
    for got, want in zip(run(executable, args, Runtime()), evaluate(module, args), strict=True):
        assert agree(got, want)


def test_what_another_loop_reads_is_not_overwritten():
    b = Builder("shared")
    rate, w0, w1, g = b.parameter(f32()), b.parameter(f32(5)), b.parameter(f32(7)), b.parameter(f32(5))
    module = b.build(b.tuple(*sgd(b, rate, w0, g), *sgd(b, rate, w1, b.parameter(f32(7)))))
    PassManager([Fusion(), HorizontalLoopFusion()]).run(module)
    (fusion,) = [i for i in module.entry if i.opcode == "fusion"]
    # The second loop reads the first one's parameter, too.
    text = print_module(module).replace("f32[7]", "f32[5]")
    args = {p.parameter_number: p.name for p in parse_module(text).entry.parameters}
    text = text.replace(f"{fusion.name} = ", f"{fusion.name} = ", 1)
    line = next(n for n in text.splitlines() if " fusion(" in n)
    operands = line.split(" fusion(", 1)[1].split(")", 1)[0].split(", ")
    twice = [args[1] if o.endswith(args[4]) else o for o in operands]
    module = parse_module(text.replace(", ".join(operands), ", ".join(twice)))
    executable = compile_module(module, name="test", options=Options(parallel_threshold=2))
    assert (0, 1) not in executable.aliases
    given = arguments(module)
    for got, want in zip(run(executable, given, Runtime()), evaluate(module, given), strict=True):
        assert agree(got, want)


def test_little_more_memory_waits_than_a_cache_holds(monkeypatch):
    monkeypatch.setattr(horizontal_loop_fusion, "MAX_WAITING", 8 << 10)
    b = Builder("chain")
    rate = b.parameter(f32())
    x = b.parameter(f32(4, 16))
    results = []
    for _ in range(12):
        w = b.parameter(f32(16, 16))
        x = b.matmul(x, w)
        gradient = b.dot(x, x, lhs_contracting_dims=(0,), rhs_contracting_dims=(0,))
        results += sgd(b, rate, w, gradient)
    module = b.build(b.tuple(*results))
    plain, merged = (optimised(module.clone(), horizontal=h) for h in (False, True))
    assert horizontal(merged) == [8, 4]
    assert peak_bytes(merged.entry) <= peak_bytes(plain.entry) + (8 << 10)
    passes = [HorizontalLoopFusion()]
    PassManager(passes).run(plain)
    reasons = [(decision.reason, decision.nbytes) for *_, decision in passes[0].decisions]
    assert reasons == [("9216 bytes would wait for the last of them", 0)]  # and costs no traffic


def test_every_refusal_has_its_reason():
    def reasons(build, *shapes):
        b = Builder("m")
        module = b.build(b.tuple(*build(b, *(b.parameter(s) for s in shapes))))
        one = HorizontalLoopFusion()
        assert PassManager([Fusion(), one]).run(module)
        assert horizontal(module) == []
        return [str(decision) for *_, decision in one.decisions]

    def both(operation):
        return lambda b, x, y: [operation(b, x), operation(b, y)]

    place = "no: an element needs more than those at its own place and scalars"
    assert reasons(both(lambda b, x: b.reverse(x, (0,))), f32(5), f32(7)) == [place] * 2
    assert reasons(both(lambda b, x: b.negate(x)), f32(5), f32(300, 300)) == [
        "no: it moves 720000 bytes, which is worth a launch of its own"
    ]

    def read(b, x, y):
        a = b.negate(x)
        d = b.matmul(a, y)
        return [b.negate(d)]

    assert reasons(read, f32(5, 6), f32(6, 7)) == [
        "no: a result of those before it is read before its operands are there"
    ]


def test_keys_tell_loops_apart():
    def part(build, dims=(5,), dtype="f32"):
        b = Builder("m")
        shape = Shape(dtype, dims)
        module = b.build(build(b, b.parameter(shape), b.parameter(shape), b.parameter(Shape(dtype))))
        return flat_part(module.entry)

    def key(*args, **options):
        return part(*args, **options).key

    def scaled(b, x, y, s):
        return b.subtract(x, b.multiply(y, b.broadcast(s, x.dims, ())))

    assert key(scaled) == key(scaled, (3, 4))
    assert key(scaled) == key(lambda b, x, y, s: scaled(b, b.reshape(x, (5, 1)), b.reshape(y, (5, 1)), s))
    assert key(scaled) != key(scaled, dtype="f64")
    # The same with its arguments in another order.
    swapped = part(lambda b, x, y, s: scaled(b, y, x, s))
    assert key(scaled) == swapped.key
    assert [part(scaled).parameters, swapped.parameters] == [(2, 1, 0), (2, 0, 1)]
    others = [
        lambda b, x, y, s: b.subtract(x, b.multiply(b.broadcast(s, x.dims, ()), y)),
        lambda b, x, y, s: b.add(x, b.multiply(y, b.broadcast(s, x.dims, ()))),
        lambda b, x, y, s: b.subtract(x, b.multiply(y, b.full(x.array_shape, 0.5))),
        lambda b, x, y, s: b.subtract(x, b.multiply(y, b.full(x.array_shape, 0.25))),
        lambda b, x, y, s: b.select(b.compare(x, y, "LT"), x, y),
        lambda b, x, y, s: b.select(b.compare(x, y, "GT"), x, y),
        lambda b, x, y, s: b.select(b.compare(x, b.broadcast(s, x.dims, ()), "GT"), x, y),
    ]
    found = [key(scaled), *map(key, others)]
    assert len(set(found)) == len(found)
    assert part(scaled, (1,)) is None
    assert part(lambda b, x, y, s: b.reverse(x, (0,))) is None
    assert part(lambda b, x, y, s: b.reduce_sum(x, (0,))) is None
    assert part(lambda b, x, y, s: b.transpose(x, (1, 0)), (3, 4)) is None


def sgd_step(parameters):
    return mt.optim.SGD(parameters, lr=0.05, momentum=0.9).step


def adamw_step(parameters):
    """AdamW, written out."""
    first, second = ([mt.zeros_like(p) for p in parameters] for _ in range(2))
    count = mt.zeros(())

    def step():
        with mt.no_grad():
            count.add_(1.0)
            size, root = 0.01 / (1 - 0.9**count), (1 - 0.999**count).sqrt()
            for p, m, v in zip(parameters, first, second, strict=True):
                p.mul_(1 - 0.01 * 0.1)
                m.lerp_(p.grad, 0.1)
                v.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
                p.sub_(size * (m / (v.sqrt() / root + 1e-8)))

    return step


@pytest.mark.parametrize("count", [4, 30, 60])
@pytest.mark.parametrize("optimizer", [sgd_step, adamw_step])
def test_optimizers(optimizer, count):
    rng = np.random.default_rng(count)
    start = [rng.standard_normal(tuple(rng.integers(2, 30, 1 + k % 3))).astype(np.float32) for k in range(count)]

    def training(wrap):
        parameters = [mt.from_numpy(a.copy()).requires_grad_() for a in start]
        update = optimizer(parameters)

        def step():
            for p in parameters:
                p.grad = None
            sum((p * p).sum() for p in parameters).backward()
            update()

        for _ in range(3):
            wrap(step)
        return [p.detach().numpy().tobytes() for p in parameters]

    def recorded(step):
        with mt.jit_scope():
            step()

    before = mt.jit.cache_info()
    assert training(recorded) == training(lambda step: step())
    assert mt.jit.cache_info() != before
