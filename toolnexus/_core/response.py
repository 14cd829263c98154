"""A model response that is being read: taken whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ToolnexusError
from ..events import StreamEvent
from .reply import Reply
from .turn import Turn


class Response:
    """What one reply has said so far. What goes wrong behind something said is kept until that was given out."""

    def __init__(self, turn: Turn, reply: Reply) -> None:
        self.turn = turn
        self._reply = reply
        self._given = 0  # events
        self._failure: ToolnexusError | None = None

    @property
    def request_id(self) -> str | None:
        """The provider's id of the request."""
        return self._reply.request_id

    @property
    def wants_bytes(self) -> bool:
        """Whether more of the body is of use."""
        return self._failure is None and self._reply.wants_bytes

    @property
    def shown(self) -> bool:
        """Whether anything of it was shown, so that asking for it again would show it twice."""
        return self._given > 0

    @property
    def progress(self) -> int:
        """How far the model has come: a number that changes with each delta, and with nothing else."""
        return self._given + self.turn.deltas

    def receive(self, data: bytes) -> Sequence[StreamEvent]:
        """Read body bytes, cut anywhere.

        Returns:
            What they tell. What goes wrong behind it is raised by the next call, so that nothing said is lost.
        """
        if self._failure is None:
            try:
                self._reply.receive(data)
            except ToolnexusError as error:
                self._failure = error
        turn = self.turn
        events = turn.events
        if self._failure is not None and not events:
            raise self._failure
        turn.events = []
        self._given += len(events)
        return events

    def check_broken_off(self, error: ToolnexusError) -> None:
        """Raise `error`, which broke off reading, unless this is an end like any other.

        It is, if the answer was complete or there is none: an error status is an answer enough, and a 401 is not tried
        again because its body was cut.
        """
        if not (self.turn.complete or self._reply.is_error):
            raise self._failure or error

    def ended(self) -> list[StreamEvent]:
        """The body is over, or of no more use.

        Returns:
            The rest of what it tells.

        Raises:
            ToolnexusError: It is an error, is no protocol, or is not complete.
        """
        if self._failure is None:
            try:
                self._reply.ended()
            except ToolnexusError as error:
                self._failure = error
        if self._failure is not None:
            raise self._failure
        return self.turn.events
