"""A server that falls silent, at every place where it can: `cancel()` ends the wait within 0.3 s, in both clients."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

import httpx
import pytest

from tests.clients.harness import Blocking
from tests.io.test_tls import server_context, trusted  # noqa: F401  # a fixture
from tests.server import PATIENCE_S, finish, text
from tests.sweeps.answers import STREAMED
from tests.sweeps.cut_server import gzipped
from toolnexus import Cancel, RunCancelledError

PROMISED_S = 0.3
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNK = b"%x\r\n%b\r\n" % (len(text("Hel")[0]), text("Hel")[0])
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"

SAYS: dict[str, bytes] = {
    "before the head": b"",
    "in the status line": b"HTTP/1.1 20",
    "in a header": HEAD + b"x-request-i",
    "between headers and body": CHUNKED,
    "in the size of a chunk": CHUNKED + CHUNK + b"1",
    "in a chunk": CHUNKED + CHUNK + b"ff\r\ndata: {",
    "between chunks": CHUNKED + CHUNK,
    "in a body with a length": HEAD + b"content-length: 1000\r\n\r\n" + text("Hel")[0],
    "in a body without a length": HEAD + b"connection: close\r\n\r\n" + text("Hel")[0] + b"data: ",
    "in gzip": HEAD + b"content-encoding: gzip\r\n\r\n" + gzipped(STREAMED["openai"])[0][:300],
    "in an error": b"HTTP/1.1 400 Bad\r\ncontent-length: 100\r\n\r\n{",
    "in a reply that is no stream": HEAD + b"content-length: 100\r\n\r\n{",
    "after an interim response": b"HTTP/1.1 103 Early Hints\r\n\r\n",
    "between the finish reason and the end mark": CHUNKED + CHUNK + b"%x\r\n%b\r\n" % (len(finish()), finish()),
}


class Host:
    """Takes one connection and reads, says `data`, and is silent until the client leaves."""

    def __init__(self, data: bytes, tls: ssl.SSLContext | None = None, *, is_deaf: bool = False) -> None:
        self.silent, self.left = threading.Event(), threading.Event()
        self._data, self._tls, self._is_deaf = data, tls, is_deaf
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        caller, _ = self._listener.accept()
        caller.settimeout(PATIENCE_S)
        with self._tls.wrap_socket(caller, server_side=True) if self._tls else caller as caller:
            caller.recv(65536)
            caller.sendall(self._data)
            self.silent.set()
            if self._is_deaf:
                self.left.wait(PATIENCE_S)
                return
            with contextlib.suppress(OSError):
                while caller.recv(65536):
                    pass
            self.left.set()


def cancelled_after(client: Any, ready: Callable[[], object], prompt: str = "Go.") -> float:
    """Seconds from `cancel()` to the error."""
    cancel = Cancel()
    at: list[float] = []

    def work() -> None:
        ready()
        time.sleep(0.02)  # for the client to read what there is and to wait again; too short makes the test easier
        at.append(time.monotonic())
        cancel.cancel()

    thread = threading.Thread(target=work)
    thread.start()
    with pytest.raises(RunCancelledError):
        client.stream(prompt, cancel=cancel)
    took = time.monotonic() - at[0]
    thread.join()
    return took


@pytest.fixture
def within_promise(publish: Callable[..., None]) -> Callable[[float], None]:
    def check(took: float) -> None:
        assert took < PROMISED_S
        publish(waits=1, slowest_ms=took * 1000)

    return check


@pytest.mark.parametrize("data", SAYS.values(), ids=SAYS)
def test_a_cancel_ends_a_wait(connect, within_promise, data):
    with Host(data) as host:
        took = cancelled_after(connect(base_url=host.url), host.silent.wait)
        assert host.left.wait(PATIENCE_S)
    within_promise(took)


@pytest.mark.parametrize("data", SAYS.values(), ids=SAYS)
def test_a_cancel_ends_a_wait_over_tls(connect, within_promise, trusted, data):  # noqa: F811  # the fixture
    with Host(data, server_context()) as host:
        took = cancelled_after(connect(base_url=host.url), host.silent.wait)
        assert host.left.wait(PATIENCE_S)
    within_promise(took)


@pytest.mark.parametrize("data", SAYS.values(), ids=SAYS)
def test_a_cancel_ends_a_wait_over_a_callers_connection(connect, kind, within_promise, data):
    """The sync client can, once there is a head, and with it the connection's socket."""
    if kind == "sync" and b"\r\n\r\n" not in data.replace(SAYS["after an interim response"], b""):
        return
    http_client: Any = (httpx.Client if kind == "sync" else httpx.AsyncClient)(timeout=30)
    with Host(data) as host:
        client = connect(base_url=host.url, http_client=http_client)
        took = cancelled_after(client, host.silent.wait)
        if isinstance(client, Blocking):  # its event loop runs only as long as it is asked something
            client.runner.run(http_client.aclose())
        assert host.left.wait(PATIENCE_S)
    within_promise(took)


def test_a_cancel_ends_a_handshake(connect, within_promise):
    with Host(b"") as host:
        client = connect(base_url=host.url.replace("http:", "https:"))
        within_promise(cancelled_after(client, host.silent.wait))


@pytest.fixture
def deaf() -> Iterator[str]:
    """The URL of a host that lets nobody in: its queue of new connections is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, contextlib.ExitStack() as stack:
        for _ in range(8):
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_cancel_ends_a_connect(connect, within_promise, deaf):
    within_promise(cancelled_after(connect(base_url=deaf), lambda: time.sleep(0.1)))


def test_a_cancel_ends_the_sending_of_a_request(connect, within_promise):
    with Host(b"", is_deaf=True) as host:
        took = cancelled_after(connect(base_url=host.url), host.silent.wait, "x" * 20_000_000)
        host.left.set()
    within_promise(took)
