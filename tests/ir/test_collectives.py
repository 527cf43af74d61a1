"""Collectives in the IR: text, shapes and meaning on several devices, compiled and evaluated; and what JAX lowers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minitensor_jit.codegen.cpu.compiler import compile_module
from minitensor_jit.ir.analysis.equal import difference
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.evaluate.collective import evaluate_devices, on_devices
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.infer.infer_shape import ShapeError
from minitensor_jit.ir.module import Module
from minitensor_jit.ir.narrow import array_of
from minitensor_jit.ir.semantics.collective import Devices, groups_of, parse_groups
from minitensor_jit.ir.shape import Shape, TupleShape
from minitensor_jit.ir.testing import same_bits
from minitensor_jit.ir.text.parser import ParseError, parse_module
from minitensor_jit.ir.text.printer import print_module
from minitensor_jit.ir.verifier import check, verify
from minitensor_jit.passes.pipeline import PipelineOptions, run_pipeline
from minitensor_jit.runtime.run_arrays import run_on_arrays

ADD = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n\n"


def f32(*dims: int) -> Shape:
    return Shape("f32", dims)


def values(*dims: int, devices: int = 4, dtype: Any = np.float32) -> list[list[Any]]:
    return [[np.random.default_rng(d).standard_normal(dims).astype(dtype)] for d in range(devices)]


def one(build: Callable[[Builder, Any], Any], *dims: int, dtype: str = "f32") -> Module:
    b = Builder("m")
    module = b.build(build(b, b.parameter(Shape(dtype, dims))))
    check(module)
    again = parse_module(print_module(module))
    assert difference(again, module) is None
    assert print_module(again) == print_module(module)
    return module


def compiled(module: Module, args: list[list[Any]]) -> list[list[Any]]:
    executable = compile_module(module.clone(), name=module.name)
    try:
        return on_devices(lambda device: run_on_arrays(executable, args[device]), Devices(len(args)))
    finally:
        executable.close()


def both(module: Module, args: list[list[Any]], exact: bool = True) -> list[list[Any]]:
    want = evaluate_devices(module, args)
    for theirs, ours in zip(want, compiled(module, args), strict=True):
        for a, b in zip(theirs, ours, strict=True):
            assert same_bits(a, b) if exact else np.allclose(a, b, rtol=1e-5, atol=1e-6)
    return want


START = """HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = DTYPE[4,3] parameter(0)
  s = DTYPE[4,3] all-reduce-start(x), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add
  n = DTYPE[4,3] negate(x)
  d = DTYPE[4,3] all-reduce-done(s)
  ROOT r = (DTYPE[4,3], DTYPE[4,3]) tuple(d, n)
}
"""


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_the_halves_of_an_all_reduce_are_one(dtype: str) -> None:
    module = parse_module(START.replace("DTYPE", dtype).replace("f32[]", f"{dtype}[]"))
    check(module)
    assert difference(parse_module(print_module(module)), module) is None
    whole = one(lambda b, p: b.tuple(b.all_reduce(p, "add", ((0, 1, 2, 3),)), b.negate(p)), 4, 3, dtype=dtype)
    args = [[array_of(a[0], dtype)] for a in values(4, 3)]
    for ours, theirs in zip(both(module, args), both(whole, args), strict=True):
        assert all(same_bits(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("all-reduce-done(s)", "all-reduce-done(x)", "ends an all-reduce-start, its operand is a parameter"),
        ("all-reduce-done(s)", "all-reduce-done(s, s)", "the result of one all-reduce-start, got 2 operands"),
        ("all-reduce-start(x)", "all-reduce-start(x, x)", "takes one operand, got 2"),
    ],
)
def test_halves_that_do_not_fit_are_errors(old: str, new: str, message: str) -> None:
    with pytest.raises((ParseError, ShapeError, ValueError), match=message):
        check(parse_module(START.replace("DTYPE", "f32").replace(old, new)))


def test_each_collective_gives_each_device_its_part() -> None:
    everyone = ((0, 1, 2, 3),)
    args = values(4, 3)
    x = [a[0] for a in args]
    total = ((x[0] + x[1]) + x[2]) + x[3]
    got = both(one(lambda b, p: b.all_reduce(p, "add", everyone), 4, 3), args)
    assert all(same_bits(out, total) for (out,) in got)
    got = both(one(lambda b, p: b.all_reduce(p, "maximum", ((3, 1), (0, 2))), 4, 3), args)
    assert same_bits(got[2][0], np.maximum(x[0], x[2]))
    got = both(one(lambda b, p: b.all_gather(p, 1, everyone), 4, 3), args)
    assert all(same_bits(out, np.concatenate(x, 1)) for (out,) in got)
    got = both(one(lambda b, p: b.all_gather(p, 0, ((1, 0), (3, 2))), 4, 3), args)
    assert same_bits(got[0][0], np.concatenate([x[1], x[0]]))
    got = both(one(lambda b, p: b.reduce_scatter(p, "add", 0, everyone), 4, 3), args)
    assert all(same_bits(got[d][0], total[d : d + 1]) for d in range(4))
    got = both(one(lambda b, p: b.all_to_all(p, 0, everyone), 4, 3), args)
    assert all(same_bits(got[d][0], np.concatenate([v[d : d + 1] for v in x])) for d in range(4))
    got = both(one(lambda b, p: b.collective_permute(p, ((0, 1), (1, 3))), 4, 3), args)
    assert same_bits(got[3][0], x[1])
    assert not got[0][0].any()
    got = both(one(lambda b, p: b.collective_broadcast(p, ((2, 0, 1), (3,))), 4, 3), args)
    assert [next(s for s in range(4) if same_bits(out, x[s])) for (out,) in got] == [2, 2, 2, 3]
    got = both(one(lambda b, p: b.add(b.broadcast(b.convert(b.partition_id(), "f32"), (4, 3)), p), 4, 3), args)
    assert same_bits(got[2][0], x[2] + np.float32(2))


def test_several_operands_and_empty_groups() -> None:
    text = f"""HloModule m

