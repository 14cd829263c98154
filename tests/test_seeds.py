"""The examples of the two documents this library follows, through both clients.

`Client.stream` is documented for a Java and a JavaScript port with three examples each. Here they are in Python,
with the stubs' bytes and with every assertion of theirs.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clients.harness import by_callback, by_iterator
from tests.server import Response, done, reply, sse
from toolnexus import Answer, Request, StreamEvent, TextEvent, Toolkit, define_tool, pending

OPTIONS: dict[str, Any] = {"style": "openai", "model": "stub", "api_key": "test-key"}


def chunk(delta: dict[str, Any], **members: Any) -> bytes:
    return sse({"choices": [{"delta": delta}], **members})


def counts(prompt: int, completion: int, total: int) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}}


def call_chunk(name: str, arguments: str, id: str | None = "call_1") -> bytes:
    head: dict[str, Any] = {"id": id} if id else {}
    function = {"name": name, "arguments": arguments} if id else {"arguments": arguments}
    return chunk({"tool_calls": [{"index": 0, **head, "function": function}]})


def java(*chunks: bytes) -> Response:
    """The Java stubs write their whole body at once."""
    return reply(b"".join((*chunks, done())))


def test_java_1_text_deltas_only(connect, serve):
    server = serve(java(chunk({"content": "Hel"}), chunk({"content": "lo!"})))
    with Toolkit() as toolkit:
        deltas: list[str] = []

        def on_event(event: StreamEvent) -> None:
            if event.type == "text":
                deltas.append(event.delta)

        result = connect(server, **OPTIONS).stream("Say hello", toolkit, on_event)
        assert "".join(deltas) == "Hello!"
        assert result.text == "Hello!"
    assert deltas == ["Hel", "lo!"]
    assert server.requests[0].target == "/chat/completions"
    assert server.requests[0].headers["authorization"] == "Bearer test-key"


def test_java_2_a_streamed_tool_call(connect, serve):
    server = serve(
        java(call_chunk("get_weather", '{"city":"Chennai"}')),
        java(chunk({"content": "It is sunny in Chennai."})),
    )
    weather = define_tool(
        name="get_weather",
        description="Current weather for a city",
        input_schema={"type": "object", "properties": {"city": {"type": "string"}}},
        run=lambda args: "sunny in " + args["city"],
    )
    with Toolkit(weather) as toolkit:
        events: list[StreamEvent] = []
        result = connect(server, **OPTIONS).stream("weather in Chennai?", toolkit, events.append)
        assert any(e.type == "tool_call" and e.name == "get_weather" for e in events)
        assert any(e.type == "tool_result" and e.output == "sunny in Chennai" for e in events)
        assert result.text == "It is sunny in Chennai."


def test_java_3_memory_by_id_and_usage_and_done(connect, serve):
    usage = sse({"usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}})
    server = serve(java(chunk({"content": "Hi there."}), usage), java(chunk({"content": "Still here."}), usage))
    with Toolkit() as toolkit:
        client = connect(server, **OPTIONS)
        first_events: list[StreamEvent] = []
        first = client.stream("Hello", toolkit, first_events.append, "session-1")
        second_events: list[StreamEvent] = []
        second = client.stream("Still there?", toolkit, second_events.append, "session-1")
        assert any(e.type == "usage" and e.usage.total_tokens == 5 for e in first_events)
        assert any(e.type == "done" and e.result.text == "Still here." for e in second_events)
        assert len(second.messages) > len(first.messages), "history should grow"
        assert client.conversation_store().get("session-1") == second.messages
    assert first.text == "Hi there."
    assert [m["content"] for m in server.requests[1].json["messages"]] == ["Hello", "Hi there.", "Still there?"]


def test_java_the_blocking_convenience_collects_every_event(connect, serve):
    server = serve(java(chunk({"content": "Hel"}), chunk({"content": "lo!"})))
    events = list(connect(server, **OPTIONS).iter_events("Say hello"))
    assert [e.type for e in events] == ["text", "text", "done"]


def test_js_1_text_deltas_only(connect, serve):
    server = serve(
        reply(chunk({"content": "Hel"}), chunk({"content": "lo!"}), chunk({}, **counts(3, 2, 5)), done()),
    )
    with Toolkit() as toolkit:
        text, result = "", None
        with connect(server, **OPTIONS).iter_events("Say hi.", toolkit) as events:
            for event in events:
                if event.type == "text":
                    text += event.delta
                if event.type == "done":
                    result = event.result
        assert text == "Hello!"
        assert result is not None
        assert result.text == "Hello!"
        assert result.status == "done"
    assert result.usage.total_tokens == 5


def test_js_2_tool_call_events_then_a_stateful_second_turn(connect, serve):
    server = serve(
        reply(
            call_chunk("get_weather", ""),
            call_chunk("get_weather", '{"city":"Chennai"}', id=None),
            chunk({}, **counts(6, 2, 8)),
            done(),
        ),
        reply(chunk({"content": "31C in Chennai."}), chunk({}, **counts(12, 5, 17)), done()),
    )
    weather = define_tool(
        name="get_weather",
        description="Weather for a city",
        input_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        run=lambda args: f"31C in {args['city']}",
    )
    with Toolkit(weather) as toolkit:
        client = connect(server, **OPTIONS)
        tool_calls: list[str] = []
        final_text = ""
        for event in client.iter_events("Weather in Chennai?", toolkit, id="conv-1"):
            if event.type == "tool_call":
                tool_calls.append(event.name)
            if event.type == "done":
                final_text = event.result.text
                assert event.result.usage.total_tokens == 25
        assert tool_calls == ["get_weather"]
        assert final_text == "31C in Chennai."
        stored = client.conversation_store().get("conv-1")
        assert stored
        assert len(stored) > 0, "id-based stream did not persist to the store"
    sent = server.requests[1].json["messages"]
    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"] == "call_1"
    assert sent[2]["content"] == "31C in Chennai"
    assert json.loads(sent[1]["tool_calls"][0]["function"]["arguments"]) == {"city": "Chennai"}


@pytest.mark.parametrize("play", [by_callback, by_iterator])
@pytest.mark.parametrize("awaits", [False, True], ids=["plain wait_for", "async wait_for"])
def test_js_3_every_event_type_including_a_suspended_tool(connect, kind, serve, play, awaits):
    usage = chunk({}, **counts(1, 1, 2))
    server = serve(
        reply(call_chunk("approve", "{}"), usage, done()),
        reply(chunk({"content": "Approved and done."}), usage, done()),
    )

    def run(args, ctx):
        if ctx.answer:
            return f"signed off: {ctx.answer.data['decision']}"
        return pending(prompt="Approve this action?", kind="input")

    def answer(question: Request) -> Answer:
        assert question.prompt == "Approve this action?"
        return Answer(id=question.id, ok=True, data={"decision": "yes"})

    async def answer_later(question: Request) -> Answer:
        return answer(question)

    # The sync client cannot await; tests/clients has its refusal.
    wait_for: Any = answer_later if awaits and kind == "async" else answer
    approve = define_tool(name="approve", description="Needs human sign-off", input_schema={"type": "object"}, run=run)
    with Toolkit(approve) as toolkit:
        played = play(connect(server, wait_for=wait_for, **OPTIONS), "Do the thing.", toolkit)
    assert "pending" in played.types, "no pending event surfaced for the suspended tool"
    assert "tool_result" in played.types, "suspended tool never resolved to a result"
    assert played.ended().status == "done"
    assert played.ended().text == "Approved and done."
    assert played.types == ["usage", "tool_call", "pending", "tool_result", "text", "usage", "done"]
    assert server.requests[1].json["messages"][-1]["content"] == "signed off: yes"
    assert not any(isinstance(e, TextEvent) and not e.delta for e in played.events)
