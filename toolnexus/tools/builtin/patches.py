"""The tool that changes several files at once: `apply_patch`."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import assert_never

from ...tool import ToolContext, ToolResult
from .files import Files, go_on
from .folder import Content, Folder
from .patch import AddFile, Change, DeleteFile, UpdateFile, apply_hunks, parse_patch
from .refusal import MissingError, RefusedError, refusing
from .root import Root
from .text import Text

_MAX_CHANGES = 100
"""Files in one patch: all of them are in memory at once."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One file, looked at and worked out: nothing is left to be refused, but by the file system."""

    root: Root
    path: str
    before: Content | None
    """What is there; `None` for a new file."""
    after: bytes | None
    """What will be there; `None` removes it."""
    like: os.stat_result | None = None
    """Whose permissions a new file gets."""

    def do(self, may_go_on: Callable[[], object]) -> None:
        with self._folder() as (folder, name):
            if self.after is not None:
                folder.write(
                    name, self.after, None if self.before is None else self.before.state, may_go_on, like=self.like
                )
            elif self.before is not None:  # pragma: no branch - one of the two is there
                may_go_on()
                folder.remove(name, self.before.state)

    def undo(self) -> None:
        """Put back what was there."""
        with self._folder() as (folder, name):
            there = folder.state(name)
            if self.before is not None:
                folder.write(name, self.before.data, there, lambda: None, like=self.before.state)
            elif there is not None:
                folder.remove(name, there)

    @contextmanager
    def _folder(self) -> Generator[tuple[Folder, str]]:
        where, name = self.root.target(self.path)
        with self.root.folder(where, make=self.before is None) as folder:
            yield folder, name


class Patches:
    """Patches of files below a root."""

    def __init__(self, root: Root, files: Files, *, file_bytes: int) -> None:
        self._root = root
        self._files = files
        self._file_bytes = file_bytes

    @refusing
    def apply_patch(self, patch: str, ctx: ToolContext) -> str | ToolResult:
        """Change several files at once, all of them or none.

        A patch is text of this form; each path is relative to the root:

        *** Begin Patch
        *** Add File: notes/new.txt
        +each line of a new file begins with a plus
        *** Update File: src/app.py
        *** Move to: src/main.py
        @@ def run():
         a line that stays, with a space in front
        -a line that goes
        +a line that comes
        *** Delete File: old.txt
        *** End Patch

        `Move to` and what follows `@@` may be left out. The lines that stay and go must match exactly, and at one place
        only: give enough of them.

        Args:
            patch: The patch, from `*** Begin Patch` to `*** End Patch`.
        """
        changes = parse_patch(patch)
        if len(changes) > _MAX_CHANGES:
            raise RefusedError(f"the patch changes {len(changes)} files; at most {_MAX_CHANGES} go into one")
        with self._root.changing:
            go_on(ctx)
            steps = [step for change in changes for step in self._steps(change)]
            self._refuse_twice(steps)
            _do(steps, lambda: go_on(ctx))
        return "\n".join(_said(change) for change in changes)

    def _steps(self, change: Change) -> list[_Step]:
        match change:
            case AddFile():
                self._must_be_free(change.path)
                return [_Step(self._root, change.path, None, Text(change.text).encode(change.path, self._file_bytes))]
            case DeleteFile():
                return [_Step(self._root, change.path, self._content(change.path), None)]
            case UpdateFile():
                content = self._content(change.path)
                text = Text.decode(content.data, change.path)
                after = text.of(apply_hunks(text.text, change.hunks, change.path)).encode(change.path, self._file_bytes)
                if change.new_path is None:
                    return [_Step(self._root, change.path, content, after)]
                self._must_be_free(change.new_path)
                return [
                    _Step(self._root, change.new_path, None, after, content.state),
                    _Step(self._root, change.path, content, None),
                ]
            case _ as unreachable:
                assert_never(unreachable)

    def _content(self, path: str) -> Content:
        where, name = self._root.target(path)
        with self._root.folder(where) as folder:
            return self._files.content(folder, name)

    def _must_be_free(self, path: str) -> None:
        where, name = self._root.target(path)
        try:
            with self._root.folder(where) as folder:
                is_free = folder.state(name) is None
        except MissingError:  # not even a folder for it is there
            return
        if not is_free:
            raise RefusedError(f"{path!r} is there already; update it, or delete it first")

    def _refuse_twice(self, steps: list[_Step]) -> None:
        seen: set[tuple[str, ...]] = set()
        for step in steps:
            if (parts := self._root.parts(step.path)) in seen:
                raise RefusedError(f"the patch has {step.path!r} twice; say all of a file's changes in one place")
            seen.add(parts)


def _do(steps: list[_Step], may_go_on: Callable[[], object]) -> None:
    """Do all of them, or none: a step that fails undoes those before it, as far as the file system lets us."""
    for number, step in enumerate(steps):
        try:
            step.do(may_go_on)
        except BaseException as error:
            kept = [done.path for done in reversed(steps[:number]) if not _undone(done)]
            if kept:
                raise RefusedError(
                    f"{error}; what was written before could not be undone: {', '.join(kept)}"
                ) from error
            raise


def _undone(step: _Step) -> bool:
    try:
        step.undo()
    except RefusedError:
        return False
    return True


def _said(change: Change) -> str:
    match change:
        case AddFile():
            return f"made {change.path!r}"
        case DeleteFile():
            return f"removed {change.path!r}"
        case UpdateFile(new_path=None):
            return f"changed {change.path!r}"
        case UpdateFile():
            return f"changed {change.path!r}, now {change.new_path!r}"
        case _ as unreachable:
            assert_never(unreachable)
