"""Fixtures for tests that talk to a server on loopback."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.clients.harness import CLIENTS, Client, new_client
from tests.queues import Watched, standing
from tests.server import Response, Server
from toolnexus._io import lines

_TOUCHES = ("OPENAI_", "OPENROUTER_", "ANTHROPIC_", "SSL_CERT_")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, endpoint or proxy of the developer's own reaches a test."""
    for name in list(os.environ):
        if name.startswith(_TOUCHES) or name.lower() in _PROXIES:
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _nobody_is_left_in_line() -> Iterator[None]:
    """Every run gives up its place in the line of its conversation, however it ended."""
    yield
    if standing():
        gc.collect()  # a run that a failed test has let go of
    assert lines._lines == {}


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """The lines of those who wait for a conversation, to wait until somebody stands there."""
    watched = Watched()
    monkeypatch.setattr(lines, "deque", watched.deque)
    return watched


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Start servers: `serve(response, ...)`. At the end every client must have closed its connections to them."""
    servers: list[Server] = []

    def start(*script: Response) -> Server:
        servers.append(Server(*script))
        return servers[-1]

    try:
        yield start
        for server in servers:
            server.wait_all_closed()
    finally:
        for server in servers:
            server.close()


@pytest.fixture(params=list(CLIENTS))
def connect(request: pytest.FixtureRequest, serve: Callable[..., Server]) -> Iterator[Callable[..., Client]]:
    """Make clients of one kind, the async one behind the sync one's methods: `connect(server, **options)`."""
    clients: list[Client] = []

    def connect(server: Server | None = None, **options: Any) -> Client:
        clients.append(new_client(request.param, server, **options))
        return clients[-1]

    yield connect
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def kind(request: pytest.FixtureRequest, connect: Callable[..., Client]) -> str:
    """Which of the two clients this test runs with."""
    param: str = request.node.callspec.params["connect"]
    return param
