"""Events while they happen: one by one, to callbacks that may raise, in streams that may be left."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import Any

import pytest

from tests.clients.harness import MODEL, transcript
from tests.server import Gate, Response, calls, delta, done, finish, reply, says, text, tool_call, usage, whole
from toolnexus import AsyncClient, RunResult, StreamEvent, SyncClient, TextEvent, Toolkit, UsageEvent, tool


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def gated(*pieces: str) -> tuple[Response, list[Gate]]:
    """An answer whose pieces are sent one by one, each after its gate was opened."""
    gates = [Gate() for _ in pieces]
    return reply([[gate, *text(piece)] for gate, piece in zip(gates, pieces, strict=True)], finish(), done()), gates


@pytest.mark.parametrize("framing", ["chunked", "close"])
def test_an_event_is_shown_before_the_next_one_is_sent(connect, serve, framing):
    response, gates = gated("one", "two", "three")
    server = serve(Response(response.writes, framing=framing))
    gates[0].open()
    seen = []

    def on_event(event: StreamEvent) -> None:
        if isinstance(event, TextEvent):
            seen.append(event.delta)
            if len(seen) < len(gates):
                gates[len(seen)].open()  # only now may the server go on

    assert connect(server).stream("Go.", on_event=on_event).text == "onetwothree"
    assert seen == ["one", "two", "three"]


def test_an_iterator_gives_an_event_before_the_next_one_is_sent(connect, serve):
    response, gates = gated("one", "two", "three")
    seen = []
    gates[0].open()
    for event in connect(serve(response)).iter_events("Go."):
        if event.type == "text":
            seen.append(event.delta)
            if len(seen) < len(gates):
                gates[len(seen)].open()
    assert seen == ["one", "two", "three"]


def test_ask_gives_text_before_the_next_piece_is_sent(connect, serve):
    response, gates = gated("one", "two")
    seen = []
    gates[0].open()

    def on_text(delta: str) -> None:
        seen.append(delta)
        gates[1].open()

    assert connect(serve(response)).ask("Go.", on_text=on_text).text == "onetwo"
    assert seen == ["one", "two"]


def test_half_an_event_is_kept_until_the_rest_comes(connect, serve):
    gate = Gate()
    whole = delta(content="grüße")
    cut = whole.index(b"\\u00fc") + 3
    server = serve(reply(text("a"), whole[:cut], gate, whole[cut:], finish(), done()))
    seen = []

    def on_event(event: StreamEvent) -> None:
        seen.append(event.type)
        gate.open()

    assert connect(server).stream("Go.", on_event=on_event).text == "agrüße"
    assert seen == ["text", "text", "done"]


def test_a_tool_call_is_shown_before_the_tool_runs_and_not_before_its_response_is_complete(connect, serve):
    gate = Gate()
    seen: list[str] = []

    @tool
    def look() -> str:
        """Look."""
        seen.append("runs")
        return "seen"

    server = serve(
        reply(tool_call("c1", "look"), text("So."), gate, finish("tool_calls"), done()),
        says("Ok."),
    )

    def on_event(event: StreamEvent) -> None:
        seen.append(event.type)
        gate.open()

    connect(server).stream("Go.", Toolkit(look), on_event)
    assert seen[:4] == ["text", "tool_call", "runs", "tool_result"]


def test_nothing_is_sent_before_the_first_event_is_asked_for(connect, serve):
    server = serve(says("Hi."))
    client = connect(server)
    client.iter_events("Never asked.").close()
    assert client.iter_events("Asked.").__next__() == TextEvent("Hi.")
    assert [r.json["messages"][0]["content"] for r in server.requests] == ["Asked."]


def test_a_stream_is_single_use_and_has_its_result_at_the_end(connect, serve):
    events = connect(serve(says("Hi."))).iter_events("Go.")
    with pytest.raises(RuntimeError, match="no result yet"):
        _ = events.result
    assert [event.type for event in events] == ["text", "done"]
    assert events.result.text == "Hi."
    assert list(events) == []
    events.close()
    assert events.result.text == "Hi."


class OwnError(Exception):
    pass


SCRIPT = (
    reply(text("Let", " me"), tool_call("c1", "add", ['{"a":1,"b":2}']), finish("tool_calls"), usage(1, 1, 2), done()),
    says("It", " is 3."),
)
EVENTS = ["text", "text", "usage", "tool_call", "tool_result", "text", "text", "done"]


@pytest.mark.case("other-callback-raises")
@pytest.mark.parametrize("error", [OwnError, KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("index", range(len(EVENTS)))
def test_what_a_callback_raises_comes_through_and_the_conversation_goes_on(connect, serve, index, error):
    server = serve(*SCRIPT[: 1 if index < 5 else 2], says("Still here."))
    client = connect(server)
    seen = []
    raised = error("mine")

    def on_event(event: StreamEvent) -> None:
        seen.append(event.type)
        if len(seen) == index + 1:
            raise raised

    with pytest.raises(error) as caught:
        client.stream("Go.", Toolkit(add), on_event, id="talk")
    assert caught.value is raised
    assert seen == EVENTS[: index + 1]
    assert client.stream("Again.", Toolkit(add), id="talk").text == "Still here."
    assert_balanced(server.requests[-1].json["messages"])


@pytest.mark.case("api-generator-exit-keeps-history-valid")
@pytest.mark.parametrize("index", range(len(EVENTS) + 1))
def test_a_stream_left_at_any_event_closes_its_connection_and_the_conversation_goes_on(connect, serve, index):
    server = serve(*SCRIPT[: 1 if index < 6 else 2], says("Still here."))
    client = connect(server)
    events = client.iter_events("Go.", Toolkit(add), id="talk")
    assert [next(events).type for _ in range(min(index, len(EVENTS)))] == EVENTS[:index]
    events.close()
    events.close()
    assert list(events) == []
    assert client.stream("Again.", Toolkit(add), id="talk").text == "Still here."
    assert_balanced(server.requests[-1].json["messages"])


@pytest.mark.case("api-async-break-closes", "api-sync-generator-close")
@pytest.mark.parametrize("how", ["close", "with", "raise"])
def test_the_server_sees_at_once_that_a_stream_was_left(connect, serve, how):
    held = Gate()
    server = serve(reply(text("Hel"), held, text("lo!"), done()), says("Next."))
    client = connect(server)
    if how == "close":
        events = client.iter_events("Go.")
        next(events)
        events.close()
    elif how == "with":
        with client.iter_events("Go.") as events:
            next(events)
    else:
        with contextlib.suppress(OwnError), client.iter_events("Go.") as events:
            for _ in events:
                raise OwnError
    server.requests[0].wait_left()
    assert client.stream("Next?").text == "Next."


def test_a_stream_that_was_dropped_is_closed_when_it_is_collected(serve):
    server = serve(reply(text("Hel"), Gate()), says("Next."))
    with SyncClient(base_url=server.url, model=MODEL) as client:
        for _ in client.iter_events("Go."):
            break
        gc.collect()
        server.requests[0].wait_left()
        assert client.stream("Next?").text == "Next."


@pytest.mark.case("api-async-break-closes")
def test_an_async_stream_that_was_dropped_is_closed_when_it_is_collected(serve):
    server = serve(reply(text("Hel"), Gate()), says("Next."))

    async def main() -> str:
        noise: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))
        async with AsyncClient(base_url=server.url, model=MODEL) as client:
            async for _ in client.stream("Go."):
                break
            gc.collect()
            await asyncio.to_thread(server.requests[0].wait_left)
            answer = (await client.run("Next?")).text
        assert noise == []
        return answer

    assert asyncio.run(main()) == "Next."


def test_closing_the_client_closes_the_connection_of_a_stream_that_was_left_half_read(connect, serve):
    server = serve(reply(text("Hel"), Gate()))
    client = connect(server)
    events = client.iter_events("Go.")
    next(events)
    client.close()
    server.requests[0].wait_left()
    events.close()


def test_a_finished_stream_leaves_its_connection_to_the_next_run(connect, serve):
    server = serve(says("One."), says("Two."), says("Three."))
    client = connect(server)
    for prompt in ("One?", "Two?"):
        client.stream(prompt)
    client.run("Three?")
    assert server.connections == 1


def test_an_idle_connection_that_the_server_closed_is_not_used(connect, serve):
    gone = Response(says("One.").writes, framing="length", end="close")
    server = serve(gone, says("Two."))
    client = connect(server, retries=0)
    client.stream("One?")
    server.wait_all_closed()
    assert client.stream("Two?").text == "Two."
    assert server.connections == 2


@pytest.mark.case("api-usage-immutable-per-event")
def test_each_usage_event_keeps_its_own_numbers(connect, serve):
    server = serve(
        reply(tool_call("c1", "add", ['{"a":1,"b":2}']), usage(1, 1, 2), done()),
        reply(text("3."), usage(2, 2, 4), done()),
    )
    events: list[StreamEvent] = []
    result = connect(server).stream("Go.", Toolkit(add), events.append)
    assert [e.usage.total_tokens for e in events if isinstance(e, UsageEvent)] == [2, 6]
    assert result.usage.total_tokens == 6
    assert [raw["total_tokens"] for raw in result.usage.raw] == [2, 4]


def test_run_gives_the_same_result_as_stream_without_asking_for_a_stream(connect, serve):
    def completion(message: dict[str, Any], reason: str, **counts: int) -> Response:
        return whole({"choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": counts})

    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
    first = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
    second = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
    server = serve(
        completion({"role": "assistant", "content": "Let me.", "tool_calls": [call]}, "tool_calls", **first),
        completion({"role": "assistant", "content": "It is 3."}, "stop", **second),
        reply(
            text("Let", " me."),
            tool_call("c1", "add", ['{"a": 1, ', '"b": 2}']),
            finish("tool_calls"),
            usage(5, 3, 8),
            done(),
        ),
        reply(text("It is", " 3."), finish(), usage(9, 4, 13), done()),
    )
    client = connect(server)
    whole_result = client.run("Go.", Toolkit(add))
    streamed = client.stream("Go.", Toolkit(add))
    assert comparable(whole_result) == comparable(streamed)
    assert whole_result.text == "It is 3."
    assert ["stream" in request.json for request in server.requests] == [False, False, True, True]
    assert server.requests[2].json["stream_options"] == {"include_usage": True}
    assert "stream_options" not in server.requests[0].json


def comparable(result: RunResult) -> dict[str, Any]:
    data = result.model_dump(mode="json")
    for record in data["tool_calls"]:
        record.pop("duration")
    for summary in data["summaries"]:
        assert summary.pop("timestamp") > 0
    return data


def assert_balanced(messages: list[dict[str, Any]]) -> None:
    """Every call has exactly one result, right behind its message."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting
            waiting.remove(message["tool_call_id"])
        else:
            assert waiting == []
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
    assert waiting == []


def test_text_that_was_said_before_the_run_failed_is_on_the_error(play, serve):
    server = serve(calls(("c1", "add", '{"a":1,"b":2}')), reply(text("It is"), end="reset"))
    played = play(server, "Go.", add)
    assert played.error is not None
    result = played.error.result
    assert result.status == "error"
    assert result.text == "It is"
    assert [record.output for record in result.tool_calls] == ["3"]
    assert transcript(result.messages)[-1] == ("tool", ("c1", "3", False))
    assert [e.type for e in played.events] == ["tool_call", "tool_result", "text"]
