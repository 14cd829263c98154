from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolnexus._core.turn import DRAIN_S, LINGER_S, Pieces, Turn
from toolnexus.errors import ProtocolError
from toolnexus.events import ReasoningEvent, StreamEvent, TextEvent
from toolnexus.limits import Limits
from toolnexus.messages import OpaquePart, ReasoningPart, TextPart, ToolCallPart
from toolnexus.results import Usage


def make_turn(**limits: int) -> Turn:
    return Turn(Limits(**limits))


def call(turn: Turn, *pieces: str, id: str = "c1", name: str = "look") -> ToolCallPart:
    """The part that a call with these pieces of arguments becomes."""
    draft = turn.call_opened()
    draft.id, draft.name = id, name
    for piece in pieces:
        turn.arguments_received(draft, piece)
    part = turn.parts("openai:x", "n")[-1]
    assert isinstance(part, ToolCallPart)
    return part


# -- text and thinking


def test_text_and_thinking_become_events_and_blocks_in_the_order_they_began() -> None:
    turn = make_turn()
    turn.reasoning_received("Hm")
    turn.reasoning_received(".")
    turn.text_received("Hel")
    turn.text_received("lo")
    turn.reasoning_received("Again.")
    turn.text_received("!")
    assert [e.delta for e in turn.events if isinstance(e, TextEvent | ReasoningEvent)] == [
        "Hm",
        ".",
        "Hel",
        "lo",
        "Again.",
        "!",
    ]
    assert turn.parts("o", "n") == (
        ReasoningPart("Hm.", "o"),
        TextPart("Hello"),
        ReasoningPart("Again.", "o"),
        TextPart("!"),
    )
    assert turn.text == "Hello!"


def test_a_delta_may_go_on_with_an_earlier_block() -> None:
    turn = make_turn()
    text = turn.text_opened()
    turn.text_received("a", text)
    thinking = turn.reasoning_received("x")
    turn.text_received("b", text)
    turn.reasoning_received("y", thinking)
    assert turn.parts("o", "n") == (TextPart("ab"), ReasoningPart("xy", "o"))


def test_a_block_that_was_opened_and_stayed_empty_or_was_dropped_is_no_part() -> None:
    turn = make_turn()
    turn.text_opened()
    turn.reasoning_opened()
    dropped = turn.text_opened()
    turn.text_received("a", dropped)
    turn.block_dropped(dropped)
    assert turn.parts("o", "n") == ()
    turn.text_received("b")
    assert turn.parts("o", "n") == (TextPart("b"),)


def test_empty_blocks_are_no_parts_unless_their_provider_wants_something_back() -> None:
    turn = make_turn()
    turn.text_received("")
    turn.reasoning_received("")
    assert turn.events == []
    assert turn.parts("o", "n") == ()
    turn.reasoning_received("").extra["signature"] = "s\ud800"
    turn.block_received({"type": "x", "n": float("inf")})
    assert turn.parts("o", "n") == (
        ReasoningPart("", "o", {"signature": "s\ufffd"}),
        OpaquePart({"type": "x", "n": None}, "o"),
    )


@pytest.mark.parametrize(
    "deltas", [["\ud83d\ude00"], ["\ud83d", "\ude00"], ["a\ud83d", "\ude00b"], ["\ud83d", "", "\ude00"]]
)
@pytest.mark.parametrize("kind", ["text_received", "reasoning_received"])
def test_the_halves_of_a_character_are_joined_across_deltas(kind: str, deltas: list[str]) -> None:
    turn = make_turn()
    for delta in deltas:
        getattr(turn, kind)(delta)
    shown = [e.delta for e in turn.events if isinstance(e, TextEvent | ReasoningEvent)]
    assert "".join(shown).strip("ab") == "😀"
    assert all(shown)
    turn.closed()
    assert len(turn.events) == len(shown)  # nothing was left over


