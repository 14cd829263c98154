"""One scenario through both clients: the async one is put behind the sync one's methods.

`Blocking` runs an `AsyncClient` on an event loop of its own, so that a test is written once, in plain code, and
holds for both. Each step of its `iter_events` is a task of its own, as when an async stream is handed around.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tests.server import Server
from toolnexus import (
    AsyncClient,
    AsyncEventStream,
    Cancel,
    Message,
    RunResult,
    StreamEvent,
    SyncClient,
    TextPart,
    Toolkit,
)
from toolnexus.messages import ImagePart, OpaquePart, ReasoningPart, ToolCallPart, ToolResultPart

MODEL = "test-model"


class BlockingEvents:
    """An `AsyncEventStream` behind the methods of an `EventStream`."""

    def __init__(self, runner: asyncio.Runner, events: AsyncEventStream) -> None:
        self._runner = runner
        self._events = events

    def __iter__(self) -> Iterator[StreamEvent]:
        return self

    def __next__(self) -> StreamEvent:
        async def step() -> StreamEvent | None:
            return await anext(self._events, None)

        event = self._runner.run(step())
        if event is None:
            raise StopIteration
        return event

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._runner.run(self._events.aclose())

    @property
    def result(self) -> RunResult:
        return self._events.result


class Blocking:
    """An `AsyncClient` behind the methods of a `SyncClient`."""

    def __init__(self, **options: Any) -> None:
        self.runner = asyncio.Runner()
        try:
            self.client = AsyncClient(**options)
        except BaseException:
            self.runner.close()
            raise

    def stream(
        self,
        prompt: Any,
        toolkit: Any = None,
        on_event: Callable[[StreamEvent], object] | None = None,
        id: str | None = None,
        **options: Any,
    ) -> RunResult:
        async def run() -> RunResult:
            async with self.client.stream(prompt, toolkit, id, **options) as events:
                async for event in events:
                    if on_event is not None:
                        on_event(event)
                return events.result

        return self.runner.run(run())

    def iter_events(self, *args: Any, **options: Any) -> BlockingEvents:
        return BlockingEvents(self.runner, self.client.stream(*args, **options))

    def run(self, *args: Any, **options: Any) -> RunResult:
        return self.runner.run(self.client.run(*args, **options))

    def ask(self, *args: Any, **options: Any) -> RunResult:
        return self.runner.run(self.client.ask(*args, **options))

    def resume(self, *args: Any, **options: Any) -> RunResult:
        return self.runner.run(self.client.resume(*args, **options))

    def resume_stream(self, *args: Any, **options: Any) -> BlockingEvents:
        return BlockingEvents(self.runner, self.client.resume_stream(*args, **options))

    def as_tool(self, *args: Any, **options: Any) -> Any:
        return self.client.as_tool(*args, **options)

    def conversation_store(self) -> Any:
        return self.client.conversation_store()

    def close(self) -> None:
        self.runner.run(self.client.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
        self.runner.close()

    def __repr__(self) -> str:
        return repr(self.client)

    def __reduce__(self) -> Any:
        return self.client.__reduce__()


Client = SyncClient | Blocking
CLIENTS: dict[str, type[SyncClient] | type[Blocking]] = {"sync": SyncClient, "async": Blocking}


@dataclass
class Outcome:
    """What one run told, and how it ended."""

    events: list[StreamEvent] = field(default_factory=list)
    result: RunResult | None = None
    error: BaseException | None = None

    def ended(self) -> RunResult:
        """The result of a run that ended well."""
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result

    @property
    def shown(self) -> list[tuple[Any, ...]]:
        return [shown(event) for event in self.events]

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]


def by_callback(client: Client, prompt: Any, toolkit: Toolkit | None = None, **options: Any) -> Outcome:
    outcome = Outcome()
    try:
        outcome.result = client.stream(prompt, toolkit, outcome.events.append, **options)
    except BaseException as error:
        outcome.error = error
    return outcome


def by_iterator(client: Client, prompt: Any, toolkit: Toolkit | None = None, **options: Any) -> Outcome:
    outcome = Outcome()
    try:
        with client.iter_events(prompt, toolkit, **options) as events:
            for event in events:
                outcome.events.append(event)
            outcome.result = events.result
    except BaseException as error:
        outcome.error = error
    return outcome


WAYS: dict[str, tuple[str, Callable[..., Outcome]]] = {
    "sync stream": ("sync", by_callback),
    "sync iter_events": ("sync", by_iterator),
    "async stream": ("async", by_callback),
    "async stream, step by step": ("async", by_iterator),
}


def new_client(kind: str, server: Server | None = None, **options: Any) -> Client:
    """A client for `server` with quick retries."""
    if server is not None:
        options.setdefault("base_url", server.url)
    return CLIENTS[kind](**{"model": MODEL, "retry_base": 0.001, **options})


def shown(event: StreamEvent) -> tuple[Any, ...]:
    """An event as a short tuple."""
    match event.type:
        case "text" | "reasoning":
            return (event.type, event.delta)
        case "tool_call":
            return (event.type, event.id, event.name, event.args)
        case "tool_result":
            return (event.type, event.id, event.output, event.is_error)
        case "usage":
            return (event.type, event.usage.total_tokens)
        case "pending":
            return (event.type, event.request.prompt)
        case "done":
            return (event.type, event.result.status)


def transcript(messages: list[Message]) -> list[tuple[Any, ...]]:
    """Messages as short tuples: (role, part, ...)."""
    return [(message.role, *map(_part, message.parts)) for message in messages]


def _part(part: Any) -> Any:
    match part:
        case TextPart(text):
            return text
        case ToolCallPart():
            return (part.id, part.name, part.args, "waiting" if part.request else part.state)
        case ToolResultPart():
            return (part.id, part.output, part.is_error)
        case ReasoningPart() | ImagePart() | OpaquePart():
            return part


@contextlib.contextmanager
def soon() -> Iterator[None]:
    """What happens inside takes well below the time that it could wait."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < 5


def later(cancel: Cancel, ready: Callable[[], object]) -> threading.Thread:
    """Cancel from another thread, once `ready` returns."""

    def work() -> None:
        ready()
        cancel.cancel()

    thread = threading.Thread(target=work)
    thread.start()
    return thread
