"""Conversations in this process's memory."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence

from .._copies import copied
from ..errors import ConversationConflictError
from ..messages import Message
from .changes import check_base, unchanged
from .protocols import Snapshot

_REVISIONS = itertools.count(1)  # one count for all stores: what one gave is no other's either


class MemoryStore:
    """Keeps transcripts as long as the object lives; `load`, `commit`, `ids` and `delete` are there too.

    Deep: what a caller does to a message that it gave or was given changes nothing. Any thread may use it.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._kept: dict[str, Snapshot] = {}  # the messages are ours, and in no list that changes

    def __repr__(self) -> str:
        return f"<MemoryStore of {len(self._kept)} conversations>"

    def get(self, id: str, /) -> list[Message] | None:
        """A copy of the transcript saved under `id`; `None` if there is none."""
        return self.load(id).messages

    def save(self, id: str, messages: Sequence[Message], /) -> None:
        """Keep a copy of `messages` under `id`, whatever was there."""
        messages = list(messages)
        with self._lock:
            kept = self._kept.get(id, _NOTHING)
            same = unchanged(kept.messages or [], messages)  # equal ones only: nobody else has the objects
            self._put(id, kept, same, messages)

    def load(self, id: str, /) -> Snapshot:
        """The conversation as it is now: a copy, and its revision."""
        kept = self._kept.get(id, _NOTHING)
        return Snapshot(None if kept.messages is None else copied(kept.messages), kept.revision)

    def commit(self, id: str, base: Snapshot, messages: Sequence[Message], /) -> Snapshot:
        """Save `messages` if the conversation is still at `base`; see `RevisionedStore.commit`.

        Raises:
            ConversationConflictError: The conversation has changed since `base`; nothing was saved.
        """
        messages = list(messages)
        with self._lock:
            kept = self._kept.get(id, _NOTHING)
            if kept.revision != base.revision:
                raise ConversationConflictError(f"conversation {id!r} was saved or deleted by somebody else meanwhile")
            check_base(base, len(kept.messages or ()))
            same = unchanged(base.messages or [], messages)
            return Snapshot(messages, self._put(id, kept, same, messages))

    def ids(self) -> list[str]:
        """The ids of all conversations, sorted."""
        return sorted(self._kept.copy())

    def delete(self, id: str, /) -> None:
        """Forget the conversation, if it is there."""
        with self._lock:
            self._kept.pop(id, None)

    def _put(self, id: str, kept: Snapshot, same: int, messages: list[Message]) -> int:
        revision = next(_REVISIONS)
        self._kept[id] = Snapshot([*(kept.messages or ())[:same], *copied(messages[same:])], revision)
        return revision


_NOTHING = Snapshot(None, 0)
