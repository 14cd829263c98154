"""The content encodings of a body, undone in pieces of bounded size.

httpx undoes a whole read at once: 64 KiB of a gzip bomb are 64 MiB of blanks before any limit is looked at.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Protocol

from ..errors import ProtocolError

_ZLIB_HEAD = 2
"""Bytes; RFC 1950, section 2.2."""
_PIECE = 64 * 1024
"""Bytes of decoded body at a time; as many as one read of a body that is not encoded."""


class Decoder:
    """Decodes a body: `feed` it the next read, then `take` pieces until there are none."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        # RFC 9110, section 8.4.1; a deflate stream comes with zlib's head or, from some servers, without any.
        wbits = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}.get(encoding)
        self._inflate = zlib.decompressobj(wbits) if wbits else None
        self._may_lack_head = encoding == "deflate"
        self._head = b""  # as long as zlib has not seen all of it
        self._waiting = b""

    def feed(self, data: bytes) -> None:
        """The next bytes as they came over the network.

        Raises:
            ProtocolError: We do not read this encoding.
        """
        if self._inflate is None:
            raise ProtocolError(
                "expected a body without content encoding, as was asked for, or in gzip or deflate, "
                f"got {self._encoding!r}"
            )
        self._waiting = data
        if self._may_lack_head:
            self._head += data

    def take(self) -> bytes:
        """The next piece; `b""` if more has to be fed first.

        Raises:
            ProtocolError: The body is not what its head says.
        """
        if self._inflate is None or self._inflate.eof:  # what follows the end is no part of the body
            return b""
        try:
            piece = self._inflate.decompress(self._waiting, _PIECE)
        except zlib.error as error:
            if not self._may_lack_head:
                text = f"the body does not match its content encoding {self._encoding!r}: {error}"
                raise ProtocolError(text) from None
            self._may_lack_head, self._inflate = False, zlib.decompressobj(-zlib.MAX_WBITS)
            self._waiting, self._head = self._head, b""
            return self.take()
        if len(self._head) >= _ZLIB_HEAD:
            self._may_lack_head, self._head = False, b""
        self._waiting = self._inflate.unconsumed_tail
        return piece


class Encoded(Protocol):
    """Of a response, what tells how its body is encoded."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Found by their names in lower case."""
        ...

    @property
    def is_stream_consumed(self) -> bool:
        """Whether httpx has read it."""
        ...


def decoder_for(response: Encoded) -> Decoder | None:
    """What undoes the encoding that a response declares.

    `None` where there is none, or httpx has undone it: a mock's response may have been read before.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    return None if encoding in ("", "identity") or response.is_stream_consumed else Decoder(encoding)
