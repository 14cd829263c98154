"""The four ways to see a run: two clients, each by callback and step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.clients.harness import WAYS, Client, Outcome, new_client
from tests.server import Server
from toolnexus import Toolkit

Play = Callable[..., Outcome]


@pytest.fixture(params=list(WAYS))
def play(request: pytest.FixtureRequest, serve: Callable[..., Server]) -> Iterator[Play]:
    """Play one run against a server: `play(server, prompt, *tools, client_option=..., call={...})`.

    Called again with the same server and options it goes on with the same client.
    """
    kind, way = WAYS[request.param]
    clients: dict[str, Client] = {}

    def play(
        server: Server | None, prompt: Any = "Go.", *tools: Any, call: dict[str, Any] | None = None, **options: Any
    ) -> Outcome:
        key = f"{id(server)} {sorted((name, id(value)) for name, value in options.items())}"
        if key not in clients:
            clients[key] = new_client(kind, server, **options)
        return way(clients[key], prompt, Toolkit(*tools), **call or {})

    yield play
    for client in clients.values():
        client.__exit__(None, None, None)
