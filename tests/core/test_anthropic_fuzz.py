"""Whatever a server of Anthropic's style sends, a run goes on, ends, or fails with an error of ours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.scripted import make_run, make_tool, sse
from tests.core.test_fuzz import REPLACEMENTS, anything, mostly, odd_text, paths, replaced, some
from tests.tables import wire_cases
from tests.validators import anthropic
from toolnexus._core.commands import Finish, RunTools, SendRequest
from toolnexus._core.run import AgentRun
from toolnexus._core.transcript import closed
from toolnexus._core.wire.anthropic import AnthropicWire
from toolnexus.errors import StreamInterruptedError, ToolnexusError
from toolnexus.events import ReasoningEvent, StreamEvent, TextEvent, event_from_json, event_to_json
from toolnexus.messages import Message

CASES = wire_cases("anthropic")
TOOLS = [make_tool(name) for name in sorted({"look"} | {tool["name"] for case in CASES for tool in case["tools"]})]
SHAPES = {"known members", "thinking", "redacted thinking", "block's role", "tool_use id"}
"""Rules that a server breaks for itself: its own ids and blocks go back to it word for word."""


def claude(*messages: Message, stream: bool = True) -> AgentRun:
    return make_run(*TOOLS, wire=AnthropicWire(), origin="anthropic:x", history=messages, stream=stream)


def play(pieces: list[bytes], *, reset: bool = False, stream: bool = True) -> AgentRun:
    """One reply, and the checks that hold for every reply."""
    run = claude(stream=stream)
    events: list[StreamEvent] = []
    failed: ToolnexusError | None = None
    run.response_opened(200, {}, 0.0)
    try:
        for piece in pieces:
            events += run.receive(piece)
        events += run.response_failed(StreamInterruptedError("reset")) if reset else run.response_ended()
    except ToolnexusError as error:
        failed = error
    if failed is not None:
        assert len(str(failed)) < 3000
        str(failed).encode()
        assert isinstance(run.next_command(), SendRequest)
        result = run.abandon()
        assert not result.tool_calls
    else:
        assert isinstance(run.next_command(), RunTools | SendRequest | Finish)
        result = run.result()
    for event in events:
        if isinstance(event, TextEvent | ReasoningEvent):
            assert event.delta
            event.delta.encode()
        assert event_from_json(event_to_json(event)) == event
    shown = "".join(e.delta for e in events if isinstance(e, TextEvent))
    # In any order: the deltas of two blocks may alternate.
    assert sorted(shown) == sorted(result.text) or (not shown and failed is not None)
    # What was said can be stored, and sent on, here and to another provider.
    result.model_dump_json()
    following = claude(*closed(result.messages)).next_command()
    assert isinstance(following, SendRequest)
    body = json.dumps(run.body(following.request), ensure_ascii=False, allow_nan=False)
    body.encode()
    assert {rule for rule, _ in anthropic.broken_rules(json.loads(body))} <= SHAPES
    return run


usage = some(
    input_tokens=st.integers(0, 9),
    output_tokens=st.integers(0, 9),
    cache_read_input_tokens=st.integers(0, 9),
    output_tokens_details=some(thinking_tokens=st.integers(0, 9)),
)
indices = st.integers(0, 2)
block = some(
    type=st.sampled_from(["text", "text", "thinking", "tool_use", "server_tool_use", "redacted_thinking", "news"]),
    text=st.just("") | odd_text,
    thinking=st.just("") | odd_text,
    signature=odd_text,
    citations=st.none() | st.lists(anything, max_size=1),
    id=st.sampled_from(["", "c1", "c2"]) | odd_text,
    name=st.sampled_from(["look", "", "other"]) | odd_text,
    input=st.just({}) | anything,
    data=odd_text,
    extra=anything,
)
delta = some(
    type=st.sampled_from(
        ["text_delta", "thinking_delta", "input_json_delta", "signature_delta", "citations_delta", "news_delta"]
    ),
    text=odd_text,
    thinking=odd_text,
    partial_json=st.sampled_from(["", "{}", '{"a":', "1}", "[1]", "null"]) | odd_text,
    signature=odd_text,
    citation=anything,
    stop_reason=st.sampled_from([None, "end_turn", "tool_use", "max_tokens", "refusal", "pause_turn"]) | odd_text,
)
payload = some(
    type=st.sampled_from(["content_block_start", "content_block_delta"])
    | st.sampled_from(
        ["message_start", "content_block_stop", "message_delta", "message_stop", "ping", "error", "news"]
    ),
    index=indices,
    content_block=block,
    delta=delta,
    message=some(usage=usage, content=st.lists(block, max_size=1)),
    usage=usage,
    error=some(message=odd_text, type=odd_text | st.just("overloaded_error")),
)
STOP = {"type": "message_stop"}


@given(
    st.lists(payload | payload | anything | st.sampled_from(["[DONE]", ""]), max_size=7), st.booleans(), st.booleans()
)
@settings(deadline=None, max_examples=600)
def test_any_objects_as_payloads_become_events_or_an_error_of_ours(
    payloads: list[Any], stopped: bool, reset: bool
) -> None:
    play([sse(*payloads, *([STOP] if stopped else ()))], reset=reset)


whole = some(
    type=st.just("message"),
    content=st.lists(mostly(block), max_size=3),
    stop_reason=st.sampled_from([None, "end_turn", "tool_use", "max_tokens"]) | odd_text,
    usage=usage,
    error=anything,
)


@given(whole | anything)
@settings(deadline=None, max_examples=200)
def test_any_object_as_a_whole_reply_becomes_an_answer_or_an_error_of_ours(payload: Any) -> None:
    play([json.dumps(payload).encode()], stream=False)


def streams() -> Iterator[tuple[str, list[Any]]]:
    seen = set()
    for case in CASES:
        for i, turn in enumerate(case["turns"]):
            found = re.findall(r"^data: (\{.*\})$", "".join(turn.get("chunks", ())), re.MULTILINE)
            payloads = [json.loads(line) for line in found]
            for message in (p["message"] for p in payloads if "message" in p):
                for member in ("id", "type", "role", "model", "content"):  # nobody looks at them
                    message.pop(member, None)
            unlike = [p for n, p in enumerate(payloads) if p not in payloads[:n]]
            if json.dumps(unlike) not in seen:
                seen.add(json.dumps(unlike))
                yield f"{case['id']}, {i + 1}", unlike


STREAMS = dict(streams())
every_stream = pytest.mark.parametrize("payloads", STREAMS.values(), ids=STREAMS)


@every_stream
def test_a_wrong_type_anywhere_in_a_stream_becomes_events_or_an_error_of_ours(payloads: list[Any]) -> None:
    lines = [sse(payload) for payload in payloads]
    for i, payload in enumerate(payloads):
        for path in paths(payload):
            for new in REPLACEMENTS:
                changed = sse(replaced(payload, path, new))
                play([*lines[:i], changed, *lines[i + 1 :], sse(STOP)])


@every_stream
def test_a_stream_without_one_of_its_events_or_with_one_twice_does_no_harm(payloads: list[Any]) -> None:
    for i in range(len(payloads)):
        play([sse(*payloads[:i], *payloads[i + 1 :])])
        play([sse(*payloads[: i + 1], *payloads[i:])])


@every_stream
def test_no_call_of_a_stream_that_is_cut_runs(payloads: list[Any]) -> None:
    for end in range(len(payloads)):
        run = claude()
        run.response_opened(200, {}, 0.0)
        try:
            run.receive(sse(*payloads[:end], STOP)[: -len(sse(STOP))])
            run.response_failed(StreamInterruptedError("reset"))
        except ToolnexusError:
            assert isinstance(run.next_command(), SendRequest)
            assert not run.abandon().tool_calls
        else:
            assert STOP in payloads[:end]
