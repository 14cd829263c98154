"""What counts as progress of the model: each delta of it, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.scripted import chunk, make_run, reading, sse
from toolnexus._core.run import AgentRun
from toolnexus._core.wire.anthropic import AnthropicWire


def opened(run: AgentRun, *before: bytes) -> AgentRun:
    run.next_command()
    run.response_opened(200, {}, 0.0)
    for piece in before:
        run.receive(piece)
    return run


def call_delta(**function: str) -> dict[str, Any]:
    return chunk(tool_calls=[{"index": 0, "id": "c1", "function": function}])


OPENAI = {
    "text": chunk("Hi"),
    "thinking": chunk(reasoning_content="Hm"),
    "a call that begins": call_delta(name="look"),
    "a piece of its arguments": call_delta(arguments='{"a"'),
}


@pytest.mark.parametrize("payload", OPENAI.values(), ids=OPENAI)
def test_each_delta_is_progress(payload):
    run = opened(make_run())
    seen = [reading(run).progress]
    for payload_again in (payload, call_delta(arguments="1")):
        run.receive(sse(payload_again))
        seen.append(reading(run).progress)
    assert len(set(seen)) == 3


NOTHING = {
    "a comment": b": still here\n\n",
    "half a line": b'data: {"choices": [{"index": 0, "delta": {"content": "Hi',
    "blanks": b"\n\n  \n",
    "an empty delta": sse(chunk("")),
    "empty arguments": sse(call_delta(arguments="")),
    "an empty list of choices": sse({"choices": []}),
    "an unknown payload": sse({"type": "ping"}),
}


@pytest.mark.parametrize("data", NOTHING.values(), ids=NOTHING)
def test_bytes_that_are_no_delta_are_no_progress(data):
    run = opened(make_run(), sse(chunk("Hi"), call_delta(name="look", arguments="{")))
    before = reading(run).progress
    run.receive(data)
    assert reading(run).progress == before


def anthropic(**payload: Any) -> bytes:
    return f"event: {payload['type']}\ndata: {json.dumps(payload)}\n\n".encode()


def block(**content: Any) -> bytes:
    return anthropic(type="content_block_start", index=0, content_block=content)


ANTHROPIC = {
    "text": ({"type": "text", "text": ""}, {"type": "text_delta", "text": "Hi"}),
    "thinking": ({"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": "Hm"}),
    "a signature": ({"type": "thinking", "thinking": ""}, {"type": "signature_delta", "signature": "s"}),
    "a citation": ({"type": "text", "text": ""}, {"type": "citations_delta", "citation": {"a": 1}}),
    "arguments": ({"type": "tool_use", "id": "c1", "name": "look"}, {"type": "input_json_delta", "partial_json": "{"}),
    "input of a tool of theirs": (
        {"type": "server_tool_use", "id": "s1", "name": "search"},
        {"type": "input_json_delta", "partial_json": "{"},
    ),
    "a delta of a block that is new to us": ({"type": "novelty"}, {"type": "novelty_delta", "text": "n"}),
}


@pytest.mark.parametrize(("content", "delta"), ANTHROPIC.values(), ids=ANTHROPIC)
def test_each_delta_of_anthropics_is_progress_and_a_ping_is_not(content, delta):
    run = opened(make_run(wire=AnthropicWire()), anthropic(type="message_start", message={"content": []}))
    seen = [reading(run).progress]
    for data in (block(**content), anthropic(type="content_block_delta", index=0, delta=delta)):
        run.receive(data)
        seen.append(reading(run).progress)
    assert len(set(seen)) == 3
    run.receive(anthropic(type="ping"))
    run.receive(b": still here\n\n")
    assert reading(run).progress == seen[-1]


def test_progress_is_that_of_one_response():
    run = opened(make_run(), sse(chunk("Hi")))
    assert reading(run).progress > 0
    run.response_opened(200, {}, 0.0)  # the response was asked for again
    assert reading(run).progress == 0
