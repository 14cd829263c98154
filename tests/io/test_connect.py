"""Finding the way to a host: several addresses, deaf ones, ones that refuse, and requests that are not taken."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import h11
import httpx
import pytest

from tests.clients.harness import soon
from tests.server import PATIENCE_S, Response, says
from toolnexus import APIConnectionError, APITimeoutError
from toolnexus._io import async_network
from toolnexus._io.http11 import headers_of

Addresses = Callable[..., str]
NO_SUCH_FAMILY = 4242


@pytest.fixture
def resolve(monkeypatch: pytest.MonkeyPatch) -> Addresses:
    """Give the name `several.test` addresses: `resolve(port, ...)`; a port of 0 has an address of an unknown family."""
    real = socket.getaddrinfo

    def resolve(*ports: int) -> str:
        found: list[tuple[Any, ...]] = [
            (socket.AF_INET if port else NO_SUCH_FAMILY, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))
            for port in ports
        ]

        def getaddrinfo(host: Any, port: Any, *args: Any, flags: int = 0, **options: Any) -> Any:
            if host not in ("several.test", b"several.test"):
                return real(host, port, *args, **{**options, "flags": flags})
            if flags & socket.AI_NUMERICHOST:
                raise socket.gaierror("not a number")
            return found

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        return "http://several.test/v1"

    return resolve


@pytest.fixture
def closed_port() -> int:
    """A port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port that lets nobody in: its queue of new connections is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, contextlib.ExitStack() as stack:
        for _ in range(8):
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def test_the_next_address_is_tried_when_one_refuses(connect, serve, resolve, closed_port):
    server = serve(says("Hi."))
    assert connect(base_url=resolve(closed_port, server.port)).stream("Hi?").text == "Hi."


def test_the_next_address_is_tried_when_one_is_of_an_unknown_kind(connect, serve, resolve):
    server = serve(says("Hi."))
    assert connect(base_url=resolve(0, server.port)).stream("Hi?").text == "Hi."


def test_when_no_address_works_the_reason_is_told(connect, resolve, closed_port):
    client = connect(base_url=resolve(0, closed_port), retries=0)
    with pytest.raises(APIConnectionError, match=r"could not connect: .*(refused|failed)"):
        client.stream("Hi?")
    with pytest.raises(APIConnectionError, match="could not connect"):
        connect(base_url=resolve(0), retries=0).stream("Hi?")


def test_an_address_that_is_silent_does_not_keep_the_async_client_from_the_next(
    connect, kind, serve, resolve, deaf_port, monkeypatch
):
    if kind == "sync":
        return  # it tries one after the other
    monkeypatch.setattr(async_network, "_ATTEMPT_DELAY_S", 0.01)
    server = serve(says("Hi."))
    with soon():
        assert connect(base_url=resolve(deaf_port, server.port)).stream("Hi?").text == "Hi."


def test_of_two_addresses_that_answer_one_is_used(connect, serve, resolve, monkeypatch):
    monkeypatch.setattr(async_network, "_ATTEMPT_DELAY_S", 0)
    server = serve(says("Hi."))
    assert connect(base_url=resolve(server.port, server.port)).stream("Hi?").text == "Hi."
    server.wait_for(lambda: server.open_connections <= 1)


def test_families_take_turns(monkeypatch):
    tried: list[str] = []

    async def sock_connect(self: Any, sock: socket.socket, address: tuple[str, int]) -> None:
        tried.append(address[0])
        raise ConnectionRefusedError("no")

    def getaddrinfo(host: str, port: int, **options: Any) -> Any:
        v6 = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", (f"6-{n}", port)) for n in range(2)]
        return v6 + [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"4-{n}", port)) for n in range(3)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_connect", sock_connect)
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(async_network._connect_first("both.test", 80))
    assert [name for name in tried if name.startswith("4")] == ["4-0", "4-1", "4-2"]
    assert tried[:4] in (["6-0", "4-0", "6-1", "4-1"], ["4-0", "4-1", "4-2"])  # the second without IPv6


class Sink:
    """A host that takes connections and does with them what it is told."""

    def __init__(self, treat: Callable[[socket.socket], object]) -> None:
        self.over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._treat = treat
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _listen(self) -> None:
        with self._listener.accept()[0] as caller:
            self._treat(caller)
            self.over.wait(PATIENCE_S)

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._thread.join()
        self._listener.close()


LONG = "x" * 20_000_000


def test_a_request_that_is_not_taken_in_time_is_a_timeout(connect):
    with Sink(lambda caller: None) as sink:
        client = connect(base_url=sink.url, timeout=httpx.Timeout(30, write=0.2), retries=0)
        with soon(), pytest.raises(APITimeoutError, match="could not send the request in time"):
            client.stream(LONG)


def test_a_request_that_is_taken_slowly_but_steadily_is_sent(connect):
    def sip(caller: socket.socket) -> None:
        left = len(LONG)
        while left > 0 and (piece := caller.recv(1_000_000)):
            left -= len(piece)
            time.sleep(0.02)
        caller.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 69\r\n\r\n")
        caller.sendall(b'{"choices":[{"message":{"content":"Ah."},"finish_reason":"stop"}]}   ')

    with Sink(sip) as sink:
        client = connect(base_url=sink.url, timeout=httpx.Timeout(30, write=0.2), retries=0)
        with soon():
            began = time.monotonic()
            assert client.run(LONG).text == "Ah."
            assert time.monotonic() - began > 0.3


def test_a_host_that_hangs_up_while_the_request_is_sent_is_a_connection_error(connect):
    def reset(caller: socket.socket) -> None:
        caller.recv(1000)
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        caller.close()

    with Sink(reset) as sink:
        client = connect(base_url=sink.url, retries=0)
        with soon(), pytest.raises(APIConnectionError):
            client.stream(LONG)


def test_a_long_request_is_sent_whole(connect, serve):
    server = serve(says("Long."))
    assert connect(server).stream(LONG).text == "Long."
    assert server.requests[0].json["messages"][0]["content"] == LONG


def test_a_host_that_leaves_without_an_answer_is_told_of_as_that(connect, serve):
    client = connect(serve(Response(framing="none", end="close")), retries=0)
    with pytest.raises(APIConnectionError, match="the server disconnected without sending a response"):
        client.stream("Go.")


def test_a_long_head_is_read_and_one_without_an_end_is_refused(connect, serve):
    server = serve(says("Long.", headers={"x-long": "x" * 90_000}), says(headers={"x-long": "x" * 200_000}))
    client = connect(server, retries=0)
    assert client.stream("Go.").text == "Long."
    with pytest.raises(APIConnectionError):
        client.stream("Go.")


def test_the_values_of_a_header_that_came_twice_are_joined():
    head = h11.Response(status_code=200, headers=[(b"X-A", b"1"), (b"B", b"\xe9"), (b"x-a", b"2")])
    assert headers_of(head) == {"x-a": "1, 2", "b": "\xe9"}
