"""The tools that look through a tree: `glob` and `grep`."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import closing

from ...tool import ToolContext, ToolResult
from .folder import Entry, Folder
from .globs import Glob, Places
from .matcher import Matcher, StoppedError
from .refusal import RefusedError, refusing
from .root import MAX_DEPTH, Root, is_gits_own

_ENTRIES = 100_000
"""Names that one call looks at."""
_BINARY = 8192
"""Bytes at the begin of a file among which a NUL says that it is no text; git and grep look at as many."""


class Search:
    """Looks through what is below a root, within bounds; each call says where it stopped and what it left out."""

    def __init__(self, root: Root, *, file_bytes: int, results: int, seconds: float, hard_links: bool) -> None:
        self._root = root
        self._file_bytes = file_bytes
        self._results = results
        self._seconds = seconds
        self._hard_links = hard_links

    @refusing
    def glob(self, pattern: str, ctx: ToolContext, path: str = ".") -> str | ToolResult:
        """List the files and folders whose paths match a pattern, such as `**/*.py` or `src/*.{ts,tsx}`.

        `*` stands for any part of a name, `**` for any number of folders. Names that begin with a dot are matched only
        by a dot, and what is in `.git` is left out. A folder ends with `/`, a link with `@`; links are not followed.

        Args:
            pattern: What the paths look like, relative to `path`.
            path: The folder to look in, relative to the root.
        """
        glob, parts = Glob(pattern), self._root.parts(path)
        walk = _Walk(self._seconds, ctx)
        lines: list[str] = []
        try:
            with self._root.folder(parts) as top, closing(walk.below(top, glob, glob.start)) as found:
                for folder, entry in found:
                    if len(lines) == self._results:
                        raise StoppedError(f"there are more than {self._results}; use a narrower pattern")
                    lines.append(folder.path(entry.name) + ("@" if entry.is_link else "/" if entry.is_folder else ""))
        except StoppedError as stopped:
            walk.notes.append(f"stopped: {stopped}")
        return _report(lines, walk.notes, "no path matches")

    @refusing
    def grep(
        self, pattern: str, ctx: ToolContext, path: str = ".", glob: str = "**", ignore_case: bool = False
    ) -> str | ToolResult:
        """Find the lines of text files that match a regular expression, as `path:line: text`.

        Binary files, names that begin with a dot, links and `.git` are left out, unless `path` or `glob` names them.

        Args:
            pattern: A regular expression as Python's `re` reads it; each line is searched on its own.
            path: The folder to look in, or one file, relative to the root.
            glob: Which files to look at, such as `*.py` (at any depth) or `src/**/*.ts`, relative to `path`.
            ignore_case: Whether upper and lower case are the same.
        """
        names = Glob(glob if "/" in glob else f"**/{glob}")
        parts = self._root.parts(path)
        is_one = self._is_one_file(parts)
        walk = _Walk(self._seconds, ctx)
        lines: list[str] = []
        try:
            with (
                Matcher(pattern, ignore_case=ignore_case, seconds=self._seconds, ctx=ctx) as matcher,
                closing(self._files(parts, is_one, names, walk)) as files,
            ):
                for folder, name in files:
                    self._search(folder, name, matcher, walk, lines)
        except StoppedError as stopped:
            walk.notes.append(f"stopped: {stopped}")
        return _report(lines, walk.notes, "no line matches")

    def _is_one_file(self, parts: tuple[str, ...]) -> bool:
        """Whether a path is no folder, but a file.

        Raises:
            RefusedError: It is neither, or cannot be read.
        """
        with self._root.folder(parts[:-1]) as above:
            if not parts or above.is_folder(parts[-1]):
                return False
            self._content(above, parts[-1])
            return True

    def _files(self, parts: tuple[str, ...], is_one: bool, names: Glob, walk: _Walk) -> Generator[tuple[Folder, str]]:
        if is_one:
            with self._root.folder(parts[:-1]) as above:
                yield above, parts[-1]
            return
        with self._root.folder(parts) as top, closing(walk.below(top, names, names.start)) as found:
            for folder, entry in found:
                if not entry.is_folder and not entry.is_link:
                    yield folder, entry.name

    def _search(self, folder: Folder, name: str, matcher: Matcher, walk: _Walk, lines: list[str]) -> None:
        try:
            data = self._content(folder, name)
        except RefusedError as error:
            walk.left_out(str(error))
            return
        if b"\0" in data[:_BINARY]:
            return
        path = folder.path(name)
        # One more than is wanted says whether there are more.
        for number, text in matcher.lines(data, path, self._results - len(lines) + 1):
            if len(lines) == self._results:
                raise StoppedError(f"there are more than {self._results}; use a narrower pattern, path or glob")
            lines.append(f"{path}:{number}: {text}")

    def _content(self, folder: Folder, name: str) -> bytes:
        return folder.read(name, self._file_bytes, hard_links=self._hard_links).data


class _Walk:
    """A way through a tree, within the bounds of one call."""

    def __init__(self, seconds: float, ctx: ToolContext) -> None:
        self._seconds = seconds
        self._expires = time.monotonic() + seconds
        self._cancel = ctx.cancel
        self._left = _ENTRIES
        self.notes: list[str] = []
        """What the result does not show."""

    def below(self, folder: Folder, glob: Glob, places: Places, depth: int = 0) -> Generator[tuple[Folder, Entry]]:
        """Yield what matches, depth first, by name; the folder is open until the next step.

        Raises:
            StoppedError: The call has looked at all that it may.
        """
        entries = folder.entries(self._left + 1)
        self._left -= len(entries)
        if self._left < 0:
            raise StoppedError(f"looked at {_ENTRIES} names; use a narrower path")
        for entry in entries:
            self._check()
            after = glob.step(places, entry.name)
            if glob.accepts(after):
                yield folder, entry
            if entry.is_folder and glob.goes_on(after) and not is_gits_own(entry.name):
                if depth == MAX_DEPTH:
                    self.left_out(f"{folder.path(entry.name)!r} is deeper than {MAX_DEPTH} folders")
                    continue
                try:
                    inside = folder.folder(entry.name)
                except RefusedError as error:
                    self.left_out(str(error))
                    continue
                with inside:
                    yield from self.below(inside, glob, after, depth + 1)

    def left_out(self, why: str) -> None:
        """Note what could not be looked at; the first few by name."""
        if len(self.notes) < 5:
            self.notes.append(f"left out: {why}")
        elif len(self.notes) == 5:
            self.notes.append("left out: more of that kind")

    def _check(self) -> None:
        if self._cancel.cancelled:
            raise StoppedError("the run is over")
        if time.monotonic() > self._expires:
            raise StoppedError(f"it took longer than {self._seconds:g} s; use a narrower pattern or path")


def _report(lines: list[str], notes: list[str], nothing: str) -> str:
    return "\n".join([*(lines or [nothing]), *(f"[{note}]" for note in notes)])
