from __future__ import annotations

import base64
import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from tests.validators import anthropic
from toolnexus._core.transcript import NOT_RUN
from toolnexus._core.wire.anthropic_messages import STYLE, from_anthropic, is_anthropic_shaped, to_anthropic
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

Dicts = list[dict[str, Any]]

HELLO = Message("user", "Hello?")
HELLO_DICT = {"role": "user", "content": [{"type": "text", "text": "Hello?"}]}
LOOK = ToolCallPart("c1", "look", {"a": 1}, state="finished")
LOOK_DICT = {"type": "tool_use", "id": "c1", "name": "look", "input": {"a": 1}}
RAIN = Message("tool", [ToolResultPart("c1", "look", (TextPart("rain"),))])
RAIN_DICT = {"type": "tool_result", "tool_use_id": "c1", "content": "rain"}
PNG = ImagePart(data=b"\x89PNG\xff", media_type="image/png")
PNG_DICT = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(b"\x89PNG\xff").decode()},
}
LINK = ImagePart(url="https://x.example/a.png")
LINK_DICT = {"type": "image", "source": {"type": "url", "url": "https://x.example/a.png"}}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {**user(*blocks), "role": "assistant"}


def said(*parts: Part) -> Message:
    return Message("assistant", parts)


def result(*content: TextPart | ImagePart, is_error: bool = False) -> Message:
    return Message("tool", [ToolResultPart("c1", "look", content, is_error)])


BOTH_WAYS: dict[str, tuple[list[Message], Dicts]] = {
    "text": ([HELLO], [HELLO_DICT]),
    "an answer": ([HELLO, said(TextPart("Hi"))], [HELLO_DICT, assistant("Hi")]),
    "images": ([Message("user", [TextPart("Look: "), PNG, LINK])], [user("Look: ", PNG_DICT, LINK_DICT)]),
    "a call": ([HELLO, said(LOOK), RAIN], [HELLO_DICT, assistant(LOOK_DICT), user(RAIN_DICT)]),
    "results and then a prompt": (
        [HELLO, said(LOOK), RAIN, Message("user", "Go on.")],
        [HELLO_DICT, assistant(LOOK_DICT), user(RAIN_DICT, "Go on.")],
    ),
    "a result with an image": (
        [HELLO, said(LOOK), result(TextPart("x"), PNG)],
        [
            HELLO_DICT,
            assistant(LOOK_DICT),
            user({**RAIN_DICT, "content": [{"type": "text", "text": "x"}, PNG_DICT]}),
        ],
    ),
    "an empty result": (
        [HELLO, said(LOOK), result()],
        [HELLO_DICT, assistant(LOOK_DICT), user({"type": "tool_result", "tool_use_id": "c1"})],
    ),
    "an error": (
        [HELLO, said(LOOK), result(TextPart("No."), is_error=True)],
        [HELLO_DICT, assistant(LOOK_DICT), user({**RAIN_DICT, "is_error": True, "content": "No."})],
    ),
    "thinking, text and a call": (
        [HELLO, said(ReasoningPart("Hm.", STYLE, {"signature": "s"}), TextPart("I look."), LOOK), RAIN],
        [
            HELLO_DICT,
            assistant({"type": "thinking", "thinking": "Hm.", "signature": "s"}, "I look.", LOOK_DICT),
            user(RAIN_DICT),
        ],
    ),
    "extras": (
        [
            Message("user", [TextPart("Hello?", STYLE, {"cache_control": {"type": "ephemeral"}})]),
            said(replace(LOOK, origin=STYLE, extra={"caller": {"type": "direct"}})),
            RAIN,
        ],
        [
            user({"type": "text", "text": "Hello?", "cache_control": {"type": "ephemeral"}}),
            assistant({**LOOK_DICT, "caller": {"type": "direct"}}),
            user(RAIN_DICT),
        ],
    ),
    "unknown blocks": (
        [
            Message("user", [OpaquePart({"type": "document", "source": {"type": "text", "data": "x"}}, STYLE)]),
            said(OpaquePart({"type": "redacted_thinking", "data": "x"}, STYLE), TextPart("Hi")),
            HELLO,
        ],
        [
            user({"type": "document", "source": {"type": "text", "data": "x"}}),
            assistant({"type": "redacted_thinking", "data": "x"}, "Hi"),
            HELLO_DICT,
        ],
    ),
}
both_ways = pytest.mark.parametrize(("neutral", "dicts"), BOTH_WAYS.values(), ids=BOTH_WAYS)


