"""What passes and the assignment of memory leave apart is in the account, with its lines; and each fix ends it.

Each case is a program before and after its fix, and what was refused: the op that it is about, the pass, the code.
"""

import json
import os
import subprocess
import sys

import pytest

import minitensor as mt
from minitensor import extend
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.refusal import Refused
from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.passes.collectives.all_reduce_combiner import AllReduceCombiner
from minitensor_jit.passes.fusion.fusion import Fusion
from minitensor_jit.passes.fusion.output_fusion import OutputFusion
from minitensor_jit.passes.layout_assignment import LayoutAssignment
from minitensor_jit.passes.while_loops.while_loop_invariant_code_motion import WhileLoopInvariantCodeMotion
from minitensor_jit.passes.while_loops.while_loop_unroller import WhileLoopUnroller

CASES = {}


def case(code, op, by):
    """A test function that gives what was refused `before` and `after` the fix."""

    def enter(make):
        CASES[code] = op, by, make
        return make

    return enter


def rows(fn, *args, whole=True):
    """The refusals of a function that is compiled as a whole, or recorded."""
    account = mt.jit.explain(mt.function(fn, jit_compile=True) if whole else fn)(*args).to_json()
    return [row for cluster in account["clusters"] for row in cluster["refusals"]]


def refused(fn, *args, whole=True):
    return {(row["op"], row["pass"], row["code"]) for row in rows(fn, *args, whole=whole)}


@case("needed-in-memory", "add", "fusion")
def needed_in_memory():
    def before(x):
        y = x * 2.5 + 1
        return y, y.sum(0)

    return refused(before, mt.rand(64, 512)), refused(lambda x: before(x)[1], mt.rand(64, 512))


@case("computed-again", "log", "fusion")
def computed_again():
    def before(x, w):
        return (x - w.log()[:, None]).sum(0)

    def after(x, w):
        return (x - w.log()).sum(0)

    x, w = mt.rand(64, 1000), mt.rand(64) + 1
    return refused(before, x, w), refused(after, x, w[:, None].expand(64, 1000).clone())


@case("other-loop", "matmul", "output-fusion")
def other_loop():
    a, b = mt.rand(256, 64), mt.rand(64, 256)
    return (
        refused(lambda a, b: mt.relu((a @ b).reshape(16, 16, 256).flip(1)), a, b),
        refused(lambda a, b: mt.relu(a @ b).reshape(16, 16, 256).flip(1), a, b),
    )


@case("little-gained", "matmul", "output-fusion")
def little_gained():
    def fn(a, b):
        return mt.relu(a @ b)

    return refused(fn, mt.rand(8, 8), mt.rand(8, 8)), refused(fn, mt.rand(256, 8), mt.rand(8, 256))


@case("too-large", "sub", "fusion")
def too_large():
    def before(*xs):
        total = xs[0]
        for x in xs[1:]:
            total = total - x
        return total

    xs = [mt.rand(2000) for _ in range(100)]
    return refused(before, *xs), refused(lambda x: x[0] - x[1:].sum(0), mt.stack(xs))


@case("cycle", "mul", "fusion")
def cycle():
    def before(x):
        a = x * 2.5
        return a, x + a.sort()[0]

    def after(x):
        between = x.sort()[0] * 2.5
        return x * 2.5, x + between

    return refused(before, mt.rand(3000)), refused(after, mt.rand(3000))


@case("cache", "log_softmax", "row-fusion")
def cache():
    x = mt.rand(8, 100_000)
    return (
        refused(lambda x: mt.log_softmax(x, 1), x),
        refused(lambda x: mt.log_softmax(x.reshape(-1, 1000), 1), x),
    )


@case("few-rows", "log_softmax", "row-fusion")
def few_rows():
    def fn(x):
        return mt.log_softmax(x, 1)

    return refused(fn, mt.rand(2, 20_000)), refused(fn, mt.rand(8, 20_000))


@case("no-kernel", "matmul", "output-fusion")
def no_kernel():
    def fn(a, b):
        return mt.relu(a @ b)

    return refused(fn, mt.rand(1, 64), mt.rand(64, 20_000)), refused(fn, mt.rand(2, 64), mt.rand(64, 20_000))


@case("other-layout", "tanh", "layout-assignment")
def other_layout():
    def found(shape, batch):
        b = Builder("heads")
        x, y = (b.parameter(Shape("f32", shape)) for _ in range(2))
        around = {"lhs_batch_dims": batch, "rhs_batch_dims": batch}
        product = b.dot(b.tanh(x), b.tanh(y), lhs_contracting_dims=(3,), rhs_contracting_dims=(3,), **around)
        return of_pass(LayoutAssignment(), b.build(product))

    return found((2, 32, 4, 16), (0, 2)), found((2, 4, 32, 16), (0, 1))


