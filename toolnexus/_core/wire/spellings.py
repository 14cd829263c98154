"""What the transcript of a run looks like in a provider's style, remembered from one request to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import is_
from typing import Generic, TypeVar

from ...messages import Message

S = TypeVar("S")
T = TypeVar("T")


class Spellings(Generic[T]):
    """Spells a transcript that grows: what was in the request before is not spelled again."""

    def __init__(self) -> None:
        self._origin: str | None = None
        self._messages: Sequence[Message] = ()
        self._spelled: list[T] = []
        self.taken: set[str] = set()
        """For ids that `spell` gave out and must not give out again."""

    def of(
        self, messages: Iterable[Message], origin: str | None, spell: Callable[[Sequence[Message]], list[T]]
    ) -> list[T]:
        """What `spell` makes of `messages` for `origin`; not to be changed, it is given out again.

        `spell` is given whole turns: what it makes of two in a row is what it makes of the one and of the other.
        """
        given, known = list(messages), len(self._messages)
        # The same objects, since Python takes 1 and True for equal; and results belong to the message before them.
        goes_on = origin == self._origin and len(given) >= known and all(map(is_, self._messages, given))
        if not goes_on or (len(given) > known and given[known].role == "tool"):
            self._spelled, known = [], 0
            self.taken.clear()
        self._spelled = [*self._spelled, *spell(given[known:])]
        self._origin, self._messages = origin, given
        return self._spelled


class Spelling(Generic[S, T]):
    """Spells what is the same in most requests of a run, such as its tools, when another one comes."""

    def __init__(self, spell: Callable[[S], T]) -> None:
        self._spell = spell
        self._latest: tuple[S, T] | None = None

    def of(self, value: S) -> T:
        """What `value` looks like; not to be changed, it is given out again."""
        if self._latest is None or self._latest[0] is not value:
            self._latest = value, self._spell(value)
        return self._latest[1]
