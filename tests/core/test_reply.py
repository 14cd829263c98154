from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

import pytest

from tests.core.scripted import DONE, chunk, make_run, reading, sse
from toolnexus._core.reply import Reply
from toolnexus._core.run import AgentRun
from toolnexus._core.turn import DRAIN_S, LINGER_S, Turn
from toolnexus._core.wire.openai import OpenAIReader
from toolnexus.errors import (
    APIStatusError,
    AuthenticationError,
    OverloadedError,
    ProtocolError,
    RateLimitError,
    StreamInterruptedError,
)
from toolnexus.events import StreamEvent, TextEvent
from toolnexus.limits import Limits

BOM = b"\xef\xbb\xbf"
STREAM = sse(chunk("Hi"), chunk(finish="stop"), "[DONE]")
WHOLE = json.dumps({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}).encode()


def read(
    pieces: Iterable[bytes], status: int = 200, now: float = 0.0, limits: Limits | None = None, **headers: str
) -> str:
    """The text of a reply."""
    turn = Turn(limits or Limits())
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    reply = Reply(status, named, now, OpenAIReader(turn), turn, limits or Limits())
    for piece in pieces:
        if not reply.wants_bytes:
            break
        reply.receive(piece)
    reply.ended()
    return turn.text


def byte_by_byte(body: bytes) -> list[bytes]:
    return [bytes((byte,)) for byte in body]


# -- what a body is


@pytest.mark.parametrize("content_type", [None, "text/event-stream", "application/json", "text/html", "nonsense"])
@pytest.mark.parametrize("body", [STREAM, WHOLE, b"\n\n" + STREAM, b" \r\n" + WHOLE, BOM + STREAM, BOM + WHOLE])
def test_a_body_is_what_it_begins_with_whatever_it_is_declared_as(body: bytes, content_type: str | None) -> None:
    headers: Any = {} if content_type is None else {"content_type": content_type}
    assert read([body], **headers) == "Hi"
    assert read(byte_by_byte(body), **headers) == "Hi"


@pytest.mark.parametrize("first", [b":", b"event", b"id: 1", b"retry: 1", b"nonsense", b'"', b"1"])
def test_what_begins_like_nothing_else_is_a_stream(first: bytes) -> None:
    assert read(byte_by_byte(first + b"\n" + STREAM)) == "Hi"


@pytest.mark.parametrize("start", [b"", BOM, b"\n"])
def test_a_page_is_no_answer_and_is_quoted_with_its_declared_type(start: bytes) -> None:
    body = start + b"<!doctype html><title>Sign in</title>"
    with pytest.raises(ProtocolError, match=r"'text/html' that begins .*<!doctype html>.*is base_url right\?"):
        read([body], content_type="text/html")
    with pytest.raises(ProtocolError, match=r"'no content type' that begins .*<"):
        read(byte_by_byte(body))


@pytest.mark.parametrize("body", [b"", b"\n", b"  ", BOM, BOM[:1], BOM[:2], BOM + b"\n"])
def test_an_empty_body_is_an_interrupted_stream(body: bytes) -> None:
    for pieces in ([body], byte_by_byte(body)):
        with pytest.raises(StreamInterruptedError, match=r"no body \(status 204\)"):
            read(pieces, status=204)


def test_a_piece_of_nothing_changes_nothing() -> None:
    assert read([b"", BOM, b"", STREAM[:5], b"", STREAM[5:], b""]) == "Hi"


# -- a stream


@pytest.mark.parametrize("at", range(len(STREAM)))
def test_a_stream_that_ends_early_is_interrupted_and_one_with_a_finish_reason_is_not(at: int) -> None:
    finished = STREAM.index(b"data: [DONE]")
    if at >= finished:
        assert read([STREAM[:at]]) == "Hi"
        return
    with pytest.raises(StreamInterruptedError, match=r"no body|ended after [01] events, before its end mark"):
        read([STREAM[:at]])


def test_events_count_whether_they_come_in_a_row_or_by_themselves() -> None:
    events = [sse(chunk(text)) for text in ("a", "b", "c", "d")]
    for pieces in (events, [b"".join(events)]):
        with pytest.raises(StreamInterruptedError, match="ended after 4 events"):
            read(pieces)


def test_an_event_that_comes_behind_the_start_of_a_line_belongs_to_that_line() -> None:
    a, b, lost, c = (sse(chunk(text)) for text in ("a", "b", "lost", "c"))
    assert read([a, b, b":", lost, c, sse(chunk(finish="stop"))]) == "abc"


def test_the_name_of_an_event_may_come_with_the_read_before_it() -> None:
    a = sse(chunk("a"))
    with pytest.raises(APIStatusError):
        read([a, a, b"event: error\n", a])


def test_bytes_after_the_end_mark_do_not_count() -> None:
    late = sse(chunk(" and more"), {"error": {"message": "late"}}, "nonsense")
    assert read([STREAM + late]) == "Hi"
    assert read([STREAM, late, b"<html>"]) == "Hi"
    assert read(byte_by_byte(STREAM + late)) == "Hi"


