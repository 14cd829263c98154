"""A scripted model that keeps no state: what it says next depends on the transcript that it is sent, and on no more.

So a run can stop here and go on in another process, with the other style, and the same is said. A request that the
API would refuse is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tests import claude
from tests.server import Request, Response, calls, failure, reply, says, whole
from tests.validators import anthropic, openai

Call = tuple[str, str, dict[str, Any]]
"""Id, name and arguments."""
Turn = str | Sequence[Call]


def model(*turns: Turn) -> Callable[[Request], Response]:
    """Says the n-th turn to whoever sends a transcript with n messages of the model, and the last one ever after."""

    def answer(request: Request) -> Response:
        body = request.json
        is_claude = request.target.endswith("/messages")
        broken = (anthropic if is_claude else openai).broken_rules(body)
        if broken:
            return failure(400, f"broken: {broken}")
        said = sum(message["role"] == "assistant" for message in body["messages"])
        turn = turns[min(said, len(turns) - 1)]
        if is_claude:
            return _claude_streams(turn) if body.get("stream") else _claude_says(turn)
        return _openai_streams(turn) if body.get("stream") else _openai_says(turn)

    return answer


def _openai_streams(turn: Turn) -> Response:
    if isinstance(turn, str):
        return says(turn)
    return calls(*((id, name, json.dumps(args)) for id, name, args in turn))


def _openai_says(turn: Turn) -> Response:
    message: dict[str, Any] = {"role": "assistant", "content": turn if isinstance(turn, str) else None}
    if not isinstance(turn, str):
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
            for id, name, args in turn
        ]
    reason = "stop" if isinstance(turn, str) else "tool_calls"
    return whole({"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": reason}]})


def _claude_streams(turn: Turn) -> Response:
    if isinstance(turn, str):
        payloads = [claude.start(), *claude.text(0, turn), *claude.finish()]
    else:
        blocks = [claude.call(n, id, json.dumps(args), name=name) for n, (id, name, args) in enumerate(turn)]
        payloads = [claude.start(), *(payload for block in blocks for payload in block), *claude.finish("tool_use")]
    return reply([f"event: {p['type']}\ndata: {json.dumps(p)}\n\n".encode() for p in payloads])


def _claude_says(turn: Turn) -> Response:
    if isinstance(turn, str):
        content: list[dict[str, Any]] = [{"type": "text", "text": turn}]
    else:
        content = [{"type": "tool_use", "id": id, "name": name, "input": args} for id, name, args in turn]
    reason = "end_turn" if isinstance(turn, str) else "tool_use"
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "usage": usage}
    return whole({**head, "content": content, "stop_reason": reason})
