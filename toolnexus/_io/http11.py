"""HTTP/1.1 over one connection of our own, without I/O: h11 writes the request and judges the response.

For connections of our own h11 is asked directly: the objects that httpx and httpcore make on its way take three times
as long as all the rest of a short exchange. `sync_network` and `async_network` move the bytes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import h11

from . import faults

_KEEPALIVE_S = 60.0
"""How long an idle connection is kept; servers and load balancers close theirs after about a minute."""
_MAX_HEAD_BYTES = 100 * 1024
"""Of a response's head, or a trailer; as in httpcore."""
_BODILESS = (204, 304)
_NO_LENGTH = b"0\r\n\r\n"
_END = h11.EndOfMessage()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the requests of a client go, and what stands in the head of each; key and query show in no `repr`."""

    host: str
    port: int
    is_tls: bool
    target: bytes = field(repr=False)
    headers: tuple[tuple[bytes, bytes], ...] = field(repr=False)
    """All but the length of the body."""


class Http11:
    """The exchanges of one connection, one after the other; what is no HTTP raises `faults`."""

    def __init__(self) -> None:
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        self._request: h11.Request | None = None
        """What h11 is told of each request: all but the length of its body, and the body."""
        self._may_go_on = True
        """Whether the latest response has an end: a body that a server sends behind one without would be an answer."""
        self._expires = 0.0

    def request(self, endpoint: Endpoint, body: bytes) -> bytes:
        """Begin an exchange: what to send. After this, `receive`; a connection is for one endpoint."""
        try:
            if self._request is None:  # whose headers are checked once
                headers = [*endpoint.headers, (b"content-length", b"0")]  # the last one, so that it can be replaced
                self._request = h11.Request(method="POST", target=endpoint.target, headers=headers)
            head = self._h11.send(self._request)
            self._h11.send(_END)
        except h11.LocalProtocolError as error:
            raise faults.LocalProtocolError(str(error)) from None
        assert head is not None
        assert head.endswith(_NO_LENGTH)
        return b"%b%d\r\n\r\n%b" % (head[: -len(_NO_LENGTH)], len(body), body)

    def receive(self, data: bytes) -> None:
        """Take the next bytes of the connection; `b""` is its end."""
        if not data and self._h11.their_state is h11.SEND_RESPONSE:
            raise faults.RemoteProtocolError("the server disconnected without sending a response")
        self._h11.receive_data(data)

    def head(self) -> h11.Response | None:
        """The head of the response; `None` if more has to be received first."""
        while (event := self._next_event()) is not h11.NEED_DATA:
            if isinstance(event, h11.Response):  # what comes before it is informational
                self._may_go_on = event.status_code not in _BODILESS
                return event
        return None

    def body(self) -> bytes | None:
        """The next bytes of the body, `b""` at its end; `None` if more has to be received first."""
        event = self._next_event()
        if event is h11.NEED_DATA:
            return None
        return bytes(event.data) if isinstance(event, h11.Data) else b""

    def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            return self._h11.next_event()
        except h11.RemoteProtocolError as error:
            raise faults.RemoteProtocolError(str(error)) from None

    def finish(self) -> bool:
        """End the exchange.

        Returns:
            Whether the connection may be used for another, since nothing is left on it: bytes behind the response
            would be taken for the answer to the next request (RFC 9112, section 9.3: the association is by order).
        """
        is_done = self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE
        if not is_done or self._h11.trailing_data[0] or not self._may_go_on:
            return False
        self._h11.start_next_cycle()
        self._expires = time.monotonic() + _KEEPALIVE_S
        return True

    @property
    def has_expired(self) -> bool:
        """Whether the connection has been idle for too long."""
        return time.monotonic() > self._expires


def headers_of(head: h11.Response) -> dict[str, str]:
    """The headers of a response, by their names in lower case; the values of one that came twice are joined."""
    headers: dict[str, str] = {}
    for name, value in head.headers:  # names come in lower case
        try:
            text = value.decode()
        except UnicodeDecodeError:  # RFC 9110, section 5.5: historically ISO-8859-1
            text = value.decode("iso-8859-1")
        key = name.decode()
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def is_chunked(head: h11.Response) -> bool:
    """Whether h11, which has accepted the head, reads this body as chunked (it takes no other transfer coding).

    Source: RFC 9112, section 6.3, for responses to a POST.
    """
    return head.status_code not in _BODILESS and any(name == b"transfer-encoding" for name, _ in head.headers)
