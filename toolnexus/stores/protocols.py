"""What a store of conversations offers: two methods always, and two more sets of them where it can.

`get` and `save` are enough for everything. A store that is a `RevisionedStore` too is used through `load` and
`commit`, which never save over what somebody else has saved meanwhile and cost no more than what is new.
`toolnexus.testing.StoreSuite` tests a store against all that is written here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..messages import Message


class ConversationStore(Protocol):
    """A place for transcripts, by conversation id. Either method may be a coroutine under the async client."""

    def get(self, id: str, /) -> list[Message] | Awaitable[list[Message] | None] | None:
        """The transcript that was last saved under `id`; `None` if there is none."""

    def save(self, id: str, messages: Sequence[Message], /) -> Awaitable[None] | None:
        """Put `messages` in the place of what was saved under `id`."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A conversation as a store had it: its messages, and which revision that was."""

    messages: list[Message] | None
    """`None`: there is no such conversation. Not to be changed: the next `commit` compares with it."""
    revision: object
    """The store's own mark, to be handed back as it is; 0 for a conversation that is not there."""


class RevisionedStore(ConversationStore, Protocol):
    """A store that knows when a conversation was saved by somebody else meanwhile.

    Revisions never come again, not even those of a conversation that was deleted and begun anew.
    """

    def load(self, id: str, /) -> Snapshot | Awaitable[Snapshot]:
        """The conversation as it is now."""
        ...

    def commit(self, id: str, base: Snapshot, messages: Sequence[Message], /) -> Snapshot | Awaitable[Snapshot]:
        """Save `messages` under `id` if the conversation is still at `base`.

        Leading messages that are the very objects of `base.messages`, or equal to them, are taken as unchanged: pass
        `[*base.messages, ...]`, and what is written is what is new. Whoever edits a message puts another in its place.

        Args:
            id: The conversation.
            base: What `load` or an earlier `commit` of this id gave.
            messages: The whole transcript.

        Returns:
            The base of the next commit; its `messages` are those given, the very objects.

        Raises:
            ConversationConflictError: The conversation has changed since `base`; nothing was saved.
        """
        ...


class ManagedStore(Protocol):
    """A store whose conversations can be listed and deleted."""

    def ids(self) -> list[str] | Awaitable[list[str]]:
        """The ids of all conversations, sorted."""
        ...

    def delete(self, id: str, /) -> Awaitable[None] | None:
        """Forget the conversation; that it is not there is no error."""
