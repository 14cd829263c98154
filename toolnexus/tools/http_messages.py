"""A request that a tool is about to send, and the reply that came; plain values without any HTTP library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class HTTPRequest:
    """What is sent."""

    method: str
    scheme: str
    host: str
    """As in the URL; an IPv6 address in brackets."""
    port: int
    target: str
    """Path and query, encoded."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    body: bytes | None = field(default=None, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Texts that must not come back in a reply, such as a key that the server repeats in an error."""

    @property
    def authority(self) -> str:
        """Host, and port where it is not the scheme's own."""
        return self.host if self.port == {"http": 80, "https": 443}[self.scheme] else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """Where it goes, without the query."""
        return f"{self.scheme}://{self.authority}{self.target.partition('?')[0]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HTTPReply:
    """What came back, for the function given as `result=`."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case; of a name that comes twice, the values joined by commas."""
    body: bytes = field(repr=False)
    """Decompressed, at most `max_bytes` of it."""
    is_cut: bool = False
    """Whether the body was longer."""
    url: str = ""
    """Where the request went, without the query."""

    @property
    def content_type(self) -> str:
        """The media type, in lower case and without parameters; empty without one."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def text(self) -> str:
        """The body as text, in the character set that the reply names, else UTF-8; what is none becomes U+FFFD."""
        message = Message()
        message["content-type"] = self.headers.get("content-type", "")
        charset = message.get_content_charset("utf-8")
        try:
            return self.body.decode(charset, "replace")
        except (LookupError, ValueError):  # no character set, or a codec that makes no text of bytes
            return self.body.decode("utf-8", "replace")

    def json(self) -> Any:  # Any: JSON
        """The body read as JSON.

        Raises:
            ValueError: It is none, or was cut.
        """
        if self.is_cut:
            raise ValueError(f"the reply is longer than {len(self.body)} bytes")
        return json.loads(self.body)
