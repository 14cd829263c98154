"""Thinking that a model writes into its text, between `<think>` and `</think>`.

Servers without a reasoning parser pass such text on as it is. Only a block at the very start of a response counts:
further on the tag may be what the text is about.
"""

from __future__ import annotations

from enum import Enum, auto

_OPEN, _CLOSE = "<think>", "</think>"


class _Place(Enum):
    START = auto()
    """Nothing but white space and, perhaps, the start of a tag so far."""
    INSIDE = auto()
    BEHIND = auto()
    """The block was closed; line ends before the answer belong to neither."""
    ANSWER = auto()


class ThinkTags:
    """Splits the text of one response; tags may be cut anywhere."""

    def __init__(self) -> None:
        self._place = _Place.START
        self._held = ""

    def split(self, delta: str) -> tuple[str, str]:
        """The thinking and the answer in the next piece of text; what may be part of a tag is held back."""
        thinking = ""
        text = self._held + delta
        self._held = ""
        if self._place is _Place.START:
            start = text.lstrip()
            if start.startswith(_OPEN):
                self._place, text = _Place.INSIDE, start[len(_OPEN) :]
            elif _OPEN.startswith(start):
                self._held = text
                return "", ""
            else:
                self._place = _Place.ANSWER
        if self._place is _Place.INSIDE:
            thinking, closed, text = text.partition(_CLOSE)
            if not closed:
                kept = _length_of_start(thinking, _CLOSE)
                self._held = thinking[len(thinking) - kept :]
                return thinking[: len(thinking) - kept], ""
            self._place = _Place.BEHIND
        if self._place is _Place.BEHIND:
            text = text.lstrip("\r\n")
            if text:
                self._place = _Place.ANSWER
        return thinking, text

    def end(self) -> tuple[str, str]:
        """What is still held back, now that no more will come."""
        held, self._held = self._held, ""
        return (held, "") if self._place is _Place.INSIDE else ("", held)


def _length_of_start(text: str, tag: str) -> int:
    """How many characters at the end of `text` may be the start of `tag`."""
    return next((n for n in range(len(tag) - 1, 0, -1) if text.endswith(tag[:n])), 0)
