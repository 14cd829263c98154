from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import retry_after_cases
from toolnexus import errors
from toolnexus._core.failure import error_for_status, error_in_payload, retry_after


def in_payload(payload: dict[str, Any], event: str = "message") -> errors.APIStatusError:
    error = error_in_payload(payload, event)
    assert error is not None
    return error


# -- an HTTP status


@pytest.mark.parametrize(
    ("status", "cls"),
    [
        (400, errors.BadRequestError),
        (401, errors.AuthenticationError),
        (402, errors.APIStatusError),
        (403, errors.PermissionDeniedError),
        (404, errors.NotFoundError),
        (408, errors.APIStatusError),
        (409, errors.ConflictError),
        (413, errors.BadRequestError),
        (418, errors.APIStatusError),
        (422, errors.BadRequestError),
        (429, errors.RateLimitError),
        (500, errors.InternalServerError),
        (503, errors.InternalServerError),
        (529, errors.OverloadedError),
        (599, errors.InternalServerError),
        (600, errors.APIStatusError),
    ],
)
def test_each_status_has_its_class_whatever_the_body(status: int, cls: type[errors.APIStatusError]) -> None:
    for body in (b"", b"<html>", b"{}", b"[]", b'{"error": {"message": "no", "type": "x"}}', b"\xff", b"null"):
        error = error_for_status(status, body)
        assert type(error) is cls
        assert error.status_code == status


def test_an_overload_is_an_overload_under_any_status() -> None:
    body = b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}'
    assert type(error_for_status(500, body)) is errors.OverloadedError
    assert type(error_for_status(503, b'{"error": {"code": "overloaded"}}')) is errors.OverloadedError


@pytest.mark.parametrize(
    ("body", "message", "kind"),
    [
        ('{"error": {"message": "No.", "type": "t", "code": "c"}}', "No.", "t"),
        ('{"error": {"message": "No.", "code": "c"}}', "No.", "c"),
        ('{"error": {"message": "No.", "type": "odd", "code": "rate_limit_exceeded"}}', "No.", "rate_limit_exceeded"),
        ('{"error": {"message": "No.", "type": null, "code": 400}}', "No.", None),
        ('{"error": {"message": "No.", "status": "INVALID_ARGUMENT"}}', "No.", "INVALID_ARGUMENT"),
        ('[{"error": {"message": "No.", "type": "t"}}]', "No.", "t"),
        ('{"error": "No.", "code": "c"}', "No.", "c"),
        ('{"object": "error", "message": "No.", "type": "t"}', "No.", "t"),
        ('{"type": "error", "error": {"type": "t", "message": "No."}}', "No.", "t"),
        ('{"type": "error", "detail": "No."}', "No.", None),
        ('{"error": {"detail": "No."}}', "No.", None),
        ('{"error": {"msg": "No."}}', "No.", None),
        ('data: {"error": {"message": "No.", "type": "t"}}\n\ndata: [DONE]\n\n', "No.", "t"),
        ("plain\n  words ", "plain words", None),
        ('{"detail": "No."}', '{"detail": "No."}', None),
        ("", "the reply has no body", None),
        (" \n", "the reply has no body", None),
        ("[]", "[]", None),
        ('{"error": {}}', '{"error": {}}', None),
    ],
)
def test_the_providers_own_words_are_found(body: str, message: str, kind: str | None) -> None:
    error = error_for_status(400, body.encode(), request_id="req_1")
    assert (error.message, error.kind) == (message, kind)
    assert error.body == body.strip()
    assert str(error) == f"status 400{f' ({kind})' if kind else ''}: {message} [request req_1]"


def test_long_words_are_cut_in_the_message_and_whole_in_the_body() -> None:
    text = "x" * 10_000
    plain = error_for_status(502, f"<html>{text}".encode())
    assert len(plain.message) == 501
    assert plain.message.endswith("…")
    assert len(plain.body) == 10_006
    worded = error_for_status(400, json.dumps({"error": {"message": text, "type": text}}).encode())
    assert (len(worded.message), len(worded.kind or "")) == (2001, 101)


def test_an_error_body_that_nests_deep_or_is_no_text_is_shown_as_it_is() -> None:
    assert error_for_status(400, b"[" * 100_000).message.startswith("[[[")
    assert error_for_status(400, b"\xff\xfe").message == "\ufffd\ufffd"
    assert error_for_status(400, b'{"error": "a\\ud83d"}').message == "a\ufffd"


# -- inside a stream, or a 200


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"choices": []},
        {"error": None},
        {"error": ""},
        {"error": {}},
        {"error": False},
        {"error": ["x"]},
        {"error": 5},
        {"object": "chat.completion.chunk"},
        {"type": "message"},
        {"message": "hello"},
    ],
)
def test_an_ordinary_payload_is_no_error(payload: dict[str, Any]) -> None:
    assert error_in_payload(payload) is None


