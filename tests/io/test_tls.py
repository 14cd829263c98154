"""Encrypted connections through both clients: the handshake, the end of it, and a cancel during each."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import httpx
import pytest

from tests.clients.harness import later, soon
from tests.server import PATIENCE_S, Gate, Response, Server, reply, says, text
from toolnexus import APIConnectionError, APITimeoutError, Cancel, DeadlineExceededError, RunCancelledError
from toolnexus._io.request import shared_ssl_context

CERTIFICATE = Path(__file__).with_name("loopback.pem")


def server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The test servers' certificate is one of the machine's."""
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    shared_ssl_context.cache_clear()
    yield
    shared_ssl_context.cache_clear()


@pytest.fixture
def serve_tls(serve: object, trusted: None) -> Iterator[Callable[..., Server]]:
    """As `serve`, encrypted."""
    with contextlib.ExitStack() as stack:
        yield lambda *script: stack.enter_context(Server(*script, tls=server_context()))


def test_a_run_over_tls(serve_tls, connect):
    server = serve_tls(says("Hel", "lo."), says("Again."))
    client = connect(server)
    assert client.stream("Hi?").text == "Hello."
    assert client.run("Hi?").text == "Again."
    assert server.connections == 1
    client.close()


def test_a_name_works_as_well_as_an_address(serve_tls, connect):
    server = serve_tls(says("Hello."))
    client = connect(base_url=server.url.replace("127.0.0.1", "localhost"))
    assert client.stream("Hi?").text == "Hello."
    client.close()


def test_a_long_answer_over_tls_is_whole(serve_tls, connect):
    pieces = ["x" * 1000 + str(n) for n in range(500)]
    client = connect(serve_tls(says(*pieces)))
    assert client.stream("Hi?").text == "".join(pieces)
    client.close()


def test_a_certificate_that_nobody_knows_is_a_connection_error(connect):
    with Server(says("Never."), tls=server_context()) as server:
        client = connect(server, retries=0)
        with pytest.raises(APIConnectionError, match="certificate verify failed"):
            client.stream("Hi?")
        assert server.requests == []


WAITS: dict[str, Callable[[Gate], Response]] = {
    "for the head": lambda gate: Response(before=gate),
    "for the next chunk": lambda gate: reply(text("Hel"), gate),
    "for more of a body without a length": lambda gate: reply(text("Hel"), gate, framing="close"),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_cancel_ends_a_run_that_waits_for_tls(serve_tls, connect, wait):
    gate = Gate()
    server = serve_tls(wait(gate), says("Next."))
    client = connect(server)
    cancel = Cancel()
    thread = later(cancel, gate.wait_reached)
    with soon(), pytest.raises(RunCancelledError):
        client.stream("Hi?", cancel=cancel)
    thread.join()
    server.requests[0].wait_left()
    assert client.stream("Next?").text == "Next."
    client.close()


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_deadline_ends_a_run_that_waits_for_tls(serve_tls, connect, wait):
    server = serve_tls(wait(Gate()))
    client = connect(server)
    with soon(), pytest.raises(DeadlineExceededError):
        client.stream("Hi?", deadline=0.3)
    server.requests[0].wait_left()


def test_a_stream_over_tls_that_is_left_closes_its_connection(serve_tls, connect):
    server = serve_tls(reply(text("Hel"), Gate()))
    with connect(server).iter_events("Hi?") as events:
        next(iter(events))
    server.requests[0].wait_left()


class Host:
    """A host that takes one connection, says `answer` to the first byte, and then nothing more."""

    def __init__(self, answer: bytes = b"") -> None:
        self.greeted, self.over = threading.Event(), threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._answer = answer
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"

    def _listen(self) -> None:
        with self._listener.accept()[0] as caller:
            caller.recv(1)
            caller.sendall(self._answer)
            self.greeted.set()
            self.over.wait(PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._thread.join()
        self._listener.close()


@pytest.fixture
def mute() -> Iterator[Host]:
    with Host() as host:
        yield host


def test_a_cancel_ends_a_handshake(connect, mute):
    cancel = Cancel()
    thread = later(cancel, mute.greeted.wait)
    with soon(), pytest.raises(RunCancelledError):
        connect(base_url=mute.url).stream("Hi?", cancel=cancel)
    thread.join()


def test_a_deadline_ends_a_handshake(connect, mute):
    with soon(), pytest.raises(DeadlineExceededError):
        connect(base_url=mute.url).stream("Hi?", deadline=0.2)


def test_a_handshake_that_takes_too_long_is_a_timeout(connect, mute):
    with soon(), pytest.raises(APITimeoutError, match="could not connect in time"):
        connect(base_url=mute.url, timeout=httpx.Timeout(30, connect=0.2), retries=0).stream("Hi?")


def test_a_server_that_speaks_no_tls_is_a_connection_error(connect):
    with Host(b"HTTP/1.1 400 Bad Request\r\n\r\n") as host:
        client = connect(base_url=host.url, retries=0)
        with pytest.raises(APIConnectionError, match=r"could not connect: .*SSL"):
            client.stream("Hi?")
