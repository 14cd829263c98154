"""Any transcript, to any provider: the request is one that its API takes, and what the wire can carry comes back."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.strategies import ANTHROPIC, IDS, IMITATOR, KIMI, MISTRAL, OPENAI, prompts, transcripts
from tests.validators import anthropic, openai
from toolnexus._core.commands import ModelOptions, ModelRequest
from toolnexus._core.transcript import balanced, closed
from toolnexus._core.wire import Wire
from toolnexus._core.wire.anthropic import AnthropicWire
from toolnexus._core.wire.anthropic_messages import from_anthropic, to_anthropic
from toolnexus._core.wire.openai import OpenAIWire
from toolnexus._core.wire.openai_messages import from_openai, to_openai
from toolnexus.messages import (
    ImagePart,
    Message,
    OpaquePart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from toolnexus.tool import Tool

EXTRAS = {"reasoning", "reasoning_content", "reasoning_details", "extra_content"}
"""What other providers of OpenAI's style have besides; whose is whose is checked on its own."""

TARGETS: dict[str, tuple[Wire, Callable[[dict[str, Any]], None]]] = {
    OPENAI: (OpenAIWire(), lambda body: openai.check(body, also=EXTRAS)),
    KIMI: (OpenAIWire(), lambda body: openai.check(body, also=EXTRAS, longest_id=60)),
    MISTRAL: (OpenAIWire(), lambda body: openai.check(body, also=EXTRAS, mistral=True)),
    ANTHROPIC: (AnthropicWire(), anthropic.check),
    IMITATOR: (AnthropicWire(), anthropic.check),
}
to_any_provider = pytest.mark.parametrize("target", TARGETS)


def tool(name: str) -> Tool:
    def never(*args: Any) -> Any:
        raise AssertionError("nobody runs it")

    return Tool(name=name, description="", input_schema={"type": "object"}, function=never, bind=never)


@st.composite
def requests(draw: st.DrawFn, target: str) -> ModelRequest:
    """What a run asks first: a history that ended somehow, and a prompt."""
    history = draw(transcripts)
    tools = draw(st.sampled_from([(), (tool("look"),), (tool("look"), tool("ask-2"))]))
    options = ModelOptions(
        max_tokens=draw(st.sampled_from([None, 1, 100_000])),
        temperature=draw(st.sampled_from([None, 0, 0.5, 1])),
        stop=draw(st.sampled_from([(), ("END",)])),
        tool_choice=draw(st.sampled_from([None, "auto", "none", "required", *(t.name for t in tools)])),
        parallel_tool_calls=draw(st.sampled_from([None, True, False])),
    )
    return ModelRequest(
        model="m",
        system=draw(st.sampled_from([None, "", "Be brief."])),
        messages=[*closed(history), draw(prompts)],
        tools=tools,
        stream=draw(st.booleans()),
        options=options,
        origin=target,
    )


@to_any_provider
@given(st.data())
@settings(deadline=None, max_examples=100)
def test_whatever_happened_before_the_request_is_one_that_the_api_takes(target: str, data: st.DataObject) -> None:
    request = data.draw(requests(target))
    before = copy.deepcopy(request)
    wire, check = TARGETS[target]
    text = json.dumps(wire.body(request), ensure_ascii=False, allow_nan=False)
    text.encode()
    check(json.loads(text))
    assert request == before


@to_any_provider
@given(transcripts)
@settings(deadline=None, max_examples=100)
def test_what_one_provider_signed_goes_to_no_other(target: str, transcript: list[Message]) -> None:
    to_shape = to_openai if target.startswith("openai") else to_anthropic
    sent = json.dumps(to_shape(transcript, origin=target))
    assert not [origin for origin in IDS if origin != target and origin in sent]


# -- there and back


def carried_by_anthropic(messages: list[Message], origin: str) -> list[Any]:
    """What Anthropic's shape has of a transcript.

    Of each message what can be said to `origin`: no blank text, nothing that only another provider understands, no
    thinking without a signature. Calls by their number instead of their id, without their state, and with a name
    that fits. Messages in a row by one role are one message, and results are said by the user.
    """
    ours = ("anthropic", origin)
    out: list[Any] = []
    numbers: dict[str, int] = {}  # of the calls of the current turn
    count = itertools.count()
    for message in balanced(messages):
        parts: list[Any] = []
        for part in message.parts:
            match part:
                case TextPart(text, by, extra) if text.strip():
                    parts.append((text, extra if by in ours else {}))
                case ImagePart():
                    parts.append(part)
                case ReasoningPart(text, by, extra) if by in ours and "signature" in extra:
                    parts.append(("thinking", text, extra))
                case OpaquePart(data, by) if by in ours:
                    parts.append(data)
                case ToolCallPart(id, name, args, origin=by, extra=extra):
                    numbers[id] = next(count)
                    parts.append((numbers[id], fit(name, 128), args, extra if by in ours else {}))
                case ToolResultPart(id, name, content, is_error):
                    said = [p for p in content if isinstance(p, ImagePart) or p.text.strip()]
                    parts.append(
                        (numbers[id], fit(name, 128), said or ([TextPart("error")] if is_error else []), is_error)
                    )
        role = "user" if message.role == "tool" else message.role
        if out and out[-1][0] == role:
            out[-1][1].extend(parts)
        elif parts:
            out.append((role, parts))
    return out


