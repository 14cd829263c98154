from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.tables import sse_cases
from toolnexus._core.sse import ServerSentEvent, SSEDecoder
from toolnexus.errors import ProtocolError
from toolnexus.limits import Limits

CASES = sse_cases()
every_case = pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])


def decode(pieces: list[bytes], limits: Limits | None = None) -> tuple[list[dict[str, str]], str, int | None]:
    """The events as the tables spell them, the last event id, and the reconnection time."""
    decoder = SSEDecoder(limits or Limits())
    events = [event for piece in pieces for event in decoder.receive(piece)]
    plain = [{"type": e.type, "data": e.data.decode("utf-8", "replace"), "id": e.id} for e in events]
    return plain, decoder.last_event_id, decoder.retry


def expected(case: dict[str, Any]) -> tuple[list[dict[str, str]], str, int | None]:
    return case["expected"], case["last_event_id"], case["retry"]


@every_case
def test_a_stream_in_one_piece_gives_its_events(case: dict[str, Any]) -> None:
    assert decode([case["bytes"]]) == expected(case)


@every_case
def test_the_plain_reader_agrees(case: dict[str, Any]) -> None:
    assert oracle(case["bytes"]) == expected(case)


@every_case
def test_a_stream_byte_by_byte_gives_the_same_events(case: dict[str, Any]) -> None:
    assert decode([bytes((byte,)) for byte in case["bytes"]]) == expected(case)


def places(body: bytes) -> Iterator[int]:
    """Every offset of a small body; of a big one its ends, and a sample."""
    if len(body) <= 5000:
        return iter(range(len(body) + 1))
    rng = random.Random(len(body))
    middle = rng.sample(range(len(body)), 300)
    return iter(sorted({*range(50), *range(len(body) - 50, len(body) + 1), *middle}))


@every_case
def test_a_stream_split_anywhere_gives_the_same_events(case: dict[str, Any]) -> None:
    body = case["bytes"]
    for at in places(body):
        assert decode([body[:at], body[at:]]) == expected(case), at
        assert decode([body[:at], b"", body[at : at + 1], b"", body[at + 1 :]]) == expected(case), at


def test_the_table_is_whole() -> None:
    assert len(CASES) == 51
    assert all(case["origin"] for case in CASES)


# -- a reader that sees the stream whole; `tests/fuzz` compares any stream, cut anywhere


def oracle(body: bytes) -> tuple[list[dict[str, str]], str, int | None]:
    """The standard's algorithm on the decoded text, one character after the other."""
    text = body.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    *lines, _unfinished = text.split("\n")
    events: list[dict[str, str]] = []
    data, kind, last_id, retry = "", "", "", None
    dispatched_id = ""
    for line in lines:
        if not line:
            dispatched_id = last_id
            if data:
                events.append({"type": kind or "message", "data": data[:-1], "id": last_id})
            data, kind = "", ""
            continue
        if line.startswith(":"):
            continue
        field, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if field == "data":
            data += value + "\n"
        elif field == "event":
            kind = value
        elif field == "id" and "\0" not in value:
            last_id = value
        elif field == "retry" and value.isascii() and value.isdigit():
            retry = int(value)
    return events, dispatched_id, retry


# -- limits


@pytest.mark.parametrize("split", [1, 3, 1000])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
def test_a_line_of_exactly_the_limit_passes_and_one_byte_more_is_refused(split: int, start: bytes) -> None:
    limits = Limits(line_bytes=len(start) + 20)
    fits = start + b"data: " + b"x" * 14 + b"\n\n"
    pieces = [fits[i : i + split] for i in range(0, len(fits), split)]
    assert decode(pieces, limits)[0][0]["data"] == "x" * 14
    long = fits.replace(b"\n", b"x\n", 1)
    with pytest.raises(ProtocolError, match=r"one line .* exceeds 2. bytes \(Limits.line_bytes\)"):
        decode([long[i : i + split] for i in range(0, len(long), split)], limits)


def test_a_line_that_never_ends_is_refused_before_it_fills_the_memory() -> None:
    decoder = SSEDecoder(Limits(line_bytes=100))
    for _ in range(100):
        assert list(decoder.receive(b"x")) == []
    with pytest.raises(ProtocolError, match="line_bytes"):
        list(decoder.receive(b"x"))


def test_a_comment_counts_as_a_line() -> None:
    with pytest.raises(ProtocolError, match="line_bytes"):
        decode([b":" + b"x" * 20 + b"\n"], Limits(line_bytes=20))


@pytest.mark.parametrize("field", [b"data: ", b"data:"])
def test_an_event_of_many_lines_is_bounded_and_the_next_one_starts_anew(field: bytes) -> None:
    limits = Limits(event_bytes=30)  # each line counts with its line end
    line = field + b"x" * 9 + b"\n"
    assert [len(e["data"]) for e in decode([(line * 3 + b"\n") * 2], limits)[0]] == [29, 29]
    with pytest.raises(ProtocolError, match=r"one event .* exceeds 30 bytes \(Limits.event_bytes\)"):
        decode([line * 3 + field + b"\n"], limits)


def test_the_data_of_an_event_is_handed_over_as_bytes() -> None:
    events = SSEDecoder(Limits()).receive(b"event: e\nid: 1\ndata: \xff\n\n")
    assert list(events) == [ServerSentEvent(b"\xff", "e", "1")]
