"""Wire formats: how one provider's style spells a request, and what its payloads mean.

A format is a `Wire`. It says nothing about the loop: whether a response is complete, whether a call may
run, whether a transcript is balanced is decided once, for all formats, in the rest of the core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..commands import ModelRequest
    from ..sse import ServerSentEvent
    from ..turn import Turn
    from .delta_template import DeltaTemplate


class Reader(Protocol):
    """Reads one response into a `Turn`; made anew for each."""

    template: DeltaTemplate
    """What the reader knows of the events that are coming."""

    def event_received(self, event: ServerSentEvent) -> None:
        """Read one event of a streamed response."""

    def reply_received(self, payload: dict[str, Any]) -> None:
        """Read a whole response that was not streamed."""


class Wire(Protocol):
    """One style of API; each run has its own."""

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """The JSON body of a request."""
        ...

    def reader(self, turn: Turn) -> Reader:
        """A reader that reports to `turn`."""
        ...
