"""The tool that reads a web page: `webfetch`."""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import quote, urlsplit

from ...tool import ToolResult
from ..addresses import AddressPolicy, parse_host
from ..http_messages import HTTPReply, HTTPRequest
from ..misfits import clip
from .page import page_text
from .refusal import RefusedError

_PORTS = {"http": 80, "https": 443}
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")
"""What URL parsers drop, or take for something else: two of them must not see two hosts."""
_IN_PATH = "/%:@!$&'()*+,;=~"  # RFC 3986, section 3.3; what is encoded already stays so
_HEADERS = (
    ("accept", "text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.1"),
    ("accept-encoding", "gzip, deflate"),
    ("user-agent", "toolnexus"),
)
_HTML = ("text/html", "application/xhtml+xml")
_ERROR_CHARACTERS = 500


class Web:
    """Reads pages whose URL the model gives; where they may be, the address policy says."""

    def __init__(self, policy: AddressPolicy, *, seconds: float, page_bytes: int, output_bytes: int) -> None:
        self._policy = policy
        self._seconds = seconds
        self._page_bytes = page_bytes
        self._output_bytes = output_bytes

    async def webfetch(self, url: str) -> ToolResult:
        """Read a web page or another text on the web. Of an HTML page the text is shown, without markup.

        Args:
            url: The whole URL, with `https://` or `http://`. A redirect is not followed; it says where it leads.
        """
        from ..exchange import ExchangeError, exchange  # with asyncio and ssl, which take a while to import

        try:
            request = parse_url(url)
            reply = await exchange(request, self._policy, timeout=self._seconds, max_bytes=self._page_bytes)
            result = self._shown(reply)
        except (RefusedError, ExchangeError) as error:
            return ToolResult(str(error), is_error=True)
        return replace(result, metadata={"status": reply.status, "url": reply.url})

    def _shown(self, reply: HTTPReply) -> ToolResult:
        if 300 <= reply.status < 400:
            to = clip(reply.headers.get("location", "nowhere"), _ERROR_CHARACTERS)
            return ToolResult(f"status {reply.status}: the page has moved to {to}", is_error=True)
        if b"\0" in reply.body:
            raise RefusedError(f"status {reply.status}: expected text, got {reply.content_type or 'bytes'}")
        text = page_text(reply.text) if reply.content_type in _HTML else reply.text
        if not 200 <= reply.status < 300:
            return ToolResult(f"status {reply.status}\n{clip(text, _ERROR_CHARACTERS)}".rstrip(), is_error=True)
        data = text.encode("utf-8", "replace")
        if len(data) > self._output_bytes:
            text = data[: self._output_bytes].decode("utf-8", "ignore")
        elif not reply.is_cut:
            return ToolResult(text or "[the page has no text]")
        return ToolResult(f"{text}\n[cut: the page is longer]")


def parse_url(url: str) -> HTTPRequest:
    """The request for a URL that a model gave.

    Raises:
        RefusedError: It is none, or has a part that makes no sense here, such as a user's name.
    """
    shown = clip(repr(url))
    if _UNSAFE.search(url):
        raise RefusedError(f"{shown} is no URL: white space or a backslash in it")
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.netloc.rpartition("@")[2]
        host = host[: host.index("]") + 1] if host.startswith("[") else host.partition(":")[0]
        parse_host(host)
    except ValueError as error:
        raise RefusedError(f"{shown} is no URL: {error}") from None
    if parts.scheme not in _PORTS:
        raise RefusedError(f"{shown}: expected https:// or http://")
    if "@" in parts.netloc:
        raise RefusedError(f"{shown} has a user's name in it, which is not sent")
    path = quote(parts.path or "/", safe=_IN_PATH)
    query = f"?{quote(parts.query, safe=_IN_PATH + '?')}" if parts.query else ""
    return HTTPRequest(
        method="GET",
        scheme=parts.scheme,
        host=host.lower(),
        port=_PORTS[parts.scheme] if port is None else port,
        target=path + query,
        headers=_HEADERS,
    )
