"""Where nodes are drawn: below what they read, and beside each other."""

import io
import random
import re
import sys
import xml.etree.ElementTree as ET

import pytest

from minitensor_jit.inspect.report_page import graphviz
from minitensor_jit.inspect.report_page.dot_text import DotError, svg_of
from minitensor_jit.inspect.report_page.layout import Box, Layout, lay_out
from minitensor_jit.ir.testing import random_module
from minitensor_jit.ir.text.graphviz import print_dot
from minitensor_jit.tools import dot

LAYOUTS = [lay_out]
if graphviz.available():
    LAYOUTS.append(graphviz.lay_out)


def some_graph(seed, count):
    generator = random.Random(seed)
    boxes = [Box(generator.randrange(20, 200), generator.choice([24, 38])) for _ in range(count)]
    edges = [
        (generator.randrange(max(0, n - 12), n), n) for n in range(1, count) for _ in range(generator.randrange(3))
    ]
    return boxes, list(dict.fromkeys(edges))


def test_nothing_takes_no_place():
    assert lay_out([], []) == Layout(0, 0, [], [], [])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(6))
def test_nodes_stand_below_what_they_read_and_do_not_overlap(layout, seed):
    boxes, edges = some_graph(seed, 40)
    drawn = layout(boxes, edges)
    assert len(drawn.nodes) == len(boxes)
    assert len(drawn.edges) == len(edges)
    for a, b in edges:
        assert drawn.nodes[a][1] < drawn.nodes[b][1]
    rectangles = [(x, y, box.width, box.height) for (x, y), box in zip(drawn.nodes, boxes, strict=True)]
    for k, (x, y, w, h) in enumerate(rectangles):
        assert x - w / 2 >= -1
        assert x + w / 2 <= drawn.width + 1
        assert y - h / 2 >= -1
        assert y + h / 2 <= drawn.height + 1
        for x2, y2, w2, h2 in rectangles[:k]:
            assert abs(x - x2) * 2 >= w + w2 - 1 or abs(y - y2) * 2 >= h + h2 - 1
    for (a, b), points in zip(edges, drawn.edges, strict=True):
        for n, (x, y) in ((a, points[0]), (b, points[-1])):
            assert abs(x - drawn.nodes[n][0]) <= boxes[n].width / 2 + 2
            assert abs(y - drawn.nodes[n][1]) <= boxes[n].height / 2 + 2


def test_large_graphs_are_laid_out():
    boxes, edges = some_graph(1, 10_000)
    drawn = lay_out(boxes, edges)
    assert len(drawn.nodes) == 10_000
    assert lay_out([], []).nodes == []
    assert lay_out([Box(10, 10)], []).nodes == [(5, 5)]


