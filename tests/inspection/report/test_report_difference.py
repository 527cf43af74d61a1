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


def op(name, line, **more):
    return {"op": name, "file": "/home/a.py" if line else "", "line": line, **more}


def kernel(name, seconds, fastest, lines, moved=0, runs=1):
    ops = [op("add", line) for line in lines]
    return {
        "name": name, "seconds": seconds, "fastest_seconds": fastest, "ops": ops, "bytes_per_run": moved, "runs": runs,
    }  # fmt: skip


def line(number, compiled=0.0, eager=0.0, file=0):
    return {"line": number, "compiled_seconds": compiled, "eager_seconds": eager, "file": file}


def run_of(**more):
    """The data of a report, as far as it is compared."""
    return {
        "command": "a.py", "date": "today", "end": {"kind": "end", "type": ""}, "seconds": 2.0, "flags": "--auto_jit=1",
        "account": {"ops": {"total": 4, "compiled": 2}, "clusters": [], "eager": []}, "files": ["/home/a.py"],
        "environment": {"threads": 2, "memory": 5, "JIT flags": "x", "MT_JIT_FLAGS": "x", "CPU": "old"},
        "profile": {"seconds": 0.0, "clusters": []}, "compiles": [], "lines": [],
        "memory": {"predicted": {}, "peak": 100}, **more,
    }  # fmt: skip


FIRST = run_of(
    account={
        "ops": {"total": 1000, "compiled": 0},
        "clusters": [
            {
                "refusals": [
                    op("add", 3, bytes=4000, into=op("sum", 5), reason="it is read twice", code="R1"),
                    op("add", 3, bytes=500, into=op("sum", 5), reason="it is read twice", code="R1"),
                    op("mul", 0, bytes=8, into=None, reason="it is a result", code="R2"),
                    op("neg", 9, bytes=0, into=None, reason="it is free", code="R3"),
                ]
            }
        ],
        "eager": [{"reason": "no lowering", "ops": [op("nonzero", 7, count=2), op("nonzero", 7, count=3)]}],
    },
    compiles=[
        {"why": "first use", "milliseconds": 10.0}, {"why": "x became f64", "milliseconds": 2.0},
        {"why": "x became f64", "milliseconds": 2.0},
    ],
    profile={
        "seconds": 3e-3,
        "clusters": [
            {"kernels": [kernel("k", 1e-3, 4e-6, [4, 2, 4, 1, 3], 10, 3), kernel("gone", 2e-3, 1.0, [], 7)]},
            {"kernels": [kernel("k", 1e-3, 5e-6, [1, 2, 3, 4])]},
        ],
    },
    lines=[line(3, 1e-3, 0.5), line(3, 1e-3), line(8, 1e-7, 0.0, -1), line(9, 1.0, 0.02)],
    memory={"predicted": {"a": {"scratch": 64}, "b": {"scratch": 32}}, "peak": 100},
)  # fmt: skip
SECOND = run_of(
    command="b.py",
    end={"kind": "exception", "type": "OSError"},
    seconds=2.1,
    flags="--auto_jit=2",
    environment={"threads": 2, "memory": 6, "JIT flags": "y", "MT_JIT_FLAGS": "y", "OS": "new"},
    profile={"seconds": 2e-3, "clusters": [{"kernels": [kernel("k", 5e-4, 2e-6, [1, 2, 3, 4], 30)]}]},
    lines=[line(3, 0.25), line(9, 1.0)],
    memory={"predicted": {}, "peak": 94},
)
TEXT = """\
A: A: a.py, today, ran to its end
B: B: b.py, today, OSError

                                           A        B  B / A
  time of the run                     2.00 s   2.10 s   1.05
  ops recorded                         1,000        4   0.00
  ops compiled                             0        2    new
  clusters                                 1        0   0.00
  time in compiled code              3.00 ms  2.00 ms   0.67
  time in eager ops                520.00 ms     0 ns   0.00
  compilations                             3        0   0.00
  time to compile                   14.00 ms     0 ns   0.00
  kernels                                  3        1   0.33
  bytes moved by kernels                  37       30   0.81
  bytes through memory, not fused      4,508        0   0.00
  scratch memory                          96        0   0.00
  most bytes in tensors                  100       94   0.94

Environment
  CPU
    A: old
    B: not set
  flags
    A: --auto_jit=1
    B: --auto_jit=2
  command
    A: a.py
    B: b.py
  OS
    A: not set
    B: new

Left eager (- in A only, + in B only)
  - 5  nonzero (a.py:7): no lowering

Not fused (- in A only, + in B only)
  - 4,500  add and sum (a.py:3): it is read twice [R1]
  - 8  mul (unknown place): it is a result [R2]

Compiled again (- in A only, + in B only)
  - 2  x became f64

Kernels of both, by the difference of their time
  fastest in A     in B  B / A  kernel
       4.00 us  2.00 us   0.50  k (a.py:1, a.py:2, a.py:3)
  - 2.00 ms  gone ()

Lines, by the difference of their time
       in A       in B  line
  502.00 ms  250.00 ms  a.py:3
     1.02 s     1.00 s  a.py:9
     100 ns       0 ns  unknown place:8
"""


