from __future__ import annotations

import base64
import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.wire_judge import check_history
from toolnexus._core.transcript import NOT_RUN, balanced
from toolnexus._core.wire.openai_messages import STYLE, from_openai, to_openai
from toolnexus.errors import ConfigurationError
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

LOOK = ToolCallPart("c1", "look", {"a": 1}, state="finished")
LOOK_DICT = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}
RAIN = Message("tool", [ToolResultPart("c1", "look", (TextPart("rain"),))])
RAIN_DICT = {"role": "tool", "tool_call_id": "c1", "content": "rain"}
PNG = ImagePart(data=b"\x89PNG\xff", media_type="image/png")
PNG_DICT = {
    "type": "image_url",
    "image_url": {"url": "data:image/png;base64," + base64.b64encode(b"\x89PNG\xff").decode()},
}


def assistant(*parts: Part) -> Message:
    return Message("assistant", parts)


BOTH_WAYS: dict[str, tuple[list[Message], list[dict[str, Any]]]] = {
    "text": ([Message("user", "Hi")], [{"role": "user", "content": "Hi"}]),
    "a system message": ([Message("system", "Be brief.")], [{"role": "system", "content": "Be brief."}]),
    "an answer": ([assistant(TextPart("Hi"))], [{"role": "assistant", "content": "Hi"}]),
    "parts": (
        [Message("user", [TextPart("Look: "), PNG, ImagePart(url="https://x.example/a.png")])],
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look: "},
                    PNG_DICT,
                    {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}},
                ],
            }
        ],
    ),
    "an unknown part": (
        [Message("user", [OpaquePart({"type": "input_audio", "input_audio": {"data": "x"}}, STYLE)])],
        [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "x"}}]}],
    ),
    "a call": (
        [assistant(LOOK), RAIN],
        [{"role": "assistant", "content": None, "tool_calls": [LOOK_DICT]}, RAIN_DICT],
    ),
    "text, thinking and a call": (
        [assistant(ReasoningPart("Hm.", STYLE, {"field": "reasoning"}), TextPart("I look."), LOOK), RAIN],
        [{"role": "assistant", "content": "I look.", "reasoning": "Hm.", "tool_calls": [LOOK_DICT]}, RAIN_DICT],
    ),
    "details of thinking": (
        [assistant(ReasoningPart("", STYLE, {"reasoning_details": [{"type": "x"}]}), TextPart("Hi"))],
        [{"role": "assistant", "content": "Hi", "reasoning_details": [{"type": "x"}]}],
    ),
    "extras of a call": (
        [assistant(replace(LOOK, origin=STYLE, extra={"extra_content": {"s": 1}})), RAIN],
        [{"role": "assistant", "content": None, "tool_calls": [{**LOOK_DICT, "extra_content": {"s": 1}}]}, RAIN_DICT],
    ),
    "an empty result": (
        [assistant(LOOK), Message("tool", [ToolResultPart("c1", "look", ())])],
        [{"role": "assistant", "content": None, "tool_calls": [LOOK_DICT]}, {**RAIN_DICT, "content": ""}],
    ),
}
both_ways = pytest.mark.parametrize(("neutral", "dicts"), BOTH_WAYS.values(), ids=BOTH_WAYS)


@both_ways
def test_a_transcript_has_this_shape(neutral: list[Message], dicts: list[dict[str, Any]]) -> None:
    before = copy.deepcopy(neutral)
    assert to_openai(neutral) == dicts
    assert neutral == before
    json.dumps(dicts)


@both_ways
def test_this_shape_is_read_as_the_transcript(neutral: list[Message], dicts: list[dict[str, Any]]) -> None:
    before = copy.deepcopy(dicts)
    assert from_openai(dicts) == neutral
    assert dicts == before


# -- what is spelt otherwise than it comes back


def test_a_developer_message_is_a_system_message() -> None:
    assert from_openai([{"role": "developer", "content": "Be brief."}]) == [Message("system", "Be brief.")]


