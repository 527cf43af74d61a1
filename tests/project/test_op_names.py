"""What is particular about an op stands on its row: nothing compares an op's name with one that it knows."""

import ast
import re

import pytest

from minitensor.ops import ROWS
from tests.project.test_docs import ROOT

# Rows of minitensor_jit/ir are opcodes, of which some are called as ops are.
PYTHON = [
    path
    for folder in ("minitensor", "minitensor_jit")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not path.is_relative_to(ROOT / "minitensor_jit/ir")
]
CPP = sorted(path for path in (ROOT / "csrc").rglob("*") if path.suffix in (".cpp", ".h"))
NAME = re.compile(r"(^|\.|_)(row|call|node|op|definition)\.(name|op)$")
IN_CPP = re.compile(r'(\bop(_|s|\(\))?(->|\.)name|\bop_name\(\w*\))\s*[=!]=\s*"|"\w*"\s*[=!]=\s*\w*op(->|\.)name')


LIST_IN_CPP = re.compile(r"string_view \w+\[\] = \{([^}]*)\}")


def in_cpp(text):
    """The lines that compare the name of an op with one, and lists of texts of which one is an op's name."""
    for number, line in enumerate(text.splitlines(), 1):
        named = re.search(r'\bname [=!]= "(\w+)"', line)
        if IN_CPP.search(line) or (named and named[1] in ROWS):
            yield number
    for listed in LIST_IN_CPP.finditer(text):
        if ROWS.keys() & set(re.findall(r'"(\w+)"', listed[1])):
            yield text.count("\n", 0, listed.start()) + 1


def strings(node):
    """The constants that a side of a comparison is, or has in a tuple, list or set."""
    return {part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)}


def comparisons(text):
    """The lines that compare the name of an op with names of ops."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.NotEq, ast.In, ast.NotIn)):
            sides = [node.left, *node.comparators]
            named = any(NAME.search(ast.unparse(side)) for side in sides)
            listed = isinstance(node.ops[0], (ast.In, ast.NotIn)) and isinstance(node.comparators[0], ast.Name)
            listed = listed and ".row.name" in ast.unparse(node.left)
            if named and (listed or any(strings(side) & ROWS.keys() for side in sides)):
                yield node.lineno


def test_python_asks_the_row():
    found = [f"{path.relative_to(ROOT)}:{line}" for path in PYTHON for line in comparisons(path.read_text())]
    assert found == []


def test_cpp_asks_the_row():
    # What takes an epilogue is a kernel of its own, by its name.
    known = {"csrc/trace/plan/kernel_call.cpp"}
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in CPP
        if str(path.relative_to(ROOT)) not in known
        for number in in_cpp(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        'call.row.name == "where"',
        'row.name not in ("fill", "copy")',
        'node.op in {"gather"}',
        '"add" == self.op.name',
        "call.row.name in _COMPLEX",
    ],
)
def test_a_comparison_is_found(line):
    assert list(comparisons(f"x = 1\ny = {line}\n")) == [2]


@pytest.mark.parametrize("line", ['node.op == "placeholder"', 'dtype.name == "int32"', "TABLE[call.row.name]"])
def test_what_compares_no_op_is_not(line):
    assert not list(comparisons(line))


@pytest.mark.parametrize(
    "line",
    [
        'if (call.op->name == "lerp")',
        'return op_name(call) != "tril_indices";',
        'op.name == "add"',
        'if (name != "eq" && name != "ne") fail();',
        'static constexpr std::string_view names[] = {"add", "sub"};',
    ],
)
def test_a_comparison_in_cpp_is_found(line):
    assert list(in_cpp(line)) == [1]
