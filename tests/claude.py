"""What a model says in Anthropic's words: the payloads of a stream."""

from __future__ import annotations

from typing import Any

Payload = dict[str, Any]


def start(**usage: Any) -> Payload:
    """A message begins, with what is known of its usage."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": usage}
    return {"type": "message_start", "message": message}


def begin(index: Any, type: Any, **members: Any) -> Payload:
    """A block begins."""
    return {"type": "content_block_start", "index": index, "content_block": {"type": type, **members}}


def delta(index: Any, type: str | None, **members: Any) -> Payload:
    """A piece of a block."""
    return {"type": "content_block_delta", "index": index, "delta": {"type": type, **members}}


def end(index: Any) -> Payload:
    """A block ends."""
    return {"type": "content_block_stop", "index": index}


def text(index: int, *pieces: str) -> list[Payload]:
    """A block of text."""
    deltas = [delta(index, "text_delta", text=piece) for piece in pieces]
    return [begin(index, "text", text=""), *deltas, end(index)]


def call(index: int, id: str, *pieces: str, name: str = "look", **members: Any) -> list[Payload]:
    """A call whose input comes in `pieces`."""
    deltas = [delta(index, "input_json_delta", partial_json=piece) for piece in pieces]
    return [begin(index, "tool_use", id=id, name=name, input={}, **members), *deltas, end(index)]


def thought(index: int, said: str, signature: str) -> list[Payload]:
    """A block of signed thinking."""
    deltas = [
        delta(index, "thinking_delta", thinking=said),
        delta(index, "signature_delta", signature=signature),
    ]
    return [begin(index, "thinking", thinking="", signature=""), *deltas, end(index)]


def finish(reason: str | None = "end_turn", **usage: Any) -> list[Payload]:
    """The message ends."""
    return [{"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}, {"type": "message_stop"}]
