"""What is tried again, how long is waited, and that nothing shown is ever shown twice."""

from __future__ import annotations

import gzip
import threading

import pytest

from tests.server import Request, Response, calls, done, failure, finish, reply, says, sse, text, tool_call, whole
from toolnexus import (
    APIConnectionError,
    APIStatusError,
    AuthenticationError,
    BadRequestError,
    ConflictError,
    InternalServerError,
    Limits,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProtocolError,
    RateLimitError,
    StreamInterruptedError,
    tool,
)
from toolnexus.retry import _SUCCESSES_PER_RETRY, RetryPolicy

STATUSES = {
    400: (BadRequestError, False),
    401: (AuthenticationError, False),
    403: (PermissionDeniedError, False),
    404: (NotFoundError, False),
    408: (APIStatusError, True),
    409: (ConflictError, True),
    413: (BadRequestError, False),
    418: (APIStatusError, False),
    422: (BadRequestError, False),
    429: (RateLimitError, True),
    500: (InternalServerError, True),
    502: (InternalServerError, True),
    503: (InternalServerError, True),
    529: (OverloadedError, True),
}


@pytest.mark.case(
    "retry-not-on-400",
    "retry-not-on-403",
    "retry-not-on-404",
    "retry-not-on-413",
    "retry-status-408",
    "retry-status-409",
    "retry-status-503",
)
@pytest.mark.parametrize(("status", "expected"), STATUSES.items(), ids=STATUSES)
def test_an_error_status_has_its_class_and_is_tried_again_or_not(play, serve, status, expected):
    cls, again = expected
    server = serve(*[failure(status, f"no {status}", x_request_id="r-7")] * 3)
    played = play(server, "Go.")
    assert type(played.error) is cls
    assert (played.error.status_code, played.error.message, played.error.request_id) == (status, f"no {status}", "r-7")
    assert len(server.requests) == (3 if again else 1)
    assert played.events == []


@pytest.mark.case("retry-budget-is-per-request-and-bounded")
@pytest.mark.parametrize("retries", [0, 1, 4])
def test_retries_count_those_after_the_first_try(play, serve, retries):
    server = serve(*[failure(500)] * 9)
    assert isinstance(play(server, "Go.", retries=retries).error, InternalServerError)
    assert len(server.requests) == retries + 1


@pytest.mark.case("retry-does-not-rerun-finished-tools")
def test_each_model_response_has_retries_of_its_own(play, serve):
    runs: list[str] = []

    @tool
    def look() -> str:
        """Look."""
        runs.append("look")
        return "seen"

    server = serve(failure(500), failure(500), calls(("c1", "look", "{}")), failure(500), failure(500), says("Seen."))
    assert play(server, "Go.", look, retries=2).ended().text == "Seen."
    assert runs == ["look"]


EARLY_ENDS = {
    "reset before the head": Response(framing="close", end="reset"),
    "closed in the head's body": Response([], end="close"),
    "an empty 200": Response([], framing="length"),
    "cut in the first event": reply(b'data: {"choices": [{"del', end="close"),
    "only comments": reply(b": hello\n\n"),
    "a call that is cut": reply(tool_call("c1", "look", ['{"a":'])),
    "an error that says so": reply(sse({"error": {"message": "busy", "type": "overloaded_error"}})),
}


@pytest.mark.case("retry-mid-stream-reset-before-any-output")
@pytest.mark.parametrize("response", EARLY_ENDS.values(), ids=EARLY_ENDS)
def test_an_end_before_anything_was_shown_is_tried_again(play, serve, response):
    server = serve(response, says("Here."))
    played = play(server, "Go.")
    assert played.ended().text == "Here."
    assert played.shown == [("text", "Here."), ("done", "done")]


LATE_ENDS = {
    "reset": (reply(text("Hel"), end="reset"), StreamInterruptedError),
    "closed": (reply(text("Hel"), end="close"), StreamInterruptedError),
    "politely over": (reply(text("Hel")), StreamInterruptedError),
    "until the end of the connection": (reply(text("Hel"), framing="close"), StreamInterruptedError),
    "an error": (reply(text("Hel"), sse({"error": {"message": "busy", "code": 429}})), RateLimitError),
    "nonsense": (reply(text("Hel"), b"data: {nonsense\n\n"), ProtocolError),
}


@pytest.mark.case("retry-mid-stream-reset-after-text", "api-transport-errors-wrapped")
@pytest.mark.parametrize(("response", "error"), LATE_ENDS.values(), ids=LATE_ENDS)
def test_an_end_after_text_was_shown_is_never_tried_again(play, serve, response, error):
    server = serve(response, says("Never."))
    played = play(server, "Go.")
    assert isinstance(played.error, error)
    assert played.shown == [("text", "Hel")]
    assert played.error.result.text == "Hel"
    assert len(server.requests) == 1


@pytest.mark.parametrize("end", ["reset", "close"])
def test_an_end_after_the_finish_reason_is_a_good_end(play, serve, end):
    server = serve(reply(text("Hello."), finish(), end=end))
    assert play(server, "Go.", timeout=5).ended().text == "Hello."


def test_silence_after_the_end_mark_is_a_good_end(play, serve):
    server = serve(reply(text("Hello."), finish(), done(), end="stall"), says("Next."))
    assert play(server, "Go.").ended().text == "Hello."
    server.requests[0].wait_left()
    assert play(server, "Next?").ended().text == "Next."