@both_ways
def test_a_transcript_has_this_shape(neutral: list[Message], dicts: Dicts) -> None:
    before = copy.deepcopy(neutral)
    assert to_anthropic(neutral) == (None, dicts)
    assert neutral == before
    json.dumps(dicts)


@both_ways
def test_this_shape_is_read_as_the_transcript(neutral: list[Message], dicts: Dicts) -> None:
    before = copy.deepcopy(dicts)
    assert from_anthropic(dicts) == neutral
    assert dicts == before


# -- the system prompt


def test_system_messages_come_out_joined_and_blank_ones_not_at_all() -> None:
    messages = [Message("system", "Be brief."), HELLO, Message("system", " "), Message("system", "Be kind.")]
    assert to_anthropic(messages) == ("Be brief.\n\nBe kind.", [HELLO_DICT])
    assert to_anthropic([Message("system", "\n")]) == (None, [])


@pytest.mark.parametrize("system", ["Be brief.", [{"type": "text", "text": "Be brief."}]])
def test_the_system_prompt_of_a_request_becomes_the_first_message(system: Any) -> None:
    assert from_anthropic([HELLO_DICT], system) == [Message("system", "Be brief."), HELLO]


@pytest.mark.parametrize("system", [None, "", []])
def test_no_system_prompt_is_no_message(system: Any) -> None:
    assert from_anthropic([HELLO_DICT], system) == [HELLO]


