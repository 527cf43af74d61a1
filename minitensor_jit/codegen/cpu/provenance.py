"""Carries the notes of LLVM text, which say what a line is emitted for, over to the assembly.

LLVM drops comments, but keeps the lines of debug information: each note becomes a line number of a file that isn't
there, and in the assembly, which has them in `.loc`, a comment again. Only texts for people are made so; the code that
runs has no debug information.
"""

from __future__ import annotations

import re

from ..llvm.ir_text import NOTE

__all__ = ["with_locations", "with_notes"]

_FIRST = 1 << 20
"""Numbers of metadata from here on are ours."""
_DEFINE = re.compile(r'^define .*@("?[\w.$-]+"?)\(')
_DROPPED = re.compile(r"\s*\.(loc|file|cfi_\w+|ident|addrsig\w*)\b|\.Ltmp\d+:|\.Lfunc_(begin|end)\d+:|\.Lcfi\d+:")
_LOC = re.compile(r"\s*\.loc\s+\d+\s+(\d+)")


def with_locations(text: str) -> tuple[str, list[str]]:
    """The text with a location for each instruction, and what the numbers of lines stand for; line 0 is none."""
    names = [""]
    number = {"": 0}
    unit, flags, file, signature = _FIRST, _FIRST + 1, _FIRST + 2, _FIRST + 3
    metadata = [
        f"!llvm.dbg.cu = !{{!{unit}}}",
        f"!llvm.module.flags = !{{!{flags}}}",
        f"!{unit} = distinct !DICompileUnit(language: DW_LANG_C, file: !{file}, emissionKind: LineTablesOnly)",
        f'!{flags} = !{{i32 2, !"Debug Info Version", i32 3}}',
        f'!{file} = !DIFile(filename: "module", directory: "")',
        f"!{signature} = !DISubroutineType(types: !{{null}})",
    ]
    free = _FIRST + 4
    lines: list[str] = []
    places: dict[int, int] = {}  # by line: the metadata of the location in the current function
    function = 0
    for line in text.splitlines():
        if (found := _DEFINE.match(line)) is not None:
            function, free, places = free, free + 1, {}
            name = found[1].strip('"')
            metadata.append(
                f'!{function} = distinct !DISubprogram(name: "{name}", file: !{file}, type: !{signature}, '
                f"unit: !{unit}, spFlags: DISPFlagDefinition)"
            )
            lines.append(f"{line.removesuffix('{')}!dbg !{function} {{")
        elif function and line.startswith("  "):
            code, _, note = line.partition(NOTE)
            at = number.get(note)
            if at is None:
                at = number[note] = len(names)
                names.append(note)
            place = places.get(at)
            if place is None:
                place, free = free, free + 1
                places[at] = place
                metadata.append(f"!{place} = !DILocation(line: {at}, column: 0, scope: !{function})")
            lines.append(f"{code}, !dbg !{place}")
        else:
            function = function if line != "}" else 0
            lines.append(line)
    return "\n".join([*lines, *metadata]) + "\n", names


def with_notes(assembly: str, names: list[str]) -> str:
    """The assembly of such a text: behind the first instruction of each location stands the name."""
    lines: list[str] = []
    current = last = ""
    for line in assembly.splitlines():
        if line.lstrip().startswith(".section") and ".debug" in line:
            break
        if (found := _LOC.match(line)) is not None:
            at = int(found[1])
            current = names[at] if at < len(names) else ""
        elif _DROPPED.match(line) is not None:
            continue
        elif line.startswith("\t") and not line.lstrip().startswith("."):
            lines.append(f"{line}\t# {current}" if current and current != last else line)
            last = current
        else:
            last = ""
            lines.append(line)
    return "\n".join(lines) + "\n"
