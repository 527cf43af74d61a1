"""Modules, the builder, structural equality and the verifier."""

from __future__ import annotations

import numpy as np
import pytest

from minitensor_jit.ir.analysis.equal import difference, equal
from minitensor_jit.ir.builder import Builder, combiner
from minitensor_jit.ir.evaluate.evaluator import RULES as EVALUATION
from minitensor_jit.ir.infer.infer_shape import RULES as INFERENCE
from minitensor_jit.ir.infer.infer_shape import ShapeError
from minitensor_jit.ir.infer.structured import STRUCTURED
from minitensor_jit.ir.module import Computation, Instruction, Metadata, Module
from minitensor_jit.ir.opcode import OPCODES
from minitensor_jit.ir.shape import Shape, TupleShape
from minitensor_jit.ir.text.graphviz import print_dot
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.ir.text.syntax import ATTRIBUTES
from minitensor_jit.ir.verifier import VerificationError, check, verify


def f32(*dims: int) -> Shape:
    return Shape("f32", dims)


def test_every_opcode_has_its_rules() -> None:
    structural = set(STRUCTURED)
    assert set(INFERENCE) | structural == set(OPCODES)
    assert set(EVALUATION) | {"parameter"} == set(OPCODES)
    for row in OPCODES.values():
        assert {*row.required, *row.optional} <= set(ATTRIBUTES)


def test_shape_properties() -> None:
    shape = f32(2, 3)
    assert (shape.size, shape.rank, shape.nbytes, shape.numpy_dtype) == (6, 2, 24, np.float32)
    assert hash(shape) == hash(f32(2, 3))
    assert shape == f32(2, 3)
    assert Shape("pred").nbytes == 1
    assert TupleShape((shape, Shape("s64"))).nbytes == 32
    with pytest.raises(ValueError, match="unknown element type 'float32'"):
        Shape("float32")
    with pytest.raises(ValueError, match="negative"):
        f32(-1)


def test_source_metadata() -> None:
    b = Builder("m")
    x = b.parameter(f32(2))
    with b.source(Metadata("Neg", "neg", "a.py", 3)):
        y = b.negate(x)
        with b.source(None):
            z = b.negate(y)
    assert x.metadata is None
    assert y.metadata == Metadata("Neg", "neg", "a.py", 3)
    assert z.metadata is None


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda b, x: b.add(x, b.constant(1.0)), r"operand 0 is f32\[2,3\]\{1,0\} but operand 1 is f32\[\]"),
        (lambda b, x: b.add(x, b.full(Shape("s32", (2, 3)), 1)), "types must be equal"),
        (lambda b, x: b.and_(x, x), "and is not defined for f32"),
        (lambda b, x: b.not_(x), "not is not defined for f32"),
        (lambda b, x: b.select(x, x, x), "select chooses by f32, expected pred"),
        (lambda b, x: b.compare(x, x, "XX"), "direction XX"),
        (lambda b, x: b.reshape(x, (5,)), "number of elements"),
        (lambda b, x: b.transpose(x, (0, 0)), "no permutation"),
        (lambda b, x: b.broadcast(x, (3, 2), (0, 1)), "sizes differ"),
        (lambda b, x: b.broadcast(x, (3, 2, 3), (2, 1)), "must increase"),
        (lambda b, x: b.slice(x, (0, 0), (2, 4)), r"\[0:4:1\] does not fit dimension 1"),
        (lambda b, x: b.concatenate([x, b.transpose(x, (1, 0))], 0), "operand 1"),
        (lambda b, x: b.pad(x, b.constant(1), [(0, 0), (0, 0)]), "padding value of shape"),
        (lambda b, x: b.reduce_sum(x, (2,)), "out of range"),
        (lambda b, x: b.reduce_sum(x, (0, 0)), "not distinct"),
        (lambda b, x: b.reduce(x, b.constant(0), (0,)), "initial value"),
        (lambda b, x: b.matmul(x, x), "different sizes"),
        (lambda b, x: b.dot(x, x, lhs_contracting_dims=(0,), rhs_contracting_dims=(0, 1)), "equally many"),
        (lambda b, x: b.get_tuple_element(x, 0), "expected a tuple"),
        (lambda b, x: b.get_tuple_element(b.tuple(x), 1), "out of range"),
        (lambda b, x: b.bitcast_convert(x, "f64"), "one dimension more"),
        (lambda b, x: b.iota(f32(2), 1), "iota_dimension 1 is out of range"),
        (lambda b, x: b.dynamic_slice(x, [b.constant(0)], (1, 1)), "needs 2 start indices"),
        (lambda b, x: b.reverse(x, (0, 0)), "not distinct"),
        (lambda b, x: b.negate(b.tuple(x)), "expected an array"),
    ],
)
def test_the_builder_refuses(build: object, message: str) -> None:
    b = Builder("m")
    x = b.parameter(f32(2, 3))
    with pytest.raises(ShapeError, match=message):
        build(b, x)  # type: ignore[operator]


