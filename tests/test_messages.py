from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from toolnexus.messages import (
    ImagePart,
    Message,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from toolnexus.suspension import Request, RequestCall

PARTS: list[Part] = [
    TextPart("Hello"),
    ImagePart(url="https://x.example/a.png"),
    ImagePart(data=b"\x89PNG\xff", media_type="image/png"),
    ReasoningPart("Hm.", "openai:x", {"field": "reasoning"}),
    ToolCallPart("c1", "look", {"a": 1}, state="started", request=Request("r1", "input", "?", call=None)),
    ToolResultPart("c1", "look", (TextPart("a"), ImagePart(url="https://x.example/b.png"), TextPart("b")), True),
    OpaquePart({"type": "x"}, "openai:x"),
]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.type)
def test_a_part_does_not_change_has_no_other_members_and_survives_copying(part: Any) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(part, fields(part)[0].name, "other")
    assert not hasattr(part, "__dict__")
    assert pickle.loads(pickle.dumps(part)) == part
    assert copy.deepcopy(part) == part
    assert "type" not in repr(part).partition("(")[2].split("=")[0]


def test_the_types_of_parts_are_all_different() -> None:
    assert len({part.type for part in PARTS}) == 6


def test_a_message_takes_text_or_any_parts_and_survives_copying() -> None:
    assert Message("user", "Hi").parts == (TextPart("Hi"),)
    message = Message("assistant", (part for part in PARTS))
    assert message.parts == tuple(PARTS)
    assert pickle.loads(pickle.dumps(message)) == message == copy.deepcopy(message)
    with pytest.raises(FrozenInstanceError):
        message.role = "user"  # type: ignore[misc]  # the point of the test


def test_the_text_and_the_calls_of_a_message_are_picked_out_in_order() -> None:
    first, second = ToolCallPart("c1", "look", {}), ToolCallPart("c2", "look", {})
    message = Message("assistant", [TextPart("a"), first, ReasoningPart("no"), TextPart("b"), second])
    assert message.text == "ab"
    assert message.tool_calls == (first, second)


def test_the_output_of_a_result_is_its_text_alone() -> None:
    result = PARTS[5]
    assert isinstance(result, ToolResultPart)
    assert result.output == "ab"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "either url= or data="),
        ({"url": "https://x.example", "data": b"x", "media_type": "image/png"}, "either url= or data="),
        ({"data": b"x"}, "needs media_type="),
        ({"data": b"x", "media_type": ""}, "needs media_type="),
    ],
)
def test_an_image_that_is_neither_or_both_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        ImagePart(**arguments)


def test_an_image_of_no_bytes_is_an_image() -> None:
    assert ImagePart(data=b"", media_type="image/png").data == b""


def test_a_call_starts_open_and_unasked() -> None:
    call = ToolCallPart("c1", "look", {})
    assert (call.state, call.request, call.error, call.raw) == ("open", None, None, None)
    assert RequestCall("c1", "look").args == {}


@pytest.mark.parametrize(
    ("role", "parts", "message"),
    [
        ("bot", "Hi.", "role: expected one of .*, got 'bot'"),
        (None, "Hi.", "role: expected one of .*, got None"),
        ("user", None, "parts: expected a str or parts, got None"),
        ("user", ["Hi."], "parts: expected TextPart.*, got 'Hi.'"),
        ("user", [{"type": "text", "text": "Hi."}], "parts: expected TextPart.*, got {'type'"),
    ],
)
def test_what_is_no_message_is_refused_where_it_is_made(role: Any, parts: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Message(role, parts)


@pytest.mark.parametrize(
    "make", [lambda part: Message("user", [part]), lambda part: ToolResultPart("c1", "f", (part,))]
)
def test_what_kind_of_part_is_meant_is_told_by_its_type_alone(make: Callable[[Part], Any]) -> None:
    adapter = TypeAdapter(type(make(TextPart("a"))))
    assert '"discriminator": {"mapping": ' in json.dumps(adapter.json_schema())
    plain = adapter.dump_python(make(TextPart("a")), mode="json")
    field = "parts" if "parts" in plain else "content"
    assert adapter.validate_python(plain) == make(TextPart("a"))
    plain[field][0]["type"] = "film"
    with pytest.raises(
        ValidationError, match="'film' found using 'type' does not match any of the expected tags"
    ) as no:
        adapter.validate_python(plain)
    assert [error["type"] for error in no.value.errors()] == ["union_tag_invalid"]
