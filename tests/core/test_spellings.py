"""A message is spelled once, and anew whenever what was remembered might not be it."""

from __future__ import annotations

import copy

from toolnexus import Message
from toolnexus._core.wire.spellings import Spellings

HI, YES, MORE = Message("user", "Hi?"), Message("assistant", "Yes."), Message("user", "More.")


class Speller:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, message: Message) -> str:
        self.seen.append(message.text)
        return f"<{message.text}>"


def test_a_message_of_the_request_before_is_not_spelled_again():
    spellings, spell = Spellings[str](), Speller()
    assert spellings.of([HI, YES], "a", spell) == ["<Hi?>", "<Yes.>"]
    assert spellings.of([HI, YES, MORE], "a", spell) == ["<Hi?>", "<Yes.>", "<More.>"]
    assert spell.seen == ["Hi?", "Yes.", "More."]


def test_it_is_spelled_anew_for_another_provider():
    spellings, spell = Spellings[str](), Speller()
    spellings.of([HI], "a", spell)
    spellings.of([HI], "b", spell)
    assert spell.seen == ["Hi?", "Hi?"]


def test_only_the_latest_request_is_remembered():
    spellings, spell = Spellings[str](), Speller()
    for messages in ([HI], [YES], [HI]):
        spellings.of(messages, "a", spell)
    assert spell.seen == ["Hi?", "Yes.", "Hi?"]


def test_an_id_that_means_another_message_now_is_not_believed():
    spellings, spell = Spellings[str](), Speller()
    spellings.of([HI], "a", spell)
    spellings._known[id(YES)] = spellings._known.pop(id(HI))  # as after a copy of the run
    assert spellings.of([YES], "a", spell) == ["<Yes.>"]
    assert copy.deepcopy(spellings).of([HI], "a", spell) == ["<Hi?>"]