def test_errors_name_the_users_line() -> None:
    b = Builder("m")
    x = b.parameter(f32(2))
    with b.source(Metadata("Add", "add", "train.py", 42)), pytest.raises(ShapeError, match=r"train\.py:42"):
        b.add(x, b.constant(1.0))


def test_replace_and_remove_dead() -> None:
    b = Builder("m")
    x = b.parameter(f32(2))
    y = b.negate(x)
    z = b.exponential(y)
    r = b.add(y, z)
    entry = b.build(r).entry
    entry.replace_all_uses(y, x)
    assert r.operands == [x, z]
    assert z.operands == [x]
    assert entry.remove_dead()
    assert y not in entry.instructions
    assert not entry.remove_dead()
    entry.replace_all_uses(r, z)
    assert entry.root is z


def test_replace_by_something_that_reads_the_replaced() -> None:
    b = Builder("m")
    x = b.parameter(f32(2))
    y = b.negate(x)
    r = b.exponential(y)
    entry = b.build(r).entry
    new = Instruction("abs", "abs", f32(2), (y,))
    entry.instructions.append(new)
    entry.replace_all_uses(y, new)
    entry.sort()
    assert r.operands == [new]
    assert new.operands == [y]
    assert entry.instructions == [x, y, new, r]


def test_sort_finds_cycles() -> None:
    a = Instruction("a", "negate", f32(2))
    c = Instruction("c", "negate", f32(2), (a,))
    a.operands = [c]
    with pytest.raises(ValueError, match="cycle"):
        Computation("loop", [a, c], c).sort()


def test_users_and_clone() -> None:
    b = Builder("m")
    x = b.parameter(f32(4, 2))
    s = b.reduce_sum(b.multiply(x, x), (1,))
    module = b.build([s, x])
    users = module.entry.users()
    assert [u.opcode for u in users[x]] == ["multiply", "tuple"]
    mapping: dict[Instruction, Instruction] = {}
    copy = module.clone(mapping)
    assert equal(copy, module)
    assert copy.entry is not module.entry
    assert mapping[s].attrs["to_apply"] is copy.computations[0]
    mapping[s].attrs["dimensions"] = (0,)
    assert not equal(copy, module)


def test_difference_in_words() -> None:
    def module(opcode: str, *, shared: bool = True) -> Module:
        b = Builder("m")
        x = b.parameter(f32(2))
        y = b.emit(opcode, (x,))
        z = y if shared else b.emit(opcode, (x,))
        return b.build(b.add(y, z))

    assert difference(module("negate"), module("negate")) is None
    assert "negate and abs" in (difference(module("negate"), module("abs")) or "")
    assert "shared differently" in (difference(module("negate"), module("negate", shared=False)) or "")


def test_the_verifier_reports_every_violation() -> None:
    text = """HloModule m
f {
  a = f32[] parameter(0)
  ROOT b = f32[] negate(a)
}
ENTRY main {
  x = f32[2,3] parameter(0)
  y = f32[2,3] parameter(2)
  a = f32[3,2] negate(x)
  c = s32[2,3] add(x, a)
  r = f32[2] reduce(x, x), dimensions={1}, to_apply=f
  ROOT t = (f32[2,3]) tuple(x, y)
}
"""
    violations = verify(parse_module(text))
    found = [(v.line, v.instruction) for v in violations]
    # The reduce has no scalar to begin with, and its computation takes one too few.
    assert found == [(9, "a"), (10, "c"), (11, "r"), (11, "r"), (12, "t"), (6, "")]
    assert "is declared f32[3,2]{1,0} but must be f32[2,3]{1,0}" in str(violations[0])
    with pytest.raises(VerificationError) as error:
        check(parse_module(text), "after cse")
    assert len(error.value.violations) == 6
    assert "not valid after cse" in str(error.value)


