"""Connections of our own, below httpx: each can be interrupted from another thread and obeys a deadline.

`DirectTransport` is an `httpx.BaseTransport` over httpcore's connections. It keeps idle ones in a list instead
of httpcore's pool: the number of connections is not limited, so there is no slot to wait for, and none to lose
when a `KeyboardInterrupt` strikes in the middle.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import httpcore
import httpx

from .bounds import Patience

_KEEPALIVE_S = 60.0
"""How long an idle connection is kept; servers and load balancers close theirs after about a minute."""


class Line(httpcore.NetworkBackend):
    """The network of one connection: it knows the exchange that uses it, and its socket."""

    def __init__(self) -> None:
        self._backend = httpcore.SyncBackend()
        self._socket: socket.socket | None = None
        self.patience: Patience | None = None

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,  # Any: as httpcore declares it
    ) -> httpcore.NetworkStream:
        stream = self._backend.connect_tcp(host, port, self.timeout(timeout), local_address, socket_options)
        self._socket = stream.get_extra_info("socket")
        return LineStream(self, stream)

    def timeout(self, timeout: float | None) -> float | None:
        return timeout if self.patience is None else self.patience.timeout(timeout)

    def interrupt(self) -> None:
        """Make whatever waits for this connection return; safe from any thread."""
        if self._socket is not None:
            shut_down(self._socket)


class LineStream(httpcore.NetworkStream):
    def __init__(self, line: Line, stream: httpcore.NetworkStream) -> None:
        self._line = line
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _positive(self._line.timeout(timeout)))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _positive(self._line.timeout(timeout)))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        timeout = _positive(self._line.timeout(timeout))
        return LineStream(self._line, self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:  # Any: as httpcore declares it
        return self._stream.get_extra_info(info)


def shut_down(sock: socket.socket) -> None:
    """Wake a thread that blocks on `sock`: it reads an end of file."""
    with contextlib.suppress(OSError):
        # Not sock.shutdown(): an SSLSocket's own would take the TLS state away from the thread that uses it.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _positive(timeout: float | None) -> float | None:
    return timeout if timeout is None else max(timeout, 1e-6)  # 0 would make the socket non-blocking


class DirectTransport(httpx.BaseTransport):
    """Sends requests to one origin; each has a connection that is its alone until the response is closed."""

    def __init__(self, ssl_context: ssl.SSLContext | None) -> None:
        self._ssl_context = ssl_context
        self._idle: list[tuple[httpcore.HTTPConnection, Line]] = []
        self._lock = threading.Lock()
        self._closed = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
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
        connection, line = self._take(core_request.url.origin)
        line.patience = request.extensions.get("patience")
        try:
            bounds = line.patience.bounds if line.patience is not None else None
            unlink = bounds.cancel.add_callback(line.interrupt) if bounds is not None else lambda: None
            response = connection.handle_request(core_request)
        except BaseException:
            connection.close()
            raise
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_ResponseStream(self, connection, line, response, unlink),
            extensions={**response.extensions, "patience": line.patience},
        )

    def _take(self, origin: httpcore.Origin) -> tuple[httpcore.HTTPConnection, Line]:
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection, line = self._idle.pop()
            if connection.is_available() and not connection.has_expired():
                return connection, line
            connection.close()
        line = Line()
        connection = httpcore.HTTPConnection(
            origin, ssl_context=self._ssl_context, keepalive_expiry=_KEEPALIVE_S, network_backend=line
        )
        return connection, line

    def give_back(self, connection: httpcore.HTTPConnection, line: Line) -> None:
        """Keep the connection for the next request if nothing is left on it, else close it."""
        line.patience = None
        with self._lock:
            if connection.is_idle() and not self._closed:
                self._idle.append((connection, line))
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()


class _ResponseStream(httpx.SyncByteStream):
    def __init__(
        self,
        transport: DirectTransport,
        connection: httpcore.HTTPConnection,
        line: Line,
        response: httpcore.Response,
        unlink: Any,  # Callable[[], None]
    ) -> None:
        self._transport = transport
        self._connection = connection
        self._line = line
        self._response = response
        self._unlink = unlink

    def __iter__(self) -> Iterator[bytes]:
        yield from self._response.stream  # type: ignore[misc]  # httpcore types it for both worlds at once

    def close(self) -> None:
        self._unlink()
        try:
            self._response.close()
        finally:
            self._transport.give_back(self._connection, self._line)
