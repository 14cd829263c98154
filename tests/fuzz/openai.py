"""What a server of OpenAI's style may send: nearly right, or anything."""

from __future__ import annotations

from typing import Any

from tests.fuzz.source import Source

WORDS = (
    "choices delta message index finish_reason content tool_calls function name arguments id "
    "type usage error text x_groq reasoning reasoning_content reasoning_details thinking "
    "summary code status prompt_tokens extra"
)
MEMBERS = WORDS.split()


def _number(source: Source) -> int:
    return source.below(10)


def _text(source: Source) -> str:
    return source.text()


def _detail(source: Source) -> Any:
    return source.some(
        MEMBERS,
        type=lambda s: s.pick(["reasoning.text", "reasoning.encrypted"]),
        index=lambda s: s.below(3),
        text=_text,
        summary=_text,
        data=_text,
    )


def _function(source: Source) -> Any:
    return source.some(
        MEMBERS,
        name=lambda s: s.pick(["look", "look", "alone", "", "other", s.text()]),
        arguments=lambda s: s.pick(["", "{}", '{"a":', "1}", '{"a":1}', "null", "[1]", s.text()]),
    )


def _call(source: Source) -> Any:
    return source.some(
        MEMBERS,
        index=lambda s: s.below(3),
        id=lambda s: s.pick(["", "c1", "c2", s.text()]),
        type=lambda s: "function",
        function=_function,
        extra=lambda s: s.anything(MEMBERS, 2),
    )


def _part(source: Source) -> Any:
    return source.some(
        MEMBERS,
        type=lambda s: s.pick(["text", "thinking"]),
        text=_text,
        thinking=lambda s: s.text() if s.below(2) else s.anything(MEMBERS, 2),
    )


def _content(source: Source) -> Any:
    kind = source.below(6)
    return None if not kind else source.many(_part, 2) if kind == 1 else source.text()


def _delta(source: Source) -> Any:
    return source.some(
        MEMBERS,
        role=lambda s: "assistant",
        content=_content,
        refusal=lambda s: None if s.below(4) else s.text(),
        reasoning=lambda s: None if s.below(4) else s.text(),
        reasoning_content=lambda s: None if s.below(4) else s.text(),
        reasoning_details=lambda s: [
            s.anything(MEMBERS, 2) if not s.below(8) else _detail(s) for _ in range(s.below(3))
        ],
        tool_calls=lambda s: [s.anything(MEMBERS, 2) if not s.below(8) else _call(s) for _ in range(s.below(4))],
    )


def _reason(source: Source) -> Any:
    return source.pick([None, None, "stop", "length", "tool_calls", "content_filter", "error", source.text()])


def _choice(source: Source) -> Any:
    return source.some(MEMBERS, index=lambda s: s.below(2), delta=_delta, message=_delta, finish_reason=_reason)


def _usage(source: Source) -> Any:
    return source.some(
        MEMBERS,
        prompt_tokens=_number,
        completion_tokens=_number,
        total_tokens=_number,
        prompt_tokens_details=lambda s: s.some(MEMBERS, cached_tokens=_number),
    )


def _error(source: Source) -> Any:
    return source.some(
        MEMBERS,
        message=_text,
        type=lambda s: s.pick(["overloaded_error", s.text()]),
        code=lambda s: s.pick(["²", 429, "rate_limit_exceeded"]) if s.below(2) else s.anything(MEMBERS, 2),
    )


def usual(source: Source) -> Any:
    """A chunk as servers really send them, one after the other alike but for one text."""
    envelope = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1750000000, "model": "m-1"}
    return {**envelope, "choices": [{"index": 0, "delta": {"content": source.text()}, "finish_reason": None}]}


def payload(source: Source) -> Any:
    """A chunk, or a whole reply."""
    kind = source.below(8)
    if kind == 0:
        return source.pick(["[DONE]", ""])
    if kind == 1:
        return source.anything(MEMBERS)
    if kind in (2, 3):
        return usual(source)
    return source.some(
        MEMBERS,
        choices=lambda s: [s.anything(MEMBERS, 2) if not s.below(10) else _choice(s) for _ in range(1 + s.below(2))],
        usage=_usage,
        x_groq=lambda s: s.some(MEMBERS, usage=_usage),
        **({} if source.below(8) else {"error": _error}),
    )
