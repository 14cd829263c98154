"""`timeout` counts any byte as life, `progress_timeout` only what the model says."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import httpx
import pytest

from tests.clients.harness import MODEL, soon
from tests.server import Flood, Gate, Server, done, finish, reply, says, sse, text, tool_call, whole
from toolnexus import (
    APITimeoutError,
    AsyncClient,
    DeadlineExceededError,
    StreamEvent,
    SyncClient,
    Toolkit,
    ToolnexusError,
    define_tool,
)

NO_PROGRESS = {
    "comments": lambda: Flood(b": still here\n\n"),
    "pings": lambda: Flood(b'event: ping\ndata: {"type": "ping"}\n\n'),
    "payloads that say nothing": lambda: Flood(sse({"choices": [{"index": 0, "delta": {"content": ""}}]})),
    "half a line that grows": lambda: Flood(b" "),
    "silence": Gate,
}


@pytest.mark.parametrize("what", NO_PROGRESS.values(), ids=NO_PROGRESS)
def test_a_model_that_says_nothing_for_too_long_is_given_up_and_asked_again(connect, serve, what):
    server = serve(reply(what()), says("Here."))
    with soon():  # and the second answer, on a busy machine, within that time
        assert connect(server, progress_timeout=0.4).stream("Go.").text == "Here."
    assert len(server.requests) == 2
    server.requests[0].wait_left()


@pytest.mark.parametrize("what", NO_PROGRESS.values(), ids=NO_PROGRESS)
def test_a_model_that_falls_silent_after_its_first_words_is_not_asked_again(connect, serve, what):
    server = serve(reply(text("Hel"), what()), says("Never."))
    with soon(), pytest.raises(APITimeoutError) as failed:
        connect(server, progress_timeout=0.1).stream("Go.")
    assert str(failed.value) == (
        "no progress: expected text, thinking or a tool call from the model within 0.1 s (progress_timeout), "
        "got none; other bytes, such as comments, do not count"
    )
    assert failed.value.result is not None
    assert failed.value.result.text == "Hel"
    assert len(server.requests) == 1


def test_a_server_that_does_not_even_answer_makes_no_progress(connect, serve):
    server = serve(*[reply(before=Gate())] * 2)
    with soon(), pytest.raises(APITimeoutError, match="progress_timeout"):
        connect(server, progress_timeout=0.1, retries=1).stream("Go.")
    assert len(server.requests) == 2


def test_anthropics_pings_are_no_progress(connect, serve):
    start = {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 1}}}
    server = serve(reply(sse(start), Flood(b'event: ping\ndata: {"type": "ping"}\n\n')))
    with soon(), pytest.raises(APITimeoutError, match="progress_timeout"):
        connect(server, style="anthropic", progress_timeout=0.1, retries=0).stream("Go.")


def test_without_a_progress_timeout_keep_alive_bytes_may_go_on(connect, serve):
    server = serve(reply(Flood(b": still here\n\n", times=2000), text("Done."), finish(), done()))
    assert connect(server).stream("Go.").text == "Done."


def paced(pieces: list[bytes], pause: float) -> tuple[list[Any], threading.Thread]:
    """Writes with a pause before each."""
    gates = [Gate() for _ in pieces]

    def open_slowly() -> None:
        for gate in gates:
            gate.wait_reached()
            threading.Event().wait(pause)  # the time itself is what is tested
            gate.open()

    thread = threading.Thread(target=open_slowly)
    thread.start()
    return [write for pair in zip(gates, pieces, strict=True) for write in pair], thread


def test_pieces_of_arguments_are_progress_although_no_event_shows_them(connect, serve):
    pieces = tool_call("c1", "add", ['{"a"', ": 1, ", '"b"', ": 2}"])
    writes, thread = paced(pieces, 0.12)
    server = serve(reply(writes, finish("tool_calls"), done()), says("3"))

    def add(a: int, b: int) -> int:
        return a + b

    client = connect(server, progress_timeout=0.4, retries=0)
    assert client.stream("Go.", Toolkit(define_tool(add))).text == "3"
    thread.join()


def test_time_that_the_consumer_takes_is_not_the_models(connect, serve):
    server = serve(reply(text(*"ab"), finish(), done()))
    seen = []

    def on_event(event: StreamEvent) -> None:
        seen.append(event.type)
        threading.Event().wait(0.2)

    connect(server, progress_timeout=0.15, retries=0).stream("Go.", on_event=on_event)
    assert seen == ["text", "text", "done"]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_time_that_the_consumer_takes_is_not_the_models_over_a_callers_client(serve, kind):
    gate = Gate()
    server = serve(reply(text("Hel"), gate, text("lo!"), finish(), done()))
    options: dict[str, Any] = {"base_url": server.url, "model": MODEL, "progress_timeout": 0.2}

    def play() -> str:
        with httpx.Client() as http_client, SyncClient(http_client=http_client, **options) as client:
            events = client.iter_events("Go.")
            next(events)
            threading.Event().wait(0.3)
            gate.open()
            return "".join([event.delta for event in events if event.type == "text"])

    async def play_in_loop() -> str:
        async with httpx.AsyncClient() as http_client, AsyncClient(http_client=http_client, **options) as client:
            events = client.stream("Go.")
            await anext(events)
            await asyncio.sleep(0.3)
            gate.open()
            return "".join([event.delta async for event in events if event.type == "text"])

    assert (play() if kind == "sync" else asyncio.run(play_in_loop())) == "lo!"


def test_a_reply_that_is_not_streamed_comes_whole_and_may_take_its_time(connect, serve):
    gate = Gate()
    message = whole({"choices": [{"message": {"content": "Here."}, "finish_reason": "stop"}]})
    server = serve(reply(gate, *message.writes, framing="close", headers=message.headers))

    def open_late() -> None:
        gate.wait_reached()
        threading.Event().wait(0.3)
        gate.open()

    thread = threading.Thread(target=open_late)
    thread.start()
    assert connect(server, progress_timeout=0.1, retries=0).run("Go.").text == "Here."
    thread.join()


def test_after_the_finish_reason_there_is_nothing_to_wait_for(connect, serve):
    server = serve(reply(text("Hi."), finish(), Gate()))
    with soon():
        assert connect(server, progress_timeout=3, timeout=0.2).stream("Go.").text == "Hi."


# -- over a client of the caller's, whose reads know nothing of ours


def by_caller(kind: str, server: Server, expected: type[ToolnexusError] = APITimeoutError, **options: Any) -> Any:
    """One run over a caller's client; gives the error."""
    options = {"base_url": server.url, "model": MODEL, "retries": 0, **options}
    if kind == "sync":
        with httpx.Client() as http_client, SyncClient(http_client=http_client, **options) as client:
            with pytest.raises(expected) as failed:
                client.stream("Go.")
            return failed.value

    async def main() -> Any:
        async with httpx.AsyncClient() as http_client, AsyncClient(http_client=http_client, **options) as client:
            with pytest.raises(expected) as failed:
                async for _ in client.stream("Go."):
                    pass
            return failed.value

    return asyncio.run(main())


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("framing", ["chunked", "close"])
def test_a_callers_client_is_given_up_in_time_too(serve, kind, framing):
    writes, thread = paced([b": still here\n\n"], 0.4)
    server = serve(reply(writes, Gate(), framing=framing))
    began = time.monotonic()
    error = by_caller(kind, server, progress_timeout=0.5)
    took = time.monotonic() - began
    thread.join()
    assert "(progress_timeout)" in str(error)
    assert 0.5 <= took < 0.85  # not 0.9, as if the comment counted
    server.requests[0].wait_left()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_deadline_over_a_callers_client_is_for_all_reads_together(serve, kind):
    writes, thread = paced([b": still here\n\n"], 0.4)
    server = serve(reply(text("Hel"), writes, Gate()))
    began = time.monotonic()
    error = by_caller(kind, server, DeadlineExceededError, deadline=0.5)
    took = time.monotonic() - began
    thread.join()
    assert error.result.text == "Hel"
    assert 0.5 <= took < 0.85  # not 0.9, as if it began again with each read


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_flood_over_a_callers_client_is_no_progress(serve, kind):
    server = serve(reply(text("Hel"), Flood(b": still here\n\n")))
    error = by_caller(kind, server, progress_timeout=0.1)
    assert "(progress_timeout)" in str(error)
    assert error.result.text == "Hel"
