"""The folder that the file tools are confined to: a model's path to the folder and the name it means.

A path is first read as text: no `..`, nothing absolute outside of the root, no NUL. Then it is walked component by
component (`folder.py`), so that what the text could not say, the file system cannot say either: no link is followed,
wherever it points and whenever it was made.
"""

from __future__ import annotations

import os
import threading
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import PurePath

from ...errors import ConfigurationError
from ..misfits import clip
from .folder import Folder
from .refusal import RefusedError

MAX_DEPTH = 48
"""Folders below the root; a walk holds a file descriptor for each, in every one of a turn's parallel calls."""

_ON_WINDOWS = os.name == "nt"
_WINDOWS_DEVICES = {"CON", "PRN", "AUX", "NUL", *(f"{port}{n}" for port in ("COM", "LPT") for n in range(10))}


class Root:
    """A folder, found once: neither a change of the working directory nor one of a link on the way to it moves it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Find the folder.

        Raises:
            ConfigurationError: There is none.
        """
        try:
            self.place = os.path.realpath(path, strict=True)
            Folder.top(self.place).close()
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"root: expected an existing folder, got {clip(repr(path))} ({error})") from error
        self.changing = threading.Lock()
        """Held while a file is read, changed and written back: two edits of one file must not lose one."""

    def parts(self, path: str) -> tuple[str, ...]:
        """Take a model's path apart; `.` and the root itself have no parts.

        Raises:
            RefusedError: It is empty, leads out of the root, or is no path.
        """
        shown = clip(repr(path))
        if not path:
            raise RefusedError("the path is empty; '.' is the root")
        if "\0" in path:
            raise RefusedError(f"{shown} is no path: NUL in it")
        pure = PurePath(path)
        parts = pure.parts
        if pure.anchor:
            own = PurePath(self.place).parts
            if parts[: len(own)] != own:
                raise RefusedError(f"{shown} is absolute and outside of the root; give a path relative to the root")
            parts = parts[len(own) :]
        if ".." in parts:
            raise RefusedError(f"{shown} has '..' in it; give a path relative to the root, without '..'")
        if parts and parts[0].startswith("~"):
            raise RefusedError(f"{shown} begins with '~', which is not expanded; give a path relative to the root")
        if len(parts) > MAX_DEPTH:
            raise RefusedError(f"{shown} is deeper than {MAX_DEPTH} folders")
        if _ON_WINDOWS and any(map(_is_strange_on_windows, parts)):
            raise RefusedError(f"{shown} has a name in it that Windows takes for something else")
        return parts

    @contextmanager
    def folder(self, parts: tuple[str, ...], *, make: bool = False) -> Generator[Folder]:
        """Open the folder at `parts` for the time of the `with`; with `make`, those that are missing are made.

        Raises:
            RefusedError: A part is no folder, or a link.
        """
        try:
            folder = Folder.top(self.place)
        except OSError as error:
            raise RefusedError(f"the root cannot be opened any more: {error.strerror}") from error
        try:
            for part in parts:
                if make:
                    folder.make(part)
                below = folder.folder(part)
                folder.close()
                folder = below
            yield folder
        finally:
            folder.close()

    def target(self, path: str) -> tuple[tuple[str, ...], str]:
        """The folder and the name of a file that is to be changed.

        Raises:
            RefusedError: As `parts`; or it is the root itself, or git's own folder is on the way: what is written
                there (hooks, settings) is run by the next git command.
        """
        parts = self.parts(path)
        if not parts:
            raise RefusedError(f"{clip(repr(path))} is the root itself, a folder")
        if any(map(is_gits_own, parts)):
            raise RefusedError(f"{clip(repr(path))} is git's own; nothing is written there")
        return parts[:-1], parts[-1]


def is_gits_own(name: str) -> bool:
    """Whether some file system takes `name` for `.git`: in another case, with invisible characters, in its short form.

    Source: git's own checks, `core.protectHFS` and `core.protectNTFS` (git-config documentation).
    """
    visible = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
    return visible.casefold().rstrip(". ") in (".git", "git~1")


def _is_strange_on_windows(name: str) -> bool:
    """Source: Microsoft, "Naming Files, Paths, and Namespaces"; a colon opens another stream of the same file."""
    stem = name.partition(".")[0].rstrip(" ").upper()
    return name[-1] in ". " or stem in _WINDOWS_DEVICES or any(c in '<>:"|?*' or c < " " for c in name)
