"""A conversation that goes on from send to send, for synchronous code."""

from __future__ import annotations

import inspect
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Unpack

from ._io.sync_stream import EventStream
from .cancel import Cancel
from .chunk_stream import ChunkStream, Hook, Observers, Watch
from .config import CallOptions, Prompt
from .errors import ConfigurationError, DeadlineExceededError, RunCancelledError
from .events import StreamEvent
from .messages import Message
from .results import RunResult
from .stores import Keep

if TYPE_CHECKING:
    from ._io.launch import Call

Batches = Generator[Sequence[StreamEvent], None, None]


@dataclass(eq=False, slots=True)
class _Place:
    """A send's place in the line."""

    thread: int


class Conversation:
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
        self._turn = threading.Condition()
        self._line: deque[_Place] = deque()
        """The sends, in their order: the first is in flight, the others wait."""
        self._sends = 0
        self._cancel: Cancel | None = None

    def __repr__(self) -> str:
        return f"<Conversation id={self._keep.id!r} sends={self._sends}>"

    def send(self, prompt: Prompt, **options: Unpack[CallOptions]) -> RunResult:
        """Send a prompt and wait for the answer; it is streamed, for those who hook into `chunks`."""
        return self.stream(prompt, **options)

    def stream(
        self,
        prompt: Prompt,
        on_event: Callable[[StreamEvent], object] | None = None,
        **options: Unpack[CallOptions],
    ) -> RunResult:
        """Send a prompt and show each event of the run as it happens."""
        if inspect.iscoroutinefunction(on_event):
            raise ConfigurationError(f"on_event: nobody would await {on_event!r}; use AsyncClient, or a plain function")
        with self.iter_events(prompt, **options) as events:
            for event in events:
                if on_event is not None:
                    on_event(event)
            return events.result

    def iter_events(self, prompt: Prompt, **options: Unpack[CallOptions]) -> EventStream:
        """Send a prompt; the run goes on as its events are asked for. Its end, or `close()`, lets the next send go."""
        if options.get("history") is not None:
            raise ConfigurationError("history: a conversation has its own")
        return EventStream(self._send(self._prepare(prompt, options)))

    @property
    def messages(self) -> list[Message]:
        """The transcript so far; a copy."""
        return list(self._keep.store.get(self._keep.id) or ())  # type: ignore[arg-type]  # a sync client's store is sync

    def on_message(self, callback: Callable[[Message], object]) -> Hook:
        """Call `callback` with each message that joins the transcript from now on, fire and forget."""
        return self._observers.add(callback)

    def reset(self) -> None:
        """Forget the transcript; chunks, summaries and hooks stay."""
        self._keep.store.save(self._keep.id, [])

    def clear(self) -> None:
        """Forget the transcript, the chunks and their hooks; summaries stay."""
        self.reset()
        self.chunks.clear()

    def interrupt(self) -> None:
        """End the send in flight with `RunCancelledError`, from any thread; without one it does nothing."""
        cancel = self._cancel
        if cancel is not None:
            cancel.cancel()

    def _send(self, call: Call) -> Batches:
        cancel = Cancel()
        unlink = call.cancel.add_callback(cancel.cancel) if call.cancel is not None else lambda: None
        try:
            left = self._wait_turn(cancel, call.deadline)
            try:
                self._cancel = cancel
                self._sends += 1
                self.chunks.begin()
                watch = Watch(self.chunks, self._observers, self._sends)
                yield from self._drive(replace(call, cancel=cancel, deadline=left, watch=watch))
            finally:
                self._cancel = None
                with self._turn:
                    self._line.popleft()
                    self._turn.notify_all()
        finally:
            unlink()

    def _wait_turn(self, cancel: Cancel, seconds: float | None) -> float | None:
        """Wait until no other send is in flight.

        Returns:
            Seconds that are left of the deadline.
        """
        expires = None if seconds is None else time.monotonic() + seconds
        me = threading.get_ident()

        def left() -> float | None:
            return None if expires is None else expires - time.monotonic()

        def wake() -> None:
            with self._turn:
                self._turn.notify_all()

        unlink = cancel.add_callback(wake)
        try:
            with self._turn:
                if self._line and self._line[0].thread == me:
                    raise ConfigurationError(
                        "a send of this thread on this conversation is not over, so that the next would wait for ever: "
                        "read its events to the end, or close it, first"
                    )
                place = _Place(me)
                self._line.append(place)
                try:
                    while self._line[0] is not place:
                        if cancel.cancelled:
                            raise RunCancelledError("the send was cancelled while it waited its turn")
                        remaining = left()
                        if remaining is not None and remaining <= 0:
                            raise DeadlineExceededError(
                                f"the send waited for its turn until its deadline of {seconds:g} s"
                            )
                        self._turn.wait(remaining)
                except BaseException:
                    self._line.remove(place)
                    self._turn.notify_all()
                    raise
        finally:
            unlink()
        remaining = left()
        return None if remaining is None else max(remaining, 1e-3)
