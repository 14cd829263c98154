"""Connections of our own, in place of httpx: each can be interrupted from another thread and obeys a deadline.

`DirectTransport` keeps idle ones in a list instead of a pool: the number of connections is not limited, so there is
no slot to wait for, and none to lose when a `KeyboardInterrupt` strikes in the middle.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator

import h11

from ..config import Timeouts
from . import faults
from .bounds import Bounds, Patience
from .framing import Chunks, Inflow
from .http11 import Endpoint, Http11, headers_of, is_chunked

_READ_BYTES = 64 * 1024

_BROKEN = (faults.NetworkError, faults.RemoteProtocolError)


class Connection:
    """One connection: it knows the exchange that uses it, keeps to its time, and can be interrupted."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._interrupted = False
        self.inflow = Inflow()
        self.http = Http11()
        self.patience: Patience | None = None
        self.owner: Bounds | None = None
        """The run that uses the connection."""
        self.is_reused = False
        self.has_heard = False
        """Whether any byte of the current exchange's response came."""

    def ask(
        self, endpoint: Endpoint, ssl_context: ssl.SSLContext | None, timeouts: Timeouts, body: bytes
    ) -> h11.Response:
        """Send a request, connected now if not before, and wait for the head of the response."""
        if self._socket is None:
            self.connect_tcp(endpoint.host, endpoint.port, timeouts.connect)
            if ssl_context is not None:
                self.start_tls(ssl_context, endpoint.host, timeouts.connect)
        self.inflow.head_expected()
        request = self.http.request(endpoint, body)
        with contextlib.suppress(faults.WriteError):  # a server may answer, and go, before it has read all
            self.write(request, timeouts.write)
        self.http.receive(self.read(timeouts.read))
        while (head := self.http.head()) is None:
            if self.patience is not None:  # informational heads may come for ever, and faster than they are read
                self.patience.check()
            self.http.receive(self.read(timeouts.read))
        self.inflow.body_expected()
        return head

    def connect_tcp(self, host: str, port: int, timeout: float | None) -> None:
        try:
            self._connect(host, port, timeout)
        except TimeoutError:
            raise faults.ConnectTimeout from None
        except OSError as error:
            raise faults.ConnectError(str(error)) from None

    def _connect(self, host: str, port: int, timeout: float | None) -> None:
        # Not socket.create_connection: its socket is not to be had, and so not to be interrupted, before it is done.
        failure: OSError = OSError(f"{host!r} has no address")
        for family, kind, proto, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            try:
                sock = self._socket = socket.socket(family, kind, proto)
            except OSError as error:  # no IPv6 on this machine, for one
                failure = error
                continue
            try:
                self._hold(sock)
                sock.settimeout(self._timeout(timeout))
                sock.connect(address)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return
            except OSError as error:
                failure = error
                sock.close()
            except BaseException:
                sock.close()
                raise
        raise failure

    def start_tls(self, ssl_context: ssl.SSLContext, server_hostname: str, timeout: float | None) -> None:
        assert self._socket is not None
        try:
            # The handshake comes after `_hold`: the TLS socket takes the place of the one that could be interrupted.
            sock = ssl_context.wrap_socket(self._socket, server_hostname=server_hostname, do_handshake_on_connect=False)
            self._hold(sock)
            sock.settimeout(self._timeout(timeout))
            sock.do_handshake()
        except BaseException as error:
            self.close()
            if isinstance(error, TimeoutError):
                raise faults.ConnectTimeout from None
            if isinstance(error, OSError):  # ssl.SSLError is one
                raise faults.ConnectError(str(error)) from None
            raise

    def _hold(self, sock: socket.socket) -> None:
        """Wait on `sock` from now on; an interrupt that came before must not be lost."""
        self._socket = sock
        if self._interrupted:
            raise OSError("the connection was interrupted")

    def read(self, timeout: float | None) -> bytes:
        """What has come, once there is something; `b""` at the end of the connection."""
        data, self.inflow.held = self.inflow.held or self._receive(timeout), b""
        return self.inflow.take(data)

    def _receive(self, timeout: float | None) -> bytes:
        assert self._socket is not None
        try:
            self._socket.settimeout(self._timeout(timeout))
            data = self._socket.recv(_READ_BYTES)
        except TimeoutError:
            raise faults.ReadTimeout from None
        except OSError as error:
            raise faults.ReadError(str(error)) from None
        self.has_heard = self.has_heard or bool(data)
        return data

    def write(self, data: bytes, timeout: float | None) -> None:
        assert self._socket is not None
        try:
            while data:  # not sendall: the timeout is one of silence, not for the whole
                self._socket.settimeout(self._timeout(timeout))
                data = data[self._socket.send(data) :]
        except TimeoutError:
            raise faults.WriteTimeout from None
        except OSError as error:
            raise faults.WriteError(str(error)) from None

    def _timeout(self, timeout: float | None) -> float | None:
        """Seconds for the next wait, in the form that sockets want: 0 would make them not wait at all."""
        if self.patience is not None:
            timeout = self.patience.timeout(timeout)
        return None if timeout is None else max(timeout, 1e-6)

    @property
    def is_readable(self) -> bool:
        """Whether a read would not wait; of an idle connection, that the server has closed it."""
        return self._socket is None or _is_readable(self._socket)

    def interrupt(self) -> None:
        """Make whatever waits for this connection return; safe from any thread."""
        self._interrupted = True
        if self._socket is not None:
            shut_down(self._socket)

    def close(self) -> None:
        """Close the connection; nobody waits for it."""
        if self._socket is not None:
            self._socket.close()


