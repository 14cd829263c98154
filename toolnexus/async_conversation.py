"""A conversation that goes on from send to send, for asyncio."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Unpack

from . import results
from ._io.async_stream import AsyncEventStream
from .chunk_stream import ChunkStream, Hook, Observers, Watch
from .config import CallOptions, Prompt
from .errors import ConfigurationError
from .events import StreamEvent
from .messages import Message
from .stores import Keep
from .suspension import Answer

if TYPE_CHECKING:
    from ._io.bounds import Bounds
    from ._io.launch import Call, Resumption

Batches = AsyncGenerator[Sequence[StreamEvent], None]


class AsyncConversation:
    """A transcript that goes on from send to send, and the raw stream of its sends; made by `client.conversation()`.

    A send that is made while another one is in flight waits its turn, as does whatever else goes on with its id.
    """

    def __init__(
        self,
        prepare: Callable[[Prompt | Resumption, CallOptions, Callable[[Bounds], Watch]], Call],
        drive: Callable[[Call], Batches],
        forget: Callable[[Keep], Awaitable[None]],
        keep: Keep,
        keep_chunks: int | None,
    ) -> None:
        self.chunks = ChunkStream(keep_chunks)
        """The raw stream: hooks, chunks, summaries."""
        self._prepare = prepare
        self._drive = drive
        self._forget = forget
        self._keep = keep
        self._observers: Observers[Message] = Observers()
        self._sends = 0
        self._in_flight: Bounds | None = None
        """Those of the latest send whose turn has come; they are closed once it is over."""

    def __repr__(self) -> str:
        return f"<AsyncConversation id={self._keep.id!r} sends={self._sends}>"

    async def send(self, prompt: Prompt, **options: Unpack[CallOptions]) -> results.RunResult:
        """Send a prompt and wait for the answer; it is streamed, for those who hook into `chunks`."""
        return await _finished(self.stream(prompt, **options))

    def stream(self, prompt: Prompt, **options: Unpack[CallOptions]) -> AsyncEventStream:
        """Send a prompt; the run goes on as its events are asked for. Its end, or `aclose()`, lets the next send go."""
        if options.get("history") is not None:
            raise ConfigurationError("history: a conversation has its own")
        return AsyncEventStream(self._drive(self._prepare(prompt, options, self._begin)))

    iter_events = stream

    async def resume(self, answers: Answer | Sequence[Answer], **options: Unpack[CallOptions]) -> results.RunResult:
        """Carry on a send that waits for answers, as `client.resume` does; a send of its own, with its own chunks."""
        return await _finished(self.resume_stream(answers, **options))

    def resume_stream(self, answers: Answer | Sequence[Answer], **options: Unpack[CallOptions]) -> AsyncEventStream:
        """`resume` as an async iterator, which goes on as its events are asked for."""
        from ._io.launch import Resumption

        what = Resumption.of(answers, self._keep.id)
        return AsyncEventStream(self._drive(self._prepare(what, options, self._begin)))

    @property
    def messages(self) -> list[Message]:
        """The transcript so far; a copy.

        Raises:
            ConfigurationError: The store is async; ask it: `await client.conversation_store().get(id)`.
        """
        if inspect.iscoroutinefunction(self._keep.store.get):
            raise ConfigurationError("messages: the store is async; await its get(id) instead")
        return list(self._keep.store.get(self._keep.id) or ())  # type: ignore[arg-type]  # it is sync, see above

    def on_message(self, callback: Callable[[Message], object]) -> Hook:
        """Call `callback` with each message that joins the transcript from now on, fire and forget."""
        return self._observers.add(callback)

    async def reset(self) -> None:
        """Forget the transcript; chunks, summaries and hooks stay. Waits for the end of a send in flight.

        Raises:
            ConfigurationError: That send waits for this call: it is made by a tool or hook of it, or while its events
                are half read.
        """
        async with self._between_sends():
            await self._forget(self._keep)

    async def clear(self) -> None:
        """Forget the transcript, the chunks and their hooks; summaries stay. Waits and may be refused as `reset`."""
        async with self._between_sends():
            await self._forget(self._keep)
            self.chunks.clear()

    def interrupt(self) -> None:
        """End the send in flight with `RunCancelledError`, from any thread; without one it does nothing."""
        bounds = self._in_flight
        if bounds is not None:
            bounds.end("the send was interrupted")

    def _begin(self, bounds: Bounds) -> Watch:
        """The turn of a send has come."""
        self._in_flight = bounds
        self._sends += 1
        self.chunks.begin()
        return Watch(self.chunks, self._observers, self._sends)

    @contextlib.asynccontextmanager
    async def _between_sends(self) -> AsyncGenerator[None, None]:
        """Wait until no run is at work on the transcript, and let none begin meanwhile."""
        from ._io.async_bounds import AsyncBounds
        from ._io.lines import Place

        place, bounds = Place(self._keep), AsyncBounds(None, None)
        try:
            await place.aenter(bounds)
            yield
        finally:
            place.leave()


async def _finished(events: AsyncEventStream) -> results.RunResult:
    async with events:
        async for _ in events:
            pass
        return events.result
