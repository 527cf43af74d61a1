"""Small defects for `scripts/mutate`: where one can be put, and how the code says that a test reaches it.

Python is changed by the operators of cosmic-ray (PyPI), C++ by a few of our own. All of C++'s are compiled at once:
each is an expression that is chosen when the process starts, so a defect costs no build.
"""

from __future__ import annotations

import ast
import random
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

CPP = [
    (r"(?<=[\w\])]) < (?=[\w(])", " <= "), (r" <= ", " < "), (r"(?<=[\w\])]) > (?=[\w(])", " >= "), (r" >= ", " > "),
    (r" == ", " != "), (r" != ", " == "), (r" && ", " || "), (r" \|\| ", " && "), (r" \+ ", " - "), (r" - ", " + "),
    (r" \* (?=\w)", " + "), (r"\btrue\b", "false"), (r"\bfalse\b", "true"), (r"\bif \((?=[^()]*\) )", "if (!"),
    (r"(?<![\w.])0(?![\w.])", "1"), (r"(?<![\w.])1(?![\w.])", "2"),
    (r"std::min\b", "std::max"), (r"std::max\b", "std::min"),
]  # fmt: skip
# What can't be chosen at run time.
CONSTANT = re.compile(r"\s*(#|static_assert|template|\*|namespace|using|case |enum|extern|//)|.*(\bconstexpr\b|\")")
# What is about the build, documents or examples.
LEFT_OUT = re.compile(
    r".*test_(build|benchmarks|docs|docstrings|examples?|gpu_check|imports"
    r"|installation|stubs|typing|leaks|against_torch|same_bits)\.py"
)
# Folders of tests that are an area's, beside those of its own name; and tests that walk tables, each for many files.
FOLDERS = {
    "api": ("jit", "functions"), "bindings": ("tensors", "jit"), "composite": ("ops",), "core": ("tensors",),
    "dispatch": ("ops", "tensors"), "graphs": ("torch_api",), "inspect": ("inspection",), "lowering": ("ops", "jit"),
    "runtime": ("jit",), "runtime-c": ("kernels",), "tape": ("autograd",), "trace": ("jit",),
}  # fmt: skip
TABLES = {
    "dispatch": ("ops/test_rows", "ops/test_boundaries"), "kernels": ("ops/test_rows", "kernels/test_guard_bytes"),
    "lowering": ("ops/test_rows", "jit/test_compiled_dtypes"), "ops": ("autograd/test_gradients",),
}  # fmt: skip
# In front of the code of a file with defects: which one is active, and which were come by.
DECLARED = (
    "#ifndef MT_MUTANT\n"
    'extern "C" { extern int mt_mutant_active; extern unsigned char mt_mutants_hit[]; }\n'
    "#define MT_MUTANT(k) (::mt_mutants_hit[k] = 1, ::mt_mutant_active == (k))\n"
    "#endif\n#line 1\n"
)
DEFINED = """
#include <cstdlib>
extern "C" {
__attribute__((visibility("default"))) int mt_mutant_active = 0;
__attribute__((visibility("default"))) unsigned char mt_mutants_hit[4096] = {};
}
__attribute__((constructor(101))) static void choose_mutant() {
    if (const char* chosen = std::getenv("MUTANT")) mt_mutant_active = std::atoi(chosen);
}
"""


@dataclass
class Mutant:
    """A defect: the line of a file before and after; for Python the whole text after."""

    area: str
    path: Path
    line: int
    before: str
    after: str
    # Columns of the line, both of the code that is replaced, with what replaces it.
    begin: int
    end: int
    replacement: str
    text: str = ""

    def patch(self) -> str:
        """For people."""
        return f"{self.path}:{self.line}\n-{self.before}\n+{self.after}"


