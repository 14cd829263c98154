"""Messages and ids that a store must keep apart and whole."""

from __future__ import annotations

from ..messages import (
    ImagePart,
    Message,
    OpaquePart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from ..suspension import Request, RequestCall

IDS = [
    "talk",
    "Talk",
    "TALK",
    "talk ",
    " talk",
    "talk\0",
    "talk\0more",
    "../talk",
    "..",
    ".",
    "/etc/passwd",
    "C:\\talk",
    "con",
    "%2e%2e%2ftalk",
    "a/b",
    "a:b",
    "a*b?",
    "it's",
    'say "talk"',
    "'; DROP TABLE messages; --",
    "\n",
    "é",
    "e\u0301",
    "ß",
    "SS",
    "talk🗣️",
    "🗣",
    "\ud800",
    "\udfff",
    "1",
    "01",
    "1.0",
    "null",
    "x" * 10_000,
    "x" * 10_001,
    "None",
]
"""All different; no store may take one for another."""


def turn(number: int) -> list[Message]:
    """A turn with a tool call, in new objects."""
    call = f"call-{number}"
    return [
        Message("user", f"Question {number}?"),
        Message("assistant", [ToolCallPart(call, "look", {"at": {"number": number}}, state="finished")]),
        Message("tool", [ToolResultPart(call, "look", (TextPart(f"seen {number}"),))]),
        Message("assistant", f"Answer {number}."),
    ]


def every_part() -> list[Message]:
    """Messages with each kind of part, each field set and not set, and what is awkward in text and JSON."""
    deep: dict[str, object] = {}
    for _ in range(125):
        deep = {"in": [deep]}
    awkward = (
        "NUL \0, quotes ' \" \\, newlines \r\n \u2028, emoji 🗣️, combining e\u0301, \ufeff\uffff, half \ud83d of a pair"
    )
    values: dict[str, object] = {
        "": None,
        "yes": True,
        "one": 1,
        "float": 1.0,
        "small": 5e-324,
        "big": 10**60,
        "minus": -0.0,
        "list": [[], {}],
    }
    request = Request(
        "r1", "approval", "Sure?", "https://example.org/?a=1", [values], 4102444800.5, RequestCall("c2", "look", values)
    )
    return [
        Message("system", "Be kind."),
        Message("user", []),
        Message("user", ""),
        Message(
            "user",
            [
                TextPart(awkward),
                TextPart("cited", "anthropic:api.anthropic.com", {"citations": [values]}),
                ImagePart(url="https://example.org/a.png"),
                ImagePart(data=bytes(range(256)), media_type="image/png"),
                ImagePart(data=b"", media_type="image/gif"),
            ],
        ),
        Message(
            "assistant",
            [
                ReasoningPart("hm"),
                ReasoningPart("", "anthropic:api.anthropic.com", {"signature": awkward}),
                OpaquePart({"type": "text", "text": 1, "more": values}, "anthropic:api.anthropic.com"),
                ToolCallPart("c1", "look", {}),
                ToolCallPart("c2", "look", values, state="open", request=request),
                ToolCallPart("c3", "look", {}, '{"a": ', "cut off", "finished", None, "openai:x", {"index": 1}),
                ToolCallPart("c4", "look", {"deep": deep}, state="started", request=Request("r2", "input", "?")),
            ],
        ),
        Message("tool", [ToolResultPart("c1", "look", ())]),
        Message("tool", [ToolResultPart("c3", "look", (TextPart(awkward), ImagePart(url="data:,")), is_error=True)]),
        Message("assistant", "y" * 300_000),
    ]