@pytest.mark.parametrize(
    ("first", "then", "shown"),
    [
        ("\ud83d", "x", "\ufffdx"),
        ("\ud83d", "\ud83d\ude00", "\ufffd😀"),
        ("\ude00\ud83d", "x", "\ufffd\ufffdx"),
        ("a\udc80", "", "a\ufffd"),
    ],
)
def test_a_half_whose_other_half_does_not_come_is_replaced(first: str, then: str, shown: str) -> None:
    turn = make_turn()
    turn.text_received(first)
    turn.text_received(then)
    turn.closed()
    assert "".join(e.delta for e in turn.events if isinstance(e, TextEvent)) == shown == turn.text


def test_a_half_is_let_go_before_another_block_goes_on() -> None:
    turn = make_turn()
    turn.text_received("a\ud83d")
    turn.reasoning_received("")  # says nothing, so the half may still be completed
    thinking = turn.reasoning_received("Hm\ud83d")
    turn.closed()
    turn.closed()
    assert turn.events == [TextEvent("a"), TextEvent("\ufffd"), ReasoningEvent("Hm"), ReasoningEvent("\ufffd")]
    assert (turn.text, str(thinking.text)) == ("a\ufffd", "Hm\ufffd")


@given(st.lists(st.tuples(st.booleans(), st.text(st.characters(exclude_categories=()), max_size=4)), max_size=12))
def test_every_delta_can_be_encoded_and_adds_up_to_what_is_kept(deltas: list[tuple[bool, str]]) -> None:
    turn = make_turn()
    for is_text, delta in deltas:
        (turn.text_received if is_text else turn.reasoning_received)(delta)
    turn.closed()
    for kind, part in ((TextEvent, TextPart), (ReasoningEvent, ReasoningPart)):
        shown = "".join(e.delta for e in turn.events if isinstance(e, kind))
        shown.encode()
        assert shown == "".join(p.text for p in turn.parts("o", "n") if isinstance(p, part))


def test_long_text_is_joined_in_blocks_and_loses_nothing() -> None:
    pieces = Pieces()
    expected = [f"{n} " for n in range(2000)]
    for piece in expected:
        pieces.append(piece)
    assert str(pieces) == "".join(expected)
    assert str(Pieces()) == ""


# -- calls


@pytest.mark.parametrize(
    ("pieces", "args"),
    [
        ([], {}),
        ([""], {}),
        (["null"], {}),
        (["{}"], {}),
        (['{"a"', ": 1}"], {"a": 1}),
        (["{}", '{"a": 1}'], {"a": 1}),
        (["{}", ' {"a"', ": 1}"], {"a": 1}),
        (['{}{"a": 1}'], {"a": 1}),
        (['{"a": ', "1}", '{"a": 1}'], {"a": 1}),
        (["", '{"a": 1}', "", '{"a": 1}'], {"a": 1}),
    ],
)
def test_arguments_are_read_as_the_one_object_that_was_meant(pieces: list[str], args: dict[str, Any]) -> None:
    part = call(make_turn(), *pieces)
    assert (part.args, part.error, part.raw) == (args, None, None)


@pytest.mark.parametrize(
    "pieces",
    [
        ['{"a": 1'],
        ['{"a": 1}', '{"a": 2}'],
        ['{"a": 1}', '{"b": 1}'],
        ['{"a": 1}', "{}"],
        ["{}", "x"],
        ["{}{"],
        ["[1]"],
        ['"{}"'],
        ['{"a": 1, "a": 2}'],
        ["nonsense"],
    ],
)
def test_arguments_that_are_no_one_object_are_kept_as_they_came_with_the_reason(pieces: list[str]) -> None:
    part = call(make_turn(), *pieces)
    assert part.args == {}
    assert part.error
    assert part.raw
    assert part.raw in "".join(pieces)


def test_a_call_without_a_name_cannot_run() -> None:
    part = call(make_turn(), '{"a": 1}', name="")
    assert (part.args, part.error, part.raw) == ({}, "the call has no name", '{"a": 1}')


def test_calls_without_an_id_or_with_one_that_was_there_get_one_of_their_own() -> None:
    turn = make_turn()
    for id in ("", "c1", "c1", "", "c2\ud800"):
        call(turn, id=id)
    ids = [part.id for part in turn.parts("o", "n7x") if isinstance(part, ToolCallPart)]
    assert ids == ["call_n7x0", "c1", "call_n7x2", "call_n7x3", "c2\ufffd"]
    assert ids == [part.id for part in turn.parts("o", "n7x") if isinstance(part, ToolCallPart)]


