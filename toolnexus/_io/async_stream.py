"""The events of one run as an async iterator, for the async world."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from types import TracebackType
from typing import Self

from .. import results
from ..events import DoneEvent, StreamEvent


class AsyncEventStream:
    """The events of one run, one by one as they happen: lazy, single use, an async context manager.

    Nothing is sent before the first event is asked for. Leaving the `async with` block, or `aclose()`, ends the run
    and its connection; after a `break` out of a bare `async for` that waits until the object is collected.
    """

    def __init__(self, batches: AsyncGenerator[Sequence[StreamEvent], None]) -> None:
        self._batches = batches
        self._batch: Iterator[StreamEvent] = iter(())
        self._result: results.RunResult | None = None

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self

    async def __anext__(self) -> StreamEvent:
        for event in self._batch:  # the next one, if there is one
            return event
        while True:
            batch = iter(await anext(self._batches))
            for event in batch:
                self._batch = batch
                if type(event) is DoneEvent:
                    self._result = event.result
                return event

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the run if it is not over; may be called again."""
        self._batch = iter(())
        await self._batches.aclose()

    @property
    def result(self) -> results.RunResult:
        """The run's result, after its `DoneEvent`.

        Raises:
            RuntimeError: The run is not over, or did not end well.
        """
        if self._result is None:
            raise RuntimeError("the run has no result yet; read the events to their end first")
        return self._result
