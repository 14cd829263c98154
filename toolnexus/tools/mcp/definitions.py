"""What a server's tools were said to be when they were first seen, and what is said of them now.

A server may change a definition at any time: what a human looked at and agreed to need not be what the model is told
tomorrow ("rug pull"). So the first definition of each tool counts; another one is refused until it is accepted.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

MISSING = "the server does not offer it"


@dataclass(frozen=True, slots=True)
class Definition:
    """What a server says of one of its tools."""

    name: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None
    """Hints about what the tool does; the server's word, so nothing here relies on them."""
    key: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", json.dumps(self.as_dict(), sort_keys=True))

    def as_dict(self) -> dict[str, Any]:
        """A copy as plain data."""
        names = ("name", "description", "input_schema", "output_schema", "annotations")
        return {name: copy.deepcopy(getattr(self, name)) for name in names}


class Definitions:
    """The definitions of one server's tools."""

    def __init__(self, *, accepts_changes: bool) -> None:
        self._accepts_changes = accepts_changes
        self._first: dict[str, Definition] = {}
        self._now: dict[str, Definition] = {}

    def listed(self, listing: Sequence[Definition]) -> list[str]:
        """The server's tools are these now.

        Returns:
            The names of those that are refused since.
        """
        before = set(self.changed())
        now = {definition.name: definition for definition in listing}
        # In this order, and replaced as wholes: other threads read them meanwhile.
        self._first = {**self._first, **now} if self._accepts_changes else {**now, **self._first}
        self._now = now
        return [name for name in self.changed() if name not in before]

    def offered(self) -> list[Definition]:
        """Those that may be used, in the server's order."""
        return [definition for name, definition in self._now.items() if self._first[name].key == definition.key]

    def changed(self) -> dict[str, tuple[Definition, Definition]]:
        """Those that are refused: what was first seen, and what is said now."""
        return {
            name: (self._first[name], definition)
            for name, definition in self._now.items()
            if self._first[name].key != definition.key
        }

    def accept(self, name: str) -> bool:
        """Take the definition of now for the one that counts.

        Returns:
            Whether it was refused before.
        """
        if name not in self.changed():
            return False
        self._first = {**self._first, name: self._now[name]}
        return True

    def why_not(self, name: str) -> str | None:
        """Why a tool must not be called now; `None` if it may."""
        if name not in self._now:
            return MISSING
        if name in self.changed():
            return "its definition changed since it was first seen, and nobody has accepted that yet"
        return None
