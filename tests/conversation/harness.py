"""Both kinds of conversation behind the methods of the sync one, so that a test is written once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.clients.harness import Blocking, BlockingEvents, Client
from tests.server import PATIENCE_S
from toolnexus import (
    Chunk,
    ChunkStream,
    Conversation,
    Hook,
    Message,
    RunResult,
    StreamEvent,
    SyncClient,
    Toolkit,
)


class BlockingConversation:
    """An `AsyncConversation` behind the methods of a `Conversation`."""

    def __init__(self, blocking: Blocking, toolkit: Toolkit, id: str | None, **options: Any) -> None:
        self._runner = blocking.runner
        self._chat = blocking.client.conversation(toolkit, id, **options)

    @property
    def chunks(self) -> ChunkStream:
        return self._chat.chunks

    @property
    def messages(self) -> list[Message]:
        return self._chat.messages

    def send(self, prompt: Any, **options: Any) -> RunResult:
        return self._runner.run(self._chat.send(prompt, **options))

    def stream(self, prompt: Any, on_event: Callable[[StreamEvent], object] | None = None, **options: Any) -> RunResult:
        async def run() -> RunResult:
            async with self._chat.stream(prompt, **options) as events:
                async for event in events:
                    if on_event is not None:
                        on_event(event)
                return events.result

        return self._runner.run(run())

    def iter_events(self, prompt: Any, **options: Any) -> BlockingEvents:
        return BlockingEvents(self._runner, self._chat.iter_events(prompt, **options))

    def resume(self, answers: Any, **options: Any) -> RunResult:
        return self._runner.run(self._chat.resume(answers, **options))

    def resume_stream(self, answers: Any, **options: Any) -> BlockingEvents:
        return BlockingEvents(self._runner, self._chat.resume_stream(answers, **options))

    def on_message(self, callback: Callable[[Message], object]) -> Hook:
        return self._chat.on_message(callback)

    def reset(self) -> None:
        self._runner.run(self._chat.reset())

    def clear(self) -> None:
        self._runner.run(self._chat.clear())

    def interrupt(self) -> None:
        self._chat.interrupt()

    def wait(self, event: threading.Event) -> bool:
        """Let the loop run until `event` is set."""
        return self._runner.run(asyncio.to_thread(event.wait, PATIENCE_S))

    def __repr__(self) -> str:
        return repr(self._chat)


Chat = Conversation | BlockingConversation


def new_conversation(client: Client, *tools: Any, id: str | None = None, **options: Any) -> Chat:
    if isinstance(client, SyncClient):
        return client.conversation(Toolkit(*tools), id, **options)
    return BlockingConversation(client, Toolkit(*tools), id, **options)


def wait(chat: Chat, event: threading.Event) -> None:
    """Wait for what an async callback of `chat` sets."""
    assert chat.wait(event) if isinstance(chat, BlockingConversation) else event.wait(PATIENCE_S)


@dataclass
class Log:
    """What a conversation showed to those who watch it, in the order in which it did."""

    chunks: list[Chunk] = field(default_factory=list)
    order: list[str] = field(default_factory=list)

    def watch(self, chat: Chat) -> Log:
        def chunk_came(chunk: Chunk) -> None:
            self.chunks.append(chunk)
            self.order.append(chunk.type)

        chat.chunks.hook().do(chunk_came)
        chat.on_message(lambda message: self.order.append(f"message {message.role}"))
        return self

    @property
    def types(self) -> list[str]:
        return [chunk.type for chunk in self.chunks]
