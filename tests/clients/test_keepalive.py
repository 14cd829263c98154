"""Connections that are used again, and servers that close them without a word."""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.server import Response, says
from toolnexus import AsyncClient, StreamInterruptedError, SyncClient
from toolnexus._io import http11


def body() -> bytes:
    chunk = b'data: {"choices": [{"delta": {"content": "Hi."}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    return head + b"content-length: %d\r\n\r\n" % len(chunk) + chunk


def read_request(connection: socket.socket) -> bool:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return False
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
    )
    while len(rest) < length:
        rest += connection.recv(65536)
    return True


class HangsUp:
    """Answers the first so many requests of each connection, and hangs up on the next one without a byte."""

    def __init__(self, answered: list[int]) -> None:
        self.requests = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, args=(answered,))
        self._thread.start()

    def _serve(self, answered: list[int]) -> None:
        for count in answered:
            connection, _ = self._socket.accept()
            with connection:
                for _ in range(count):
                    if not read_request(connection):
                        break
                    self.requests += 1
                    connection.sendall(body())
                else:
                    self.requests += read_request(connection)

    def close(self) -> None:
        self._thread.join()
        self._socket.close()


@contextlib.contextmanager
def hanging_up(*answered: int) -> Iterator[HangsUp]:
    server = HangsUp(list(answered))
    try:
        yield server
    finally:
        server.close()


def test_a_kept_connection_that_was_closed_is_replaced_at_once_and_costs_no_retry(connect):
    with hanging_up(1, 1) as server:
        client = connect(base_url=server.url, retries=0)
        assert client.stream("One?").text == "Hi."
        assert client.stream("Two?").text == "Hi."
        client.close()
        assert server.requests == 3  # the second was asked for twice


def test_a_fresh_connection_that_is_closed_is_a_failure(connect):
    with hanging_up(0) as server:
        client = connect(base_url=server.url, retries=0)
        with pytest.raises(StreamInterruptedError):
            client.stream("One?")
        client.close()
        assert server.requests == 1


class Poisoned(HangsUp):
    """Answers the first request of each of its first connections, all at once; then hangs up on every request."""

    def _serve(self, answered: list[int]) -> None:
        connections = [self._socket.accept()[0] for _ in answered]
        for connection in connections:
            self.requests += read_request(connection)
        for connection in connections:
            connection.sendall(body())
        self._socket.settimeout(1)
        with selectors.DefaultSelector() as ready:
            for connection in connections:
                ready.register(connection, selectors.EVENT_READ, connection)
            ready.register(self._socket, selectors.EVENT_READ)
            while ready.get_map() and (found := ready.select(10)):
                for key, _ in found:
                    fresh = key.fileobj is self._socket
                    connection = self._socket.accept()[0] if fresh else key.data
                    self.requests += read_request(connection)
                    if not fresh:
                        ready.unregister(connection)
                    connection.close()
                    if fresh:  # the one that takes the place of the dead: the run has failed by now
                        for other in connections:
                            other.close()
                        return


def test_a_server_that_fails_on_a_prompt_does_not_get_it_once_for_each_kept_connection():
    server = Poisoned([1, 1, 1])
    with SyncClient(base_url=server.url, model="m", retries=0) as client:
        threads = [threading.Thread(target=client.run, args=("One?",)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with pytest.raises(StreamInterruptedError):
            client.run("Two?")
    server.close()
    assert server.requests == 3 + 2  # over one kept connection, and over a new one


def test_nor_does_it_under_asyncio():
    server = Poisoned([1, 1, 1])

    async def main() -> None:
        async with AsyncClient(base_url=server.url, model="m", retries=0) as client:
            await asyncio.gather(*(client.run("One?") for _ in range(3)))
            with pytest.raises(StreamInterruptedError):
                await client.run("Two?")

    asyncio.run(main())
    server.close()
    assert server.requests == 3 + 2


def test_a_connection_that_was_idle_for_too_long_is_not_used_again(connect, serve, monkeypatch):
    monkeypatch.setattr(http11, "_KEEPALIVE_S", -1)
    server = serve(says("Hi."), says("Hi again."))
    client = connect(server)
    assert client.stream("Hi?").text == "Hi."
    assert client.stream("Hi?").text == "Hi again."
    assert server.connections == 2


def chunked(text: str) -> bytes:
    event = b'data: {"choices": [{"delta": {"content": "%b"}, "finish_reason": "stop"}]}\n\n' % text.encode()
    pieces = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (event, b"data: [DONE]\n\n"))
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + pieces + b"0\r\n\r\n"


@pytest.mark.parametrize("first", [chunked("Hi."), body(), b"HTTP/1.1 204 No Content\r\n\r\n"])
@pytest.mark.parametrize("more", [chunked("Nobody asked."), b"\r\n", b"H"])
def test_what_a_server_sends_behind_its_response_is_no_answer_to_the_next_request(connect, serve, first, more):
    server = serve(Response([first + more], framing="none"), says("Hello."))
    client = connect(server, retries=0)
    with contextlib.suppress(StreamInterruptedError):
        assert client.stream("Hi?").text == "Hi."
    assert client.stream("Hello?").text == "Hello."
    assert server.connections == 2
