"""Connections of our own, below httpx, for asyncio: cancelled anywhere, they are closed at once and nothing leaks.

httpcore's pool loses a slot for ever when a task is cancelled at the wrong await. Here a connection belongs to one
exchange until its response is closed, and is dropped by `abort()`, which waits for nothing and so cannot be
cancelled itself. The number of connections is not limited.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from functools import partial
from itertools import zip_longest
from typing import Any

import httpcore
import httpx

from .bounds import Patience
from .framing import Chunks, Inflow, is_chunked

_KEEPALIVE_S = 60.0
_ATTEMPT_DELAY_S = 0.25
_HIGH_WATER = 256 * 1024
"""Bytes that may wait to be read before the server is made to wait: a slow consumer slows the reader down."""


class LineProtocol(asyncio.Protocol):
    """Bytes of one connection, on their way from the event loop to whoever reads."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.is_over = False
        """The peer is through, or the connection is lost."""
        self._buffer = bytearray()
        self._error: Exception | None = None
        self._paused = False
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None

    # -- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) > _HIGH_WATER and not self._paused and self.transport is not None:
            self._paused = True
            self.transport.pause_reading()
        _wake(self._reader)

    def eof_received(self) -> bool:
        self.is_over = True
        _wake(self._reader)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True
        self._error = exc
        _wake(self._reader)
        _wake(self._writer)

    def pause_writing(self) -> None:
        self._writer = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        _wake(self._writer)
        self._writer = None

    # -- called by the stream

    @property
    def is_readable(self) -> bool:
        return bool(self._buffer) or self.is_over

    async def read(self, max_bytes: int, timeout: float | None) -> bytes:
        if not self.is_readable:
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await _wait(self._reader, timeout, httpcore.ReadTimeout)
            finally:
                self._reader = None
        if self._buffer:
            data = bytes(self._buffer[:max_bytes])
            del self._buffer[:max_bytes]
            if self._paused and len(self._buffer) <= _HIGH_WATER // 2 and self.transport is not None:
                self._paused = False
                self.transport.resume_reading()
            return data
        if self._error is not None:
            raise httpcore.ReadError(str(self._error)) from None
        return b""

    async def write(self, data: bytes, timeout: float | None) -> None:
        if self.transport is None or self.transport.is_closing():
            raise httpcore.WriteError("the connection is closed")
        self.transport.write(data)
        if self._writer is not None:
            await _wait(self._writer, timeout, httpcore.WriteTimeout)
            if self._error is not None:
                raise httpcore.WriteError(str(self._error)) from None


def _wake(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)


async def _wait(future: asyncio.Future[None], timeout: float | None, error: type[Exception]) -> None:
    """Wait for `future`, without a task: this is on the path of every read."""
    if timeout is None:
        await future
        return

    def too_late() -> None:
        if not future.done():
            future.set_exception(error())

    handle = future.get_loop().call_later(timeout, too_late)
    try:
        await future
    finally:
        handle.cancel()


