"""Skills on disk: folders with a `SKILL.md`, found under a root, and the only code that opens their files.

Nothing outside of the root is read, whatever links lead there: a path is resolved first, the result must lie inside,
and that result is what is opened. What can be asked for is a list, so no path that a model writes is ever joined.

Source: Agent Skills, "Specification" (agentskills.io), which we read leniently: a name may hold capitals and spaces,
and need not be that of its folder.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .misfits import clip
from .yaml_data import YAMLError, read_yaml

FILE_NAME = "SKILL.md"
MAX_FILE_BYTES = 256 * 1024
"""Of a `SKILL.md`, and of a file beside it: more than a model should be made to read."""
MAX_FILES = 200
"""Files of one skill that can be asked for."""
_MAX_FRONT_MATTER = 16 * 1024
_MAX_VALUES = 1000
_MAX_FOLDERS = 2000
"""Folders that are looked at below one root."""
_MAX_DEPTH = 3
"""How deep below its root a skill may lie; its own files may lie as deep below it."""
MAX_DESCRIPTION = 1024


class SkillError(Exception):
    """A skill or a file of it that cannot be read; the message says why, without a path."""


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """One folder with a `SKILL.md` that can be read."""

    name: str
    description: str
    folder: Path
    """Its real path."""

    @property
    def base(self) -> str:
        """Where its files lie."""
        return str(self.folder)

    def body(self) -> str:
        """What the file says below its front matter, as it is now.

        Raises:
            SkillError: It cannot be read any more.
        """
        return _split(read_inside(self.folder, FILE_NAME))[1]

    def files(self) -> list[str]:
        """The files beside `SKILL.md`, at most `MAX_FILES`, sorted; hidden ones and links that lead out are none."""
        found: list[str] = []
        for folder, names, files in os.walk(self.folder):
            depth = len(Path(folder).relative_to(self.folder).parts)
            names[:] = sorted(n for n in names if not _is_hidden(n)) if depth < _MAX_DEPTH else []
            for name in sorted(files):
                path = Path(folder, name)
                inner = path.relative_to(self.folder).as_posix()
                if not _is_hidden(name) and inner != FILE_NAME and _is_inside(path, self.folder) and path.is_file():
                    found.append(inner)
                    if len(found) == MAX_FILES:
                        return sorted(found)
        return sorted(found)

    def read(self, file: str) -> str:
        """The text of one of `files()`.

        Raises:
            SkillError: There is no such file, or it is no text.
        """
        if file not in self.files():
            raise SkillError("there is no such file")
        return read_inside(self.folder, file)


def find_skills(root: Path) -> Iterator[tuple[Path, SkillFolder | str]]:
    """Look for skills below `root`, which may be one itself.

    Returns:
        Each place that looks like a skill, sorted by path, with the skill or the reason why it is none.
    """
    top = Path(os.path.realpath(root))
    left = [(top, 0)]
    seen: set[Path] = set()
    while left:
        folder, depth = left.pop()
        real = Path(os.path.realpath(folder))
        if real in seen:  # a link to a place in the same root, perhaps above
            continue
        seen.add(real)
        if len(seen) > _MAX_FOLDERS:
            yield folder, f"not looked at: there are more than {_MAX_FOLDERS} folders below {top}"
            return
        if not real.is_relative_to(top):
            yield folder, "leads out of the root"
            continue
        try:
            entries = sorted(os.listdir(folder))
        except OSError as error:
            yield folder, f"cannot be read: {error.strerror}"
            continue
        if FILE_NAME in entries:
            yield folder, _read_skill(real)
            continue
        misnamed = next((name for name in entries if name.lower() == FILE_NAME.lower()), None)
        if misnamed is not None:
            yield folder, f"has {misnamed!r}; expected {FILE_NAME!r}"
            continue
        inner = [folder / name for name in reversed(entries) if not _is_hidden(name) and (folder / name).is_dir()]
        if depth < _MAX_DEPTH:
            left += [(path, depth + 1) for path in inner]
        elif inner:
            yield folder, f"not looked into: more than {_MAX_DEPTH} folders deep"


def _read_skill(folder: Path) -> SkillFolder | str:
    try:
        front, _ = _split(read_inside(folder, FILE_NAME))
        matter = read_yaml(front, max_values=_MAX_VALUES)
        if not isinstance(matter, dict):
            raise SkillError("the front matter: expected members such as 'name: …'")
        return SkillFolder(
            check_name(matter.get("name")),
            check_description(matter.get("description")),
            folder,
        )
    except SkillError as error:
        return f"{FILE_NAME}: {error}"
    except YAMLError as error:
        return f"{FILE_NAME}, front matter: {clip(str(error))}"


def check_name(name: Any) -> str:  # Any: whatever the front matter says
    """A skill's name, without white space around it.

    Raises:
        SkillError: It cannot be one.
    """
    text = name.strip() if isinstance(name, str) else ""
    if not re.fullmatch(r"[^<>`]{1,64}", text) or not text.isprintable():
        raise SkillError(f"name: expected 1 to 64 characters on one line, without <, > and `, got {clip(repr(name))}")
    return text


def check_description(description: Any) -> str:  # Any: as above
    """A skill's description on one line.

    Raises:
        SkillError: It is none, or empty.
    """
    if not isinstance(description, str) or not description.strip():
        raise SkillError(f"description: expected text, got {clip(repr(description))}")
    line = "".join(character if character.isprintable() else " " for character in description)
    return clip(" ".join(line.split()), MAX_DESCRIPTION)


def _split(text: str) -> tuple[str, str]:
    """Front matter and body."""
    lines = text.replace("\r\n", "\n").split("\n")
    ends = [number for number, line in enumerate(lines) if line.rstrip() == "---"]
    if len(ends) < 2 or ends[0] != 0:
        raise SkillError("expected front matter between two lines '---', at the very beginning")
    front = "\n".join(lines[1 : ends[1]])
    if len(front) > _MAX_FRONT_MATTER:
        raise SkillError(f"the front matter is longer than {_MAX_FRONT_MATTER} characters")
    return front, "\n".join(lines[ends[1] + 1 :]).strip()


def read_inside(folder: Path, file: str) -> str:
    """The text of a file below `folder`, a real path.

    Raises:
        SkillError: It lies elsewhere, is no regular file, too large, or no UTF-8.
    """
    path = Path(os.path.realpath(folder / file))
    if not path.is_relative_to(folder):
        raise SkillError("leads out of its folder")
    # A link put there since is not followed, a pipe is not waited for. Windows has neither flag.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        with open(path, "rb", opener=lambda name, _: os.open(name, flags)) as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise SkillError("is no regular file")
            data = opened.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SkillError(f"cannot be read: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise SkillError(f"is larger than {MAX_FILE_BYTES} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SkillError("is no text in UTF-8") from None


def _is_inside(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(folder)


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name in ("__pycache__", "node_modules")
