"""Agent skills: instructions that a model loads, by a tool, when a task wants them; the system prompt names them."""

from __future__ import annotations

import fnmatch
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ..errors import ConfigurationError
from ..tool import Tool, ToolResult
from .function import define_tool
from .misfits import clip
from .skill_folders import SkillError, check_description, check_name, find_skills

_log = logging.getLogger(__name__)

_MAX_SKILLS = 200
_SHOWN_FILES = 10


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill that is defined by data, not by a folder."""

    name: str
    """1 to 64 characters on one line."""
    description: str
    """When to use it: this is what the model sees before it loads the skill."""
    body: str = ""
    """The instructions."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Texts that the instructions refer to, by name."""

    def __post_init__(self) -> None:
        try:
            check_name(self.name)
            check_description(self.description)
        except SkillError as error:
            raise ConfigurationError(f"Skill: {error}") from None
        if not isinstance(self.body, str):
            raise ConfigurationError(f"Skill {self.name!r}: body: expected a str, got {type(self.body).__name__}")


@dataclass(frozen=True, slots=True)
class SkillEntry:
    """What became of one skill that was found."""

    name: str | None
    """`None` where it has none that could be read."""
    source: str
    """The folder, or `"data"`."""
    skipped: str | None = None
    """Why it is not offered; `None` if it is."""


class _Loadable(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def base(self) -> str | None: ...
    def body(self) -> str: ...
    def files(self) -> list[str]: ...
    def read(self, file: str) -> str: ...


class _SkillData:
    """A `Skill`, in the form that a folder has."""

    base = None

    def __init__(self, skill: Skill) -> None:
        self._skill = skill
        self.name = check_name(skill.name)
        self.description = check_description(skill.description)

    def body(self) -> str:
        return self._skill.body.strip()

    def files(self) -> list[str]:
        return sorted(self._skill.files)

    def read(self, file: str) -> str:
        try:
            return self._skill.files[file]
        except KeyError:
            raise SkillError("there is no such file") from None


Source = str | os.PathLike[str] | Skill


class Skills:
    """Skills from folders and data, for `Toolkit(skills=...)`.

    A skill in a folder is a `SKILL.md` with front matter (`name`, `description`) and instructions below it, at most
    three folders below its root. It is named when this object is made, and read anew when a model loads it. Of two
    with one name the first is offered, and a warning is logged. Reading front matter takes PyYAML, the extra
    `skills`.
    """

    def __init__(self, *sources: Source, allow: Sequence[str] | None = None, deny: Sequence[str] = ()) -> None:
        """Look for skills.

        Args:
            sources: Roots to look below, and `Skill` objects; in this order.
            allow: Names to offer, or patterns such as `"pdf-*"`; `None` offers all.
            deny: Names or patterns not to offer; stronger than `allow`.

        Raises:
            ConfigurationError: A root is no folder, an argument cannot work, or PyYAML is missing.
        """
        self._allow = None if allow is None else _patterns("allow", allow)
        self._deny = _patterns("deny", deny)
        self._skills: dict[str, _Loadable] = {}
        self._sources: dict[str, str] = {}
        self._inventory: list[SkillEntry] = []
        for source in sources:
            for where, found in _found(source):
                self._take(where, found)

    @classmethod
    def of(cls, given: Skills | Source | Sequence[Source]) -> Skills:
        """What `Toolkit(skills=...)` takes: these themselves, one source, or a list of them."""
        if isinstance(given, Skills):
            return given
        return cls(*given) if isinstance(given, list | tuple) else cls(given)  # type: ignore[arg-type]  # checked there

    def __repr__(self) -> str:
        return f"<Skills {', '.join(self.names) or '(none)'}>"

    @property
    def names(self) -> list[str]:
        """The skills on offer, sorted."""
        return sorted(self._skills)

    @property
    def inventory(self) -> tuple[SkillEntry, ...]:
        """Everything that was found, in order, and why it is not offered if it is not."""
        return tuple(self._inventory)

    def prompt(self) -> str:
        """What the system prompt says about them, sorted by name; empty without any."""
        if not self._skills:
            return ""
        lines = [f"- {name}: {self._skills[name].description}" for name in self.names]
        return "\n".join(
            [
                "Skills are instructions for certain kinds of task. Before you begin with a task that one of these "
                "fits, load it with the tool `skill`:",
                *lines,
            ]
        )

    def tool(self) -> Tool | None:
        """The tool that loads them; `None` without any."""
        if not self._skills:
            return None
        return define_tool(
            self._load,
            name="skill",
            description="Load a skill: instructions for a kind of task, or with `file` one of the skill's files.",
            input_schema={
                "type": "object",
                "properties": {
                    "name": {"type": "string", "enum": self.names, "description": "The skill's name."},
                    "file": {"type": "string", "description": "One of the files that the skill lists."},
                },
                "required": ["name"],
                "additionalProperties": False,
            },
            idempotent=True,
        )

    def _take(self, where: str, found: _Loadable | str) -> None:
        if isinstance(found, str):
            self._inventory.append(SkillEntry(None, where, found))
            _log.warning("skipped the skill in %s: %s", where, found)
            return
        name = found.name
        skipped = None
        # Names that differ in case only are one to a reader, and on some disks one folder.
        other = next((known for known in self._skills if known.casefold() == name.casefold()), None)
        if _matches(name, self._deny):
            skipped = "denied"
        elif self._allow is not None and not _matches(name, self._allow):
            skipped = "not allowed"
        elif other is not None:
            skipped = f"the name is taken by the skill in {self._sources[other]}"
            _log.warning("skipped the skill %r in %s: %s", name, where, skipped)
        elif len(self._skills) >= _MAX_SKILLS:
            skipped = f"there are more than {_MAX_SKILLS} skills"
            _log.warning("skipped the skill %r in %s: %s", name, where, skipped)
        else:
            self._skills[name] = found
            self._sources[name] = where
        self._inventory.append(SkillEntry(name, where, skipped))

    def _load(self, name: str, file: str | None = None) -> ToolResult:
        skill = self._skills[name]  # a name that is none does not fit the schema
        try:
            if file is not None:
                return ToolResult(skill.read(file))
            return ToolResult(_shown(skill))
        except SkillError as error:
            what = f"file {clip(file, 100)!r} of the skill" if file is not None else "skill"
            return ToolResult(f"the {what} {name!r}: {error}", is_error=True)


def _shown(skill: _Loadable) -> str:
    lines = [f"# Skill: {skill.name}", "", skill.body()]
    if skill.base is not None:
        lines += ["", f"Base directory: {skill.base}"]
    files = skill.files()
    if files:
        more = len(files) - _SHOWN_FILES
        lines += ["", "Files (read one with this tool's `file`):", *(f"- {file}" for file in files[:_SHOWN_FILES])]
        lines += [f"- and {more} more"] if more > 0 else []
    return "\n".join(lines)


def _found(source: Source) -> Iterator[tuple[str, _Loadable | str]]:
    if isinstance(source, Skill):
        yield "data", _SkillData(source)
        return
    if not isinstance(source, str | os.PathLike):
        raise ConfigurationError(f"skills: expected a folder or a Skill, got {clip(repr(source))}")
    root = Path(source)
    if not root.is_dir():
        raise ConfigurationError(f"skills: expected a folder, got {str(root)!r}, which is none")
    for path, found in find_skills(root):
        yield str(path), found


def _patterns(argument: str, names: object) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise ConfigurationError(f"{argument}: expected a list of names, got {clip(repr(names))}")
    return tuple(str(name) for name in names)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name.casefold(), pattern.casefold()) for pattern in patterns)
