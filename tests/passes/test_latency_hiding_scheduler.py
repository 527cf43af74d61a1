"""The order in which exchanges with other devices begin, end, and let other code run."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from minitensor_jit.ir.analysis.equal import difference
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.module import Instruction, Module
from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.ir.verifier import check
from minitensor_jit.passes.collectives.async_collective_creator import AsyncCollectiveCreator
from minitensor_jit.passes.collectives.collective_order import CollectiveOrder, exchanges
from minitensor_jit.passes.collectives.latency_hiding_scheduler import LatencyHidingScheduler
from minitensor_jit.passes.memory_scheduler import MemoryScheduler

CASE = Path(__file__).parent / "latency-hiding-scheduler" / "behind.hlo"


def names(module: Module) -> list[str]:
    return [i.name for i in module.entry]


def test_each_part_keeps_its_order() -> None:
    before, _, after = CASE.read_text().partition("// -----")
    module = parse_module(before)
    assert LatencyHidingScheduler().run(module)
    assert names(module) == names(parse_module(after))
    assert not LatencyHidingScheduler().run(module)


def drawn(seed: int) -> Module:
    """A program of large exchanges between processes, with others in between."""
    draw = random.Random(seed)
    b = Builder("drawn")
    made = [b.parameter(Shape("f32", (256, 256))) for _ in range(3)]
    for _ in range(draw.randint(5, 40)):
        x = draw.choice(made[-6:])
        if draw.random() < 0.4:
            one = b.all_reduce(x, "add", ((0,),))
            if draw.random() < 0.8:
                one.attrs["frontend_attributes"] = '{process_group="0"}'
            made.append(one)
        else:
            made.append(b.add(x, draw.choice(made)))
    return b.build(b.tuple(*draw.sample(made, 3)))


@pytest.mark.parametrize("seed", range(60))
def test_exchanges_keep_their_order_and_begin_before_they_end(seed: int) -> None:
    module = drawn(seed)
    order = [i.name for i in module.entry if exchanges(i)]
    for one in (CollectiveOrder(), AsyncCollectiveCreator(), MemoryScheduler()):
        one.run(module)
    same = module.clone()
    LatencyHidingScheduler().run(module)
    check(module)
    assert difference(module, same) is None
    entry = module.entry.instructions
    assert [i.name.removesuffix(".start") for i in entry if exchanges(i)] == order
    place = {i: n for n, i in enumerate(entry)}
    users = module.entry.users()
    for start in (i for i in entry if i.opcode == "all-reduce-start"):
        ends = [i for i in users[start] if i.opcode == "all-reduce-done"]
        assert len(ends) == 1
        # All that runs between needs nothing of it, and nothing that could run there runs later.
        assert not any(place[start] < n < place[ends[0]] for i, n in place.items() if needs(i, ends[0]))
        for i in entry[place[ends[0]] :]:
            if i is not module.entry.root and i.opcode != "all-reduce-done" and not exchanges(i):
                assert needs(i, ends[0]) or any(needs(i, x) for x in entry[: place[i]] if late(x))


def late(i: Instruction) -> bool:
    return i.opcode == "all-reduce-done" or (exchanges(i) and i.opcode != "all-reduce-start")


def needs(i: Instruction, other: Instruction) -> bool:
    todo = [i]
    seen: set[Instruction] = set()
    while todo:
        x = todo.pop()
        if x is other:
            return True
        if x not in seen:
            seen.add(x)
            todo += x.operands
    return False


def test_some_exchanges_overlap_and_others_say_why_not() -> None:
    said = set()
    starts = 0
    for seed in range(60):
        module = drawn(seed)
        CollectiveOrder().run(module)
        creator = AsyncCollectiveCreator()
        creator.run(module)
        said |= {d.decision.reason for d in creator.decisions}
        starts += sum(i.opcode == "all-reduce-start" for i in module.entry)
    assert starts > 100
    assert said == {"it is no exchange between processes", "all other code waits for it, or it for that"}
