"""The printer and the parser."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitensor_jit.ir.analysis.equal import difference
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.module import Metadata
from minitensor_jit.ir.shape import DTYPES, Shape
from minitensor_jit.ir.testing import random_module
from minitensor_jit.ir.text.parser import ParseError, parse_module
from minitensor_jit.ir.text.printer import print_module
from minitensor_jit.ir.text.syntax import escape, number, parse_number, unescape
from minitensor_jit.ir.verifier import check


@pytest.mark.parametrize("seed", range(60))
def test_round_trip_of_random_modules(seed: int) -> None:
    module = random_module(seed, 30, exact=False)
    check(module)
    text = print_module(module)
    parsed = parse_module(text)
    assert difference(parsed, module, metadata=True) is None
    assert print_module(parsed) == text


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 60),
    st.lists(st.sampled_from(sorted(DTYPES)), min_size=1, max_size=4),
    st.lists(st.integers(0, 5), min_size=1, max_size=4),
)
@settings(max_examples=100)
def test_parsing_undoes_printing(seed: int, size: int, dtypes: list[str], sizes: list[int]) -> None:
    module = random_module(seed, size, exact=False, dtypes=tuple(dtypes), sizes=tuple(sizes))
    check(module)
    text = print_module(module)
    parsed = parse_module(text)
    assert difference(parsed, module, metadata=True) is None
    assert print_module(parsed) == text
    assert difference(module.clone(), module, metadata=True) is None


@given(st.floats(width=32))
@settings(max_examples=300)
def test_f32_text_keeps_the_bits(value: float) -> None:
    element = np.float32(value)
    assert parse_number(number(element), Shape("f32")).tobytes() == element.tobytes()


@given(st.integers(0, 2**64 - 1))
@settings(max_examples=300)
def test_f64_text_keeps_the_bits_of_every_pattern(bits: int) -> None:
    element = np.array([bits], np.uint64).view(np.float64)[0]
    expected = element
    if np.isnan(element) and bits & (2**52 - 1) == 0:
        return
    assert parse_number(number(element), Shape("f64")).tobytes() == expected.tobytes()


@given(st.text())
@settings(max_examples=200)
def test_strings_survive_escaping(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    escaped = escape(text)
    assert escaped.isascii()
    assert "\n" not in escaped
    assert unescape(escaped) == text


def test_metadata_with_any_characters() -> None:
    b = Builder("m")
    with b.source(Metadata('Mat"Mul', "a\\b", "dir/é {x}.py", 7)):
        x = b.negate(b.parameter(Shape("f32", (2,))))
    parsed = parse_module(print_module(b.build(x)))
    assert parsed.entry.root.metadata == Metadata('Mat"Mul', "a\\b", "dir/é {x}.py", 7)


def test_what_xla_prints_by_default() -> None:
    text = """
HloModule jit_f, is_scheduled=true, entry_computation_layout={(f32[2]{0})->(f32[2]{0})}, frontend_attributes={a="b}"}

FileNames
1 "a.py"

StackFrames
1 {file_location_id=1 parent_frame_id=1}

%region_0.1 (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %r = f32[] add(f32[] %a, f32[] %b)
}

/* a comment
   of two lines */
