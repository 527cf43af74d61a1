"""The page itself: one file that needs nothing else, small, and well-formed."""

import html
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import minitensor_jit.inspect.report_page as page_package
from minitensor_jit.inspect.report_page.packing import read_parts, read_report
from minitensor_jit.inspect.report_page.write import page_of, write_page

ASSETS = Path(page_package.__file__).parent / "assets"
VOID = {"meta", "link", "br", "img", "input"}


class Checker(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open = []
        self.ids = []
        self.problems = []
        self.sources = []

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.sources += [value for name, value in named.items() if name in ("src", "href")]
        if "id" in named:
            self.ids.append(named["id"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> at {self.getpos()}")


def test_it_is_well_formed(made):
    for how in ("end", "raise"):
        text = made(how)[0].read_text()
        checker = Checker()
        checker.feed(text)
        checker.close()
        assert checker.problems == []
        assert checker.open == []
        assert len(checker.ids) == len(set(checker.ids))
        assert checker.sources == []


def test_it_asks_for_nothing_outside(made):
    text = made()[0].read_text()
    plain = re.sub(r'<script type="application/gzip".*?</script>', "", text, flags=re.DOTALL)
    urls = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"')]*", plain))
    assert urls <= {"http://www.w3.org/2000/svg"}, "the name of a language, which is not fetched"
    assert "@import" not in plain
    assert not re.search(r"url\((?!#)", plain)
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|importScripts|eval)\s*\(", plain)


def test_it_is_small(made):
    path = made()[0]
    assert path.stat().st_size < 400_000
    scripts = sum(file.stat().st_size for file in ASSETS.iterdir() if file.suffix in (".js", ".css", ".html"))
    assert 50_000 < scripts < 120_000


def test_what_it_refers_to_is_in_it(made):
    path = made()[0]
    data, parts = read_report(path)
    assert sorted(read_parts(path.read_text())) == list(range(len(parts) + 1))
    wanted = [one["part"] for one in (*data["graphs"], *data["modules"])]
    assert sorted(wanted) == list(range(1, len(parts) + 1))
    assert all(parts[one["part"] - 1]["name"] == one["name"] for one in (*data["graphs"], *data["modules"]))
    places = [(line["file"], line["line"]) for line in data["lines"]]
    places += [(file, line) for one in data["compiles"] for file, line, _ in one["stack"]]
    for file, line in places:
        if str(file) in data["sources"]:
            assert 1 <= line <= len(data["sources"][str(file)])
    for module in (parts[one["part"] - 1] for one in data["modules"]):
        for stage in module["stages"]:
            for _, _, root, rows, layout in stage["computations"]:
                assert 0 <= root < len(rows)
                assert max(rows) < len(module["rows"])
                if module["layouts"][layout] is not None:
                    nodes = module["layouts"][layout]["nodes"]
                    assert all(node[0] < len(rows) for node in nodes)
                    assert all(max(edge[:2]) < len(nodes) for edge in module["layouts"][layout]["edges"])
    assert set(data["module_of"].values()) <= set(range(len(data["modules"])))


def test_every_script_and_style_is_packed(made):
    text = made()[0].read_text()
    for file in ASSETS.iterdir():
        if file.suffix in (".js", ".css"):
            assert file.read_text() in text, file.name


def test_names_of_the_program_stay_text(made):
    data, parts = read_report(made()[0])
    data["title"] = "</title><script>alert(1)</script>{{data}}"
    page = page_of(data, parts, {"kind": "exception", "message": "</script><b>", "type": "E", "traceback": ""})
    assert html.escape(data["title"]) in page
    assert page.count("</script>") == made()[0].read_text().count("</script>")


def test_a_page_is_there_entirely_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "x.html"
    write_page(path, "before")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space"):
        write_page(path, "after")
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["x.html"]
