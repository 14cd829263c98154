"""Answers that are cut everywhere, and an oracle that knows what a reader may make of each beginning of one.

The oracle does not parse: the answer is made of writes, each is one event with the text that it brings, and exactly
one of them completes the answer. What a beginning of the body is worth follows from which writes it holds whole.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Literal

from tests import claude

Style = Literal["openai", "anthropic"]

TOOL = "transfer"
ARGS: dict[str, Any] = {"to": "Zoë 東京", "amount": 12345, "note": 'a "quoted" \\ path 🙂'}
TEXT = ("Ich sende ", "12345 ", "nach 東京", ", Zoë 🙂", ".")
CALL_ID = "call_abc123"


@dataclass(frozen=True, slots=True)
class Write:
    data: bytes
    text: str = ""
    """What it shows."""
    completes: bool = False
    """After it nothing of the answer is missing."""


@dataclass(frozen=True)
class Answer:
    """The body of a reply that says something and then asks for the tool."""

    style: Style
    writes: tuple[Write, ...]

    @cached_property
    def body(self) -> bytes:
        return b"".join(write.data for write in self.writes)

    @cached_property
    def ends(self) -> list[int]:
        """The offset behind each write."""
        return list(accumulate(len(write.data) for write in self.writes))

    @cached_property
    def complete_at(self) -> int:
        """The least number of bytes that are a whole answer."""
        return next(end for write, end in zip(self.writes, self.ends, strict=True) if write.completes)

    @cached_property
    def _texts(self) -> list[str]:
        texts: list[str] = []
        so_far = ""
        begun = 0
        for write, end in zip(self.writes, self.ends, strict=True):
            texts += [so_far] * (end - begun)
            so_far += write.text
            begun = end
        return [*texts, so_far]

    def text_of(self, size: int) -> str:
        """What the first `size` bytes show."""
        return self._texts[size]

    @cached_property
    def points(self) -> list[int]:
        """Every offset at which it can be cut, both ends included."""
        return list(range(len(self.body) + 1))

    def sample(self, stride: int) -> list[int]:
        """Every `stride`-th offset, and those round the end of each write."""
        edges = {end + near for end in self.ends for near in (-2, -1, 0, 1)}
        return sorted(k for k in {*range(0, len(self.body) + 1, stride), *edges} if 0 <= k <= len(self.body))


def _data(payload: Any, event: str = "") -> bytes:
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(payload, ensure_ascii=False)}\n\n".encode()


def _pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def _openai() -> Answer:
    def chunk(finish: str | None = None, **delta: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _data({"id": "c1", "object": "chat.completion.chunk", "choices": [choice]})

    def call(**function: str) -> bytes:
        opening = {"id": CALL_ID, "type": "function"} if "name" in function else {}
        return chunk(tool_calls=[{"index": 0, **opening, "function": function}])

    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    return Answer(
        "openai",
        (
            Write(b": keep-alive\n\n"),
            Write(chunk(role="assistant", content="")),
            *[Write(chunk(content=piece), text=piece) for piece in TEXT],
            Write(call(name=TOOL, arguments="")),
            *[Write(call(arguments=piece)) for piece in _pieces(json.dumps(ARGS, ensure_ascii=False), 20)],
            Write(chunk(finish="tool_calls"), completes=True),
            Write(_data({"id": "c1", "object": "chat.completion.chunk", "choices": [], "usage": usage})),
            Write(b"data: [DONE]\n\n"),
        ),
    )


def _anthropic() -> Answer:
    def write(payload: dict[str, Any], **options: Any) -> Write:
        return Write(_data(payload, payload["type"]), **options)

    asking = claude.call(1, CALL_ID, *_pieces(json.dumps(ARGS, ensure_ascii=False), 20), name=TOOL)
    begin, *deltas, end = claude.text(0, *TEXT)
    reason, stop = claude.finish("tool_use", output_tokens=2)
    return Answer(
        "anthropic",
        (
            write(claude.start(input_tokens=3, output_tokens=1)),
            write(begin),
            write({"type": "ping"}),
            *[write(delta, text=piece) for delta, piece in zip(deltas, TEXT, strict=True)],
            write(end),
            *[write(payload) for payload in asking],
            write(reason),
            write(stop, completes=True),
        ),
    )


def _openai_whole() -> Answer:
    """The same as a reply that is not a stream: nothing less than all of it is an answer."""
    function = {"name": TOOL, "arguments": json.dumps(ARGS, ensure_ascii=False)}
    message = {
        "role": "assistant",
        "content": "".join(TEXT),
        "tool_calls": [{"id": CALL_ID, "type": "function", "function": function}],
    }
    reply = {"id": "c1", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    return Answer("openai", (_whole(reply),))


def _anthropic_whole() -> Answer:
    content = [
        {"type": "text", "text": "".join(TEXT)},
        {"type": "tool_use", "id": CALL_ID, "name": TOOL, "input": ARGS},
    ]
    usage = {"input_tokens": 3, "output_tokens": 2}
    reply = {"id": "msg_1", "role": "assistant", "content": content, "stop_reason": "tool_use", "usage": usage}
    return Answer("anthropic", (_whole(reply),))


def _whole(reply: Any) -> Write:
    return Write(json.dumps(reply, ensure_ascii=False).encode(), text="".join(TEXT), completes=True)


STREAMED = {answer.style: answer for answer in (_openai(), _anthropic())}
WHOLE = {answer.style: answer for answer in (_openai_whole(), _anthropic_whole())}


def second(style: Style, text: str = "Fertig.") -> bytes:
    """The body of an answer in plain text."""
    if style == "openai":
        chunks: Sequence[Any] = [
            {"choices": [{"index": 0, "delta": {"content": text}}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        ]
        return b"".join(map(_data, chunks)) + b"data: [DONE]\n\n"
    payloads = [claude.start(input_tokens=3), *claude.text(0, text), *claude.finish(output_tokens=1)]
    return b"".join(_data(payload, payload["type"]) for payload in payloads)