@pytest.mark.parametrize("system", [7, [7], [{}], [{"type": "text"}]])
def test_a_system_prompt_of_another_shape_is_refused_by_its_name(system: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^system"):
        from_anthropic([HELLO_DICT], system)


# -- what is spelt otherwise than it comes back


def test_plain_text_is_a_block_of_text() -> None:
    assert from_anthropic([{"role": "user", "content": "Hello?"}]) == [HELLO]
    assert from_anthropic([{"role": "assistant", "content": "Hi"}]) == [said(TextPart("Hi"))]


@pytest.mark.parametrize("content", [[], ""])
def test_results_without_content_are_empty(content: Any) -> None:
    dicts = [HELLO_DICT, assistant(LOOK_DICT), user({**RAIN_DICT, "content": content})]
    assert from_anthropic(dicts)[-1] == result()


@pytest.mark.parametrize("given", [{}, None, []])
def test_input_that_is_left_out_is_an_empty_object(given: Any) -> None:
    (message,) = from_anthropic([assistant({**LOOK_DICT, "input": given})])
    assert message.tool_calls[0].args == {}


def test_results_learn_the_name_of_their_call_and_unknown_ones_have_none() -> None:
    dicts = [assistant(LOOK_DICT), user(RAIN_DICT, {**RAIN_DICT, "tool_use_id": "c9"})]
    names = [p.name for m in from_anthropic(dicts) for p in m.parts if isinstance(p, ToolResultPart)]
    assert names == ["look", ""]


def test_results_come_before_what_was_said_beside_them() -> None:
    messages = from_anthropic([HELLO_DICT, assistant(LOOK_DICT), user("Go on.", RAIN_DICT)])
    assert messages[2:] == [RAIN, Message("user", "Go on.")]


def test_of_a_result_text_and_images_are_kept() -> None:
    content = [{"type": "text", "text": "x"}, {"type": "document", "source": {}}, PNG_DICT]
    (_, message) = from_anthropic([assistant(LOOK_DICT), user({**RAIN_DICT, "content": content})])
    assert message == result(TextPart("x"), PNG)


# -- what the API refuses


@pytest.mark.parametrize("blank", ["", " ", "\n\t", "\u2003"])
def test_blank_text_is_left_out(blank: str) -> None:
    messages = [
        Message("user", [TextPart(blank), TextPart("Hello?")]),
        said(TextPart(blank), LOOK, TextPart(blank)),
        result(TextPart(blank), PNG),
    ]
    _, dicts = to_anthropic(messages)
    assert dicts == [HELLO_DICT, assistant(LOOK_DICT), user({**RAIN_DICT, "content": [PNG_DICT]})]
    assert to_anthropic([HELLO, said(TextPart(blank)), HELLO])[1] == [user("Hello?", "Hello?")]


def test_a_prompt_that_says_nothing_stays_a_turn_of_the_user() -> None:
    _, dicts = to_anthropic([HELLO, said(TextPart("Hi")), Message("user", " "), said(TextPart("Yes?")), HELLO])
    assert [message["role"] for message in dicts] == ["user", "assistant", "user", "assistant", "user"]
    _, dicts = to_anthropic([HELLO, said(TextPart("Hi")), Message("user", "")])
    assert dicts[-1] == user("(a message without text)")
    _, dicts = to_anthropic([HELLO, said(LOOK), RAIN, Message("user", "")])
    assert dicts[-1] == user(RAIN_DICT)


def test_an_error_without_words_says_that_it_is_one() -> None:
    for content in ((), (TextPart(" "),)):
        (block,) = to_anthropic([HELLO, said(LOOK), result(*content, is_error=True)])[1][-1]["content"]
        assert block == {**RAIN_DICT, "is_error": True, "content": "error"}


def test_the_first_message_is_the_users() -> None:
    _, dicts = to_anthropic([said(TextPart("Hi")), HELLO])
    assert dicts == [user("(the conversation begins with the assistant)"), assistant("Hi"), HELLO_DICT]


def test_messages_in_a_row_by_one_role_become_one() -> None:
    _, dicts = to_anthropic([HELLO, HELLO, said(TextPart("Hi")), said(TextPart(".")), HELLO])
    assert dicts == [user("Hello?", "Hello?"), assistant("Hi", "."), HELLO_DICT]


def test_a_missing_result_goes_out_as_an_error_said_in_words() -> None:
    assert to_anthropic([HELLO, said(LOOK)])[1][-1] == user({**RAIN_DICT, "is_error": True, "content": NOT_RUN})


def test_a_result_without_its_call_is_left_out() -> None:
    assert to_anthropic([HELLO, RAIN])[1] == [HELLO_DICT]


def test_images_of_the_assistant_are_left_out() -> None:
    assert to_anthropic([HELLO, said(TextPart("Hi"), PNG)])[1] == [HELLO_DICT, assistant("Hi")]


@pytest.mark.parametrize("part", [LOOK, ReasoningPart("Hm."), RAIN.parts[0]])
def test_a_part_that_cannot_stand_in_a_user_message_is_refused(part: Part) -> None:
    with pytest.raises(ConfigurationError, match=f"a '{part.type}' part cannot stand in a user message"):
        to_anthropic([Message("user", [TextPart("Hi"), part])])


def names_and_ids(*calls: ToolCallPart, origin: str | None = "anthropic:x") -> list[tuple[str, str]]:
    """What calls and their results are called, each in a turn of its own."""
    messages = [HELLO]
    for call in calls:
        messages += [said(call), Message("tool", [ToolResultPart(call.id, call.name, ())])]
    _, dicts = to_anthropic(messages, origin=origin)
    anthropic.check({"model": "m", "max_tokens": 1, "messages": dicts})
    blocks = [block for message in dicts[1:] for block in message["content"]]
    assert [b["id"] for b in blocks[::2]] == [b["tool_use_id"] for b in blocks[1::2]]
    return [(b["id"], b["name"]) for b in blocks[::2]]


@pytest.mark.parametrize(
    ("id", "sent"), [("toolu_01-x", "toolu_01-x"), ("functions.look:0", "functions_look_0"), ("ü", "_"), ("", "call")]
)
def test_a_foreign_id_is_made_one_that_the_api_takes(id: str, sent: str) -> None:
    assert names_and_ids(replace(LOOK, id=id)) == [(sent, "look")]


@pytest.mark.parametrize(
    ("ids", "sent"),
    [
        (["c1", "c1", "c1"], ["c1", "c1_2", "c1_3"]),
        (["a", "a_2", "a", "a"], ["a", "a_2", "a_3", "a_4"]),
        (["a_2", "a", "a"], ["a_2", "a", "a_3"]),
        (["a:b", "a.b", "a_b"], ["a_b", "a_b_2", "a_b_3"]),
        (["", "", "call"], ["call", "call_2", "call_3"]),
    ],
)
def test_ids_that_come_again_are_told_apart(ids: list[str], sent: list[str]) -> None:
    assert [id for id, _ in names_and_ids(*(replace(LOOK, id=id) for id in ids))] == sent


def test_a_provider_gets_its_own_ids_back_as_they_are() -> None:
    call = replace(LOOK, id="functions.look:0", origin="anthropic:x")
    _, dicts = to_anthropic(
        [HELLO, said(call), Message("tool", [ToolResultPart(call.id, "look", ())])], origin="anthropic:x"
    )
    assert (dicts[1]["content"][0]["id"], dicts[2]["content"][0]["tool_use_id"]) == (call.id, call.id)
    assert names_and_ids(call, origin="anthropic:y") == [("functions_look_0", "look")]
    assert names_and_ids(call, origin=None) == [("functions_look_0", "look")]


@pytest.mark.parametrize(
    ("name", "sent"), [("look-2_B", "look-2_B"), ("look.up", "look_up"), ("", "unknown"), ("é" * 200, "_" * 128)]
)
def test_a_name_that_the_api_would_refuse_is_made_one_that_it_takes(name: str, sent: str) -> None:
    assert names_and_ids(replace(LOOK, name=name)) == [("c1", sent)]


# -- whose parts


@pytest.mark.parametrize(
    ("origin", "to", "goes"),
    [
        (STYLE, None, True),
        (STYLE, "anthropic:x", True),
        ("anthropic:x", None, True),
        ("anthropic:x", "anthropic:x", True),
        ("anthropic:x", "anthropic:y", False),
        ("openai:x", None, False),
        ("openai:x", "anthropic:x", False),
        ("openai", "anthropic:x", False),
        ("anthropically:x", None, False),
    ],
)
def test_what_only_one_provider_understands_goes_only_there(origin: str, to: str | None, goes: bool) -> None:
    answer = said(
        ReasoningPart("Hm.", origin, {"signature": "s"}),
        OpaquePart({"type": "redacted_thinking", "data": "x"}, origin),
        TextPart("I look.", origin, {"citations": [1]}),
        replace(LOOK, origin=origin, extra={"caller": {"type": "direct"}}),
    )
    _, (_, sent, _) = to_anthropic([HELLO, answer, RAIN], origin=to)
    signed = [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "I look.", "citations": [1]},
        {**LOOK_DICT, "caller": {"type": "direct"}},
    ]
    assert sent == (assistant(*signed) if goes else assistant("I look.", LOOK_DICT))


