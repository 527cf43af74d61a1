"""Properties of the passes as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minitensor_jit.ir.analysis.equal import difference
from minitensor_jit.ir.analysis.flat import flat_parts
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.module import Instruction, Module
from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.testing import random_arguments, random_module, same_bits
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.ir.text.printer import print_module
from minitensor_jit.ir.verifier import VerificationError
from minitensor_jit.passes.algebraic_simplifier import AlgebraicSimplifier, RulesFightError
from minitensor_jit.passes.fusion.fusion import Fusion
from minitensor_jit.passes.fusion.row_fusion import RowFusion
from minitensor_jit.passes.pass_manager import PassManager
from minitensor_jit.passes.pipeline import PASSES, PipelineOptions, pipeline, run_pipeline
from minitensor_jit.passes.simplify import ALL_RULES, Rewriter, Rule


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_says_whether_it_changed_anything(name: str) -> None:
    """Of modules that it leaves alone, a pass says so: each is written as before."""
    for seed in range(12):
        module = random_module(seed, 20)
        PassManager([PASSES["dce"]()]).run(module)  # fusions ask for users of everything
        before = print_module(module)
        changed = PassManager([PASSES[name]()]).run(module)
        assert changed == (print_module(module) != before), seed


@pytest.mark.parametrize("seed", range(80))
def test_every_pass_keeps_the_bits_of_random_modules(seed: int) -> None:
    module = random_module(seed, 40)
    arguments = random_arguments(module, seed)
    want = evaluate(module, arguments)

    def compare(name: str, module: Module, changed: bool, _: object) -> None:
        if changed:
            for k, (a, b) in enumerate(zip(want, evaluate(module, arguments), strict=True)):
                assert same_bits(a, b), f"{name} changed result {k}"

    run_pipeline(module, PipelineOptions(verify=True, on_pass=compare))
    assert difference(parse_module(print_module(module)), module, metadata=True) is None


@pytest.mark.parametrize("seed", range(20))
def test_the_pipeline_is_idempotent_before_fusion(seed: int) -> None:
    module = run_pipeline(random_module(seed, 40), PipelineOptions(fuse=False))
    again = run_pipeline(module.clone(), PipelineOptions(fuse=False))
    assert again.instruction_count() <= module.instruction_count()


@pytest.mark.parametrize("seed", range(20))
def test_fusion_leaves_nothing_that_a_loop_can_compute(seed: int) -> None:
    module = run_pipeline(random_module(seed, 40))
    left = {i.opcode for i in module.entry}
    alone = {"scatter", "sort", "dot", "reshape"}
    assert left <= {"parameter", "constant", "fusion", "tuple", "get-tuple-element"} | alone


@pytest.mark.parametrize("seed", range(40))
def test_fusions_keep_their_contracts(seed: int) -> None:
    module = run_pipeline(random_module(seed, 60))
    for fusion in module.entry:
        if fusion.opcode != "fusion":
            continue
        body = fusion.attrs["calls"]
        assert not body.clone().remove_dead()
        kind = fusion.attrs["kind"]
        if kind == "kLoop":
            assert len({r.dims for r in body.roots}) == 1 or flat_parts(body)
            assert all(i.opcode != "reduce" for i in body)
        elif kind == "kInput":
            reduces = [i for i in body if i.opcode == "reduce"]
            assert set(reduces) == set(body.roots)
            assert len({(r.operands[0].dims, tuple(r.attrs["dimensions"])) for r in reduces}) == 1
        else:
            assert_row_contract(fusion)


def assert_row_contract(fusion: Instruction) -> None:
    assert fusion.attrs["backend_config"] == "row"
    body = fusion.attrs["calls"]
    reduces = [i for i in body if i.opcode == "reduce"]
    full = reduces[0].operands[0].dims
    rows = reduces[0].dims
    for i in body:
        if i.opcode == "reduce":
            assert i.operands[0].dims == full
            assert i.dims == rows == full[: len(rows)]
        elif i.opcode not in ("parameter", "tuple"):
            assert i.dims in (full, rows, ())
    assert all(r.dims in (full, rows) for r in body.roots)


def test_the_pass_manager_names_the_pass_that_broke_the_module() -> None:
    class Breaker:
        name = "breaker"

        def run(self, module: Module) -> bool:
            module.entry.root.shape = Shape("f32", (3,))
            return True

    b = Builder("m")
    module = b.build(b.negate(b.parameter(Shape("f32", (2,)))))
    with pytest.raises(VerificationError, match="not valid after breaker"):
        PassManager([Breaker()]).run(module)


def test_hooks_see_every_pass() -> None:
    seen: list[tuple[str, bool]] = []
    b = Builder("m")
    x = b.parameter(Shape("f32", (2,)))
    module = b.build(b.negate(b.negate(x)))
    run_pipeline(module, PipelineOptions(on_pass=lambda name, _, changed, rules: seen.append((name, changed))))
    assert [name for name, _ in seen] == [p.name for p in pipeline()]
    assert ("algsimp", True) in seen
    assert module.entry.root.opcode == "parameter"


def test_rules_that_fight_are_named() -> None:
    def negate(i: Instruction, r: Rewriter) -> Instruction | None:
        return r.emit("abs", i.operands)

    def absolute(i: Instruction, r: Rewriter) -> Instruction | None:
        return r.emit("negate", i.operands)

    rules = [Rule("there", ("negate",), negate, ""), Rule("back", ("abs",), absolute, "")]
    b = Builder("m")
    module = b.build(b.negate(b.parameter(Shape("f32", (2,)))))
    with pytest.raises(RulesFightError) as error:
        AlgebraicSimplifier(rules).run(module)
    assert set(error.value.rules) == {"there", "back"}
    with pytest.warns(RuntimeWarning, match="undo each other"):
        AlgebraicSimplifier(rules, strict=False).run(module)
    assert evaluate(module, [np.float32([1, -2])])[0].shape == (2,)


def test_a_long_chain_is_no_fight() -> None:
    b = Builder("m")
    x = b.parameter(Shape("f32", (200,)))
    for n in range(199, 100, -1):
        x = b.slice(x, (0,), (n,))
    module = b.build(x)
    AlgebraicSimplifier().run(module)
    assert [i.opcode for i in module.entry.instructions] == ["parameter", "slice"]
    assert module.entry.root.dims == (101,)


def test_constant_folding_can_be_left_out() -> None:
    assert "constant-folding" in [p.name for p in pipeline()]
    assert "constant-folding" not in [p.name for p in pipeline(fold_constants=False)]


def test_rules_have_distinct_names_and_say_what_they_do() -> None:
    names = [rule.name for rule in ALL_RULES]
    assert len(names) == len(set(names))
    assert all(rule.what for rule in ALL_RULES)
    assert all(one.__doc__ for one in PASSES.values())


def test_refusals_have_reasons() -> None:
    b = Builder("m")
    x = b.parameter(Shape("f32", (64, 1000)))
    log = b.log(b.parameter(Shape("f32", (64,))))
    total = b.reduce_sum(b.subtract(x, b.broadcast(log, (64, 1000), (0,))), (0,))
    module = b.build(total)
    row, fusion = RowFusion(), Fusion()
    row.run(module)
    assert [(what.name, str(d)) for what, _, d in row.decisions] == [
        (total.name, "no: it does not reduce exactly the last dimensions")
    ]
    fusion.run(module)
    assert fusion.decisions[0].what is log
    assert "would be computed 64000 times for 64 elements" in str(fusion.decisions[0].decision)


def test_metadata_survives() -> None:
    from minitensor_jit.ir.module import Metadata

    b = Builder("m")
    x = b.parameter(Shape("f32", (4,)))
    with b.source(Metadata("Div", "div", "a.py", 5)):
        y = b.divide(x, b.full(Shape("f32", (4,)), 2.0))
    module = run_pipeline(b.build(y))
    assert module.entry.root.metadata == Metadata("Div", "div", "a.py", 5)
    body = module.entry.root.attrs["calls"]
    assert body.root.opcode == "multiply"
    assert body.root.metadata == Metadata("Div", "div", "a.py", 5)


def test_large_chains_do_not_recurse() -> None:
    b = Builder("m")
    x = b.parameter(Shape("f32", (4,)))
    y: Any = x
    for _ in range(3000):
        y = b.add(b.multiply(y, x), x)
    module = b.build(y)
    argument = np.zeros(4, np.float32)
    run_pipeline(module)
    assert evaluate(module, [argument])[0].tolist() == [0, 0, 0, 0]
