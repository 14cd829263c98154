"""One HTTP exchange over a connection of its own, to an address that was checked: all the waiting of HTTP tools.

A tool's requests are few and far between, so no connection is kept. That leaves nothing to close, works from any
event loop, and a task that is cancelled anywhere drops its socket at once. The name is resolved once, and the
addresses that came are the ones that are judged and connected to: a name server that answers differently a moment
later is not asked again. Redirects are not followed, and proxies of the environment are not used: behind one,
somebody else would resolve the name.

h11 does the framing. httpx is asked for the certificates only, so that a tool trusts what the clients trust.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import zlib
from collections.abc import AsyncGenerator, Sequence
from functools import cache
from typing import Any

import h11

from .addresses import Address, AddressPolicy, parse_host
from .http_messages import HTTPReply, HTTPRequest
from .misfits import clip

_ATTEMPT_S = 5.0
"""How long one address of several may take to answer before the next one is tried."""
_READ_BYTES = 64 * 1024
_HEAD_BYTES = 64 * 1024
"""Status line and headers of a reply."""


class ExchangeError(Exception):
    """No whole reply came; the message is for the model, and says nothing about the machine's own network."""


async def exchange(request: HTTPRequest, policy: AddressPolicy, *, timeout: float, max_bytes: int) -> HTTPReply:
    """Send `request` and read the reply, whatever its status.

    Args:
        request: What to send.
        policy: Which addresses it may go to.
        timeout: Seconds for the whole of it.
        max_bytes: How much of the body is kept, after decompression; the rest is not read.

    Raises:
        ExchangeError: No whole reply came in time, or it may not go there.
    """
    try:
        async with asyncio.timeout(timeout):
            addresses = await _resolve(request, policy)
            async with _connection(request, addresses) as (reader, writer):
                return await _converse(request, reader, writer, max_bytes)
    except TimeoutError:
        raise ExchangeError(f"no whole reply from {request.authority} within {timeout:g} s") from None
    except h11.RemoteProtocolError as error:
        raise ExchangeError(f"{request.authority} did not answer in HTTP: {clip(str(error))}") from None
    except OSError as error:
        raise ExchangeError(f"no reply from {request.authority}: {clip(str(error))}") from None


async def _resolve(request: HTTPRequest, policy: AddressPolicy) -> Sequence[Address]:
    host = parse_host(request.host)
    if not isinstance(host, str):
        found: list[Address] = [host]
    else:
        try:
            entries = await asyncio.get_running_loop().getaddrinfo(host, request.port, type=socket.SOCK_STREAM)
        except OSError:
            raise ExchangeError(f"the host {host!r} is not known") from None
        found = list(dict.fromkeys(_address(entry[4]) for entry in entries))
    refusals = [policy.refusal(address) for address in found]
    allowed = [address for address, refusal in zip(found, refusals, strict=True) if refusal is None]
    if not allowed:
        # Not which address: that would tell the model about names inside of the network.
        why = ", ".join(sorted({refusal for refusal in refusals if refusal is not None}))
        raise ExchangeError(f"the host {request.host!r} must not be connected to: its address is not public ({why})")
    return allowed


def _address(entry: Any) -> Address:  # Any: the tuple of either family
    parsed = parse_host(f"[{entry[0].partition('%')[0]}]" if ":" in entry[0] else entry[0])
    assert not isinstance(parsed, str)
    return parsed


