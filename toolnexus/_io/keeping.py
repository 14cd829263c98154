"""A run's own view of the conversation that it goes on with: where it is kept, and how it was there last."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from functools import partial
from typing import Any, cast

from ..errors import StoreError, ToolnexusError
from ..messages import Message
from ..stores import Keep, MemoryStore, RevisionedStore, Snapshot
from .hooking import Step


class Kept:
    """Loads one conversation and saves it, in no particular world: each method yields what is to be called.

    A store with revisions is told which one a save builds on; any other one has to know that by itself.
    """

    def __init__(self, keep: Keep) -> None:
        self._id = keep.id
        self._store = keep.store
        self._revisioned = cast(RevisionedStore, keep.store) if _has_revisions(keep.store) else None
        self._last: Snapshot | None = None
        self.is_quick = type(keep.store) is MemoryStore
        """Whether the store is known to wait for neither disk nor network."""

    def load(self) -> Generator[Step, Any, Sequence[Message] | None]:
        """The transcript; `None` if there is none.

        Raises:
            StoreError: It could not be loaded.
        """
        with _store_errors(self._id, "loaded"):
            if self._revisioned is None:
                return _transcript("get", (yield self._store.get, self._id))
            loaded = _snapshot("load", (yield self._revisioned.load, self._id))
            self._last = loaded
            return _transcript("load", loaded.messages)

    def save(self, messages: Sequence[Message]) -> Generator[Step, Any, None]:
        """Put `messages` in the place of what was loaded or saved before.

        Raises:
            StoreError: They could not be saved; `ConversationConflictError` if somebody else saved meanwhile.
        """
        with _store_errors(self._id, "saved"):
            if self._revisioned is None or self._last is None:
                yield partial(self._store.save, self._id), messages
            else:
                committed = yield partial(self._revisioned.commit, self._id, self._last), messages
                self._last = _snapshot("commit", committed)


def _has_revisions(store: object) -> bool:
    """Whether `load` and `commit` are what the store means: one that overrides `get` or `save` alone means those."""
    places = [getattr(store, "__dict__", {}), *map(vars, type(store).__mro__)]
    found = [next((i for i, place in enumerate(places) if name in place), None) for name in ("load", "commit")]
    if None in found:
        return False
    plain = [i for i, place in enumerate(places) if "get" in place or "save" in place]
    return max(i for i in found if i is not None) <= min(plain)


def _transcript(method: str, given: object) -> Sequence[Message] | None:
    """What a store gave, if it is a transcript: one of a user's own may have given the JSON that it keeps."""
    if given is None:
        return None
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise TypeError(f"{method}() gave {type(given).__name__}, not a list of Message")
    wrong = next((at for at, message in enumerate(given) if not isinstance(message, Message)), None)
    if wrong is not None:
        raise TypeError(f"{method}() gave a list with {type(given[wrong]).__name__} at {wrong}, not a Message")
    return given


def _snapshot(method: str, given: object) -> Snapshot:
    """What a store gave, if the next save can build on it; else that save would be one without a revision."""
    if not isinstance(given, Snapshot):
        raise TypeError(f"{method}() gave {type(given).__name__}, not a Snapshot")
    return given


@contextlib.contextmanager
def _store_errors(id: str, done: str) -> Generator[None, None, None]:
    """A store may fail as it likes; the caller gets a `StoreError`."""
    try:
        yield
    except ToolnexusError:
        raise
    except Exception as error:
        raise StoreError(f"conversation {id!r} could not be {done}: {type(error).__name__}: {error}") from error
