"""Conversations in this process's memory."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from ..messages import Message


class MemoryStore:
    """Keeps transcripts as long as the object lives.

    Deep: what a caller does to a message that it gave or was given changes nothing.
    """

    def __init__(self) -> None:
        self._conversations: dict[str, list[Message]] = {}

    def __repr__(self) -> str:
        return f"<MemoryStore of {len(self._conversations)} conversations>"

    def get(self, id: str, /) -> list[Message] | None:
        """A copy of the transcript saved under `id`; `None` if there is none."""
        return copy.deepcopy(self._conversations.get(id))

    def save(self, id: str, messages: Sequence[Message], /) -> None:
        """Keep a copy of `messages` under `id`."""
        self._conversations[id] = copy.deepcopy(list(messages))