@case("sizes-vary", "exp", "horizontal-loop-fusion")
def sizes_vary():
    def calls():
        for n in (30, 40, 70):
            x, y = mt.ones(n).exp(), mt.ones(50, n).exp()
            assert x.sum().item() == y[0].sum().item()

    def found(**options):
        options |= {"auto_jit": 2, "cpu_global_jit": True, "min_cluster_size": 1, "enable_lazy_compilation": False}
        with mt.jit.options(**options):
            mt.jit.cache_clear()
            return refused(calls, whole=False)

    return found(), found(dynamic_shapes=False)


LOOP = """HloModule m

condition {{
  s = (s32[], s32[], f32[8]{{0}}) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  end = s32[] get-tuple-element(s), index=1
  ROOT less = pred[] compare(n, end), direction=LT
}}

body {{
  s = (s32[], s32[], f32[8]{{0}}) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  end = s32[] get-tuple-element(s), index=1
  x = f32[8]{{0}} get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(n, one)
  y = f32[8]{{0}} tanh(x)
  ROOT t = (s32[], s32[], f32[8]{{0}}) tuple(next, end, y)
}}

ENTRY e {{
  given = s32[] parameter(0)
  x = f32[8]{{0}} parameter(1)
  zero = s32[] constant(0)
  three = s32[] constant(3)
  start = (s32[], s32[], f32[8]{{0}}) tuple(zero, {end}, x)
  ROOT w = (s32[], s32[], f32[8]{{0}}) while(start), condition=condition, body=body
}}
"""


def of_pass(one, module):
    one.run(module)
    return {(r.what.opcode, one.name, r.decision.why.code) for r in one.decisions}


@case("unknown-trip-count", "while", "while-unroll")
def unknown_trip_count():
    return tuple(of_pass(WhileLoopUnroller(), parse_module(LOOP.format(end=end))) for end in ("given", "three"))


EFFECT = """HloModule m

condition {{
  s = (s32[], f32[8]{{0}}, f32[8]{{0}}) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  end = s32[] constant(100)
  ROOT less = pred[] compare(n, end), direction=LT
}}

body {{
  s = (s32[], f32[8]{{0}}, f32[8]{{0}}) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  x = f32[8]{{0}} get-tuple-element(s), index=1
  y = f32[8]{{0}} get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(n, one)
  {inside}
  z = f32[8]{{0}} add(y, used)
  ROOT t = (s32[], f32[8]{{0}}, f32[8]{{0}}) tuple(next, x, z)
}}

ENTRY e {{
  x = f32[8]{{0}} parameter(0)
  zero = s32[] constant(0)
  {outside}
  start = (s32[], f32[8]{{0}}, f32[8]{{0}}) tuple(zero, {given}, x)
  ROOT w = (s32[], f32[8]{{0}}, f32[8]{{0}}) while(start), condition=condition, body=body
}}
"""


@case("effects", "topk", "while-licm")
def effects():
    top = "top = (f32[8]{0}, s32[8]{0}) topk(x), k=8, largest=true\n  used = f32[8]{0} get-tuple-element(top), index=0"
    kept = EFFECT.format(inside=top, outside="", given="x")
    moved = EFFECT.format(inside="used = f32[8]{0} tanh(x)", outside=top, given="used")
    return tuple(of_pass(WhileLoopInvariantCodeMotion(), parse_module(text)) for text in (kept, moved))


EXCHANGES = """HloModule m

ADD {{
  a = {dtype}[] parameter(0)
  b = {dtype}[] parameter(1)
  ROOT c = {dtype}[] add(a, b)
}}

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}

ENTRY main {{
  x = f32[8] parameter(0)
  y = {dtype}[8] parameter(1)
  a = f32[8] all-reduce(x), channel_id=1, to_apply=add
  b = {dtype}[8] all-reduce(y), channel_id=1, to_apply=ADD
  ROOT r = (f32[8], {dtype}[8]) tuple(a, b)
}}
"""


@case("other-exchange", "all-reduce", "all-reduce-combiner")
def other_exchange():
    return tuple(of_pass(AllReduceCombiner(), parse_module(EXCHANGES.format(dtype=t))) for t in ("f64", "f32"))


