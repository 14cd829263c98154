"""What a server of Anthropic's style may send: nearly right, or anything."""

from __future__ import annotations

from typing import Any

from tests.fuzz.source import Source

WORDS = (
    "type index content_block delta message usage error text thinking signature citations id "
    "name input data extra partial_json citation stop_reason input_tokens output_tokens content"
)
MEMBERS = WORDS.split()
BLOCKS = ["text", "text", "thinking", "tool_use", "tool_use", "server_tool_use", "redacted_thinking", "news"]
DELTAS = ["text_delta", "thinking_delta", "input_json_delta", "signature_delta", "citations_delta", "news_delta"]
REASONS = [None, "end_turn", "tool_use", "max_tokens", "refusal", "pause_turn"]
EVENTS = [
    "content_block_start",
    "content_block_start",
    "content_block_delta",
    "content_block_delta",
    "content_block_delta",
    "content_block_stop",
    "message_start",
    "message_delta",
    "message_stop",
    "ping",
    "error",
    "news",
]
STOP = {"type": "message_stop"}


def _number(source: Source) -> int:
    return source.below(10)


def _text(source: Source) -> str:
    return source.text()


def _usage(source: Source) -> Any:
    return source.some(
        MEMBERS,
        input_tokens=_number,
        output_tokens=_number,
        cache_read_input_tokens=_number,
        output_tokens_details=lambda s: s.some(MEMBERS, thinking_tokens=_number),
    )


def block(source: Source) -> Any:
    """The start of a block, or a whole one."""
    return source.some(
        MEMBERS,
        type=lambda s: s.pick(BLOCKS),
        text=lambda s: s.text() if s.below(2) else "",
        thinking=lambda s: s.text() if s.below(2) else "",
        signature=_text,
        citations=lambda s: None if s.below(4) else [s.anything(MEMBERS, 2)],
        id=lambda s: s.pick(["", "c1", "c2", s.text()]),
        name=lambda s: s.pick(["look", "look", "alone", "", "other", s.text()]),
        input=lambda s: {} if s.below(3) else s.anything(MEMBERS, 2),
        data=_text,
        extra=lambda s: s.anything(MEMBERS, 2),
    )


def _delta(source: Source) -> Any:
    return source.some(
        MEMBERS,
        type=lambda s: s.pick(DELTAS),
        text=_text,
        thinking=_text,
        partial_json=lambda s: s.pick(["", "{}", '{"a":', "1}", "[1]", "null", s.text()]),
        signature=_text,
        citation=lambda s: s.anything(MEMBERS, 2),
        stop_reason=lambda s: s.pick([*REASONS, s.text()]),
    )


PIECES = {
    "text": ["text_delta", "text_delta", "citations_delta"],
    "thinking": ["thinking_delta", "thinking_delta", "signature_delta"],
    "tool_use": ["input_json_delta"],
    "server_tool_use": ["input_json_delta"],
}
"""The pieces that belong to a block."""


def stream(source: Source) -> list[Any]:
    """Events, many of them about blocks that were begun before."""
    events: list[Any] = []
    begun: dict[int, str] = {}
    for _ in range(source.below(10)):
        if begun and source.below(3):
            index = source.pick(sorted(begun))
            kinds = PIECES.get(begun[index], DELTAS)
            event = {
                "type": "content_block_delta",
                "index": index,
                "delta": {**_delta(source), "type": source.pick(kinds)},
            }
        elif source.below(3):
            index, start = source.below(3), block(source)
            event = {"type": "content_block_start", "index": index, "content_block": start}
            begun[index] = str(start.get("type"))
        else:
            event = payload(source)
        events.append(event)
    return events


def payload(source: Source) -> Any:
    """An event of the stream."""
    kind = source.below(10)
    if kind == 0:
        return source.pick(["[DONE]", ""])
    if kind == 1:
        return source.anything(MEMBERS)
    return source.some(
        MEMBERS,
        type=lambda s: s.pick(EVENTS),
        index=lambda s: s.below(3),
        content_block=block,
        delta=_delta,
        message=lambda s: s.some(MEMBERS, usage=_usage, content=lambda s: s.many(block, 1)),
        usage=_usage,
        error=lambda s: s.some(MEMBERS, message=_text, type=lambda s: s.pick(["overloaded_error", s.text()])),
    )


def whole(source: Source) -> Any:
    """A reply that is not streamed."""
    if not source.below(8):
        return source.anything(MEMBERS)
    return source.some(
        MEMBERS,
        type=lambda s: "message",
        content=lambda s: [s.anything(MEMBERS, 2) if not s.below(10) else block(s) for _ in range(s.below(4))],
        stop_reason=lambda s: s.pick([*REASONS, s.text()]),
        usage=_usage,
        **({} if source.below(8) else {"error": lambda s: s.anything(MEMBERS, 2)}),
    )
