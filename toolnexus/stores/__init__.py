"""Where conversations are kept between runs."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..errors import ConfigurationError
from ..messages import Message
from .memory import MemoryStore

__all__ = ["ConversationStore", "MemoryStore", "check_store"]


@dataclass(frozen=True, slots=True)
class Keep:
    """Where one conversation is kept."""

    store: ConversationStore
    id: str


class ConversationStore(Protocol):
    """A place for transcripts, by conversation id. Either method may be a coroutine under the async client."""

    def get(self, id: str, /) -> list[Message] | Awaitable[list[Message] | None] | None:
        """The transcript that was last saved under `id`; `None` if there is none."""

    def save(self, id: str, messages: Sequence[Message], /) -> Awaitable[None] | None:
        """Put `messages` in the place of what was saved under `id`."""


def check_store(store: ConversationStore) -> ConversationStore:
    """Refuse what is no store.

    Raises:
        ConfigurationError: `get` or `save` is missing.
    """
    for name in ("get", "save"):
        if not callable(getattr(store, name, None)):
            raise ConfigurationError(f"store: expected an object with get() and save(), got {store!r}")
    return store