@contextlib.asynccontextmanager
async def _connection(
    request: HTTPRequest, addresses: Sequence[Address]
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """The first of `addresses` that answers, encrypted where the scheme says so."""
    loop = asyncio.get_running_loop()
    context = ssl_context() if request.scheme == "https" else None
    sock = await _connect(request, addresses)
    reader = asyncio.StreamReader(limit=_READ_BYTES)
    protocol = asyncio.StreamReaderProtocol(reader)
    try:
        # The certificate must be the host's, whichever of its addresses this is.
        transport, _ = await loop.create_connection(
            lambda: protocol, sock=sock, ssl=context, server_hostname=request.host.strip("[]") if context else None
        )
    except BaseException:
        sock.close()
        raise
    try:
        yield reader, asyncio.StreamWriter(transport, protocol, reader, loop)
    finally:
        transport.abort()  # waits for nothing, so no cancel can come between


async def _connect(request: HTTPRequest, addresses: Sequence[Address]) -> socket.socket:
    failure = "no address answered"
    for place, address in enumerate(addresses, 1):
        sock = socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            async with asyncio.timeout(_ATTEMPT_S if place < len(addresses) else None):
                await asyncio.get_running_loop().sock_connect(sock, (str(address), request.port))
            return sock
        except OSError as error:  # TimeoutError is one, and says nothing when it is ours
            sock.close()
            failure = str(error) or f"no answer within {_ATTEMPT_S:g} s"
        except BaseException:
            sock.close()
            raise
    raise ExchangeError(f"cannot connect to {request.authority}: {failure}")


async def _converse(
    request: HTTPRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, max_bytes: int
) -> HTTPReply:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)
    body = request.body or b""
    headers = [("host", request.authority), ("connection", "close"), *request.headers]
    if body or request.method in ("POST", "PUT", "PATCH"):  # RFC 9110, section 8.6: those should say 0, too
        headers.append(("content-length", str(len(body))))
    head = h11.Request(method=request.method, target=request.target, headers=headers)
    for part in (head, *([h11.Data(data=body)] if body else []), h11.EndOfMessage()):
        # Not drained: a server that refuses the body early answers before it has read it.
        writer.write(connection.send(part) or b"")
    reply: h11.Response | None = None
    content = _Content(max_bytes)
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_READ_BYTES))
        elif isinstance(event, h11.Response):
            reply = event
            content.decode_with(_joined(event.headers).get("content-encoding", "identity"))
        elif isinstance(event, h11.Data):
            if not content.add(bytes(event.data)):
                break
        elif not isinstance(event, h11.InformationalResponse):
            content.end()
            break
    assert reply is not None  # h11 raises where a connection ends before its response
    return HTTPReply(
        status=reply.status_code,
        headers=_joined(reply.headers),
        body=bytes(content.kept),
        is_cut=content.is_cut,
        url=request.url,
    )


def _joined(headers: Any) -> dict[str, str]:  # Any: h11's own sequence of pairs
    joined: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("ascii").lower(), raw_value.decode("latin-1")
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


class _Content:
    """The body of a reply, decompressed as it comes and never beyond its bound: a bomb is cut like any long body."""

    def __init__(self, max_bytes: int) -> None:
        self.kept = bytearray()
        self.is_cut = False
        self._max_bytes = max_bytes
        self._inflate: Any = None  # Any: zlib's type has no public name

    def decode_with(self, coding: str) -> None:
        coding = coding.strip().lower()
        if coding in ("gzip", "x-gzip", "deflate"):
            self._inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # gzip or zlib, whichever it is
        elif coding not in ("", "identity"):
            raise ExchangeError(f"the reply is compressed as {clip(repr(coding), 60)}, which was not asked for")

    def add(self, data: bytes) -> bool:
        """Take in more of the body; returns whether any more is wanted."""
        room = self._max_bytes - len(self.kept)
        if self._inflate is not None:
            try:
                data = self._inflate.decompress(data, room + 1)
            except zlib.error as error:
                raise ExchangeError(f"the reply cannot be decompressed: {error}") from None
        self.is_cut = len(data) > room
        self.kept += data[:room]
        return not self.is_cut

    def end(self) -> None:
        if self._inflate is not None and not self._inflate.eof and self.kept:
            raise ExchangeError("the reply ended in the middle of its compressed body")


@cache
def ssl_context() -> ssl.SSLContext:
    """One context for all tools, made when the first one needs it: loading the certificates takes 20 ms."""
    import httpx

    return httpx.create_ssl_context()
