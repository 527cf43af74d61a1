"""Two reports compared: as text, and as a page that needs nothing else."""

import copy
import html
import re

import pytest
from test_report_page import Checker

from minitensor_jit.inspect.report_page.difference import compare, difference
from minitensor_jit.inspect.report_page.difference_page import difference_page
from minitensor_jit.inspect.report_page.packing import read_report
from minitensor_jit.tools import report


@pytest.fixture(scope="module")
def two(made):
    """A report, and one of a run that took longer and kept an op eager."""
    first = read_report(made()[0])[0]
    for kernel in _kernels(first):  # figures of the clock would tell another story every time
        kernel["fastest_seconds"] = 4e-6
    second = copy.deepcopy(first)
    second["seconds"] = 2 * first["seconds"]
    second["environment"]["threads"] = "<7>"
    group = {"reason": "it has no lowering", "ops": [{"op": "fancy", "count": 3, "file": "a.py", "line": 7}]}
    second["account"]["eager"].append(group)
    for kernel in _kernels(second):
        kernel["fastest_seconds"] = 1e-6
    return first, second


def _kernels(data):
    return [kernel for cluster in data["profile"]["clusters"] for kernel in cluster["kernels"]]


def test_nothing_differs_from_itself(two):
    sections = compare(two[0], two[0])
    assert {mood for section in sections for mood in section.moods} == {""}
    assert [row for section in sections for row in (*section.only, *section.settings)] == []
    assert "Environment" not in difference_page(two[0], two[0])


def test_the_page_says_what_the_text_says(two):
    text, page = difference(*two, "a.html", "b.html"), difference_page(*two, "a.html", "b.html")
    shown = html.unescape(re.sub(r"<[^>]+>", "\n", page))
    for section in compare(*two):
        for row in (*section.table[1:], *section.settings):
            assert all(cell in shown for cell in row)
            assert all(cell in text for cell in row)
        for _, value, key in section.only:
            assert f"{value}  {key}" in text
            assert value in shown
            assert key in shown
    assert "fancy (a.py:7): it has no lowering" in shown
    assert "B only" in shown
    assert "<7>" in shown
    assert "<7>" not in page


def test_the_page_tells_better_from_worse(two):
    page = difference_page(*two)
    assert re.search(r'<td>time of the run</td>.*<td class="n bad" title="worse in B">2.00</td>', page)
    assert re.search(r'<td class="n good" title="better in B">0.25</td>', page)
    assert "better in B" not in difference_page(two[0], two[0])


def test_the_page_is_whole_and_asks_for_nothing(made, tmp_path):
    path = tmp_path / "difference.html"
    assert report.main(["-o", str(path), "--diff", str(made()[0]), str(made("raise")[0])]) == 0
    page = path.read_text()
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.problems == []
    assert checker.open == []
    assert len(checker.ids) == len(set(checker.ids))
    assert {link.removeprefix("#") for link in checker.sources} <= set(checker.ids)
    assert "<script" not in page
    assert "ValueError" in page
    assert not re.search(r"(?:https?:)?//[\w.-]+\.\w+/|@import|url\(", page)
    assert report.main(["-o", str(tmp_path / "difference.txt"), "--diff", str(made()[0]), str(made()[0])]) == 0
    assert (tmp_path / "difference.txt").read_text().startswith("A: ")


def test_the_file_that_a_report_goes_to_is_no_difference(two):
    one, other = ({**two[0], "flags": f"--auto_jit=2 --report=/tmp/{name}.html"} for name in "ab")
    assert "Environment" not in difference_page(one, other)
    other["flags"] = "--auto_jit=1 --report=/tmp/b.html"
    assert "--auto_jit=1" in difference_page(one, other)
    assert "--report" not in difference_page(one, other)
