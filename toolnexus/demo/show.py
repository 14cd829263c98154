"""Events as lines on a terminal, while they come."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TextIO, assert_never

from toolnexus import (
    DoneEvent,
    PendingEvent,
    ReasoningEvent,
    StreamEvent,
    TextEvent,
    ToolCallEvent,
    ToolResultEvent,
    Usage,
    UsageEvent,
)

_FAINT = "2"
_COLOURS = {
    "you": "1",
    "model": "1;36",
    "call": "33",
    "result": "32",
    "failed": "31",
    "waits": "35",
    "error": "1;31",
    "SCRIPTED": "1;35",
}
"""Of the labels. A line whose label is not among them is faint as a whole: it is neither said nor done."""
_WIDTH = 11  # of the longest label, `incomplete`, and a space
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]+")


def has_colour(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether to colour what is written to `stream`: a terminal that can, and a user who did not say no.

    Source: no-color.org, "when present and not an empty string (regardless of its value)". A terminal without a
    `TERM` is taken for a dumb one.
    """
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM", "dumb") != "dumb"


class Show:
    """Writes each event it is called with; made for `on_event=`.

    Text appears as it comes, on one line with its label; everything else has a line of its own. Control characters
    are left out, so that neither a model nor a tool can steer the terminal.

    Args:
        out: Where to write.
        colour: `None` looks at `out` and the environment.
    """

    def __init__(self, out: TextIO, *, colour: bool | None = None) -> None:
        self._out = out
        self._colour = has_colour(out) if colour is None else colour
        self._open = ""  # the label of the line that is being written

    def __call__(self, event: StreamEvent) -> None:
        match event:
            case TextEvent(delta):
                self._write_on("model", delta)
            case ReasoningEvent(delta):
                self._write_on("thinks", delta)
            case ToolCallEvent(_, name, args):
                self.line("call", f"{name}({', '.join(f'{key}={value!r}' for key, value in args.items())})")
            case ToolResultEvent(_, _, output, is_error):
                self.line("failed" if is_error else "result", output)
            case UsageEvent(usage):
                self.line("usage", _tokens(usage))
            case PendingEvent(request):
                self.line("waits", request.prompt)
            case DoneEvent(result):
                done = f"{_count(result.turns, 'turn')}, {_count(len(result.tool_calls), 'tool call')}"
                self.line(result.status, f"{done}, stopped by {result.limit}" if result.limit else done)
            case _ as unreachable:
                assert_never(unreachable)

    def line(self, label: str, text: str) -> None:
        """Write a line of its own, after what is being written."""
        self._end()
        self._write_on(label, text)
        self._end()

    def _write_on(self, label: str, text: str) -> None:
        if self._open != label:
            self._end()
            self._open = label
            self._out.write(self._painted(_COLOURS.get(label, _FAINT), label.ljust(_WIDTH)))
        text = _CONTROLS.sub("", text).replace("\n", "\n" + " " * _WIDTH)
        self._out.write(text if label in _COLOURS else self._painted(_FAINT, text))
        self._out.flush()

    def _end(self) -> None:
        if self._open:
            self._out.write("\n")
            self._out.flush()
        self._open = ""

    def _painted(self, colour: str, text: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colour else text


def _tokens(usage: Usage) -> str:
    known = {"in": usage.prompt_tokens, "out": usage.completion_tokens, "in all": usage.total_tokens}
    return "tokens: " + (
        ", ".join(f"{count} {name}" for name, count in known.items() if count is not None) or "unknown"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
