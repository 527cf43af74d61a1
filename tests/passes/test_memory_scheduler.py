"""The order of instructions, and the memory that it needs when it is compiled."""

import pytest

from minitensor_jit.codegen.cpu.compiler import compile_module
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.testing import random_module
from minitensor_jit.ir.verifier import check
from minitensor_jit.passes.memory_scheduler import MemoryScheduler, peak_bytes
from minitensor_jit.passes.pipeline import PipelineOptions, run_pipeline

SQUARE = Shape("f32", (16, 16))  # a multiple of the alignment


def wide(count):
    """Products that are all made before the first is read."""
    b = Builder("wide")
    x = b.parameter(SQUARE)
    products = [b.matmul(x, b.parameter(SQUARE)) for k in range(count)]
    return b.build(b.tuple(*(b.matmul(p, p) for p in products)))


def test_each_product_is_read_as_soon_as_it_is_there():
    module = run_pipeline(wide(6))
    products = [i for i in module.entry.instructions if i.opcode == "dot"]
    assert [products[k] is products[k + 1].operands[0] for k in range(0, 12, 2)] == [True] * 6


def test_the_predicted_peak_is_the_memory_that_the_code_uses():
    for count in (1, 2, 5):
        module = run_pipeline(wide(count))
        executable = compile_module(module, name="wide")
        assert executable.scratch_bytes == peak_bytes(module.entry) == SQUARE.nbytes


def test_a_result_takes_the_place_of_an_operand_that_dies():
    b = Builder("chain")
    x = b.parameter(SQUARE)
    for _ in range(4):
        x = b.tanh(b.matmul(x, x))
    executable = compile_module(run_pipeline(b.build(b.matmul(x, x))), name="chain")
    assert executable.scratch_bytes == 2 * SQUARE.nbytes


@pytest.mark.parametrize("seed", range(30))
def test_the_order_is_valid_and_never_needs_more(seed):
    module = run_pipeline(random_module(seed, 60), PipelineOptions(fuse=False))
    before = peak_bytes(module.entry)
    instructions = set(module.entry.instructions)
    MemoryScheduler().run(module)
    check(module, "scheduling")
    assert set(module.entry.instructions) == instructions
    assert peak_bytes(module.entry) <= before
    assert not MemoryScheduler().run(module)


def test_what_is_read_comes_soon_after_it_was_made_where_that_takes_no_more_memory():
    # On the way back the sums come last, and need everything that the products made until then.
    b = Builder("backward")
    x = b.parameter(SQUARE)
    forward = [x]
    for _ in range(6):
        forward.append(b.matmul(forward[-1], forward[-1]))
    gradient, kept = forward[-1], []
    for value in reversed(forward):
        gradient = b.matmul(gradient, value)
        kept.append(gradient)
    sums = [b.reduce_max(g, (0, 1)) for g in kept]
    module = b.build(b.tuple(*sums))
    before = peak_bytes(module.entry)
    assert MemoryScheduler().run(module)
    check(module, "scheduling")
    order = module.entry.instructions
    made = [i for i in order if i.opcode in ("dot", "reduce")]
    assert peak_bytes(module.entry) <= before
    # A product takes the memory of what it reads last, and may come first; else each gradient is summed up at once.
    for g, s in zip(kept, sums, strict=True):
        assert made.index(s) <= made.index(g) + 4


def test_an_update_waits_until_nothing_else_reads_its_parameter():
    b = Builder("step")
    x, w = b.parameter(SQUARE), b.parameter(SQUARE)
    wasteful = [b.matmul(x, x) for _ in range(3)]
    gradient = b.matmul(x, w)
    before = b.reduce_max(b.matmul(w, x), (0, 1))
    updated = b.subtract(w, b.tanh(gradient))
    module = b.build(b.tuple(updated, before, *(b.reduce_max(b.matmul(m, m), (0, 1)) for m in wasteful)))
    assert MemoryScheduler().run(module)
    order = module.entry.instructions
    # Otherwise it would come first: it frees the gradient.
    assert order.index(updated) > order.index(before)
    assert (0, 1) in compile_module(module, name="step").aliases


def test_an_update_that_others_wait_for_does_not_wait_for_them():
    b = Builder("chain")
    w = b.parameter(SQUARE)
    updated = b.add(w, w)
    module = b.build(b.tuple(updated, b.matmul(b.tanh(updated), w)))
    MemoryScheduler().run(module)
    check(module, "scheduling")