def carried_by_openai(messages: list[Message], origin: str) -> list[Any]:
    """What OpenAI's shape has of a transcript.

    The parts of a user's message; of an answer its text, its calls, and of its thinking what `origin` wants back; of
    a result its text.
    """
    ours = ("openai", origin)
    out: list[Any] = []
    numbers: dict[str, int] = {}
    for message in balanced(messages):
        match message.role:
            case "assistant":
                for i, call in enumerate(message.tool_calls):
                    numbers[call.id] = i
                thoughts = [p for p in message.parts if isinstance(p, ReasoningPart) and p.origin in ours]
                details = [detail for p in thoughts for detail in p.extra.get("reasoning_details", ())]
                text = "".join(p.text for p in thoughts if message.tool_calls and "field" in p.extra)
                calls = [
                    (numbers[c.id], fit(c.name, 64), c.args, c.extra if c.origin in ours else {})
                    for c in message.tool_calls
                ]
                if message.text or calls or details:
                    out.append(("assistant", message.text, calls, details, text))
            case "tool":
                (part,) = message.parts
                assert isinstance(part, ToolResultPart)
                (sent,) = (m for m in to_openai([*asking(part), message]) if m["role"] == "tool")
                out.append(("tool", numbers[part.id], fit(part.name, 64), sent["content"]))
            case role:
                parts = [p for p in message.parts if not isinstance(p, OpaquePart) or p.origin in ours]
                said = [p for p in parts if p != TextPart("")] if len(parts) == 1 else parts
                opaque = [p.data if isinstance(p, OpaquePart) else p for p in said]
                if parts:
                    out.append((role, opaque))
    return out


def fit(name: str, length: int) -> str:
    """A name that a model made up, as the API takes it."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:length] or "unknown"


def asking(part: ToolResultPart) -> list[Message]:
    return [Message("assistant", [ToolCallPart(part.id, part.name, {})])]


def has_a_start(transcript: list[Message]) -> list[Message]:
    """No system message, and a user that says something each time: else the wire has words of its own."""
    hello = TextPart("Hello?")
    return [Message("user", [hello])] + [
        Message("user", [hello, *m.parts]) if m.role == "user" else m for m in transcript if m.role != "system"
    ]


@pytest.mark.parametrize("target", [ANTHROPIC, IMITATOR])
@given(transcripts.map(has_a_start))
@settings(deadline=None, max_examples=100)
def test_what_anthropics_shape_can_carry_comes_back(target: str, transcript: list[Message]) -> None:
    _, dicts = to_anthropic(transcript, origin=target)
    back = from_anthropic(json.loads(json.dumps(dicts)))
    assert carried_by_anthropic(back, target) == carried_by_anthropic(transcript, target)
    assert to_anthropic(back, origin=target) == (None, dicts)


@pytest.mark.parametrize("target", [OPENAI, KIMI, MISTRAL])
@given(transcripts.map(has_a_start))
@settings(deadline=None, max_examples=100)
def test_what_openais_shape_can_carry_comes_back(target: str, transcript: list[Message]) -> None:
    dicts = to_openai(transcript, origin=target)
    back = from_openai(json.loads(json.dumps(dicts)))
    assert carried_by_openai(back, target) == carried_by_openai(transcript, target)


@given(transcripts)
@settings(deadline=None, max_examples=100)
def test_the_system_messages_come_out_on_their_own(transcript: list[Message]) -> None:
    system, dicts = to_anthropic(transcript)
    said = [m.text for m in transcript if m.role == "system" and m.text.strip()]
    assert system == ("\n\n".join(said) or None)
    (first, *_) = [*from_anthropic(dicts, system), None]
    assert (first is not None and first.role == "system") == bool(said)


# -- balance


@given(transcripts.flatmap(lambda messages: st.permutations(messages) | st.just(messages)))
@settings(deadline=None, max_examples=100)
def test_a_balanced_transcript_stays_as_it_is_and_nothing_given_is_changed(transcript: list[Message]) -> None:
    before = copy.deepcopy(transcript)
    once = balanced(transcript)
    assert balanced(once) == once
    assert closed(closed(transcript)) == closed(transcript)
    assert transcript == before
    for i, message in enumerate(once):
        wanted = [call.id for call in message.tool_calls]
        got = [p.id for m in once[i + 1 : i + 1 + len(wanted)] for p in m.parts if isinstance(p, ToolResultPart)]
        assert got == wanted
    assert sum(m.role == "tool" for m in once) == sum(len(m.tool_calls) for m in once)
