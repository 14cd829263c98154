"""The events of one run as an iterator, for the sync world."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from types import TracebackType
from typing import Self

from .. import results
from ..events import DoneEvent, StreamEvent


class EventStream:
    """The events of one run, one by one as they happen: lazy, single use, a context manager.

    Nothing is sent before the first event is asked for. Leaving the `with` block, or `close()`, ends the run and
    its connection.
    """

    def __init__(self, batches: Generator[Sequence[StreamEvent], None, None]) -> None:
        self._batches = batches
        self._batch: Iterator[StreamEvent] = iter(())
        self._result: results.RunResult | None = None

    def __iter__(self) -> Iterator[StreamEvent]:
        return self

    def __next__(self) -> StreamEvent:
        for event in self._batch:  # the next one, if there is one
            return event
        while True:
            batch = iter(next(self._batches))
            for event in batch:
                self._batch = batch
                if type(event) is DoneEvent:
                    self._result = event.result
                return event

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the run if it is not over; may be called again."""
        self._batch = iter(())
        self._batches.close()

    @property
    def result(self) -> results.RunResult:
        """The run's result, after its `DoneEvent`.

        Raises:
            RuntimeError: The run is not over, or did not end well.
        """
        if self._result is None:
            raise RuntimeError("the run has no result yet; read the events to their end first")
        return self._result
