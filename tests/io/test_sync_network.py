"""One connection in the sync world: interrupted, closed, and given up at bad moments."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Iterator

import pytest

from tests.server import Gate, reply, says
from toolnexus._io import faults
from toolnexus._io.bounds import Bounds, Patience
from toolnexus._io.http11 import Endpoint, Http11
from toolnexus._io.sync_network import Connection, DirectResponse, DirectTransport
from toolnexus.config import Timeouts


def transport_to(port: int) -> DirectTransport:
    return DirectTransport(Endpoint("127.0.0.1", port, False, b"/", ((b"host", b"a"),)), None, Timeouts())


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_a_connection_that_was_interrupted_before_it_connected_does_not_connect(port):
    connection = Connection()
    connection.interrupt()
    with pytest.raises(faults.ConnectError, match="interrupted"):
        connection.connect_tcp("127.0.0.1", port, 5)


def test_a_closed_connection_counts_as_readable_so_that_it_is_not_used_again(port):
    connection = Connection()
    connection.connect_tcp("127.0.0.1", port, 5)
    assert not connection.is_readable
    connection.close()
    assert connection.is_readable


@pytest.mark.parametrize("has_poll", [True, False])
def test_a_connection_is_readable_when_something_came_or_the_other_side_is_gone(monkeypatch, has_poll):
    if not has_poll:
        monkeypatch.delattr(select, "poll", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for last_word in (b"?", b""):
            connection = Connection()
            connection.connect_tcp("127.0.0.1", listener.getsockname()[1], 5)
            other, _ = listener.accept()
            assert not connection.is_readable
            with other:
                other.sendall(last_word)
            assert connection._socket is not None
            connection._socket.recv(1, socket.MSG_PEEK)  # until it has arrived
            assert connection.is_readable
            connection.close()


def test_an_interrupt_while_connecting_leaves_no_socket_open(monkeypatch, port):
    def interrupted(self: socket.socket, address: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(socket.socket, "connect", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Connection().connect_tcp("127.0.0.1", port, 5)


def test_an_interrupt_in_a_handshake_leaves_no_socket_open(monkeypatch, port):
    def interrupted(self: ssl.SSLSocket) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ssl.SSLSocket, "do_handshake", interrupted)
    connection = Connection()
    connection.connect_tcp("127.0.0.1", port, 5)
    with pytest.raises(KeyboardInterrupt):
        connection.start_tls(ssl.create_default_context(), "127.0.0.1", 5)
    assert connection.is_readable


def test_a_closed_transport_takes_no_request(port):
    transport = transport_to(port)
    transport.close()
    with pytest.raises(faults.ConnectError, match="the client is closed"):
        opened(transport, Bounds(None, None))


def opened(transport: DirectTransport, bounds: Bounds) -> DirectResponse:
    return transport.send(b"{}", Patience(bounds))


def test_the_end_of_a_run_drops_the_connections_that_it_has_left_behind_and_no_others(serve):
    server = serve(says("Hi."), reply(Gate()), reply(Gate()))
    transport, bounds, other = transport_to(server.port), Bounds(None, None), Bounds(None, None)
    opened(transport, bounds)
    kept = opened(transport, other)
    opened(transport, bounds)
    transport.end(bounds)
    server.wait_for(lambda: server.open_connections == 1)
    kept.close()
    server.wait_all_closed()
    assert (transport._busy, transport._idle) == (set(), [])


def test_a_connection_whose_giving_back_was_interrupted_is_dropped(serve, monkeypatch):
    def interrupted(self: Http11) -> None:
        raise KeyboardInterrupt

    server = serve(says("Hi."))
    transport = transport_to(server.port)
    response = opened(transport, Bounds(None, None))
    monkeypatch.setattr(Http11, "finish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        response.close()
    server.wait_all_closed()
    assert (transport._busy, transport._idle) == (set(), [])
