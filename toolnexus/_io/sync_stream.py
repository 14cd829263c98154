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
        self._results: list[results.RunResult] = []
        self._events = _one_by_one(batches, self._results)

    def __iter__(self) -> Iterator[StreamEvent]:
        return self._events  # not self: a `for` would call our `__next__` for every event

    def __next__(self) -> StreamEvent:
        return next(self._events)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the run if it is not over; may be called again."""
        self._events.close()
        self._batches.close()

    @property
    def result(self) -> results.RunResult:
        """The run's result, after its `DoneEvent`.

        Raises:
            RuntimeError: The run is not over, or did not end well.
        """
        if not self._results:
            raise RuntimeError("the run has no result yet; read the events to their end first")
        return self._results[0]


def _one_by_one(
    batches: Iterator[Sequence[StreamEvent]], given_out: list[results.RunResult]
) -> Generator[StreamEvent, None, None]:
    """The events of `batches`; the run's result is in `given_out` when the `DoneEvent` is given out."""
    for events in batches:
        if events and type(last := events[-1]) is DoneEvent:
            given_out.append(last.result)
        yield from events
