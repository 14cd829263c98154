"""The events of a run, one by one, in whichever way they are asked for."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import pytest

from toolnexus import DoneEvent, RunResult, StreamEvent, TextEvent
from toolnexus._io.sync_stream import EventStream

RESULT = RunResult(text="abcde", messages=[], status="done")


def batches(ends: list[str]) -> Generator[Sequence[StreamEvent], None, None]:
    try:
        yield ()
        yield [TextEvent("a")]
        yield [TextEvent("b"), TextEvent("c"), TextEvent("d")]
        yield (TextEvent("e"), DoneEvent(RESULT))
    finally:
        ends.append("ended")


def text(event: StreamEvent) -> str:
    return event.delta if isinstance(event, TextEvent) else event.type


def test_loops_and_next_take_turns_without_losing_an_event():
    stream = EventStream(batches([]))
    seen = [text(next(stream))]
    for event in stream:
        seen.append(text(event))
        if len(seen) == 3:
            break
    seen.append(text(next(stream)))
    with pytest.raises(RuntimeError, match="no result yet"):
        _ = stream.result
    seen += map(text, stream)
    assert seen == ["a", "b", "c", "d", "e", "done"]
    assert stream.result is RESULT
    assert list(stream) == []


def test_the_result_is_there_with_the_event_that_brings_it():
    stream = EventStream(batches([]))
    for event in stream:
        if isinstance(event, DoneEvent):
            assert stream.result is event.result


def test_nothing_comes_after_the_close_even_if_it_was_there():
    ends: list[str] = []
    stream = EventStream(batches(ends))
    loop = iter(stream)
    assert [text(next(loop)), text(next(stream))] == ["a", "b"]
    stream.close()
    assert ends == ["ended"]
    assert list(stream) == list(loop) == []
    stream.close()


def test_a_loop_that_is_left_lets_go_of_the_run():
    ends: list[str] = []
    for _ in EventStream(batches(ends)):
        break
    assert ends == ["ended"]
