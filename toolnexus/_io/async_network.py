"""Connections of our own, in place of httpx, for asyncio: cancelled anywhere, they close at once and nothing leaks.

httpcore's pool loses a slot for ever when a task is cancelled at the wrong await. Here a connection belongs to one
exchange until its response is closed, and is dropped by `abort()`, which waits for nothing and so cannot be
cancelled itself. The number of connections is not limited.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncGenerator, Callable
from functools import partial
from itertools import zip_longest

import h11

from ..config import Timeouts
from . import faults
from .alarm import Alarm
from .bounds import Patience
from .framing import Chunks, Inflow
from .http11 import Endpoint, Http11, headers_of, is_chunked

_READ_BYTES = 64 * 1024
_ATTEMPT_DELAY_S = 0.25
_HIGH_WATER = 256 * 1024
"""Bytes that may wait to be read before the server is made to wait: a slow consumer slows the reader down."""


class Flow(asyncio.Protocol):
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
        self._alarm = Alarm()

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
        self._alarm.stop()
        _wake(self._reader)
        self.resume_writing()

    def pause_writing(self) -> None:
        self._writer = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        _wake(self._writer)
        self._writer = None

    # -- called by the connection

    @property
    def is_readable(self) -> bool:
        return bool(self._buffer) or self.is_over

    def rest(self) -> None:
        """Nobody waits for this connection for a while."""
        self._alarm.stop()

    async def read(self, timeout: float | None) -> bytes:
        if not self.is_readable:
            self._reader = asyncio.get_running_loop().create_future()
            self._alarm.set(self._reader, timeout, faults.ReadTimeout)
            try:
                await self._reader
            finally:
                self._reader = None
                self._alarm.unset()
        if self._buffer:
            data = bytes(self._buffer[:_READ_BYTES])
            del self._buffer[:_READ_BYTES]
            if self._paused and len(self._buffer) <= _HIGH_WATER // 2 and self.transport is not None:
                self._paused = False
                self.transport.resume_reading()
            return data
        if self._error is not None:
            raise faults.ReadError(str(self._error)) from None
        return b""

    def write(self, data: bytes) -> None:
        if self.transport is None or self.transport.is_closing():
            raise faults.WriteError("the connection is closed")
        self.transport.write(data)

    @property
    def is_full(self) -> bool:
        """Whether much of what was written is still to be sent."""
        return self._writer is not None

    async def sent(self, timeout: float | None) -> None:
        """Wait until enough is sent, or for so long if at least something is."""
        if self._writer is None or self.transport is None:
            return
        size = self.transport.get_write_buffer_size()
        self._alarm.set(self._writer, timeout, faults.WriteTimeout)
        try:
            await self._writer
        except faults.WriteTimeout:
            if self.is_full:  # else it was sent while the alarm rang
                if self.transport.get_write_buffer_size() >= size:
                    raise
                self.pause_writing()  # wait on
        finally:
            self._alarm.unset()
        if self._error is not None:
            raise faults.WriteError(str(self._error)) from None


def _wake(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)


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


_BROKEN = (faults.NetworkError, faults.RemoteProtocolError)


class AsyncConnection:
    """One connection: it knows the exchange that uses it, keeps to its time, and can be dropped at once."""

    def __init__(self) -> None:
        self._flow = Flow()
        self._loop = asyncio.get_running_loop()
        self._connecting: asyncio.Timeout | None = None
        self._aborted = False
        self._is_connected = False
        self.inflow = Inflow()
        self.http = Http11()
        self.patience: Patience | None = None
        self.is_reused = False
        self.has_heard = False
        """Whether any byte of the current exchange's response came."""

    async def ask(
        self, endpoint: Endpoint, ssl_context: ssl.SSLContext | None, timeouts: Timeouts, body: bytes
    ) -> h11.Response:
        """Send a request, connected now if not before, and wait for the head of the response."""
        if not self._is_connected:
            await self.connect_tcp(endpoint.host, endpoint.port, timeouts.connect)
            if ssl_context is not None:
                await self._start_tls(ssl_context, endpoint.host, timeouts.connect)
            self._is_connected = True
        self.inflow.head_expected()
        request = self.http.request(endpoint, body)
        with contextlib.suppress(faults.WriteError):  # a server may answer, and go, before it has read all
            self._flow.write(request)
            while self._flow.is_full:  # the timeout is one of silence, not for the whole
                self._check()
                await self._flow.sent(self._timeout(timeouts.write))
        self.http.receive(await self.read(timeouts.read))
        while (head := self.http.head()) is None:
            self._check()  # informational heads may come for ever, and faster than they are read
            self.http.receive(await self.read(timeouts.read))
        self.inflow.body_expected()
        return head

    async def connect_tcp(self, host: str, port: int, timeout: float | None) -> None:
        async with self._step(timeout):
            sock = await _connect_first(host, port)
            await self._loop.create_connection(lambda: self._flow, sock=sock)

    async def _start_tls(self, ssl_context: ssl.SSLContext, server_hostname: str, timeout: float | None) -> None:
        flow = self._flow
        assert flow.transport is not None
        async with self._step(timeout):
            flow.transport = await self._loop.start_tls(
                flow.transport, flow, ssl_context, server_hostname=server_hostname
            )

    @contextlib.asynccontextmanager
    async def _step(self, timeout: float | None) -> AsyncGenerator[None]:
        """A step on the way to a connection, with our errors; `abort` ends it."""
        if self._aborted:
            raise faults.ConnectError("the connection was aborted")
        try:
            async with asyncio.timeout(self._timeout(timeout)) as self._connecting:
                yield
        except TimeoutError:
            raise faults.ConnectTimeout from None
        except OSError as error:  # ssl.SSLError is one
            raise faults.ConnectError(str(error)) from None
        finally:
            self._connecting = None

    async def read(self, timeout: float | None) -> bytes:
        """What has come, once there is something; `b""` at the end of the connection."""
        data, self.inflow.held = self.inflow.held, b""
        if not data:
            data = await self._flow.read(self._timeout(timeout))
            self.has_heard = self.has_heard or bool(data)
        return self.inflow.take(data)

    def _timeout(self, timeout: float | None) -> float | None:
        return timeout if self.patience is None else self.patience.timeout(timeout)

    def _check(self) -> None:
        """Raise if the exchange has no time left, although it goes on."""
        if self.patience is not None:
            self.patience.check()

    @property
    def is_readable(self) -> bool:
        """Whether a read would not wait; of an idle connection, that the server has closed it."""
        return self._flow.is_readable

    def rest(self) -> None:
        """The connection is idle from now on."""
        self._flow.rest()

    def abort(self) -> None:
        """Drop the connection now; whoever waits for it is told. From the loop's own thread."""
        self._aborted = True
        if self._loop.is_closed():
            return
        if self._connecting is not None and not self._connecting.expired():  # which is an end as well
            self._connecting.reschedule(self._loop.time())
        if self._flow.transport is not None:
            self._flow.transport.abort()

    def interrupt(self) -> None:
        """`abort`, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, and the connection with it
            self._loop.call_soon_threadsafe(self.abort)


class AsyncDirectTransport:
    """Sends requests to one endpoint, in one event loop.

    Each has a connection that is its alone until the response is closed.
    """

    def __init__(self, endpoint: Endpoint, ssl_context: ssl.SSLContext | None, timeouts: Timeouts) -> None:
        self._endpoint = endpoint
        self._ssl_context = ssl_context
        self._timeouts = timeouts
        self._idle: list[AsyncConnection] = []
        self._busy: set[AsyncConnection] = set()
        self._closed = False

    async def send(self, body: bytes, patience: Patience) -> AsyncDirectResponse:
        """Send a request and wait for the head of the response, which is to be closed in any case.

        Raises:
            faults.NetworkError, faults.TimeoutException, faults.ProtocolError: There is none.
        """
        fresh = False
        while True:
            connection = self._take(fresh)
            connection.patience = patience
            unlink = patience.bounds.cancel.add_callback(connection.interrupt)
            try:
                head = await connection.ask(self._endpoint, self._ssl_context, self._timeouts, body)
                return AsyncDirectResponse(self, connection, head, unlink, self._timeouts.read)
            except BaseException as error:
                unlink()
                self._drop(connection)
                # A server may close an idle connection at any time, and some do so right after a response without
                # a word (llama.cpp). That is no failure of this request: another connection will do.
                # RFC 9112, section 9.3.1, "Retrying requests".
                is_stale = connection.is_reused and not connection.has_heard and isinstance(error, _BROKEN)
                if not is_stale or patience.bounds.exceeded():
                    raise
                fresh = True

    def _take(self, fresh: bool) -> AsyncConnection:
        if self._closed:
            raise faults.ConnectError("the client is closed")
        while self._idle and not fresh:
            connection = self._idle.pop()
            connection.is_reused, connection.has_heard = True, False
            if not (connection.http.has_expired or connection.is_readable):
                self._busy.add(connection)
                return connection
            connection.abort()
        connection = AsyncConnection()
        self._busy.add(connection)
        return connection

    def give_back(self, connection: AsyncConnection) -> None:
        """Keep the connection for the next request if nothing is left on it, else drop it."""
        connection.patience = None
        if connection.http.finish() and not connection.inflow.held and not self._closed:
            connection.rest()
            self._busy.discard(connection)
            self._idle.append(connection)
        else:
            self._drop(connection)

    def _drop(self, connection: AsyncConnection) -> None:
        self._busy.discard(connection)
        connection.abort()

    async def aclose(self) -> None:
        """Drop all connections; whoever waits for one is told."""
        self._closed = True
        for connection in [*self._busy, *self._idle]:
            connection.abort()
        self._idle.clear()


class AsyncDirectResponse:
    """A response over a connection of ours, with those members of `httpx.Response` that we use."""

    is_stream_consumed = False

    def __init__(
        self,
        transport: AsyncDirectTransport,
        connection: AsyncConnection,
        head: h11.Response,
        unlink: Callable[[], None],
        idle: float | None,
    ) -> None:
        self._transport = transport
        self._connection = connection
        self._head = head
        self._unlink = unlink
        self._idle = idle
        self._is_closed = False
        self.status_code = head.status_code
        self.headers = headers_of(head)

    async def aiter_raw(self) -> AsyncGenerator[bytes]:
        """The body as it comes, less its framing."""
        connection, http = self._connection, self._connection.http
        if is_chunked(self._head):  # the plain chunks first, then the rest is h11's
            chunks = Chunks()
            while not chunks.is_over and (data := await connection.read(self._idle)):
                joined = chunks.receive(data)
                if joined:
                    yield joined
            if chunks.error is not None:
                raise chunks.error
            http.receive(chunks.rest)  # empty at the end of the connection, for h11 too
        while (part := http.body()) != b"":
            if part is None:
                http.receive(await connection.read(self._idle))
            else:
                yield part

    async def aclose(self) -> None:
        """Let go of the connection; it is used again if the whole body was read."""
        if not self._is_closed:
            self._is_closed = True
            self._unlink()
            self._transport.give_back(self._connection)
