"""The event of a text delta, known but for its text.

In a row of text deltas a server sends the same bytes around each piece of text. Once one such event has been read as
JSON, those that differ from it in the inside of that one string mean the same with another text: neither their lines
nor their JSON need to be read again. It saves three quarters of what a delta costs (see docs/performance.md).
"""

from __future__ import annotations

import re

from ..sse import ServerSentEvent

_NOT_ITSELF = re.compile(rb"[\\\x00-\x1f]")
"""What keeps the inside of a JSON string from standing for itself (RFC 8259, section 7)."""
_MAX_IN_VAIN = 4


class TextTemplate:
    """Whoever reads the events teaches it, and forgets it as soon as anything else comes than a text delta."""

    def __init__(self) -> None:
        self._head = self._tail = b""
        self._is_used = True
        self._in_vain = 0

    @property
    def is_known(self) -> bool:
        return bool(self._head)

    def texts(self, data: bytes, at: int, max_bytes: int) -> tuple[list[str], int]:
        """Take the events at `at` in an event stream as long as they are like the one that was learnt.

        Args:
            max_bytes: How large an event may be; a larger one is left to whoever refuses it.

        Returns:
            Their texts, and where the first event begins that must be read.
        """
        texts: list[str] = []
        head, tail = self._head, self._tail
        while head and data.startswith(head, at):
            start = at + len(head)
            end = data.find(b'"', start)
            if not data.startswith(tail, end) or end + len(tail) - at > max_bytes:
                break
            inside = data[start:end]
            if _NOT_ITSELF.search(inside):
                break
            try:
                texts.append(inside.decode())
            except UnicodeDecodeError:
                break
            at = end + len(tail)
        self._is_used = self._is_used or bool(texts)
        return texts, at

    def learn(self, event: ServerSentEvent, text: str) -> None:
        """Take `event` for an example: if it came again, its `text` would be all that it adds."""
        if not text or self._in_vain >= _MAX_IN_VAIN:
            return
        try:
            source = event.data.decode()
        except UnicodeDecodeError:
            return
        # In plain UTF-8 without a backslash a string is spelled as it was read. Found once, it is found where it
        # stands; not so a text like ":", which two other strings enclose as well.
        place = source.find(f'"{text}"')
        if "\\" in source or not 0 <= place == source.rfind(f'"{text}"'):
            return
        if not self._is_used:  # a server whose events all differ (in a time, in padding) is not tried for ever
            self._in_vain += 1
        self._is_used = False
        name = "" if event.type == "message" else f"event: {event.type}\n"
        self._head = f"{name}data: {source[: place + 1]}".encode()
        self._tail = f"{source[place + 1 + len(text) :]}\n\n".encode()

    def forget(self) -> None:
        """Read the next event, whatever it looks like."""
        self._head = b""
