"""Conversations of both kinds with a server on loopback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.clients.harness import Client
from tests.conversation.harness import Chat, new_conversation
from tests.server import Server

Converse = Callable[..., Chat]


@pytest.fixture
def converse(connect: Callable[..., Client]) -> Converse:
    """Begin a conversation: `converse(server, *tools, id=..., keep_chunks=..., client_option=...)`."""

    def converse(
        server: Server, *tools: Any, id: str | None = None, keep_chunks: int | None = None, **options: Any
    ) -> Chat:
        return new_conversation(connect(server, **options), *tools, id=id, keep_chunks=keep_chunks)

    return converse
