"""What a docstring says about a function and its parameters, in Google's, NumPy's or Sphinx's form.

It reads what is there and never raises: a docstring is prose, and a broken one is prose too.
"""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

_GOOGLE_HEADER = re.compile(r"(Args|Arguments|Params|Parameters|Keyword Args|Keyword Arguments):\s*")
_GOOGLE_ENTRY = re.compile(r"\\?\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+|$)(.*)")
_NUMPY_HEADER = re.compile(r"(Other )?Parameters\s*")
_NUMPY_ENTRY = re.compile(r"(\\?\*{0,2}\w+(?:\s*,\s*\\?\*{0,2}\w+)*)\s*(?::.*)?")
_SPHINX_FIELD = re.compile(r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\\?\*{0,2}(\w+)\s*:\s*(.*)")
_SPHINX_TYPE = re.compile(r":type\s.*")


class Docstring(NamedTuple):
    """A docstring, taken apart."""

    summary: str
    """The text before the parameters; all of it where no parameters are described."""
    parameters: dict[str, str]
    """The text of each parameter, on one line."""


def parse_docstring(text: str | None) -> Docstring:
    """Take a docstring apart; `None` gives empty texts."""
    lines = inspect.cleandoc(text or "").splitlines()
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if _GOOGLE_HEADER.fullmatch(line) and _indent(following) > 0:
            parameters = _read_google(lines[number + 1 :])
        elif _NUMPY_HEADER.fullmatch(line) and re.fullmatch(r"-{3,}\s*", following):
            parameters = _read_numpy(lines[number + 2 :])
        elif _SPHINX_FIELD.match(line) or _SPHINX_TYPE.match(line):
            parameters = _read_sphinx(lines[number:])
        else:
            continue
        return Docstring(
            "\n".join(lines[:number]).strip(), {name: " ".join(texts) for name, texts in parameters if texts}
        )
    return Docstring("\n".join(lines).strip(), {})


_Entries = list[tuple[str, list[str]]]


def _read_google(lines: list[str]) -> _Entries:
    """`name (type): text`, continued by lines of deeper indentation, up to the end of the indented block."""
    entries: _Entries = []
    margin = _indent(lines[0])
    for line in filter(str.strip, lines):
        if _indent(line) == 0:
            break
        entry = _GOOGLE_ENTRY.fullmatch(line.strip()) if _indent(line) <= margin else None
        _add(entries, line.strip(), entry and ([entry[1]], entry[2]))
    return entries


def _read_numpy(lines: list[str]) -> _Entries:
    """`name : type` or `one, two : type` at the margin, the text indented below, up to the next underlined header."""
    entries: _Entries = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if re.fullmatch(r"-{3,}\s*", following):
            break
        entry = _NUMPY_ENTRY.fullmatch(line) if _indent(line) == 0 else None
        _add(entries, line.strip(), entry and (re.findall(r"\w+", entry[1]), ""))
    return entries


def _read_sphinx(lines: list[str]) -> _Entries:
    """`:param type name: text`, continued by indented lines."""
    entries: _Entries = []
    reading = False
    for line in filter(str.strip, lines):
        entry = _SPHINX_FIELD.fullmatch(line)
        reading = bool(entry) or (reading and _indent(line) > 0)
        if reading:
            _add(entries, line.strip(), entry and ([entry[1]], entry[2]))
    return entries


def _add(entries: _Entries, line: str, entry: tuple[list[str], str] | None) -> None:
    """Begin the entry of one or more names, or else add `line` to the entry begun last."""
    if entry is None:
        if entries and line:
            entries[-1][1].append(line)
        return
    names, text = entry
    shared = [text] if text else []  # the names of one entry share its text
    entries.extend((name, shared) for name in names)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
