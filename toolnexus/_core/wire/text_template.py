"""The payload of a text delta, known but for its text.

In a row of text deltas a server sends the same bytes around each piece of text. Once one such payload has been read as
JSON, those that differ from it in the inside of that one string mean the same with another text: nothing in them needs
to be read again. It saves two thirds of what a delta costs (see docs/performance.md).
"""

from __future__ import annotations

import re

_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
"""The inside of a JSON string that stands for itself (RFC 8259, section 7)."""
_NONE = b"\xff"  # no JSON text begins so
_MAX_IN_VAIN = 4


class TextTemplate:
    """Whoever reads the payloads teaches it, and forgets it as soon as anything else comes than a text delta."""

    def __init__(self) -> None:
        self._head = self._tail = _NONE
        self._size = 0
        self._is_used = True
        self._in_vain = 0

    def text(self, data: bytes) -> str | None:
        """The text of a payload that is like the one that was learnt; `None` if it must be read."""
        if data.startswith(self._head) and data.endswith(self._tail) and len(data) >= self._size:
            inside = data[len(self._head) : len(data) - len(self._tail)]
            if _PLAIN.fullmatch(inside):
                try:
                    text = inside.decode()
                except UnicodeDecodeError:
                    return None
                self._is_used = True
                return text
        return None

    def learn(self, data: bytes, text: str) -> None:
        """Take `data` for an example: if it came again, its `text` would be all that it adds."""
        if not self._is_used:
            self._in_vain += 1
        # A server whose payloads all differ (in a time, in random padding) is not tried for ever.
        if self._in_vain >= _MAX_IN_VAIN:
            return
        try:
            source = data.decode()
        except UnicodeDecodeError:
            return
        # In plain UTF-8 without a backslash a string is spelled as it was read. Found once, it is found where it
        # stands; not so a text like ":", which two other strings enclose as well.
        place = source.find(f'"{text}"')
        if "\\" not in source and place == source.rfind(f'"{text}"') >= 0:
            self._head = source[: place + 1].encode()
            self._tail = data[len(self._head) + len(text.encode()) :]
            self._size = len(self._head) + len(self._tail)
            self._is_used = False

    def forget(self) -> None:
        """Read the next payload, whatever it looks like."""
        self._head = self._tail = _NONE
