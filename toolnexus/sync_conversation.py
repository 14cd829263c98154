"""A conversation that goes on from send to send, for synchronous code."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Unpack

from . import results
from ._io.sync_stream import EventStream
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

Batches = Generator[Sequence[StreamEvent], None, None]


class Conversation:
    """A transcript that goes on from send to send, and the raw stream of its sends; made by `client.conversation()`.

    A send that is made while another one is in flight waits its turn, as does whatever else goes on with its id.
    """

    def __init__(
        self,
        prepare: Callable[[Prompt | Resumption, CallOptions, Callable[[Bounds], Watch]], Call],
        drive: Callable[[Call], Batches],
        forget: Callable[[Keep], None],
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
        return f"<Conversation id={self._keep.id!r} sends={self._sends}>"

    def send(self, prompt: Prompt, **options: Unpack[CallOptions]) -> results.RunResult:
        """Send a prompt and wait for the answer; it is streamed, for those who hook into `chunks`."""
        return self.stream(prompt, **options)

    def stream(
        self,
        prompt: Prompt,
        on_event: Callable[[StreamEvent], object] | None = None,
        **options: Unpack[CallOptions],
    ) -> results.RunResult:
        """Send a prompt and show each event of the run as it happens."""
        return _shown(self.iter_events(prompt, **options), on_event)

    def iter_events(self, prompt: Prompt, **options: Unpack[CallOptions]) -> EventStream:
        """Send a prompt; the run goes on as its events are asked for. Its end, or `close()`, lets the next send go."""
        if options.get("history") is not None:
            raise ConfigurationError("history: a conversation has its own")
        return EventStream(self._drive(self._prepare(prompt, options, self._begin)))

    def resume(
        self,
        answers: Answer | Sequence[Answer],
        on_event: Callable[[StreamEvent], object] | None = None,
        **options: Unpack[CallOptions],
    ) -> results.RunResult:
        """Carry on a send that waits for answers, as `client.resume` does; a send of its own, with its own chunks."""
        return _shown(self.resume_stream(answers, **options), on_event)

    def resume_stream(self, answers: Answer | Sequence[Answer], **options: Unpack[CallOptions]) -> EventStream:
        """`resume` as an iterator, which goes on as its events are asked for."""
        from ._io.launch import Resumption

        return EventStream(self._drive(self._prepare(Resumption.of(answers, self._keep.id), options, self._begin)))

    @property
    def messages(self) -> list[Message]:
        """The transcript so far; a copy."""
        return list(self._keep.store.get(self._keep.id) or ())  # type: ignore[arg-type]  # a sync client's store is sync

    def on_message(self, callback: Callable[[Message], object]) -> Hook:
        """Call `callback` with each message that joins the transcript from now on, fire and forget."""
        return self._observers.add(callback)

    def reset(self) -> None:
        """Forget the transcript; chunks, summaries and hooks stay. Waits for the end of a send in flight.

        Raises:
            ConfigurationError: That send waits for this call: it is made by a tool or hook of it, or while its events
                are half read.
        """
        with self._between_sends():
            self._forget(self._keep)

    def clear(self) -> None:
        """Forget the transcript, the chunks and their hooks; summaries stay. Waits and may be refused as `reset`."""
        with self._between_sends():
            self._forget(self._keep)
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

    @contextlib.contextmanager
    def _between_sends(self) -> Generator[None, None, None]:
        """Wait until no run is at work on the transcript, and let none begin meanwhile."""
        from ._io.bounds import Bounds
        from ._io.lines import Place

        place, bounds = Place(self._keep), Bounds(None, None)
        try:
            place.enter(bounds)
            yield
        finally:
            place.leave()


def _shown(events: EventStream, on_event: Callable[[StreamEvent], object] | None) -> results.RunResult:
    if inspect.iscoroutinefunction(on_event):
        raise ConfigurationError(f"on_event: nobody would await {on_event!r}; use AsyncClient, or a plain function")
    with events:
        for event in events:
            if on_event is not None:
                on_event(event)
        return events.result