@pytest.mark.case("retry-after-seconds", "retry-after-ms-header")
def test_the_service_says_how_long_to_wait(play, serve, monkeypatch):
    waits: list[float] = []
    wait = RetryPolicy.wait

    def recorded(policy: RetryPolicy, error: BaseException | None, attempt: int) -> float:
        waits.append(wait(policy, error, attempt))
        return waits[-1]

    monkeypatch.setattr(RetryPolicy, "wait", recorded)
    server = serve(failure(429, retry_after="0"), failure(503, retry_after_ms="2"), says("Here."))
    assert play(server, "Go.").ended().text == "Here."
    assert waits == [0, 0.002]


def test_a_wait_longer_than_allowed_gives_up_at_once(play, serve):
    server = serve(failure(429, retry_after="61"))
    played = play(server, "Go.")
    assert isinstance(played.error, RateLimitError)
    assert played.error.retry_after == 61
    assert len(server.requests) == 1


@pytest.mark.case("retry-x-should-retry-false", "retry-x-should-retry-true-on-400")
@pytest.mark.parametrize(("status", "says_so", "requests"), [(400, "true", 3), (500, "false", 1)])
def test_the_services_own_word_on_retrying_counts_more_than_the_status(play, serve, status, says_so, requests):
    server = serve(*[failure(status, x_should_retry=says_so)] * 3)
    assert isinstance(play(server, "Go.").error, APIStatusError)
    assert len(server.requests) == requests


def test_nobody_at_the_address_is_a_connection_error(play, serve):
    server = serve(says("Never."))
    server.close()
    played = play(server, "Go.")
    assert type(played.error) is APIConnectionError
    assert "could not connect: POST http://127.0.0.1:" in str(played.error)
    assert type(played.error.__cause__).__name__ == "ConnectError"


def test_a_name_that_nobody_knows_is_a_connection_error(play):
    played = play(None, "Go.", base_url="http://nobody.invalid/v1", retries=0)
    assert type(played.error) is APIConnectionError


def test_error_replies_leave_no_connection_behind(play, serve):
    server = serve(*[failure(400)] * 10, says("Here."))
    for _ in range(10):
        assert isinstance(play(server, "Go.").error, BadRequestError)
    assert play(server, "Go.").ended().text == "Here."
    assert server.connections == 1


def test_an_endless_error_body_is_read_to_its_limit_only(play, serve):
    server = serve(reply(*[b"x" * 1000] * 10, status=400, end="stall"))
    played = play(server, "Go.", limits=Limits(error_body_bytes=5000))
    assert isinstance(played.error, BadRequestError)
    assert len(played.error.body) == 5000
    server.requests[0].wait_left()


NO_STREAMS = {
    "a web page": (reply(b"<html>Log in</html>", headers={"content-type": "text/html"}), ProtocolError),
    "an error in a 200": (whole({"error": {"message": "bad key", "code": "invalid_api_key"}}), AuthenticationError),
    "some other JSON": (whole({"hello": "world"}), ProtocolError),
    "a gzip that is none": (reply(b"nonsense", headers={"content-encoding": "gzip"}), ProtocolError),
}


@pytest.mark.parametrize(("response", "error"), NO_STREAMS.values(), ids=NO_STREAMS)
def test_a_reply_that_is_no_answer_is_an_error(play, serve, response, error):
    server = serve(response)
    assert isinstance(play(server, "Go.").error, error)
    assert len(server.requests) == 1


@pytest.mark.case("framing-gzip-encoded-stream")
def test_a_compressed_stream_is_read(play, serve):
    body = b"".join(bytes(write) for write in says("Hello.").writes if isinstance(write, bytes))
    server = serve(reply(gzip.compress(body), headers={"content-encoding": "gzip"}))
    assert play(server, "Go.").ended().text == "Hello."


def test_retries_of_many_threads_do_not_disturb_each_other(connect, serve, kind):
    if kind == "async":
        return  # the async client is for one thread
    seen: dict[str, int] = {}
    lock = threading.Lock()

    def script(request: Request) -> Response:
        prompt = request.json["messages"][-1]["content"]
        with lock:
            seen[prompt] = seen.get(prompt, 0) + 1
            return failure(503) if seen[prompt] < 3 else says(prompt)

    client = connect(serve(script))
    answers: list[str] = []
    threads = [threading.Thread(target=lambda n=n: answers.append(client.stream(f"prompt {n}").text)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [f"prompt {n}" for n in range(8)]


def test_a_dead_service_is_not_hammered_by_a_client_that_many_share(connect, serve):
    is_dead = True
    server = serve(lambda request: failure(503) if is_dead else says("Back."))
    client = connect(server, retry_base=0.0)
    for number in range(251):
        with pytest.raises(InternalServerError) as failed:
            client.run("Go.")
        assert hasattr(failed.value, "__notes__") is (number == 250)
    assert len(server.requests) == 251 + 500
    with pytest.raises(InternalServerError):
        connect(server, retry_base=0.0, retries=1).run("Go.")
    assert len(server.requests) == 251 + 500 + 2  # another client has a budget of its own

    is_dead = False
    for _ in range(_SUCCESSES_PER_RETRY):
        client.run("Go.")
    is_dead, asked = True, len(server.requests)
    for _ in range(2):
        with pytest.raises(InternalServerError):
            client.run("Go.")
    assert len(server.requests) == asked + 2 + 1  # what went well has earned one
