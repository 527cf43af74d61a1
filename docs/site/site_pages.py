"""Build the site: `scripts/docs [FOLDER]`, by default into ``build/site``.

The pages are README.md, CONTRIBUTING.md, CHANGELOG.md, ``docs/*.md``, the examples, and a reference that is generated
from the docstrings, flags, opcodes and passes of this checkout. They are laid out in a folder of their own as they lie
in the checkout, so that links hold in both. A link to a page or heading that isn't there is an error. Nothing reads
the network, when the site is built or when it is read.
"""

from __future__ import annotations

import ast
import posixpath
import re
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

import reference_pages  # noqa: E402

# The order of the pages. A folder's name ends with a slash and stands for all of its pages.
CONTENTS = {
    "Start": ["docs/coming-from-pytorch", "docs/make-it-faster", "docs/sharp-bits", "docs/when-something-is-wrong"],
    "Guides": [
        "docs/inspection",
        "docs/functions",
        "docs/graphs",
        "docs/cuda",
        "docs/distributed",
        "docs/distributed-training",
        "examples/",
    ],
    "Reference": [
        "reference/index",
        "docs/flags",
        "docs/numerics",
        "docs/autograd",
        "docs/coverage",
        "docs/names",
        "docs/ecosystem",
        "docs/glossary",
    ],
    "How it works": [
        "docs/architecture",
        "docs/tanh",
        "docs/dispatch",
        "docs/recording",
        "docs/compiler",
        "docs/codegen",
        "docs/codegen-gpu",
        "docs/math",
        "docs/adding",
        "docs/other-codebases",
        "CONTRIBUTING",
    ],
    "Figures": ["docs/benchmarks", "docs/gpu-results", "CHANGELOG"],
}
LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")


def page_of(target: str) -> str | None:
    """The page of the site that a file of the checkout is shown on; None for what has none."""
    if target == "README.md":
        return "index.md"
    if re.fullmatch(r"examples/\w+\.py", target):
        return target.removesuffix(".py") + ".md"
    return target if target.endswith((".md", ".svg", ".png")) or target == "LICENSE" else None


def laid_out(text: str, path: str) -> str:
    """The text of a page, with links to the pages of the site; what has no page is named without a link."""
    folder = posixpath.dirname(path)

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[2]))
        page = page_of(target)
        return match[1] + (posixpath.relpath(page, folder or ".") if page else match[2]) + match[3]

    text = LINK.sub(link, text)
    # `[name](file)` of a file without a page.
    return re.sub(
        r"(?<!!)\[([^\]\n]+)\]\(([^)#\s:]+)\)",
        lambda m: m[0] if page_of(posixpath.normpath(posixpath.join(folder, m[2]))) else f"`{m[1].strip('`')}`",
        text,
    )


def example(path: Path) -> str:
    """A page that shows an example: what its docstring says, and its code."""
    source = path.read_text()
    doc = (ast.get_docstring(ast.parse(source)) or path.stem).strip()
    return f"# {path.name}\n\n{reference_pages.markdown(doc)}\n\n```python\n{source}```\n"


def contents(pages: list[str]) -> str:
    """The tables of contents, hidden at the end of the first page."""
    text = ""
    for caption, names in CONTENTS.items():
        listed = [page for name in names for page in (pages if name.endswith("/") else [name]) if page.startswith(name)]
        text += "\n\n:::{toctree}\n:hidden:\n:caption: " + caption + "\n\n" + "\n".join(listed) + "\n:::\n"
    return text


def lay_out(folder: Path) -> None:
    """Write the pages, Sphinx's sources, to a folder."""
    for name in (
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        *sorted(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md")),
    ):
        written = folder / str(page_of(name))
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(laid_out((ROOT / name).read_text(), name))
    (folder / "examples" / "data").mkdir(parents=True)
    for path in sorted((ROOT / "examples").glob("*.py")):
        (folder / "examples" / f"{path.stem}.md").write_text(example(path))
    text = (ROOT / "examples" / "data" / "README.md").read_text()
    (folder / "examples" / "data" / "README.md").write_text(
        "---\norphan: true\n---\n" + laid_out(text, "examples/data/README.md")
    )
    shutil.copytree(ROOT / "docs" / "images", folder / "docs" / "images")
    shutil.copy(ROOT / "LICENSE", folder)
    reference_pages.write(folder / "reference")
    pages = sorted(f"examples/{path.stem}" for path in (folder / "examples").glob("*.md"))
    with (folder / "index.md").open("a") as index:
        index.write(contents(pages))


def build(target: Path) -> int:
    """Build the site; 0 if nothing was to be complained about."""
    from sphinx.cmd.build import build_main

    with tempfile.TemporaryDirectory() as folder:
        lay_out(Path(folder))
        conf = str(Path(__file__).resolve().parent)
        done = build_main(["-q", "-W", "--keep-going", "-j", "auto", "-b", "html", "-c", conf, folder, str(target)])
    if done == 0:
        print(f"open {target / 'index.html'}")
    return done


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site").resolve()))
