"""Patches as models write them: what the text says, read into changes, and a change made to a text.

    *** Begin Patch
    *** Add File: notes/new.txt
    +its only line
    *** Update File: src/app.py
    *** Move to: src/main.py
    @@ def run():
         first = 1
    -    second = 2
    +    second = 3
    *** Delete File: old.txt
    *** End Patch

Source: the format of OpenAI's `apply_patch` tool, observed in its documentation and in what models send. We narrow it:
lines must match exactly, and a place that could be two places is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..misfits import clip
from .refusal import RefusedError

_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_ADD, _DELETE, _UPDATE = "*** Add File: ", "*** Delete File: ", "*** Update File: "
_MOVE, _END_OF_FILE = "*** Move to: ", "*** End of File"


@dataclass(slots=True)
class Hunk:
    """One place in a file: the lines that are there, and those that will be."""

    anchor: str = ""
    """A line that comes before the place, as after `@@`; empty for none."""
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    at_end: bool = False
    """Whether its last line is the file's."""


@dataclass(frozen=True, slots=True)
class AddFile:
    """A file to make."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A file to remove."""

    path: str


@dataclass(frozen=True, slots=True)
class UpdateFile:
    """A file to change, and perhaps to move."""

    path: str
    hunks: tuple[Hunk, ...]
    new_path: str | None = None


Change = AddFile | DeleteFile | UpdateFile


def parse_patch(text: str) -> list[Change]:
    """Read a patch.

    Raises:
        RefusedError: It is none; the message names the line.
    """
    lines = text.replace("\r\n", "\n").strip("\n").split("\n")
    if lines[0].rstrip() != _BEGIN or lines[-1].rstrip() != _END or len(lines) < 3:
        raise RefusedError(f"a patch begins with the line {_BEGIN!r}, ends with {_END!r}, and has changes between them")
    return _Reader(lines[:-1]).changes()


class _Reader:
    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 1

    def changes(self) -> list[Change]:
        changes: list[Change] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            self._at += 1
            if line.startswith(_ADD):
                changes.append(self._added(line.removeprefix(_ADD).strip()))
            elif line.startswith(_DELETE):
                changes.append(DeleteFile(line.removeprefix(_DELETE).strip()))
            elif line.startswith(_UPDATE):
                changes.append(self._updated(line.removeprefix(_UPDATE).strip()))
            elif line.strip():
                raise self._unexpected(f"{_ADD!r}, {_UPDATE!r} or {_DELETE!r}", line)
        return changes

    def _body(self) -> str | None:
        """The next line, unless another file begins."""
        if self._at == len(self._lines) or self._lines[self._at].startswith((_ADD, _DELETE, _UPDATE)):
            return None
        self._at += 1
        return self._lines[self._at - 1]

    def _added(self, path: str) -> AddFile:
        added: list[str] = []
        while (line := self._body()) is not None:
            if not line.startswith("+"):
                raise self._unexpected("a line that begins with '+'", line)
            added.append(line[1:])
        return AddFile(path, "".join(f"{line}\n" for line in added))

    def _updated(self, path: str) -> UpdateFile:
        new_path: str | None = None
        hunks: list[Hunk] = []
        while (line := self._body()) is not None:
            if line.startswith(_MOVE) and not hunks:
                new_path = line.removeprefix(_MOVE).strip()
            elif line == "@@" or line.startswith("@@ "):
                hunks.append(Hunk(line.removeprefix("@@").strip()))
            elif line.rstrip() == _END_OF_FILE and hunks:
                hunks[-1].at_end = True
            else:
                if not hunks or hunks[-1].at_end:
                    hunks.append(Hunk())
                self._add_to(hunks[-1], line)
        hunks = [hunk for hunk in hunks if hunk.old or hunk.new]
        if not hunks and new_path is None:
            raise RefusedError(f"line {self._at}: nothing is changed in {path!r}")
        return UpdateFile(path, tuple(hunks), new_path)

    def _add_to(self, hunk: Hunk, line: str) -> None:
        mark, rest = line[:1], line[1:]
        if mark not in ("", " ", "-", "+"):
            raise self._unexpected("a line that begins with ' ', '-', '+' or '@@'", line)
        if mark != "+":  # an empty line stands for an empty line of the file
            hunk.old.append(rest)
        if mark != "-":
            hunk.new.append(rest)

    def _unexpected(self, expected: str, line: str) -> RefusedError:
        return RefusedError(f"line {self._at} of the patch: expected {expected}, got {clip(repr(line), 80)}")


def apply_hunks(text: str, hunks: Sequence[Hunk], path: str) -> str:
    """Change a text at the places that the hunks name, one after the other.

    Raises:
        RefusedError: A place is not there, or there is more than one.
    """
    lines = text.split("\n")
    ends_with_newline = lines[-1] == ""
    if ends_with_newline:
        lines.pop()
    done: list[str] = []
    start = 0
    for hunk in hunks:
        where = _place(lines, hunk, start, path)
        done += lines[start:where]
        done += hunk.new
        start = where + len(hunk.old)
    done += lines[start:]
    return "\n".join(done) + ("\n" if done and (ends_with_newline or not text) else "")


def _place(lines: Sequence[str], hunk: Hunk, start: int, path: str) -> int:
    """Where the hunk's old lines begin, at `start` or after it."""
    if hunk.anchor:
        found = [n for n in range(start, len(lines)) if lines[n].strip() == hunk.anchor]
        if len(found) != 1:
            how_often = f"{len(found)} lines" if found else "no line"
            raise RefusedError(f"{path!r} has {how_often} {clip(hunk.anchor)!r}, from line {start + 1} on, for '@@'")
        start = found[0] + 1
    if not hunk.old:  # lines to put in: behind the anchor, or at the end
        return start if hunk.anchor and not hunk.at_end else len(lines)
    last = len(lines) - len(hunk.old)
    places = [n for n in range(start, last + 1) if lines[n : n + len(hunk.old)] == hunk.old]
    if hunk.at_end:
        places = [n for n in places if n == last]
    shown = clip(repr("\n".join(hunk.old)), 300)
    if not places:
        raise RefusedError(
            f"{path!r} does not have these lines, from line {start + 1} on: {shown}; "
            "they must match exactly, and hunks go down the file"
        )
    if len(places) > 1 and not hunk.anchor:  # the anchor says which: the first one after it
        numbers = ", ".join(str(n + 1) for n in places[:10])
        raise RefusedError(f"{path!r} has these lines in {len(places)} places ({numbers}): {shown}; give more context")
    return places[0]
