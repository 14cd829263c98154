"""A transcript that grows is spelled as it grows, and anew whenever what was remembered might not be it."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.strategies import IDS, transcripts
from toolnexus import Message, TextPart, ToolResultPart
from toolnexus._core.wire import anthropic_messages, openai_messages
from toolnexus._core.wire.spellings import Spelling, Spellings

HI, YES, MORE = Message("user", "Hi?"), Message("assistant", "Yes."), Message("user", "More.")


class Speller:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, turns: Sequence[Message]) -> list[str]:
        self.seen += [message.text for message in turns]
        return [f"<{message.text}>" for message in turns]


def test_what_was_in_the_request_before_is_not_spelled_again():
    spellings, spell = Spellings[str](), Speller()
    assert spellings.of([HI, YES], "a", spell) == ["<Hi?>", "<Yes.>"]
    assert spellings.of([HI, YES, MORE], "a", spell) == ["<Hi?>", "<Yes.>", "<More.>"]
    assert spellings.of([HI, YES, MORE], "a", spell) == ["<Hi?>", "<Yes.>", "<More.>"]
    assert spell.seen == ["Hi?", "Yes.", "More."]


def test_what_was_given_out_stays_as_it_was():
    spellings, spell = Spellings[str](), Speller()
    given = spellings.of([HI], "a", spell)
    spellings.of([HI, YES], "a", spell)
    assert given == ["<Hi?>"]


def test_it_is_spelled_anew_for_another_provider():
    spellings, spell = Spellings[str](), Speller()
    spellings.of([HI], "a", spell)
    spellings.of([HI], "b", spell)
    assert spell.seen == ["Hi?", "Hi?"]


@pytest.mark.parametrize("other", [[HI], [HI, MORE], [YES, HI, MORE], [HI, copy.deepcopy(YES), MORE], []])
def test_it_is_spelled_anew_where_it_did_not_only_grow(other):
    spellings, spell = Spellings[str](), Speller()
    spellings.of([HI, YES], "a", spell)
    spell.seen.clear()
    spellings.of(other, "a", spell)
    assert spell.seen == [message.text for message in other]


def test_results_are_spelled_with_the_message_that_asks_for_them():
    spellings, spell = Spellings[str](), Speller()
    result = Message("tool", (ToolResultPart("c1", "look", (TextPart("31C"),)),))
    spellings.of([HI, YES], "a", spell)
    spellings.of([HI, YES, result], "a", spell)
    assert spell.seen == ["Hi?", "Yes.", "Hi?", "Yes.", ""]


@given(transcripts, st.lists(st.integers(0, 12), max_size=4), st.sampled_from([None, *IDS]))
def test_a_transcript_in_steps_is_spelled_as_it_is_at_once(messages, steps, origin):
    openai, anthropic = Spellings[dict[str, object]](), Spellings[dict[str, object]]()
    given = []
    for step in [*sorted(steps), len(messages)]:
        turns = messages[:step]
        said = openai_messages.spelled(turns, origin, openai), anthropic_messages.spelled(turns, origin, anthropic)
        anew = openai_messages.to_openai(turns, origin=origin), anthropic_messages.to_anthropic(turns, origin=origin)
        given.append((said, anew))
    assert all(said == anew for said, anew in given)  # now, since what was given out must not change later


def test_what_is_the_same_in_most_requests_is_spelled_when_it_changes():
    seen: list[list[int]] = []

    def total(numbers: list[int]) -> int:
        seen.append(numbers)
        return sum(numbers)

    spelling = Spelling(total)
    first, second = [1, 2], [1, 2]
    assert [spelling.of(numbers) for numbers in (first, first, second, first)] == [3, 3, 3, 3]
    assert seen == [first, second, first]
