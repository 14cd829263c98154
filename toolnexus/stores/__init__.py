"""Where conversations are kept between runs."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ConfigurationError
from .memory import MemoryStore
from .protocols import ConversationStore, ManagedStore, RevisionedStore, Snapshot

__all__ = ["ConversationStore", "ManagedStore", "MemoryStore", "RevisionedStore", "Snapshot", "check_store"]


@dataclass(frozen=True, slots=True)
class Keep:
    """Where one conversation is kept."""

    store: ConversationStore
    id: str


def check_store(store: ConversationStore) -> ConversationStore:
    """Refuse what is no store.

    Raises:
        ConfigurationError: `get` or `save` is missing, or it is the class of a store.
    """
    for name in ("get", "save"):
        if isinstance(store, type) or not callable(getattr(store, name, None)):
            raise ConfigurationError(f"store: expected an object with get() and save(), got {store!r}")
    return store
