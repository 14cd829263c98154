"""Between a connection's bytes and h11: small HTTP chunks are joined before h11 would make an event of each.

h11 takes about 7 µs for each HTTP chunk, and most servers send one for each token. So the plain middle of a chunked
body is taken apart here. All the rest is h11's: heads, bodies of other kinds, chunk extensions, the last chunk and
its trailers, the end of the connection, and whatever is no HTTP. The two meet only where h11 is between two chunks
and has nothing in its buffer, so h11 sees a shorter body, and judges it as it would the whole.

No I/O here; `sync_network` and `async_network` use it.
"""

from __future__ import annotations

import re
from functools import lru_cache

from . import faults

_BLANK_LINE = re.compile(rb"\n\r?\n")  # how h11 finds the end of a head
_PLAIN_SIZE = re.compile(rb"[0-9a-fA-F]+")
_SIZE_LINE = 18
"""Bytes of a size line that we read: 16 digits and CRLF."""


class Inflow:
    """Cuts what a connection sends, so that h11 gets no byte of a body together with the head."""

    def __init__(self) -> None:
        self.held = b""
        """Bytes that came and were given to nobody yet; they go before what is read next."""
        self._in_head = True
        self._last = b""

    def head_expected(self) -> None:
        """A request is sent: what comes next is a head."""
        self._in_head, self._last = True, b""

    def body_expected(self) -> None:
        """h11 has read the head."""
        self._in_head = False

    def take(self, data: bytes) -> bytes:
        """What may be given on now of the next bytes; the rest is held."""
        if not self._in_head:
            return data
        known = len(self._last)
        blank = _BLANK_LINE.search(self._last + data)
        if blank is None:
            self._last = (self._last + data)[-2:]
            return data
        self._last = b""
        self.held = data[blank.end() - known :]
        return data[: blank.end() - known]


class Chunks:
    """The plain chunks of one body, joined; once `is_over`, the rest of the body is for h11.

    Source: RFC 9112, section 7.1. Narrower than that and than h11: of a chunk whose size line is more than up to
    16 digits, nothing is read here.
    """

    def __init__(self) -> None:
        self.is_over = False
        self.rest = b""
        """What has come and is for h11: from the size line of a chunk on."""
        self.error: faults.RemoteProtocolError | None = None
        """What is wrong behind the data received so far."""
        self._left = 0  # bytes of the current chunk that are still to come
        self._needs_footer = False

    def receive(self, data: bytes) -> bytes:
        """The data in the next bytes of the body; often several chunks, sometimes nothing."""
        if self.rest:
            data = self.rest + data
        pieces: list[bytes] = []
        at = 0
        while True:
            if self._left or self._needs_footer:
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                self._needs_footer = True
                footer = data[at : at + 2]
                if self._left or (len(footer) < 2 and b"\r\n".startswith(footer)):
                    break
                if footer != b"\r\n":
                    self.is_over = True
                    self.error = faults.RemoteProtocolError(f"malformed chunk footer: {footer!r} (expected b'\\r\\n')")
                    break
                self._needs_footer = False
                at += 2
            end = data.find(b"\r\n", at, at + _SIZE_LINE)
            if end < 0:
                self.is_over = len(data) - at >= _SIZE_LINE
                break
            size = _plain_size(data[at:end])
            if not size:
                self.is_over = True
                break
            stop = end + 2 + size
            if data[stop : stop + 2] == b"\r\n":  # nearly always
                pieces.append(data[end + 2 : stop])
                at = stop + 2
            else:
                self._left = size
                at = end + 2
        self.rest = data[at:]
        return b"".join(pieces)


@lru_cache(maxsize=4096)  # the sizes of tokens are few
def _plain_size(line: bytes) -> int:
    """The size of a chunk; 0 for the last one and for whatever is not just a number."""
    return int(line, 16) if _PLAIN_SIZE.fullmatch(line) else 0
