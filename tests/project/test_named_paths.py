"""Every file and folder of the project that documents, docstrings and comments name is there."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOP = "benchmarks|csrc|docs|examples|minitensor|minitensor_jit|scripts|tests"
FILE = re.compile(r"(?<![\w./{}$~<*@%-])(?:\.\./)?((?:[\w-]+/)*[\w-]+\.(?:py|cpp|h|cu))(?![\w/{*-]|\.\w)")
FOLDER = re.compile(rf"(?<![\w./{{}}$~<*@:-])((?:{TOP})/[\w/-]*\w)(?![\w{{*<-]|\.\w)")
# Files of others, and those that readers of docs/adding.md write.
OTHERS = {
    "csrc/a.h": "an example",
    "cuda.h": "CUDA's",
    "double-negation": "the tests of a pass",
    "double_negation.py": "a pass",
    "hubconf.py": "of a repository that torch.hub loads",
    "immintrin.h": "the compiler's",
    "math.h": "C's",
    "script.py": "a user's program",
    "sign_descent.py": "an optimizer",
}
# About other projects, about what was, and with examples.
NOT_OURS = {"CHANGELOG.md", "docs/other-codebases.md", "tests/project/test_named_paths.py"}


def files_of_the_project():
    """The paths of what is in the checkout or the source distribution, without what is built or kept beside it."""
    paths = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in TOP.split("|"):
        paths += (ROOT / folder).rglob("*")
    return [
        str(path.relative_to(ROOT))
        for path in paths
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".pyc", ".so")
    ]


def comments_of_python(text):
    """The comments and docstrings, each with its line."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            for statement in node.body:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    yield statement.lineno, str(statement.value.value)


def comments_of_cpp(text):
    for number, line in enumerate(text.splitlines(), 1):
        _, slashes, comment = line.partition("//")
        if slashes:
            yield number, comment


def prose_of(path):
    text = (ROOT / path).read_text()
    if path.endswith(".md"):
        yield from enumerate(text.splitlines(), 1)
    elif path.endswith((".cpp", ".h")):
        yield from comments_of_cpp(text)
    elif FILE.search(text) or FOLDER.search(text):  # which reads a file in less time than its tokens take
        yield from comments_of_python(text)


def ends_of(paths):
    """All ends of paths, by whole names: `b/c.py` and `c.py` of `a/b/c.py`."""
    return {"/".join(parts[i:]) for parts in (path.split("/") for path in paths) for i in range(len(parts))}


def missing_in(prose, files, folders):
    """What is named there and isn't among the ends of files, or among files and folders."""
    for number, text in prose:
        named = [(name, files) for name in FILE.findall(text)] + [(name, folders) for name in FOLDER.findall(text)]
        for name, known in named:
            last = name.rpartition("/")[2]
            if name not in known and not {name, last} & OTHERS.keys() and not last.isupper():  # PASS stands for any
                yield number, name


def test_files_and_folders_that_are_named():
    paths = files_of_the_project()
    folders = {str(parent) for path in paths for parent in Path(path).parents} | set(paths)
    files = ends_of(paths)
    found = []
    for path in paths:
        if path not in NOT_OURS and path.endswith((".py", ".cpp", ".h", ".md")):
            found += [f"{path}:{number}: {name}" for number, name in missing_in(prose_of(path), files, folders)]
    assert found == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("see b/c.py, c.py and a/b/c.py.", []),
        ("see d.py", ["d.py"]),
        ("`x/c.py`", ["x/c.py"]),
        ("a script.py of the user's", []),
        ("tests/a, tests/NAME and tests/gone", ["tests/gone"]),
        ("csrc/{a,b}.cpp, *.py, {name}.py, /tmp/d.py", []),
        ("c.pyi and c.py.orig", []),
    ],
)
def test_what_counts_as_a_name(text, missing):
    found = missing_in([(1, text)], ends_of(["a/b/c.py"]), {"tests/a"})
    assert [name for _, name in found] == missing


def test_where_names_are_read():
    """Comments and docstrings, but no code."""
    text = '"""a.py"""\n\n\ndef f():\n    """b.py"""\n    return "c.py"  # d.py\n'
    assert sorted(comments_of_python(text)) == [(1, "a.py"), (5, "b.py"), (6, "# d.py")]
    assert list(comments_of_cpp('#include "a.h"  // b.h\nint x;\n')) == [(1, " b.h")]
