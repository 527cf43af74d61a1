"""The words of XLA's module text."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["ParseError", "Token", "tokens_of"]


class ParseError(ValueError):
    """The text is no module of this IR; says the line and what was expected."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


class Token(NamedTuple):
    """One word of the text; `kind` is name, number, nan, string, padding, punctuation or end."""

    kind: str
    text: str
    line: int
    start: int
    end: int


_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r]+|/\*.*?\*/|//[^\n]*)
      | (?P<newline>\n)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<padding>-?\d+_-?\d+(?:_-?\d+)?(?:x-?\d+_-?\d+(?:_-?\d+)?)*)
      | (?P<nan>-?nan\(0x[0-9a-fA-F]+\)|-(?:inf|nan)\b)
      | (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)
      | (?P<name>%?[A-Za-z_][A-Za-z0-9_.\-]*)
      | (?P<punctuation>->|\.\.\.|[=,(){}\[\]:<>*?#])
    """,
    re.VERBOSE | re.DOTALL,
)


def tokens_of(text: str) -> list[Token]:
    """The words of a text, up to one that stands for its end. ParseError where there is none."""
    tokens: list[Token] = []
    line, position = 1, 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ParseError(f"unexpected character {text[position]!r}", line)
        kind = match.lastgroup or ""
        word = match[0]
        if kind == "newline":
            line += 1
        elif kind == "space":
            line += word.count("\n")
        else:
            tokens.append(Token(kind, word, line, match.start(), match.end()))
        position = match.end()
    tokens.append(Token("end", "the end of the text", line, position, position))
    return tokens
