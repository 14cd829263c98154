"""What the mock server says, as bytes made beforehand: a scenario's name is the first part of a URL's path.

text-N      N text deltas, an HTTP chunk for each event
coal-N      the same in HTTP chunks of 16 KiB
drip-N      the same, each event on its own, 2 ms apart
paced-N     the same 50 ms apart, each delta is the time at which it was sent
tools-K     K turns with one call each, its arguments in 12 deltas, then an answer
par-P       one turn with P such calls, then an answer
args-K      one call with K kB of arguments in deltas of 4 characters, then an answer
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

Style = Literal["openai", "anthropic"]

DRIP_S = 0.002
PACE_S = 0.05
ANSWER = ("It ", "is ", "31C.")
STAMP = "@@@@@@@@@@@@@@@@@"
"""The place of the time in a paced event, in as many characters as `"%017.6f"` makes."""

_COALESCED = 16 * 1024
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@dataclass(frozen=True)
class Scenario:
    """A kind of response and its size."""

    kind: str
    size: int

    @classmethod
    def parse(cls, name: str) -> Scenario:
        kind, _, size = name.partition("-")
        return cls(kind, int(size))

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.size}"

    @property
    def has_tools(self) -> bool:
        return self.kind in ("tools", "par", "args")

    @property
    def turns(self) -> int:
        """Model responses of one whole run."""
        return {"tools": self.size, "par": 1, "args": 1}.get(self.kind, 0) + 1

    @property
    def units(self) -> int:
        """What a cost is divided by: deltas, or turns."""
        match self.kind:
            case "tools":
                return self.turns
            case "par":
                return 1
            case "args":
                return self.size * 250
            case _:
                return self.size


def response(scenario: Scenario, style: Style, results: int) -> list[bytes]:
    """The response to a request that holds so many tool results, in the pieces in which it is written."""
    return _response(scenario, style, min(results, scenario.turns))


@cache
def _response(scenario: Scenario, style: Style, results: int) -> list[bytes]:
    events = list(_openai(scenario, results) if style == "openai" else _anthropic(scenario, results))
    if scenario.kind in ("drip", "paced"):
        first, *rest = [_chunk(event) for event in events]
        return [_HEAD + first, *rest, b"0\r\n\r\n"]
    if scenario.kind == "coal":
        whole = b"".join(events)
        events = [whole[at : at + _COALESCED] for at in range(0, len(whole), _COALESCED)]
    return [_HEAD + b"".join(map(_chunk, events)) + b"0\r\n\r\n"]


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _texts(scenario: Scenario) -> Iterator[str]:
    if scenario.has_tools:
        yield from ANSWER
    else:
        for number in range(scenario.size):
            yield STAMP if scenario.kind == "paced" else f"tok{number} "


def _calls(scenario: Scenario, results: int) -> list[tuple[str, list[str]]]:
    """Id and pieces of arguments of the calls in this response."""
    match scenario.kind:
        case "tools" if results < scenario.size:
            return [_weather_call(results)]
        case "par" if not results:
            return [_weather_call(number) for number in range(scenario.size)]
        case "args" if not results:
            frame = len(json.dumps({"city": ""}))
            return [("call_0", _cut(json.dumps({"city": "x" * (scenario.size * 1000 - frame)}), 4))]
        case _:
            return []


def _weather_call(number: int) -> tuple[str, list[str]]:
    text = json.dumps({"city": "Chennai", "days": number, "unit": "celsius"})
    return f"call_{number}", _cut(text, -(-len(text) // 12))


def _cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


# -- the two styles


def _openai(scenario: Scenario, results: int) -> Iterator[bytes]:
    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
        head = {"id": "chatcmpl-k1", "object": "chat.completion.chunk", "created": 1750000000, "model": "mock-1"}
        return b"data: %b\n\n" % _json({**head, "choices": choices, **more})

    yield chunk({"role": "assistant", "content": ""})
    calls = _calls(scenario, results)
    for index, (id, pieces) in enumerate(calls):
        function = {"name": "get_weather", "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]})
        for piece in pieces:
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    if not calls:
        for text in _texts(scenario):
            yield chunk({"content": text})
    yield chunk({}, "tool_calls" if calls else "stop")
    yield b"data: %b\n\n" % _json(
        {
            "id": "chatcmpl-k1",
            "object": "chat.completion.chunk",
            "created": 1750000000,
            "model": "mock-1",
            "choices": [],
            "usage": {"prompt_tokens": 20, "completion_tokens": 30, "total_tokens": 50},
        }
    )
    yield b"data: [DONE]\n\n"


def _anthropic(scenario: Scenario, results: int) -> Iterator[bytes]:
    def event(type: str, **members: Any) -> bytes:
        return b"event: %b\ndata: %b\n\n" % (type.encode(), _json({"type": type, **members}))

    usage = {"input_tokens": 20, "output_tokens": 1}
    message = {"id": f"msg_{results}", "type": "message", "role": "assistant", "model": "mock-1", "content": []}
    yield event("message_start", message={**message, "stop_reason": None, "stop_sequence": None, "usage": usage})
    calls = _calls(scenario, results)
    for index, (id, pieces) in enumerate(calls):
        block = {"type": "tool_use", "id": id, "name": "get_weather", "input": {}}
        yield event("content_block_start", index=index, content_block=block)
        for piece in pieces:
            yield event("content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": piece})
        yield event("content_block_stop", index=index)
    if not calls:
        yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        for text in _texts(scenario):
            yield event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})
        yield event("content_block_stop", index=0)
    reason = "tool_use" if calls else "end_turn"
    yield event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage={"output_tokens": 30})
    yield event("message_stop")


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