def test_the_text_of_two_small_reports():
    assert difference(FIRST, SECOND) == TEXT
    figures, *_, kernels, lines = compare(FIRST, SECOND)
    assert figures.moods == (
        "", "", "good", "", "good", "good", "good", "good", "", "good", "good", "good", "good",
    )  # fmt: skip
    assert (kernels.moods, lines.moods) == (("good",), ("good", "", "good"))


def test_what_only_one_has_is_listed_the_most_first_and_what_is_left_out_is_counted():
    names = [f"k{k:02}" for k in range(25)]
    kernels = [kernel(name, k, 1.0, [1]) for k, name in enumerate(names)]
    compiles = [{"why": f"x became {k}", "milliseconds": 1.0} for k in range(22)]
    first = run_of(profile={"seconds": 1.0, "clusters": [{"kernels": kernels}]})
    second = run_of(profile={"seconds": 1.0, "clusters": [{"kernels": kernels[:23]}]}, compiles=compiles)
    for a, b, mark, other in ((first, second, "-", "+"), (second, first, "+", "-")):
        _, again, of_kernels = compare(a, b)
        assert of_kernels.only == ((mark, "24.00 s", "k24 (a.py:1)"), (mark, "23.00 s", "k23 (a.py:1)"))
        assert (len(of_kernels.table), of_kernels.more) == (21, 3)
        assert (len(again.only), again.more, again.only[0]) == (20, 2, (other, "1", "x became 0"))
        assert "  ... and 2 more\n" in difference(a, b)


def test_kernels_and_lines_come_by_how_much_they_differ():
    first = run_of(
        profile={"seconds": 1.0, "clusters": [{"kernels": [kernel("x", 9.0, 4.0, [1]), kernel("y", 1.0, 4.0, [1])]}]},
        lines=[line(1, 7.0), line(2, 2.0)],
    )
    second = run_of(
        profile={"seconds": 1.0, "clusters": [{"kernels": [kernel("x", 8.0, 8.0, [1]), kernel("y", 3.0, 4.0, [1])]}]},
        lines=[line(1, 7.5), *(line(k, float(k)) for k in range(2, 32))],
    )
    *_, kernels, lines = compare(first, second)
    assert [row[3] for row in kernels.table[1:]] == ["y (a.py:1)", "x (a.py:1)"]
    assert kernels.moods == ("", "bad")
    assert [row[2] for row in lines.table[1:]] == [f"a.py:{k}" for k in range(31, 11, -1)]
    assert lines.moods == ("bad",) * 20
    assert lines.more == 11