ENTRY %main (p0: f32[2]) -> (f32[2]) {
  %p0 = f32[2]{0} parameter(0), metadata={op_name="x" stack_frame_id=1}
  %t = f32[2]{0} add(f32[2]{0} %p0, /*index=1*/f32[2]{0} %p0), sharding={replicated}
  ROOT %tuple = (f32[2]{0}) tuple(%t)
} // main
"""
    module = parse_module(text)
    check(module)
    assert module.name == "jit_f"
    assert module.entry.instructions[0].metadata == Metadata(op_name="x")
    assert module.entry.instructions[1].line == 20
    np.testing.assert_array_equal(evaluate(module, [np.float32([1, 2])])[0], [2, 4])


ENTRY = "HloModule m\nENTRY main {{\n{}\n}}\n"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "  x = f32[2]{0} parameter(0)\n  ROOT r = f32[2] ad(x, x)",
            "line 4: unknown opcode 'ad'; did you mean pad or and or add?",
        ),
        ("  ROOT r = f32[2] negate(x)", "line 3: operand x is not defined above"),
        ("  x = f33[2] parameter(0)", "line 3: unknown element type 'f33'"),
        ("  x = f32[2,3]{0,1} parameter(0)", "line 3: x has the layout {0,1}"),
        ("  x = f32[2,3]{0,0} parameter(0)", "line 3: layout {0,0} is not a permutation of 2 dimensions"),
        ("  x = f32[2,3]{0} parameter(0)", "line 3: layout {0} is not a permutation of 2 dimensions"),
        ("  x = f32[2,3]{2,1} parameter(0)", "line 3: layout {2,1} is not a permutation of 2 dimensions"),
        ("  x = f32[2,3]{1,0:T(8,128)} parameter(0)", "tiles are not supported"),
        ("  x = f32[?] parameter(0)", "dynamic dimensions are not supported"),
        ("  x = f32[2] constant({1, 2, 3})", "line 3: expected '}', found ','"),
        ("  x = f32[2] constant({1})", "line 3: expected ',', found '}'"),
        ("  x = s32[] constant(1.5)", "line 3: '1.5' is no integer"),
        ("  x = u8[] constant(256)", "line 3: 256 is out of range for u8"),
        ("  x = f32[] constant(1e40)", "line 3: 1e40 is out of range for f32"),
        ("  x = f32[100] constant({...})", "printed without its elements"),
        ("  x = f32[2] parameter(0), dimensions={0}", "line 3: parameter has no attribute 'dimensions'; it has: none"),
        ("  x = f32[2] iota(), iota_dimension=0, iota_dimension=0", "given twice"),
        ("  x = f32[2] parameter(0)\n  x = f32[2] negate(x)", "line 4: x is defined twice"),
        ("  ROOT x = f32[2] parameter(0)\n  ROOT y = f32[2] negate(x)", "line 4: main has a second ROOT, y"),
        ("  x = f32[] parameter(0)\n  ROOT r = f32[] call(x), to_apply=f", "line 4: r names the unknown computation f"),
        ("", "line 2: computation main is empty"),
        ("  x = f32[2] parameter(0) $", "line 3: unexpected character '$'"),
        ("  x = f32[2] parameter(0), sharding={{", "line 3: a brace is never closed"),
    ],
)
def test_errors_say_the_line_and_the_reason(body: str, message: str) -> None:
    with pytest.raises(ParseError) as error:
        parse_module(ENTRY.format(body))
    assert message in str(error.value)


@pytest.mark.parametrize("text", ["", "HloModule m\n", "HloModule m\nfoo {\n  x = f32[] constant(1)\n}\n", "ENTRY"])
def test_a_module_needs_an_entry(text: str) -> None:
    with pytest.raises(ParseError):
        parse_module(text)


@given(st.text(alphabet='HloModule ENTRY{}()[]=,:%f32s_ x0.1"\n/*-', max_size=80))
@settings(max_examples=300)
def test_garbage_raises_parse_errors_only(text: str) -> None:
    try:
        module = parse_module(ENTRY.format(text))
    except ParseError:
        return
    printed = print_module(module)
    assert print_module(parse_module(printed)) == printed


def test_deep_nesting_is_an_error() -> None:
    with pytest.raises(ParseError, match="nested too deeply"):
        parse_module(ENTRY.format("  x = " + "(" * 100_000))


def test_truncated_text_raises_parse_errors_only() -> None:
    text = print_module(random_module(3, 25, exact=False))
    for end in range(0, len(text) - 3, 7):
        with pytest.raises(ParseError):
            parse_module(text[:end])


def test_every_element_type_has_a_shape_text() -> None:
    for name in DTYPES:
        assert str(Shape(name, (2, 3))) == f"{name}[2,3]{{1,0}}"
        assert str(Shape(name)) == f"{name}[]"


CONVOLUTION = """HloModule m
ENTRY main {
  x = f32[2,3,8,7] parameter(0)
  w = f32[3,2,3,4] parameter(1)
  ROOT r = f32[2,4,6,6] convolution(x, w), window={size=3x2}, dim_labels=LABELS
}
"""


def test_dimension_labels():
    root = parse_module(CONVOLUTION.replace("LABELS", "bf01_01io->bf01")).entry.root
    dims = root.attrs["dim_labels"]
    assert (dims.lhs_batch, dims.lhs_feature, dims.lhs_spatial) == (0, 1, (2, 3))
    assert (dims.rhs_input, dims.rhs_output, dims.rhs_spatial) == (2, 3, (0, 1))
    assert (dims.out_batch, dims.out_feature, dims.out_spatial) == (0, 1, (2, 3))
    assert "dim_labels=bf01_01io->bf01" in print_module(parse_module(CONVOLUTION.replace("LABELS", "bf01_01io->bf01")))


@pytest.mark.parametrize("labels", ["bf01", "bf01_01io", "bf01->bf01", "{0,1}", "_01io->bf01"])
def test_bad_dimension_labels(labels):
    with pytest.raises(ParseError, match="expected dimension labels like b01f_01io->b01f"):
        parse_module(CONVOLUTION.replace("LABELS", labels))