def _is_readable(sock: socket.socket) -> bool:
    if sock.fileno() < 0:
        return True
    if not hasattr(select, "poll"):  # Windows, whose select takes any socket
        return bool(select.select([sock], [], [], 0)[0])
    poll = select.poll()  # elsewhere select takes small file numbers only
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def shut_down(sock: socket.socket) -> None:
    """Wake a thread that blocks on `sock`: it reads an end of file."""
    with contextlib.suppress(OSError):
        # Not sock.shutdown(): an SSLSocket's own would take the TLS state away from the thread that uses it.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


class DirectTransport:
    """Sends requests to one endpoint; each has a connection that is its alone until the response is closed.

    A `KeyboardInterrupt` may strike between any two lines. So a connection is taken and given back in steps, each of
    which leaves it with its owner or in the list of idle ones, and `end` finds what an owner has left behind.
    """

    def __init__(self, endpoint: Endpoint, ssl_context: ssl.SSLContext | None, timeouts: Timeouts) -> None:
        self._endpoint = endpoint
        self._ssl_context = ssl_context
        self._timeouts = timeouts
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._lock = threading.RLock()
        self._closed = False

    def send(self, body: bytes, patience: Patience) -> DirectResponse:
        """Send a request and wait for the head of the response, which is to be closed in any case.

        Raises:
            faults.NetworkError, faults.TimeoutException, faults.ProtocolError: There is none.
        """
        fresh = False
        while True:
            connection = self._take(fresh, patience.bounds)
            connection.patience = patience
            unlink = patience.bounds.cancel.add_callback(connection.interrupt)
            try:
                head = connection.ask(self._endpoint, self._ssl_context, self._timeouts, body)
                return DirectResponse(self, connection, head, unlink, self._timeouts.read)
            except BaseException as error:
                unlink()
                self.drop(connection)
                # A server may close an idle connection at any time, and some do so right after a response without
                # a word (llama.cpp). That is no failure of this request: another connection will do.
                # RFC 9112, section 9.3.1, "Retrying requests".
                is_stale = connection.is_reused and not connection.has_heard and isinstance(error, _BROKEN)
                if not is_stale or patience.bounds.exceeded():
                    raise
                fresh = True

    def _take(self, fresh: bool, owner: Bounds) -> Connection:
        while True:
            with self._lock:
                if self._closed:
                    raise faults.ConnectError("the client is closed")
                if fresh or not self._idle:
                    connection = Connection()
                    connection.owner = owner
                    self._busy.add(connection)
                    return connection
                connection = self._idle[-1]
                connection.owner = owner
                self._busy.add(connection)
                self._idle.pop()
                connection.is_reused, connection.has_heard = True, False
            if not (connection.http.has_expired or connection.is_readable):
                return connection
            self.drop(connection)

    def give_back(self, connection: Connection) -> None:
        """Keep the connection for the next request if nothing is left on it, else close it."""
        connection.patience = None
        try:
            with self._lock:
                if connection.http.finish() and not connection.inflow.held and not self._closed:
                    self._idle.append(connection)
                    self._busy.discard(connection)
                    connection.owner = None
                    return
        except BaseException:  # interrupted in the middle, the connection may say that it is idle and not be
            self.drop(connection)
            raise
        self.drop(connection)

    def drop(self, connection: Connection) -> None:
        """Close a connection, whatever it is in the middle of."""
        connection.close()
        with self._lock:
            self._busy.discard(connection)

    def end(self, owner: Bounds) -> None:
        """Drop what a run that is over has left behind: nothing, unless it was interrupted in the middle of a step."""
        with self._lock:
            left = {connection for connection in (*self._busy, *self._idle) if connection.owner is owner}
            if left:
                self._idle = [connection for connection in self._idle if connection not in left]
        for connection in left:
            self.drop(connection)

    def close(self) -> None:
        """Close the idle connections, and interrupt whoever waits for one of the others."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            busy = list(self._busy)
        for connection in idle:
            connection.close()
        for connection in busy:
            connection.interrupt()


class DirectResponse:
    """A response over a connection of ours, with those members of `httpx.Response` that we use."""

    is_stream_consumed = False

    def __init__(
        self,
        transport: DirectTransport,
        connection: Connection,
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

    def iter_raw(self) -> Iterator[bytes]:
        """The body as it comes, less its framing."""
        connection, http = self._connection, self._connection.http
        if is_chunked(self._head):  # the plain chunks first, then the rest is h11's
            chunks = Chunks()
            while not chunks.is_over and (data := connection.read(self._idle)):
                joined = chunks.receive(data)
                if joined:
                    yield joined
            if chunks.error is not None:
                raise chunks.error
            http.receive(chunks.rest)  # empty at the end of the connection, for h11 too
        while (part := http.body()) != b"":
            if part is None:
                http.receive(connection.read(self._idle))
            else:
                yield part

    def close(self) -> None:
        """Let go of the connection; it is used again if the whole body was read."""
        if not self._is_closed:
            self._is_closed = True
            self._unlink()
            self._transport.give_back(self._connection)
