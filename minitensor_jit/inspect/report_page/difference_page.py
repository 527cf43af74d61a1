"""What differs between two reports, as a page that looks as they do: one file, without scripts or a network."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

from minitensor_jit.inspect.report_page.difference import Section, about, compare
from minitensor_jit.inspect.report_page.write import document

__all__ = ["difference_page"]


def difference_page(
    first: dict[str, Any], second: dict[str, Any], first_name: str = "A", second_name: str = "B"
) -> str:
    """The page; what only A has, and what is worse in B, is marked by colour and by words."""
    sections = compare(first, second)
    titles = [section.title.partition(",")[0].partition(" (")[0] or "Figures" for section in sections]
    runs = ((mark, name, about(data)) for mark, name, data in (("A", first_name, first), ("B", second_name, second)))
    body = [
        '<a class="skip" href="#main">to the content</a>',
        f"<header><h1>{_text(first['title'])}: two runs</h1></header>",
        '<nav aria-label="sections">',
        *(f'<a href="#section-{k}">{_text(title)}</a>' for k, title in enumerate(titles)),
        '</nav><main id="main" tabindex="-1">',
        *(f'<p>{mark}: <b>{_text(name)}</b> <span class="note">{_text(said)}</span></p>' for mark, name, said in runs),
    ]
    for k, (title, section) in enumerate(zip(titles, sections, strict=True)):
        heading = section.title if section.table and section.title else title
        body.append(f'<section id="section-{k}"><h2>{_text(heading)}</h2>')
        body += _rows(section)
        body.append("</section>")
    body.append("</main>")
    return document(f"{first['title']}: two reports", "\n".join(body), ' class="document"')


def _text(value: str) -> str:
    return html.escape(value)


def _rows(section: Section) -> Iterator[str]:
    if section.settings:
        yield from _table((("", "A", "B"), *section.settings), {0, 1, 2}, ())
    if section.table:
        named = 0 if section.table[0][0] == "" else len(section.table[0]) - 1
        yield from _table(section.table, {named}, section.moods)
    if section.only:
        where = {"-": "A only", "+": "B only"}
        rows = [("in", "", "what"), *((where[mark], value, key) for mark, value, key in section.only)]
        yield from _table(tuple(rows), {0, 2}, ())
    if section.more:
        yield f'<p class="note">and {section.more:,} more</p>'


def _table(rows: tuple[tuple[str, ...], ...], words: set[int], moods: tuple[str, ...]) -> Iterator[str]:
    """A table whose first row is its head, with its columns of words; `moods` colours the ratio, or the value of B."""
    head, *others = rows
    judged = head.index("B / A") if "B / A" in head else head.index("in B") if "in B" in head else -1
    yield '<div class="scroll"><table><thead><tr>'
    yield "".join(f'<th scope="col"{_kind(k, words)}>{_text(cell)}</th>' for k, cell in enumerate(head))
    yield "</tr></thead><tbody>"
    for number, row in enumerate(others):
        mood = moods[number] if moods else ""
        cells = []
        for k, cell in enumerate(row):
            if k == judged and mood:
                said = "better" if mood == "good" else "worse"
                cells.append(f'<td class="n {mood}" title="{said} in B">{_text(cell)}</td>')
            else:
                cells.append(f"<td{_kind(k, words)}>{_text(cell)}</td>")
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"


def _kind(column: int, words: set[int]) -> str:
    return "" if column in words else ' class="n"'
