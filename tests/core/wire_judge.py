"""Compares what came of a wire case with its `expect`; a field that it does not know is an error."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

from tests.core.wire_cases import Case, Outcome, only
from tests.validators import anthropic, openai
from toolnexus import errors
from toolnexus._core.wire.openai_messages import to_openai
from toolnexus.events import DoneEvent, ReasoningEvent, StreamEvent, TextEvent, ToolCallEvent, ToolResultEvent
from toolnexus.results import RunResult

EXTRAS = {"reasoning", "reasoning_content", "reasoning_details", "extra_content"}
"""What other servers of OpenAI's style send and want back."""


def judge(case: Case, out: Outcome) -> None:
    """Assert every field of the case's `expect`, that the API takes every request, and one end, which comes last."""
    check = anthropic.check if case.get("style") == "anthropic" else partial(openai.check, also=EXTRAS)
    for body in out.requests:
        check(body)
    ends = [number for number, event in enumerate(out.events) if isinstance(event, DoneEvent)]
    assert ends == ([] if out.error else [len(out.events) - 1])
    _expected(case["expect"], out)


def _expected(expect: dict[str, Any], out: Outcome) -> None:
    text, result = out.joined(TextEvent), out.result
    calls = [event for event in out.events if isinstance(event, ToolCallEvent)]
    message = str(out.error)
    for name, want in expect.items():
        match name:
            case "status":
                assert result.status == want, message
            case "events":
                _events_in_order(want, out.events, exact="events_note" not in expect)
            case "text":
                assert text == want
            case "text_startswith":
                assert text.startswith(want)
            case "text_matches":
                assert re.search(want, text)
            case "final_text":
                assert result.text == want
            case "second_prompt":
                assert out.last is not None
                assert out.last.status == "done"
            case "reasoning_text":
                assert out.joined(ReasoningEvent) == want
            case "every_text_event_utf8_encodable":
                assert [e.delta.encode() for e in out.events if isinstance(e, TextEvent)]
            case "finish_reason":
                assert result.finish_reason == want
            case "usage":
                known = _usage(result)
                assert known | (dict.fromkeys(known) if want is None else want) == known
            case "usage_total_available":
                assert result.usage.total_tokens == want
            case "requests":
                assert len(out.requests) == want
            case "tool_runs":
                assert out.tool_runs == want
            case "tool_calls_count":
                assert len(calls) == want
            case "tool_ids_distinct":
                assert len({call.id for call in calls if call.id}) == len(calls)
            case "done_events":
                assert sum(isinstance(event, DoneEvent) for event in out.events) == want
            case "error_kind":
                assert _error_kind(out.error) == want, message
            case "error_contains":
                assert want in message
            case "error_contains_any":
                assert any(words in message for words in want), message
            case "error_max_chars":
                assert len(message) <= want
            case "next_request_contains":
                for check in want:
                    _check_request(check, out.requests)
            case "history_valid":
                check_history(to_openai(result.messages))
            case "any_of":
                assert any(_fits(alternative, out) for alternative in want), message
            case "events_note":
                pass
            case _:
                raise AssertionError(f"unknown field {name!r} of expect")


def _fits(expect: dict[str, Any], out: Outcome) -> bool:
    try:
        _expected(expect, out)
    except AssertionError as error:
        if "unknown field" in str(error):
            raise
        return False
    return True


def _usage(result: RunResult) -> dict[str, int | None]:
    usage = result.usage
    return {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "cached_tokens": usage.cached_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }


_KINDS: list[tuple[type[errors.ToolnexusError], str]] = [
    (errors.AuthenticationError, "auth"),
    (errors.PermissionDeniedError, "auth"),
    (errors.RateLimitError, "rate_limit"),
    (errors.OverloadedError, "overloaded"),
    (errors.InternalServerError, "server_error"),
    (errors.APIStatusError, "bad_request"),
    (errors.ProtocolError, "protocol"),
    (errors.APIConnectionError, "connection"),
]


def _error_kind(error: errors.ToolnexusError | None) -> str | None:
    return next((kind for cls, kind in _KINDS if isinstance(error, cls)), None)


def _events_in_order(wanted: list[Any], events: list[StreamEvent], *, exact: bool) -> None:
    have: list[tuple[str, Any]] = []
    for event in events:
        match event:
            case TextEvent(delta):
                if have and have[-1][0] == "text":
                    delta = have.pop()[1] + delta
                have.append(("text", delta))
            case ToolCallEvent():
                have.append(("tool_call", {"id": event.id, "name": event.name, "args": event.args}))
            case ToolResultEvent():
                content = {"content": event.output, "ok": not event.is_error}
                have.append(("tool_result", {"id": event.id, "name": event.name, **content}))
    rest = iter(have)
    for kind, want in wanted:
        assert any(kind == k and _event_fits(want, got, exact) for k, got in rest), (kind, want, have)


def _event_fits(want: Any, got: Any, exact: bool) -> bool:
    if isinstance(want, str):
        return bool(got == want) if exact else want in got
    only("event", want, {"id", "name", "args", "ok", "content_contains"})
    return all(
        value in got["content"] if key == "content_contains" else json.dumps(got[key]) == json.dumps(value)
        for key, value in want.items()
    )


def _check_request(check: dict[str, Any], requests: list[dict[str, Any]]) -> None:
    body = requests[check["request"] - 1]
    value = _find(body, check["path"])
    for name, want in check.items():
        match name:
            case "request" | "path":
                pass
            case "equals":
                assert value == want
            case "one_of":
                assert value in want
            case "matches":
                assert re.search(want, value)
            case "json_equals":
                assert (json.loads(value) if isinstance(value, str) else value) == want
            case "is_valid_json":
                json.loads(value)
            case "is_string":
                assert isinstance(value, str)
            case "is_object":
                assert isinstance(value, dict)
            case "same_as":
                assert value == _find(body, want)
            case "each_tool_call_has_result_before_next_role":
                check_history(value)
            case _:
                raise AssertionError(f"unknown field {name!r} of a request check")


def _find(node: Any, path: str) -> Any:
    path, each, rest = path.partition("[*]")
    for step in re.findall(r"[^.\[\]]+", path):
        node = node[int(step)] if isinstance(node, list) else node[step]
    return [_find(item, rest) for item in node] if each else node


def check_history(messages: list[dict[str, Any]]) -> None:
    """Assert that an OpenAI-style API takes these messages."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert waiting, "a result without a call"
            assert message["tool_call_id"] == waiting.pop(0), "results out of order"
            assert isinstance(message["content"], str)
            continue
        assert not waiting, f"calls {waiting} have no results"
        waiting = [call["id"] for call in message.get("tool_calls", ())]
        assert len(set(waiting)) == len(waiting), "an id twice in one message"
        assert message["content"] or waiting, f"an empty {message['role']} message"
        assert message.get("tool_calls") != []
        for call in message.get("tool_calls", ()):
            assert call["function"]["name"]
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert not waiting, f"calls {waiting} have no results"
