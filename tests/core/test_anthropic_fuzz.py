"""Whatever a server of Anthropic's style sends, a run goes on, ends, or fails with an error of ours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.core.scripted import make_run, make_tool, sse
from tests.core.test_fuzz import REPLACEMENTS, places, replaced
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
        run.abandon()
        result = run.result()
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


STOP = {"type": "message_stop"}


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


@pytest.mark.parametrize(("payloads", "where"), places(list(STREAMS.items())))
def test_a_wrong_type_anywhere_in_a_stream_becomes_events_or_an_error_of_ours(
    payloads: list[Any], where: list[tuple[int, tuple[Any, ...]]]
) -> None:
    lines = [sse(payload) for payload in payloads]
    for i, path in where:
        for new in REPLACEMENTS:
            play([*lines[:i], sse(replaced(payloads[i], path, new)), *lines[i + 1 :], sse(STOP)])


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
            run.abandon()
            assert not run.result().tool_calls
        else:
            assert STOP in payloads[:end]
