from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolnexus._core.transcript import (
    NOT_ANSWERED,
    NOT_RUN,
    UNKNOWN_OUTCOME,
    balanced,
    closed,
    closing_result,
    is_for,
    result_part,
    with_ids,
)
from toolnexus.messages import ImagePart, Message, Role, TextPart, ToolCallPart, ToolResultPart
from toolnexus.suspension import Request
from toolnexus.tool import ToolResult

ASKED = Request("r1", "input", "Sure?")


def calls(*ids: str, **options: object) -> Message:
    return Message("assistant", [ToolCallPart(id, "look", {}, **options) for id in ids])  # type: ignore[arg-type]  # any field


def result(id: str, text: str = "out") -> Message:
    return Message("tool", [ToolResultPart(id, "look", (TextPart(text),))])


def results(messages: list[Message]) -> list[tuple[str, str, bool]]:
    return [(p.id, p.output, p.is_error) for m in messages for p in m.parts if isinstance(p, ToolResultPart)]


def test_a_balanced_transcript_is_left_as_it_is() -> None:
    messages = [Message("user", "Hi"), calls("a", "b"), result("a"), result("b"), Message("assistant", "Done.")]
    assert balanced(messages) == messages
    assert balanced(iter(messages)) == messages
    assert balanced([]) == []


def test_results_come_in_the_order_of_the_calls_each_in_a_message_of_its_own() -> None:
    both = Message("tool", [*result("b").parts, *result("a").parts])
    assert balanced([calls("a", "b"), both]) == [calls("a", "b"), result("a"), result("b")]


def test_a_missing_result_is_an_explicit_error_wherever_it_is_missing() -> None:
    messages = balanced([calls("a", "b"), result("b"), Message("user", "Well?"), calls("c")])
    assert results(messages) == [("a", NOT_RUN, True), ("b", "out", False), ("c", NOT_RUN, True)]
    assert [m.role for m in messages] == ["assistant", "tool", "tool", "user", "assistant", "tool"]


def test_orphans_and_second_results_are_left_out_and_so_are_empty_messages() -> None:
    messages = [result("x"), calls("a"), result("a", "first"), result("a", "second"), result("y")]
    assert balanced([*messages, Message("assistant", []), Message("user", []), result("a")]) == [
        calls("a"),
        result("a", "first"),
    ]


def test_a_result_after_another_message_comes_too_late() -> None:
    messages = balanced([calls("a"), Message("user", "Well?"), result("a")])
    assert results(messages) == [("a", NOT_RUN, True)]


def test_an_id_that_comes_again_in_the_next_turn_is_another_call() -> None:
    messages = [calls("a"), result("a", "one"), calls("a"), result("a", "two"), calls("a")]
    assert results(balanced(messages)) == [("a", "one", False), ("a", "two", False), ("a", NOT_RUN, True)]


def test_what_is_no_result_in_a_tool_message_is_left_out() -> None:
    assert balanced([calls("a"), Message("tool", [TextPart("x"), *result("a").parts])]) == [calls("a"), result("a")]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (ToolCallPart("a", "look", {}), NOT_RUN),
        (ToolCallPart("a", "look", {}, state="finished"), NOT_RUN),
        (ToolCallPart("a", "look", {}, state="started"), UNKNOWN_OUTCOME),
        (ToolCallPart("a", "look", {}, state="started", request=ASKED), NOT_ANSWERED),
    ],
)
def test_a_made_up_result_says_what_is_known_of_the_call(call: ToolCallPart, text: str) -> None:
    assert closing_result(call) == ToolResultPart("a", "look", (TextPart(text),), is_error=True)


def test_a_result_keeps_its_images_and_an_empty_one_has_no_parts() -> None:
    image = ImagePart(url="https://x.example/a.png")
    call = ToolCallPart("a", "look", {})
    assert result_part(call, ToolResult((image,), is_error=True)) == ToolResultPart("a", "look", (image,), True)
    assert result_part(call, ToolResult("")) == ToolResultPart("a", "look", ())


def test_a_closed_transcript_has_no_open_call_and_no_request() -> None:
    left = [calls("a", "b", state="started", request=ASKED), result("a")]
    messages = closed([Message("user", "Hi"), *left])
    assert all(c.state == "finished" and c.request is None for m in messages for c in m.tool_calls)
    assert results(messages) == [("a", "out", False), ("b", NOT_ANSWERED, True)]
    assert left[0].tool_calls[0].request is ASKED  # the input is left as it was


def test_closing_keeps_the_other_parts_of_a_message_and_finished_messages_themselves() -> None:
    finished = calls("a", state="finished")
    assert closed([finished, result("a")])[0] is finished
    mixed = Message("assistant", [TextPart("I look."), *calls("a").parts])
    assert closed([mixed, result("a")])[0].parts == (
        TextPart("I look."),
        replace(calls("a").tool_calls[0], state="finished"),
    )


ids = st.sampled_from(["a", "b", "c"])
messages = st.lists(
    st.one_of(
        st.builds(Message, st.sampled_from(list[Role](["user", "assistant", "system"])), st.sampled_from(["", "Hi"])),
        st.lists(ids, unique=True, max_size=3).map(lambda found: calls(*found)),
        st.lists(ids, max_size=3).map(lambda found: Message("tool", [p for id in found for p in result(id).parts])),
    ),
    max_size=8,
)


@given(messages)
def test_any_transcript_becomes_balanced_and_stays_so(messages: list[Message]) -> None:
    out = balanced(messages)
    waiting: list[str] = []
    for message in out:
        assert message.parts
        if message.role == "tool":
            (part,) = message.parts
            assert isinstance(part, ToolResultPart)
            assert part.id == waiting.pop(0)
        else:
            assert not waiting
            waiting = [call.id for call in message.tool_calls]
    assert not waiting
    assert balanced(out) == out
    assert [m for m in out if m.role != "tool"] == [m for m in messages if m.role != "tool" and m.parts]
    assert closed(closed(messages)) == closed(messages)


@pytest.mark.parametrize(
    ("part_origin", "origin", "expected"),
    [
        (None, "s:x", True),
        ("s", "s:x", True),
        ("s:x", "s:x", True),
        ("s:y", "s:x", False),
        ("s:y", None, True),
        ("t:x", None, False),
        ("t", "s:x", False),
    ],
)
def test_what_a_part_holds_is_for_its_own_provider(part_origin: str | None, origin: str | None, expected: bool) -> None:
    assert is_for(part_origin, "s", origin) is expected


def test_calls_and_their_results_change_their_ids_together_and_turns_do_not_mix() -> None:
    first, second = [calls("a", "b"), result("a"), result("b")], [Message("user", "Hi"), calls("b"), result("b")]
    names = iter(["x", "b", "z"])
    out = with_ids([Message("user", "Hi"), *first, *second], lambda call: next(names))
    assert out == [Message("user", "Hi"), calls("x", "b"), result("x"), result("b"), second[0], calls("z"), result("z")]