@case("not-rounded", "matmul", "reduce-precision")
def not_rounded():
    with mt.jit.options(reduce_precision="bf16"):
        whole = mt.arange(64).reshape(8, 8)

        def fn(a, b):
            return (a * 3) @ (b * 5)

        found = [{(row["into"]["op"], row["pass"], row["code"]) for row in rows(fn, x, x) if row["into"]}
                 for x in (whole, whole.float())]  # fmt: skip
        return tuple(found)


@case("may-fail", "sub", "buffer-assignment")
def may_fail():
    def fn(p, a, b):
        p.sub_(0.5 * p)
        return (a // b if not a.is_floating_point() else a / b) + 1

    p, a = mt.rand(100), mt.arange(1, 50)
    return refused(fn, p, a, a), refused(fn, p, a.float(), a.float())


@case("read-later", "mul", "buffer-assignment")
def read_later():
    @extend.op("doubled_for_refusals(Tensor input, Tensor other)", shape=lambda x, y: x)
    def doubled(x, y):
        return x + x

    def before(x):
        t = x.exp()
        r = doubled(x, t)
        x.mul_(2.5)
        return r, t

    def after(x):
        t = x.exp()
        r = x + x
        x.mul_(2.5)
        return r, t

    with mt.jit.options(auto_jit=2, cpu_global_jit=True, min_cluster_size=1):
        return refused(before, mt.rand(100), whole=False), refused(after, mt.rand(100), whole=False)


@case("other-place", "_assign", "buffer-assignment")
def other_place():
    x = mt.rand(100)
    return refused(lambda x: x.copy_(x.flip(0) * 2.5), x), refused(lambda x, y: y.copy_(x.flip(0) * 2.5), x, x.clone())


@pytest.fixture
def own_ops():
    """Takes away the ops that a test defines."""
    from minitensor.ops.row import ROWS

    known = set(ROWS)
    yield
    for name in set(ROWS) - known:
        del ROWS[name]


@pytest.mark.parametrize("code", CASES)
def test_the_fix_ends_the_refusal(code, own_ops):
    op, by, make = CASES[code]
    before, after = make()
    assert (op, by, code) in before
    assert (op, by, code) not in after


def test_every_code_has_a_fix_and_a_case():
    assert [one.code for one in Refused if not one.fix] == []
    assert {one.code for one in Refused} - set(CASES) == set()
    assert len({one.code for one in Refused}) == len(Refused)


def normalised(x, w):
    y = (x @ w).tanh()
    z = y - y.mean(0)
    return z.flip(0) @ w.mT, y


def test_a_refusal_has_its_lines_and_costs():
    found = rows(normalised, mt.rand(200, 128), mt.rand(128, 256))
    first = normalised.__code__.co_firstlineno
    (row,) = [row for row in found if row["code"] == "needed-in-memory"]
    assert (row["op"], row["into"]["op"], row["pass"]) == ("tanh", "mean", "output-fusion")
    assert (row["file"], row["line"]) == (__file__, first + 1)
    assert (row["into"]["file"], row["into"]["line"]) == (__file__, first + 2)
    assert (row["bytes"], row["flops"], row["count"]) == (200 * 256 * 4, 200 * 256, 1)
    assert row["fix"] == Refused.NEEDED_IN_MEMORY.fix
    assert [row["bytes"] for row in found] == sorted((row["bytes"] for row in found), reverse=True)


def test_the_text_shows_the_costliest_and_says_how_many_more_there_are():
    def many(x, y):
        results = []
        for _ in range(3):
            a, b, c, d = x + 1.5, y * x, x - y, x.exp()
            results += [a, a.sum(0), b, b.sum(0)]
            results += [c, c.sum(0)]
            results += [d, d.sum(0)]
            x = x * 1.5
            results += [x, x.sum(0)]
            y = y + 2.5
            results += [y, y.sum(0)]
            e, f, g = x.tanh(), x.sqrt(), x.abs()
            results += [e, e.sum(0), f, f.sum(0), g, g.sum(0)]
            h = x * y
            results += [h, h.sum(0)]
        return results

    account = mt.jit.explain(mt.function(many, jit_compile=True))(mt.rand(50, 60), mt.rand(50, 60))
    (cluster,) = account.to_json()["clusters"]
    assert len(cluster["refusals"]) > 8
    text = account.text()
    left = sum(row["count"] for row in cluster["refusals"][8:])
    assert cluster["refusals"][8]["bytes"] > 0
    assert f"    ... and {left} more\n" in text
    assert f"{sum(row['count'] for row in cluster['refusals'])} refusals" in text
    shown = [line for line in text.splitlines() if "flops: " in line]
    assert len(shown) == 8
    assert shown[0].strip().startswith(f"{cluster['refusals'][0]['bytes']:,} bytes")
    assert f"fix [needed-in-memory]: {Refused.NEEDED_IN_MEMORY.fix}" in text


def test_code_from_disk_tells_the_same(tmp_path):
    script = """
import json, sys
import minitensor as mt
sys.path.insert(0, {here!r})
from test_explain_refusals import normalised
fn = mt.function(normalised, jit_compile=True)
x, w = mt.ones(200, 128), mt.ones(128, 256)
account = mt.jit.explain(fn)(x, w)
(cluster,) = account.to_json()["clusters"]
whys = [one["why"] for one in account.to_json()["compiles"]]
print(json.dumps([cluster["refusals"], whys, mt.jit.cache_info()["disk_hits"]]))
"""
    here = __file__.rpartition("/")[0]

    def found():
        code = script.format(here=here)
        flags = {"MT_JIT_FLAGS": f"--persistent_cache_directory={tmp_path}"}
        done = subprocess.run(
            [sys.executable, "-c", code], env=os.environ | flags, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        return json.loads(done.stdout)

    compiled, whys, hits = found()
    assert compiled
    assert (whys, hits) == (["first use"], 0)
    loaded, whys, hits = found()
    assert loaded == compiled
    assert (whys, hits) == (["first use, loaded from disk"], 1)


def test_without_an_account_nothing_is_found_out():
    code = """
import sys
import minitensor as mt
fn = mt.function(lambda x: (x * 2 + 1).sum(0), jit_compile=True)
fn(mt.ones(3, 4))
assert "minitensor_jit.passes.fusion.fusion" in sys.modules
assert "minitensor_jit.compiler.refusals" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_result_of_a_loop_that_reads_its_operand_elsewhere_has_memory_of_its_own():
    def fn(a, b, c):
        return ((a @ b).flip(0) + 1.5) @ c

    found = rows(fn, *(mt.rand(64, 64) for _ in range(3)))
    found = [row for row in found if row["pass"] == "buffer-assignment"]
    assert [(row["op"], row["into"]["op"], row["code"], row["bytes"]) for row in found] == [
        ("add", "matmul", "other-place", 64 * 64 * 4)
    ]


@pytest.mark.parametrize("whole", [False, True])
def test_what_is_read_first_and_second_can_be_written_in_place(whole):
    args = mt.rand(100), mt.rand(100)
    with mt.jit.options(auto_jit=2, cpu_global_jit=True, min_cluster_size=1):
        assert refused(lambda x, y: x.copy_(x * 2.5 + y), *args, whole=whole) == set()
        assert refused(lambda x, y: y.copy_(x * 2.5 + y), *args, whole=whole) == set()


def test_a_refusal_that_a_later_merge_undoes_is_none():
    """Two results of one loop: a first look refuses to compute one in the other, a second makes them one fusion."""
    b = Builder("m")
    x = b.parameter(Shape("f32", (64, 64)))
    y = b.tanh(x)
    one = Fusion()
    assert one.run(b.build(b.tuple(y, b.add(y, x))))
    assert one.decisions == []


@pytest.mark.parametrize("in_registers", [False, True])
def test_a_product_that_is_only_a_result_is_no_refusal(in_registers):
    def refusals(results):
        b = Builder("m")
        product = b.matmul(b.parameter(Shape("f32", (128, 128))), b.parameter(Shape("f32", (128, 128))))
        module = b.build(b.tuple(*results(b, product)))
        one = OutputFusion(in_registers)
        one.run(module)
        return [refusal.decision.why for refusal in one.decisions]

    assert refusals(lambda b, product: [product]) == []
    assert refusals(lambda b, product: [product, b.tanh(product)]) == [Refused.NEEDED_IN_MEMORY]


def test_refusals_of_a_recorded_program_are_those_of_its_cluster():
    def fn(x):
        y = (x * 2.5 + 1).tanh()
        return y, y.sum(0)

    x = mt.rand(64, 512)
    assert ("tanh", "fusion", "needed-in-memory") in refused(fn, x)
    assert refused(fn, x, whole=False) == refused(fn, x)
    again = mt.jit.explain(fn)(x).to_json()
    assert again["compiles"] == []  # the code is there
    assert [row for cluster in again["clusters"] for row in cluster["refusals"]] == rows(fn, x)