@pytest.mark.parametrize(
    ("payload", "event", "message"),
    [
        ({"error": {"message": "No."}}, "message", "No."),
        ({"error": "No."}, "message", "No."),
        ({"object": "error", "message": "No."}, "message", "No."),
        ({"type": "error", "error": {"message": "No."}}, "error", "No."),
        ({"message": "No."}, "error", "No."),
        ({}, "error", "the service reports an error without a message"),
        ({"error": {"code": 500}}, "message", "the service reports an error without a message"),
    ],
)
def test_every_known_shape_of_an_error_is_one(payload: dict[str, Any], event: str, message: str) -> None:
    error = in_payload(payload, event)
    assert error.message == message
    assert error.status_code is None
    assert str(error).startswith("error in the stream")


@pytest.mark.parametrize(
    ("found", "cls"),
    [
        ({"type": "invalid_request_error"}, errors.BadRequestError),
        ({"type": "INVALID_ARGUMENT"}, errors.BadRequestError),
        ({"code": "context_length_exceeded"}, errors.BadRequestError),
        ({"code": "tool_use_failed"}, errors.BadRequestError),
        ({"type": "invalid_request_error", "code": "model_not_found"}, errors.NotFoundError),
        ({"type": "invalid_request_error", "code": "invalid_api_key"}, errors.AuthenticationError),
        ({"type": "authentication_error"}, errors.AuthenticationError),
        ({"type": "permission_error"}, errors.PermissionDeniedError),
        ({"type": "rate_limit_error"}, errors.RateLimitError),
        ({"code": "insufficient_quota"}, errors.RateLimitError),
        ({"type": "overloaded_error"}, errors.OverloadedError),
        ({"type": "OverloadedError"}, errors.OverloadedError),
        ({"type": "server-error"}, errors.InternalServerError),
        ({"status": "UNAVAILABLE"}, errors.InternalServerError),
        ({"type": "api_error"}, errors.InternalServerError),
        ({"code": 404}, errors.NotFoundError),
        ({"code": "503"}, errors.InternalServerError),
        ({"code": 529}, errors.OverloadedError),
        ({"status": 429}, errors.RateLimitError),
        ({"status_code": 401}, errors.AuthenticationError),
        ({"code": None, "type": "odd", "status": 403}, errors.PermissionDeniedError),
        ({"code": 7}, errors.APIStatusError),
        ({"code": True}, errors.APIStatusError),
        ({"code": "²²²"}, errors.APIStatusError),
        ({"code": "9" * 5000}, errors.APIStatusError),
        ({"code": [503]}, errors.APIStatusError),
        ({"type": "odd"}, errors.APIStatusError),
    ],
)
def test_an_error_in_a_stream_is_classed_by_its_code_then_its_type(
    found: dict[str, Any], cls: type[errors.APIStatusError]
) -> None:
    assert type(in_payload({"error": {"message": "No.", **found}})) is cls


def test_the_body_of_an_error_in_a_stream_is_its_start() -> None:
    error = in_payload({"error": {"message": "x" * 1000, "code": 500}})
    assert error.body.startswith('{"message": "xxx')
    assert len(error.body) == 500
    assert in_payload({"error": "a\ud83d"}).message == "a\ufffd"


# -- Retry-After


@pytest.mark.parametrize("case", retry_after_cases(), ids=lambda case: case["name"])
def test_retry_after_is_read_as_the_table_says(case: dict[str, Any]) -> None:
    headers = {name.lower(): value for name, value in case["headers"].items()}
    seconds = retry_after(headers, case["now"])
    if "x-should-retry" in headers:
        assert seconds == (float(headers["retry-after"]) if "retry-after" in headers else None)
    elif case["delay"] == "backoff":
        assert seconds is None
    elif case["delay"] == "give_up":  # the cap and the deadline are the policy's affair
        assert seconds is not None
        assert seconds > min(60, float(headers.get(":deadline", 60)))
    else:
        assert seconds == pytest.approx(case["delay"])


def test_an_absurd_number_of_seconds_is_infinite_and_leading_zeros_are_not() -> None:
    assert retry_after({"retry-after": "9" * 16}, 0) == math.inf
    assert retry_after({"retry-after": "0" * 4000 + "7"}, 0) == 7
    assert retry_after({"retry-after-ms": "9" * 5000}, 0) == math.inf


def test_a_leap_second_is_a_date() -> None:
    assert retry_after({"retry-after": "Sat, 31 Dec 2016 23:59:60 GMT"}, 1483228790.0) == pytest.approx(10)


def test_a_date_before_the_epoch_is_none() -> None:
    assert retry_after({"retry-after": "Wed, 01 Jan 1969 00:00:00 GMT"}, 0) is None


header_text = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=40)
dates = st.lists(
    st.sampled_from(
        ["Tue,", "14", "31", "Nov", "Feb", "2023", "99999", "22:13:20", "24:60:61", "GMT", "-0100", "+9999"]
    )
    | st.text("0123456789:T-+ ", max_size=6),
    max_size=7,
).map(" ".join)


@given(header_text | dates, header_text, st.floats(0, 1e11))
def test_any_header_is_seconds_from_zero_on_or_nothing(value: str, ms: str, now: float) -> None:
    seconds = retry_after({"retry-after": value, "retry-after-ms": ms}, now)
    assert seconds is None or seconds >= 0