@pytest.mark.parametrize(
    "part", [ReasoningPart("Hm."), ReasoningPart("Hm.", None, {"signature": "s"}), ReasoningPart("Hm.", STYLE)]
)
def test_thinking_that_nobody_signed_is_not_sent(part: ReasoningPart) -> None:
    assert to_anthropic([HELLO, said(part, TextPart("Hi"))])[1] == [HELLO_DICT, assistant("Hi")]


# -- which shape is it


@pytest.mark.parametrize(
    "dicts",
    [
        [HELLO_DICT, assistant(LOOK_DICT), user(RAIN_DICT)],
        [user("x", PNG_DICT)],
        [HELLO_DICT, assistant({"type": "mcp_tool_use", "id": "x"})],
        [HELLO_DICT, assistant({"type": "thinking", "thinking": "Hm.", "signature": "s"})],
        [user({"type": "document", "source": {}})],
    ],
)
def test_blocks_that_the_other_style_does_not_have_show_the_shape(dicts: Dicts) -> None:
    assert is_anthropic_shaped(dicts)


@pytest.mark.parametrize(
    "dicts",
    [
        [],
        [HELLO_DICT],
        [{"role": "user", "content": "Hello?"}],
        [{"role": "system", "content": "Be brief."}, user(PNG_DICT)],
        [user({"type": "image_url", "image_url": {"url": "https://x.example"}}, {"type": "input_audio"})],
        [HELLO_DICT, {"role": "assistant", "content": [{"type": "thinking", "thinking": []}], "tool_calls": []}],
        [{"role": "tool", "tool_call_id": "c1", "content": [{"type": "thinking"}]}],
        [{"role": "assistant", "content": None}],
        [{"content": 7}],
    ],
)
def test_anything_else_is_the_other_shape(dicts: Dicts) -> None:
    assert not is_anthropic_shaped(dicts)


