"""The tools that read and change one file: `read`, `write`, `edit`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ...tool import ToolContext, ToolResult
from ..misfits import clip
from .folder import Content, Folder
from .refusal import RefusedError, refusing
from .root import Root
from .text import Text

_LINE_CHARACTERS = 2000
_LINES_NAMED = 10


class Files:
    """Files below a root, of at most `file_bytes` bytes each."""

    def __init__(self, root: Root, *, file_bytes: int, output_bytes: int, hard_links: bool) -> None:
        self._root = root
        self._file_bytes = file_bytes
        self._output_bytes = output_bytes
        self._hard_links = hard_links

    @refusing
    def read(
        self, path: str, offset: Annotated[int, Field(ge=1)] = 1, limit: Annotated[int, Field(ge=1)] = 2000
    ) -> str | ToolResult:
        """Read a text file. Each line comes with its number and a tab in front, which are not part of it.

        Args:
            path: The file, relative to the root.
            offset: The first line to read; the first of the file is 1.
            limit: How many lines to read at most.
        """
        with self._root.folder((parts := self._root.parts(path))[:-1]) as folder:
            if not parts:
                raise RefusedError(f"{clip(path)!r} is the root itself, a folder")
            content = self.content(folder, parts[-1])
        text = Text.decode(content.data, path).text
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        if not lines:
            return "[the file is empty]"
        if offset > len(lines):
            raise RefusedError(f"offset {offset}: the file has {len(lines)} lines")
        shown: list[str] = []
        size = 0
        for number, line in enumerate(lines[offset - 1 : offset - 1 + limit], offset):
            cut = len(line) - _LINE_CHARACTERS
            if cut > 0:
                line = f"{line[:_LINE_CHARACTERS]} [{cut} characters of this line left out]"
            size += len(line.encode()) + 8
            if size > self._output_bytes and shown:
                break
            shown.append(f"{number:>6}\t{line}")
        last = offset - 1 + len(shown)
        if last < len(lines):
            shown.append(f"[lines {offset} to {last} of {len(lines)}; go on with offset={last + 1}]")
        return "\n".join(shown)

    @refusing
    def write(self, path: str, content: str, ctx: ToolContext) -> str | ToolResult:
        """Write a whole text file: make it, with the folders on the way, or replace all that is in it.

        Args:
            path: The file, relative to the root.
            content: All that the file will hold.
        """
        data = Text(content).encode(path, self._file_bytes)
        where, name = self._root.target(path)
        with self._root.changing:
            go_on(ctx)
            with self._root.folder(where, make=True) as folder:
                seen = folder.state(name)
                folder.write(name, data, seen, lambda: go_on(ctx))
        return f"{'made' if seen is None else 'replaced'} {path!r}: {len(data)} bytes"

    @refusing
    def edit(
        self, path: str, old_string: str, new_string: str, ctx: ToolContext, replace_all: bool = False
    ) -> str | ToolResult:
        """Replace text in a file. `old_string` must be there exactly once, unless `replace_all` is set.

        Args:
            path: The file, relative to the root.
            old_string: The text to replace, exactly as in the file, indentation included, without line numbers.
            new_string: What to put in its place.
            replace_all: Replace every occurrence.
        """
        if not old_string:
            raise RefusedError("old_string is empty; write makes a file or replaces a whole one")
        where, name = self._root.target(path)
        with self._root.changing:
            go_on(ctx)
            with self._root.folder(where) as folder:
                content = self.content(folder, name)
                before = Text.decode(content.data, path)
                old, new = before.unified(old_string), before.unified(new_string)
                count = before.text.count(old)
                if count == 0:
                    raise RefusedError(f"old_string is not in {path!r}; it must match exactly, indentation included")
                if count > 1 and not replace_all:
                    raise RefusedError(
                        f"old_string is {count} times in {path!r} (lines {_places(before.text, old)}); "
                        "give more of the text around it, or set replace_all"
                    )
                if old == new:
                    raise RefusedError("old_string and new_string are the same")
                after = before.of(before.text.replace(old, new)).encode(path, self._file_bytes)
                folder.write(name, after, content.state, lambda: go_on(ctx))
        return f"edited {path!r}: {count} {'place' if count == 1 else 'places'}"

    def content(self, folder: Folder, name: str) -> Content:
        """What a file holds, within the bounds of these tools."""
        return folder.read(name, self._file_bytes, hard_links=self._hard_links)


def go_on(ctx: ToolContext) -> None:
    """Look whether the run still wants it: a call that was given up must change nothing any more.

    Raises:
        RefusedError: It does not.
    """
    if ctx.cancel.cancelled:
        raise RefusedError("the run is over; nothing was changed")


def _places(text: str, old: str) -> str:
    lines: list[str] = []
    start = text.find(old)
    while start >= 0 and len(lines) < _LINES_NAMED:
        lines.append(str(text.count("\n", 0, start) + 1))
        start = text.find(old, start + len(old))
    return ", ".join(lines) + (", …" if start >= 0 else "")