def test_our_own_pictures_of_dot_have_every_node_and_edge():
    module = random_module(3, 30)
    text = print_dot(module)
    root = ET.fromstring(svg_of(text))
    words = {"".join(one.itertext()) for one in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {i.name for i in module.entry.instructions} <= words
    paths = [one for one in root.iter("{http://www.w3.org/2000/svg}path") if one.get("marker-end")]
    assert len(paths) == text.count("->")


SVG = "{http://www.w3.org/2000/svg}"


def drawn(text):
    """What is in the picture of a graph: each node's group, lines and colour, and the edges' dashes."""
    root = ET.fromstring(svg_of(text))
    nodes = []
    for one in root.iter(f"{SVG}g"):
        lines = ["".join(line.itertext()) for line in one.iter(f"{SVG}text")]
        nodes.append((one.findtext(f"{SVG}title"), lines, one.find(f"{SVG}rect").get("fill")))
    edges = [one.get("stroke-dasharray") for one in root.iter(f"{SVG}path") if one.get("marker-end")]
    return nodes, edges


def test_pictures_have_groups_colours_lines_and_dashes():
    nodes, edges = drawn(
        """strict digraph "a name" {
          graph [rankdir=TB]; node [shape=box, fillcolor=red]; edge [style=dashed]; ranksep=1
          // before // any "node"
          last [label="one\\ntwo\\l3"; fillcolor="#abcdef"]
          subgraph "cluster <1>" { first [label="say \\"x\\" & y"]; { inner } subgraph cluster_2 { deep -> inner } }
          first -> inner -> last [style=dashed] # to the end
          first -> last /* first has
          a label */ deep
        }"""
    )
    assert nodes == [
        ("cluster <1>", ['say "x" & y'], "#ffffff"),
        ("cluster_2", ["deep"], "#ffffff"),
        ("cluster <1>", ["inner"], "#ffffff"),
        (None, ["one", "two", "3"], "#abcdef"),
    ]
    assert edges == [None, "4 3", "4 3", None]


def test_edges_that_go_back_are_drawn_upwards_and_those_to_a_node_itself_around_it():
    root = ET.fromstring(
        svg_of("digraph { first -> last; last -> first [style=dashed]; last -> last; alone -> alone }")
    )
    boxes = {
        one.findtext(f"{SVG}text"): [float(one.find(f"{SVG}rect").get(k)) for k in ("x", "y", "width", "height")]
        for one in root.iter(f"{SVG}g")
    }

    def distance(name, x, y):
        """From a node's box."""
        left, top, width, height = boxes[name]
        return max(left - x, x - left - width, top - y, y - top - height)

    paths = [one for one in root.iter(f"{SVG}path") if one.get("marker-end")]
    lines = [[tuple(map(float, p.split())) for p in one.get("d")[1:].split("L")] for one in paths[:2]]
    assert [one.get("stroke-dasharray") for one in paths] == [None, "4 3", None, None]
    for line, ends in zip(lines, (("first", "last"), ("last", "first")), strict=True):
        for name, place in zip(ends, (line[0], line[-1]), strict=True):
            assert abs(distance(name, *place)) <= 1
    for one, name in zip(paths[2:], ("last", "alone"), strict=True):
        start, *steps = re.findall(r"[Mvh][^Mvh]+", one.get("d"))
        x, y = map(float, start[1:].split())
        assert abs(distance(name, x, y)) <= 1
        outside = []
        for step in steps:
            x, y = (x + float(step[1:]), y) if step[0] == "h" else (x, y + float(step[1:]))
            outside.append(distance(name, x, y))
        assert min(outside[:-1]) > 2
        assert abs(outside[-1]) <= 1


@pytest.mark.parametrize(
    "text",
    [
        "", "graph { a -- b }", "digraph { a -> ", 'digraph { a [label="x }', "nothing", "digraph g a", "digraph { @ }",
        "digraph { a [label] }", "digraph { a -- b }", "digraph { a -> { b c } }", "digraph { a b, c }",
    ],
)  # fmt: skip
def test_what_is_no_digraph_is_an_error(text):
    with pytest.raises(DotError):
        svg_of(text)


def test_the_tool_draws(tmp_path, capsys, monkeypatch):
    source = tmp_path / "x.dot"
    source.write_text(
        'digraph g { a [label="one\\ntwo & <three>"]; subgraph cluster_0 { b; } a -> b [style=dashed]; b -> a }'
    )
    for own in (True, False):
        if own:
            monkeypatch.setattr(graphviz, "available", lambda: False)
        assert dot.main([str(source)]) == 0
        ET.fromstring((tmp_path / "x.dot.svg").read_bytes())
        monkeypatch.undo()
    assert dot.main([str(source), "-o", str(tmp_path / "x.gif")]) == 2
    assert dot.main([str(tmp_path / "no.dot")]) == 2
    assert "no.dot" in capsys.readouterr().err
    source.write_text("no graph")
    assert dot.main([str(source)]) == 2


def test_the_tool_reads_standard_input(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("digraph g { first -> second }"))
    assert dot.main(["-"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["graph.svg"]
    assert "second" in (tmp_path / "graph.svg").read_text()


def test_the_tool_makes_png(tmp_path):
    pytest.importorskip("resvg_py")
    source = tmp_path / "x.dot"
    source.write_text("digraph g { a -> b }")
    assert dot.main([str(source), "-o", str(tmp_path / "x.png")]) == 0
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