# -- errors


@pytest.mark.parametrize(
    "message",
    [
        None,
        "text",
        [],
        {},
        {"role": "system", "content": "x"},
        {"role": "tool", "content": "x"},
        {"role": None, "content": "x"},
        {"role": ["user"], "content": "x"},
        {"role": "user"},
        {"role": "user", "content": None},
        {"role": "user", "content": 7},
        {"role": "user", "content": {"type": "text", "text": "x"}},
        user(7),
        user({}),
        user({"type": "text"}),
        user({"type": "text", "text": 7}),
        user({"type": "image"}),
        user({"type": "image", "source": "x"}),
        user({"type": "image", "source": {"type": "base64", "media_type": "image/png"}}),
        user({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "é"}}),
        user({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "a"}}),
        user({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA!!!!"}}),
        user({"type": "image", "source": {"type": "base64", "media_type": 7, "data": "AAAA"}}),
        user({"type": "image", "source": {"type": "base64", "media_type": "", "data": "AAAA"}}),
        user({"type": "image", "source": {"type": "url"}}),
        user({"type": "image", "source": {"type": "url", "url": 7}}),
        user({"type": "tool_result"}),
        user({"type": "tool_result", "tool_use_id": 7}),
        user({"type": "tool_result", "tool_use_id": "c1", "content": 7}),
        user({"type": "tool_result", "tool_use_id": "c1", "content": [7]}),
        assistant({"type": "tool_use", "name": "look", "input": {}}),
        assistant({"type": "tool_use", "id": "c1", "input": {}}),
        assistant({"type": "tool_use", "id": ["c1"], "name": "look", "input": {}}),
        assistant({"type": "tool_use", "id": 7, "name": "look", "input": {}}),
        assistant({"type": "tool_use", "id": "c1", "name": 7, "input": {}}),
        assistant({"type": "tool_use", "id": "c1", "name": "look", "input": [["a", 1]]}),
        assistant({"type": "tool_use", "id": "c1", "name": "look", "input": "{}"}),
        assistant({"type": "thinking"}),
        assistant({"type": "thinking", "thinking": None}),
    ],
)
def test_a_message_of_another_shape_is_refused_by_its_place(message: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^messages\[1\]") as caught:
        from_anthropic([HELLO_DICT, message])
    assert len(str(caught.value)) < 400