ALL_WRONG = """\
HloModule m
add {
  a = f32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = f32[] copy(a)
}
ENTRY main {
  x = f32[2,3] parameter(0)
  y = s32[4,5] parameter(1)
  p = pred[4] parameter(2)
  d = f32[2,5] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[2,3] select(x, x, y)
  g = f32[2] gather(x, p), offset_dims={3}, collapsed_slice_dims={0,0}, start_index_map={1}, index_vector_dim=1, \
slice_sizes={9,1}
  b = s32[2,7,4] broadcast(x), dimensions={1,5}
  k = f32[1,1] slice(x), slice={[0:3], [2:9]}
  r = f32[2] reduce(x, y), dimensions={4}, to_apply=add
  i = pred[3] iota(), iota_dimension=7
  w = f32[2,3] concatenate(x, y, p), dimensions={0}
  ROOT t = (f32[2,3]) tuple(x)
}
"""


def test_the_verifier_reports_every_rule_that_an_instruction_breaks() -> None:
    found = [str(violation) for violation in verify(parse_module(ALL_WRONG))]
    lines = ALL_WRONG.splitlines()
    for name, parts in {
        "d": ("types must be equal", "contracting dimensions 1 and 0 have different sizes"),
        "s": ("dimensions must be equal", "select chooses by f32", "types must be equal"),
        "g": (
            "indices pred[4]{0} are not integers",
            "collapsed_slice_dims: dimensions [0, 0] are not distinct",
            "slice_sizes [9, 1] do not fit",
        ),
        "b": ("changes the type", "broadcast dimension 5 is out of range", "maps dimension 0"),
        "k": ("range [0:3:1] does not fit dimension 0", "range [2:9:1] does not fit dimension 1"),
        "r": ("dimensions [4] are not distinct or out of range", "initial value of shape s32[4,5]", "add takes"),
        "i": ("iota_dimension 7 is out of range", "iota is not defined for pred"),
        "w": ("operand 1 is s32[4,5]", "operand 2 is pred[4]"),
    }.items():
        line = next(k for k, text in enumerate(lines, 1) if text.startswith(f"  {name} = ") and k > 7)
        of_it = [message for message in found if message.startswith(f"line {line}: main.{name}: ")]
        for part in parts:
            assert sum(part in message for message in of_it) == 1, (name, part, of_it)
        assert len(of_it) == len(set(of_it))


def test_the_verifier_looks_at_the_graph() -> None:
    x = Instruction("x", "parameter", f32(2), parameter_number=0)
    stranger = Instruction("s", "parameter", f32(2), parameter_number=0)
    y = Instruction("x", "add", f32(2), (x, stranger), {"dimensions": (0,)})
    k = Instruction("k", "constant", f32(2), literal=np.zeros(3, np.float32))
    odd = Instruction("2 words", "negate", f32(2), (x,))
    w = Instruction("w", "fusion", f32(2), (x,), {"kind": "kOdd", "calls": combiner("add", "f32")})
    messages = [str(v) for v in verify(Module("m", [], Computation("main", [x, y, odd, k, w], stranger)))]
    messages += [str(v) for v in verify(Module("m", *_wrap(Computation("main", [x, y, odd, k, w], stranger))))]
    text = "\n".join(messages)
    for part in (
        "the entry main is not among the computations",
        "operand s is not defined above it",
        "add has no attribute 'dimensions'",
        "the name is used twice",
        "the literal has dimensions [3]",
        "fusion kind kOdd is none of",
        "no computation that stands above",
        "main.2 words: the name is not one that XLA reads",
        "the root s is not in the computation",
    ):
        assert part in text


def _wrap(computation: Computation) -> tuple[list[Computation], Computation]:
    return [computation], computation


@pytest.mark.parametrize("opcode", sorted(set(OPCODES) - {"fusion"}))
def test_dot_draws_every_opcode(opcode: str) -> None:
    module = Module("m", [root := Computation("c", [i := Instruction("i", opcode, f32(2))], i)], root)
    assert '"i' in print_dot(module)


def test_dot_draws_fusions_as_clusters() -> None:
    b = Builder("inner")
    x = b.parameter(f32(2))
    body = b.build_computation(b.negate(x))
    outer = Builder("m")
    p = outer.parameter(f32(2))
    text = print_dot(outer.build(outer.fusion(body, p)))
    assert text.startswith('digraph "m"')
    assert "subgraph cluster_" in text
    assert text.count("{") == text.count("}")
