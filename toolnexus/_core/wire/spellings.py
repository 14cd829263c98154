"""What the messages of a run look like in a provider's style, remembered from one request to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from ...messages import Message

T = TypeVar("T")


class Spellings(Generic[T]):
    """Spells each message once: all but the last few of a request were in the one before."""

    def __init__(self) -> None:
        self._origin: str | None = None
        self._known: dict[int, tuple[Message, T]] = {}
        """Those of the latest request, by `id`, since a message has no hash; held here, so that it stays its own."""

    def of(self, messages: Iterable[Message], origin: str | None, spell: Callable[[Message], T]) -> list[T]:
        """What `spell` makes of each message for `origin`; not to be changed, it is given out again."""
        before = self._known if origin == self._origin else {}
        now: dict[int, tuple[Message, T]] = {}
        out: list[T] = []
        for message in messages:
            entry = before.get(id(message))
            if entry is None or entry[0] is not message:  # the second where the run was copied
                entry = (message, spell(message))
            now[id(message)] = entry
            out.append(entry[1])
        self._origin, self._known = origin, now
        return out
