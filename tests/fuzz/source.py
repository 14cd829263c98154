"""Makes values of bytes, so that whoever has bytes can fuzz: hypothesis, a guided fuzzer, or a random generator.

The same bytes always make the same value; where they are used up, the rest is the simplest there is. This is some
twenty times as fast as strategies that draw each part on their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
Make = Callable[["Source"], Any]

# Mostly what JSON, SSE and UTF-8 have to take care of; halves of pairs, too.
CHARACTERS = 'abcdefgh 0{}[]":,\\/\n\r\t\0\x7f\x85é☕\u2028\ufeff\ud83d\ude00\ud800😀<>'
SCALARS = (None, True, False, 0, 1, -1, 7, 2**63, 10**30, -1.5, 1e300, "", "{}", "error", "²", "1")


class Source:
    """Reads choices from bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_empty(self) -> bool:
        """Whether all further choices are the simplest."""
        return self._at >= len(self._data)

    def below(self, bound: int) -> int:
        """A number from 0 up to, and without, `bound`, which is at most 256."""
        if self._at >= len(self._data):
            return 0
        self._at += 1
        return self._data[self._at - 1] % bound

    def pick(self, values: Sequence[T]) -> T:
        return values[self.below(len(values))]

    def raw(self, most: int) -> bytes:
        """Bytes as they are."""
        size = self.below(most + 1)
        self._at += size
        return self._data[self._at - size : self._at]

    def many(self, make: Callable[[Source], T], most: int) -> list[T]:
        return [make(self) for _ in range(self.below(most + 1))]

    def text(self) -> str:
        return "".join(self.many(lambda source: source.pick(CHARACTERS), 7))

    def anything(self, members: Sequence[str], depth: int = 3) -> Any:
        """Any JSON; the names of its members are often some that mean something."""
        kind = self.below(8 if depth else 5)
        if kind < 4:
            return self.pick(SCALARS)
        if kind == 4:
            return self.text()
        if kind == 5:
            return [self.anything(members, depth - 1) for _ in range(self.below(4))]
        return {
            (self.pick(members) if self.below(4) else self.text()): self.anything(members, depth - 1)
            for _ in range(self.below(5))
        }

    def some(self, members: Sequence[str], **makers: Make) -> dict[str, Any]:
        """An object with most of these members, nearly always as they should be."""
        return {
            name: self.anything(members) if not self.below(12) else make(self)
            for name, make in makers.items()
            if self.below(4)
        }

    def cut(self, data: bytes) -> list[bytes]:
        """The bytes, in some pieces."""
        ends = sorted(self.below(256) * len(data) // 255 for _ in range(self.below(4)))
        return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]