{ADD}ENTRY main {{
  x = f32[4] parameter(0)
  n = f32[4] negate(x)
  r = (f32[4], f32[4]) all-reduce(x, n), channel_id=1, to_apply=add
  a = (f32[4], f32[4]) all-to-all(x, n), channel_id=1, replica_groups={{{{1,0}}}}
  g = f32[8] all-gather(x), channel_id=1, replica_groups={{}}, dimensions={{0}}
  s = f32[2] reduce-scatter(x), channel_id=1, dimensions={{0}}, to_apply=add
  ROOT t = ((f32[4], f32[4]), (f32[4], f32[4]), f32[8], f32[2]) tuple(r, a, g, s)
}}
"""
    module = parse_module(text)
    check(module)
    args = values(4, devices=2)
    x, y = args[0][0], args[1][0]
    got = evaluate_devices(module, args)
    want = [x + y, -x + -y, -y, -x, np.concatenate([x, y]), (x + y)[:2]]
    assert all(same_bits(a, b) for a, b in zip(got[0], want, strict=True))
    assert same_bits(got[1][2], y)
    assert same_bits(got[1][3], x)


def test_stored_types_are_rounded_once() -> None:
    args = values(100, dtype=np.float16)
    got = both(one(lambda b, p: b.all_reduce(p, "add", ((0, 1, 2, 3),)), 100, dtype="f16"), args)
    wide = args[0][0].astype(np.float32)
    for (x,) in args[1:]:
        wide = wide + x.astype(np.float32)
    assert same_bits(got[0][0], wide.astype(np.float16))


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("{{0,1},{2,3}}", ((0, 1), (2, 3))),
        ("{}", ()),
        ("[2,2]<=[4]", ((0, 1), (2, 3))),
        ("[2,2]<=[2,2]T(1,0)", ((0, 2), (1, 3))),
        ("[2,4]<=[2,2,2]T(2,0,1)", ((0, 2, 4, 6), (1, 3, 5, 7))),
    ],
)
def test_texts_of_groups(text: str, groups: Any) -> None:
    assert parse_groups(text) == groups
    line = (
        f"ROOT r = f32[4] all-reduce(x), channel_id=1, replica_groups={text}, use_global_device_ids=true, to_apply=add"
    )
    module = parse_module(f"HloModule m\n\n{ADD}ENTRY main {{\n  x = f32[4] parameter(0)\n  {line}\n}}\n")
    assert module.entry.root.attrs["replica_groups"] == groups


@pytest.mark.parametrize(
    ("opcode", "attrs", "want"),
    [
        ("all-reduce", {}, ((0, 2, 4), (1, 3, 5))),
        ("all-reduce", {"replica_groups": ((2, 0), (1,))}, ((4, 0), (5, 1), (2,), (3,))),
        ("all-reduce", {"replica_groups": ((2, 0),), "channel_id": 1}, ((4, 5, 0, 1),)),
        ("all-reduce", {"replica_groups": ((2, 5),), "channel_id": 1, "use_global_device_ids": True}, ((2, 5),)),
        ("all-to-all", {"replica_groups": ((1, 0),), "channel_id": 1}, ((1, 0), (3, 2), (5, 4))),
        ("collective-permute", {"source_target_pairs": ((0, 2),)}, ((0, 4), (1, 5))),
        ("collective-permute", {"source_target_pairs": ((0, 1),), "channel_id": 3}, ((0, 1), (2, 3), (4, 5))),
    ],
)
def test_what_groups_number(opcode: str, attrs: dict[str, Any], want: Any) -> None:
    b = Builder("m")
    i = b.parameter(f32(4))
    i.opcode, i.attrs = opcode, attrs
    assert groups_of(i, Devices(partitions=2, replicas=3)) == want


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda b, x: b.all_reduce(x, "add", ((0, 1), (1, 2))), "named twice"),
        (lambda b, x: b.all_gather(x, 2, ((0, 1),)), "not distinct or out of range"),
        (lambda b, x: b.all_gather(x, 0, ((0, 1), (2,))), "not of equal size"),
        (lambda b, x: b.all_gather(x, 0, ()), "needs the shape of its result"),
        (lambda b, x: b.reduce_scatter(x, "add", 1, ((0, 1),)), "dimension 1 is no multiple of 2"),
        (lambda b, x: b.all_to_all(x, 1, ((0, 1),)), "dimension 1 is no multiple of 2"),
        (lambda b, x: b.collective_permute(x, ((0, 1), (0, 2))), "a device is source twice"),
        (lambda b, x: b.collective_permute(x, ((0, 1, 2),)), "not pairs"),
    ],
)
def test_shape_rules(build: Any, message: str) -> None:
    b = Builder("m")
    with pytest.raises(ShapeError, match=message):
        build(b, b.parameter(f32(4, 3)))


def test_texts_that_are_refused() -> None:
    line = "HloModule m\n\n{}ENTRY main {{\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] all-reduce(x), {}\n}}\n"
    for attributes, message in (
        ("replica_groups={0,1}, to_apply=add", "expected groups"),
        ("replica_groups=[2,2]<=[5], to_apply=add", "does not number as many"),
        ("replica_groups=[2,2]<=4, to_apply=add", "expected groups"),
        ("source_target_pairs={{0,1}}, to_apply=add", "no attribute"),
    ):
        with pytest.raises(ParseError, match=message):
            parse_module(line.format(ADD, attributes))
    module = parse_module(line.format(ADD, "use_global_device_ids=true, to_apply=add"))
    assert "needs a channel_id" in str(verify(module)[0])


def test_who_stands_alone_or_elsewhere_is_told() -> None:
    module = one(lambda b, x: b.all_reduce(x, "add", ((0, 1),)), 4)
    with pytest.raises(ValueError, match="names device 1 of 1; a module for several devices needs evaluate_devices"):
        evaluate(module, values(4)[0])
    with pytest.raises(ValueError, match=r"device [23] comes to .* in none of its groups"):
        evaluate_devices(module, values(4))
    with pytest.raises(ValueError, match="arguments for 4 devices, expected 6"):
        evaluate_devices(module, values(4), devices=Devices(2, 3))
    same = one(lambda b, x: b.all_reduce(x, "add", ((0,),)), 4)
    assert same_bits(evaluate(same, values(4)[0])[0], values(4)[0][0])


def test_devices_that_go_different_ways_raise() -> None:
    b = Builder("m")
    x = b.parameter(f32(4))
    turns = b.convert(b.partition_id(), "s32")
    state = Builder("body")
    s = state.parameter(TupleShape((Shape("s32"), f32(4))))
    n, v = state.get_tuple_element(s, 0), state.get_tuple_element(s, 1)
    shared = state.all_reduce(v, "add", ((0, 1),), channel_id=1)
    body = state.build_computation([state.subtract(n, state.constant(1)), shared], name="body")
    state = Builder("condition")
    n = state.get_tuple_element(state.parameter(s.shape), 0)
    condition = state.build_computation(state.compare(n, state.constant(0), "GT"), name="condition")
    module = b.build(b.get_tuple_element(b.while_(b.tuple(turns, x), condition, body), 1))
    check(module)
    with pytest.raises(ValueError, match=r"device . has come to (its end|all-reduce)"):
        evaluate_devices(module, values(4, devices=2))


def test_order_is_kept_by_every_pass() -> None:
    """Independent exchanges, of which a fusion reads the last and makes the operand of the first."""
    b = Builder("m")
    x = b.parameter(f32(64, 64))
    y = b.parameter(f32(64, 64))
    big = b.all_gather(y, 0, ((0, 1),))
    first = b.all_to_all(b.abs(x), 0, ((0, 1),))
    second = b.collective_permute(y, ((0, 1), (1, 0)))
    third = b.reduce_scatter(big, "add", 0, ((0, 1),))
    module = b.build([b.add(b.abs(x), second), first, third, b.reduce_sum(b.multiply(big, big), (0, 1))])
    args = [[v[0], v[0] * 2] for v in values(64, 64, devices=2)]
    want = evaluate_devices(module, args)
    run_pipeline(module, PipelineOptions(verify=True))
    kinds = [i.opcode for i in module.entry.instructions if i.has_side_effect]
    assert kinds == ["all-gather", "all-to-all", "collective-permute", "reduce-scatter"]
    for theirs, ours in zip(want, both(module, args), strict=True):
        np.testing.assert_allclose(theirs[3], ours[3], rtol=1e-5)
        assert all(same_bits(a, b) for a, b in zip(theirs[:3], ours[:3], strict=True))


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("jax")
    folder = tmp_path_factory.mktemp("jax")
    subprocess.run([sys.executable, str(Path(__file__).parent / "jax_devices.py"), str(folder)], check=True)
    return folder


@pytest.mark.parametrize("name", ["everything", "mesh_of_two", "loop", "training_step", "pmap"])
def test_programs_of_jax_on_four_devices(programs: Path, name: str) -> None:
    lowered = parse_module((programs / f"{name}.before.hlo").read_text(), any_layout=True)
    check(lowered)
    assert difference(parse_module(print_module(lowered)), lowered) is None
    # What each device runs: before XLA partitions it, a computation of its own.
    body = next(c for c in lowered.computations if c.name.startswith("xla.sdy.manual_computation_body"))
    partitioned = parse_module((programs / f"{name}.after.hlo").read_text(), any_layout=True)
    check(partitioned)
    arrays = np.load(programs / f"{name}.npz")
    count = len(partitioned.entry.parameters)
    args = [[arrays[f"arg{k}.{d}"] for k in range(count)] for d in range(4)]
    for module in (partitioned, Module.from_entry("body", body).clone()):
        for optimised in (False, True):
            if optimised:
                run_pipeline(module, PipelineOptions(verify=True))
            for d, results in enumerate(both(module, args, name != "training_step")):
                for k, result in enumerate(results):
                    np.testing.assert_allclose(result, arrays[f"out{k}.{d}"], rtol=1e-5, atol=1e-6)
