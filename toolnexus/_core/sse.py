"""Server-sent events from bytes.

Not here: what an event means (`wire`), and whether a body is an event stream at all (`reply`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import ProtocolError
from ..limits import Limits

_BOM = b"\xef\xbb\xbf"
_MAX_RETRY_DIGITS = 4300  # what int() takes


@dataclass(slots=True)
class ServerSentEvent:
    """One dispatched event; `data` is left as bytes, for the JSON reader."""

    data: bytes
    type: str = "message"
    id: str = ""


class SSEDecoder:
    """Decodes an event stream that arrives in pieces, cut anywhere.

    Source: WHATWG HTML, section 9.2.6 "Interpreting an event stream", followed to the letter, `retry`
    and `id` included although nothing here reconnects. Lines end at CR, LF or CRLF and nowhere else: not
    at U+2028 and its like, which JSON may hold unescaped.
    """

    def __init__(self, limits: Limits) -> None:
        self.last_event_id = ""
        self.retry: int | None = None
        """Milliseconds."""
        self._max_line = limits.line_bytes
        self._max_event = limits.event_bytes
        self._line: list[bytes] = []  # the unfinished line, in pieces: adding them up each time would be quadratic
        self._line_size = 0
        self._skip_lf = False  # the last byte was a CR that ended a line; a LF now belongs to it
        self._at_start = True
        self._data: list[bytes] = []
        self._data_size = 0
        self._type = ""
        self._id = ""
        self.is_between_events = False
        """Whether what comes next is the first byte of an event."""

    def receive(self, data: bytes) -> Iterator[ServerSentEvent]:
        """Decode the next bytes of the stream.

        Args:
            data: Raw body bytes after content decoding; `b""` changes nothing.

        Returns:
            The events that these bytes complete, in order, decoded as they are taken; often none. At the end of the
            body an event without its blank line is dropped, as the standard says, so there is nothing to call then.

        Raises:
            ProtocolError: A line or an event is larger than `Limits` allows; what came before it was given out.
        """
        if self._skip_lf and data:
            self._skip_lf = False
            if data[:1] == b"\n":
                data = data[1:]
        if data[-1:] == b"\r":
            self._skip_lf = True
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in data:
            self._hold(data)
            self.is_between_events = self._is_between_events()
            return
        lines = data.split(b"\n")
        if self._line or self._at_start:
            self._hold(lines[0])  # the first line counts with its byte order mark, however it is cut
            lines[0] = b"".join(self._line)
            self._line.clear()
            self._line_size = 0
        if self._at_start:
            self._at_start = False
            # The standard drops one byte order mark, at the very start.
            lines[0] = lines[0].removeprefix(_BOM)
        rest = lines.pop()
        for line in lines:
            if len(line) > self._max_line:
                raise self._too_large("line", self._max_line)
            if line[:6] == b"data: ":  # the two kinds of line that nearly every event is made of
                self._append(line[6:])
            elif line[:7] == b"event: ":
                self._type = line[7:].decode("utf-8", "replace")
            elif line:
                self._field(line)
            elif self._data:
                yield self._dispatched()
            else:
                self.last_event_id, self._type = self._id, ""
        self._hold(rest)
        self.is_between_events = self._is_between_events()

    def _is_between_events(self) -> bool:
        return not (
            self._line or self._data or self._type or self._skip_lf or self._at_start or self._id != self.last_event_id
        )

    def _hold(self, piece: bytes) -> None:
        if piece:
            self._line.append(piece)
            self._line_size += len(piece)
            if self._line_size > self._max_line:
                raise self._too_large("line", self._max_line)

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._append(value)
            case b"event":
                self._type = value.decode("utf-8", "replace")
            case b"id":
                if b"\0" not in value:
                    self._id = value.decode("utf-8", "replace")
            case b"retry":
                if value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:  # isdigit() of bytes: ASCII digits only
                    self.retry = int(value)
            case _:  # a comment has the empty name; other names are ignored
                pass

    def _append(self, value: bytes) -> None:
        self._data.append(value)
        self._data_size += len(value) + 1
        if self._data_size > self._max_event:
            raise self._too_large("event", self._max_event)

    def _dispatched(self) -> ServerSentEvent:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        event = ServerSentEvent(data, self._type or "message", self._id)
        self._data.clear()
        self._data_size = 0
        self.last_event_id, self._type = self._id, ""
        return event

    @staticmethod
    def _too_large(what: str, limit: int) -> ProtocolError:
        return ProtocolError(f"one {what} of the stream exceeds {limit} bytes (Limits.{what}_bytes)")