def _matching(code: str, at: int, step: int) -> int:
    """Where the expression around a place ends, to the right (1) or left (-1)."""
    opening, closing = ("([{", ")]}") if step > 0 else (")]}", "([{")
    depth = 0
    while 0 <= at < len(code):
        c = code[at]
        if c in opening:
            depth += 1
        elif c in closing:
            if not depth:
                return at
            depth -= 1
        elif not depth:
            if c in ",;?":
                return at
            pair = code[max(at - 1, 0) : at + 2]
            if c == ":" and "::" not in pair:
                return at
            if step < 0 and c == "=" and not re.search(r"[=!<>]=|==", pair):
                return at
            if step < 0 and re.match(r"return\b", code[at - 5 : at + 2]) and code[at - 5 : at + 1] == "return":
                return at
        at += step
    return at


def cpp_mutants(text: str) -> list[Mutant]:
    """Each place of C++ code that can be changed, as a whole expression of one line."""
    found = []
    before = ";"
    text = re.sub(r"/\*.*?\*/", lambda comment: re.sub(r"[^\n]", " ", comment[0]), text, flags=re.DOTALL)
    for number, line in enumerate(text.split("\n"), 1):
        code = line.split("//")[0].rstrip()
        starts = before.endswith((";", "{", "}", "(", ",", "=", "?", ":")) or not before
        before = code.strip() or before
        if CONSTANT.match(code):
            continue
        for pattern, replacement in CPP:
            for match in re.finditer(pattern, code):
                at, to = match.span()
                if replacement == "if (!":
                    begin, end = to, _matching(code, to, 1)
                    changed = f"!({code[begin:end]})"
                else:
                    begin, end = _matching(code, at - 1, -1) + 1, _matching(code, to, 1)
                    changed = code[begin:at] + replacement + code[to:end]
                if end >= len(code) or (begin == 0 and not starts):
                    continue
                space = len(code[begin:end]) - len(code[begin:end].lstrip())
                begin, changed = begin + space, changed.lstrip()
                after = code[:begin] + changed + code[end:]
                found.append(Mutant("", Path(), number, line, after, begin, end, changed))
    return found


def switched(text: str, mutants: dict[int, Mutant]) -> str:
    """The C++ code with all of these in it, to be chosen by number; of one line the last only."""
    lines = text.split("\n")
    for k, m in mutants.items():
        line = m.before
        both = f"(MT_MUTANT({k}) ? ({m.replacement}) : ({line[m.begin : m.end]}))"
        if m.replacement == f"!({line[m.begin : m.end]})":
            both = f"(MT_MUTANT({k}) != static_cast<bool>({line[m.begin : m.end]}))"
        lines[m.line - 1] = line[: m.begin] + both + line[m.end :]
    return DECLARED + "\n".join(lines)


def _positions(tree: ast.AST) -> dict[int, list[ast.expr]]:
    """The expressions that are evaluated and may stand in parentheses, by their first lines."""
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.JoinedStr):
            parts = list(node.values)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args
            parts = [a.annotation for a in (*arguments.args, *arguments.kwonlyargs, *arguments.posonlyargs)]
            parts += [node.returns, *node.decorator_list]
        elif isinstance(node, ast.AnnAssign):
            parts = [node.annotation, node.target]
        elif isinstance(node, ast.ClassDef):
            parts = [*node.decorator_list, *node.bases]
        elif isinstance(node, ast.match_case):
            parts = [node.pattern]
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            parts = [node.value]
        elif isinstance(node, ast.ExceptHandler):
            parts = [node.type]
        for part in parts:
            if part is not None:
                skipped.update(ast.walk(part))
    lines: dict[int, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr) or isinstance(node, ast.Starred | ast.Slice) or node in skipped:
            continue
        if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
            continue
        lines.setdefault(node.lineno, []).append(node)
    return lines


_places: dict[str, dict[int, list[tuple[str, int]]]] = {}  # of each text: operators and occurrences by line


