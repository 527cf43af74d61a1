"""The documents are true: their scripts run, print what stands there, and what they quote is in the sources.

A fenced block says what it is by its first line:

    ```python               is run; the blocks of one document share their names
    ```python skip="why"    is not run, for the reason given
    ```text                 is what the block before printed, to stdout and then to stderr
    ```diff add=FILE        is added to a copy of the sources, and ```python in=copy run there (test_adding.py)
    ```cpp file=csrc/a.h    stands in that file, in any language and up to indentation
    ```sh                   is run where it runs an example, or reads and runs what an example left in /tmp, which
                            stands for a folder of the test's own

In what is printed or quoted, `...` stands for any text within a line, and a line `...` for any lines. `isa=avx512` on a
block limits its comparison to machines with these instructions.
"""

import contextlib
import importlib
import io
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import minitensor as mt

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ["README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Block:
    language: str
    attributes: dict[str, str]
    text: str
    line: int


def blocks(document):
    source = (ROOT / document).read_text()
    found = []
    for match in FENCE.finditer(source):
        words = dict(word.split("=", 1) for word in shlex.split(match[2]) if "=" in word)
        found.append(Block(match[1], words, match[3], source.count("\n", 0, match.start()) + 1))
    return found


def pattern_of(line):
    return re.compile(".*".join(re.escape(part) for part in line.strip().split("...")))


def unmatched(expected, actual, anywhere=False):
    """None if the lines of `expected` describe those of `actual`, else the first of them that nothing fits."""
    wanted = [line for line in expected.splitlines() if line.strip()]
    given = [line.strip() for line in actual.splitlines() if line.strip()]
    if anywhere:
        wanted = ["...", *wanted, "..."]
    reached = {0}  # how many lines of `given` the lines so far may have used up
    for line in wanted:
        if line.strip() == "...":
            reached = set(range(min(reached), len(given) + 1))
            continue
        pattern = pattern_of(line)
        reached = {n + 1 for n in reached if n < len(given) and pattern.fullmatch(given[n])}
        if not reached:
            return line
    return None if len(given) in reached else "(the end)"


def applies(block):
    return block.attributes.get("isa") in (None, mt._C.build_config()["isa"])


def run_shell(block, document, folder):
    """Run the commands that can be run; return what the last one printed, None without any."""
    printed = None
    for command in block.text.replace("\\\n", " ").splitlines():
        looks = re.match(r"(python|ls|cat) /tmp/", command)  # at what an example wrote
        if not ("examples/" in command or looks) or "pip install" in command:
            continue
        command = command.replace("/tmp/", f"{folder}/")
        words = re.sub(r"\bpython\b", shlex.quote(sys.executable), command.partition(" #")[0])
        run = subprocess.run(
            words, shell=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
        )
        assert run.returncode == 0, f"{document}:{block.line}: {command}\n{run.stderr}"
        printed = run.stdout + run.stderr
    return printed


@pytest.mark.parametrize("document", DOCUMENTS)
def test_document(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    printed = None
    for block in blocks(document):
        where = f"{document}:{block.line}"
        if "file" in block.attributes:
            source = (ROOT / block.attributes["file"]).read_text()
            missing = unmatched(block.text, source, anywhere=True)
            assert missing is None, f"{where}: {block.attributes['file']} does not have\n{missing}"
        elif block.attributes.keys() & {"add", "in"}:
            printed = None  # tests/project/test_adding.py runs these
        elif block.language == "python" and "skip" not in block.attributes:
            # With the lines of the document, so that messages and dumps name it.
            code = compile("\n" * block.line + block.text, str(ROOT / document), "exec")
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(code, namespace)
            printed = out.getvalue()
        elif block.language == "text" and printed is not None:
            if applies(block):
                missing = unmatched(block.text, printed)
                assert missing is None, f"{where}: nothing printed fits\n{missing}\nPrinted:\n{printed}"
        elif block.language == "sh":
            printed = run_shell(block, document, tmp_path)


def prose(path):
    """A document without its blocks of code."""
    return FENCE.sub("", path.read_text())


def anchors(path):
    """What a link may name in a document: its headings, as GitHub and the site write them."""
    headings = re.findall(r"^#+ +(.+)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(document, root=ROOT):
    """The links of a document to files and headings that aren't there."""
    path = root / document
    broken = []
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", re.sub(r"`[^`\n]*`", "", prose(path))):
        if ":" in target:
            continue
        linked = path.parent / target if target else path
        if not linked.exists() or (anchor and anchor not in anchors(linked)):
            broken.append(f"{document}: {target}#{anchor}")
    return broken


def test_links():
    assert [link for document in DOCUMENTS for link in broken_links(document)] == []


def test_every_block_says_what_it_is():
    found = []
    for document in DOCUMENTS:
        fences = re.findall(r"^```(.*)$", (ROOT / document).read_text(), re.MULTILINE)
        found += [f"{document}: a block without a language" for fence in fences[::2] if not re.match(r"\w", fence)]
        # Indented code would not be run.
        found += [f"{document}: {line}" for line in re.findall(r"(?<=\n\n)    .*", prose(ROOT / document))]
    assert found == []


def test_the_map_has_every_folder():
    shown = subprocess.run(
        [sys.executable, "scripts/map", "csrc"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    folders = shown.stdout.splitlines()[1:]
    assert len(folders) > 20
    # What is in a folder stands in csrc/README.md.
    assert [line for line in folders if not re.search(r"  \S.*\.$", line)] == []


def test_the_site(tmp_path, monkeypatch):
    """The pages of the site are there, each in its contents, and so is what they link to."""
    monkeypatch.syspath_prepend(ROOT / "docs" / "site")
    site = importlib.import_module("site_pages")
    site.lay_out(tmp_path)
    pages = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.md")}
    assert len([page for page in pages if page.startswith("reference/minitensor")]) > 50
    assert [link for page in sorted(pages) for link in broken_links(page, tmp_path)] == []
    listed = [name for names in site.CONTENTS.values() for name in names]
    unlisted = {page for page in pages if not any(page.removesuffix(".md").startswith(name) for name in listed)}
    assert {page for page in unlisted if not page.startswith("reference/")} == {"index.md"}
    assert [name for name in listed if not name.endswith("/") and f"{name}.md" not in pages] == []


def test_paths():
    missing = []
    for document in DOCUMENTS:
        text = FENCE.sub("", (ROOT / document).read_text())
        for path in re.findall(r"`((?:csrc|minitensor|minitensor_jit|tests|docs|examples|scripts)/[\w./-]*\w)`", text):
            if not (ROOT / path).exists():
                missing.append(f"{document}: {path}")
    assert missing == []


def test_short_paths():
    """`cpu/compiler.py`: the end of the path of a file that is there."""
    files = [
        str(path.relative_to(ROOT))
        for folder in ("csrc", "minitensor", "minitensor_jit")
        for path in (ROOT / folder).rglob("*.*")
    ]
    missing = []
    for document in DOCUMENTS:
        if document == "docs/other-codebases.md":  # it is about other projects' files
            continue
        for path in re.findall(r"`([\w.-]+/[\w./-]+\.(?:py|cpp|h|js))`", prose(ROOT / document)):
            if not (ROOT / path).exists() and not any(file.endswith(f"/{path}") for file in files):
                missing.append(f"{document}: {path}")
    assert missing == []


def test_lines_of_tables_stand_in_their_files():
    """In the row of a table whose last cells are a file and a line."""
    rows = [
        (document, path, line)
        for document in DOCUMENTS
        for path, line in re.findall(
            r"\| `([\w./-]+/[\w./-]+\.\w+)` \| `([^`]+)` \|$", prose(ROOT / document), re.MULTILINE
        )
    ]
    assert len(rows) > 10
    lines = {path: {line.strip() for line in (ROOT / path).read_text().splitlines()} for _, path, _ in rows}
    assert [row for row in rows if row[2] not in lines[row[1]]] == []


@pytest.mark.parametrize(
    ("expected", "actual", "anywhere", "missing"),
    [
        ("a\nb\n", "a\n  b\n", False, None),
        ("a\n...\nd\n", "a\nb\nc\nd\n", False, None),
        ("a ... c\n", "a b c\n", False, None),
        ("a\n", "a\nb\n", False, "(the end)"),
        ("a\nb\n", "a\nc\n", False, "b"),
        ("b\n...\nd\n", "a\nb\nc\nd\ne\n", True, None),
        ("b\nd\n", "a\nb\nc\nd\n", True, "d"),
    ],
)
def test_the_comparison(expected, actual, anywhere, missing):
    assert unmatched(expected, actual, anywhere) == missing
