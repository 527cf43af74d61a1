"""Object code is linked by the core, and by LLVM where the core can't; what is broken is an error."""

import numpy as np
import pytest
from runtime_table import Runtime, agree, run, values

from minitensor import _C
from minitensor_jit.codegen.cpu.compiler import compile_module
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.shape import Shape
from minitensor_jit.runtime import llvm_linker
from minitensor_jit.runtime.loaded_code import LoadedCode


@pytest.fixture(scope="module")
def program():
    """Constants, a product, calls of the core by name and of the C library."""
    b = Builder("test")
    x = b.parameter(Shape("f32", (5, 5)))
    table = b.constant(np.arange(25, dtype=np.float32).reshape(5, 5))
    module = b.build(b.add(b.elementwise_call("erf", b.matmul(x, x)), table))
    return module, compile_module(module, name="test")


def addresses(executable):
    return {
        name: _C.elementwise_loop(*name.removeprefix("mt.elementwise.").rsplit(".", 1))[0]
        for name in executable.imports
    }


@pytest.mark.parametrize("link", [_C.load_object_code, llvm_linker.link])
def test_both_linkers_give_the_same_program(program, link):
    module, executable = program
    assert executable.imports
    args = [values(Shape("f32", (5, 5)), 1)]
    want = evaluate(module, args)
    code = LoadedCode(executable.object_code, "entry", addresses(executable))
    code.address, code._code = link(executable.object_code, "entry", addresses(executable))
    before, executable.code = executable.code, code
    try:
        assert agree(run(executable, args, Runtime())[0], want[0])
    finally:
        executable.code = before
    code.close()
    assert code.address == 0


def test_the_core_links_what_this_machine_compiles(program):
    _, executable = program
    address, _code = _C.load_object_code(executable.object_code, "entry", addresses(executable))
    assert address


def test_broken_objects_are_errors(program):
    _, executable = program
    whole = executable.object_code
    with pytest.raises(RuntimeError, match="is not there"):
        _C.load_object_code(whole, "entry", {})
    with pytest.raises(RuntimeError, match="it has no main"):
        _C.load_object_code(whole, "main", addresses(executable))
    with pytest.raises(RuntimeError, match="not an object"):
        _C.load_object_code(b"\0" * 4096, "entry", {})
    for length in (0, 10, 63, 64, 200, len(whole) // 2, len(whole) - 1):
        with pytest.raises(RuntimeError, match="object code"):
            _C.load_object_code(whole[:length], "entry", addresses(executable))
    with pytest.raises(TypeError):
        _C.load_object_code("text", "entry", {})


def test_bytes_that_were_changed_never_crash_the_linker(program):
    _, executable = program
    rng = np.random.default_rng(0)
    whole, imports = executable.object_code, addresses(executable)
    messages = set()
    for _ in range(500):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), 3):
            damaged[place] = rng.integers(0, 256)
        try:
            _C.load_object_code(bytes(damaged), "entry", imports)
        except RuntimeError as error:
            messages.add(str(error))
    assert len(messages) > 3
    assert all(message.startswith("object code") for message in messages)
