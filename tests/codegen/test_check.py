"""What no code can be made of is refused by its opcode, before anything is emitted; and nothing beside it is."""

import numpy as np
import pytest

from minitensor_jit.codegen.check import MAX_LITERAL_BYTES, MAX_RANK, check_module
from minitensor_jit.codegen.errors import CompileError
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.text.parser import parse_module

ADD = "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] add(x, y) }\n"


def module(body, before=""):
    return parse_module(f"HloModule m\n{before}\nENTRY main {{\n{body}\n}}\n")


def product(dtype, result):
    return module(f"""
        x = {dtype}[4,8] parameter(0)
        y = {dtype}[8,3] parameter(1)
        ROOT r = {result}[4,3] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
    """)


def refusal(of, **options):
    """The opcode that is named, and why; None if there is code."""
    try:
        check_module(of, **options)
    except CompileError as error:
        return error.opcode, error.reason
    return None


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_products_of_narrow_arrays_in_float32_have_code_where_it_is_said(dtype):
    """Which only GPUs' compiler says."""
    assert refusal(product(dtype, "f32")) == ("dot", f"no code for products of {dtype} in f32")
    assert refusal(product(dtype, "f32"), narrow_products=False) is not None
    assert refusal(product(dtype, "f32"), narrow_products=True) is None
    for narrow in (False, True):
        assert refusal(product(dtype, dtype), narrow_products=narrow) is None
        assert refusal(product("f32", "f32"), narrow_products=narrow) is None
        assert refusal(product("f32", "f64"), narrow_products=narrow) == ("dot", "no code for products of f32 in f64")
        assert refusal(product(dtype, "f64"), narrow_products=narrow) == (
            "dot", f"no code for products of {dtype} in f64",
        )  # fmt: skip


@pytest.mark.parametrize("dtype", ["c64", "c128"])
def test_sums_and_products_of_complex_numbers(dtype):
    assert refusal(product(dtype, dtype)) == ("dot", "no code for complex numbers")
    total = module(
        f"x = {dtype}[4] parameter(0)\nz = {dtype}[] parameter(1)\nROOT r = {dtype}[] reduce(x, z), dimensions={{0}}, "
        "to_apply=add",
        ADD.replace("f32", dtype),
    )
    assert refusal(total) == ("reduce", "no code for complex numbers")
    assert refusal(module(f"x = {dtype}[4] parameter(0)\nROOT r = {dtype}[4] add(x, x)")) is None


def test_what_is_to_be_expanded_before():
    window = module(
        "x = f32[8] parameter(0)\nz = f32[] parameter(1)\n"
        "ROOT r = f32[4] reduce-window(x, z), window={size=2 stride=2}, to_apply=add",
        ADD,
    )
    assert refusal(window) == ("reduce-window", "no code for this opcode yet")


def test_what_a_loop_calls_is_looked_at_too():
    loop = module(
        "x = f32[8] parameter(0)\nROOT r = f32[8] while(x), condition=never, body=powers",
        "powers { x = f32[8] parameter(0) ROOT r = f32[8] power(x, x) }\n"
        "never { x = f32[8] parameter(0) ROOT r = pred[] constant(false) }\n",
    )
    assert refusal(loop) == ("power", "no code for this opcode yet")
    assert refusal(module("x = f32[8] parameter(0)\nROOT r = f32[8] tanh(x)")) is None


def test_the_largest_rank_has_code():
    for rank in (MAX_RANK, MAX_RANK + 1):
        b = Builder("rank")
        x = b.parameter(Shape("f32", (1,) * rank))
        got = refusal(b.build(b.emit("negate", (x,))))
        if rank == MAX_RANK:
            assert got is None
        else:
            assert got is not None
            assert got[1] == f"{rank} dimensions, supported are {MAX_RANK}"


def test_the_largest_literal_has_code():
    most = MAX_LITERAL_BYTES // 8
    for count in (most, most + 1):
        b = Builder("literal")
        literal = b.constant(np.arange(count, dtype=np.float64), "f64")
        got = refusal(b.build(b.emit("negate", (literal,))))
        wanted = ("constant", f"a literal of {8 * count} bytes, supported are {MAX_LITERAL_BYTES}")
        assert got == (None if count == most else wanted)


def test_elements_of_nothing():
    """From an empty array nothing can be gathered, but no elements can."""
    for places, wanted in ((3, ("gather", "an element of an empty array")), (0, None)):
        gather = module(f"""
            x = f32[0,4] parameter(0)
            i = s64[{places},1] parameter(1)
            ROOT r = f32[{places},4] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,4}}
        """)  # noqa: E501
        assert refusal(gather) == wanted


def test_a_tuple_as_a_parameter_of_the_entry():
    pair = module("p = (f32[2], f32[2]) parameter(0)\nROOT r = f32[2] get-tuple-element(p), index=0")
    assert refusal(pair) == ("parameter", "a tuple as a parameter of the entry")