LONG = b"data: " + b"x" * 100


@pytest.mark.parametrize("eol", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("limits", [Limits(line_bytes=100), Limits(event_bytes=100)])
def test_what_comes_before_something_too_large_is_shown_however_the_stream_is_cut(eol: bytes, limits: Limits) -> None:
    body = (sse(chunk("a"), chunk("b", "stop")) + LONG + b"\n\n").replace(b"\n", eol)
    for pieces in ([body, b""], byte_by_byte(body)):
        run, events = make_run(limits=limits), list[StreamEvent]()
        run.response_opened(200, {}, 0.0)
        with pytest.raises(ProtocolError, match=r"one (line|event) of the stream exceeds 100 bytes"):
            events.extend(event for piece in pieces for event in run.receive(piece))
        assert events == [TextEvent("a"), TextEvent("b")]


@pytest.mark.parametrize("eol", [b"\n", b"\r\n", b"\r"])
def test_something_too_large_behind_the_end_mark_does_not_count(eol: bytes) -> None:
    body = (STREAM + LONG + b"\n\n").replace(b"\n", eol)
    assert read([body], limits=Limits(line_bytes=100)) == "Hi"


@pytest.mark.parametrize("limits", [Limits(line_bytes=100), Limits(event_bytes=100)])
def test_a_delta_like_those_before_may_be_too_large_as_well(limits: Limits) -> None:
    events = [sse(chunk(text)) for text in ("a", "b", "x" * 100)]
    for pieces in (events, [b"".join(events)]):
        with pytest.raises(ProtocolError, match=r"one (line|event) of the stream exceeds 100 bytes"):
            read(pieces, limits=limits)


def test_a_first_read_with_many_events_may_be_larger_than_one_event() -> None:
    assert read([STREAM], limits=Limits(event_bytes=100)) == "Hi"


def test_an_error_in_a_stream_ends_it() -> None:
    with pytest.raises(OverloadedError, match="busy"):
        read([sse(chunk("Hi"), {"error": {"type": "overloaded_error", "message": "busy"}}), DONE])


def test_a_stream_that_is_no_json_is_refused() -> None:
    with pytest.raises(ProtocolError, match="expected JSON in the stream, got 'nonsense'"):
        read([sse("nonsense")])


# -- a whole reply


@pytest.mark.parametrize("at", range(1, len(WHOLE)))
def test_a_whole_reply_that_is_cut_is_an_interrupted_one(at: int) -> None:
    with pytest.raises(StreamInterruptedError, match=f"ended in the middle, after {at} bytes"):
        read([WHOLE[:at]])


@pytest.mark.parametrize("body", [b"{nonsense}", b"[]", b"[1]", b"{}x", WHOLE + b"x", b"[" + WHOLE + b"]", b"[" * 5000])
def test_a_whole_reply_that_is_no_json_object_is_no_answer(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="expected an event stream or a JSON reply") as caught:
        read([body])
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("payload", [{}, {"choices": []}, {"choices": None}, {"nonsense": 1}])
def test_a_whole_reply_without_an_answer_is_refused(payload: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match="expected a completion with choices"):
        read([json.dumps(payload).encode()])


def test_an_error_object_in_a_200_is_an_error_with_its_status_and_request_id() -> None:
    body = b'{"error": {"message": "Bad key.", "code": "invalid_api_key"}}'
    with pytest.raises(AuthenticationError, match="Bad key") as caught:
        read(byte_by_byte(body), x_request_id="req_1")
    assert (caught.value.status_code, caught.value.request_id) == (200, "req_1")


def test_a_whole_reply_is_bounded_even_while_it_says_nothing() -> None:
    limits = Limits(event_bytes=len(WHOLE))
    assert read(byte_by_byte(WHOLE), limits=limits) == "Hi"
    for body in (WHOLE + b" ", b" " * (len(WHOLE) + 1)):
        with pytest.raises(ProtocolError, match=r"the reply exceeds .* bytes \(Limits.event_bytes\)"):
            read(byte_by_byte(body), limits=limits)


# -- an error status


def test_an_error_status_is_an_error_with_what_its_headers_say() -> None:
    with pytest.raises(RateLimitError) as caught:
        read([b'{"error": {"mes', b'sage": "Slow."}}'], 429, retry_after="7", x_should_retry="True", request_id="req_2")
    error = caught.value
    assert (error.message, error.status_code, error.retry_after) == ("Slow.", 429, 7)
    assert (error.should_retry, error.request_id) == (True, "req_2")


@pytest.mark.parametrize(("value", "expected"), [("false", False), ("true", True), ("maybe", None), ("", None)])
def test_the_services_own_word_on_retrying_is_kept(value: str, expected: bool | None) -> None:
    with pytest.raises(APIStatusError) as caught:
        read([], 500, x_should_retry=value)
    assert caught.value.should_retry is expected


def test_a_date_to_retry_at_counts_from_the_time_given() -> None:
    with pytest.raises(APIStatusError) as caught:
        read([], 503, now=1700000000.0, retry_after="Tue, 14 Nov 2023 22:13:40 GMT")
    assert caught.value.retry_after == 20


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_of_an_error_body_no_more_is_read_than_the_limit(step: int) -> None:
    turn, limits = Turn(Limits()), Limits(error_body_bytes=100)
    reply = Reply(500, {}, 0.0, OpenAIReader(turn), turn, limits)
    taken = 0
    while reply.wants_bytes:
        reply.receive(b"x" * step)
        taken += step
    assert 100 <= taken < 100 + step
    with pytest.raises(APIStatusError) as caught:
        reply.ended()
    assert caught.value.body == "x" * 100


def test_an_error_body_may_look_like_anything() -> None:
    for body in (b"<html>Bad gateway", STREAM, b"\xff", b"", WHOLE):
        with pytest.raises(APIStatusError, match="status 502"):
            read([body], 502)


@pytest.mark.parametrize("status", [300, 301, 302, 307, 308])
def test_a_redirect_is_not_followed_and_names_its_target(status: int) -> None:
    with pytest.raises(APIStatusError, match=r"'https://other\.example/v1'.*never followed") as caught:
        read([b"ignored"], status, location="https://other.example/v1", x_request_id="req_3")
    assert (caught.value.status_code, caught.value.request_id) == (status, "req_3")
    with pytest.raises(APIStatusError) as caught:
        read([], status, location="https://x.example/" + "y" * 10_000)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("status", [100, 101, 199, 600])
def test_a_status_from_nowhere_is_an_error(status: int) -> None:
    with pytest.raises(APIStatusError):
        read([STREAM], status)


# -- as a run sees it


def opened(status: int = 200, **headers: str) -> AgentRun:
    run = make_run()
    run.response_opened(status, headers, 0.0)
    return run


def test_patience_is_unlimited_then_short_then_very_short() -> None:
    run = opened()
    assert reading(run).turn.patience is None
    run.receive(sse(chunk("Hi")))
    assert reading(run).turn.patience is None
    run.receive(sse(chunk(finish="stop")))
    assert reading(run).turn.patience == LINGER_S
    run.receive(DONE)
    assert reading(run).turn.patience == DRAIN_S
    run.response_ended()
    assert run.reading is None


def test_a_reset_after_the_finish_reason_ends_the_response_well() -> None:
    run = opened()
    run.receive(sse(chunk("Hi"), chunk(finish="stop"), chunk("\ud83d")))
    assert run.response_failed(StreamInterruptedError("reset"))[0] == TextEvent("\ufffd")
    assert run.result().finish_reason == "stop"


def test_a_reset_before_it_is_the_error_that_was_reported() -> None:
    run = opened()
    run.receive(sse(chunk("Hi")))
    reset = StreamInterruptedError("reset")
    with pytest.raises(StreamInterruptedError) as caught:
        run.response_failed(reset)
    assert caught.value is reset


def test_an_error_status_whose_body_breaks_off_is_still_that_error() -> None:
    run = opened(401)
    run.receive(b'{"error": {"message": "Bad k')
    with pytest.raises(AuthenticationError, match="Bad k"):
        run.response_failed(StreamInterruptedError("reset"))


def test_half_of_a_character_that_was_held_back_was_not_shown() -> None:
    run = opened()
    assert run.receive(sse(chunk("\ud83d"))) == []
    assert not reading(run).shown
    with pytest.raises(StreamInterruptedError):
        run.response_ended()
    assert not reading(run).shown


def test_text_of_a_whole_reply_that_turns_out_to_be_an_error_was_not_shown() -> None:
    run = opened()
    run.receive(json.dumps({"choices": [{"message": {"content": "Hi"}, "finish_reason": "error"}]}).encode())
    with pytest.raises(APIStatusError, match="finish_reason 'error'"):
        run.response_ended()
    assert not reading(run).shown
    run.abandon()
    assert run.result().text == "Hi"


def test_a_body_that_says_nothing_for_long_is_looked_at_once() -> None:
    """Looked at as a whole with each read, 12 MiB in small pieces take 20 s; like this, a hundredth of one."""
    began = time.monotonic()
    turn = Turn(Limits())
    reply = Reply(200, {}, 0.0, OpenAIReader(turn), turn, Limits())
    for _ in range(12 * 1024):
        reply.receive(b" " * 1023 + b"\n")
    reply.receive(b'data: {"choices": [{"delta": {"content": "Hi."}}]}\n\n')
    assert turn.text == "Hi."
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("pieces", [[b" ", b"\xef\xbb\xbf{"], [b"\xef", b"\xbb\xbf", b" ", b"\n", b"d"]])
def test_blank_pieces_do_not_change_what_a_body_is(pieces: list[bytes]) -> None:
    def read(pieces: list[bytes]) -> tuple[bool | None, str]:
        turn = Turn(Limits())
        reply = Reply(200, {}, 0.0, OpenAIReader(turn), turn, Limits())
        for piece in [*pieces, b'ata: {"choices": [{"delta": {"content": "Hi."}}]}\n\n']:
            reply.receive(piece)
        return reply._is_stream, turn.text

    assert read(pieces) == read([b"".join(pieces)])