async def _connect_first(host: str, port: int) -> socket.socket:
    """Connect to the first address that answers; while one is silent the next is tried as well.

    `loop.create_connection` does the same, but loses a connected socket when it is cancelled at the wrong moment.

    Source: RFC 8305, section 5; the delay is its "Connection Attempt Delay".
    """
    loop = asyncio.get_running_loop()
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    same, other = [f for f in found if f[0] == found[0][0]], [f for f in found if f[0] != found[0][0]]
    addresses = [address for pair in zip_longest(same, other) for address in pair if address is not None]
    attempts: dict[asyncio.Future[None], socket.socket] = {}
    winner: socket.socket | None = None
    failure: BaseException = OSError(f"{host!r} has no address")
    try:
        while winner is None and (addresses or any(not attempt.done() for attempt in attempts)):
            if addresses:
                family, kind, proto, _, address = addresses.pop(0)
                try:
                    sock = socket.socket(family, kind, proto)
                except OSError as error:  # no IPv6 on this machine, for one
                    failure = error
                    continue
                sock.setblocking(False)
                attempts[asyncio.ensure_future(loop.sock_connect(sock, address))] = sock
            done, _ = await asyncio.wait(
                [attempt for attempt in attempts if not attempt.done()],
                timeout=_ATTEMPT_DELAY_S if addresses else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for attempt in done:
                failed = attempt.exception()
                winner, failure = (attempts[attempt], failure) if failed is None else (winner, failed)
        if winner is None:
            raise failure
        return winner
    finally:
        for attempt, sock in attempts.items():  # without an await, which a cancel could break
            if sock is not winner:
                attempt.cancel()
                attempt.add_done_callback(partial(_close, sock))


def _close(sock: socket.socket, attempt: asyncio.Future[None]) -> None:
    if not attempt.cancelled():
        attempt.exception()  # looked at, so that asyncio does not report it as lost
    sock.close()


_READ_BYTES = 64 * 1024

_BROKEN = (httpcore.NetworkError, httpcore.RemoteProtocolError)


class AsyncLine(httpcore.AsyncNetworkBackend):
    """The network of one connection: it knows the exchange that uses it, and can be dropped at once."""

    def __init__(self) -> None:
        self._protocol = LineProtocol()
        self._loop = asyncio.get_running_loop()
        self._connecting: asyncio.Timeout | None = None
        self._aborted = False
        self.stream = AsyncLineStream(self, self._protocol)
        self.inflow = Inflow()
        self.unsent: bytes | None = None
        """The head of a request, which waits for the body to go with it; `None` before there is one to wait for."""
        self.patience: Patience | None = None
        self.is_reused = False
        self.has_heard = False
        """Whether any byte of the current exchange's response came."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,  # Any: as httpcore declares it
    ) -> httpcore.AsyncNetworkStream:
        async with self.connecting(timeout):
            sock = await _connect_first(host, port)
            await self._loop.create_connection(lambda: self._protocol, sock=sock)
        return self.stream

    @contextlib.asynccontextmanager
    async def connecting(self, timeout: float | None) -> AsyncGenerator[None]:
        """A step on the way to a connection, with httpcore's errors; `abort` ends it."""
        if self._aborted:
            raise httpcore.ConnectError("the connection was aborted")
        try:
            async with asyncio.timeout(self.timeout(timeout)) as self._connecting:
                yield
        except TimeoutError:
            raise httpcore.ConnectTimeout from None
        except OSError as error:  # ssl.SSLError is one
            raise httpcore.ConnectError(str(error)) from None
        finally:
            self._connecting = None

    def timeout(self, timeout: float | None) -> float | None:
        return timeout if self.patience is None else self.patience.timeout(timeout)

    def abort(self) -> None:
        """Drop the connection now; whoever waits for it is told. From the loop's own thread."""
        self._aborted = True
        if self._loop.is_closed():
            return
        if self._connecting is not None:
            self._connecting.reschedule(self._loop.time())
        if self._protocol.transport is not None:
            self._protocol.transport.abort()

    def interrupt(self) -> None:
        """`abort`, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, and the connection with it
            self._loop.call_soon_threadsafe(self.abort)


class AsyncLineStream(httpcore.AsyncNetworkStream):
    def __init__(self, line: AsyncLine, protocol: LineProtocol) -> None:
        self._line = line
        self._protocol = protocol

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        inflow = self._line.inflow
        data, inflow.held = inflow.held, b""
        if not data:
            data = await self._protocol.read(max_bytes, self._line.timeout(timeout))
            self._line.has_heard = self._line.has_heard or bool(data)
        return inflow.take(data)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if self._line.unsent is None:  # httpcore writes the head, then the body, then b"" for the end
            self._line.unsent = buffer
            return
        buffer, self._line.unsent = self._line.unsent + buffer, b""
        if buffer:
            await self._protocol.write(buffer, self._line.timeout(timeout))

    async def aclose(self) -> None:
        self._line.abort()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        protocol = self._protocol
        assert protocol.transport is not None
        async with self._line.connecting(timeout):
            transport = await asyncio.get_running_loop().start_tls(
                protocol.transport, protocol, ssl_context, server_hostname=server_hostname
            )
        protocol.transport = transport
        return self

    def get_extra_info(self, info: str) -> Any:  # Any: as httpcore declares it
        if info == "is_readable":  # of an idle connection: the server has closed it
            return bool(self._line.inflow.held) or self._protocol.is_readable
        return self._protocol.transport.get_extra_info(info) if self._protocol.transport is not None else None


class AsyncDirectTransport(httpx.AsyncBaseTransport):
    """Sends requests to one origin, in one event loop.

    Each has a connection that is its alone until the response is closed.
    """

    def __init__(self, ssl_context: ssl.SSLContext | None) -> None:
        self._ssl_context = ssl_context
        self._idle: list[tuple[httpcore.AsyncHTTPConnection, AsyncLine]] = []
        self._busy: set[AsyncLine] = set()
        self._closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        core_request = httpcore.Request(
            method=request.method,
            url=httpcore.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        patience: Patience = request.extensions["patience"]
        fresh = False
        while True:
            connection, line = self._take(core_request.url.origin, fresh)
            line.patience = patience
            line.inflow.head_expected()
            line.unsent = None
            unlink = patience.bounds.cancel.add_callback(line.interrupt)
            try:
                response = await connection.handle_async_request(core_request)
                line.inflow.body_expected()
                break
            except BaseException as error:
                unlink()
                self._drop(line)
                # A server may close an idle connection at any time, and some do so right after a response without
                # a word (llama.cpp). That is no failure of this request: another connection will do.
                # RFC 9112, section 9.3.1, "Retrying requests".
                is_stale = line.is_reused and not line.has_heard and isinstance(error, _BROKEN)
                if not is_stale or patience.bounds.exceeded():
                    raise
                fresh = True
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_AsyncResponseStream(
                self, connection, line, response, unlink, request.extensions["timeout"]["read"]
            ),
            extensions={**response.extensions, "patience": patience},
        )

    def _take(self, origin: httpcore.Origin, fresh: bool) -> tuple[httpcore.AsyncHTTPConnection, AsyncLine]:
        if self._closed:
            raise httpcore.ConnectError("the client is closed")
        while self._idle and not fresh:
            connection, line = self._idle.pop()
            line.is_reused, line.has_heard = True, False
            if connection.is_available() and not connection.has_expired():
                self._busy.add(line)
                return connection, line
            line.abort()
        line = AsyncLine()
        self._busy.add(line)
        connection = httpcore.AsyncHTTPConnection(
            origin, ssl_context=self._ssl_context, keepalive_expiry=_KEEPALIVE_S, network_backend=line
        )
        return connection, line

    def give_back(self, connection: httpcore.AsyncHTTPConnection, line: AsyncLine) -> None:
        """Keep the connection for the next request if nothing is left on it, else drop it."""
        line.patience = None
        if connection.is_idle() and not self._closed:
            self._busy.discard(line)
            self._idle.append((connection, line))
        else:
            self._drop(line)

    def _drop(self, line: AsyncLine) -> None:
        self._busy.discard(line)
        line.abort()

    async def aclose(self) -> None:
        """Drop all connections; whoever waits for one is told."""
        self._closed = True
        for line in [*self._busy, *(line for _, line in self._idle)]:
            line.abort()
        self._idle.clear()


class _AsyncResponseStream(httpx.AsyncByteStream):
    def __init__(
        self,
        transport: AsyncDirectTransport,
        connection: httpcore.AsyncHTTPConnection,
        line: AsyncLine,
        response: httpcore.Response,
        unlink: Callable[[], None],
        idle: float | None,
    ) -> None:
        self._transport = transport
        self._connection = connection
        self._line = line
        self._response = response
        self._unlink = unlink
        self._idle = idle

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if is_chunked(self._response):  # the plain chunks first, then the rest is h11's
            chunks = Chunks()
            while not chunks.is_over and (data := await self._line.stream.read(_READ_BYTES, self._idle)):
                joined = chunks.receive(data)
                if joined:
                    yield joined
            if chunks.error is not None:
                raise chunks.error
            self._line.inflow.held = chunks.rest
        async for part in self._response.stream:  # type: ignore[union-attr]  # httpcore types it for both worlds at once
            yield part

    async def aclose(self) -> None:
        self._unlink()
        try:
            await self._response.aclose()
        finally:
            self._transport.give_back(self._connection, self._line)