def test_a_refusal_is_text() -> None:
    refused = [{"role": "assistant", "content": None, "refusal": "No."}]
    parts = [{"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}]
    assert from_openai(refused) == from_openai(parts) == [assistant(TextPart("No."))]


@pytest.mark.parametrize("content", [None, "", []])
def test_no_content_is_no_part(content: Any) -> None:
    assert from_openai([{"role": "assistant", "content": content}]) == [assistant()]
    assert from_openai([{"role": "user"}]) == [Message("user", [])]


@pytest.mark.parametrize("arguments", ["", None, "{}", "null", {}])
def test_missing_arguments_are_none(arguments: Any) -> None:
    call = {"id": "c1", "function": {"name": "look", "arguments": arguments}}
    (message,) = from_openai([{"role": "assistant", "content": None, "tool_calls": [call]}])
    assert message.tool_calls == (ToolCallPart("c1", "look", {}, state="finished"),)


@pytest.mark.parametrize("arguments", ["{", "[1]", [1], 7])
def test_arguments_that_cannot_be_read_are_kept_and_an_object_goes_out(arguments: Any) -> None:
    call = {"id": "c1", "function": {"name": "look", "arguments": arguments}}
    messages = from_openai([{"role": "assistant", "tool_calls": [call]}])
    (part,) = messages[0].tool_calls
    assert part.error
    assert part.raw == (arguments if isinstance(arguments, str) else json.dumps(arguments))
    assert to_openai(messages)[0]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_results_learn_the_name_of_their_call_and_unknown_ones_have_none() -> None:
    dicts: list[Any] = [
        {"role": "assistant", "tool_calls": [LOOK_DICT]},
        RAIN_DICT,
        {**RAIN_DICT, "tool_call_id": "c9"},
    ]
    names = [p.name for m in from_openai(dicts) for p in m.parts if isinstance(p, ToolResultPart)]
    assert names == ["look", ""]


def test_a_result_in_parts_is_read_and_goes_out_as_text() -> None:
    dicts: list[Any] = [
        {"role": "assistant", "content": None, "tool_calls": [LOOK_DICT]},
        {
            **RAIN_DICT,
            "content": [{"type": "text", "text": "a"}, PNG_DICT, {"type": "odd"}, {"type": "text", "text": "b"}],
        },
    ]
    messages = from_openai(dicts)
    assert messages[1].parts == (ToolResultPart("c1", "look", (TextPart("a"), PNG, TextPart("b"))),)
    text = to_openai(messages)[1]["content"]
    assert text == "a[image: image/png; this API takes no images in tool results]b"


def test_an_image_address_in_a_result_is_named() -> None:
    result = ToolResultPart("c1", "look", (ImagePart(url="https://x.example/a.png"),))
    assert "https://x.example/a.png" in to_openai([assistant(LOOK), Message("tool", [result])])[1]["content"]


def test_thinking_in_pieces_goes_back_joined_and_details_in_a_row() -> None:
    parts = [ReasoningPart(t, STYLE, {"field": "reasoning", "reasoning_details": [{"t": t}]}) for t in ("Hm", ".")]
    (message, _) = to_openai([assistant(*parts, LOOK), RAIN])
    assert message["reasoning"] == "Hm."
    assert message["reasoning_details"] == [{"t": "Hm"}, {"t": "."}]


def test_an_unnamed_call_goes_out_under_a_name() -> None:
    (message, _) = to_openai([assistant(replace(LOOK, name="")), RAIN])
    assert message["tool_calls"][0]["function"]["name"] == "unknown"


def test_text_that_is_not_ascii_goes_out_as_it_is() -> None:
    (message, _) = to_openai([assistant(replace(LOOK, args={"a": "Ål"})), RAIN])
    assert message["tool_calls"][0]["function"]["arguments"] == '{"a": "Ål"}'


# -- whose parts


@pytest.mark.parametrize(
    ("origin", "to", "goes"),
    [
        (None, None, True),
        (None, "openai:x", True),
        (STYLE, None, True),
        (STYLE, "openai:x", True),
        ("openai:x", None, True),
        ("openai:x", "openai:x", True),
        ("openai:x", "openai:y", False),
        ("anthropic:x", None, False),
        ("anthropic:x", "openai:x", False),
        ("openaily:x", None, False),
    ],
)
def test_what_only_one_provider_understands_goes_only_there(origin: str | None, to: str | None, goes: bool) -> None:
    thinking = ReasoningPart("Hm.", origin, {"reasoning_details": [1]})
    call = replace(LOOK, origin=origin, extra={"extra_content": 1})
    opaque = Message("user", [TextPart("Hi"), OpaquePart({"type": "x"}, origin or STYLE)])
    user, message, _ = to_openai([opaque, assistant(thinking, call), RAIN], origin=to)
    assert ("reasoning_details" in message) == goes
    assert ("extra_content" in message["tool_calls"][0]) == goes
    assert (user["content"] == [{"type": "text", "text": "Hi"}, {"type": "x"}]) == goes


def test_a_message_of_which_nothing_can_be_said_is_left_out() -> None:
    foreign = OpaquePart({"type": "x"}, "anthropic:x")
    thinking = ReasoningPart("Hm.", STYLE, {"field": "reasoning"})
    assert to_openai([Message("user", [foreign]), assistant(thinking), assistant(foreign), Message("user", [])]) == []


@pytest.mark.parametrize("part", [LOOK, ReasoningPart("Hm."), RAIN.parts[0]])
def test_a_part_that_cannot_stand_in_a_user_message_is_refused(part: Part) -> None:
    with pytest.raises(ConfigurationError, match=f"a '{part.type}' part cannot stand in a user message"):
        to_openai([Message("user", [TextPart("Hi"), part])])


# -- errors


@pytest.mark.parametrize(
    "message",
    [
        None,
        "text",
        [],
        {},
        {"role": "function", "content": "x"},
        {"role": None},
        {"role": ["user"]},
        {"role": "user", "content": 7},
        {"role": "user", "content": {"type": "text"}},
        {"role": "user", "content": ["text"]},
        {"role": "user", "content": [{}]},
        {"role": "user", "content": [{"type": "text"}]},
        {"role": "user", "content": [{"type": "text", "text": 7}]},
        {"role": "user", "content": [{"type": "refusal", "refusal": None}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": "https://x.example"}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": 7}}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,é"}}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:;base64,eA=="}}]},
        {"role": "tool", "content": "x"},
        {"role": "tool", "tool_call_id": ["c1"], "content": "x"},
        {"role": "assistant", "reasoning": 7},
        {"role": "assistant", "reasoning_details": 7},
        {"role": "assistant", "tool_calls": 7},
        {"role": "assistant", "tool_calls": ["x"]},
        {"role": "assistant", "tool_calls": [{"function": {"name": "look"}}]},
        {"role": "assistant", "tool_calls": [{"id": 7, "function": {"name": "look"}}]},
        {"role": "assistant", "tool_calls": [{"id": "c1"}]},
        {"role": "assistant", "tool_calls": [{"id": "c1", "function": {}}]},
        {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": None}}]},
        {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "look", "arguments": {1, 2}}}]},
    ],
)
def test_a_message_of_another_shape_is_refused_by_its_place(message: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^messages\[1\]") as caught:
        from_openai([{"role": "user", "content": "Hi"}, message])
    assert len(str(caught.value)) < 400


# -- any transcript

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
scalars = st.none() | st.booleans() | st.integers() | texts
plain_objects = st.dictionaries(texts, scalars | st.lists(scalars, max_size=2), max_size=3)
images = st.builds(ImagePart, url=texts.map(lambda t: "https://x.example/" + t)) | st.builds(
    lambda data: ImagePart(data=data, media_type="image/png"), st.binary(min_size=1, max_size=5)
)
opaque = st.builds(lambda d: OpaquePart({**d, "type": "odd"}, STYLE), plain_objects)
user_messages = st.one_of(
    texts.map(lambda t: Message("user", t)),
    st.lists(texts.map(TextPart) | images | opaque, min_size=1, max_size=3).map(lambda parts: Message("user", parts)),
)


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """An answer that the shape can carry whole, with the results of its calls."""
    ids = draw(st.lists(texts, unique=True, max_size=3))
    with_thinking, with_text = draw(st.tuples(st.booleans(), st.booleans()))
    parts: list[Part] = []
    fields = st.sampled_from(["reasoning_content", "reasoning"])
    extra = draw(
        st.fixed_dictionaries({}, optional={"reasoning_details": st.lists(plain_objects, min_size=1, max_size=2)})
    )
    if ids and with_thinking:
        parts.append(ReasoningPart(draw(texts), STYLE, {"field": draw(fields), **extra}))
    elif extra:
        parts.append(ReasoningPart("", STYLE, extra))
    if not ids or with_text:
        parts.append(TextPart(draw(texts)))
    out = []
    for id in ids:
        signed = draw(st.fixed_dictionaries({}, optional={"extra_content": plain_objects}))
        name = draw(st.from_regex(r"[a-zA-Z0-9_-]{1,8}", fullmatch=True))
        parts.append(
            ToolCallPart(
                id, name, draw(plain_objects), state="finished", origin=STYLE if signed else None, extra=signed
            )
        )
        content = draw(st.just(()) | texts.map(lambda t: (TextPart(t),)))
        out.append(Message("tool", [ToolResultPart(id, name, content)]))
    return [Message("assistant", parts), *out]


transcripts = st.lists(user_messages.map(lambda m: [m]) | turns(), max_size=4).map(
    lambda groups: [message for group in groups for message in group]
)


@given(transcripts)
@settings(deadline=None)
def test_what_the_shape_can_carry_comes_back_as_it_was(transcript: list[Message]) -> None:
    dicts = to_openai(transcript)
    text = json.dumps(dicts, ensure_ascii=False, allow_nan=False)
    text.encode()
    assert from_openai(json.loads(text)) == transcript
    assert to_openai(from_openai(dicts)) == dicts


broken = transcripts.flatmap(
    lambda messages: st.lists(st.sampled_from(messages), max_size=8) if messages else st.just(list[Message]())
)


@given(broken, st.sampled_from([None, "openai:x", "openai:y"]))
@settings(deadline=None)
def test_whatever_is_lost_or_out_of_place_the_request_is_balanced(messages: list[Message], origin: str | None) -> None:
    before = copy.deepcopy(messages)
    dicts = to_openai(messages, origin=origin)
    check_history(dicts)
    assert messages == before
    assert to_openai(balanced(messages), origin=origin) == dicts


def test_a_missing_result_goes_out_as_an_error_said_in_words() -> None:
    assert to_openai([assistant(LOOK)])[1] == {**RAIN_DICT, "content": NOT_RUN}


@pytest.mark.parametrize(
    ("id", "origin", "to", "kept"),
    [
        ("c1", "openai:x", "openai:y", True),
        ("c" * 40, "openai:x", "openai:y", True),
        ("c" * 41, "openai:x", "openai:y", False),
        ("c" * 41, "openai:x", "openai:x", True),
        ("c" * 41, "openai:x", None, True),
        ("abcDEF123", "openai:x", "openai:api.mistral.ai", True),
        ("call_1", "openai:x", "openai:api.mistral.ai", False),
        ("call_1", "openai:api.mistral.ai", "openai:api.mistral.ai", True),
    ],
)
def test_ids_of_another_provider_go_out_in_a_form_that_is_taken(
    id: str, origin: str, to: str | None, kept: bool
) -> None:
    result = Message("tool", [ToolResultPart(id, "look", (TextPart("rain"),))])
    message, sent = to_openai([assistant(replace(LOOK, id=id, origin=origin)), result], origin=to)
    call_id = message["tool_calls"][0]["id"]
    assert call_id == sent["tool_call_id"]
    assert (call_id == id) is kept
    if not kept:
        assert len(call_id) == (9 if to and "mistral" in to else 40)
        assert call_id.isalnum()
