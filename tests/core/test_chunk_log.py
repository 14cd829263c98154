from __future__ import annotations

import dataclasses

import pytest

from toolnexus._core.chunk_log import ChunkLog
from toolnexus.chunks import Chunk, ContentChunk, FinishChunk, ReasoningChunk, ToolCallDeltaChunk, UsageChunk
from toolnexus.results import Usage

USAGE = Usage(total_tokens=3)


def filled_log(batch: int = 1) -> ChunkLog:
    """One chunk of each kind, over two rounds and two times."""
    log = ChunkLog(batch)
    log.round, log.now = 1, 10.5
    log.content("Hel")
    log.reasoning("Hm.")
    log.tool_call_delta("{}", 1, "c2", "look")
    log.round, log.now = 2, 11.5
    log.usage(USAGE)
    log.finish("stop", artificial=False)
    return log


def test_each_chunk_has_its_number_its_batch_its_round_and_the_time_of_its_read() -> None:
    assert filled_log(batch=3).take() == [
        ContentChunk("Hel", seq=0, batch=3, round=1, timestamp=10.5),
        ReasoningChunk("Hm.", seq=1, batch=3, round=1, timestamp=10.5),
        ToolCallDeltaChunk("{}", 1, "c2", "look", seq=2, batch=3, round=1, timestamp=10.5),
        UsageChunk(USAGE, seq=3, batch=3, round=2, timestamp=11.5),
        FinishChunk("stop", seq=4, batch=3, round=2, timestamp=11.5),
    ]


def test_what_was_taken_does_not_come_again_and_numbering_goes_on() -> None:
    log = filled_log()
    assert len(log.take()) == 5
    assert log.take() == []
    log.content("lo!")
    assert log.take() == [ContentChunk("lo!", seq=5, batch=1, round=2, timestamp=11.5)]


def test_a_finish_that_the_provider_did_not_send_says_so() -> None:
    log = ChunkLog(1)
    log.finish(None, artificial=True)
    assert log.take() == [FinishChunk(None, artificial=True, seq=0, batch=1, round=0, timestamp=0.0)]


def test_chunks_are_frozen_and_have_no_room_for_anything_else() -> None:
    for chunk in filled_log().take():
        assert isinstance(chunk, Chunk)
        with pytest.raises(dataclasses.FrozenInstanceError):
            chunk.seq = 7  # type: ignore[misc]  # that it is refused is the point
        with pytest.raises((AttributeError, TypeError)):
            chunk.note = "x"  # type: ignore[union-attr]  # that it is refused is the point
