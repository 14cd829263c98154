"""One HTTP reply, from its status line to the last byte we care for.

It decides by status and first bytes what the body is (an event stream, a whole JSON reply, an error) and
feeds the wire reader. The declared content type is not trusted: servers leave it out, name streams
`text/plain`, or put an error object under `text/event-stream`.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import APIStatusError, ProtocolError, StreamInterruptedError
from ..limits import Limits
from .failure import error_for_status, error_in_payload, retry_after
from .payload import check_depth, excerpt, parse_payload
from .sse import SSEDecoder
from .turn import Turn
from .wire import Reader

_BOM = b"\xef\xbb\xbf"


class Reply:
    """The reply to one request."""

    def __init__(
        self, status: int, headers: Mapping[str, str], now: float, reader: Reader, turn: Turn, limits: Limits
    ) -> None:
        """`headers` with names in lower case, `now` in Unix seconds."""
        self.status = status
        self.headers = headers
        self._now = now
        self.request_id = headers.get("x-request-id") or headers.get("request-id")
        self._reader = reader
        self._turn = turn
        self._limits = limits
        self._max_quick = min(limits.line_bytes, limits.event_bytes)
        self._decoder: SSEDecoder | None = None
        self._events = 0
        self._body: list[bytes] = []  # of an error, of a whole reply, or the first bytes before we know
        self._size = 0
        self._is_stream: bool | None = None
        self._is_blank = False
        """Whether all that came so far says nothing, so that it need not be looked at again with each read."""
        self.wants_bytes = True
        """Whether reading on makes sense."""

    @property
    def is_error(self) -> bool:
        """Whether the status alone says that there is no answer, whatever the body may add."""
        return not 200 <= self.status <= 299

    def receive(self, data: bytes) -> None:
        """Read the next bytes of the body.

        Raises:
            APIStatusError: The stream reports an error.
            ProtocolError: This is not what a model sends.
        """
        if self._turn.ended:  # bytes after the end mark are read only to leave the connection clean
            return
        decoder = self._decoder
        if decoder is not None:
            template = self._reader.template
            text = template.sole_text(data, self._max_quick) if decoder.is_between_events else None
            if text is None:
                self._receive_stream(data)
            else:
                template.take(text)
                self._events += 1
            return
        self._body.append(data)
        self._size += len(data)
        if self.is_error:
            self.wants_bytes = self._size < self._limits.error_body_bytes
            return
        if self._is_stream is None:
            self._look(data)
        if not self._is_stream and self._size > self._limits.event_bytes:  # of a stream, each event has its own limit
            raise ProtocolError(f"the reply exceeds {self._limits.event_bytes} bytes (Limits.event_bytes)")

    def ended(self) -> None:
        """The body is over, one way or another; a whole reply is read now.

        Raises:
            APIStatusError: The reply is an error.
            ProtocolError: It is not what a model sends.
            StreamInterruptedError: It ended too early.
        """
        if self.is_error:
            raise self._status_error()
        if self._is_stream is None:
            raise StreamInterruptedError(f"the reply has no body (status {self.status})")
        if not self._is_stream:
            self._read_whole(b"".join(self._body))
        if not self._turn.complete:
            raise StreamInterruptedError(f"the stream ended after {self._events} events, before its end mark")
        self._turn.closed()

    def _look(self, data: bytes) -> None:
        """Tell a stream from a JSON reply by the first byte that says something."""
        if self._is_blank:
            first = data.lstrip()[:1]
        else:
            start = b"".join(self._body)
            if _BOM.startswith(start):
                return
            first = start.removeprefix(_BOM).lstrip()[:1]
        if not first:
            self._is_blank = True
            return
        start = b"".join(self._body)
        if first == b"<":
            raise self._not_a_stream(start)
        self._is_stream = first not in b"{["
        if self._is_stream:
            self._body.clear()
            self._decoder = SSEDecoder(self._limits)
            self._receive_stream(start)

    def _receive_stream(self, data: bytes) -> None:
        decoder, reader, at = self._decoder, self._reader, 0
        assert decoder is not None
        template = reader.template
        while at < len(data) and not self._turn.ended:
            if decoder.is_between_events:
                texts, at = template.texts(data, at, self._max_quick)
                for text in texts:
                    template.take(text)
                self._events += len(texts)
                if at == len(data):
                    return
            # Where a template may be learnt, one event is read, and what follows is held against the template again.
            end = data.find(b"\n\n", at) + 2 if template.may_help else 0
            piece = data[at:end] if end > 1 else data[at:]
            at += len(piece)
            for event in decoder.receive(piece):
                self._events += 1
                reader.event_received(event)
                if self._turn.ended:
                    break

    def _read_whole(self, body: bytes) -> None:
        text = body.decode("utf-8", "replace").strip()
        try:
            payload = parse_payload(text.removeprefix("\ufeff").encode())
        except ProtocolError:
            if _is_cut(text):
                raise StreamInterruptedError(f"the reply ended in the middle, after {len(body)} bytes") from None
            raise self._not_a_stream(body) from None
        error = error_in_payload(payload)
        if error is not None:
            error.status_code, error.request_id = self.status, self.request_id
            raise error
        self._turn.log = None  # nothing was streamed, so there are no chunks
        self._reader.reply_received(payload)

    def _status_error(self) -> APIStatusError:
        if 300 <= self.status <= 399:
            return APIStatusError(
                f"redirected to {self.headers.get('location', '')[:200]!r}; redirects are never followed, "
                "since they would take the key elsewhere: give the final address as base_url",
                status_code=self.status,
                request_id=self.request_id,
            )
        should_retry = {"true": True, "false": False}.get(self.headers.get("x-should-retry", "").lower())
        body = b"".join(self._body)[: self._limits.error_body_bytes]
        return error_for_status(
            self.status,
            body,
            request_id=self.request_id,
            retry_after=retry_after(self.headers, self._now),
            should_retry=should_retry,
        )

    def _not_a_stream(self, body: bytes) -> ProtocolError:
        declared = self.headers.get("content-type", "no content type")
        return ProtocolError(
            f"expected an event stream or a JSON reply, got {declared!r} that begins {excerpt(body)}; "
            "is base_url right?"
        )


def _is_cut(text: str) -> bool:
    try:
        return check_depth(text) > 0
    except ValueError:
        return False
