"""A conversation that goes on from send to send, for asyncio."""

from __future__ import annotations

import inspect
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from ._io.async_closing import aclosing
from ._io.async_stream import AsyncEventStream
from .cancel import Cancel
from .chunk_stream import ChunkStream, Hook, Observers, Watch
from .config import CallOptions, Prompt
from .errors import ConfigurationError, DeadlineExceededError, RunCancelledError
from .events import StreamEvent
from .messages import Message
from .results import RunResult
from .stores import Keep

if TYPE_CHECKING:
    import asyncio

    from ._io.launch import Call

Batches = AsyncGenerator[Sequence[StreamEvent], None]


class AsyncConversation:
    """A transcript that goes on from send to send, and the raw stream of its sends; made by `client.conversation()`.

    A send that is made while another one is in flight waits its turn.
    """

    def __init__(
        self,
        prepare: Callable[[Prompt, CallOptions], Call],
        drive: Callable[[Call], Batches],
        keep: Keep,
        keep_chunks: int | None,
    ) -> None:
        self.chunks = ChunkStream(keep_chunks)
        """The raw stream: hooks, chunks, summaries."""
        self._prepare = prepare
        self._drive = drive
        self._keep = keep
        self._observers: Observers[Message] = Observers()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._sender: asyncio.Task[object] | None = None
        self._is_sending = False
        self._sends = 0
        self._cancel: Cancel | None = None

    def __repr__(self) -> str:
        return f"<AsyncConversation id={self._keep.id!r} sends={self._sends}>"

    async def send(self, prompt: Prompt, **options: Unpack[CallOptions]) -> RunResult:
        """Send a prompt and wait for the answer; it is streamed, for those who hook into `chunks`."""
        async with self.stream(prompt, **options) as events:
            async for _ in events:
                pass
            return events.result

    def stream(self, prompt: Prompt, **options: Unpack[CallOptions]) -> AsyncEventStream:
        """Send a prompt; the run goes on as its events are asked for. Its end, or `aclose()`, lets the next send go."""
        if options.get("history") is not None:
            raise ConfigurationError("history: a conversation has its own")
        return AsyncEventStream(self._send(self._prepare(prompt, options)))

    iter_events = stream

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
        """Forget the transcript; chunks, summaries and hooks stay."""
        saved = self._keep.store.save(self._keep.id, [])
        if inspect.isawaitable(saved):
            await saved

    async def clear(self) -> None:
        """Forget the transcript, the chunks and their hooks; summaries stay."""
        await self.reset()
        self.chunks.clear()

    def interrupt(self) -> None:
        """End the send in flight with `RunCancelledError`, from any thread; without one it does nothing."""
        cancel = self._cancel
        if cancel is not None:
            cancel.cancel()

    async def _send(self, call: Call) -> Batches:
        cancel = Cancel()
        unlink = call.cancel.add_callback(cancel.cancel) if call.cancel is not None else lambda: None
        try:
            left = await self._wait_turn(cancel, call.deadline)
            try:
                self._cancel = cancel
                self._sends += 1
                self.chunks.begin()
                watch = Watch(self.chunks, self._observers, self._sends)
                mine = replace(call, cancel=cancel, deadline=left, watch=watch)
                async with aclosing(self._drive(mine)) as batches:
                    async for events in batches:
                        yield events
            finally:
                self._cancel = None
                self._pass_turn()
        finally:
            unlink()

    async def _wait_turn(self, cancel: Cancel, seconds: float | None) -> float | None:
        """Wait until no other send is in flight.

        Returns:
            Seconds that are left of the deadline.
        """
        import asyncio  # no conversation, no asyncio: it takes longer to import than the rest of this package

        from ._io.async_bounds import AsyncBounds

        me = asyncio.current_task()
        began = time.monotonic()
        if self._is_sending:
            if self._sender is me:
                raise ConfigurationError(
                    "a send of this task on this conversation is not over, so that the next would wait for ever: "
                    "read its events to the end, or close it, first"
                )
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            bounds = AsyncBounds(cancel, seconds)
            try:
                await asyncio.wait({turn, bounds.over}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                if cancel.cancelled:
                    raise RunCancelledError("the send was cancelled while it waited its turn")
                if not turn.done():
                    raise DeadlineExceededError(f"the send waited for its turn until its deadline of {seconds:g} s")
            except BaseException:
                if turn.done():
                    self._pass_turn()
                else:
                    self._waiting.remove(turn)
                raise
            finally:
                bounds.close()
        self._is_sending = True
        self._sender = me
        return None if seconds is None else max(seconds - (time.monotonic() - began), 1e-3)

    def _pass_turn(self) -> None:
        """The send is over: the one that has waited longest goes next."""
        self._sender = None
        if self._waiting:
            self._waiting.popleft().set_result(None)  # the turn goes over to it, still taken
        else:
            self._is_sending = False