def test_what_only_the_provider_understands_stays_on_the_call_fit_to_be_stored() -> None:
    turn = make_turn()
    draft = turn.call_opened()
    draft.id, draft.name, draft.extra["sig"] = "c1", "look\ud800", ["\ud800"]
    assert turn.parts("openai:x", "n") == (
        ToolCallPart("c1", "look\ufffd", {}, origin="openai:x", extra={"sig": ["\ufffd"]}),
    )


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        ([], False),
        (["{"], False),
        (["{}"], True),
        (['{"a": {}'], False),
        (['{"a": 1} '], True),
        (["{}", ""], True),
        (["}"], False),
    ],
)
def test_whole_arguments_are_known_as_such(pieces: list[str], whole: bool) -> None:
    turn = make_turn()
    draft = turn.call_opened()
    for piece in pieces:
        turn.arguments_received(draft, piece)
    assert draft.has_whole_arguments is whole


def test_calls_and_their_arguments_are_bounded() -> None:
    turn = make_turn(tool_calls_per_turn=2, tool_args_bytes=10)
    draft = turn.call_opened()
    draft.name = "look" * 1000
    turn.arguments_received(draft, "x" * 10)
    with pytest.raises(ProtocolError, match=r"exceed 10 bytes \(Limits.tool_args_bytes\)") as caught:
        turn.arguments_received(draft, "x")
    assert len(str(caught.value)) < 250
    turn.call_opened()
    with pytest.raises(ProtocolError, match=r"more than 2 tool calls .*Limits.tool_calls_per_turn"):
        turn.call_opened()


# -- usage, finish reason, end


def test_a_later_report_of_usage_replaces_an_earlier_one_and_an_unknown_count_does_not() -> None:
    turn = make_turn()
    turn.usage_reported(Usage(prompt_tokens=5, completion_tokens=1, raw=({"p": 5, "x": "\ud800"},)))
    turn.usage_reported(Usage(completion_tokens=9, total_tokens=14, raw=({"c": 9},)))
    turn.usage_reported(Usage(reasoning_tokens=0))
    assert turn.usage == Usage(
        prompt_tokens=5,
        completion_tokens=9,
        total_tokens=14,
        reasoning_tokens=0,
        raw=({"p": 5, "x": "\ufffd", "c": 9},),
    )
    json.dumps(turn.usage.raw, ensure_ascii=False).encode()


def test_the_last_finish_reason_counts_but_a_cut_stays_a_cut() -> None:
    turn = make_turn()
    turn.finish_reported("stop")
    turn.finish_reported("tool_calls")
    assert turn.finish_reason == "tool_calls"
    turn.finish_reported("length")
    turn.finish_reported("stop")
    assert turn.finish_reason == "length"


def test_patience_begins_when_the_answer_is_complete_and_shrinks_at_the_end_mark() -> None:
    turn = make_turn()
    assert turn.patience is None
    turn.complete = True
    assert turn.patience == LINGER_S == 5
    turn.ended = True
    assert turn.patience == DRAIN_S < LINGER_S


def test_a_new_turn_has_said_nothing() -> None:
    turn = make_turn()
    events: list[StreamEvent] = turn.events
    assert (events, turn.usage, turn.finish_reason, turn.complete, turn.text) == (
        [],
        None,
        None,
        False,
        "",
    )


def test_half_a_character_that_is_given_up_does_not_end_the_search_for_think_tags() -> None:
    turn = Turn(Limits(), split_think_tags=True)
    turn.reasoning_received("a\ud83d")
    turn.call_opened()
    turn.text_received("<think>b")
    turn.text_received("</think>c")
    assert (turn.text, turn.events[-1]) == ("c", TextEvent("c"))


def test_arguments_that_look_whole_again_and_again_are_looked_at_a_bounded_number_of_times() -> None:
    turn = Turn(Limits())
    call = turn.call_opened()
    turn.arguments_received(call, '{"x": "')
    for _ in range(1000):
        turn.arguments_received(call, "}")
        assert not call.has_whole_arguments
    assert call.looks < 200