def python_mutant(text: str, rng: random.Random) -> Mutant | None:
    """One of Python, by a line that is drawn first: one that has many operators isn't likelier than others."""
    import parso.python.tree  # noqa: F401  (or cosmic-ray fails)
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    places = _places.setdefault(text, {})
    nodes = [] if places else list(ast_nodes(get_ast(text)))
    for name in operator_names() if nodes else ():
        if "BitOr" in name or name.endswith(
            ("_Is", "_IsNot", "RemoveDecorator", "ExceptionReplacer", "VariableReplacer", "Inserter")
        ):
            continue
        operator, count = get_operator(name)(), 0
        for node in nodes:
            for (line, _), _end in operator.mutation_positions(node):
                places.setdefault(line, []).append((name, count))
                count += 1
    evaluated = _positions(ast.parse(text))
    if not places:
        return None
    line = rng.choice(sorted(places))
    name, occurrence = rng.choice(places[line])
    mutated = mutate_code(text, get_operator(name)(), occurrence)
    if not mutated or mutated == text:
        return None
    lines, changed = text.split("\n"), mutated.split("\n")
    different = [i for i, (a, b) in enumerate(zip(lines, changed, strict=False)) if a != b]
    if len(lines) != len(changed) or len(different) != 1:
        return None
    at = different[0]
    old, new = lines[at], changed[at]
    column = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    try:
        ast.parse(mutated)
    except SyntaxError:
        return None
    around = [
        e
        for e in (e for found in evaluated.values() for e in found)
        if (e.lineno, e.col_offset) <= (at + 1, len(old[:column].encode()))
        and (at + 1, len(old[:column].encode())) <= (e.end_lineno, e.end_col_offset)
    ]
    if not around:
        return None  # an annotation, a docstring, a default of a type
    smallest = max(around, key=lambda e: (e.lineno, e.col_offset))
    return Mutant("", Path(), at + 1, old, new, smallest.lineno, smallest.col_offset, "", mutated)


def probed(text: str, mutants: dict[int, Mutant]) -> str:
    """Python code that says what it reaches, on the same lines."""
    lines = [line.encode() for line in text.split("\n")]
    tree = _positions(ast.parse(text))
    inserts = []
    for k, m in mutants.items():
        ends = [e for e in tree[m.begin] if e.col_offset == m.end]
        node = min(ends, key=lambda e: (e.end_lineno or 0, e.end_col_offset or 0))
        # Of two at one place, the shorter expression is inside.
        inserts.append((node.end_lineno, node.end_col_offset, -node.lineno, -node.col_offset, b"))"))
        hit = f"(__import__('mutation_marks').hit({k}) or (".encode()
        inserts.append((node.lineno, node.col_offset, 1, 0, hit))
    for line, column, _, _, what in sorted(inserts, reverse=True):
        assert line is not None
        lines[line - 1] = lines[line - 1][:column] + what + lines[line - 1][column:]
    return b"\n".join(lines).decode()


def test_files(root: Path) -> dict[Path, str]:
    """The files of tests that can be run, with what they say."""
    listed = subprocess.run(["git", "ls-files", "tests"], cwd=root, capture_output=True, text=True, check=True).stdout
    files = [
        Path(p)
        for p in listed.split()
        if re.search(r"/test_\w+\.py$|^tests/passes/.*\.hlo$", p) and not LEFT_OUT.match(p)
    ]
    return {path: f"{path}\n{(root / path).read_text()}" for path in files}


def nearest(mutant: Mutant, files: dict[Path, str]) -> list[Path]:
    """The files of tests, those first that mirror the defect's file, then those that say its file and folder most."""
    stem = mutant.path.stem.strip("_")
    folders = {*mutant.path.parent.parts[1:], *FOLDERS.get(mutant.area, ())}
    said_in = re.compile("|".join(rf"(?<![a-z]){re.escape(word)}(?![a-z])" for word in {stem, mutant.path.parent.name}))

    def near(path: Path) -> float:
        name = path.stem.removeprefix("test_")
        mirrors = 2 * (name == stem) + bool(re.search(rf"(?<![a-z]){re.escape(stem)}(?![a-z])", name))
        said = len(said_in.findall(files[path])) / len(files[path]) ** 0.5
        if path.suffix == ".hlo":  # the pass is the folder
            mirrors += 2 * (path.parts[2].replace("-", "_") == stem)
        walks = 2 * any(f"tests/{table}.py" == str(path) for table in TABLES.get(mutant.area, ()))
        return mirrors + walks + bool(folders & set(path.parent.parts)) + said

    return sorted(files, key=near, reverse=True)
