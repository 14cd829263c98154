"""The event of a delta, known but for the text that it brings.

In a row of deltas a server sends the same bytes around each piece of text, of thinking or of a call's arguments. Once
one such event has been read as JSON, those that differ from it in the inside of that one string mean the same with
another text: neither their lines nor their JSON need to be read again. It saves three quarters of what a delta costs
(see docs/performance.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic_core import from_json

from ...errors import ProtocolError
from ..payload import parse_payload
from ..sse import ServerSentEvent

_NOT_ITSELF = re.compile(rb"[\\\x00-\x1f]")
"""What keeps the inside of a JSON string from standing for itself (RFC 8259, section 7)."""
_ENDS_OR_ESCAPES = re.compile(rb'["\\\x00-\x1f]')
_PROBE = "probe"
_MAX_IN_VAIN = 4


@dataclass(frozen=True, slots=True)
class SoleDelta:
    """All that a payload brings: if it came again, it would add this text once more and nothing else."""

    member: str
    """The name under which the text stands."""
    text: str
    take: Callable[[str], object]
    """What is to be told of such a text."""


class DeltaTemplate:
    """Whoever reads the events teaches it, and forgets it as soon as one comes that brings anything else."""

    def __init__(self) -> None:
        self._head = self._tail = b""
        self.take: Callable[[str], object] = str
        """What is to be told of each of `texts`."""
        self._is_used = True
        self._in_vain = 0

    @property
    def may_help(self) -> bool:
        """Whether there is a template, or may soon be one."""
        return self._in_vain < _MAX_IN_VAIN

    def sole_text(self, data: bytes, max_bytes: int) -> str | None:
        """The text of the one event that `data` is, if that is like the one that was learnt, and plainly spelled.

        It is what `texts` would find, found faster: many a server sends each event by itself.
        """
        head, tail = self._head, self._tail
        if not head or not data.startswith(head) or not data.endswith(tail):
            return None
        size = len(data)
        start, end = len(head), size - len(tail)
        if start > end or size > max_bytes:
            return None
        inside = data[start:end]
        if _ENDS_OR_ESCAPES.search(inside):
            return None
        try:
            text = inside.decode()
        except UnicodeDecodeError:
            return None
        self._is_used = True
        return text

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
            has_quote = not data.startswith(tail, end)
            if has_quote:  # an escaped one; the string ends where the event does
                end = data.find(b"\n\n", start) + 2 - len(tail)
                if end < start or not data.startswith(tail, end):
                    break
            if end + len(tail) - at > max_bytes:
                break
            inside = data[start:end]
            try:  # the JSON reader refuses an inside that is none, such as one that ends the string early
                is_plain = not (has_quote or _NOT_ITSELF.search(inside))
                texts.append(inside.decode() if is_plain else from_json(b'"%b"' % inside))
            except ValueError:
                break
            at = end + len(tail)
        self._is_used = self._is_used or bool(texts)
        return texts, at

    def learn(
        self, event: ServerSentEvent, payload: dict[str, Any], sole_delta: Callable[[dict[str, Any]], SoleDelta | None]
    ) -> None:
        """Take `event`, which was read as `payload`, for an example, if it brings a sole delta; else forget."""
        self._head = b""
        if not self.may_help:
            return
        delta, data = sole_delta(payload), event.data
        if delta is None or b"\n" in data:  # the latter: its data has several lines
            return
        if delta.text in ("", _PROBE):  # of one that brings the probe, any place would seem to be the one
            return
        places = [match.span(1) for match in _string_of(delta.member).finditer(data)]
        if not places:
            return
        before, after = data[: places[-1][0]], data[places[-1][1] :]
        # It is the place if the reader finds there what we put there.
        try:
            probed = sole_delta(parse_payload(before + _PROBE.encode() + after))
        except ProtocolError:
            return
        if probed is None or probed.text != _PROBE:
            return
        if not self._is_used:  # a server whose events all differ (in a time, in padding) is not tried for ever
            self._in_vain += 1
        self._is_used = False
        name = "" if event.type == "message" else f"event: {event.type}\n"
        self._head = name.encode() + b"data: " + before
        self._tail = after + b"\n\n"
        self.take = delta.take

    def forget(self) -> None:
        """Read the next event, whatever it looks like."""
        self._head = b""


@cache
def _string_of(member: str) -> re.Pattern[bytes]:
    """Finds what looks like a string under this name; the first group is its inside."""
    # Possessive, here and in `payload`: the matcher would keep a way back for each character, 130 bytes of them.
    return re.compile(rb'"%b"\s*:\s*"([^"\\]*+(?:\\.[^"\\]*+)*+)"' % member.encode())
