"""Patterns for paths: `*`, `?`, `[…]` within a name, `**` for any number of folders, `{a,b}` for alternatives.

A pattern is stepped through name by name, on the way down a tree, so that a folder from which nothing can match is
never read. The time is bounded by the pattern's length times the number of names: each name is matched by a regular
expression that does not go back across its stars (`fnmatch.translate` sees to that), and `**` is a set of places in
the pattern, not a search.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable

from .refusal import RefusedError

_MAX_CHARACTERS = 1000
_MAX_ALTERNATIVES = 64
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_ANY_FOLDERS = "**"

Places = frozenset[tuple[int, int]]
"""Where in a pattern one may be: the alternative, and the segment that comes next."""


class Glob:
    """A pattern, read; a name that begins with a dot needs a segment that does."""

    def __init__(self, pattern: str) -> None:
        """Read a pattern.

        Raises:
            RefusedError: It is empty, too long, absolute, or leads upwards.
        """
        if len(pattern) > _MAX_CHARACTERS:
            raise RefusedError(f"the pattern has {len(pattern)} characters; at most {_MAX_CHARACTERS} are read")
        self._alternatives = [_segments(text, pattern) for text in _expanded(pattern)]
        self.start = self._closed((number, 0) for number in range(len(self._alternatives)))
        """Where one is in the folder that the pattern is relative to."""

    def step(self, places: Places, name: str) -> Places:
        """Where one is after `name`; nowhere, if nothing can match any more."""
        is_hidden = name.startswith(".")
        after: list[tuple[int, int]] = []
        for number, index in places:
            segments = self._alternatives[number]
            if index == len(segments):
                continue
            segment = segments[index]
            if segment is None:
                if not is_hidden:
                    after.append((number, index))
            elif segment.matches(name, is_hidden):
                after.append((number, index + 1))
        return self._closed(after)

    def accepts(self, places: Places) -> bool:
        """Whether the path that led here matches."""
        return any(index == len(self._alternatives[number]) for number, index in places)

    def goes_on(self, places: Places) -> bool:
        """Whether something below can match."""
        return any(index < len(self._alternatives[number]) for number, index in places)

    def _closed(self, places: Iterable[tuple[int, int]]) -> Places:
        """With the places behind each `**`, which may stand for no folder at all."""
        closed: set[tuple[int, int]] = set()
        for number, index in places:
            segments = self._alternatives[number]
            closed.add((number, index))
            while index < len(segments) and segments[index] is None:
                index += 1
                closed.add((number, index))
        return frozenset(closed)


class _Segment:
    """One name of a pattern."""

    def __init__(self, text: str) -> None:
        self._names = re.compile(fnmatch.translate(text))
        self._takes_hidden = text.startswith(".")

    def matches(self, name: str, is_hidden: bool) -> bool:
        return (self._takes_hidden or not is_hidden) and self._names.match(name) is not None


def _segments(text: str, pattern: str) -> list[_Segment | None]:
    """The segments of one alternative; `None` is `**`, which stands for folders only: a file needs a name."""
    names = [name for name in text.split("/") if name not in ("", ".")]
    if text.startswith("/") or ".." in names or not names or "\0" in text:
        raise RefusedError(f"the pattern {pattern!r} must be relative, without '..', and not empty")
    if names[-1] == _ANY_FOLDERS:
        names.append("*")
    return [None if name == _ANY_FOLDERS else _Segment(name) for name in names]


def _expanded(pattern: str) -> list[str]:
    """The alternatives of all braces, from the inside out."""
    done: list[str] = []
    todo = [pattern]
    while todo:
        text = todo.pop()
        if (braces := _BRACES.search(text)) is None:
            done.append(text)
        else:
            before, after = text[: braces.start()], text[braces.end() :]
            todo += [f"{before}{choice}{after}" for choice in braces[1].split(",")]
        if len(done) + len(todo) > _MAX_ALTERNATIVES:
            raise RefusedError(f"the pattern stands for more than {_MAX_ALTERNATIVES} alternatives")
    return done
